//! Log files of a session: which there are, and which part of one is asked for. Names that come from
//! outside never lead out of the folder.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How deep folders are looked through, and how many files are listed.
const DEPTH_MAX: usize = 4;
const FILES_MAX: usize = 10_000;

/// How much is read at a time to find the beginning of the last lines, and the most that is.
const STEP: u64 = 64 << 10;
const TAIL_MAX: u64 = 256 << 20;

/// Ends the name of the file that says whose the text of a worker's file is.
const INDEX: &str = ".tasks";

/// The files of a folder, by their names from there, in order.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![(folder.to_owned(), 0)];
    while let Some((path, depth)) = open.pop() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < DEPTH_MAX {
                open.push((entry.path(), depth + 1));
            } else if kind.is_file()
                && let Ok(name) = entry.path().strip_prefix(folder)
                && let Some(name) = name.to_str().filter(|name| !name.ends_with(INDEX))
                && found.len() < FILES_MAX
            {
                found.push(name.to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The file of that name in the folder; `None`: there is none, or it is elsewhere.
pub(crate) fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let (folder, path) = (folder.canonicalize().ok()?, folder.join(name).canonicalize().ok()?);
    (path.starts_with(&folder) && path.is_file()).then_some(path)
}

/// The file of a worker with that process id, and `out` or `err`.
pub(crate) fn of_worker(folder: &Path, pid: u64, suffix: &str) -> Option<PathBuf> {
    let ending = format!("-{pid}.{suffix}");
    let name = names(folder).into_iter().rev().find(|name| {
        name.rsplit('/')
            .next()
            .is_some_and(|file| file.starts_with("worker-") && file.ends_with(&ending))
    });
    inside(folder, &name?)
}

/// What kind of log a file is.
pub(crate) fn kind(name: &str) -> &'static str {
    let file = name.rsplit('/').next().unwrap_or(name);
    let kinds = [
        ("job-driver-", "job"),
        ("python-core-worker-", "core_worker"),
        ("python-core-driver-", "driver"),
        ("gcs_server", "gcs_server"),
        ("node", "raylet"),
        ("dashboard", "dashboard"),
    ];
    match file.starts_with("worker-") {
        true if file.ends_with(".err") => "worker_err",
        true => "worker_out",
        false => kinds
            .iter()
            .find(|(begin, _)| file.starts_with(begin))
            .map_or("internal", |(_, kind)| kind),
    }
}

/// Whether a name fits a pattern with `*` and `?`.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut in_name) = (0, 0);
    // Where the last `*` stands, and what it has taken so far.
    let mut star = None;
    while in_name < name.len() {
        if pattern.get(at).is_some_and(|c| *c == '*') {
            star = Some((at, in_name));
            at += 1;
        } else if pattern.get(at).is_some_and(|c| *c == '?' || *c == name[in_name]) {
            (at, in_name) = (at + 1, in_name + 1);
        } else if let Some((star_at, taken)) = star {
            (at, in_name) = (star_at + 1, taken + 1);
            star = Some((star_at, taken + 1));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

/// Where the last so many lines of a file begin.
pub(crate) fn last_lines(path: &Path, lines: u64) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let (mut end, mut left) = (size, lines);
    if left == 0 {
        return Ok(size);
    }
    while end > 0 && size - end < TAIL_MAX {
        let begin = end.saturating_sub(STEP);
        let mut part = vec![0; (end - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut part)?;
        for (at, _) in part.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let after = begin + at as u64 + 1;
            // The end of the last line begins none.
            if after == size {
                continue;
            }
            left -= 1;
            if left == 0 {
                return Ok(after);
            }
        }
        end = begin;
    }
    Ok(end)
}

/// The parts of a worker's file that a task has printed.
pub(crate) fn of_task(path: &Path, task_id: &str) -> io::Result<Vec<Range<u64>>> {
    let mut index = path.as_os_str().to_owned();
    index.push(INDEX);
    let size = fs::metadata(path)?.len();
    let Ok(index) = File::open(index) else { return Ok(Vec::new()) };
    let mut turns: Vec<(u64, String)> = Vec::new();
    for line in BufReader::new(index).lines() {
        let line = line?;
        if let Some((offset, task)) = line.split_once(' ')
            && let Ok(offset) = offset.parse()
        {
            turns.push((offset, task.to_owned()));
        }
    }
    let ends = turns.iter().skip(1).map(|(offset, _)| *offset).chain([size]);
    let parts = turns.iter().zip(ends).filter(|((_, task), _)| task == task_id);
    Ok(parts.map(|((begin, _), end)| *begin..end.min(size)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir()
                .join(format!("helio-dashboard-logs-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("logs/deep")).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn names_never_lead_out() {
        let folder = Folder::new("names");
        let logs = folder.0.join("logs");
        fs::write(folder.0.join("secret"), "x").unwrap();
        fs::write(logs.join("node.err"), "x").unwrap();
        fs::write(logs.join("deep/worker-a-12.out"), "x").unwrap();
        fs::write(logs.join("deep/worker-a-12.out.tasks"), "x").unwrap();
        std::os::unix::fs::symlink(folder.0.join("secret"), logs.join("link")).unwrap();
        assert_eq!(names(&logs), ["deep/worker-a-12.out", "node.err"]);
        assert!(inside(&logs, "node.err").is_some() && inside(&logs, "deep/../node.err").is_some());
        for outside in ["../secret", "link", "/etc/passwd", "", "deep", "nothing", "../logs2/x"] {
            assert_eq!(inside(&logs, outside), None, "{outside}");
        }
        assert!(of_worker(&logs, 12, "out").is_some());
        assert!(of_worker(&logs, 2, "out").is_none() && of_worker(&logs, 12, "err").is_none());
    }

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name, expect) in [
            ("*", "", true),
            ("*", "a.out", true),
            ("*.out", "a.out", true),
            ("*.out", "a.err", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, name), expect, "{pattern} {name}");
        }
    }

    #[test]
    fn the_last_lines_are_found() {
        let folder = Folder::new("tail");
        let path = folder.0.join("file");
        let check = |text: &str, lines, expect: &str| {
            fs::write(&path, text).unwrap();
            let from = last_lines(&path, lines).unwrap() as usize;
            assert_eq!(&text[from..], expect);
        };
        check("a\nb\nc\n", 2, "b\nc\n");
        check("a\nb\nc", 2, "b\nc");
        check("a\nb\n", 5, "a\nb\n");
        check("a\nb\n", 0, "");
        check("", 3, "");
        let long = "x".repeat(200_000);
        check(&format!("first\n{long}\nlast\n"), 2, &format!("{long}\nlast\n"));
    }

    #[test]
    fn a_tasks_parts_are_those_of_the_index() {
        let folder = Folder::new("tasks");
        let path = folder.0.join("worker-a-1.out");
        fs::write(&path, "aabbbaa").unwrap();
        assert_eq!(of_task(&path, "one").unwrap(), []);
        fs::write(folder.0.join("worker-a-1.out.tasks"), "0 one\n2 two\n5 one\ntorn").unwrap();
        assert_eq!(of_task(&path, "one").unwrap(), [0..2, 5..7]);
        assert_eq!(of_task(&path, "two").unwrap().first(), Some(&(2..5)));
        assert_eq!(of_task(&path, "three").unwrap(), []);
    }
}
