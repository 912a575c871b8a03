//! Crates depend downwards only.
//!
//! **LAYER-1** Pure crates: time and randomness arrive as arguments; no I/O, no async.
//! **LAYER-2** Control, node and worker share only wire words: no service depends on another.

use super::Source;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Words,
    Pure,
    Effects,
    Services,
    Fronts,
    Proof,
}

use Layer::{Effects, Fronts, Proof, Pure, Services, Words};

/// A crate may depend on every lower layer, and in its own on those named here.
const CRATES: &[(&str, Layer, &[&str])] = &[
    ("helio-types", Words, &[]),
    ("helio-config", Words, &["helio-types"]),
    ("helio-proto", Pure, &[]),
    ("helio-scheduler", Pure, &["helio-proto"]),
    ("helio-control-state", Pure, &["helio-proto", "helio-scheduler"]),
    ("helio-node-state", Pure, &["helio-proto", "helio-scheduler"]),
    ("helio-owner-state", Pure, &["helio-proto", "helio-scheduler"]),
    ("helio-process-state", Pure, &["helio-proto", "helio-owner-state"]),
    ("helio-report", Pure, &["helio-proto", "helio-scheduler"]),
    ("helio-returns", Pure, &[]),
    ("helio-turns", Pure, &[]),
    ("helio-env", Effects, &[]),
    ("helio-tls", Effects, &["helio-env"]),
    ("helio-rpc", Effects, &["helio-env", "helio-tls"]),
    ("helio-observer", Effects, &["helio-env", "helio-rpc", "helio-store"]),
    ("helio-store", Effects, &["helio-env", "helio-rpc"]),
    ("helio-storage", Effects, &["helio-env", "helio-tls"]),
    ("helio-control", Services, &[]),
    ("helio-node", Services, &[]),
    ("helio-gateway", Services, &[]),
    ("helio-worker", Services, &[]),
    ("helio-py", Fronts, &[]),
    ("helio-dashboard", Fronts, &[]),
    ("helio-ingress", Fronts, &[]),
    ("helio-cli", Fronts, &["helio-dashboard", "helio-ingress"]),
    ("helio-sim", Proof, &[]),
    ("helio-scale", Proof, &[]),
    ("helio-fuzz", Proof, &[]),
];

/// Edges that go down and are wrong all the same, with the reason.
const NEVER: &[(&str, &[&str], &str)] = &[
    (
        "helio-py",
        &["helio-node", "helio-control"],
        "a driver starts the daemon, it does not link it",
    ),
    (
        "helio-worker",
        &["helio-node-state", "helio-control-state"],
        "LAYER-2: that state is a daemon's",
    ),
    (
        "helio-node",
        &["helio-owner-state", "helio-process-state", "helio-control-state"],
        "LAYER-2: that state is another's",
    ),
    (
        "helio-control",
        &["helio-owner-state", "helio-process-state", "helio-node-state"],
        "LAYER-2: that state is another's",
    ),
];

/// The crates from outside that the word crates and pure crates may use: no clock, no randomness, no I/O, no async.
const PURE_OUTSIDE: &[&str] =
    &["bytes", "prost", "smallvec", "thiserror", "serde", "serde_json", "ts-rs"];

/// Text of sources that is not pure: clock, randomness, I/O, async.
const IMPURE: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::env",
    "async fn",
    ".await",
    "RandomState",
];

/// The crates that may say `unsafe`.
const UNSAFE: &[&str] = &["helio-store", "helio-env", "helio-py"];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    for source in sources {
        let Some(name) = source.krate() else { continue };
        let Some((_, layer, siblings)) = CRATES.iter().find(|(known, ..)| *known == name) else {
            problems.push(format!("{}: {name} has no layer in xtask's table", source.path));
            continue;
        };
        if source.path.ends_with("/Cargo.toml") {
            let bad = |dependency: &&str| forbidden(name, *layer, siblings, dependency);
            for dependency in dependencies(&source.text) {
                if let Some(why) = bad(&dependency) {
                    problems.push(format!("{}: {name} → {dependency}: {why}", source.path));
                }
            }
        } else if source.is("rs") {
            for (number, line) in source.code() {
                if let Some(why) = impure(name, *layer, line) {
                    problems.push(format!("{}:{number}: {why}", source.path));
                }
            }
        }
    }
    problems
}

fn forbidden(name: &str, layer: Layer, siblings: &[&str], dependency: &str) -> Option<String> {
    if let Some((_, _, why)) =
        NEVER.iter().find(|(from, to, _)| *from == name && to.contains(&dependency))
    {
        return Some((*why).to_owned());
    }
    if dependency == "pyo3" && name != "helio-py" {
        return Some("only helio-py knows PyO3".to_owned());
    }
    match CRATES.iter().find(|(known, ..)| *known == dependency) {
        Some((_, below, _)) if *below < layer || siblings.contains(&dependency) => None,
        Some((_, below, _)) => Some(format!("{layer:?} does not look at {below:?}")),
        None if layer <= Pure && !PURE_OUTSIDE.contains(&dependency) => {
            Some("LAYER-1: not on the list of what a pure crate may use".to_owned())
        }
        None => None,
    }
}

fn impure(name: &str, layer: Layer, line: &str) -> Option<String> {
    let names = |word: &&&str| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        line.match_indices(**word).any(|(at, _)| !line[at + word.len()..].starts_with(is_word))
    };
    if layer <= Pure
        && let Some(word) = IMPURE.iter().find(names)
    {
        return Some(format!("LAYER-1: `{word}` in a pure crate"));
    }
    let opens = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "#[unsafe("];
    if !UNSAFE.contains(&name) && opens.iter().any(|word| line.contains(word)) {
        return Some(format!("SHM-1: `unsafe` lives in {} only", UNSAFE.join(", ")));
    }
    None
}

/// The names in every dependency table but those for tests.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
            let last = table.rsplit('.').next().unwrap_or_default();
            inside = matches!(last, "dependencies" | "build-dependencies");
            if let Some((_, name)) = table.split_once("dependencies.")
                && !table.starts_with("dev-")
            {
                names.push(name);
            }
        } else if inside && let Some((name, _)) = line.split_once(['=', '.', ' ']) {
            names.push(name.trim());
        }
    }
    names.retain(|name| !name.is_empty() && !name.starts_with('#'));
    names
}

#[cfg(test)]
mod tests {
    use super::super::{source, sources};
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&[source(path, text)])
    }

    fn manifest(name: &str, dependency: &str) -> usize {
        let text = format!("[dependencies]\n{dependency}.workspace = true\n");
        problems(&format!("crates/{name}/Cargo.toml"), &text).len()
    }

    /// LAYER-1 and LAYER-2 hold in this repository.
    #[test]
    fn the_repository_keeps_its_layers() {
        let sources = sources().expect("the repository can be read");
        assert_eq!(check(&sources), Vec::<String>::new());
    }

    #[test]
    fn edges_go_down_or_to_a_named_sibling() {
        assert_eq!(manifest("helio-node", "helio-rpc"), 0);
        assert_eq!(manifest("helio-node-state", "helio-scheduler"), 0);
        assert_eq!(manifest("helio-rpc", "helio-node"), 1);
        assert_eq!(manifest("helio-scheduler", "helio-node-state"), 1);
        assert_eq!(manifest("helio-proto", "helio-node-state"), 1);
    }

    #[test]
    fn services_do_not_depend_on_each_other() {
        assert_eq!(manifest("helio-node", "helio-control"), 1);
        assert_eq!(manifest("helio-worker", "helio-node-state"), 1);
        assert_eq!(manifest("helio-py", "helio-node"), 1);
    }

    #[test]
    fn pure_crates_have_no_door_to_the_outside() {
        assert_eq!(manifest("helio-owner-state", "thiserror"), 0);
        assert_eq!(manifest("helio-owner-state", "tokio"), 1);
        let path = "crates/helio-owner-state/src/lib.rs";
        assert_eq!(problems(path, "let now = Instant::now();\n").len(), 1);
        assert_eq!(problems(path, "// not Instant::now()\n").len(), 0);
        assert_eq!(problems(path, "let n = self.awaited; x.await_more()\n").len(), 0);
        assert_eq!(problems(path, "#[cfg(test)]\nmod tests { std::fs }\n").len(), 0);
    }

    #[test]
    fn unsafe_and_pyo3_have_their_places() {
        assert_eq!(problems("crates/helio-node/src/a.rs", "unsafe { x }\n").len(), 1);
        assert_eq!(problems("crates/helio-store/src/a.rs", "unsafe { x }\n").len(), 0);
        assert_eq!(manifest("helio-worker", "pyo3"), 1);
    }

    #[test]
    fn a_crate_without_a_layer_is_a_problem() {
        assert_eq!(problems("crates/helio-new/src/lib.rs", "").len(), 1);
    }

    #[test]
    fn every_way_to_write_a_dependency_is_read() {
        let text = "[package]\nname = \"x\"\n[dependencies]\na = \"1\"\nb.workspace = true\n\
                    # c = 1\n[dev-dependencies]\nd = \"1\"\n[build-dependencies]\ne = \"1\"\n\
                    [dependencies.f]\nversion = \"1\"\n[target.'cfg(unix)'.dependencies]\ng = \"1\"\n";
        assert_eq!(dependencies(text), ["a", "b", "e", "f", "g"]);
    }
}
