//! Randomness.

/// Bytes that nobody can guess.
///
/// # Panics
/// When the operating system has none: nothing that needs an id or a token can go on.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    bytes
}
