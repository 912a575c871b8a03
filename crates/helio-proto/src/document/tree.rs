//! The layout of lists, tuples and dictionaries of plain values: the payload of [`tag::TREE`](super::tag::TREE).
//!
//! Each value is a kind and its payload, containers before their items. A pickle remembers every text and every
//! container that it writes, in case they come again; most never do. A [`Writer`] remembers only those that it is told
//! are shared. Such texts (keys, labels) have one of 256 places by their identity, and while they keep it they are
//! written once and read as one object. A container that comes again is refused, since a tree cannot say that two of
//! its values are one; so is a container that lies deeper than [`DEPTH_MAX`].

use std::collections::HashSet;

use crate::reader::{self, Malformed};

mod kind {
    pub(super) const NONE: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const TRUE: u8 = 2;
    /// `int`: one byte without sign, 32 bits, 64 bits.
    pub(super) const INT_8: u8 = 3;
    pub(super) const INT_32: u8 = 4;
    pub(super) const INT_64: u8 = 5;
    pub(super) const FLOAT: u8 = 6;
    /// `str`: `u8` or `u32` length, UTF-8.
    pub(super) const SHORT_STR: u8 = 7;
    pub(super) const STR: u8 = 8;
    /// `u8` place, then like `STR`: the text takes the place.
    pub(super) const KEPT_STR: u8 = 9;
    /// `u8` place: the text that has it.
    pub(super) const SAME_STR: u8 = 10;
    /// `u32` length, bytes.
    pub(super) const BYTES: u8 = 11;
    /// `u32` items, or pairs.
    pub(super) const LIST: u8 = 12;
    pub(super) const TUPLE: u8 = 13;
    pub(super) const DICT: u8 = 14;
}

/// The number of places that texts share.
pub const PLACES: usize = 256;
/// The depth of the outermost value is 0; a container lies less deep than this.
pub const DEPTH_MAX: usize = 64;

/// A class of containers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Container {
    /// A `list`.
    List,
    /// A `tuple`.
    Tuple,
    /// A `dict`, whose items are pairs.
    Dict,
}

/// A value, or the head of a container.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Item<'a> {
    /// `None`.
    None,
    /// A `bool`.
    Bool(bool),
    /// An `int` of 64 bits.
    Int(i64),
    /// A `float`.
    Float(f64),
    /// The UTF-8 of a `str`, which is not checked yet.
    Text(&'a [u8]),
    /// The UTF-8 of a `str` that has the place from now on.
    KeptText(u8, &'a [u8]),
    /// The text that has the place.
    SameText(u8),
    /// `bytes`.
    Bytes(&'a [u8]),
    /// A container, and the number of items or pairs that follow.
    Container(Container, usize),
}

/// Appends values to a document.
///
/// Identities are those of objects that live as long as the writer; an address will do.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// The identity of the text that has each place.
    texts: [usize; PLACES],
    /// The identities of shared containers that were written.
    containers: HashSet<usize>,
}

impl<'a> Writer<'a> {
    /// Begins a tree at the end of `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, texts: [0; PLACES], containers: HashSet::new() }
    }

    /// Appends `None`.
    #[inline]
    pub fn none(&mut self) {
        self.out.push(kind::NONE);
    }

    /// Appends a `bool`.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.out.push(if value { kind::TRUE } else { kind::FALSE });
    }

    /// Appends an `int` in the shortest form that holds it.
    #[inline]
    pub fn int(&mut self, number: i64) {
        if let Ok(number) = u8::try_from(number) {
            self.out.extend_from_slice(&[kind::INT_8, number]);
        } else if let Ok(number) = i32::try_from(number) {
            self.tagged(kind::INT_32, number.to_le_bytes());
        } else {
            self.tagged(kind::INT_64, number.to_le_bytes());
        }
    }

    /// Appends a `float`.
    #[inline]
    pub fn float(&mut self, number: f64) {
        self.tagged(kind::FLOAT, number.to_bits().to_le_bytes());
    }

    /// Appends `bytes`; `None`: they are too long for this form.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        self.tagged(kind::BYTES, u32::try_from(bytes.len()).ok()?.to_le_bytes());
        self.out.extend_from_slice(bytes);
        Some(())
    }

    /// Appends a shared text that has its place already; whether it does.
    #[inline]
    pub fn same_text(&mut self, identity: usize) -> bool {
        let place = place(identity);
        let is_known = self.texts[place] == identity;
        if is_known {
            self.out.extend_from_slice(&[kind::SAME_STR, place as u8]);
        }
        is_known
    }

    /// Appends a text; a shared one takes its place from the text that has it. `None`: it is too long for this form.
    #[inline]
    pub fn text(&mut self, identity: usize, is_shared: bool, text: &[u8]) -> Option<()> {
        if is_shared {
            let place = place(identity);
            self.texts[place] = identity;
            self.out.extend_from_slice(&[kind::KEPT_STR, place as u8]);
            self.out.extend_from_slice(&u32::try_from(text.len()).ok()?.to_le_bytes());
        } else if let Ok(n) = u8::try_from(text.len()) {
            self.out.extend_from_slice(&[kind::SHORT_STR, n]);
        } else {
            self.tagged(kind::STR, u32::try_from(text.len()).ok()?.to_le_bytes());
        }
        self.out.extend_from_slice(text);
        Some(())
    }

    /// Appends the head of a container of `n` items. `None`: a tree cannot hold it, because it is shared and was written
    /// before, lies too deep, or has too many items.
    #[inline]
    pub fn container(
        &mut self,
        container: Container,
        n: usize,
        depth: usize,
        shared: Option<usize>,
    ) -> Option<()> {
        let comes_again = shared.is_some_and(|identity| !self.containers.insert(identity));
        // There is one empty tuple for all.
        let is_empty_tuple = container == Container::Tuple && n == 0;
        if (comes_again && !is_empty_tuple) || depth >= DEPTH_MAX {
            return None;
        }
        let kind = match container {
            Container::List => kind::LIST,
            Container::Tuple => kind::TUPLE,
            Container::Dict => kind::DICT,
        };
        self.tagged(kind, u32::try_from(n).ok()?.to_le_bytes());
        Some(())
    }

    /// Appends a kind and a number in one piece, which is quicker than two.
    #[inline]
    fn tagged<const N: usize>(&mut self, kind: u8, payload: [u8; N]) {
        let mut piece = [kind; 9];
        piece[1..=N].copy_from_slice(&payload);
        self.out.extend_from_slice(&piece[..=N]);
    }
}

/// Returns the place of a text; objects lie at multiples of 16.
#[inline]
fn place(identity: usize) -> usize {
    (identity >> 4) % PLACES
}

/// Reads values in the order in which they were written.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: reader::Reader<'a>,
}

impl<'a> Reader<'a> {
    /// Begins at a tree's first byte; anything may follow the tree.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: reader::Reader::new(bytes) }
    }

    /// Returns the bytes that are not read yet.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.rest()
    }

    /// Reads the next value, which lies `depth` containers deep.
    ///
    /// # Errors
    /// The bytes end early, the kind is unknown, a container claims more items than there are bytes, or the value lies
    /// deeper than any that is written.
    #[inline]
    pub fn next(&mut self, depth: usize) -> Result<Item<'a>, Malformed> {
        if depth > DEPTH_MAX {
            return Err(Malformed);
        }
        let bytes = &mut self.bytes;
        Ok(match bytes.u8()? {
            kind::NONE => Item::None,
            kind::FALSE => Item::Bool(false),
            kind::TRUE => Item::Bool(true),
            kind::INT_8 => Item::Int(bytes.u8()?.into()),
            kind::INT_32 => Item::Int(i32::from_le_bytes(bytes.array()?).into()),
            kind::INT_64 => Item::Int(i64::from_le_bytes(bytes.array()?)),
            kind::FLOAT => Item::Float(f64::from_le_bytes(bytes.array()?)),
            kind::SHORT_STR => {
                let n = bytes.u8()?;
                Item::Text(bytes.take(n.into())?)
            }
            kind::STR => Item::Text(bytes.bytes()?),
            kind::KEPT_STR => Item::KeptText(bytes.u8()?, bytes.bytes()?),
            kind::SAME_STR => Item::SameText(bytes.u8()?),
            kind::BYTES => Item::Bytes(bytes.bytes()?),
            kind::LIST => Item::Container(Container::List, bytes.count(1)?),
            kind::TUPLE => Item::Container(Container::Tuple, bytes.count(1)?),
            kind::DICT => Item::Container(Container::Dict, bytes.count(2)?),
            _ => return Err(Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A value as an interpreter holds it: texts and containers are shared when others refer to them as well.
    #[derive(Clone, PartialEq, Debug)]
    enum Value {
        None,
        Bool(bool),
        Int(i64),
        Float(u64),
        Text(Rc<String>),
        Bytes(Vec<u8>),
        Container(Container, Rc<Vec<Value>>),
    }

    fn list(items: Vec<Value>) -> Value {
        Value::Container(Container::List, Rc::new(items))
    }

    fn text(text: &str) -> Value {
        Value::Text(Rc::new(text.to_owned()))
    }

    fn write(value: &Value, writer: &mut Writer<'_>, depth: usize) -> Option<()> {
        match value {
            Value::None => writer.none(),
            Value::Bool(value) => writer.bool(*value),
            Value::Int(number) => writer.int(*number),
            Value::Float(bits) => writer.float(f64::from_bits(*bits)),
            Value::Text(text) => {
                let (identity, is_shared) = (Rc::as_ptr(text) as usize, Rc::strong_count(text) > 1);
                if !is_shared || !writer.same_text(identity) {
                    writer.text(identity, is_shared, text.as_bytes())?;
                }
            }
            Value::Bytes(bytes) => writer.bytes(bytes)?,
            Value::Container(container, items) => {
                let shared = (Rc::strong_count(items) > 1).then_some(Rc::as_ptr(items) as usize);
                let n = items.len() / if *container == Container::Dict { 2 } else { 1 };
                writer.container(*container, n, depth, shared)?;
                items.iter().try_for_each(|item| write(item, writer, depth + 1))?;
            }
        }
        Some(())
    }

    fn written(value: &Value) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        write(value, &mut Writer::new(&mut out), 0).map(|()| out)
    }

    /// Reads a value; texts that were kept are one text again.
    fn read(
        reader: &mut Reader<'_>,
        texts: &mut [Option<Rc<String>>],
        depth: usize,
    ) -> Result<Value, Malformed> {
        let checked =
            |utf8: &[u8]| Ok(Rc::new(std::str::from_utf8(utf8).map_err(|_| Malformed)?.to_owned()));
        Ok(match reader.next(depth)? {
            Item::None => Value::None,
            Item::Bool(value) => Value::Bool(value),
            Item::Int(number) => Value::Int(number),
            Item::Float(number) => Value::Float(number.to_bits()),
            Item::Text(utf8) => Value::Text(checked(utf8)?),
            Item::KeptText(place, utf8) => {
                let text = checked(utf8)?;
                texts[usize::from(place)] = Some(Rc::clone(&text));
                Value::Text(text)
            }
            Item::SameText(place) => {
                Value::Text(texts[usize::from(place)].clone().ok_or(Malformed)?)
            }
            Item::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            Item::Container(container, n) => {
                assert!(n <= reader.rest().len(), "{n} items in {} bytes", reader.rest().len());
                let n = if container == Container::Dict { 2 * n } else { n };
                let items = (0..n).map(|_| read(reader, texts, depth + 1));
                Value::Container(container, Rc::new(items.collect::<Result<_, _>>()?))
            }
        })
    }

    fn back(bytes: &[u8]) -> Result<(Value, usize), Malformed> {
        let mut reader = Reader::new(bytes);
        let value = read(&mut reader, &mut [const { None }; PLACES], 0)?;
        Ok((value, reader.rest().len()))
    }

    #[track_caller]
    fn comes_back(value: &Value) -> Vec<u8> {
        let bytes = written(value).unwrap();
        assert_eq!(back(&bytes), Ok((value.clone(), 0)));
        let followed = [&bytes[..], b"rest"].concat();
        assert_eq!(back(&followed), Ok((value.clone(), 4)), "a tree ends where it ends");
        bytes
    }

    #[test]
    fn numbers_take_the_shortest_form_that_holds_them() {
        let forms = [
            (2, vec![0, 1, 255]),
            (5, vec![-1, 256, i64::from(i32::MIN), i64::from(i32::MAX)]),
            (9, vec![i64::from(i32::MIN) - 1, i64::from(i32::MAX) + 1, i64::MIN, i64::MAX]),
        ];
        for (size, numbers) in forms {
            for number in numbers {
                assert_eq!(comes_back(&Value::Int(number)).len(), size, "{number}");
            }
        }
        for number in [0.0, -0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE] {
            comes_back(&Value::Float(number.to_bits()));
        }
        [Value::None, Value::Bool(false), Value::Bool(true)].iter().for_each(|value| {
            assert_eq!(comes_back(value).len(), 1);
        });
    }

    #[test]
    fn texts_and_bytes_of_every_length_come_back() {
        for n in [0, 1, 254, 255, 256, 257, 70_000] {
            assert_eq!(comes_back(&text(&"x".repeat(n))).len(), n + if n <= 255 { 2 } else { 5 });
            comes_back(&text(&"é".repeat(n)));
            assert_eq!(comes_back(&Value::Bytes(vec![7; n])).len(), n + 5);
        }
    }

    #[test]
    fn containers_of_every_kind_and_number_of_items_come_back() {
        for container in [Container::List, Container::Tuple, Container::Dict] {
            for n in [0, 1, 2, 255, 256, 1_000] {
                let count = if container == Container::Dict { 2 * n } else { n };
                let items: Vec<Value> = (0..count as i64).map(Value::Int).collect();
                comes_back(&Value::Container(container, Rc::new(items)));
                let nested = vec![list(vec![text("x"), Value::None]); count];
                let apart = nested.iter().map(|_| list(vec![text("x"), Value::None])).collect();
                comes_back(&Value::Container(container, Rc::new(apart)));
            }
        }
    }

    #[test]
    fn a_shared_text_is_written_once_and_read_as_one() {
        let label = Rc::new("a label".to_owned());
        let shared = Value::Text(Rc::clone(&label));
        let bytes = comes_back(&list(vec![shared.clone(), text("other"), shared.clone(), shared]));
        assert_eq!(bytes.windows(7).filter(|part| *part == b"a label").count(), 1);
        let (Value::Container(_, items), 0) = back(&bytes).unwrap() else { panic!("a list") };
        let [Value::Text(one), _, Value::Text(two), Value::Text(three)] = &items[..] else {
            panic!("texts")
        };
        assert!(Rc::ptr_eq(one, two) && Rc::ptr_eq(one, three));
    }

    #[test]
    fn a_text_that_lost_its_place_is_written_again() {
        let place_of_both = [16 * PLACES, 32 * PLACES];
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.container(Container::List, 4, 0, None).unwrap();
        for identity in [0, 1, 0, 1].map(|one| place_of_both[one]) {
            assert!(!writer.same_text(identity));
            writer.text(identity, true, identity.to_string().as_bytes()).unwrap();
        }
        assert!(writer.same_text(place_of_both[1]) && !writer.same_text(place_of_both[0]));
        let texts = [0, 1, 0, 1].map(|one| text(&place_of_both[one].to_string()));
        assert_eq!(back(&out), Ok((list(texts.to_vec()), 2)));
    }

    #[test]
    fn a_container_that_comes_again_is_refused_but_not_the_empty_tuple() {
        let inner = list(vec![Value::Int(1)]);
        assert_eq!(written(&list(vec![inner.clone(), inner.clone()])), None);
        assert!(written(&list(vec![inner, list(vec![Value::Int(1)])])).is_some());
        let empty = Value::Container(Container::Tuple, Rc::default());
        comes_back(&list(vec![empty.clone(), empty]));
        let empty = list(Vec::new());
        assert_eq!(written(&list(vec![empty.clone(), empty])), None);
    }

    /// Returns a value within so many lists.
    fn nested(depth: usize) -> Value {
        (0..depth).fold(Value::Int(1), |inner, _| list(vec![inner]))
    }

    #[test]
    fn containers_lie_as_deep_as_the_bound_says() {
        for depth in [0, 1, DEPTH_MAX - 1, DEPTH_MAX] {
            comes_back(&nested(depth));
        }
        assert_eq!(written(&nested(DEPTH_MAX + 1)), None);
        // The reader keeps the bound, whatever the writer did.
        let one = [kind::LIST, 1, 0, 0, 0];
        assert!(back(&[one.repeat(DEPTH_MAX), vec![kind::NONE]].concat()).is_ok());
        let deeper = [one.repeat(DEPTH_MAX + 1), vec![kind::NONE]].concat();
        assert_eq!(back(&deeper), Err(Malformed));
        assert_eq!(back(&one.repeat(100_000)), Err(Malformed));
    }

    #[test]
    fn a_tree_that_is_cut_anywhere_is_refused() {
        let label = Rc::new("label".to_owned());
        let mut items = vec![Value::Text(Rc::clone(&label)), Value::Text(label), text("x")];
        items.extend([Value::None, Value::Bool(true), Value::Float(1), Value::Bytes(vec![1, 2])]);
        items.extend([1, 1_000, i64::MAX].map(Value::Int));
        items.push(text(&"long ".repeat(60)));
        items.push(Value::Container(Container::Dict, Rc::new(vec![text("k"), list(Vec::new())])));
        let bytes = comes_back(&list(items));
        (0..bytes.len()).for_each(|n| assert_eq!(back(&bytes[..n]), Err(Malformed), "{n} bytes"));
    }

    #[test]
    fn counts_beyond_the_end_and_places_without_a_text_are_refused() {
        for kind in [kind::LIST, kind::TUPLE, kind::DICT, kind::BYTES, kind::STR] {
            for n in [3, u32::MAX / 2, u32::MAX] {
                let hostile = [&[kind][..], &n.to_le_bytes(), &[0, 0]].concat();
                assert_eq!(Reader::new(&hostile).next(0), Err(Malformed), "kind {kind}, {n}");
            }
        }
        // A pair takes two bytes at least.
        let pairs = [&[kind::DICT][..], &2_u32.to_le_bytes(), &[0, 0, 0]].concat();
        assert_eq!(Reader::new(&pairs).next(0), Err(Malformed));
        assert_eq!(back(&[kind::SAME_STR, 7]), Err(Malformed));
        for kind in kind::DICT + 1..=u8::MAX {
            assert_eq!(Reader::new(&[kind; 20]).next(0), Err(Malformed), "kind {kind}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::None),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            (-300_i64..300).prop_map(Value::Int),
            any::<u64>().prop_map(Value::Float),
            ".{0,20}".prop_map(|words| text(&words)),
            vec(any::<u8>(), 0..20).prop_map(Value::Bytes),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            let kinds = [Container::List, Container::Tuple, Container::Dict];
            (proptest::sample::select(kinds.to_vec()), vec(inner, 0..6)).prop_map(
                |(container, mut items)| {
                    if container == Container::Dict && items.len() % 2 == 1 {
                        items.pop();
                    }
                    Value::Container(container, Rc::new(items))
                },
            )
        })
    }

    /// Returns the value with containers of its own, so that none is shared: a strategy hands out clones.
    fn apart(value: &Value) -> Value {
        match value {
            Value::Text(text) => Value::Text(Rc::new(text.to_string())),
            Value::Container(container, items) => {
                Value::Container(*container, Rc::new(items.iter().map(apart).collect()))
            }
            plain => plain.clone(),
        }
    }

    proptest! {
        #[test]
        fn every_tree_comes_back(value in value()) {
            let value = apart(&value);
            comes_back(&value);
        }

        #[test]
        fn no_bytes_make_a_reader_panic(
            bytes in vec(prop_oneof![0_u8..16, Just(0), any::<u8>()], 0..200),
        ) {
            if let Ok((_, left)) = back(&bytes) {
                prop_assert!(left < bytes.len());
            }
        }

        #[test]
        fn a_changed_byte_never_panics(value in value(), at: usize, byte: u8) {
            let mut bytes = written(&apart(&value)).unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = back(&bytes);
        }
    }
}
