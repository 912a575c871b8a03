//! Mutations from a seed, for toolchains that have no coverage-guided fuzzer.

/// Numbers from a seed (SplitMix64).
#[derive(Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// The numbers of that seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut n = self.0;
        n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ n >> 31
    }

    /// A number below `end`; 0 when `end` is.
    pub fn below(&mut self, end: usize) -> usize {
        (self.draw() % end.max(1) as u64) as usize
    }
}

/// Lengths and counts at which decoders make mistakes.
const EDGES: [u64; 8] =
    [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, u64::MAX];

/// Changes `input` in one to four places; `other` lends parts of itself.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(input.len() + 1);
        match numbers.below(7) {
            0 if at < input.len() => input[at] ^= 1 << numbers.below(8),
            1 if at < input.len() => input[at] = numbers.below(256) as u8,
            2 => input.truncate(at),
            3 => input.insert(at, numbers.below(256) as u8),
            4 if at < input.len() => {
                let end = at + numbers.below(input.len() - at) + 1;
                input.drain(at..end.min(input.len()));
            }
            5 => {
                let edge = EDGES[numbers.below(EDGES.len())].to_le_bytes();
                let n = [1, 2, 4, 8][numbers.below(4)].min(input.len() - at);
                input[at..at + n].copy_from_slice(&edge[..n]);
            }
            _ => {
                let start = numbers.below(other.len());
                let end = (start + 1 + numbers.below(32)).min(other.len());
                input.splice(at..at, other[start.min(end)..end].iter().copied());
            }
        }
    }
}
