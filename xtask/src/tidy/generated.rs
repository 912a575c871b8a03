//! Files that are written from tables say what the tables say.

use super::Source;
use super::settings::PAGE;
use crate::rows;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let settings = (PAGE, helio_config::page::page(), "settings");
    let rows = (rows::MODULE, rows::module(), "rows");
    let page = (rows::PAGE, rows::page(), "rows");
    let stale = [settings, rows, page].into_iter().filter(|(path, text, _)| {
        !sources.iter().any(|source| source.path == *path && source.text == *text)
    });
    stale.map(|(path, _, task)| format!("{path} is stale: run `cargo xtask {task}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    #[test]
    fn a_stale_file_is_found() {
        let page = || source(PAGE, &helio_config::page::page());
        let module = || source(rows::MODULE, &rows::module());
        let types = || source(rows::PAGE, &rows::page());
        assert_eq!(check(&[page(), module(), types()]).len(), 0);
        assert_eq!(check(&[source(PAGE, "old"), module(), types()]).len(), 1);
        assert_eq!(check(&[page(), types()]).len(), 1);
        assert_eq!(check(&[page(), module(), source(rows::PAGE, "old")]).len(), 1);
    }
}
