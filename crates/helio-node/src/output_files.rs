//! The files that keep what workers print.
//!
//! **LIMIT-1** A file that has grown to its bound is put aside as `<name>.1`, that one as `<name>.2`, and so on; beyond
//! so many of them the oldest is removed. All files of a session together have a bound, too: beyond it those go
//! first that were put aside, or whose worker has ended, the oldest of them first.
//!
//! Beside the file `x.out`, the file `x.out.tasks` says which text is of which call; of what was put aside nobody asks
//! that any more.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Bounds of the disk space of the files.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum size of one file in bytes; 0: no limit.
    pub file_max: u64,
    /// Number of files of each stream of a worker that are kept after they were put aside.
    pub backups_max: u64,
    /// All together, in bytes; 0: any.
    pub session_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { file_max: 100 << 20, backups_max: 5, session_max: 0 }
    }
}

/// Counts what all files take, and knows which may go.
#[derive(Debug)]
pub(crate) struct Shelf {
    bounds: Bounds,
    bytes: u64,
    /// Files that nobody writes any more, the oldest first, with their sizes.
    done: VecDeque<(PathBuf, u64)>,
}

impl Shelf {
    /// A shelf with the files that lie in the folder already: those of a daemon that died.
    pub(crate) fn new(bounds: Bounds, folder: &Path) -> Self {
        let found = fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| {
            let name = entry.file_name();
            let is_output = name.to_str().is_some_and(|name| name.starts_with("worker-"));
            let data = entry.metadata().ok().filter(|data| is_output && data.is_file())?;
            Some((data.modified().ok()?, entry.path(), data.len()))
        });
        let mut found: Vec<_> = found.collect();
        found.sort();
        let bytes = found.iter().map(|(_, _, size)| size).sum();
        let done = found.into_iter().map(|(_, path, size)| (path, size)).collect();
        let mut shelf = Self { bounds, bytes, done };
        // The bounds may be lower than those under which the files were written.
        shelf.make_room(0);
        shelf
    }

    /// Returns the number of bytes that may be written beyond those that there are.
    fn room(&self) -> u64 {
        match self.bounds.session_max {
            0 => u64::MAX,
            max => max.saturating_sub(self.bytes),
        }
    }

    /// Removes what may go until there is room; whether there is.
    fn make_room(&mut self, need: u64) -> bool {
        while self.room() < need || self.room() == 0 {
            let Some((path, size)) = self.done.pop_front() else { return false };
            // One that is gone already takes nothing either.
            let _ = fs::remove_file(path);
            self.bytes -= size;
        }
        true
    }

    /// A file has another name now, or none.
    fn renamed(&mut self, from: &Path, to: Option<&Path>) {
        let Some(at) = self.done.iter().position(|(path, _)| path == from) else { return };
        match to {
            Some(to) => to.clone_into(&mut self.done[at].0),
            None => {
                if let Some((_, size)) = self.done.remove(at) {
                    self.bytes -= size;
                }
            }
        }
    }
}

/// The file of one stream of a worker.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    file: File,
    length: u64,
    /// The size of the index beside the file, in bytes.
    index_length: u64,
    /// The id of the task whose text comes next; empty: no task's.
    task: String,
}

impl OutputFile {
    pub(crate) fn open(path: PathBuf) -> std::io::Result<Self> {
        let file = File::options().create(true).append(true).open(&path)?;
        let length = file.metadata()?.len();
        Ok(Self { path, file, length, index_length: 0, task: String::new() })
    }

    /// Appends the text; `turns` say where in it that of other calls begins, and whose.
    pub(crate) fn write(&mut self, bytes: &[u8], turns: &[(usize, String)], shelf: &mut Shelf) {
        let (mut rest, mut begin, mut turns) = (bytes, 0, turns);
        while !rest.is_empty() {
            let size = self.fitting(rest, shelf.bounds.file_max);
            if size == 0 {
                self.put_aside(shelf);
                continue;
            }
            let size = self.claim(rest, size, shelf);
            let end = begin + size;
            let n_here = turns.iter().take_while(|(offset, _)| *offset < end).count();
            self.append(&rest[..size], begin, &turns[..n_here], shelf);
            (rest, begin, turns) = (&rest[size..], end, &turns[n_here..]);
        }
        // A call that has no text yet begins at the end.
        if !turns.is_empty() {
            self.append(&[], begin, turns, shelf);
        }
    }

    /// Returns the number of bytes of the text that the file still takes: whole lines, if it can
    /// be. 0: it is full.
    fn fitting(&self, text: &[u8], file_max: u64) -> usize {
        let room = file_max.saturating_sub(self.length);
        if file_max == 0 || room >= text.len() as u64 {
            return text.len();
        }
        let room = room as usize;
        match text[..room].iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            // A line that is longer than a file is cut.
            None if self.length == 0 => room.max(1),
            None => 0,
        }
    }

    /// Has room made for the text among all files; where nothing else may go, what this file has does.
    fn claim(&mut self, text: &[u8], size: usize, shelf: &mut Shelf) -> usize {
        if shelf.make_room(size as u64) {
            return size;
        }
        if self.length > 0 {
            self.put_aside(shelf);
            shelf.make_room(size as u64);
        }
        let size = size.min(usize::try_from(shelf.room()).unwrap_or(usize::MAX)).max(1);
        text[..size].iter().rposition(|byte| *byte == b'\n').map_or(size, |end| end + 1)
    }

    fn append(&mut self, bytes: &[u8], begin: usize, turns: &[(usize, String)], shelf: &mut Shelf) {
        let mut index = String::new();
        for (offset, task) in turns {
            let _ = writeln!(index, "{} {task}", self.length + (*offset - begin) as u64);
            self.task.clone_from(task);
        }
        self.write_index(&index, shelf);
        // A full disk; nothing is kept of it then.
        if self.file.write_all(bytes).is_ok() {
            self.length += bytes.len() as u64;
            shelf.bytes += bytes.len() as u64;
        }
    }

    fn write_index(&mut self, index: &str, shelf: &mut Shelf) {
        if index.is_empty() {
            return;
        }
        let path = self.index_path();
        let file = File::options().create(true).append(true).open(path);
        // A full disk; the text comes first.
        if file.and_then(|mut file| file.write_all(index.as_bytes())).is_ok() {
            self.index_length += index.len() as u64;
            shelf.bytes += index.len() as u64;
        }
    }

    fn index_path(&self) -> PathBuf {
        Path::new(&format!("{}.tasks", self.path.display())).to_owned()
    }

    fn numbered(&self, number: u64) -> PathBuf {
        Path::new(&format!("{}.{number}", self.path.display())).to_owned()
    }

    fn put_aside(&mut self, shelf: &mut Shelf) {
        let kept = shelf.bounds.backups_max;
        // The index tells places in the newest file alone.
        let _ = fs::remove_file(self.index_path());
        shelf.bytes -= std::mem::take(&mut self.index_length);
        if kept == 0 {
            let _ = fs::remove_file(&self.path);
            shelf.bytes -= self.length;
        } else {
            let _ = fs::remove_file(self.numbered(kept));
            shelf.renamed(&self.numbered(kept), None);
            // From the oldest on, so that none is overwritten before it has moved.
            for number in (1..kept).rev() {
                let (from, to) = (self.numbered(number), self.numbered(number + 1));
                // A number that is not there yet cannot be moved, and need not be.
                if fs::rename(&from, &to).is_ok() {
                    shelf.renamed(&from, Some(&to));
                }
            }
            if fs::rename(&self.path, self.numbered(1)).is_ok() {
                shelf.done.push_back((self.numbered(1), self.length));
            }
        }
        self.length = 0;
        if let Ok(fresh) = Self::open(self.path.clone()) {
            *self = Self { task: std::mem::take(&mut self.task), ..fresh };
        }
        // The call that prints goes on in the new file.
        if !self.task.is_empty() {
            self.write_index(&format!("0 {}\n", self.task), shelf);
        }
    }

    /// The worker has ended: what it wrote may go before that of others.
    pub(crate) fn done(self, shelf: &mut Shelf) {
        if self.index_length > 0 {
            shelf.done.push_back((self.index_path(), self.index_length));
        }
        shelf.done.push_back((self.path, self.length));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("heliostat-output-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// Names and sizes of what is kept.
        fn files(&self) -> Vec<(String, u64)> {
            let mut files: Vec<_> = fs::read_dir(&self.0)
                .unwrap()
                .map(|entry| {
                    let entry = entry.unwrap();
                    let name = entry.file_name().into_string().unwrap();
                    (name, entry.metadata().unwrap().len())
                })
                .collect();
            files.sort();
            files
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.0.join(name)).unwrap()
        }

        fn open(&self, name: &str) -> OutputFile {
            OutputFile::open(self.0.join(name)).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn shelf(folder: &Folder, file_max: u64, backups_max: u64, session_max: u64) -> Shelf {
        Shelf::new(Bounds { file_max, backups_max, session_max }, &folder.0)
    }

    fn check_bytes(folder: &Folder, shelf: &Shelf) {
        let sum: u64 = folder.files().iter().map(|(_, size)| size).sum();
        assert_eq!(shelf.bytes, sum, "{:?}", folder.files());
    }

    #[test]
    fn a_file_that_has_grown_is_put_aside_and_few_are_kept() {
        let folder = Folder::new("rotate");
        let mut shelf = shelf(&folder, 100, 2, 0);
        let mut file = folder.open("worker-1.out");
        // In one piece, as a worker that prints much at once is read.
        let text: String = (0..40).map(|n| format!("line {n:02} of ten\n")).collect();
        file.write(text.as_bytes(), &[], &mut shelf);
        for n in 40..60 {
            file.write(format!("line {n:02} of ten\n").as_bytes(), &[], &mut shelf);
        }
        let names: Vec<String> = folder.files().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["worker-1.out", "worker-1.out.1", "worker-1.out.2"], "LIMIT-1");
        assert!(folder.files().iter().all(|(_, size)| *size <= 100), "{:?}", folder.files());
        assert!(folder.text("worker-1.out").ends_with("line 59 of ten\n"));
        let kept: String = ["worker-1.out.2", "worker-1.out.1", "worker-1.out"]
            .map(|name| folder.text(name))
            .concat();
        let all: String = (0..60).map(|n| format!("line {n:02} of ten\n")).collect();
        assert!(all.ends_with(&kept), "whole lines, none between them is lost: {kept}");
        check_bytes(&folder, &shelf);
    }

    #[test]
    fn without_backups_the_file_begins_anew_and_without_a_bound_it_grows() {
        let folder = Folder::new("none");
        let mut bounded = shelf(&folder, 20, 0, 0);
        let mut file = folder.open("worker-1.out");
        for _ in 0..9 {
            file.write(b"nine more\n", &[], &mut bounded);
        }
        assert_eq!(folder.files(), [("worker-1.out".to_owned(), 10)]);
        check_bytes(&folder, &bounded);
        let mut free = shelf(&folder, 0, 0, 0);
        file.write(&[b'x'; 1000], &[], &mut free);
        assert_eq!(folder.files()[0].1, 1010);
    }

    #[test]
    fn a_line_longer_than_a_file_is_cut() {
        let folder = Folder::new("long");
        let mut shelf = shelf(&folder, 10, 9, 0);
        let mut file = folder.open("worker-1.out");
        file.write(b"0123456789abcdefghij-end\nnext\n", &[], &mut shelf);
        assert_eq!(folder.text("worker-1.out.2"), "0123456789");
        assert_eq!(folder.text("worker-1.out.1"), "abcdefghij");
        assert_eq!(folder.text("worker-1.out"), "-end\nnext\n");
        check_bytes(&folder, &shelf);
    }

    #[test]
    fn the_index_says_whose_the_text_is_across_files() {
        let folder = Folder::new("index");
        let mut shelf = shelf(&folder, 13, 2, 0);
        let mut file = folder.open("worker-1.out");
        let turns = [(0, "a".to_owned()), (4, "b".to_owned()), (16, "c".to_owned())];
        file.write(b"one\ntwo\nthree\n.\nfour\n", &turns, &mut shelf);
        assert_eq!(folder.text("worker-1.out.1"), "one\ntwo\n");
        assert_eq!(folder.text("worker-1.out"), "three\n.\nfour\n");
        assert_eq!(folder.text("worker-1.out.tasks"), "0 b\n8 c\n");
        check_bytes(&folder, &shelf);
    }

    #[test]
    fn all_files_together_have_a_bound() {
        let folder = Folder::new("session");
        let mut shelf = shelf(&folder, 100, 5, 250);
        let mut files: Vec<OutputFile> =
            (0..4).map(|n| folder.open(&format!("worker-{n}.out"))).collect();
        for round in 0..50 {
            for (n, file) in files.iter_mut().enumerate() {
                file.write(format!("round {round:02} of {n}\n").as_bytes(), &[], &mut shelf);
            }
            let sum: u64 = folder.files().iter().map(|(_, size)| size).sum();
            assert!(sum <= 250, "LIMIT-1: {:?}", folder.files());
            check_bytes(&folder, &shelf);
        }
        for (n, file) in files.into_iter().enumerate() {
            assert!(
                folder.text(&format!("worker-{n}.out")).contains("round 49"),
                "the newest stays"
            );
            file.done(&mut shelf);
        }
        let mut last = folder.open("worker-9.out");
        last.write("late\n".repeat(40).as_bytes(), &[], &mut shelf);
        let sum: u64 = folder.files().iter().map(|(_, size)| size).sum();
        assert!(sum <= 250 && folder.text("worker-9.out").ends_with("late\n"));
        check_bytes(&folder, &shelf);
        // A daemon that starts again finds them.
        assert_eq!(Shelf::new(shelf.bounds, &folder.0).bytes, sum);
    }
}
