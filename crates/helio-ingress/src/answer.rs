//! What goes back to a client: a body that is there, or one that comes from a replica piece by piece.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::AbortHandle;
use tokio::time::Sleep;

use crate::link::{Event, Exchange};
use crate::table::Place;

/// A request that a replica has, and what it holds here.
#[derive(Debug)]
pub(crate) struct Ongoing {
    pub(crate) exchange: Rc<Exchange>,
    /// Counts the request as ongoing for as long as this is there.
    pub(crate) _place: Place,
    /// Sends the rest of the request's body.
    pub(crate) pump: Option<AbortHandle>,
    /// When the time for the request is over.
    pub(crate) deadline: Option<Pin<Box<Sleep>>>,
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
    /// The first piece, then what comes.
    Pieces {
        first: Bytes,
        ongoing: Ongoing,
        is_over: bool,
    },
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
            Self::Pieces { first, ongoing, .. } if !first.is_empty() => {
                ongoing.exchange.take(first.len());
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(first)))))
            }
            Self::Pieces { is_over: true, .. } => Poll::Ready(None),
            Self::Pieces { ongoing, is_over, .. } => loop {
                if let Some(deadline) = &mut ongoing.deadline
                    && deadline.as_mut().poll(context).is_ready()
                {
                    return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
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
                    // The connection breaks, so that the client knows that something is missing.
                    Poll::Ready(_) => {
                        *is_over = true;
                        Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())))
                    }
                };
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(data) => data.is_empty(),
            Self::Pieces { first, is_over, .. } => first.is_empty() && *is_over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(data) => SizeHint::with_exact(data.len() as u64),
            Self::Pieces { .. } => SizeHint::default(),
        }
    }
}
