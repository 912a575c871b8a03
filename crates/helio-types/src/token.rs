//! The token of a cluster that asks for none.

/// The token that processes show each other in a cluster that was started with `AUTH_MODE=disabled`. It is not a
/// secret: a process that has it as its own token lets everybody in.
pub const OPEN_TOKEN: &str = "authentication-is-disabled";
