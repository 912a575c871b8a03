//! Bodies of requests: what is read before a replica is asked, and what is sent on as it comes.

use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};

use crate::client::Patience;
use crate::fault::Fault;
use crate::link::{Event, Exchange};

/// Bodies of a known length up to this are read before a replica is asked.
const SMALL_BODY: u64 = 64 << 10;
/// The part of the request's body that has come before a replica is asked.
pub(crate) struct Given {
    /// The protocol inside the bodies, if it is not HTTP's own: [`WEBSOCKET`](helio_proto::serve::WEBSOCKET), [`GRPC`](helio_proto::serve::GRPC).
    pub(crate) kind: Option<u8>,
    /// The bytes that have come.
    pub(crate) first: Bytes,
    /// The part that is still to come.
    pub(crate) rest: Option<Incoming>,
}

impl Given {
    pub(crate) fn whole(first: Bytes) -> Self {
        Self { kind: None, first, rest: None }
    }
}

/// Reads a body whole if its declared length is small; a longer one, or one of unknown length, is not read yet.
pub(crate) async fn read_small(body: Incoming, silence: Duration) -> Result<Given, Fault> {
    match body.size_hint().exact() {
        _ if body.is_end_stream() => Ok(Given::whole(Bytes::new())),
        Some(length) if length <= SMALL_BODY => read_up_to_small(body, true, silence).await,
        _ => Ok(Given { kind: None, first: Bytes::new(), rest: Some(body) }),
    }
}

/// Reads on until the body is over, or is not small.
pub(crate) async fn read_up_to_small(
    mut body: Incoming,
    is_length_known: bool,
    silence: Duration,
) -> Result<Given, Fault> {
    let mut read = bytes::BytesMut::new();
    let mut patience = Patience::new(silence, is_length_known);
    while let Some(frame) = patience.wait(next_frame(&mut body), size).await.ok_or(Fault::Late)? {
        let frame = frame.map_err(|error| Fault::Cut(error.to_string()))?;
        if let Ok(data) = frame.into_data() {
            // The whole body came at once: it is passed on without a copy.
            if read.is_empty() && body.is_end_stream() {
                return Ok(Given::whole(data));
            }
            read.extend_from_slice(&data);
        }
        if read.len() as u64 > SMALL_BODY {
            return Ok(Given { kind: None, first: read.freeze(), rest: Some(body) });
        }
    }
    Ok(Given::whole(read.freeze()))
}

pub(crate) type Part = Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>;

pub(crate) fn size(part: &Part) -> usize {
    let data = part.as_ref().and_then(|part| part.as_ref().ok()?.data_ref());
    data.map_or(0, Bytes::len)
}

pub(crate) async fn next_frame(body: &mut Incoming) -> Part {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

/// Whether a body that broke was wrong, or ended.
fn why_broken(error: &hyper::Error) -> Event {
    let kind =
        error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    match kind {
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => Event::Malformed,
        _ => Event::Late,
    }
}

/// Sends the request's body as it comes and as the replica takes it.
pub(crate) async fn pump(mut body: Incoming, exchange: Rc<Exchange>, silence: Duration) {
    let mut patience = Patience::new(silence, body.size_hint().exact().is_some());
    loop {
        let Some(part) = patience.wait(next_frame(&mut body), size).await else {
            return exchange.give_up(Event::Late);
        };
        let Some(frame) = part else { break };
        // A client that has gone away whole is noticed by hyper, which drops the request; one that has only
        // stopped sending might still listen.
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return exchange.give_up(why_broken(&error)),
        };
        if let Ok(data) = frame.into_data() {
            exchange.send_body(data).await;
        }
    }
    exchange.end_body();
}
