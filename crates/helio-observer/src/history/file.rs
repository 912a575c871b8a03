//! The files of a history.
//!
//! ```text
//! 00000001.history     MAGIC, a line; About as JSON, a line; then batches:
//!                      length (4 bytes, little-endian), CRC-32 of what follows (4 bytes), a batch, deflated;
//!                      its rows of calls in columns ([`helio_proto::columns`])
//! 00000002.history     …
//! ```
//! A batch is written with one call: a process that is killed leaves a file that is whole, or cut within its last batch.
//! **LIMIT-1** A file that has [`FILE_BYTES`] is followed by the next; all together take [`BYTES_MAX`], then the oldest go.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use helio_proto::history::Batch;
use serde_json::{Value, json};

/// The form of the files: one that cannot be read as this one gets another number.
const MAGIC: &str = "heliostat-history 2";
/// Batches with rows one after the other.
const MAGIC_OF_ROWS: &str = "heliostat-history 1";
const MAGIC_OF_ANY: &str = "heliostat-history ";
const ENDING: &str = ".history";

/// Bytes after which a file is followed by another.
const FILE_BYTES: u64 = 16 << 20;
/// The most that a history takes, in bytes.
pub const BYTES_MAX: u64 = 512 << 20;
/// A batch that says that it is larger is none; in bytes.
const BATCH_MAX: usize = 256 << 20;
/// Largest size of its rows of calls, in bytes; they take much less in columns.
const ROWS_MAX: usize = 1 << 30;

/// The cluster that a history is of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The session's name.
    pub session_name: String,
    /// The release of Heliostat that wrote it.
    pub release: String,
    /// The head's node, in hex.
    pub node_id: String,
}

impl About {
    fn line(&self) -> String {
        let Self { session_name, release, node_id } = self;
        json!({ "session_name": session_name, "release": release, "node_id": node_id }).to_string()
    }

    fn parse(line: &str) -> Option<Self> {
        let said: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| said[name].as_str().map(str::to_owned);
        Some(Self {
            session_name: text("session_name")?,
            release: text("release")?,
            node_id: text("node_id").unwrap_or_default(),
        })
    }
}

/// The files of a folder, the oldest first.
pub(super) fn files(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(number) = name.strip_suffix(ENDING).and_then(|number| number.parse().ok()) {
            all.push((number, path));
        }
    }
    all.sort();
    Ok(all)
}

/// The file to which batches are written.
#[derive(Debug)]
pub(super) struct Writer {
    folder: PathBuf,
    about: About,
    file: Option<(u64, File, u64)>,
}

impl Writer {
    /// In a folder, which is made if need be; what an earlier head has written there stays.
    pub(super) fn new(folder: &Path, about: About) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        files(folder)?;
        Ok(Self { folder: folder.to_owned(), about, file: None })
    }

    /// Whether the next batch is the first of its file, and so has to tell of everything.
    pub(super) fn begins(&self) -> bool {
        self.file.as_ref().is_none_or(|(.., bytes)| *bytes >= FILE_BYTES)
    }

    /// Writes a batch; `begins`: into a new file.
    pub(super) fn write(&mut self, batch: Batch, begins: bool) -> io::Result<()> {
        if begins || self.file.is_none() {
            self.next_file()?;
        }
        let Some((_, file, bytes)) = &mut self.file else { return Ok(()) };
        let frame = frame(batch)?;
        let written = file.write_all(&frame);
        if written.is_err() {
            // The part that was written is not a whole batch, and nothing may come behind it.
            self.file = None;
            return written;
        }
        *bytes += frame.len() as u64;
        Ok(())
    }

    fn next_file(&mut self) -> io::Result<()> {
        let all = files(&self.folder)?;
        let number = all.last().map_or(1, |(number, _)| number + 1);
        let mut sizes: u64 =
            all.iter().filter_map(|(_, path)| Some(path.metadata().ok()?.len())).sum();
        for (_, path) in &all {
            if sizes + FILE_BYTES <= BYTES_MAX {
                break;
            }
            sizes -= path.metadata().map_or(0, |found| found.len());
            fs::remove_file(path)?;
        }
        let path = self.folder.join(format!("{number:08}{ENDING}"));
        let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        let head = format!("{MAGIC}\n{}\n", self.about.line());
        file.write_all(head.as_bytes())?;
        self.file = Some((number, file, head.len() as u64));
        Ok(())
    }
}

fn frame(mut batch: Batch) -> io::Result<Vec<u8>> {
    batch.pack().map_err(io::Error::other)?;
    packed(&batch)
}

fn packed(batch: &Batch) -> io::Result<Vec<u8>> {
    let mut packer = DeflateEncoder::new(vec![0; 8], Compression::default());
    packer.write_all(&helio_proto::encode(batch))?;
    let mut frame = packer.finish()?;
    let (length, sum) = (frame.len() as u32 - 8, crc32fast::hash(&frame[8..]));
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame[4..8].copy_from_slice(&sum.to_le_bytes());
    Ok(frame)
}

/// Reads a file, batch by batch, and says what of it could not be read.
///
/// # Errors
/// A sentence: it is not a file of a history, or one of a form that this release does not know.
pub(super) fn read(
    path: &Path,
    mut each: impl FnMut(Batch),
) -> Result<(About, Option<String>), String> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let bytes = fs::read(path).map_err(|error| format!("{name} cannot be read: {error}"))?;
    let mut rest = &bytes[..];
    let mut line = || -> Option<String> {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let line = String::from_utf8(rest[..end].to_vec()).ok()?;
        rest = &rest[end + 1..];
        Some(line)
    };
    let (magic, about) = (line().unwrap_or_default(), line());
    let about = about.and_then(|about| About::parse(&about));
    if ![MAGIC, MAGIC_OF_ROWS].contains(&&*magic) {
        return Err(match magic.strip_prefix(MAGIC_OF_ANY) {
            Some(form) => format!(
                "{name} was written by Heliostat {} in form {form}, which this release ({}) does not know: open it with \
                 that release.",
                about.map_or_else(|| "of another release".to_owned(), |about| about.release),
                env!("CARGO_PKG_VERSION")
            ),
            None => format!("{name} is not a file of a history."),
        });
    }
    let about = about.ok_or_else(|| format!("{name} is cut within its first lines."))?;
    let mut count = 0_u64;
    while !rest.is_empty() {
        // A head that was killed may have written a part of its last batch.
        let Some((batch, size)) = next(rest) else {
            let note = format!(
                "{name} is cut or damaged after {count} batches: the last {} of its {} bytes are left out.",
                rest.len(),
                bytes.len()
            );
            return Ok((about, Some(note)));
        };
        each(batch);
        count += 1;
        rest = &rest[size..];
    }
    Ok((about, None))
}

/// The batch at the beginning of these bytes, and how many bytes it takes; `None`: it is cut, or damaged.
fn next(bytes: &[u8]) -> Option<(Batch, usize)> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let length = number(0)? as usize;
    let packed = bytes.get(8..8 + length)?;
    if number(4)? != crc32fast::hash(packed) {
        return None;
    }
    let mut plain = Vec::new();
    DeflateDecoder::new(packed).take(BATCH_MAX as u64).read_to_end(&mut plain).ok()?;
    let mut batch: Batch = helio_proto::decode(&plain).ok()?;
    batch.unpack(ROWS_MAX).ok()?;
    Some((batch, 8 + length))
}

#[cfg(test)]
mod tests {
    use helio_proto::inspect::{Answer, TaskRow};

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("history-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }

        fn first(&self) -> PathBuf {
            files(&self.0).unwrap()[0].1.clone()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn about() -> About {
        About { session_name: "s".to_owned(), release: "0".to_owned(), node_id: "n".to_owned() }
    }

    fn written(name: &str, moments: impl IntoIterator<Item = u64>) -> Folder {
        let folder = Folder::new(name);
        let mut writer = Writer::new(&folder.0, about()).unwrap();
        for at_ms in moments {
            let begins = writer.begins();
            writer.write(Batch { at_ms, ..Batch::default() }, begins).unwrap();
        }
        folder
    }

    fn read_back(path: &Path) -> (Vec<u64>, Option<String>) {
        let mut moments = Vec::new();
        let (found, note) = read(path, |batch| moments.push(batch.at_ms)).unwrap();
        assert_eq!(found, about());
        (moments, note)
    }

    #[test]
    fn what_is_written_is_read_and_who_goes_on_begins_a_file() {
        let folder = written("whole", [1, 2, 3]);
        assert_eq!(read_back(&folder.first()), (vec![1, 2, 3], None));
        let mut writer = Writer::new(&folder.0, about()).unwrap();
        assert!(writer.begins());
        writer.write(Batch { at_ms: 4, ..Batch::default() }, true).unwrap();
        assert!(!writer.begins());
        let all = files(&folder.0).unwrap();
        assert_eq!(read_back(&all[1].1), (vec![4], None));
    }

    #[test]
    fn a_file_that_is_cut_anywhere_has_what_came_before() {
        let folder = written("cut", [1, 2, 3]);
        let path = folder.first();
        let whole = fs::read(&path).unwrap();
        let head = format!("{MAGIC}\n{}\n", about().line()).len();
        for cut in head..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (moments, note) = read_back(&path);
            assert_eq!(moments, (1..=moments.len() as u64).collect::<Vec<_>>());
            assert!(moments.len() < 3);
            let is_between = note.is_none();
            assert!(is_between || note.unwrap().contains("cut or damaged"), "{cut}");
        }
        let mut damaged = whole.clone();
        let at = whole.len() - 1;
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let (moments, note) = read_back(&path);
        assert_eq!((moments.len(), note.is_some()), (2, true));
    }

    #[test]
    fn files_with_rows_one_after_the_other_are_read() {
        let row = TaskRow { name: "f".to_owned(), created_ms: 7, ..TaskRow::default() };
        let answer = Answer { tasks: vec![row.clone(), row], pid: 3, ..Answer::default() };
        let calls = vec![Answer::default(), answer, Answer::default()];
        let batch = Batch { at_ms: 1, calls, ..Batch::default() };
        let folder = Folder::new("rows");
        let mut writer = Writer::new(&folder.0, about()).unwrap();
        writer.write(batch.clone(), true).unwrap();
        let mut found = Vec::new();
        read(&folder.first(), |batch| found.push(batch)).unwrap();
        assert_eq!(found, std::slice::from_ref(&batch));

        let old = format!("{MAGIC_OF_ROWS}\n{}\n", about().line());
        let old = [old.into_bytes(), packed(&batch).unwrap()].concat();
        fs::write(folder.first(), old).unwrap();
        found.clear();
        read(&folder.first(), |batch| found.push(batch)).unwrap();
        assert_eq!(found, [batch]);
    }

    #[test]
    fn files_of_other_forms_are_named_with_their_release() {
        let folder = written("form", [1]);
        let path = folder.first();
        let text = format!(
            "heliostat-history 7\n{}\n",
            About { release: "9.9".to_owned(), ..about() }.line()
        );
        fs::write(&path, text).unwrap();
        let said = read(&path, |_| {}).unwrap_err();
        assert!(said.contains("9.9") && said.contains("form 7"), "{said}");
        fs::write(&path, "something else").unwrap();
        assert!(read(&path, |_| {}).unwrap_err().contains("not a file of a history"));
    }
}
