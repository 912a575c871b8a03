//! Times in tests: a machine that is busy must not fail them.
//!
//! An elapsed time is not compared, and a deadline for what should succeed is one against a hang. The check
//! sees what is written in one line: `assert … monotonic() - began < 2`, `assert!(began.elapsed() < …)`,
//! `within=5`, `timeout(Duration::from_secs(5), …)`.

use super::Source;

/// A deadline for what should succeed, in seconds.
const DEADLINE_S_MIN: f64 = 20.0;

const CLOCKS: &[&str] = &["monotonic() -", "perf_counter() -", "time.time() -", ".elapsed() <"];

/// The text before a deadline's number of seconds.
const DEADLINES: &[&str] =
    &["within=", "within: float = ", "process.wait(", "timeout(Duration::from_secs("];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    let is_code = |source: &&Source| source.is("rs") || source.is("py");
    let is_own = |source: &&Source| source.path.ends_with("tidy/deadlines.rs");
    for source in sources.iter().filter(|source| is_code(source) && !is_own(source)) {
        let (code, tests) = source.parts();
        let first = code.lines().count() + 1;
        for (line, number) in tests.lines().zip(first..) {
            let place = format!("{}:{number}", source.path);
            if compares_elapsed(line) {
                problems.push(format!(
                    "{place}: a busy machine fails this: show it by an order of events, or measure it in bench/"
                ));
            }
            if let Some(seconds) = short_deadline(line) {
                problems.push(format!(
                    "{place}: {seconds} s may pass on a busy machine: give what should succeed {DEADLINE_S_MIN} s or more"
                ));
            }
        }
    }
    problems
}

/// Whether an assertion rests on how long something took. A bound with a name is a deadline.
fn compares_elapsed(line: &str) -> bool {
    let line = line.trim_start();
    if !line.starts_with("assert") {
        return false;
    }
    CLOCKS.iter().any(|clock| {
        let Some((_, rest)) = line.split_once(clock) else { return false };
        let bound = rest.rsplit('<').next().unwrap_or_default().trim_start();
        let is_number = bound.starts_with(|c: char| c.is_ascii_digit() || c == '(');
        rest.contains('<') && is_number || clock.ends_with('<') && bound.starts_with("Duration")
    })
}

/// The seconds of a deadline in this line that is too short.
fn short_deadline(line: &str) -> Option<f64> {
    DEADLINES.iter().find_map(|before| {
        let (_, rest) = line.split_once(before)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let seconds: f64 = rest[..digits].parse().ok()?;
        // A multiple of something with a name is as long as that.
        let is_factor = rest[digits..].trim_start().starts_with('*');
        (!is_factor && seconds < DEADLINE_S_MIN).then_some(seconds)
    })
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        check(&[source(path, text)]).len()
    }

    #[test]
    fn elapsed_times_are_not_compared() {
        for line in [
            "    assert time.monotonic() - began < 2",
            "    assert time.perf_counter() - began < (2 if QUICK else 15), began",
            "    assert!(start.elapsed() < Duration::from_secs(2));",
        ] {
            assert_eq!(problems("tests/a.py", line), 1, "{line}");
            assert_eq!(problems("src/a.py", line), 0, "no test");
        }
        let unit =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    assert!(a.elapsed() < Duration::ZERO);\n}\n";
        assert!(check(&[source("crates/x/src/a.rs", unit)])[0].starts_with("crates/x/src/a.rs:4:"));
        for line in [
            "    assert time.monotonic() < deadline",
            "    assert!(began.elapsed() < PATIENCE, \"{what}\");",
            "    while time.monotonic() - began < 2:",
        ] {
            assert_eq!(problems("tests/a.py", line), 0, "{line}");
        }
    }

    #[test]
    fn deadlines_are_long() {
        for line in [
            "wait_until(ended, within=5)",
            "process.wait(5)",
            "def wait_until(probe, *, within: float = 10.0):",
            "tokio::time::timeout(Duration::from_secs(4), heard).await.unwrap();",
        ] {
            assert_eq!(problems("crates/x/tests/a.rs", line), 1, "{line}");
        }
        for line in [
            "wait_until(ended, within=60.0, every=0.1)",
            "wait_until(x, within=LIMIT_S)",
            "process.wait(2 * self.limit_s)",
        ] {
            assert_eq!(problems("tests/a.py", line), 0, "{line}");
        }
    }
}
