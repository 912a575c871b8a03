//! Templates and their functions travel over connections: each is sent once, and named by a number.
//!
//! **LIMIT-1** A session may define functions for ever. The latest [`SENT_MAX`] templates and
//! [`FUNCTIONS_MAX`] functions of a connection have a number there; the number of the oldest goes to the
//! next, and what lost its number is sent again when it is called. So the other end keeps as many. What
//! arrived is found again by its bytes up to [`KNOWN_MAX`] templates and [`KNOWN_BYTES_MAX`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use helio_owner_state::IdMap;
/// A serialized function or class; a copy of it is no copy of its bytes.
pub(crate) use helio_proto::bytes::Bytes as Function;
use helio_proto::frame;
use helio_proto::peer::{Frame, Template};

use crate::conn::Conn;

/// How many templates one end of a connection has numbers for.
pub(crate) const SENT_MAX: usize = 512;
/// How many functions: most templates of a program call the same few.
pub(crate) const FUNCTIONS_MAX: usize = 64;
/// How many templates of all connections are kept to be recognized, and how many bytes of them.
const KNOWN_MAX: usize = 1024;
const KNOWN_BYTES_MAX: usize = 64 << 20;

/// What the other end of a connection has by a number. A copy is kept, so that the address by which it
/// is found stays taken.
#[derive(Debug)]
pub(crate) struct Sent<T> {
    numbers: IdMap<usize, (u32, T)>,
    /// Addresses, the oldest first.
    order: VecDeque<usize>,
    max: usize,
}

impl<T> Sent<T> {
    pub(crate) fn new(max: usize) -> Self {
        Self { numbers: IdMap::default(), order: VecDeque::new(), max }
    }

    /// The number of what lies at that address, if the other end knows it.
    pub(crate) fn find(&self, address: usize) -> Option<u32> {
        self.numbers.get(&address).map(|(number, _)| *number)
    }

    /// A number for what is about to be sent.
    pub(crate) fn add(&mut self, address: usize, kept: T) -> u32 {
        let oldest = if self.order.len() >= self.max { self.order.pop_front() } else { None };
        let reused = oldest.and_then(|oldest| self.numbers.remove(&oldest));
        let number = reused.map_or(self.order.len() as u32 + 1, |(number, _)| number);
        self.order.push_back(address);
        self.numbers.insert(address, (number, kept));
        number
    }
}

impl Conn {
    /// The template's number here; it is sent first if the other end does not have it.
    pub(crate) fn template(&mut self, template: &Arc<Template>) -> u32 {
        let address = Arc::as_ptr(template) as usize;
        if let Some(number) = self.templates_sent.find(address) {
            return number;
        }
        let function = self.function(&template.function);
        let body = Template { function: Function::new(), ..(**template).clone() };
        let body = helio_proto::encode(&body);
        let number = self.templates_sent.add(address, Arc::clone(template));
        frame::put(&mut self.output, |b| Frame::Template { number, function, body: &body }.put(b));
        number
    }

    fn function(&mut self, function: &Function) -> u32 {
        if function.is_empty() {
            return 0;
        }
        let address = function.as_ptr() as usize;
        self.functions_sent.find(address).unwrap_or_else(|| {
            let number = self.functions_sent.add(address, function.clone());
            frame::put(&mut self.output, |b| Frame::Function { number, body: function }.put(b));
            number
        })
    }
}

/// Templates that arrived, by their bytes: whoever sends them, the same is the same allocation.
#[derive(Debug, Default)]
pub(crate) struct Known {
    by_bytes: HashMap<Vec<u8>, Arc<Template>>,
    bytes: usize,
}

impl Known {
    /// `function`: what `body` leaves out; its id is in `body`, so that equal bodies have equal functions.
    pub(crate) fn find_or_read(
        &mut self,
        body: &[u8],
        function: Option<Function>,
    ) -> Result<Arc<Template>, String> {
        if let Some(known) = self.by_bytes.get(body) {
            return Ok(known.clone());
        }
        let mut read: Template =
            helio_proto::decode(body).map_err(|_| "malformed template".to_owned())?;
        if let Some(function) = function {
            read.function = function;
        }
        let bytes = body.len() + read.function.len();
        if self.by_bytes.len() >= KNOWN_MAX || self.bytes + bytes > KNOWN_BYTES_MAX {
            self.forget_unused();
        }
        let read = Arc::new(read);
        self.bytes += bytes;
        self.by_bytes.insert(body.to_vec(), read.clone());
        Ok(read)
    }

    /// Forgets what nothing else refers to; when that is little, all.
    fn forget_unused(&mut self) {
        self.by_bytes.retain(|_, known| Arc::strong_count(known) > 1);
        self.bytes =
            self.by_bytes.iter().map(|(body, known)| body.len() + known.function.len()).sum();
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
        let function = vec![0; size].into();
        Arc::new(Template { name: n.to_string(), function, ..Template::default() })
    }

    /// LIMIT-1
    #[test]
    fn however_much_is_called_a_connection_numbers_so_many() {
        let mut sent = Sent::new(SENT_MAX);
        let address = |of: &Arc<Template>| Arc::as_ptr(of) as usize;
        let first = template(0, 0);
        let at = address(&first);
        assert_eq!((sent.find(at), sent.add(at, first.clone()), sent.find(at)), (None, 1, Some(1)));
        // What the other end has by number.
        let mut there = HashMap::from([(1, first.name.clone())]);
        for n in 1..3 * SENT_MAX {
            let next = template(n, 0);
            there.insert(sent.add(address(&next), next.clone()), next.name.clone());
            assert_eq!(there[&sent.find(address(&next)).unwrap()], next.name);
        }
        assert_eq!(
            (there.len(), sent.numbers.len(), sent.order.len()),
            (SENT_MAX, SENT_MAX, SENT_MAX)
        );
        assert!(sent.numbers.values().all(|(number, kept)| there[number] == kept.name));
        assert_eq!(sent.find(at), None, "it is sent again when it is called");
    }

    /// LIMIT-1
    #[test]
    fn what_arrived_is_recognized_up_to_a_bound() {
        let mut known = Known::default();
        let mut used = Vec::new();
        for n in 0..3 * KNOWN_MAX {
            let body = helio_proto::encode::<Template>(&template(n, 0));
            let one = known.find_or_read(&body, None).unwrap();
            assert!(Arc::ptr_eq(&one, &known.find_or_read(&body, None).unwrap()));
            assert!(known.by_bytes.len() <= KNOWN_MAX);
            used.extend((n % 2 == 0).then_some(one));
        }
        for n in 0..6 {
            let function = Function::from(vec![0; KNOWN_BYTES_MAX / 4]);
            let body = helio_proto::encode::<Template>(&template(n, 0));
            let one = known.find_or_read(&body, Some(function.clone())).unwrap();
            assert_eq!(one.function.as_ptr(), function.as_ptr(), "not copied");
            assert!(known.bytes <= KNOWN_BYTES_MAX);
            let bytes = |(body, one): (&Vec<u8>, &Arc<Template>)| body.len() + one.function.len();
            assert_eq!(known.bytes, known.by_bytes.iter().map(bytes).sum());
        }
        assert!(known.find_or_read(b"\xff", None).is_err());
    }
}
