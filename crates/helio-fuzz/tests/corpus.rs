//! Replays the inputs that the coverage-guided fuzzer has found, and mutations of them, on any toolchain.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use helio_fuzz::TARGETS;
use helio_fuzz::mutate::{Numbers, mutate};

/// Mutated inputs a target.
const MUTATIONS: usize = 20_000;

/// The memory that reading may take for each byte of the input: an empty element of a list takes two bytes
/// on the wire and its type's size here, and lists that grow hold twice of that.
const BYTES_PER_BYTE: u64 = 1_024;
/// The memory that reading may take whatever the input is.
const BYTES_AT_LEAST: u64 = 64 << 10;

/// The inputs of a target: a line each, in hexadecimal digits.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let text = std::fs::read_to_string(folder.join(format!("{target}.hex")));
    let text = text.expect("each target has a corpus");
    let digit = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("digits are text");
        u8::from_str_radix(pair, 16).expect("each byte is two digits")
    };
    text.lines().map(|line| line.as_bytes().chunks(2).map(digit).collect()).collect()
}

/// Runs the target in bounded memory; what panics is printed as bytes that a test can name.
fn run(name: &str, target: fn(&[u8]), input: &[u8]) {
    let mut outcome = Ok(());
    let taken = allocation_counter::measure(|| {
        outcome = catch_unwind(AssertUnwindSafe(|| target(input)));
    });
    assert!(outcome.is_ok(), "{name} panics at {input:?}");
    let bound = BYTES_AT_LEAST + BYTES_PER_BYTE * input.len() as u64;
    assert!(taken.bytes_max <= bound, "LIMIT-1: {name} takes {taken:?} for {input:?}");
}

#[test]
fn every_input_that_the_fuzzer_kept_still_passes() {
    for (name, target) in TARGETS {
        let inputs = corpus(name);
        assert!(!inputs.is_empty(), "{name} has no corpus");
        inputs.iter().for_each(|input| run(name, *target, input));
    }
}

#[test]
fn no_mutation_of_the_corpus_breaks_a_decoder() {
    for (name, target) in TARGETS {
        let inputs = corpus(name);
        let mut numbers = Numbers::new(0x6865_6c69_6f73);
        for _ in 0..MUTATIONS {
            let mut input = inputs[numbers.below(inputs.len())].clone();
            let other = &inputs[numbers.below(inputs.len())];
            mutate(&mut input, other, &mut numbers);
            run(name, *target, &input);
        }
    }
}
