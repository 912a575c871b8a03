//! The key-value table.

use std::collections::BTreeMap;

use helio_config::control::{KV_BYTES_MAX, KV_KEYS_MAX, LIST_ROWS_MAX};
use helio_proto::control::{
    ControlResponse, Failure, FailureKind, KvDel, KvGet, KvKeys, KvList, KvPut, KvValue,
};

use crate::Control;

/// Values by namespace and key.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: BTreeMap<(String, Vec<u8>), Vec<u8>>,
    /// The size of all keys and values.
    pub(crate) bytes: usize,
}

impl Table {
    pub(crate) fn insert(&mut self, namespace: String, key: Vec<u8>, value: Vec<u8>) {
        self.bytes += key.len() + value.len();
        let key_len = key.len();
        if let Some(old) = self.entries.insert((namespace, key), value) {
            self.bytes -= key_len + old.len();
        }
    }

    fn remove(&mut self, namespace: String, key: Vec<u8>) -> bool {
        let key_len = key.len();
        let old = self.entries.remove(&(namespace, key));
        if let Some(old) = &old {
            self.bytes -= key_len + old.len();
        }
        old.is_some()
    }
}

impl Control {
    /// Answers whether the key was there already.
    pub(crate) fn kv_put(&mut self, put: KvPut) -> ControlResponse {
        let KvPut { namespace, key, value, overwrite } = put;
        let slot = (namespace, key);
        let found = self.kv.entries.contains_key(&slot);
        if !found || overwrite {
            let over_keys = !found && self.kv.entries.len() >= KV_KEYS_MAX;
            if over_keys || self.kv.bytes + slot.1.len() + value.len() > KV_BYTES_MAX {
                let full = format!(
                    "the key-value table is full ({KV_KEYS_MAX} keys or {KV_BYTES_MAX} bytes)"
                );
                return Failure::new(FailureKind::System, full).into();
            }
            self.persist_kv(&slot.0, &slot.1, Some(value.clone()));
            self.kv.insert(slot.0, slot.1, value);
        }
        KvValue { found, value: Vec::new() }.into()
    }

    pub(crate) fn kv_get(&self, get: KvGet) -> ControlResponse {
        let value = self.kv.entries.get(&(get.namespace, get.key));
        KvValue { found: value.is_some(), value: value.cloned().unwrap_or_default() }.into()
    }

    pub(crate) fn kv_del(&mut self, del: KvDel) -> ControlResponse {
        let KvDel { namespace, key } = del;
        let found = self.kv.remove(namespace.clone(), key.clone());
        if found {
            self.persist_kv(&namespace, &key, None);
        }
        KvValue { found, value: Vec::new() }.into()
    }

    pub(crate) fn kv_keys(&self, keys: KvKeys) -> ControlResponse {
        let KvKeys { namespace, prefix } = keys;
        let from = (namespace.clone(), prefix.clone());
        let hits = self.kv.entries.range(from..).map(|(slot, _)| slot);
        let hits = hits.take_while(|(space, key)| *space == namespace && key.starts_with(&prefix));
        let keys =
            hits.take(LIST_ROWS_MAX).map(|(_, key)| KvValue { found: true, value: key.clone() });
        KvList { keys: keys.collect() }.into()
    }
}
