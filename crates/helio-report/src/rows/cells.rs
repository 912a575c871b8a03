//! The cells of rows: ids, texts, times and quantities as JSON.

use std::collections::BTreeMap;

use helio_scheduler::as_asked;
use helio_types::ResourceSet;
use serde_json::{Value, json};

use crate::Row;

/// `None` for an id that names nothing.
macro_rules! hex {
    ($id:expr) => {
        if $id.is_nil() { Value::Null } else { Value::String($id.hex()) }
    };
}

pub(crate) use hex;

pub(crate) fn row(value: Value) -> Row {
    match value {
        Value::Object(row) => row,
        _ => Row::new(),
    }
}

pub(crate) fn text(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { Value::String(text.to_owned()) }
}

pub(crate) fn quantities(set: &ResourceSet) -> BTreeMap<String, f64> {
    as_asked(set).iter().map(|(name, quantity)| (name.to_owned(), quantity.to_f64())).collect()
}

pub(crate) fn resources(set: &ResourceSet) -> Value {
    json!(quantities(set))
}

/// A time in milliseconds.
pub(crate) fn time(ms: u64) -> Value {
    if ms == 0 { Value::Null } else { json!(ms) }
}

pub(crate) fn ms(us: u64) -> Value {
    if us == 0 { Value::Null } else { json!(us / 1000) }
}
