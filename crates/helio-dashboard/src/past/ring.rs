//! Rows of fixed size in a file, each where its time says: a file never grows beyond a row for each moment that it
//! covers, and nothing but the row itself is written.
//!
//! A row is the number of its moment, the values (32-bit floats, little-endian), and a checksum. A row that was cut
//! off by a crash, or one of a turn before, is told by its checksum and its moment, and is not a row.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The head of a file: what it is, then the names of the columns, a line each, then zeros.
const HEAD_BYTES: usize = 4096;
const MAGIC: &str = "heliostat-past-1";
/// Rows that are read at a time.
const READ_ROWS: u64 = 4096;

/// A file of rows, written round and round.
#[derive(Debug)]
pub(super) struct Ring {
    file: File,
    columns: usize,
    rows: u64,
}

impl Ring {
    /// Opens the file, or makes it; one with other columns is begun anew.
    pub(super) fn open(path: &Path, columns: &[&str], rows: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = file.open(path)?;
        let head = head(columns);
        let mut found = vec![0; HEAD_BYTES];
        if file.read_exact_at(&mut found, 0).is_err() || found != head {
            file.set_len(0)?;
            file.write_all_at(&head, 0)?;
        }
        Ok(Self::of(file, columns.len(), rows))
    }

    /// Opens a file that is there, for reading; one with other columns is refused.
    pub(super) fn read_only(path: &Path, columns: &[&str], rows: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut found = vec![0; HEAD_BYTES];
        file.read_exact_at(&mut found, 0)?;
        if found != head(columns) {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(Self::of(file, columns.len(), rows))
    }

    fn of(file: File, columns: usize, rows: u64) -> Self {
        Self { file, columns, rows }
    }

    /// The most bytes that a file takes.
    pub(super) fn bytes_max(columns: usize, rows: u64) -> u64 {
        HEAD_BYTES as u64 + rows * row_bytes(columns) as u64
    }

    /// Writes the row of a moment, in the place of the one a turn before.
    pub(super) fn write(&self, moment: u64, values: &[f32]) -> io::Result<()> {
        assert_eq!(values.len(), self.columns, "a value for each column");
        let mut row = Vec::with_capacity(row_bytes(self.columns));
        row.extend(moment.to_le_bytes());
        values.iter().for_each(|value| row.extend(value.to_le_bytes()));
        row.extend(crc32fast::hash(&row).to_le_bytes());
        self.file.write_all_at(&row, self.place(moment))
    }

    /// Calls with each row of these moments, the oldest first.
    pub(super) fn read(&self, moments: Range<u64>, mut each: impl FnMut(u64, &[f32])) {
        let size = row_bytes(self.columns);
        let (mut bytes, mut values) = (Vec::new(), vec![0.0; self.columns]);
        let mut at = moments.start.max(moments.end.saturating_sub(self.rows));
        while at < moments.end {
            // Up to where the file begins again.
            let count = READ_ROWS.min(moments.end - at).min(self.rows - at % self.rows);
            bytes.resize(count as usize * size, 0);
            bytes.fill(0);
            let read = read_some(&self.file, &mut bytes, self.place(at));
            for (row, moment) in bytes[..read].chunks_exact(size).zip(at..) {
                let (row, sum) = row.split_at(size - 4);
                let is_it = row[..8] == moment.to_le_bytes();
                if is_it && sum == crc32fast::hash(row).to_le_bytes() {
                    for (value, bytes) in values.iter_mut().zip(row[8..].chunks_exact(4)) {
                        *value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                    }
                    each(moment, &values);
                }
            }
            at += count;
        }
    }

    fn place(&self, moment: u64) -> u64 {
        HEAD_BYTES as u64 + moment % self.rows * row_bytes(self.columns) as u64
    }
}

fn head(columns: &[&str]) -> Vec<u8> {
    let mut head = format!("{MAGIC}\n{}\n", columns.join("\n")).into_bytes();
    assert!(head.len() <= HEAD_BYTES, "the names of the columns fit into the head");
    head.resize(HEAD_BYTES, 0);
    head
}

fn row_bytes(columns: usize) -> usize {
    8 + 4 * columns + 4
}

/// Reads as many of these bytes as the file has; returns how many.
fn read_some(file: &File, bytes: &mut [u8], from: u64) -> usize {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], from + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("ring-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self) -> std::path::PathBuf {
            self.0.join("ring")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn rows(ring: &Ring, moments: Range<u64>) -> Vec<(u64, Vec<f32>)> {
        let mut found = Vec::new();
        ring.read(moments, |moment, values| found.push((moment, values.to_vec())));
        found
    }

    #[test]
    fn a_file_keeps_the_latest_turn_and_never_grows_beyond_it() {
        let folder = Folder::new("turn");
        let ring = Ring::open(&folder.file(), &["a", "b"], 10).unwrap();
        for moment in 100..135 {
            ring.write(moment, &[moment as f32, 1.0]).unwrap();
        }
        let found: Vec<u64> = rows(&ring, 0..200).into_iter().map(|row| row.0).collect();
        assert_eq!(found, [] as [u64; 0], "the latest ten moments of what is asked for");
        let found: Vec<u64> = rows(&ring, 0..135).into_iter().map(|row| row.0).collect();
        assert_eq!(found, (125..135).collect::<Vec<_>>());
        assert_eq!(rows(&ring, 128..129), [(128, vec![128.0, 1.0])]);
        let bytes = std::fs::metadata(folder.file()).unwrap().len();
        assert_eq!(bytes, Ring::bytes_max(2, 10));
    }

    #[test]
    fn a_row_that_was_cut_off_is_no_row_and_the_others_stay() {
        let folder = Folder::new("cut");
        let ring = Ring::open(&folder.file(), &["a"], 100).unwrap();
        for moment in [5, 6, 7, 9] {
            ring.write(moment, &[moment as f32]).unwrap();
        }
        // As a process leaves it that is killed: without closing anything, in the middle of a row.
        ring.file.write_all_at(&[1, 2, 3], ring.place(6)).unwrap();
        ring.file.set_len(ring.place(9) + 5).unwrap();
        std::mem::forget(ring);
        let again = Ring::open(&folder.file(), &["a"], 100).unwrap();
        assert_eq!(rows(&again, 0..100), [(5, vec![5.0]), (7, vec![7.0])]);
        again.write(9, &[9.5]).unwrap();
        assert_eq!(rows(&again, 8..100), [(9, vec![9.5])]);
        let other = Ring::open(&folder.file(), &["a", "new"], 100).unwrap();
        assert_eq!(rows(&other, 0..100), [], "one of another release is begun anew");
    }

    #[test]
    fn a_full_disk_is_an_error_and_what_was_there_stays() {
        let full = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let ring = Ring::of(full, 1, 10);
        let error = ring.write(3, &[1.0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
