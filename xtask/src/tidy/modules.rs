//! Python modules import downwards only, in no circle, and the `ray` alias is a table and a hook.

use crate::sh::{self, Outcome, command, root};
use std::collections::{BTreeMap, BTreeSet};

/// (package below `heliostat`, the packages it may import). What is in no package is the face.
const PACKAGES: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("experimental", &["core", FACE]),
    ("util", &["core", "experimental", FACE]),
    ("dag", &["core", FACE]),
    ("job_submission", &["core", "util", FACE]),
    ("autoscaler", &["core", "util", "experimental", FACE]),
    ("data", &["core", "util", FACE]),
    ("train", &["core", "experimental", "util", "data", FACE]),
    ("tune", &["core", "experimental", "util", "data", "train", FACE]),
    ("air", &["core", "util", "data", "train", "tune", FACE]),
    ("serve", &["core", "util", "dag", FACE]),
    ("rllib", &["core", "util", "data", "train", "tune", FACE]),
    // Ray's private names and other paths: they lead to names of every package, and none imports them.
    ("_private", &["core", "util", "data", "train", "tune", "air", "serve", "rllib", FACE]),
    (FACE, &["core", "util", "autoscaler"]),
];

/// Libraries: of the core they import its doors alone. Everything else that they need is public.
const LIBRARIES: &[&str] = &["data", "train", "tune", "air", "serve", "rllib"];
const DOORS: &[&str] = &["heliostat.core.platform", "heliostat.core.errors"];

/// `heliostat` itself and the single modules beside the packages: what users import.
const FACE: &str = "";

/// The one door to the package cloudpickle; it imports nothing of ours, so whoever pickles may go through it.
const PICKLER: &str = "heliostat.cloudpickle";

/// The one module of `ray` that is more than a table.
const HOOK: &str = "ray";

pub(super) fn run() -> Outcome<Vec<String>> {
    let script = root().join("xtask/imports.py");
    let python = std::env::var("PYTHON").unwrap_or_else(|_| String::from("python3"));
    Ok(check(&sh::read(command(python).arg(script))?))
}

fn check(facts: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut top: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for fact in facts.lines() {
        match fact.split('\t').collect::<Vec<_>>()[..] {
            ["import", module, line, target, when] => {
                if let Some(why) = forbidden(module, target) {
                    problems.push(format!("{module}:{line}: imports {target}: {why}"));
                }
                if when == "top" && module != target {
                    top.entry(module).or_default().insert(target);
                }
            }
            ["logic", module, line] if below(module, "ray") && module != HOOK => {
                problems.push(format!("{module}:{line}: logic in an alias module"));
            }
            _ => {}
        }
    }
    problems.extend(circles(&top));
    problems
}

fn below(module: &str, package: &str) -> bool {
    module.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The package a module of ours belongs to.
fn package(module: &str) -> Option<&str> {
    let rest = module.strip_prefix("heliostat")?;
    if rest.is_empty() {
        return Some(FACE);
    }
    let first = rest.strip_prefix('.')?.split('.').next()?;
    Some(if PACKAGES.iter().any(|(name, _)| *name == first) { first } else { FACE })
}

fn forbidden(module: &str, target: &str) -> Option<&'static str> {
    let from = package(module)?;
    if below(target, "ray") {
        return Some("the alias is for users alone");
    }
    let to = package(target)?;
    if target == PICKLER {
        return None;
    }
    if target == "heliostat._heliostat" {
        let native =
            ["core", "util", "experimental", "autoscaler", "_private", FACE].contains(&from);
        return (!native).then_some("libraries use the public core API alone");
    }
    if to == "core" && LIBRARIES.contains(&from) && !DOORS.iter().any(|door| below(target, door)) {
        return Some("libraries use the public API and core/platform alone");
    }
    let (_, allowed) = PACKAGES.iter().find(|(name, _)| *name == from)?;
    (from != to && !allowed.contains(&to)).then_some("imports go down only")
}

/// Every set of modules that import each other when they load.
pub(super) fn circles(edges: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let reach = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&str> = edges.get(from).into_iter().flatten().copied().collect();
        while let Some(module) = next.pop() {
            if seen.insert(module) {
                next.extend(edges.get(module).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|module| (*module, reach(module))).collect();
    let circles: BTreeSet<Vec<&str>> = edges
        .keys()
        .filter(|module| reached[*module].contains(*module))
        .map(|module| {
            let both = |other: &&&str| {
                reached[module].contains(**other) && reached[**other].contains(module)
            };
            edges.keys().filter(both).copied().collect()
        })
        .collect();
    circles.iter().map(|circle| format!("import circle: {}", circle.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(module: &str, target: &str) -> Vec<String> {
        check(&format!("import\t{module}\t1\t{target}\ttop"))
    }

    #[test]
    fn imports_go_down() {
        for (module, target) in [
            ("heliostat", "heliostat.core.api"),
            ("heliostat.util.queue", "heliostat.core.api"),
            ("heliostat.train.controller", "heliostat.data.block"),
            ("heliostat.train.controller", "heliostat"),
            ("heliostat._private.paths", "heliostat.tune"),
            ("heliostat.core.api", "heliostat._heliostat"),
            ("heliostat.data.block", "heliostat.core.platform.extras"),
            ("heliostat.dag.node", "heliostat.core.calls.graph"),
            ("heliostat.core.api", "os.path"),
        ] {
            assert_eq!(import(module, target), Vec::<String>::new(), "{module} → {target}");
        }
        for (module, target) in [
            ("heliostat.core.api", "heliostat.util.queue"),
            ("heliostat.core.api", "heliostat"),
            ("heliostat.data.block", "heliostat.train"),
            ("heliostat.data.block", "heliostat.core.session"),
            ("heliostat.serve.router", "heliostat.data.block"),
            ("heliostat.train.controller", "heliostat._heliostat"),
            ("heliostat.core.api", "ray"),
            ("heliostat.tune.tuner", "heliostat._private.paths"),
        ] {
            assert_eq!(import(module, target).len(), 1, "{module} → {target}");
        }
    }

    #[test]
    fn circles_are_found_but_not_across_function_bodies() {
        let facts = "import\ta\t1\tb\ttop\nimport\tb\t1\tc\ttop\nimport\tc\t1\ta\t";
        assert_eq!(check(&format!("{facts}top")), ["import circle: a, b, c"]);
        assert_eq!(check(&format!("{facts}later")), Vec::<String>::new());
    }

    #[test]
    fn the_alias_is_a_table_and_one_hook() {
        assert_eq!(check("logic\tray.util\t3").len(), 1);
        assert_eq!(check("logic\tray\t3").len(), 0);
        assert_eq!(check("logic\theliostat.core.api\t3").len(), 0);
    }
}
