//! Handshake and framed connections.
//!
//! [`service`] is for the daemons: tokio, many connections, one task a direction. Drivers and
//! workers have a transport of their own in `helio-worker`; both speak the frames of
//! [`helio_proto::frame`] and begin with [`helio_proto::hello`].

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod http;
pub mod service;
