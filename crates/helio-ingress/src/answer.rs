//! Answers to a client: a body that is there, or one that comes from a replica piece by piece.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use helio_proto::serve;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Sleep;

use crate::grpc_status;
use crate::headers::header_map;
use crate::link::{Event, Exchange};
use crate::spans::Span;
use crate::table::Place;

/// A request that a replica has, and what it holds here.
#[derive(Debug)]
pub(crate) struct Ongoing {
    pub(crate) exchange: Rc<Exchange>,
    /// Counts the request as ongoing for as long as this is there.
    pub(crate) _place: Place,
    /// Sends the rest of the request's body.
    pub(crate) pump: Option<AbortHandle>,
    /// The end of the time for the request.
    pub(crate) deadline: Option<Pin<Box<Sleep>>>,
    /// Whether it is a call of gRPC: those are told why they end early in their trailers.
    pub(crate) is_grpc: bool,
    /// The span of the request, which ends with its answer.
    pub(crate) span: Option<Span>,
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        if let Some(pump) = &self.pump {
            pump.abort();
        }
    }
}

#[derive(Debug)]
pub(crate) enum Answer {
    Whole(Bytes),
    /// Messages of gRPC that are made here; the status that all is well follows.
    Messages {
        coming: mpsc::Receiver<Bytes>,
        is_over: bool,
    },
    /// The first piece, then what comes.
    Pieces {
        first: Bytes,
        ongoing: Ongoing,
        is_over: bool,
    },
}

/// Returns the end of an answer that is cut short. Over HTTP the connection breaks, so that the client knows that
/// something is missing.
fn broken(ongoing: &Ongoing, code: u8, kind: io::ErrorKind) -> Result<Frame<Bytes>, io::Error> {
    if ongoing.is_grpc {
        let say = "The answer ends before its end.";
        return Ok(Frame::trailers(grpc_status::status(code, say)));
    }
    Err(kind.into())
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Self::Whole(data) if data.is_empty() => Poll::Ready(None),
            Self::Whole(data) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(data))))),
            Self::Messages { is_over: true, .. } => Poll::Ready(None),
            Self::Messages { coming, is_over } => coming.poll_recv(context).map(|message| {
                *is_over = message.is_none();
                let status = || Frame::trailers(grpc_status::status(0, ""));
                Some(Ok(message.map_or_else(status, Frame::data)))
            }),
            Self::Pieces { first, ongoing, .. } if !first.is_empty() => {
                // Taken when it goes on to the client: so a slow client holds back its replica.
                ongoing.exchange.take(first.len());
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(first)))))
            }
            Self::Pieces { is_over: true, .. } => Poll::Ready(None),
            Self::Pieces { ongoing, is_over, .. } => loop {
                if let Some(deadline) = &mut ongoing.deadline
                    && deadline.as_mut().poll(context).is_ready()
                {
                    *is_over = true;
                    return Poll::Ready(Some(broken(
                        ongoing,
                        grpc_status::DEADLINE_EXCEEDED,
                        io::ErrorKind::TimedOut,
                    )));
                }
                return match ongoing.exchange.poll_next(context) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Event::Piece { is_last, data }) => {
                        *is_over = is_last;
                        ongoing.exchange.take(data.len());
                        if data.is_empty() && !is_last {
                            continue;
                        }
                        if data.is_empty() {
                            return Poll::Ready(None);
                        }
                        Poll::Ready(Some(Ok(Frame::data(data))))
                    }
                    Poll::Ready(Event::Trailers(frame)) => {
                        *is_over = true;
                        let headers = serve::read_trailers(&frame).map(header_map);
                        if let (Some(span), Ok(headers)) = (&mut ongoing.span, &headers) {
                            span.of_rpc(headers);
                        }
                        Poll::Ready(headers.ok().map(|headers| Ok(Frame::trailers(headers))))
                    }
                    Poll::Ready(_) => {
                        *is_over = true;
                        Poll::Ready(Some(broken(
                            ongoing,
                            grpc_status::UNAVAILABLE,
                            io::ErrorKind::ConnectionAborted,
                        )))
                    }
                };
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(data) => data.is_empty(),
            Self::Messages { is_over, .. } => *is_over,
            Self::Pieces { first, is_over, .. } => first.is_empty() && *is_over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(data) => SizeHint::with_exact(data.len() as u64),
            Self::Messages { .. } | Self::Pieces { .. } => SizeHint::default(),
        }
    }
}
