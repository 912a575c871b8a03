//! The copy of the state that a waiting head keeps: it follows the store, so that a head that takes over reads only the
//! newest changes.
//!
//! The copy is read in pages, each of which may be newer than the one before, and then follows a watch from the revision of
//! the first page on: changes are absolute, so that those which a page has already do no harm. A watch tells all changes in
//! the order of revisions. The holder of the lease writes, and the copy is whole when that write has come by the watch.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use helio_types::base64::{decode, encode};
use serde_json::{Value, json};

use super::Etcd;
use super::copy::{Copy, Place};
use super::http::{Connection, Lines};
use super::words::{LARGE_MAX, PAGE, PAGE_MAX, failure, next_limit, number, page};
use crate::outside::backend::{Done, Failure, Followed, Outcome};

/// The most entries of a page while another head leads: that head waits for the same etcd.
const FOLLOWED_PAGE_MAX: usize = 2_000;

/// The outcome of listening to the watch.
#[derive(PartialEq, Eq, Debug)]
enum Heard {
    News,
    /// No answer came within the time.
    Nothing,
    /// The head that led has given the lease up.
    Free,
    /// The copy is of no use: what changed since is forgotten, or this is another etcd.
    Gap,
}

impl Etcd {
    pub(super) fn empty_copy(&self) -> Copy {
        Copy {
            entries: BTreeMap::new(),
            parts: BTreeMap::new(),
            place: Some(Place { is_of_parts: false, from: self.key("e/"), limit: PAGE }),
            revision: 0,
            cluster: String::new(),
        }
    }

    /// Reads the next page; under an epoch, while that is the newest.
    pub(super) fn read_page(
        &mut self,
        epoch: Option<u64>,
        copy: &mut Copy,
        most: usize,
        within: Duration,
    ) -> Outcome<Done<()>> {
        let Some(place) = &mut copy.place else { return Ok(Done::Ours(())) };
        let end = self.key(if place.is_of_parts { "p0" } else { "e0" });
        let limit = place.limit.min(most);
        let asked = [page(&place.from, &end, limit)];
        let told = match epoch {
            // Under an epoch the read itself is fenced: what it returns was written before anybody took over.
            Some(epoch) => self.transact_ours(epoch, &[], &asked, within),
            None => self.transact(&[], &asked, &[], within).map(Done::Ours),
        };
        let told = match told {
            Ok(Done::Ours(told)) => told,
            Ok(Done::Lost(to)) => return Ok(Done::Lost(to)),
            // The entries that follow may be larger than those before.
            Err(Failure::Away(_)) if limit > PAGE => {
                place.limit = PAGE;
                return Ok(Done::Ours(()));
            }
            Err(failure) => return Err(failure),
        };
        // The watch begins at the revision of the first page, so that no change between two pages is missed.
        if copy.revision == 0 {
            (copy.revision, copy.cluster) = (told.revision, told.cluster);
        }
        let pairs = told.found.into_iter().next().unwrap_or_default();
        let bytes: usize = pairs.iter().map(|pair| pair.key.len() + pair.value.len()).sum();
        let is_last = pairs.len() < limit;
        place.limit = next_limit(limit, bytes);
        if let Some(last) = pairs.last() {
            // The smallest key behind the last one that was read.
            place.from = [last.key.as_slice(), b"\x00"].concat();
        }
        let map = if place.is_of_parts { &mut copy.parts } else { &mut copy.entries };
        map.extend(pairs.into_iter().map(|pair| (pair.key, pair.value)));
        if is_last {
            let rest = Place { is_of_parts: true, from: self.key("p/"), limit: PAGE };
            copy.place = (!place.is_of_parts).then_some(rest);
        }
        Ok(Done::Ours(()))
    }

    /// See [`crate::outside::backend::Backend::follow`].
    pub(super) fn follow_store(&mut self, within: Duration) -> Outcome<Followed> {
        let until = Instant::now() + within;
        let mut copy = self.copy.take().unwrap_or_else(|| self.empty_copy());
        if !copy.is_read() {
            // One page, for the lease is to be looked at in between.
            let most = FOLLOWED_PAGE_MAX;
            let read = self.read_page(None, &mut copy, most, self.target.answer_max());
            self.copy = Some(copy);
            return read.map(|_| Followed::Behind);
        }
        // A watch that does not tell of the lease's own key listens to a member that is cut off.
        if self.is_watch_silent(&copy) {
            self.watch = None;
        }
        let heard = loop {
            match self.hear(&mut copy, until.saturating_duration_since(Instant::now())) {
                Ok(Heard::News) if Instant::now() < until => {}
                other => break other,
            }
        };
        // With a gap the copy is dropped, and read anew from the next call on.
        if !matches!(heard, Ok(Heard::Gap)) {
            self.copy = Some(copy);
        }
        heard?;
        let newest = self.seen.map_or(0, |(revision, _)| revision);
        let copy = self.copy.as_ref().filter(|copy| copy.revision >= newest);
        Ok(copy.map_or(Followed::Behind, |copy| Followed::Even(copy.entries.len())))
    }

    /// Returns whether the watch has not told a renewal of the lease: its member may be cut off from the others.
    fn is_watch_silent(&self, copy: &Copy) -> bool {
        let patience = self.target.lease / 2;
        self.seen
            .is_some_and(|(revision, since)| revision > copy.revision && since.elapsed() > patience)
    }

    /// Brings the copy to this head's first write; `false`: that is not possible.
    pub(super) fn complete(&mut self, epoch: u64, copy: &mut Copy) -> Outcome<Done<bool>> {
        while !copy.is_read() {
            match self.read_page(Some(epoch), copy, PAGE_MAX, LARGE_MAX)? {
                Done::Ours(()) => {}
                Done::Lost(to) => return Ok(Done::Lost(to)),
            }
        }
        let within = self.target.answer_max();
        // The member that was listened to may be the one that is cut off; then that which took the write is.
        for _ in 0..2 {
            // The fence is this head's first write: behind it nobody else's is taken, so a copy that has it has all.
            while copy.revision < self.fence {
                match self.hear(copy, within) {
                    Ok(Heard::News | Heard::Free) => {}
                    Ok(Heard::Gap) => return Ok(Done::Ours(false)),
                    Ok(Heard::Nothing) | Err(_) => break,
                }
            }
            if copy.revision >= self.fence {
                break;
            }
            self.watch = None;
        }
        Ok(Done::Ours(copy.revision >= self.fence))
    }

    /// Waits for the next line of the watch, and applies the changes that it tells.
    fn hear(&mut self, copy: &mut Copy, within: Duration) -> Outcome<Heard> {
        // Put back only while it can go on: after an error or its end the next look begins another.
        let mut watch = match self.watch.take() {
            Some(watch) => watch,
            None => match self.watch(copy)? {
                Some(watch) => watch,
                None => return Ok(Heard::Gap),
            },
        };
        let Some(line) = watch.next(within).map_err(away)? else {
            self.watch = Some(watch);
            return Ok(Heard::Nothing);
        };
        let told = told(&line)?;
        if told["canceled"].as_bool().unwrap_or_default() {
            return is_compacted(told);
        }
        self.watch = Some(watch);
        let leader = self.key("leader");
        let mut heard = Heard::News;
        for event in told["events"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let pair = &event["kv"];
            let bytes = |of: &Value| of.as_str().and_then(decode).unwrap_or_default();
            let (key, revision) = (bytes(&pair["key"]), number(&pair["mod_revision"]));
            let is_gone = event["type"].as_str() == Some("DELETE");
            if key == leader {
                if is_gone {
                    heard = Heard::Free;
                } else if self.seen.is_none_or(|(seen, _)| seen < revision) {
                    self.seen = Some((revision, Instant::now()));
                }
            }
            let map = if key.starts_with(&self.key("e/")) {
                Some(&mut copy.entries)
            } else if key.starts_with(&self.key("p/")) {
                Some(&mut copy.parts)
            } else {
                None
            };
            match map {
                Some(map) if is_gone => drop(map.remove(&key)),
                Some(map) => drop(map.insert(key, bytes(&pair["value"]))),
                None => {}
            }
            copy.revision = copy.revision.max(revision);
        }
        Ok(heard)
    }

    /// Opens a watch of the changes from the copy's revision on; `None`: etcd has forgotten those, or is another one. The
    /// revision itself comes again: a part of it may have come before.
    fn watch(&mut self, copy: &Copy) -> Outcome<Option<Lines>> {
        let within = self.target.answer_max();
        let (host, port) = self.place();
        let encryption = self.target.encryption.as_ref();
        let connection = Connection::open(&host, port, encryption, within).map_err(away)?;
        let body = json!({ "create_request": {
            "key": encode(&self.key("e/")),
            "range_end": encode(&self.key("p0")),
            "start_revision": copy.revision.to_string(),
        }});
        let followed = connection.follow("/v3/watch", &self.token, &body, within).map_err(away)?;
        let mut lines = followed.map_err(|(status, answer)| failure(status, &answer))?;
        let Some(line) = lines.next(within).map_err(away)? else {
            return Err(Failure::Away("it does not say what changes".to_owned()));
        };
        let told = told(&line)?;
        if told["canceled"].as_bool().unwrap_or_default() {
            return is_compacted(told).map(|_| None);
        }
        // A member that lags behind may not know what the copy has; that costs a copy and no entry.
        let header = &told["header"];
        let is_same = header["cluster_id"].as_str() == Some(&*copy.cluster)
            && number(&header["revision"]) >= copy.revision;
        Ok(is_same.then_some(lines))
    }
}

fn away(error: std::io::Error) -> Failure {
    Failure::Away(error.to_string())
}

fn told(line: &Value) -> Outcome<&Value> {
    line.get("result").ok_or_else(|| failure(400, line.get("error").unwrap_or(line)))
}

/// Returns the reason why a watch has ended.
fn is_compacted(told: &Value) -> Outcome<Heard> {
    if number(&told["compact_revision"]) > 0 {
        return Ok(Heard::Gap);
    }
    let why = told["cancel_reason"].as_str().unwrap_or("it ended what it says of changes");
    Err(failure(400, &json!({ "error": why })))
}
