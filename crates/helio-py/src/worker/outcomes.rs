//! Outcomes of calls that raised.

use helio_proto::peer::STREAMING;
use helio_worker::{Outcome, Outgoing, OutgoingValue};

/// The outcome of a call that raised: the error in place of each value.
pub(super) fn failed(error: Vec<u8>, returns: u32, retryable: bool) -> Outcome {
    let n = if returns == STREAMING { 1 } else { returns as usize };
    let value = Outgoing { value: OutgoingValue::Error(error), contained: Vec::new() };
    Outcome { returns: vec![value; n], failed: true, retryable, ..Outcome::default() }
}

/// The outcome of a call that raised after it had made the values `before`.
pub(super) fn after(before: Vec<Outgoing>, mut failed: Outcome) -> Outcome {
    for (place, value) in failed.returns.iter_mut().zip(before) {
        *place = value;
    }
    failed
}
