//! The operations and answers of etcd's gateway as JSON, how many entries a page has, and what its errors mean.

use std::time::Duration;

use helio_types::base64::encode;
use serde_json::{Value, json};

use super::journal::Op;
use crate::outside::backend::Failure;

/// Number of entries that are read at a time, whatever their size.
pub(super) const PAGE: usize = 200;
/// Maximum number of entries that are read at a time while they are small: each page is a round trip, of which a head
/// that takes over has no time for hundreds.
pub(super) const PAGE_MAX: usize = 10_000;
/// Bytes that a page of small entries may have.
const PAGE_BYTES: usize = 4 << 20;
/// Time that a page, or a large commit, may take.
pub(super) const LARGE_MAX: Duration = Duration::from_secs(20);

/// Parts of etcd's messages about failures that pass.
const PASSING: [&str; 6] =
    ["leader", "timed out", "too many requests", "unavailable", "raft", "server stopped"];

/// A key with its value and revision.
pub(super) struct Found {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) revision: u64,
}

impl Found {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.value).unwrap_or_default()
    }
}

/// The outcome of a transaction: whether its conditions held, and what its reads found.
pub(super) struct Told {
    pub(super) is_done: bool,
    /// The revision of the store, and the store's id.
    pub(super) revision: u64,
    pub(super) cluster: String,
    pub(super) found: Vec<Vec<Found>>,
}

impl Told {
    pub(super) fn first(&self, read: usize) -> Option<&Found> {
        self.found.get(read)?.first()
    }
}

/// A number as the gateway writes it.
pub(super) fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Digits that compare as the number does.
pub(super) fn digits(number: u64) -> String {
    format!("{number:020}")
}

/// Returns the leader, of "epoch lease name".
pub(super) fn holder(leader: Option<&Found>) -> String {
    leader.and_then(|found| found.text().splitn(3, ' ').nth(2)).unwrap_or_default().to_owned()
}

pub(super) fn is_value(key: &[u8], value: &[u8]) -> Value {
    json!({ "key": encode(key), "target": "VALUE", "result": "EQUAL", "value": encode(value) })
}

pub(super) fn is_less(key: &[u8], value: &[u8]) -> Value {
    json!({ "key": encode(key), "target": "VALUE", "result": "LESS", "value": encode(value) })
}

/// The condition of a transaction that the key has not changed since it was read.
pub(super) fn is_still(key: &[u8], found: Option<&Found>) -> Value {
    match found {
        Some(Found { revision, .. }) => {
            json!({ "key": encode(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() })
        }
        None => {
            json!({ "key": encode(key), "target": "VERSION", "result": "EQUAL", "version": "0" })
        }
    }
}

pub(super) fn get(key: &[u8]) -> Value {
    json!({ "request_range": { "key": encode(key) } })
}

pub(super) fn page(from: &[u8], end: &[u8], limit: usize) -> Value {
    json!({ "request_range": { "key": encode(from), "range_end": encode(end), "limit": limit.to_string() } })
}

/// Returns the number of entries of the next page, after a page of `limit` entries with `bytes` in
/// all.
pub(super) fn next_limit(limit: usize, bytes: usize) -> usize {
    let fits = limit.saturating_mul(PAGE_BYTES) / bytes.max(1);
    fits.min(4 * limit).clamp(PAGE, PAGE_MAX)
}

pub(super) fn put(key: &[u8], value: &[u8]) -> Value {
    json!({ "request_put": { "key": encode(key), "value": encode(value) } })
}

pub(super) fn delete(key: &[u8]) -> Value {
    json!({ "request_delete_range": { "key": encode(key) } })
}

pub(super) fn delete_range(from: &[u8], end: &[u8]) -> Value {
    json!({ "request_delete_range": { "key": encode(from), "range_end": encode(end) } })
}

pub(super) fn operation(op: &Op) -> Value {
    match op {
        Op::Put(key, value) => put(key, value),
        Op::Delete(key) => delete(key),
        Op::DeleteRange(from, end) => delete_range(from, end),
    }
}

/// An error that etcd answered.
pub(super) fn failure(status: u16, answer: &Value) -> Failure {
    let text = answer["error"].as_str().or(answer["message"].as_str()).or(answer.as_str());
    let text = format!("{} (HTTP {status})", text.unwrap_or("no reason was given").trim());
    if text.contains("space exceeded") {
        return Failure::Full;
    }
    if status == 503 || PASSING.iter().any(|word| text.contains(word)) {
        return Failure::Away(text);
    }
    let hint = if status == 404 {
        ". It is to be etcd 3.4 or newer, whose gateway of JSON is at /v3"
    } else if text.contains("user name") || text.contains("authentication failed") {
        ". The user and the password go before the host: etcd://USER:PASSWORD@HOST:PORT"
    } else if text.contains("permission denied") {
        ". The user needs to read and write the keys that begin with heliostat/"
    } else {
        ""
    };
    Failure::Refused(format!("{text}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_more_entries_while_those_are_small() {
        let mut limit = PAGE;
        for grown in [800, 3_200, PAGE_MAX, PAGE_MAX] {
            limit = next_limit(limit, limit * 100);
            assert_eq!(limit, grown);
        }
        assert_eq!(next_limit(limit, limit * (512 << 10)), PAGE);
        assert_eq!(next_limit(400, 400 * 10_000), 419, "about 4 MiB");
        assert_eq!(next_limit(PAGE, 0), 4 * PAGE);
    }

    #[test]
    fn errors_of_etcd_say_what_to_do() {
        let say = |text: &str| failure(400, &json!({ "error": text, "code": 3 }));
        assert_eq!(say("etcdserver: mvcc: database space exceeded"), Failure::Full);
        assert!(matches!(say("etcdserver: no leader"), Failure::Away(_)));
        assert!(matches!(failure(503, &json!("busy")), Failure::Away(_)));
        for (text, part) in [
            ("etcdserver: user name is empty", "etcd://USER:PASSWORD@"),
            ("etcdserver: authentication failed, invalid user ID or password", "etcd://USER"),
            ("etcdserver: permission denied", "heliostat/"),
        ] {
            let Failure::Refused(why) = say(text) else { panic!("{text}") };
            assert!(why.contains(part) && why.contains(text), "{why}");
        }
        let Failure::Refused(why) = failure(404, &json!("404 page not found")) else { panic!() };
        assert!(why.contains("etcd 3.4"));
    }
}
