//! Templates that travel over connections: each is sent once, and calls name it by a number.
//!
//! **LIMIT-1** A session may define functions for ever. The latest [`SENT_MAX`] templates of a connection
//! have a number there; the number of the oldest goes to the next, and a template that lost its number
//! is sent again when it is called. So the other end keeps as many. What arrived is found again by its
//! bytes up to [`KNOWN_MAX`] templates and [`KNOWN_BYTES_MAX`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use helio_owner_state::IdMap;
use helio_proto::peer::Template;

/// How many templates one end of a connection has numbers for.
pub(crate) const SENT_MAX: usize = 512;
/// How many templates of all connections are kept to be recognized, and how many bytes of them.
const KNOWN_MAX: usize = 1024;
const KNOWN_BYTES_MAX: usize = 64 << 20;

/// Templates that the other end of a connection has.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// By address, which the `Arc` keeps taken.
    numbers: IdMap<usize, (u32, Arc<Template>)>,
    /// Addresses, the oldest first.
    order: VecDeque<usize>,
}

impl Sent {
    /// The template's number, if the other end knows it.
    pub(crate) fn find(&self, template: &Arc<Template>) -> Option<u32> {
        self.numbers.get(&(Arc::as_ptr(template) as usize)).map(|(number, _)| *number)
    }

    /// A number for a template that is about to be sent.
    pub(crate) fn add(&mut self, template: &Arc<Template>) -> u32 {
        let key = Arc::as_ptr(template) as usize;
        let oldest = if self.order.len() >= SENT_MAX { self.order.pop_front() } else { None };
        let reused = oldest.and_then(|oldest| self.numbers.remove(&oldest));
        let number = reused.map_or(self.order.len() as u32 + 1, |(number, _)| number);
        self.order.push_back(key);
        self.numbers.insert(key, (number, template.clone()));
        number
    }
}

/// Templates that arrived, by their bytes: whoever sends them, the same is the same allocation.
#[derive(Debug, Default)]
pub(crate) struct Known {
    by_bytes: HashMap<Vec<u8>, Arc<Template>>,
    bytes: usize,
}

impl Known {
    pub(crate) fn find_or_read(&mut self, body: &[u8]) -> Result<Arc<Template>, String> {
        if let Some(known) = self.by_bytes.get(body) {
            return Ok(known.clone());
        }
        let read: Template =
            helio_proto::decode(body).map_err(|_| "malformed template".to_owned())?;
        if self.by_bytes.len() >= KNOWN_MAX || self.bytes + body.len() > KNOWN_BYTES_MAX {
            self.forget_unused();
        }
        let read = Arc::new(read);
        self.bytes += body.len();
        self.by_bytes.insert(body.to_vec(), read.clone());
        Ok(read)
    }

    /// Forgets what nothing else refers to; when that is little, all.
    fn forget_unused(&mut self) {
        self.by_bytes.retain(|_, known| Arc::strong_count(known) > 1);
        self.bytes = self.by_bytes.keys().map(Vec::len).sum();
        if self.by_bytes.len() > KNOWN_MAX / 2 || self.bytes > KNOWN_BYTES_MAX / 2 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn template(n: usize, size: usize) -> Arc<Template> {
        Arc::new(Template { name: n.to_string(), function: vec![0; size], ..Template::default() })
    }

    /// LIMIT-1
    #[test]
    fn however_many_templates_are_called_a_connection_numbers_so_many() {
        let mut sent = Sent::default();
        let first = template(0, 0);
        assert_eq!((sent.find(&first), sent.add(&first), sent.find(&first)), (None, 1, Some(1)));
        // What the other end has by number.
        let mut there = HashMap::from([(1, first.name.clone())]);
        for n in 1..3 * SENT_MAX {
            let next = template(n, 0);
            there.insert(sent.add(&next), next.name.clone());
            assert_eq!(there[&sent.find(&next).unwrap()], next.name);
        }
        assert_eq!(
            (there.len(), sent.numbers.len(), sent.order.len()),
            (SENT_MAX, SENT_MAX, SENT_MAX)
        );
        assert!(sent.numbers.values().all(|(number, kept)| there[number] == kept.name));
        assert_eq!(sent.find(&first), None, "it is sent again when it is called");
    }

    /// LIMIT-1
    #[test]
    fn what_arrived_is_recognized_up_to_a_bound() {
        let mut known = Known::default();
        let mut used = Vec::new();
        for n in 0..3 * KNOWN_MAX {
            let body = helio_proto::encode::<Template>(&template(n, 0));
            let one = known.find_or_read(&body).unwrap();
            assert!(Arc::ptr_eq(&one, &known.find_or_read(&body).unwrap()));
            assert!(known.by_bytes.len() <= KNOWN_MAX);
            used.extend((n % 2 == 0).then_some(one));
        }
        for n in 0..6 {
            let body = helio_proto::encode::<Template>(&template(n, KNOWN_BYTES_MAX / 4));
            known.find_or_read(&body).unwrap();
            assert!(known.bytes <= KNOWN_BYTES_MAX);
            assert_eq!(known.bytes, known.by_bytes.keys().map(Vec::len).sum());
        }
        assert!(known.find_or_read(b"\xff").is_err());
    }
}
