//! Machines made of sub-machines: each keeps its state to itself.
//!
//! In the crates of [`MACHINES`], a type that changes itself (`&mut self`) has private fields, the methods of
//! the whole are in its folder alone, and each event has a handler named after it.
//!
//! In no crate do files use each other in a circle. What two files need stands in a third one that needs neither; a
//! `mod.rs` that its children name holds no names of theirs, and one that gives their names on is named by none of them.
//! A file that only adds methods to a type is named by nobody, so it may name all.

use std::collections::{BTreeMap, BTreeSet};

use super::Source;

/// (crate, its type that owns the sub-machines, the folder of that type's methods).
const MACHINES: &[(&str, &str, &str)] = &[
    ("helio-control-state", "Control", "rules"),
    ("helio-node-state", "Node", "node"),
    ("helio-owner-state", "Owner", "owner"),
    ("helio-process-state", "Process", "process"),
];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    for (krate, whole, folder) in MACHINES {
        let files = files_of(krate, sources);
        problems.extend(open_fields(&files));
        problems.extend(foreign_methods(&files, whole, folder));
        problems.extend(unnamed_handlers(&files));
    }
    let crates: BTreeSet<&str> = sources
        .iter()
        .filter_map(|source| source.path.strip_prefix("crates/")?.split('/').next())
        .collect();
    for krate in crates {
        let say = |circle| format!("crates/{krate}/src/: {circle}");
        problems.extend(circles(&files_of(krate, sources)).into_iter().map(say));
    }
    problems
}

/// The Rust files of a crate, by their path below `src`; tests are left out.
fn files_of<'a>(krate: &str, sources: &'a [Source]) -> BTreeMap<&'a str, &'a Source> {
    let root = format!("crates/{krate}/src/");
    let rust = sources.iter().filter(|source| source.is("rs") && !source.is_test());
    rust.filter_map(|source| Some((source.path.strip_prefix(&*root)?, source))).collect()
}

fn code(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    source.code().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The name after `word`, as in `struct Name`.
fn named<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let rest = &line[line.find(word)? + word.len()..];
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').find(|name| !name.is_empty())
}

/// The type of an `impl` line, with or without generics.
fn implemented(line: &str) -> Option<&str> {
    let types = line.strip_prefix("impl")?;
    let types = match types.strip_prefix('<') {
        Some(generics) => generics.split_once("> ")?.1,
        None => types,
    };
    named(types.rsplit(" for ").next().unwrap_or(types), "")
}

/// Fields that others can reach, of types that change themselves.
fn open_fields(files: &BTreeMap<&str, &Source>) -> Vec<String> {
    let mut changing: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<(String, &str)> = Vec::new();
    for source in files.values() {
        let (mut subject, mut fields_of) = (None, None);
        for (number, line) in code(source) {
            if line.starts_with("impl") {
                subject = implemented(line);
            } else if line.contains("struct ") && line.ends_with('{') {
                fields_of = named(line, "struct ");
            } else if line.starts_with('}') {
                (subject, fields_of) = (None, None);
            } else if line.contains("&mut self") {
                changing.extend(subject);
            } else if let Some(name) = fields_of
                && (line.starts_with("    pub ") || line.starts_with("    pub("))
            {
                open.push((format!("{}:{number}", source.path), name));
            }
        }
    }
    let reachable = open.into_iter().filter(|(_, name)| changing.contains(name));
    let say = |(place, name): (String, &str)| {
        format!("{place}: {name} changes itself, so its fields are private: give it a method")
    };
    reachable.map(say).collect()
}

/// Methods of the whole outside its folder: a sub-machine that reaches around itself.
fn foreign_methods(files: &BTreeMap<&str, &Source>, whole: &str, folder: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let folder = format!("{folder}/");
    for (name, source) in files.iter().filter(|(name, _)| !name.starts_with(&folder)) {
        for (number, line) in code(source) {
            if line.starts_with("impl") && implemented(line) == Some(whole) {
                problems.push(format!(
                    "crates file {name}:{number}: methods of {whole} belong into {folder}"
                ));
            }
        }
    }
    problems
}

/// Variants of the crate's `Event` without a handler `on_<event>`.
fn unnamed_handlers(files: &BTreeMap<&str, &Source>) -> Vec<String> {
    let mut problems = Vec::new();
    let all: String = files.values().map(|source| source.parts().0).collect();
    let Some(event) = files.get("event.rs") else { return problems };
    let mut is_inside = false;
    for (number, line) in code(event) {
        is_inside = (is_inside || line.starts_with("pub enum Event")) && !line.starts_with('}');
        let variant = line.strip_prefix("    ").and_then(|line| line.split([' ', ',', '(']).next());
        let Some(variant) = variant.filter(|name| name.starts_with(char::is_uppercase)) else {
            continue;
        };
        let snake: String = variant
            .char_indices()
            .flat_map(|(at, c)| {
                let gap = (at > 0 && c.is_uppercase()).then_some('_');
                gap.into_iter().chain(c.to_lowercase())
            })
            .collect();
        if is_inside && variant != "Tick" && !all.contains(&format!("fn on_{snake}(")) {
            problems
                .push(format!("{}:{number}: name the handler of {variant} on_{snake}", event.path));
        }
    }
    problems
}

/// Sets of files that use each other.
fn circles(files: &BTreeMap<&str, &Source>) -> Vec<String> {
    let modules: BTreeMap<String, &str> =
        files.keys().map(|file| (module(file).join("::"), *file)).collect();
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (file, source) in files {
        let text: String = code(source).map(|(_, line)| line).collect::<Vec<_>>().join(" ");
        for path in used_paths(&text) {
            let target = (1..=path.len())
                .rev()
                .find_map(|n| modules.get(&absolute(&module(file), &path[..n])?));
            if let Some(target) = target.filter(|target| *target != file && **target != "lib.rs") {
                edges.entry(file).or_default().insert(target);
            }
        }
    }
    super::modules::circles(&edges)
}

/// The module that a file is: `store/mod.rs` is `store`.
fn module(file: &str) -> Vec<&str> {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').filter(|part| *part != "lib").collect()
}

/// A used path from the crate's root.
fn absolute(at: &[&str], path: &[&str]) -> Option<String> {
    let mut whole: Vec<&str> = match *path.first()? {
        "crate" => Vec::new(),
        "super" => at[..at.len().checked_sub(1)?].to_vec(),
        _ => at.to_vec(),
    };
    let rest = path.iter().skip_while(|part| ["crate", "super", "self"].contains(part));
    whole.extend(rest);
    Some(whole.join("::"))
}

/// The paths of all `use` declarations, their braces written out.
fn used_paths(text: &str) -> Vec<Vec<&str>> {
    let mut paths = Vec::new();
    for declaration in text.split("use ").skip(1) {
        let Some(end) = declaration.find(';') else { continue };
        let (mut prefixes, mut path) = (Vec::new(), Vec::new());
        // What stands before braces is a prefix and not itself used.
        let mut is_closed = false;
        let declaration = &declaration[..end];
        let mut rest = declaration;
        while !rest.is_empty() {
            let length =
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            if length > 0 {
                path.push(&rest[..length]);
                is_closed = false;
                rest = &rest[length..];
                continue;
            }
            match rest.as_bytes()[0] {
                b'{' => prefixes.push(path.len()),
                b',' | b'}' => {
                    if !is_closed {
                        paths.push(path.clone());
                    }
                    is_closed = true;
                    path.truncate(prefixes.last().copied().unwrap_or(0));
                    if rest.starts_with('}') {
                        prefixes.pop();
                    }
                }
                _ => {}
            }
            rest = &rest[1..];
        }
        if !is_closed {
            paths.push(path);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn check_files(files: &[(&str, &str)]) -> Vec<String> {
        let path = |name: &str| format!("crates/helio-node-state/src/{name}");
        let sources: Vec<Source> =
            files.iter().map(|(name, text)| source(&path(name), text)).collect();
        check(&sources)
    }

    #[test]
    fn what_changes_itself_keeps_its_fields() {
        let text = |field: &str| {
            format!(
                "pub(crate) struct Pool {{\n    {field}: u32,\n}}\nimpl Pool {{\n    fn on_x(&mut self) {{}}\n}}\n"
            )
        };
        assert_eq!(check_files(&[("pool.rs", &text("size"))]), Vec::<String>::new());
        assert_eq!(check_files(&[("pool.rs", &text("pub(crate) size"))]).len(), 1);
        let word = "pub(crate) struct Gone {\n    pub(crate) size: u32,\n}\n";
        assert_eq!(check_files(&[("pool.rs", word)]), Vec::<String>::new());
    }

    #[test]
    fn a_sub_machine_does_not_add_methods_to_the_whole() {
        let text = "impl Node {\n    fn x(&mut self) {}\n}\n";
        assert_eq!(check_files(&[("pool.rs", text)]).len(), 1);
        assert_eq!(check_files(&[("node/pool.rs", text)]), Vec::<String>::new());
    }

    #[test]
    fn an_event_has_a_handler_of_its_name() {
        let event =
            "pub enum Event {\n    WorkerExited {\n        why: u8,\n    },\n    Tick,\n}\n";
        assert_eq!(check_files(&[("event.rs", event)]).len(), 1);
        let handler = "fn on_worker_exited() {}\n";
        let files = [("event.rs", event), ("node/mod.rs", handler)];
        assert_eq!(check_files(&files), Vec::<String>::new());
    }

    #[test]
    fn circles_are_found_through_braces_and_folders() {
        let files = [
            ("a.rs", "use crate::{Conn, b::{B, C}};\n"),
            ("b/mod.rs", "mod c;\nuse c::D;\n"),
            ("b/c.rs", "use crate::a::A;\n"),
            ("lib.rs", "pub use a::A;\n"),
        ];
        let found = check_files(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with("import circle: a.rs, b/c.rs, b/mod.rs"), "{found:?}");
        assert_eq!(check_files(&files[..2]), Vec::<String>::new());
        let (front, leaves) =
            (("b/mod.rs", "mod c;\nuse c::D;\n"), [("b/d.rs", ""), ("b/e.rs", "")]);
        let child = |text| [front, ("b/c.rs", text), leaves[0], leaves[1]];
        assert_eq!(check_files(&child("use super::{d, e::E,};\n")), Vec::<String>::new());
        assert_eq!(check_files(&child("use super::{d, B};\n")).len(), 1);
    }

    #[test]
    fn no_crate_has_circles() {
        let path = |name: &str| format!("crates/helio-cli/src/{name}.rs");
        let circle = [("a", "use crate::b::B;\n"), ("b", "use crate::a::A;\n")];
        let sources: Vec<Source> =
            circle.iter().map(|(name, text)| source(&path(name), text)).collect();
        assert_eq!(check(&sources), ["crates/helio-cli/src/: import circle: a.rs, b.rs"]);
    }

    #[test]
    fn a_type_with_parameters_is_found_by_its_name() {
        assert_eq!(implemented("impl<M: Memory> Process<M> {"), Some("Process"));
        assert_eq!(implemented("impl Drop for Lock<'_> {"), Some("Lock"));
        assert_eq!(implemented("impl<T: Rare> Deref for Lazy<T> {"), Some("Lazy"));
    }
}
