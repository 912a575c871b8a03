//! Purposes for which a value is encoded.

/// The purpose of an encoding, for the message of a failure.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    Put,
    /// An argument of the function or method of that name.
    Argument(&'a str),
    /// A result of it.
    Result(&'a str),
    Value,
}
