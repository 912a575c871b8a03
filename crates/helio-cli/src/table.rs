//! Rows as a table: whole for a program or a file, and as wide as the terminal for people.

use std::io::IsTerminal as _;

use helio_report::Row;
use helio_report::select::shown;

/// The width of a terminal that does not say its own.
const WIDTH: usize = 80;
/// The length to which an id is cut that is not the row's own, in characters.
const ID: usize = 9;
/// Other cells are made no narrower than that before columns are left out.
const NARROW: usize = 10;
const BETWEEN: usize = 2;
/// The columns that say what a row is and how it is: others are left out before these.
const LEFT_OUT_LAST: [&str; 9] = [
    "name",
    "class_name",
    "state",
    "status",
    "task_status",
    "is_alive",
    "pid",
    "severity",
    "success",
];
/// The columns of which the middle is cut instead of the end: commands and paths differ at their ends.
const CUT_IN_THE_MIDDLE: [&str; 2] = ["entrypoint", "name"];
/// Names are made no narrower than that before columns are left out.
const NAME: usize = 24;
/// The length of a name's end that is kept, in characters.
const TAIL: usize = 16;
/// The cell of a value that is not there, as Python and Ray write it.
const NOTHING: &str = "None";

/// The width of the terminal that the output goes to, in characters; `None`: it goes into a file or a pipe.
pub(crate) fn terminal() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let is_width = |width: &usize| *width > 0;
    let set = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(is_width);
    let said = || rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let own = || said().map(|size| usize::from(size.ws_col)).filter(is_width);
    Some(set.or_else(own).unwrap_or(WIDTH))
}

/// A line for each row below the names of the columns, and nothing cut.
pub(crate) fn whole(rows: &[Row], columns: &[&str]) -> String {
    written(&cells(rows, columns))
}

/// The same within so many characters, and without a word for what is not there: what is the same in another column or empty in all rows is left out, then ids of other
/// things and long texts are cut, and then columns are left out: from the right, those of [`LEFT_OUT_LAST`] behind all
/// others. A last line says which.
pub(crate) fn within(width: usize, rows: &[Row], columns: &[&str]) -> String {
    let mut lines = cells(rows, columns);
    for cell in lines.iter_mut().skip(1).flatten().filter(|cell| *cell == NOTHING) {
        cell.clear();
    }
    if wide(&lines) <= width {
        return written(&lines);
    }
    let mut names: Vec<&str> = columns.to_vec();
    let mut place = 1;
    while place < names.len() {
        let values = |place: usize| lines[1..].iter().map(move |line| &line[place]);
        let says_nothing = values(place).all(String::is_empty);
        if says_nothing || (0..place).any(|before| values(before).eq(values(place))) {
            lines.iter_mut().for_each(|line| drop(line.remove(place)));
            names.remove(place);
        } else {
            place += 1;
        }
    }
    for (place, name) in names.iter().enumerate().skip(1) {
        if name.ends_with("_id") && wide(&lines) > width {
            lines.iter_mut().skip(1).for_each(|line| cut(&mut line[place], ID));
        }
    }
    // The widest of the others give way first, each down to the width of its name.
    while wide(&lines) > width {
        let of = widths(&lines);
        let least = |place: usize| NARROW.max(names[place].chars().count());
        let widest = (1..of.len()).filter(|place| of[*place] > least(*place));
        let Some(place) = widest.max_by_key(|place| of[*place]) else { break };
        let over = wide(&lines) - width;
        let to = least(place).max(of[place].saturating_sub(over));
        let is_middle = CUT_IN_THE_MIDDLE.contains(&names[place]);
        lines.iter_mut().for_each(|line| match is_middle {
            true => line[place] = middle_cut(&line[place], to),
            false => cut(&mut line[place], to),
        });
    }
    let full = names.clone();
    while wide(&lines) > width && names.len() > 1 {
        let is_less = |name: &&str| !LEFT_OUT_LAST.contains(name);
        let less = names[1..].iter().rposition(is_less).map(|place| place + 1);
        let place = less.unwrap_or(names.len() - 1);
        lines.iter_mut().for_each(|line| drop(line.remove(place)));
        names.remove(place);
    }
    let mut text = written(&lines);
    let left_out: Vec<&str> = full.into_iter().filter(|name| !names.contains(name)).collect();
    if !left_out.is_empty() {
        let said =
            format!("Too wide to show here: {}. Use --wide to see them.", left_out.join(", "));
        text.push_str(&folded(&said, width));
    }
    text
}

/// Rows whose first column is a name instead of an id: the middle of long names gives way before other columns do.
pub(crate) fn named_within(width: usize, rows: &[Row], columns: &[&str]) -> String {
    let lines = cells(rows, columns);
    let others: usize = widths(&lines).iter().skip(1).map(|wide| wide + BETWEEN).sum();
    let room = width.saturating_sub(others).max(NAME);
    let mut shortened = rows.to_vec();
    for row in &mut shortened {
        if let Some(name) = columns.first().and_then(|first| row.get_mut(*first)) {
            *name = middle_cut(&shown(name), room).into();
        }
    }
    within(width, &shortened, columns)
}

/// A text of at most so many characters: of a longer one the middle is left out, as names differ at their ends.
fn middle_cut(text: &str, width: usize) -> String {
    let long = text.chars().count();
    if long <= width {
        return text.to_owned();
    }
    let tail = (width.saturating_sub(1) / 2).min(TAIL);
    let head = width.saturating_sub(1 + tail);
    text.chars().take(head).chain(['…']).chain(text.chars().skip(long - tail)).collect()
}

/// A sentence in lines of so many characters.
fn folded(sentence: &str, width: usize) -> String {
    let mut text = String::new();
    let mut used = 0;
    for word in sentence.split(' ') {
        let long = word.chars().count();
        if used > 0 && used + 1 + long > width {
            text.push('\n');
            used = 0;
        } else if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += long;
    }
    text.push('\n');
    text
}

fn cells(rows: &[Row], columns: &[&str]) -> Vec<Vec<String>> {
    let names = columns.iter().map(|name| name.to_uppercase()).collect();
    let cells = |row: &Row| {
        columns.iter().map(|name| row.get(*name).map(shown).unwrap_or_default()).collect()
    };
    std::iter::once(names).chain(rows.iter().map(cells)).collect()
}

fn cut(cell: &mut String, width: usize) {
    if cell.chars().count() > width {
        *cell = cell.chars().take(width.saturating_sub(1)).chain(['…']).collect();
    }
}

fn widths(lines: &[Vec<String>]) -> Vec<usize> {
    let width =
        |place: usize| lines.iter().map(|line| line[place].chars().count()).max().unwrap_or(0);
    (0..lines[0].len()).map(width).collect()
}

fn wide(lines: &[Vec<String>]) -> usize {
    let widths = widths(lines);
    widths.iter().sum::<usize>() + BETWEEN * widths.len().saturating_sub(1)
}

fn written(lines: &[Vec<String>]) -> String {
    let widths = widths(lines);
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join(&" ".repeat(BETWEEN)).trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(values: &[serde_json::Value]) -> Vec<Row> {
        values.iter().filter_map(|row| row.as_object().cloned()).collect()
    }

    #[test]
    fn a_table_is_as_wide_as_its_cells() {
        let rows = rows(&[json!({"id": "ab", "n": 1}), json!({"id": "abcd", "n": 22})]);
        let text = "ID    N\nab    1\nabcd  22\n";
        assert_eq!(whole(&rows, &["id", "n"]), text);
        assert_eq!(within(8, &rows, &["id", "n"]), text);
    }

    #[test]
    fn a_table_fits_into_a_terminal_and_its_first_column_is_whole() {
        let id = "c8ef45ccd0112571ffffffffffffffffffffffff01000000";
        let call = |name: &str, node: &str| {
            json!({
                "task_id": id, "name": name, "state": "FINISHED", "func": name, "node_id": node, "error": null,
                "why": "It waits for one CPU more than there is on any of the nodes.",
            })
        };
        let rows = rows(&[
            call("short", "ffeeddccbbaa99887766554433221100"),
            call("a_name_that_is_long", "00112233445566778899"),
        ]);
        let columns = ["task_id", "name", "state", "func", "node_id", "error", "why"];
        for width in [200, 120, 100, 90, 80, 60] {
            let text = within(width, &rows, &columns);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            assert_eq!(text.contains("Too wide to show here"), width <= 90, "{width}: {text}");
            assert!(text.contains(id), "{text}");
            assert!(!text.contains("FUNC") && !text.contains("ERROR"), "{text}");
        }
        let text = within(80, &rows, &columns);
        assert!(text.contains("NAME") && text.contains("FINISHED"), "how the row is stays: {text}");
        let text = within(120, &rows, &columns);
        assert!(text.contains("ffeeddcc…") && text.contains("It waits for"), "{text}");
        assert!(whole(&rows, &columns).contains("FUNC"));
    }

    #[test]
    fn a_command_keeps_its_end_and_what_is_not_there_is_left_blank() {
        let entrypoint = "/home/somebody/projects/vision/.venv/bin/python train.py";
        let rows = rows(&[
            json!({"job_id": "01000000", "submission_id": null, "entrypoint": entrypoint, "status": "RUNNING"}),
            json!({"job_id": "02000000", "submission_id": "raysubmit_xyz", "entrypoint": "python x.py", "status": "FAILED"}),
        ]);
        let columns = ["job_id", "submission_id", "entrypoint", "status"];
        let text = within(60, &rows, &columns);
        assert!(text.contains("n train.py") && !text.contains("None"), "{text}");
        assert!(whole(&rows, &columns).contains("None"), "as Ray's programs expect");
    }
}
