//! The trace of a run: always as a hash, as text only when a run is looked at.

use std::collections::VecDeque;

use crate::rng::mix;

/// The trace of a run: a hash of every event, and their text if the run is to be read.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    /// Number of steps.
    pub steps: u64,
    /// The last lines, when they are kept.
    lines: VecDeque<String>,
    kept_max: usize,
}

impl Trace {
    /// A trace that keeps the text of its last `kept_max` lines.
    #[must_use]
    pub fn keeping(kept_max: usize) -> Self {
        Self { kept_max, ..Self::default() }
    }

    /// Whether text is wanted.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.kept_max > 0
    }

    /// Adds a step: the bytes that identify it, and its text.
    pub fn step(&mut self, now: u64, kind: u64, bytes: &[u8], text: impl FnOnce() -> String) {
        self.steps += 1;
        let mut hash = mix(self.hash ^ now.rotate_left(20) ^ kind);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = mix(hash ^ u64::from_le_bytes(word)).wrapping_add(1);
        }
        self.hash = hash;
        if self.kept_max > 0 {
            self.say(now, &text());
        }
    }

    /// A line that is not a step of its own.
    pub fn note(&mut self, now: u64, text: impl FnOnce() -> String) {
        if self.kept_max > 0 {
            self.say(now, &text());
        }
    }

    fn say(&mut self, now: u64, text: &str) {
        if self.lines.len() == self.kept_max {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{:>10}.{:03} {text}", now / 1000, now % 1000));
    }

    /// Equal for equal runs.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The last lines.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}
