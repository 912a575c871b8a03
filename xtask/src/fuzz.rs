//! `fuzz`: the targets of `crates/helio-fuzz` under a coverage-guided fuzzer, and the inputs that it keeps.
//!
//! The inputs of a target are one text file in `fuzz/corpus`, an input a line in hexadecimal digits, so that
//! thousands of them are one file of the repository. The fuzzer wants a folder: it is made of that file below
//! `fuzz/target`, where what a run finds stays, too, until `--keep` writes the smallest set that covers as much.

use std::path::{Path, PathBuf};

use crate::sh::{self, Outcome, command, root};

const USAGE: &str = "\
usage: cargo xtask fuzz [TARGET …] [--runs N] [--keep]
  needs a nightly toolchain and cargo-fuzz (`cargo install cargo-fuzz`); without a target all of them in turn";

/// Number of a target's runs unless `--runs` says otherwise.
const RUNS: u64 = 1_000_000;

/// Bounds on each run: an input that takes more memory or time is a fault.
const BOUNDS: [&str; 4] =
    ["-rss_limit_mb=512", "-malloc_limit_mb=256", "-timeout=60", "-max_len=512"];

struct Options {
    targets: Vec<String>,
    runs: u64,
    keep: bool,
}

fn read(arguments: &[String]) -> Outcome<Options> {
    let mut options = Options { targets: Vec::new(), runs: RUNS, keep: false };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--runs" => {
                let number = words.next().and_then(|text| text.parse().ok());
                options.runs =
                    number.ok_or_else(|| format!("--runs needs a whole number\n{USAGE}"))?;
            }
            "--keep" => options.keep = true,
            name if !name.starts_with('-') => options.targets.push(name.to_owned()),
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

/// Runs the targets; a crash ends the task with the path of its input.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let options = read(arguments)?;
    let targets = if options.targets.is_empty() { known()? } else { options.targets };
    for target in targets {
        let packed = root().join("fuzz/corpus").join(format!("{target}.hex"));
        let found = unpack(&target, &packed)?;
        let runs = format!("-runs={}", options.runs);
        fuzzer("run", &target, &[path(&found)?, &runs], &BOUNDS)?;
        if options.keep {
            let kept = found.with_extension("kept");
            // The set of an earlier run would be merged into the new one and never become smaller.
            let _ = std::fs::remove_dir_all(&kept);
            std::fs::create_dir_all(&kept).map_err(|error| format!("{kept:?}: {error}"))?;
            let merge = [path(&kept)?, path(&found)?, "-merge=1", "-use_counters=0"];
            fuzzer("run", &target, &merge, &BOUNDS)?;
            pack(&kept, &packed)?;
        }
    }
    Ok(())
}

/// The targets that have a corpus.
fn known() -> Outcome<Vec<String>> {
    let folder = root().join("fuzz/corpus");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{folder:?}: {error}"))?;
    let names =
        entries.flatten().filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// Rust without `unsafe` needs no address sanitizer, which would halve the speed.
fn fuzzer(verb: &str, target: &str, first: &[&str], then: &[&str]) -> Outcome {
    let (corpora, options): (Vec<&str>, Vec<&str>) =
        first.iter().partition(|word| !word.starts_with('-'));
    let mut cargo = command("cargo");
    cargo.args(["+nightly", "fuzz", verb, "--sanitizer", "none", target]).args(corpora);
    sh::run(cargo.arg("--").args(options).args(then))
}

fn path(path: &Path) -> Outcome<&str> {
    path.to_str().ok_or_else(|| format!("{path:?} is not text, which cargo-fuzz needs"))
}

/// Makes the folder of a target's inputs; what earlier runs found there stays.
fn unpack(target: &str, packed: &Path) -> Outcome<PathBuf> {
    let folder = root().join("fuzz/target/corpus").join(target);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{folder:?}: {error}"))?;
    for (number, line) in sh::text(packed)?.lines().enumerate() {
        let input = bytes(line)
            .ok_or_else(|| format!("{packed:?}: line {} is not hexadecimal", number + 1))?;
        let file = folder.join(format!("kept-{number}"));
        std::fs::write(&file, input).map_err(|error| format!("{file:?}: {error}"))?;
    }
    Ok(folder)
}

/// Writes the inputs of a folder as one file, the shortest ones first.
fn pack(folder: &Path, packed: &Path) -> Outcome {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{folder:?}: {error}"))?;
    let mut inputs = Vec::new();
    for entry in entries.flatten() {
        inputs.push(std::fs::read(entry.path()).map_err(|error| error.to_string())?);
    }
    // The fuzzer names inputs by their hash; in this order a new input changes one line of the file.
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    let text: String = inputs.iter().map(|input| digits(input) + "\n").collect();
    std::fs::write(packed, text).map_err(|error| format!("{packed:?}: {error}"))
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_reads_back_from_its_line() {
        for input in [&b""[..], b"\x00", b"\xff\x10a"] {
            assert_eq!(bytes(&digits(input)).as_deref(), Some(input));
        }
        assert_eq!(bytes("zz"), None);
    }
}
