//! Files cut into chunks where their content says so: a change of a file leaves the chunks before and behind it as
//! they were. FastCDC (Xia and others, 2016 and 2020) finds the cuts.

use std::fs::File;
use std::io;
use std::path::Path;

use fastcdc::v2020::StreamCDC;

/// Bounds and mean of a chunk, in bytes. A change costs about one chunk of traffic, and a chunk costs an entry in a list.
const CHUNK_MIN: u32 = 64 << 10;
const CHUNK_MEAN: u32 = 256 << 10;
const CHUNK_MAX: u32 = 1 << 20;

/// The name of a chunk: a BLAKE2b of what is in it.
pub type Digest = [u8; 16];

/// The chunks of a file in order: their names and sizes. An empty file has none.
///
/// # Errors
/// When the file cannot be read.
pub fn cut(path: &Path) -> io::Result<Vec<(Digest, u32)>> {
    let chunks = StreamCDC::new(File::open(path)?, CHUNK_MIN, CHUNK_MEAN, CHUNK_MAX);
    let named = chunks.map(|chunk| {
        let data = chunk?.data;
        Ok((digest(&data), data.len() as u32))
    });
    named.collect()
}

/// The name of a chunk.
#[must_use]
pub fn digest(data: &[u8]) -> Digest {
    let hash = blake2b_simd::Params::new().hash_length(size_of::<Digest>()).hash(data);
    let mut digest = Digest::default();
    digest.copy_from_slice(hash.as_bytes());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks_of(name: &str, content: &[u8]) -> Vec<(Digest, u32)> {
        let path = std::env::temp_dir().join(format!("chunks-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        let chunks = cut(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        chunks
    }

    #[test]
    fn an_insertion_changes_the_chunks_about_it_alone() {
        let mut state = 1_u64;
        let mut content: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(8 << 20)
        .collect();
        let before = chunks_of("before", &content);
        let total: u64 = before.iter().map(|(_, size)| u64::from(*size)).sum();
        assert_eq!(total, content.len() as u64);
        assert!(before.iter().all(|(_, size)| *size <= CHUNK_MAX));
        content.splice(4 << 20..4 << 20, *b"one line more\n");
        let after = chunks_of("after", &content);
        let new = after.iter().filter(|chunk| !before.contains(chunk)).count();
        assert!((1..=3).contains(&new), "{new} of {} are new", after.len());
    }

    #[test]
    fn an_empty_file_has_no_chunks_and_a_small_one_has_one() {
        assert!(chunks_of("empty", b"").is_empty());
        assert_eq!(chunks_of("small", b"x = 1\n"), [(digest(b"x = 1\n"), 6)]);
    }
}
