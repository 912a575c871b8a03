//! The file of a log: opened by its first line, bounded, and never a reason to stop.
//!
//! **LIMIT-1** Beyond so many bytes the file is renamed `<name>.1`, that one `<name>.2`, and so on; beyond so
//! many of them the oldest is removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// The defaults, which are used as well where a setting cannot be read.
pub(super) const BYTES_MAX: u64 = 100 << 20;
pub(super) const BACKUPS_MAX: u64 = 5;

pub(super) struct LogFile {
    path: PathBuf,
    /// The open file, and its size in bytes.
    open: Option<(File, u64)>,
    /// 0: without bound.
    bytes_max: u64,
    backups_max: u64,
    /// Number of lines that could not be written since the last one that was.
    lost: u64,
    /// The reason why the last of these lines could not be written.
    error: String,
    /// The file ends in the middle of a line.
    is_torn: bool,
}

impl LogFile {
    pub(super) fn new(path: PathBuf, bytes_max: u64, backups_max: u64) -> Self {
        Self {
            path,
            open: None,
            bytes_max,
            backups_max,
            lost: 0,
            error: String::new(),
            is_torn: false,
        }
    }

    /// Appends a line, which ends in a line feed. One that cannot be written is counted; the next one that
    /// can be is preceded by the line that `of_loss` makes of the number.
    pub(super) fn append(&mut self, line: &str, of_loss: impl FnOnce(u64, &str) -> String) {
        let written = if self.lost == 0 {
            self.write(line.as_bytes())
        } else {
            let torn = if self.is_torn { "\n" } else { "" };
            let loss = of_loss(self.lost, &self.error);
            self.write(format!("{torn}{loss}{line}").as_bytes())
        };
        match written {
            Ok(()) => self.lost = 0,
            Err(error) => {
                self.lost += 1;
                self.error = error.to_string();
                // The folder may have been removed, or be there again: the next line looks anew.
                self.open = None;
            }
        }
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let (mut file, mut size) = match self.open.take() {
            Some(open) => open,
            None => self.open()?,
        };
        // A line that is longer than a file may be has a file of its own.
        if self.bytes_max > 0 && size > 0 && size + text.len() as u64 > self.bytes_max {
            drop(file);
            self.rotate()?;
            (file, size) = self.open()?;
        }
        let mut written = 0;
        let outcome = loop {
            match file.write(&text[written..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
            if written == text.len() {
                break Ok(());
            }
        };
        if written > 0 {
            self.is_torn = outcome.is_err();
        }
        self.open = Some((file, size + written as u64));
        outcome
    }

    fn open(&self) -> io::Result<(File, u64)> {
        let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    }

    fn rotate(&self) -> io::Result<()> {
        if self.backups_max == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.backups_max).rev() {
            match fs::rename(self.backup(number), self.backup(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.backup(1))
    }

    fn backup(&self, number: u64) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("helio-env-log-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn append(file: &mut LogFile, line: &str) {
        file.append(line, |lost, error| format!("lost {lost}: {error}\n"));
    }

    /// LIMIT-1: the newest lines are kept, in no more files than allowed.
    #[test]
    fn a_log_takes_a_bounded_part_of_the_disk() {
        let folder = Folder::new("bounded");
        let path = folder.0.join("node.log");
        let mut log = LogFile::new(path.clone(), 100, 2);
        assert!(folder.names().is_empty(), "no file before the first line");
        for n in 0..100 {
            append(&mut log, &format!("line {n:02} of thirty bytes or so\n"));
        }
        assert_eq!(folder.names(), ["node.log", "node.log.1", "node.log.2"]);
        for name in folder.names() {
            assert!(fs::metadata(folder.0.join(&name)).unwrap().len() <= 100, "{name}");
        }
        assert!(fs::read_to_string(&path).unwrap().ends_with("line 99 of thirty bytes or so\n"));

        let mut log = LogFile::new(path, 100, 0);
        for n in 0..10 {
            append(&mut log, &format!("line {n:02} of thirty bytes or so\n"));
        }
        assert_eq!(folder.names(), ["node.log", "node.log.1", "node.log.2"], "none is added");
    }

    #[test]
    fn a_full_disk_loses_lines_and_says_how_many() {
        let folder = Folder::new("full");
        let path = folder.0.join("node.log");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let mut log = LogFile::new(path.clone(), 0, 0);
        append(&mut log, "one\n");
        append(&mut log, "two\n");
        // There is room again.
        fs::remove_file(&path).unwrap();
        append(&mut log, "three\n");
        append(&mut log, "four\n");
        let text = fs::read_to_string(&path).unwrap();
        let (loss, rest) = text.split_once('\n').unwrap();
        assert!(loss.starts_with("lost 2: No space left"), "{text}");
        assert_eq!(rest, "three\nfour\n");
    }

    #[test]
    fn a_folder_that_is_not_there_loses_lines_until_it_is() {
        let folder = Folder::new("absent");
        let path = folder.0.join("logs/node.log");
        let mut log = LogFile::new(path.clone(), 0, 0);
        append(&mut log, "one\n");
        fs::create_dir(folder.0.join("logs")).unwrap();
        append(&mut log, "two\n");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("lost 1: No such file") && text.ends_with("\ntwo\n"), "{text}");
    }

    #[test]
    fn a_line_that_was_cut_short_does_not_spoil_the_next() {
        let folder = Folder::new("torn");
        let path = folder.0.join("node.log");
        let mut log = LogFile::new(path.clone(), 0, 0);
        fs::write(&path, "cut sh").unwrap();
        (log.lost, log.is_torn) = (1, true);
        append(&mut log, "whole\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "cut sh\nlost 1: \nwhole\n");
    }
}
