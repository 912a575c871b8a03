//! The requests of one connection of HTTP/2, and when it has done nothing for too long.
//!
//! **LIMIT-1** A client that takes nothing of one of its answers for the keep-alive time loses the connection, and with
//! it that answer's place at a replica; so does one that has asked for nothing for as long.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use crate::answer::Answer;

#[derive(Debug)]
pub(crate) struct Streams {
    all: RefCell<Vec<Weak<Stream>>>,
    /// The time at which the last request came or went.
    changed: Cell<Instant>,
}

/// A request, from its head to the end of its answer.
#[derive(Debug)]
struct Stream {
    /// The time since which the client could take more of the answer and did not; `None`: it waits for us.
    untaken_since: Cell<Option<Instant>>,
    of: Rc<Streams>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.of.changed.set(Instant::now());
    }
}

impl Streams {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self { all: RefCell::default(), changed: Cell::new(Instant::now()) })
    }

    /// A request has come.
    pub(crate) fn begin(self: &Rc<Self>) -> Begun {
        let stream = Stream { untaken_since: Cell::new(None), of: Rc::clone(self) };
        let stream = Rc::new(stream);
        self.changed.set(Instant::now());
        let mut all = self.all.borrow_mut();
        if all.len() == all.capacity() {
            all.retain(|one| one.strong_count() > 0);
        }
        all.push(Rc::downgrade(&stream));
        Begun(stream)
    }

    /// Returns the state of the connection, for a client that may be silent for so long.
    pub(crate) fn look(&self, silence: Duration) -> State {
        let mut all = self.all.borrow_mut();
        all.retain(|one| one.strong_count() > 0);
        if all.is_empty() {
            return if self.changed.get().elapsed() >= silence { State::Idle } else { State::Busy };
        }
        let is_stuck = |one: &Weak<Stream>| {
            let since = one.upgrade().and_then(|stream| stream.untaken_since.get());
            since.is_some_and(|since| since.elapsed() >= silence)
        };
        if all.iter().any(is_stuck) { State::Stuck } else { State::Busy }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    Busy,
    /// No answer is under way.
    Idle,
    /// An answer is not taken.
    Stuck,
}

/// A request without an answer yet.
#[derive(Debug)]
pub(crate) struct Begun(Rc<Stream>);

impl Begun {
    pub(crate) fn answered(self, answer: Answer) -> Taken {
        self.0.untaken_since.set(Some(Instant::now()));
        Taken { answer, stream: self.0 }
    }
}

/// An answer that is watched as the client takes it.
#[derive(Debug)]
pub(crate) struct Taken {
    answer: Answer,
    stream: Rc<Stream>,
}

impl Body for Taken {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        // Hyper asks once the client's window has room.
        let frame = Pin::new(&mut self.answer).poll_frame(context);
        self.stream.untaken_since.set(frame.is_ready().then(Instant::now));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(10);

    async fn later() {
        tokio::time::advance(SILENCE).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_is_idle_after_the_silence() {
        let streams = Streams::new();
        assert_eq!(streams.look(SILENCE), State::Busy);
        let begun = streams.begin();
        later().await;
        assert_eq!(streams.look(SILENCE), State::Busy, "a replica may take its time");
        drop(begun);
        assert_eq!(streams.look(SILENCE), State::Busy);
        later().await;
        assert_eq!(streams.look(SILENCE), State::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_is_stuck_beside_one_that_is_waited_for() {
        let streams = Streams::new();
        let waiting = streams.begin();
        let mut answer = streams.begin().answered(Answer::Whole(Bytes::from_static(b"x")));
        later().await;
        assert_eq!(streams.look(SILENCE), State::Stuck);
        let frame = std::future::poll_fn(|context| Pin::new(&mut answer).poll_frame(context));
        assert!(frame.await.is_some_and(|frame| frame.is_ok()));
        assert_eq!(streams.look(SILENCE), State::Busy);
        drop((answer, waiting));
        assert_eq!(streams.look(SILENCE), State::Busy);
    }
}
