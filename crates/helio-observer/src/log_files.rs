//! Log files of a session's folder: which there are, which part of one is asked for, and what is in them. Names
//! that come from outside never lead out of the folder.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use helio_proto::logs::{FoundLine, LogAnswer, LogFileInfo, LogQuestion, LogRequest};

/// Depth to which folders are looked through.
const DEPTH_MAX: usize = 4;
/// Maximum number of files that are listed.
const FILES_MAX: usize = 10_000;

/// Bytes that are read at a time to find the begin of the last lines.
const STEP: u64 = 64 << 10;
/// Maximum number of bytes that are read for it.
const TAIL_MAX: u64 = 256 << 20;

/// **LIMIT-1** How many bytes one answer has, how many lines are found, and how many letters of each are told.
pub const READ_MAX: u64 = 1 << 20;
const FOUND_MAX: usize = 10_000;
const LINE_MAX: usize = 2_000;

/// Ends the name of the file that says whose the text of a worker's file is.
const INDEX: &str = ".tasks";

/// The files of a folder, by their names from there, in order.
pub fn names(folder: &Path) -> Vec<String> {
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
pub fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let (folder, path) = (folder.canonicalize().ok()?, folder.join(name).canonicalize().ok()?);
    (path.starts_with(&folder) && path.is_file()).then_some(path)
}

/// Returns the component that wrote the log file of that name.
pub fn kind(name: &str) -> &'static str {
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

/// Answers a question about the files of a folder.
pub fn answer(folder: &Path, request: &LogRequest) -> LogAnswer {
    let answer = match request.question {
        LogQuestion::List => Ok(list(folder, &request.pattern)),
        LogQuestion::Read => read(folder, request),
        LogQuestion::Tail => tail(folder, request),
        LogQuestion::Search => Ok(search(folder, request)),
    };
    answer.unwrap_or_else(|error| LogAnswer {
        refused: match error.kind() {
            io::ErrorKind::NotFound => {
                format!("There is no log file {} on that node.", request.name)
            }
            _ => format!("The log file {} cannot be read: {error}.", request.name),
        },
        ..LogAnswer::default()
    })
}

fn list(folder: &Path, pattern: &str) -> LogAnswer {
    let info = |name: String| {
        let about = fs::metadata(folder.join(&name)).ok()?;
        let modified = about.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let modified_ms = u64::try_from(modified.as_millis()).ok()?;
        Some(LogFileInfo { name, size: about.len(), modified_ms })
    };
    let names = names(folder).into_iter().filter(|name| fits(pattern, name));
    LogAnswer { files: names.filter_map(info).collect(), ..LogAnswer::default() }
}

fn read(folder: &Path, request: &LogRequest) -> io::Result<LogAnswer> {
    let path = inside(folder, &request.name).ok_or(io::ErrorKind::NotFound)?;
    let mut file = File::open(&path)?;
    let mut bytes = Vec::new();
    let mut left = request.max.min(READ_MAX);
    let parts = parts(&path, &request.task_id)?;
    let size = parts.iter().map(|part| part.end - part.start).sum();
    // A file that has become shorter was begun anew.
    let from = if request.from > size { 0 } else { request.from };
    let mut skip = from;
    for part in parts {
        let length = part.end - part.start;
        if skip >= length {
            skip -= length;
            continue;
        }
        file.seek(SeekFrom::Start(part.start + skip))?;
        let wanted = (length - skip).min(left);
        left -= wanted;
        (&mut file).take(wanted).read_to_end(&mut bytes)?;
        skip = 0;
    }
    Ok(LogAnswer { bytes, from, size, ..LogAnswer::default() })
}

fn tail(folder: &Path, request: &LogRequest) -> io::Result<LogAnswer> {
    let path = inside(folder, &request.name).ok_or(io::ErrorKind::NotFound)?;
    if request.task_id.is_empty() {
        let (from, size) = (last_lines(&path, request.max)?, fs::metadata(&path)?.len());
        return Ok(LogAnswer { from, size, ..LogAnswer::default() });
    }
    // One task mostly prints little; of much, only the end is looked through.
    let parts = parts(&path, &request.task_id)?;
    let size: u64 = parts.iter().map(|part| part.end - part.start).sum();
    let begin = size.saturating_sub(READ_MAX);
    let whole = LogRequest { from: begin, max: READ_MAX, ..request.clone() };
    let bytes = read(folder, &whole)?.bytes;
    let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let lines = usize::try_from(request.max).unwrap_or(usize::MAX);
    let ends = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let from = match lines {
        0 => bytes.len(),
        _ => ends.map(|(at, _)| at + 1).nth(lines - 1).unwrap_or(0),
    };
    Ok(LogAnswer { from: begin + from as u64, size, ..LogAnswer::default() })
}

/// The parts of a file that are meant: those of a task, or all of it.
fn parts(path: &Path, task_id: &str) -> io::Result<Vec<Range<u64>>> {
    if task_id.is_empty() {
        return Ok(std::iter::once(0..fs::metadata(path)?.len()).collect());
    }
    of_task(path, task_id)
}

fn search(folder: &Path, request: &LogRequest) -> LogAnswer {
    let mut answer = LogAnswer::default();
    let wanted =
        if request.ignores_case { request.text.to_lowercase() } else { request.text.clone() };
    let max = usize::try_from(request.max).unwrap_or(usize::MAX).min(FOUND_MAX);
    for name in names(folder).into_iter().filter(|name| fits(&request.pattern, name)) {
        let Ok(file) = File::open(folder.join(&name)) else { continue };
        let mut reader = BufReader::with_capacity(STEP as usize, file);
        let (mut line, mut number) = (Vec::new(), 0);
        // One that cannot be read to its end has told what it could.
        while read_line(&mut reader, &mut line).is_ok_and(|is_there| is_there) {
            number += 1;
            let text = String::from_utf8_lossy(&line);
            let has = match request.ignores_case {
                true => text.to_lowercase().contains(&wanted),
                false => text.contains(&wanted),
            };
            if !has {
                continue;
            }
            // One more than is told has been found, so the answer can say that it is cut.
            if answer.found.len() == max {
                answer.is_cut = true;
                return answer;
            }
            let text = text.trim_end().chars().take(LINE_MAX).collect();
            answer.found.push(FoundLine { name: name.clone(), number, text });
        }
    }
    answer
}

/// The next line, of which no more than [`STEP`] bytes are kept; false: there is none.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut is_there = false;
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(is_there);
        }
        is_there = true;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(bytes.len());
        // **LIMIT-1** A file without line ends is one line.
        let room = (STEP as usize).saturating_sub(line.len());
        line.extend_from_slice(&bytes[..taken.min(room)]);
        let used = end.map_or(taken, |at| at + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// Whether a name fits a pattern with `*` and `?`.
pub fn fits(pattern: &str, name: &str) -> bool {
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

/// Returns the offset at which the last so many lines of a file begin.
pub fn last_lines(path: &Path, lines: u64) -> io::Result<u64> {
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
pub fn of_task(path: &Path, task_id: &str) -> io::Result<Vec<Range<u64>>> {
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

    #[test]
    fn questions_are_answered_from_the_folder_alone() {
        let folder = Folder::new("answers");
        let logs = folder.0.join("logs");
        fs::write(folder.0.join("secret"), "x").unwrap();
        fs::write(logs.join("worker-a-1.out"), "one\nTWO\nthree\n").unwrap();
        fs::write(logs.join("worker-a-1.out.tasks"), "0 t\n4 u\n8 t\n").unwrap();
        fs::write(logs.join("deep/node.err"), "two words\n").unwrap();
        let ask = |request: LogRequest| answer(&logs, &request);
        let listed = ask(LogRequest { pattern: "*".into(), ..LogRequest::default() });
        let names: Vec<_> =
            listed.files.iter().map(|file| (file.name.as_str(), file.size)).collect();
        assert_eq!(names, [("deep/node.err", 10), ("worker-a-1.out", 14)]);
        let read = LogRequest { question: LogQuestion::Read, max: 100, ..LogRequest::default() };
        let of = |name: &str, from, task: &str| LogRequest {
            name: name.into(),
            from,
            task_id: task.into(),
            ..read.clone()
        };
        assert_eq!(ask(of("worker-a-1.out", 4, "")).bytes, b"TWO\nthree\n");
        assert_eq!(ask(of("worker-a-1.out", 2, "t")).bytes, b"e\nthree\n");
        assert_eq!(ask(of("worker-a-1.out", 99, "u")).bytes, b"TWO\n", "it was begun anew");
        for name in ["../secret", "nothing", ""] {
            assert!(ask(of(name, 0, "")).refused.contains("no log file"), "{name}");
        }
        let tail = |max, task: &str| LogRequest {
            question: LogQuestion::Tail,
            max,
            ..of("worker-a-1.out", 0, task)
        };
        assert_eq!(
            [tail(1, ""), tail(1, "t"), tail(9, "t"), tail(0, "t")].map(|r| ask(r).from),
            [8, 4, 0, 10]
        );
        let search = |text: &str, ignores_case, max| LogRequest {
            question: LogQuestion::Search,
            pattern: "*".into(),
            text: text.into(),
            ignores_case,
            max,
            ..LogRequest::default()
        };
        let found = ask(search("two", true, 9)).found;
        let found: Vec<_> = found.iter().map(|line| (line.name.as_str(), line.number)).collect();
        assert_eq!(found, [("deep/node.err", 1), ("worker-a-1.out", 2)]);
        assert_eq!(ask(search("two", false, 9)).found.len(), 1);
        assert!(ask(search("o", false, 1)).is_cut);
    }
}
