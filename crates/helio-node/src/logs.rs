//! The output of workers: from their pipes into files and, line by line, to the driver.
//!
//! A line `\x01:name:<text>` is not shown; it names what runs from now on (a task's function, an
//! actor) for the lines that follow. Nor is `\x01:task:<id>`, which says whose the lines are; beside the file
//! `x.out`, the file `x.out.tasks` has a line `<offset> <id>` for each place from which on the text is of
//! another call ([`crate::output_files`]). `\x01:end:` before the end of a line says that neither is the
//! worker's: its call is over, and its last line is to be seen. What was written past Python's streams has
//! no such mark: a line without an end is shown when the next mark comes, or when nothing more of it comes
//! for a while. A line longer than [`LINE_MAX`] is split.
//! Of a line that was written over and over, as progress bars do with carriage returns, the last state is
//! shown; the file keeps them all. The pipes are read by the core alone, so a flush only has to read what
//! is there.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_env::descriptor::{AsyncFd, register};
use helio_proto::node::LogLine;
use helio_types::WorkerId;
use rustix::pipe::PipeFlags;
use tokio::task::AbortHandle;

use crate::input::{Input, Inputs};
use crate::output_files::{OutputFile, Shelf};

/// The longest line that is shown in one piece.
const LINE_MAX: usize = 64 << 10;

/// Bytes of one stream that are read before others get their turn.
const TURN_MAX: usize = 1 << 20;

/// Number of a worker's last lines that are remembered for the report of its death.
const TAIL_LINES: usize = 20;
/// Bytes of each of these lines that are remembered.
const TAIL_LINE_MAX: usize = 500;

const NAME_MARK: &[u8] = b"\x01:name:";
const TASK_MARK: &[u8] = b"\x01:task:";
const END_MARK: &[u8] = b"\x01:end:";

/// Time between two looks of a progress bar that reach the log while it is under way.
const BAR_EVERY: Duration = Duration::from_secs(10);

/// A line without an end is shown when nothing more has come for so long.
const REST: Duration = Duration::from_millis(500);

/// An output stream of a worker.
#[derive(Debug)]
pub(crate) struct Stream {
    is_stderr: bool,
    pipe: Arc<AsyncFd<OwnedFd>>,
    watcher: AbortHandle,
    partial: Vec<u8>,
    /// The line is written over and over; when it was shown last, or began.
    bar: Option<Instant>,
    /// The line that comes was shown as far as it went.
    is_begun: bool,
    name: String,
    /// The positions in the kept text at which the text of other calls begins, with their names.
    turns: Vec<(usize, String)>,
    file: Option<OutputFile>,
}

/// The place where the text of a stream is kept.
pub(crate) struct Place<'a> {
    pub(crate) path: &'a dyn Fn() -> PathBuf,
    pub(crate) shelf: &'a mut Shelf,
}

/// Whether a stream has more to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// The stream was read to its present end.
    Empty,
    /// The turn is over, and the stream has more.
    More,
}

impl Stream {
    /// Makes a pipe; its other end is for the worker.
    pub(crate) fn new(
        worker_id: WorkerId,
        is_stderr: bool,
        inputs: &Inputs,
    ) -> std::io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let pipe = Arc::new(register(ours)?);
        let watcher = tokio::spawn(watch(Arc::clone(&pipe), worker_id, is_stderr, inputs.clone()))
            .abort_handle();
        let stream = Self {
            is_stderr,
            pipe,
            watcher,
            partial: Vec::new(),
            bar: None,
            is_begun: false,
            name: String::new(),
            turns: Vec::new(),
            file: None,
        };
        Ok((stream, theirs))
    }

    /// Reads what is there. `place` is where it is kept.
    pub(crate) fn drain(
        &mut self,
        pid: u32,
        place: &mut Place<'_>,
        lines: &mut Vec<LogLine>,
    ) -> Drained {
        let mut buffer = [0; 16 << 10];
        let mut kept = Vec::new();
        let mut read = 0;
        let outcome = loop {
            match rustix::io::read(self.pipe.get_ref(), &mut buffer) {
                Ok(0) => break Drained::Empty,
                Ok(n) => {
                    self.take(&buffer[..n], pid, &mut kept, lines);
                    read += n;
                    // A worker that prints without end is not to keep the core from everything else.
                    if read >= TURN_MAX {
                        break Drained::More;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break Drained::Empty,
            }
        };
        self.keep(&kept, place);
        outcome
    }

    /// Shows a last line that has no end.
    pub(crate) fn flush(&mut self, pid: u32, place: &mut Place<'_>, lines: &mut Vec<LogLine>) {
        if !self.partial.is_empty() {
            let mut kept = Vec::new();
            self.take(b"\n", pid, &mut kept, lines);
            self.keep(&kept, place);
        }
    }

    /// Shows what there is of a line of which nothing more comes for now; a progress bar has its own times.
    pub(crate) fn rest(&mut self, pid: u32, place: &mut Place<'_>, lines: &mut Vec<LogLine>) {
        let is_mark = self.partial.first() == Some(&END_MARK[0]);
        if self.partial.is_empty() || is_mark || self.bar.is_some() {
            return;
        }
        let mut kept = Vec::new();
        self.take(&[END_MARK, b"\n"].concat(), pid, &mut kept, lines);
        self.is_begun = true;
        self.keep(&kept, place);
    }

    fn take(&mut self, mut bytes: &[u8], pid: u32, kept: &mut Vec<u8>, lines: &mut Vec<LogLine>) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.add(&bytes[..end], pid, kept, lines);
            self.line(pid, kept, lines);
            bytes = &bytes[end + 1..];
        }
        self.add(bytes, pid, kept, lines);
    }

    fn add(&mut self, bytes: &[u8], pid: u32, kept: &mut Vec<u8>, lines: &mut Vec<LogLine>) {
        self.partial.extend_from_slice(bytes);
        if bytes.contains(&b'\r') {
            self.fold(pid, kept, lines);
        }
        while self.partial.len() > LINE_MAX {
            let rest = self.partial.split_off(LINE_MAX);
            self.line(pid, kept, lines);
            self.partial = rest;
        }
    }

    /// Forgets all states of the line but the last one, which is shown now and then.
    fn fold(&mut self, pid: u32, kept: &mut Vec<u8>, lines: &mut Vec<LogLine>) {
        // The end mark is no state.
        let text = self.partial.split(|byte| *byte == END_MARK[0]).next().unwrap_or_default();
        let state = last_state(text);
        if state.start == 0 {
            return;
        }
        let before = state.start - 1;
        kept.extend(self.partial.drain(..before));
        let now = Instant::now();
        if now.duration_since(*self.bar.get_or_insert(now)) >= BAR_EVERY {
            self.bar = Some(now);
            self.show(&self.partial[state.start - before..state.end - before], pid, lines);
        }
    }

    fn line(&mut self, pid: u32, kept: &mut Vec<u8>, lines: &mut Vec<LogLine>) {
        let mut line = std::mem::take(&mut self.partial);
        if let Some(mark) = mark_within(&line) {
            // Text that was written past Python's streams, then their mark.
            let rest = line.split_off(mark);
            line.extend_from_slice(END_MARK);
            self.partial = line;
            self.line(pid, kept, lines);
            line = rest;
        }
        let was_bar = self.bar.take().is_some();
        if let Some(name) = line.strip_prefix(NAME_MARK) {
            self.name = String::from_utf8_lossy(name).into_owned();
            return;
        }
        if let Some(task) = line.strip_prefix(TASK_MARK) {
            // A call that printed nothing has no text.
            self.turns.retain(|(offset, _)| *offset != kept.len());
            self.turns.push((kept.len(), String::from_utf8_lossy(task).into_owned()));
            return;
        }
        let (line, end) = match line.strip_suffix(END_MARK) {
            Some(line) => (line, &b""[..]),
            None => (&line[..], &b"\n"[..]),
        };
        kept.extend_from_slice(line);
        kept.extend_from_slice(end);
        if std::mem::take(&mut self.is_begun) && line.is_empty() {
            return; // the end of what was shown
        }
        let state = &line[last_state(line)];
        // A bar that has wiped itself out is not to be seen any more.
        if !was_bar || !state.trim_ascii().is_empty() {
            self.show(state, pid, lines);
        }
    }

    fn show(&self, text: &[u8], pid: u32, lines: &mut Vec<LogLine>) {
        let text = String::from_utf8_lossy(text).into_owned();
        let name = self.name.clone();
        lines.push(LogLine { pid, host: String::new(), name, is_stderr: self.is_stderr, text });
    }

    fn keep(&mut self, bytes: &[u8], place: &mut Place<'_>) {
        if bytes.is_empty() {
            return;
        }
        let turns = std::mem::take(&mut self.turns);
        // A full disk must not keep lines from the driver.
        if self.file.is_none() {
            self.file = OutputFile::open((place.path)()).ok();
        }
        if let Some(file) = &mut self.file {
            file.write(bytes, &turns, place.shelf);
        }
    }

    /// The worker has ended.
    pub(crate) fn close(&mut self, shelf: &mut Shelf) {
        if let Some(file) = self.file.take() {
            file.done(shelf);
        }
    }
}

/// Returns the position in a line of a mark that should begin one.
fn mark_within(line: &[u8]) -> Option<usize> {
    let first = line.iter().skip(1).position(|byte| *byte == NAME_MARK[0])? + 1;
    let is_mark = line[first..].starts_with(NAME_MARK) || line[first..].starts_with(TASK_MARK);
    is_mark.then_some(first)
}

/// Returns the range of a line that a terminal would show last: behind the last carriage return that has
/// something behind it.
fn last_state(line: &[u8]) -> Range<usize> {
    let end = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |at| at + 1);
    let start = line[..end].iter().rposition(|byte| *byte == b'\r').map_or(0, |at| at + 1);
    start..end
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

async fn watch(pipe: Arc<AsyncFd<OwnedFd>>, worker_id: WorkerId, is_stderr: bool, inputs: Inputs) {
    let mut rests = true;
    loop {
        let wait = if rests { Duration::MAX } else { REST };
        let Ok(readable) = tokio::time::timeout(wait, pipe.readable()).await else {
            rests = true;
            if inputs.send(Input::OutputRests { worker_id, is_stderr }).await.is_err() {
                return;
            }
            continue;
        };
        let Ok(mut guard) = readable else { return };
        rests = false;
        // A closed pipe is ready for ever, and a guard that was cleared does not say so any more.
        let is_closed = guard.ready().is_read_closed();
        guard.clear_ready();
        drop(guard);
        if inputs.send(Input::Output { worker_id, is_stderr }).await.is_err() || is_closed {
            return;
        }
    }
}

/// The last lines of a worker.
#[derive(Debug, Default)]
pub(crate) struct Tail(VecDeque<String>);

impl Tail {
    pub(crate) fn add(&mut self, lines: &[LogLine]) {
        for line in lines.iter().rev().take(TAIL_LINES).rev() {
            if self.0.len() == TAIL_LINES {
                self.0.pop_front();
            }
            let mut end = line.text.len().min(TAIL_LINE_MAX);
            while !line.text.is_char_boundary(end) {
                end -= 1;
            }
            self.0.push_back(line.text[..end].to_owned());
        }
    }

    pub(crate) fn text(&self) -> String {
        self.0.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs::{self, File};
    use std::io::Write as _;
    use std::path::Path;

    use super::*;
    use crate::output_files::Bounds;

    fn shelf() -> Shelf {
        Shelf::new(Bounds::default(), Path::new("/nonexistent"))
    }

    /// Writes `written` into a stream, and compares the lines that are shown and the text that the file keeps.
    fn check(written: &[u8], expected: &[(&str, &str)], kept: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (inputs, _receiver) = tokio::sync::mpsc::channel(16);
            let (mut stream, end) = Stream::new(WorkerId([1; 28]), true, &inputs).unwrap();
            let name = format!("heliostat-log-{}-{}", std::process::id(), written.len());
            let path = std::env::temp_dir().join(name);
            let mut lines = Vec::new();
            for part in written.chunks(30_000) {
                File::from(end.try_clone().unwrap()).write_all(part).unwrap();
                assert_eq!(
                    stream.drain(
                        7,
                        &mut Place { path: &|| path.clone(), shelf: &mut shelf() },
                        &mut lines
                    ),
                    Drained::Empty
                );
            }
            stream.flush(7, &mut Place { path: &|| path.clone(), shelf: &mut shelf() }, &mut lines);
            let shown: Vec<(&str, &str)> =
                lines.iter().map(|line| (line.name.as_str(), line.text.as_str())).collect();
            assert_eq!(shown, expected);
            assert!(lines.iter().all(|line| line.pid == 7 && line.is_stderr));
            assert_eq!(fs::read_to_string(&path).unwrap_or_default(), kept);
            let _ = fs::remove_file(&path);
        });
    }

    #[test]
    fn lines_carry_the_name_that_was_set_last_and_the_mark_is_not_shown() {
        check(
            b"early\n\x01:name:f\none\n\ntwo\n\x01:name:Actor(1)\nlast without end",
            &[
                ("", "early"),
                ("f", "one"),
                ("f", ""),
                ("f", "two"),
                ("Actor(1)", "last without end"),
            ],
            "early\none\n\ntwo\nlast without end\n",
        );
        check(b"", &[], "");
    }

    #[test]
    fn a_mark_ends_a_line_that_was_written_past_the_streams_that_write_marks() {
        check(
            b"\x01:name:f\n\x01:task:a\nraw\x01:name:g\n\x01:task:b\nof g\nraw\x01:task:c\n\n",
            &[("f", "raw"), ("g", "of g"), ("g", "raw"), ("g", "")],
            "rawof g\nraw\n",
        );
        check(b"a \x01 alone\n", &[("", "a \u{1} alone")], "a \u{1} alone\n");
    }

    #[test]
    fn a_line_whose_call_is_over_is_shown_and_its_file_goes_on() {
        check(
            b"one \x01:end:\nand more\x01:end:\n\x01:name:f\nthree\n",
            &[("", "one "), ("", "and more"), ("f", "three")],
            "one and morethree\n",
        );
    }

    #[test]
    fn of_a_progress_bar_the_last_state_is_shown_and_the_file_keeps_all() {
        check(
            b"\r 0%\r 50%\r100%\nnext\n",
            &[("", "100%"), ("", "next")],
            "\r 0%\r 50%\r100%\nnext\n",
        );
        check(b"\r 0%\r50%\r\x01:end:\n", &[("", "50%")], "\r 0%\r50%\r");
        check(b"of DOS\r\n\r\n", &[("", "of DOS"), ("", "")], "of DOS\r\n\r\n");
        // The bar has wiped itself out, and something else is written there.
        check(b"\r100%\r    \r\x01:end:\n", &[], "\r100%\r    \r");
        check(b"\r100%\r    \rdone\n", &[("", "done")], "\r100%\r    \rdone\n");
        let long = (0..20_000).map(|n| format!("\r{n} of many")).collect::<String>() + "\n";
        check(long.as_bytes(), &[("", "19999 of many")], &long);
    }

    #[test]
    fn a_bar_is_shown_while_it_is_under_way() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (inputs, _receiver) = tokio::sync::mpsc::channel(16);
            let (mut stream, end) = Stream::new(WorkerId([1; 28]), true, &inputs).unwrap();
            let path = std::env::temp_dir().join(format!("heliostat-bar-{}", std::process::id()));
            let mut end = File::from(end);
            let mut lines = Vec::new();
            end.write_all(b"\r 0%\r10%").unwrap();
            stream.drain(7, &mut Place { path: &|| path.clone(), shelf: &mut shelf() }, &mut lines);
            assert!(lines.is_empty());
            stream.bar = stream.bar.map(|shown| shown - BAR_EVERY);
            for state in [b"\r20%", b"\r30%"] {
                end.write_all(state).unwrap();
                stream.drain(
                    7,
                    &mut Place { path: &|| path.clone(), shelf: &mut shelf() },
                    &mut lines,
                );
            }
            let shown: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(shown, ["20%"], "one of the two, then not for a while");
            let _ = fs::remove_file(&path);
        });
    }

    #[test]
    fn a_line_without_an_end_is_shown_when_nothing_more_comes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (inputs, mut told) = tokio::sync::mpsc::channel(16);
            let (mut stream, end) = Stream::new(WorkerId([1; 28]), false, &inputs).unwrap();
            let mut end = File::from(end);
            let path = std::env::temp_dir().join(format!("heliostat-rest-{}", std::process::id()));
            let mut lines = Vec::new();
            for written in ["one", "\n", "two\n", "\n", "three", " four\n"] {
                end.write_all(written.as_bytes()).unwrap();
                assert!(matches!(told.recv().await, Some(Input::Output { .. })));
                stream.drain(
                    7,
                    &mut Place { path: &|| path.clone(), shelf: &mut shelf() },
                    &mut lines,
                );
                assert!(matches!(told.recv().await, Some(Input::OutputRests { .. })));
                stream.rest(
                    7,
                    &mut Place { path: &|| path.clone(), shelf: &mut shelf() },
                    &mut lines,
                );
            }
            let shown: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(shown, ["one", "two", "", "three", " four"]);
            assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n\nthree four\n");
            let _ = fs::remove_file(&path);
        });
    }

    #[test]
    fn beside_the_text_stands_whose_it_is() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (inputs, _receiver) = tokio::sync::mpsc::channel(16);
            let (mut stream, end) = Stream::new(WorkerId([1; 28]), false, &inputs).unwrap();
            let mut end = File::from(end);
            let path = std::env::temp_dir().join(format!("heliostat-tasks-{}", std::process::id()));
            let index = Path::new(&format!("{}.tasks", path.display())).to_owned();
            let mut lines = Vec::new();
            for written in [
                "none\n\x01:task:a\none\n",
                "\x01:task:b\n",
                "\x01:task:c\ntwo\n",
                "three\n\x01:task:a\n",
            ] {
                end.write_all(written.as_bytes()).unwrap();
                stream.drain(
                    7,
                    &mut Place { path: &|| path.clone(), shelf: &mut shelf() },
                    &mut lines,
                );
            }
            end.write_all(b"four\n").unwrap();
            stream.drain(7, &mut Place { path: &|| path.clone(), shelf: &mut shelf() }, &mut lines);
            assert_eq!(fs::read_to_string(&path).unwrap(), "none\none\ntwo\nthree\nfour\n");
            assert_eq!(fs::read_to_string(&index).unwrap(), "5 a\n9 c\n19 a\n");
            assert!(lines.iter().all(|line| !line.text.contains("task")));
            let _ = (fs::remove_file(&path), fs::remove_file(&index));
        });
    }

    #[test]
    fn the_end_of_a_stream_is_told_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (inputs, mut told) = tokio::sync::mpsc::channel(16);
            let (_stream, end) = Stream::new(WorkerId([1; 28]), true, &inputs).unwrap();
            drop((inputs, end));
            assert!(matches!(told.recv().await, Some(Input::Output { is_stderr: true, .. })));
            assert!(told.recv().await.is_none(), "the watch of a stream that has ended goes on");
        });
    }

    #[test]
    fn a_long_line_is_shown_in_pieces() {
        let long = "x".repeat(LINE_MAX + 10);
        let (first, rest) = long.split_at(LINE_MAX);
        let kept = format!("{first}\n{rest}\n");
        check(format!("{long}\n").as_bytes(), &[("", first), ("", rest)], &kept);
    }

    #[test]
    fn the_tail_is_the_last_lines_and_short() {
        let mut tail = Tail::default();
        for n in 0..50 {
            let text = format!("{n} {}", "é".repeat(400));
            tail.add(&[LogLine { text, ..LogLine::default() }]);
        }
        let text = tail.text();
        assert_eq!(text.lines().count(), TAIL_LINES, "LIMIT-1");
        assert!(text.starts_with("30 ") && text.lines().all(|line| line.len() <= TAIL_LINE_MAX));
    }
}
