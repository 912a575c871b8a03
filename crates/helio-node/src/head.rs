//! The address of the head: the one with which the node was started, or the one that a later head has told.

use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use helio_types::address::host_port;
use tokio::sync::Notify;

/// The address of the head, which changes when a later head takes over.
#[derive(Debug, Default)]
pub struct Head {
    newest: Mutex<Newest>,
    moved: Notify,
    /// Hears each new address.
    news: Option<Mutex<Sender<String>>>,
}

#[derive(Debug, Default)]
struct Newest {
    address: Option<(String, u16)>,
    /// The number of the newest head that was heard; 0: heads do not take each other's place.
    epoch: u64,
}

impl Head {
    /// `news` hears each new address, as `host:port`.
    #[must_use]
    pub fn new(news: Sender<String>) -> Self {
        Self { news: Some(Mutex::new(news)), ..Self::default() }
    }

    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address that the newest head has told.
    pub(crate) fn address(&self) -> Option<(String, u16)> {
        self.newest().address.clone()
    }

    /// Whether another head may take the place of the present one.
    pub(crate) fn may_move(&self) -> bool {
        self.newest().epoch > 0
    }

    /// The head of that number has taken this node in.
    pub(crate) fn on_accepted(&self, epoch: u64) {
        let mut newest = self.newest();
        newest.epoch = newest.epoch.max(epoch);
    }

    /// The head of that number says where it is. The address, when it is news: one of a head that was taken over from is
    /// none.
    pub(crate) fn on_moved(&self, host: &str, port: u16, epoch: u64) -> Option<String> {
        let mut newest = self.newest();
        if epoch <= newest.epoch {
            return None;
        }
        *newest = Newest { address: Some((host.to_owned(), port)), epoch };
        drop(newest);
        self.moved.notify_one();
        let address = host_port(host, port);
        if let Some(news) = &self.news {
            // The listener may have ended.
            let _ = news.lock().unwrap_or_else(PoisonError::into_inner).send(address.clone());
        }
        Some(address)
    }

    /// Waits for the next news.
    pub(crate) async fn moved(&self) {
        self.moved.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_later_head_is_followed() {
        let head = Head::default();
        assert!(!head.may_move());
        head.on_accepted(7);
        assert!(head.may_move() && head.address().is_none());
        for epoch in [6, 7] {
            assert_eq!(head.on_moved("old", 1, epoch), None);
        }
        assert_eq!(head.on_moved("new", 2, 8).as_deref(), Some("new:2"));
        head.on_accepted(3);
        assert_eq!(head.on_moved("old", 1, 7), None);
        assert_eq!(head.address(), Some(("new".to_owned(), 2)));
    }
}
