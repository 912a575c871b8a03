//! Words that must not reach the main branch, doc comments that say nothing, and files that have grown long.

use super::Source;

const LONG: usize = 800;

/// (what is banned, what to do instead).
const BANNED: &[(&str, &str)] = &[
    ("FIXME", "mend it before it lands"),
    ("dbg!(", "use the log"),
    ("todo!(", "write it, or refuse with an error"),
    ("<<<<<<< ", "an unresolved conflict"),
];

/// Tests whose programs stop at breakpoints.
const BREAKPOINTS: [&str; 2] = ["tests/api/test_debugging.py", "tests/api/test_source_places.py"];

/// Words that alone tell a reader nothing. A doc comment has to have another one, or name a thing of the code.
const EMPTY: &str = "a all an and another any anybody anything are as asks both by counts did do does everybody \
    everything for from grows happen happened happens here how in is it its itself kind less \
    many measurements more much no nobody not nothing of on one ones only or other others out \
    over request rest returned runs saw sentence sentences so some somebody someone something \
    such that the them there these they thing things this those to was were what when where \
    which who whom whose why with";

/// Words with which no doc comment and no docstring begins: a reader would have to find out from the code what is meant.
/// "The number of rows.", not "How many rows there are."
const HEADLESS: [&str; 15] = [
    "How", "It", "Its", "Of", "One", "They", "Those", "What", "Whatever", "When", "Where", "Which",
    "Who", "Whoever", "Whose",
];

/// Further words with which no doc comment of Rust begins.
const HEADLESS_IN_RUST: [&str; 5] = ["Such", "That", "Their", "These", "This"];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut problems = empty_docs(sources);
    problems.extend(headless_docs(sources));
    problems.extend(headless_docstrings(sources));
    let code = |source: &&Source| !source.is("md") && !source.path.ends_with("tidy/words.rs");
    for source in sources.iter().filter(code) {
        for (line, number) in source.text.lines().zip(1..) {
            let reasons = BANNED.iter().filter(|(word, _)| line.contains(word));
            for (word, instead) in reasons {
                problems.push(format!("{}:{number}: `{word}`: {instead}", source.path));
            }
            if left_breakpoint(line) && !BREAKPOINTS.contains(&source.path.as_str()) {
                problems.push(format!("{}:{number}: a debugger's call was left", source.path));
            }
            if !source.is_test() && is_no_noun(line) {
                let path = &source.path;
                problems
                    .push(format!("{path}:{number}: a message says \"is no\": write \"is not a\""));
            }
            if bare_todo(line) {
                let path = &source.path;
                problems.push(format!("{path}:{number}: a TODO names its issue: TODO(#12)"));
            }
        }
    }
    problems
}

/// A call that stops the program; text that speaks of it is none.
fn left_breakpoint(line: &str) -> bool {
    line.trim_start().starts_with("breakpoint()")
}

/// "X is no Y" in a string: English says "X is not a Y". Of things that are missing it is right: "there is no Y".
fn is_no_noun(line: &str) -> bool {
    line.match_indices(" is no ").any(|(at, found)| {
        let (before, after) = (&line[..at], &line[at + found.len()..]);
        let is_in_string = before.matches('"').count() % 2 == 1;
        let is_of_nothing = before.to_lowercase().ends_with("there");
        is_in_string && !is_of_nothing && !["longer", "more"].iter().any(|w| after.starts_with(w))
    })
}

/// Doc comments of one line that say nothing of what they stand before.
fn empty_docs(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    for source in sources.iter().filter(|source| source.is("rs")) {
        let doc = |line: &&str| line.trim_start().starts_with("///");
        let lines: Vec<&str> = source.text.lines().collect();
        for (place, line) in lines.iter().enumerate().filter(|(_, line)| doc(line)) {
            let before = place.checked_sub(1).and_then(|before| lines.get(before));
            let is_alone = !before.is_some_and(doc) && !lines.get(place + 1).is_some_and(doc);
            let text = line.trim_start().trim_start_matches('/').trim();
            if is_alone && says_nothing(text) {
                let at = format!("{}:{}", source.path, place + 1);
                problems.push(format!("{at}: `{text}` tells a reader nothing: name the thing"));
            }
        }
    }
    problems
}

/// Doc comments that begin with a word of [`HEADLESS`] or [`HEADLESS_IN_RUST`] in the place of a noun or a verb.
fn headless_docs(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    for source in sources.iter().filter(|source| source.is("rs")) {
        let mut before = None;
        for (line, number) in source.text.lines().zip(1..) {
            let line = line.trim_start();
            let mark = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark));
            let text = line.trim_start_matches(['/', '!']).trim_start();
            let first = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            let is_banned = HEADLESS.contains(&first) || HEADLESS_IN_RUST.contains(&first);
            if mark.is_some() && mark != before && is_banned {
                let at = format!("{}:{number}", source.path);
                problems.push(format!("{at}: a doc comment begins with `{first}`: name the thing"));
            }
            before = mark;
        }
    }
    problems
}

/// Docstrings of the package, and of the helpers of tests, that begin with a word of [`HEADLESS`].
fn headless_docstrings(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    let is_read = |source: &&Source| {
        let is_ours = ["python/", "tests/helpers/"].iter().any(|at| source.path.starts_with(at));
        is_ours && (source.is("py") || source.is("pyi"))
    };
    for source in sources.iter().filter(is_read) {
        let mut is_head = true; // of the module, or the line before begins a block
        for (line, number) in source.text.lines().map(str::trim).zip(1..) {
            let text = line.trim_start_matches('r').strip_prefix("\"\"\"").filter(|_| is_head);
            let first = text.and_then(|text| text.split(|c: char| !c.is_ascii_alphabetic()).next());
            if let Some(first) = first.filter(|word| HEADLESS.contains(word)) {
                let at = format!("{}:{number}", source.path);
                problems.push(format!("{at}: a docstring begins with `{first}`: name the thing"));
            }
            if !line.is_empty() && !line.starts_with('#') {
                is_head = line.ends_with(':');
            }
        }
    }
    problems
}

fn says_nothing(text: &str) -> bool {
    if text == "See the module." {
        return true;
    }
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '\'' || c == ' ';
    let text = text.trim_end_matches('.');
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    text.chars().all(is_letter)
        && words.all(|word| EMPTY.split(' ').any(|empty| word.eq_ignore_ascii_case(empty)))
}

fn bare_todo(line: &str) -> bool {
    line.match_indices("TODO").any(|(at, word)| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back().is_some_and(is_word);
        let rest = &line[at + word.len()..];
        let after = rest.chars().next().is_some_and(is_word);
        let issue =
            rest.strip_prefix("(#").is_some_and(|r| r.starts_with(|c: char| c.is_numeric()));
        !before && !after && !issue
    })
}

/// Not an error: a question. Does each still own one thing?
pub(super) fn long_files(sources: &[Source]) -> Vec<String> {
    let mut long: Vec<(usize, &str)> = sources
        .iter()
        .filter(|source| source.is("rs") || source.is("py"))
        .map(|source| (source.text.lines().count(), source.path.as_str()))
        .filter(|(lines, _)| *lines > LONG)
        .collect();
    long.sort_unstable_by(|a, b| b.cmp(a));
    long.iter().map(|(lines, path)| format!("{path} has {lines} lines")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn problems(text: &str) -> usize {
        check(&[source("crates/x/src/a.rs", text)]).len()
    }

    #[test]
    fn reminders_are_found() {
        assert_eq!(problems("// FIXME soon\nlet x = dbg!(1);\n    todo!()\n"), 3);
        assert_eq!(problems("plain\n"), 0);
    }

    #[test]
    fn a_breakpoint_is_found_and_text_about_it_is_not() {
        assert!(left_breakpoint("    breakpoint()  # here"));
        assert!(!left_breakpoint("    # `breakpoint()` stops here"));
    }

    #[test]
    fn a_doc_comment_names_its_thing() {
        assert_eq!(
            problems("    /// Other.\n    node: NodeId,\n    /// Only grows.\n    n: u8,\n"),
            2
        );
        assert_eq!(problems("///\nfn f() {}\n"), 1);
        assert_eq!(problems("/// See the module.\nstruct Exits {}\n"), 1);
        assert_eq!(problems("/// Other.\n/// 0: any.\nport: u16,\n/// See [`Node`].\n"), 0);
        assert_eq!(problems("/// More\n/// nodes.\nnode: NodeId,\n"), 0);
        assert_eq!(problems("/// The sender.\nfrom: NodeId,\n"), 0);
    }

    #[test]
    fn a_doc_comment_begins_with_its_thing() {
        assert_eq!(problems("//! What a node runs.\n\nuse std::fs;\n"), 1);
        assert_eq!(problems("    /// Who's next.\n    node: NodeId,\n"), 1);
        assert_eq!(problems("/// It has ended,\n/// long ago.\nEnded,\n"), 1);
        assert_eq!(problems("/// How many nodes live.\nn: u8,\n"), 1);
        assert_eq!(problems("/// This node has it.\nLocal,\n"), 1);
        assert_eq!(problems("/// Thistles.\nn: u8,\n/// Whether it lives.\nlives: bool,\n"), 0);
        assert_eq!(problems("/// The number of nodes:\n/// Those that live.\nn: u8,\n"), 0);
        assert_eq!(problems("/// Items of a stream.\nitems: u8,\n// It is checked.\n"), 0);
    }

    #[test]
    fn a_docstring_begins_with_its_thing() {
        let of = |path: &str, text: &str| check(&[source(path, text)]).len();
        let text =
            "\"\"\"How a run is seen.\"\"\"\n\ndef rows() -> int:\n    \"\"\"One for each.\"\"\"\n";
        assert_eq!(of("python/heliostat/a.py", text), 2);
        assert_eq!(of("tests/helpers/a.py", text), 2);
        assert_eq!(of("tests/api/test_a.py", text), 0);
        let fine = "\"\"\"Views of a run.\n\nWhere none is, it is plain.\n\"\"\"\nTEXT = (\n    \"\"\"It is.\"\"\"\n)\n";
        assert_eq!(of("python/heliostat/a.py", fine), 0);
    }

    #[test]
    fn a_message_does_not_say_that_something_is_no_thing() {
        assert_eq!(problems("raise ValueError(f\"{name!r} is no number.\")\n"), 1);
        assert_eq!(
            problems("return Err(\"the key is no longer there, and is no id\".into());\n"),
            1
        );
        assert_eq!(
            problems("raise ValueError(\"There is no number, or it is no longer one.\")\n"),
            0
        );
        assert_eq!(problems("// A ring is no list: it has no end.\n"), 0);
    }

    #[test]
    fn a_todo_needs_its_issue() {
        assert_eq!(problems("// TODO later"), 1);
        assert_eq!(problems("// TODO(later)"), 1);
        assert_eq!(problems("// TODO(#7): later"), 0);
        assert_eq!(problems("const TODOS: u8 = 1; MY_TODO"), 0);
    }

    #[test]
    fn long_files_are_named_longest_first() {
        let long = source("b.py", &"x\n".repeat(LONG + 1));
        let longer = source("a.rs", &"x\n".repeat(LONG + 2));
        let fine = source("c.rs", &"x\n".repeat(LONG));
        let prose = source("d.md", &"x\n".repeat(LONG + 9));
        let warnings = long_files(&[long, longer, fine, prose]);
        assert_eq!(warnings, ["a.rs has 802 lines", "b.py has 801 lines"]);
    }
}
