//! The cluster's token: what a process must know to be answered on any port (AUTH-1).
//!
//! With AUTH_MODE=disabled it is [`OPEN_TOKEN`], which everybody knows and nobody is asked for. Else
//! it is looked for in this order: the setting AUTH_TOKEN, the file that AUTH_TOKEN_PATH
//! names, `~/.heliostat/auth_token`. The first start on a machine makes that last
//! file, which only its owner can read.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use helio_config::table::{AUTH_MODE, AUTH_TOKEN, AUTH_TOKEN_PATH};
use helio_types::OPEN_TOKEN;

/// The token of this user's clusters, if there is one.
///
/// # Errors
/// When a file that should hold it cannot be read, or is empty.
pub fn load() -> io::Result<Option<String>> {
    find(|name| std::env::var_os(name))
}

/// The token, made and kept when there is none.
///
/// # Errors
/// When it cannot be read, or the new one cannot be kept.
pub fn load_or_create() -> io::Result<String> {
    if let Some(token) = load()? {
        return Ok(token);
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.ok_or_else(|| {
        let hint = "there is no token and no HOME to keep a new one in: set HELIOSTAT_AUTH_TOKEN";
        io::Error::new(io::ErrorKind::NotFound, hint)
    })?;
    let path = default_file(Path::new(&home));
    create(&path).map_err(|error| {
        io::Error::new(error.kind(), format!("{} cannot be made: {error}", path.display()))
    })
}

/// The file that the token is read from; `None` where a variable of the environment has it.
#[must_use]
pub fn file() -> Option<PathBuf> {
    match place(|name| std::env::var_os(name)) {
        Ok(Place::Named(path) | Place::Default(path)) => Some(path),
        Ok(Place::Variable(_) | Place::Nowhere) | Err(_) => None,
    }
}

/// The place of the token.
enum Place {
    Variable(String),
    /// A file that has to be there.
    Named(PathBuf),
    /// The one that the first start makes.
    Default(PathBuf),
    Nowhere,
}

fn place(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> io::Result<Place> {
    let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
    let wrong = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    if AUTH_MODE.read(&text).map_err(wrong)? == "disabled" {
        return Ok(Place::Variable(OPEN_TOKEN.to_owned()));
    }
    let named = AUTH_TOKEN.read(&text).map_err(wrong)?.trim().to_owned();
    if !named.is_empty() {
        return Ok(Place::Variable(named));
    }
    for name in AUTH_TOKEN_PATH.row.variables() {
        if let Some(path) = variable(&name).filter(|path| !path.is_empty()) {
            return Ok(Place::Named(path.into()));
        }
    }
    let home = variable("HOME").filter(|home| !home.is_empty());
    Ok(home.map_or(Place::Nowhere, |home| Place::Default(default_file(Path::new(&home)))))
}

fn find(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> io::Result<Option<String>> {
    match place(variable)? {
        Place::Variable(token) => Ok(Some(token)),
        Place::Named(path) => read(&path).map(Some),
        Place::Default(path) => match read(&path) {
            Ok(token) => Ok(Some(token)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        },
        Place::Nowhere => Ok(None),
    }
}

fn default_file(home: &Path) -> PathBuf {
    home.join(".heliostat").join("auth_token")
}

fn read(path: &Path) -> io::Result<String> {
    let told =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let token = fs::read_to_string(path).map_err(told)?.trim().to_owned();
    if token.is_empty() {
        let empty = format!("{}: the token file is empty", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, empty));
    }
    Ok(token)
}

/// A token that nobody has yet: 256 random bits, as hexadecimal digits.
#[must_use]
pub fn fresh() -> String {
    let bytes: [u8; 32] = crate::random::bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Several processes may start first at once: each writes a file of its own, and the one that is linked
/// first counts for all.
fn create(path: &Path) -> io::Result<String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let token = fresh();
    let draft = crate::draft::beside(path);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(token.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Ok(()) => Ok(token),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("helio-env-token-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// AUTH-1: the file is its owner's alone, and all who start at once agree.
    #[test]
    fn the_first_start_makes_a_token_that_all_share() {
        let home = Home::new("create");
        let file = default_file(&home.0);
        let racers: Vec<_> = (0..8)
            .map(|_| {
                let file = file.clone();
                std::thread::spawn(move || create(&file).unwrap())
            })
            .collect();
        let tokens: Vec<String> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
        assert!(tokens.iter().all(|token| *token == tokens[0] && token.len() == 64));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777,
            0o700
        );
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no drafts are left");
    }

    #[test]
    fn the_nearest_source_counts() {
        let home = Home::new("order");
        create(&default_file(&home.0)).unwrap();
        let path = home.0.join("other");
        fs::write(&path, " from a path\n").unwrap();
        let check = |set: &[(&str, &str)], expect: Option<&str>| {
            let found = find(|name| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into())
            });
            let found = found.unwrap();
            match expect {
                Some(expect) => assert_eq!(found.as_deref(), Some(expect)),
                None => assert_eq!(found.map(|token| token.len()), Some(64)),
            }
        };
        let home_text = home.0.to_str().unwrap();
        let path_text = path.to_str().unwrap();
        check(&[("HOME", home_text)], None);
        check(&[("HOME", home_text), ("RAY_AUTH_TOKEN_PATH", path_text)], Some("from a path"));
        check(
            &[("HOME", home_text), ("HELIOSTAT_AUTH_TOKEN_PATH", path_text)],
            Some("from a path"),
        );
        check(&[("RAY_AUTH_TOKEN", "ray"), ("RAY_AUTH_TOKEN_PATH", path_text)], Some("ray"));
        check(&[("RAY_AUTH_TOKEN", "ray"), ("HELIOSTAT_AUTH_TOKEN", "own")], Some("own"));
        check(&[("HELIOSTAT_AUTH_TOKEN", ""), ("HOME", home_text)], None);
        check(&[("RAY_AUTH_TOKEN", "ray"), ("HELIOSTAT_AUTH_TOKEN", "")], Some("ray"));
        let both = [("RAY_AUTH_MODE", "disabled"), ("RAY_AUTH_TOKEN", "ray"), ("HOME", home_text)];
        check(&both, Some(OPEN_TOKEN));
        check(&[("RAY_AUTH_MODE", "token"), ("RAY_AUTH_TOKEN", "ray")], Some("ray"));
        let slip = find(|name| (name == "RAY_AUTH_MODE").then(|| "disable".into()));
        assert!(slip.unwrap_err().to_string().contains("token, disabled"));
        assert_eq!(find(|_| None).unwrap(), None);
        let missing = find(|name| (name == "RAY_AUTH_TOKEN_PATH").then(|| "/nowhere/token".into()));
        assert!(missing.unwrap_err().to_string().contains("/nowhere/token"));
    }
}
