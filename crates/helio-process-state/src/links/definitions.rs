//! Templates and functions travel once over each link and are named by number from then on.
//!
//! **LIMIT-1** A session may define functions for ever. The newest [`SENT_MAX`] templates and
//! [`FUNCTIONS_MAX`] functions of a link have a number there; the number of the oldest goes to the next
//! definition, and a template that lost its number is sent again when it is called. So the other end
//! keeps as many. A template that arrived is recognized by its bytes, up to [`KNOWN_MAX`] templates and
//! [`KNOWN_BYTES_MAX`] bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A serialized function or class; a copy shares its bytes.
use helio_proto::bytes::Bytes as Function;
use helio_proto::frame;
use helio_proto::peer::Frame;
use helio_proto::template::Template;
use helio_types::IdMap;

/// Maximum number of templates for which one end of a link has numbers.
const SENT_MAX: usize = 512;
/// Maximum number of functions with numbers: most templates of a program call the same few.
const FUNCTIONS_MAX: usize = 64;
/// Maximum number of templates of all links that are kept to be recognized.
const KNOWN_MAX: usize = 1024;
/// Maximum number of bytes of these templates, with their functions.
const KNOWN_BYTES_MAX: usize = 64 << 20;

/// Definitions of one kind that the other end has, by number. A copy of each is kept, so that the address
/// by which it is found is not reused.
#[derive(Debug)]
struct Numbers<T> {
    by_address: IdMap<usize, (u32, T)>,
    /// Addresses, the oldest first.
    order: VecDeque<usize>,
    max: usize,
}

impl<T> Numbers<T> {
    fn new(max: usize) -> Self {
        Self { by_address: IdMap::default(), order: VecDeque::new(), max }
    }

    /// The number of the definition at that address, if the other end has it.
    fn find(&self, address: usize) -> Option<u32> {
        self.by_address.get(&address).map(|(number, _)| *number)
    }

    /// A number for a definition that is about to be sent.
    fn add(&mut self, address: usize, kept: T) -> u32 {
        // The other end keeps as many: a number is used again when its definition has the longest time behind it.
        let oldest = if self.order.len() >= self.max { self.order.pop_front() } else { None };
        let reused = oldest.and_then(|oldest| self.by_address.remove(&oldest));
        let is_free = oldest.is_some() == reused.is_some();
        assert!(
            is_free,
            "two definitions would have one number, and calls run the other's function"
        );
        let number = reused.map_or(self.order.len() as u32 + 1, |(number, _)| number);
        self.order.push_back(address);
        let before = self.by_address.insert(address, (number, kept));
        assert!(
            before.is_none(),
            "the number of a definition would go to another one while it is in use"
        );
        number
    }
}

/// The definitions that this end has sent on a link.
#[derive(Debug)]
pub(super) struct Sent {
    templates: Numbers<Arc<Template>>,
    functions: Numbers<Function>,
}

impl Default for Sent {
    fn default() -> Self {
        Self { templates: Numbers::new(SENT_MAX), functions: Numbers::new(FUNCTIONS_MAX) }
    }
}

impl Sent {
    /// The template's number; its definition is appended to `output` if the other end lacks it.
    pub(super) fn template(&mut self, template: &Arc<Template>, output: &mut Vec<u8>) -> u32 {
        let address = Arc::as_ptr(template) as usize;
        if let Some(number) = self.templates.find(address) {
            return number;
        }
        let function = self.function(&template.function, output);
        // Several templates of one function, as `.options` makes them, send it once.
        let body = Template { function: Function::new(), ..(**template).clone() };
        let body = helio_proto::encode(&body);
        let number = self.templates.add(address, Arc::clone(template));
        frame::put(output, |b| Frame::Template { number, function, body: &body }.put(b));
        number
    }

    fn function(&mut self, function: &Function, output: &mut Vec<u8>) -> u32 {
        if function.is_empty() {
            return 0;
        }
        let address = function.as_ptr() as usize;
        self.functions.find(address).unwrap_or_else(|| {
            let number = self.functions.add(address, function.clone());
            frame::put(output, |b| Frame::Function { number, body: function }.put(b));
            number
        })
    }
}

/// The definitions that the other end has sent on a link.
#[derive(Debug, Default)]
pub(super) struct Received {
    functions: IdMap<u32, Function>,
    templates: IdMap<u32, Arc<Template>>,
}

impl Received {
    pub(super) fn define_function(&mut self, number: u32, body: &[u8]) -> Result<(), String> {
        // LIMIT-1: a peer decides the numbers, and not how much is kept of it.
        let is_new = !self.functions.contains_key(&number);
        if is_new && self.functions.len() >= FUNCTIONS_MAX {
            return Err("it defines too many functions".to_owned());
        }
        self.functions.insert(number, Function::copy_from_slice(body));
        Ok(())
    }

    pub(super) fn define_template(
        &mut self,
        known: &mut Known,
        number: u32,
        function: u32,
        body: &[u8],
    ) -> Result<(), String> {
        let function = match function {
            0 => None,
            // The function came before the template on the same link, or was never sent.
            _ => Some(
                self.functions
                    .get(&function)
                    .cloned()
                    .ok_or("it names a function that it did not send")?,
            ),
        };
        let template = known.find_or_read(body, function)?;
        let is_new = !self.templates.contains_key(&number);
        // The other end uses a number again before it gives out a new one, so more are a fault or an attack.
        if is_new && self.templates.len() >= SENT_MAX {
            return Err("it defines too many templates".to_owned());
        }
        self.templates.insert(number, template);
        Ok(())
    }

    pub(super) fn template(&self, number: u32) -> Option<Arc<Template>> {
        self.templates.get(&number).cloned()
    }
}

/// Templates that arrived, by their bytes: equal templates of any links share one allocation.
#[derive(Debug, Default)]
pub(super) struct Known {
    by_bytes: HashMap<Vec<u8>, Arc<Template>>,
    bytes: usize,
}

impl Known {
    /// `function`: the bytes that `body` leaves out; their id is in `body`, so that equal bodies have equal
    /// functions.
    fn find_or_read(
        &mut self,
        body: &[u8],
        function: Option<Function>,
    ) -> Result<Arc<Template>, String> {
        // A worker that serves many callers loads a function once for all of them.
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

    /// Forgets templates that nothing else refers to; when that frees little, all of them.
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
        let mut sent = Numbers::new(SENT_MAX);
        let address = |of: &Arc<Template>| Arc::as_ptr(of) as usize;
        let first = template(0, 0);
        let at = address(&first);
        assert_eq!((sent.find(at), sent.add(at, first.clone()), sent.find(at)), (None, 1, Some(1)));
        // The other end's table.
        let mut there = HashMap::from([(1, first.name.clone())]);
        for n in 1..3 * SENT_MAX {
            let next = template(n, 0);
            there.insert(sent.add(address(&next), next.clone()), next.name.clone());
            assert_eq!(there[&sent.find(address(&next)).unwrap()], next.name);
        }
        assert_eq!(
            (there.len(), sent.by_address.len(), sent.order.len()),
            (SENT_MAX, SENT_MAX, SENT_MAX)
        );
        assert!(sent.by_address.values().all(|(number, kept)| there[number] == kept.name));
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
