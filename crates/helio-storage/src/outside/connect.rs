//! The store of an address.

use super::address::{Kind, Target};
use super::backend::Backend;
use super::etcd::Etcd;
use super::redis::Redis;

/// A backend for the store, which connects when it is first asked.
pub(super) fn connect(target: &Target) -> Box<dyn Backend> {
    match target.kind {
        Kind::Redis => Box::new(Redis::new(target.clone())),
        Kind::Etcd => Box::new(Etcd::new(target.clone())),
    }
}
