//! The key-value table.

use helio_types::mutant;
use std::collections::BTreeMap;

use helio_config::control::{KV_BYTES_MAX, KV_KEYS_MAX, LIST_ROWS_MAX};
use helio_proto::control::{
    ControlResponse, Failure, FailureKind, KvDel, KvEntries, KvGet, KvKeys, KvList, KvPair,
    KvPairs, KvPut, KvValue,
};

use crate::durable;
use crate::event::Change;

/// Values by namespace and key.
#[derive(Debug, Default)]
pub(crate) struct KeyValues {
    entries: BTreeMap<(String, Vec<u8>), Vec<u8>>,
    /// The size of all keys and values.
    bytes: usize,
}

impl KeyValues {
    pub(crate) fn insert(&mut self, namespace: String, key: Vec<u8>, value: Vec<u8>) {
        self.bytes += key.len() + value.len();
        let key_len = key.len();
        if let Some(old) = self.entries.insert((namespace, key), value) {
            self.take_off(key_len + old.len());
        }
    }

    fn remove(&mut self, namespace: String, key: Vec<u8>) -> bool {
        let key_len = key.len();
        let old = self.entries.remove(&(namespace, key));
        if let Some(old) = &old {
            self.take_off(key_len + old.len());
        }
        let is_exact = !self.entries.is_empty() || self.bytes == 0;
        assert!(is_exact, "an empty table that counts bytes fills up without entries");
        old.is_some()
    }

    fn take_off(&mut self, bytes: usize) {
        assert!(self.bytes >= bytes, "a table that counts wrong refuses writes for ever");
        self.bytes -= bytes;
    }

    /// Answers whether the key existed before, and what becomes durable.
    pub(crate) fn put(&mut self, put: KvPut) -> (Option<Change>, ControlResponse) {
        let KvPut { namespace, key, value, overwrite } = put;
        let slot = (namespace, key);
        let found = self.entries.contains_key(&slot);
        let mut change = None;
        // Without `overwrite` the first value stays, so that several processes can agree on one.
        if !found || overwrite || mutant!("put-overwrites-anyway") {
            let over_keys = !found && self.entries.len() >= KV_KEYS_MAX;
            if over_keys || self.bytes + slot.1.len() + value.len() > KV_BYTES_MAX {
                let full = format!(
                    "the key-value table is full ({KV_KEYS_MAX} keys or {KV_BYTES_MAX} bytes)"
                );
                return (None, Failure::new(FailureKind::System, full).into());
            }
            if !found || !mutant!("overwritten-key-not-persisted") {
                change = Some(durable::key_value(&slot.0, &slot.1, Some(value.clone())));
            }
            self.insert(slot.0, slot.1, value);
        }
        (change, KvValue { found, value: Vec::new() }.into())
    }

    pub(crate) fn get(&self, get: KvGet) -> ControlResponse {
        let value = self.entries.get(&(get.namespace, get.key));
        KvValue { found: value.is_some(), value: value.cloned().unwrap_or_default() }.into()
    }

    /// Answers whether the key existed, and what becomes durable.
    pub(crate) fn delete(&mut self, del: KvDel) -> (Option<Change>, ControlResponse) {
        let KvDel { namespace, key } = del;
        let change = durable::key_value(&namespace, &key, None);
        let found = self.remove(namespace, key);
        // A key that is not there needs no write to the disk.
        let is_news = found && !mutant!("deleted-key-stays-durable");
        (is_news.then_some(change), KvValue { found, value: Vec::new() }.into())
    }

    pub(crate) fn keys(&self, keys: &KvKeys) -> ControlResponse {
        let hits = self.hits(&keys.namespace, &keys.prefix);
        let keys = hits.map(|(key, _)| KvValue { found: true, value: key.clone() });
        KvList { keys: keys.collect() }.into()
    }

    pub(crate) fn entries(&self, entries: &KvEntries) -> ControlResponse {
        let hits = self.hits(&entries.namespace, &entries.prefix);
        let pair =
            |(key, value): (&Vec<u8>, &Vec<u8>)| KvPair { key: key.clone(), value: value.clone() };
        KvPairs { pairs: hits.map(pair).collect() }.into()
    }

    /// The entries whose keys begin so, [`LIST_ROWS_MAX`] of them at most.
    fn hits<'a>(
        &'a self,
        namespace: &'a str,
        prefix: &'a [u8],
    ) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
        let hits = self.entries.range((namespace.to_owned(), prefix.to_vec())..);
        let is_hit = move |space: &str, key: &[u8]| {
            space == namespace && (key.starts_with(prefix) || mutant!("list-ignores-its-prefix"))
        };
        hits.take_while(move |((space, key), _)| is_hit(space, key))
            .take(LIST_ROWS_MAX)
            .map(|((_, key), value)| (key, value))
    }

    /// Whether the size that is kept agrees with the entries.
    pub(crate) fn check(&self) -> Result<(), String> {
        let bytes: usize =
            self.entries.iter().map(|((_, key), value)| key.len() + value.len()).sum();
        if bytes == self.bytes {
            Ok(())
        } else {
            Err("the size of the key-value table is wrong".to_owned())
        }
    }
}
