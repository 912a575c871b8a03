//! The messages that two sides have sent each other and have not confirmed, so that nothing is lost or comes twice when
//! the connection between them is made again.

use std::collections::VecDeque;

/// Number of messages after which they are confirmed.
const ACK_EVERY: u64 = 32;

/// Number of bytes after which messages are confirmed.
const ACK_BYTES: usize = 128 << 10;

/// The numbered messages of both directions; `M` is a message as it travels.
#[derive(Debug)]
pub(crate) struct Link<M> {
    /// Sent and not confirmed, oldest first, with their lengths.
    kept: VecDeque<(M, usize)>,
    kept_bytes: usize,
    confirmed: u64,
    received: u64,
    /// The number of these that were confirmed, and the bytes that have come since.
    told: u64,
    untold_bytes: usize,
}

/// The error of a count that does not fit: the other side speaks of another session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Strange;

impl<M> Default for Link<M> {
    fn default() -> Self {
        Self {
            kept: VecDeque::new(),
            kept_bytes: 0,
            confirmed: 0,
            received: 0,
            told: 0,
            untold_bytes: 0,
        }
    }
}

impl<M> Link<M> {
    /// A message is sent; it is kept until it is confirmed.
    pub(crate) fn keep(&mut self, message: M, length: usize) {
        self.kept.push_back((message, length));
        self.kept_bytes += length;
    }

    /// Returns the number of bytes that are kept until they are confirmed.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Notes the number of messages that the other side has.
    pub(crate) fn on_ack(&mut self, received: u64) -> Result<(), Strange> {
        let newly = received.checked_sub(self.confirmed);
        let Some(newly) = newly.and_then(|newly| usize::try_from(newly).ok()) else {
            // An older confirmation, which a newer connection has overtaken.
            return Ok(());
        };
        if newly > self.kept.len() {
            return Err(Strange);
        }
        self.kept_bytes -= self.kept.drain(..newly).map(|(_, length)| length).sum::<usize>();
        self.confirmed = received;
        Ok(())
    }

    /// A new connection: what the other side, which has so many messages, has to be sent again.
    pub(crate) fn on_resumed(
        &mut self,
        received: u64,
    ) -> Result<impl Iterator<Item = &M>, Strange> {
        if received < self.confirmed {
            return Err(Strange);
        }
        self.on_ack(received)?;
        self.told = self.received;
        self.untold_bytes = 0;
        Ok(self.kept.iter().map(|(message, _)| message))
    }

    /// A message has come; whether it is time to confirm.
    pub(crate) fn on_message(&mut self, length: usize) -> bool {
        self.received += 1;
        self.untold_bytes += length;
        self.received - self.told >= ACK_EVERY || self.untold_bytes >= ACK_BYTES
    }

    /// Returns the number of messages that have come.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of messages that have come, if the other side has not been told; it
    /// counts as told now.
    pub(crate) fn take_ack(&mut self) -> Option<u64> {
        let is_news = self.told != self.received;
        self.told = self.received;
        self.untold_bytes = 0;
        is_news.then_some(self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(link: &mut Link<u32>, received: u64) -> Result<Vec<u32>, Strange> {
        link.on_resumed(received).map(|kept| kept.copied().collect())
    }

    #[test]
    fn what_was_not_confirmed_is_sent_again_and_nothing_else() {
        let mut link = Link::default();
        (0..10).for_each(|number| link.keep(number, 100));
        assert_eq!(link.on_ack(4), Ok(()));
        assert_eq!(link.kept_bytes(), 600);
        assert_eq!(link.on_ack(3), Ok(()), "a late confirmation says nothing new");
        assert_eq!(again(&mut link, 7), Ok(vec![7, 8, 9]));
        assert_eq!(again(&mut link, 10), Ok(vec![]));
        assert_eq!(link.kept_bytes(), 0);
    }

    #[test]
    fn a_side_that_counts_otherwise_is_of_another_session() {
        let mut link = Link::default();
        link.keep(1, 1);
        assert_eq!(link.on_ack(2), Err(Strange));
        assert_eq!(link.on_ack(1), Ok(()));
        assert_eq!(again(&mut link, 0), Err(Strange), "it is not kept any more");
    }

    #[test]
    fn messages_are_confirmed_by_number_by_size_and_when_asked() {
        let mut link = Link::<u32>::default();
        assert_eq!(link.take_ack(), None);
        assert!(!link.on_message(1));
        assert_eq!(link.take_ack(), Some(1));
        assert!((0..ACK_EVERY).any(|_| link.on_message(1)));
        link.take_ack();
        assert!(link.on_message(ACK_BYTES));
        assert_eq!(link.received(), 2 + ACK_EVERY);
    }
}
