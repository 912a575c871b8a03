//! etcd, through its gateway of JSON: keys below one prefix, a transaction for each operation.
//!
//! | key below `heliostat/<namespace>/` | value |
//! |---|---|
//! | `cluster` | what marks the cluster |
//! | `epoch` | that of the head that has the state |
//! | `leader` | epoch, lease in milliseconds, and name of that head; written anew with each renewal |
//! | `number` | of the newest write, 20 digits |
//! | `e/` key | an entry: 0 and its value, or 1 and the number of its parts |
//! | `p/` key in hex `/` number | a part of a large value |
//! | `j/` number `/` number | a piece of the changes of a commit that is too large for one transaction |
//! | `b/` name | what lies beside the entries |
//! | `mark` | the number of such a commit, and of its pieces: from here on it has happened |
//!
//! etcd's own leases last 2 s at least. So whoever waits measures, by its own clock, how long `leader` stays as it is; it
//! begins after the write that it sees, which is after the moment from which the leader counts.
//!
//! A transaction takes 128 operations and 1.5 MB. A commit that needs more is first written down in pieces, then marked
//! as made, then carried out; who finds the mark carries it out again.

mod copy;
mod follow;
mod http;
mod journal;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use helio_env::clock::unix_ms;
use helio_types::base64::{decode, encode};
use serde_json::{Value, json};

use self::copy::Copy;
use self::http::{Connection, Lines};
use self::journal::{Op, PIECE_MAX, groups};
use self::words::{
    Found, LARGE_MAX, PAGE_MAX, Told, delete, delete_range, digits, failure, get, holder, is_less,
    is_still, is_value, number, operation, put,
};
use super::address::Target;
use super::backend::{Attempt, Backend, Done, Failure, Followed, Outcome};
use crate::{Change, Entry};

/// A longer value is cut into parts.
const PART_MAX: usize = 512 << 10;

/// A connection to etcd.
#[derive(Debug)]
pub(super) struct Etcd {
    target: Target,
    /// The member that is asked.
    member: usize,
    connection: Option<Connection>,
    /// The token of the user's login; empty: nobody has logged in.
    token: String,
    /// The newest revision of `leader` that was seen, and since when.
    seen: Option<(u64, Instant)>,
    /// Keys whose values are in parts.
    large: BTreeSet<Vec<u8>>,
    /// A commit may be marked as made and not carried out.
    is_unsettled: bool,
    /// The waiting head's copy of the entries, and the watch that it follows.
    copy: Option<Copy>,
    watch: Option<Lines>,
    /// The revision of the newest write.
    fence: u64,
}

impl Etcd {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            member: 0,
            connection: None,
            token: String::new(),
            seen: None,
            large: BTreeSet::new(),
            is_unsettled: true,
            copy: None,
            watch: None,
            fence: 0,
        }
    }

    fn key(&self, name: &str) -> Vec<u8> {
        format!("heliostat/{}/{name}", self.target.namespace).into_bytes()
    }

    fn entry(&self, key: &[u8]) -> Vec<u8> {
        [self.key("e/").as_slice(), key].concat()
    }

    fn part(&self, key: &[u8], number: usize) -> Vec<u8> {
        let mut name = "p/".to_owned();
        for byte in key {
            let _ = write!(name, "{byte:02x}");
        }
        let _ = write!(name, "/{number:08}");
        self.key(&name)
    }

    /// Asks one member after the other.
    fn post(&mut self, path: &str, body: &Value, within: Duration) -> Outcome<Value> {
        let members = self.target.others.len() + 1;
        let mut last = Failure::Away("no member was asked".to_owned());
        let mut has_logged_in = false;
        // One try more than there are members: a token that has run out costs one.
        for _ in 0..=members {
            if self.token.is_empty() && !self.target.password.is_empty() {
                match self.login(within) {
                    Ok(()) => has_logged_in = true,
                    Err(Failure::Away(why)) => {
                        last = Failure::Away(why);
                        self.next();
                        continue;
                    }
                    Err(refused) => return Err(refused),
                }
            }
            match self.ask(path, body, within) {
                Ok(answer) => return Ok(answer),
                // The member forgets the token with its restart, and after a while.
                Err(Failure::Refused(why))
                    if why.contains("invalid auth token") && !has_logged_in =>
                {
                    self.token.clear();
                }
                Err(Failure::Away(why)) => {
                    last = Failure::Away(why);
                    self.next();
                }
                Err(other) => return Err(other),
            }
        }
        Err(last)
    }

    fn next(&mut self) {
        self.connection = None;
        self.member = (self.member + 1) % (self.target.others.len() + 1);
    }

    /// Returns the host and port of the present member.
    fn place(&self) -> (String, u16) {
        match self.member.checked_sub(1) {
            None => (self.target.host.clone(), self.target.port),
            Some(other) => self.target.others[other].clone(),
        }
    }

    /// Asks the present member once.
    fn ask(&mut self, path: &str, body: &Value, within: Duration) -> Outcome<Value> {
        let (host, port) = self.place();
        let away = |error: std::io::Error| Failure::Away(format!("{host}:{port}: {error}"));
        // Taken out, for after an error nobody knows how much of an answer is still to come on it.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let encryption = self.target.encryption.as_ref();
                let within = self.target.answer_max();
                Connection::open(&host, port, encryption, within).map_err(away)?
            }
        };
        let (status, answer) = connection.post(path, &self.token, body, within).map_err(away)?;
        self.connection = Some(connection);
        if status == 200 { Ok(answer) } else { Err(failure(status, &answer)) }
    }

    fn login(&mut self, within: Duration) -> Outcome<()> {
        let Target { username, password, .. } = &self.target;
        let body = json!({ "name": username, "password": password });
        let answer = self.ask("/v3/auth/authenticate", &body, within)?;
        answer["token"].as_str().unwrap_or_default().clone_into(&mut self.token);
        Ok(())
    }

    fn transact(
        &mut self,
        compare: &[Value],
        success: &[Value],
        failure: &[Value],
        within: Duration,
    ) -> Outcome<Told> {
        let body = json!({ "compare": compare, "success": success, "failure": failure });
        let answer = self.post("/v3/kv/txn", &body, within)?;
        let responses = answer["responses"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ranges = responses.iter().filter_map(|response| response.get("response_range"));
        let found = |range: &Value| {
            let all = range["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
            let bytes = |of: &Value| of.as_str().and_then(decode).unwrap_or_default();
            let found = |pair: &Value| Found {
                key: bytes(&pair["key"]),
                value: bytes(&pair["value"]),
                revision: number(&pair["mod_revision"]),
            };
            all.iter().map(found).collect()
        };
        let header = &answer["header"];
        Ok(Told {
            is_done: answer["succeeded"].as_bool().unwrap_or_default(),
            revision: number(&header["revision"]),
            cluster: header["cluster_id"].as_str().unwrap_or_default().to_owned(),
            found: ranges.map(found).collect(),
        })
    }

    /// A transaction of the head of that epoch.
    fn transact_ours(
        &mut self,
        epoch: u64,
        conditions: &[Value],
        success: &[Value],
        within: Duration,
    ) -> Outcome<Done<Told>> {
        let mut compare = vec![is_value(&self.key("epoch"), epoch.to_string().as_bytes())];
        compare.extend_from_slice(conditions);
        let looks = ["epoch", "leader", "number"].map(|name| get(&self.key(name)));
        let told = self.transact(&compare, success, &looks, within)?;
        if told.is_done {
            return Ok(Done::Ours(told));
        }
        let is_ours = told.first(0).is_some_and(|found| found.text() == epoch.to_string());
        Ok(if is_ours { Done::Ours(told) } else { Done::Lost(holder(told.first(1))) })
    }

    /// Carries out what is marked as made.
    fn settle(&mut self, epoch: u64) -> Outcome<Done<()>> {
        let mark = get(&self.key("mark"));
        // The mark is the last thing written of a large commit: without it the pieces are of a commit that was never
        // acknowledged.
        let told = match self.transact_ours(epoch, &[], &[mark], self.target.answer_max())? {
            Done::Ours(told) => told,
            Done::Lost(to) => return Ok(Done::Lost(to)),
        };
        if let Some((number, pieces)) = told.first(0).and_then(|mark| mark.text().split_once(' ')) {
            let mut bytes = Vec::new();
            for piece in 0..pieces.parse().unwrap_or(0) {
                let read = get(&self.key(&format!("j/{number}/{piece:08}")));
                match self.transact_ours(epoch, &[], &[read], LARGE_MAX)? {
                    Done::Ours(told) => {
                        bytes.extend(
                            told.first(0).map(|found| found.value.clone()).unwrap_or_default(),
                        );
                    }
                    Done::Lost(to) => return Ok(Done::Lost(to)),
                }
            }
            let number = number.to_owned();
            let ops = journal::decode(&bytes).ok_or_else(|| {
                Failure::Refused("a commit that was written down cannot be read".to_owned())
            })?;
            if let Done::Lost(to) = self.carry_out(epoch, &number, &ops)? {
                return Ok(Done::Lost(to));
            }
        }
        // Last: a head that is lost in between leaves a mark, and the next one carries the commit out once more. To
        // repeat it does no harm.
        let rest = [delete(&self.key("mark")), delete_range(&self.key("j/"), &self.key("j0"))];
        let done = self.transact_ours(epoch, &[], &rest, LARGE_MAX)?;
        self.is_unsettled = false;
        Ok(done.map(drop))
    }

    /// In several transactions, each of which happens only while that commit is the newest.
    fn carry_out(&mut self, epoch: u64, number: &str, ops: &[Op]) -> Outcome<Done<()>> {
        let is_newest = is_value(&self.key("number"), number.as_bytes());
        for group in groups(ops) {
            let success: Vec<Value> = group.iter().map(operation).collect();
            match self.transact_ours(
                epoch,
                std::slice::from_ref(&is_newest),
                &success,
                LARGE_MAX,
            )? {
                Done::Ours(_) => {}
                Done::Lost(to) => return Ok(Done::Lost(to)),
            }
        }
        Ok(Done::Ours(()))
    }

    /// Returns the entries of a whole copy.
    fn entries(&mut self, copy: Copy) -> Vec<Entry> {
        let (skipped, mut parts) = (self.key("e/").len(), copy.parts);
        self.large.clear();
        let mut entries = Vec::with_capacity(copy.entries.len());
        for (mut key, mut value) in copy.entries {
            key.drain(..skipped);
            let value = match value.split_first() {
                Some((1, count)) => {
                    let count = std::str::from_utf8(count).ok().and_then(|text| text.parse().ok());
                    self.large.insert(key.clone());
                    let names = (0..count.unwrap_or(0)).map(|number| self.part(&key, number));
                    names.filter_map(|name| parts.remove(&name)).flatten().collect()
                }
                Some(_) => {
                    value.remove(0);
                    value
                }
                None => value,
            };
            entries.push((key, value));
        }
        entries
    }

    /// Returns the operations on etcd's keys that make the changes.
    fn ops(&self, changes: &[Change]) -> Vec<Op> {
        let mut ops = Vec::new();
        for Change { key, value } in changes {
            let entry = self.entry(key);
            let mut parts = 0;
            match value {
                Some(value) if value.len() > PART_MAX => {
                    for (number, part) in value.chunks(PART_MAX).enumerate() {
                        ops.push(Op::Put(self.part(key, number), part.to_vec()));
                        parts = number + 1;
                    }
                    ops.push(Op::Put(entry, format!("\x01{parts}").into_bytes()));
                }
                Some(value) => ops.push(Op::Put(entry, [b"\x00", value.as_slice()].concat())),
                None => ops.push(Op::Delete(entry)),
            }
            // A value that has become smaller leaves parts behind.
            if self.large.contains(key) {
                ops.push(Op::DeleteRange(self.part(key, parts), self.part(key, 99_999_999)));
            }
        }
        ops
    }
}

impl Backend for Etcd {
    fn acquire(&mut self, holder_name: &str, lease: Duration) -> Outcome<Attempt> {
        let names = ["cluster", "epoch", "leader", "number"].map(|name| self.key(name));
        let looks = names.each_ref().map(|name| get(name));
        let within = self.target.answer_max();
        let told = self.transact(&[], &looks, &[], within)?;
        let [cluster, epoch, leader, number] = [0, 1, 2, 3].map(|read| told.first(read));
        if cluster.is_some_and(|mark| mark.value != self.target.cluster.as_bytes()) {
            return Ok(Attempt::Foreign);
        }
        if let Some(leader) = leader {
            let its_lease = leader.text().split(' ').nth(1).and_then(|text| text.parse().ok());
            let its_lease = Duration::from_millis(its_lease.unwrap_or_default()).max(lease);
            // The time counts from when this process saw the key change, by its own clock: clocks of two machines
            // need not agree.
            let since = match &self.seen {
                Some((revision, since)) if *revision == leader.revision => *since,
                _ => Instant::now(),
            };
            self.seen = Some((leader.revision, since));
            let left = its_lease.saturating_sub(since.elapsed());
            if !left.is_zero() {
                return Ok(Attempt::Held { by: holder(Some(leader)), left });
            }
        }
        let before = epoch.and_then(|found| found.text().parse().ok()).unwrap_or(0u64);
        // Higher than all before, also where the store was emptied meanwhile.
        let ours = unix_ms().max(before + 1);
        let number = number.and_then(|found| found.text().parse().ok()).unwrap_or(0);
        // Of several heads that saw the lease run out, the first transaction wins.
        let conditions = [is_still(&names[1], epoch), is_still(&names[2], leader)];
        let changes = [
            put(&names[0], self.target.cluster.as_bytes()),
            put(&names[1], ours.to_string().as_bytes()),
            put(&names[2], leading(ours, lease, holder_name).as_bytes()),
            put(&names[3], digits(number).as_bytes()),
        ];
        let told = self.transact(&conditions, &changes, &[get(&names[2])], within)?;
        let is_ours = |found: &Found| found.text() == leading(ours, lease, holder_name);
        // The answer to a try that had won may have been lost, and its write is there.
        if told.is_done || told.first(0).is_some_and(is_ours) {
            self.seen = None;
            return Ok(Attempt::Won { epoch: ours, number });
        }
        Ok(Attempt::Held { by: holder(told.first(0)), left: lease })
    }

    fn renew(&mut self, epoch: u64, holder: &str, lease: Duration) -> Outcome<Done<()>> {
        let leader = put(&self.key("leader"), leading(epoch, lease, holder).as_bytes());
        Ok(self.transact_ours(epoch, &[], &[leader], self.target.answer_max())?.map(drop))
    }

    fn follow(&mut self, within: Duration) -> Outcome<Followed> {
        self.follow_store(within)
    }

    fn read(&mut self, epoch: u64) -> Outcome<Done<Vec<Entry>>> {
        let mut copy = self.copy.take();
        if self.is_unsettled {
            if let Done::Lost(to) = self.settle(epoch)? {
                return Ok(Done::Lost(to));
            }
            // Those changes are newer than the write that a copy waits for.
            copy = None;
        }
        let whole = match copy {
            None => None,
            Some(mut copy) => match self.complete(epoch, &mut copy)? {
                Done::Ours(is_whole) => is_whole.then_some(copy),
                Done::Lost(to) => return Ok(Done::Lost(to)),
            },
        };
        self.watch = None;
        let mut copy = whole.unwrap_or_else(|| self.empty_copy());
        while !copy.is_read() {
            if let Done::Lost(to) = self.read_page(Some(epoch), &mut copy, PAGE_MAX, LARGE_MAX)? {
                return Ok(Done::Lost(to));
            }
        }
        Ok(Done::Ours(self.entries(copy)))
    }

    fn write(&mut self, epoch: u64, number: u64, changes: &[Change]) -> Outcome<Done<()>> {
        if self.is_unsettled
            && let Done::Lost(to) = self.settle(epoch)?
        {
            return Ok(Done::Lost(to));
        }
        let ops = self.ops(changes);
        let number_key = self.key("number");
        let number = digits(number);
        let is_newer = is_less(&number_key, number.as_bytes());
        let is_one = groups(&ops).nth(1).is_none();
        let mut success = vec![put(&number_key, number.as_bytes())];
        if is_one {
            success.extend(ops.iter().map(operation));
        } else {
            self.is_unsettled = true;
            let bytes = journal::encode(&ops);
            let mut pieces = 0;
            for piece in bytes.chunks(PIECE_MAX) {
                let written = put(&self.key(&format!("j/{number}/{pieces:08}")), piece);
                if let Done::Lost(to) = self.transact_ours(epoch, &[], &[written], LARGE_MAX)? {
                    return Ok(Done::Lost(to));
                }
                pieces += 1;
            }
            success.push(put(&self.key("mark"), format!("{number} {pieces}").as_bytes()));
        }
        let within = if is_one { self.target.answer_max() } else { LARGE_MAX };
        let told = match self.transact_ours(epoch, &[is_newer], &success, within)? {
            Done::Ours(told) => told,
            Done::Lost(to) => return Ok(Done::Lost(to)),
        };
        // A try whose answer did not come may have made the write.
        let is_made = told.is_done || told.first(2).is_some_and(|found| found.text() == number);
        if !is_made {
            return Err(Failure::Away("a later write was made before".to_owned()));
        }
        self.fence = match told.first(2) {
            Some(found) if !told.is_done => found.revision,
            _ => told.revision,
        };
        for Change { key, value } in changes {
            if value.as_ref().is_some_and(|value| value.len() > PART_MAX) {
                self.large.insert(key.clone());
            } else {
                self.large.remove(key);
            }
        }
        if is_one {
            return Ok(Done::Ours(()));
        }
        // The write has happened. Should this fail, the next writer finds the mark.
        let _ = self.settle(epoch);
        Ok(Done::Ours(()))
    }

    fn get_beside(&mut self, epoch: u64, name: &str) -> Outcome<Done<Option<Vec<u8>>>> {
        let read = get(&self.key(&format!("b/{name}")));
        let done = self.transact_ours(epoch, &[], &[read], LARGE_MAX)?;
        Ok(done.map(|told| told.first(0).map(|found| found.value.clone())))
    }

    fn put_beside(&mut self, epoch: u64, name: &str, value: Option<&[u8]>) -> Outcome<Done<()>> {
        let key = self.key(&format!("b/{name}"));
        let change = value.map_or_else(|| delete(&key), |value| put(&key, value));
        Ok(self.transact_ours(epoch, &[], &[change], LARGE_MAX)?.map(drop))
    }

    fn release(&mut self, epoch: u64) -> Outcome<()> {
        let leader = delete(&self.key("leader"));
        self.transact_ours(epoch, &[], &[leader], self.target.answer_max()).map(drop)
    }

    fn clean(&mut self) -> Outcome<bool> {
        let mut end = self.key("");
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let body = json!({ "key": encode(&self.key("")), "range_end": encode(&end) });
        let answer = self.post("/v3/kv/deleterange", &body, LARGE_MAX)?;
        Ok(answer["deleted"].as_str().is_some_and(|count| count != "0"))
    }
}

fn leading(epoch: u64, lease: Duration, holder: &str) -> String {
    format!("{epoch} {} {holder}", lease.as_millis())
}
