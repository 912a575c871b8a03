//! Redis: one hash of entries, one of what the heads have to know, one of what lies beside the entries, the lease,
//! which Redis itself lets run out, and a trace: the keys of the entries that the newest writes changed.
//!
//! Each operation is a script, which Redis runs as a whole. The names of the five keys have the namespace in braces, so
//! that a cluster of Redis would keep them together.

mod resp;

use std::collections::BTreeMap;
use std::time::Duration;

use helio_env::clock::unix_ms;

use self::resp::{Connection, Reply};
use super::address::Target;
use super::backend::{Attempt, Backend, Done, Failure, Followed, Outcome};
use crate::{Change, Entry};

/// The bounds of a whole state's way over the network.
const READ_MAX: Duration = Duration::from_secs(60);

/// KEYS: lease, meta, entries, beside. The epoch never repeats, also where the state was deleted meanwhile.
const ACQUIRE: &str = "
local mark = redis.call('HGET', KEYS[2], 'cluster')
if mark and mark ~= ARGV[1] then return {'foreign'} end
local held = redis.call('GET', KEYS[1])
if held then return {'held', held, redis.call('PTTL', KEYS[1])} end
local epoch = tonumber(redis.call('HGET', KEYS[2], 'epoch') or '0') + 1
epoch = string.format('%.0f', math.max(epoch, tonumber(ARGV[4])))
redis.call('HSET', KEYS[2], 'epoch', epoch, 'cluster', ARGV[1])
redis.call('HSETNX', KEYS[2], 'born', epoch)
redis.call('SET', KEYS[1], epoch .. ' ' .. ARGV[2], 'PX', ARGV[3])
return {'won', epoch, redis.call('HGET', KEYS[2], 'number') or '0'}
";

/// The beginning of each of the following scripts.
macro_rules! if_ours {
    ($body:literal) => {
        concat!(
            "if redis.call('HGET', KEYS[2], 'epoch') ~= ARGV[1] then return {'lost', redis.call('GET', KEYS[1]) or ''} end\n",
            $body
        )
    };
}

/// Sets the time of the lease anew, which works also where there is no memory left.
const RENEW: &str = if_ours!(
    "
if redis.call('PEXPIRE', KEYS[1], ARGV[3]) == 0 then
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
end
return {'ours'}
"
);

/// A script that returns the entries of that state (`born`) that changed after a write, as they are now. ARGV: epoch or
/// nothing, `born`, number.
macro_rules! news {
    () => {
        "
local number = redis.call('HGET', KEYS[2], 'number') or '0'
if (redis.call('HGET', KEYS[2], 'traced') or '0') ~= number then return {'ours', {'untraced'}} end
local born = redis.call('HGET', KEYS[2], 'born') or ''
local floor = tonumber(redis.call('HGET', KEYS[2], 'floor') or '0')
if born ~= ARGV[2] or tonumber(ARGV[3]) < floor or tonumber(ARGV[3]) > tonumber(number) then
  return {'ours', {'anew', born, number}}
end
local keys = redis.call('ZRANGEBYSCORE', KEYS[5], '(' .. ARGV[3], '+inf')
local values = {}
for at = 1, #keys do values[at] = redis.call('HGET', KEYS[3], keys[at]) end
return {'ours', {'news', number, keys, values}}
"
    };
}

const NEWS: &str = news!();
const NEWS_OF_OURS: &str = concat!(
    "if redis.call('HGET', KEYS[2], 'epoch') ~= ARGV[1] then return {'lost', redis.call('GET', KEYS[1]) or ''} end\n",
    news!()
);

const READ: &str = if_ours!("return {'ours', redis.call('HGETALL', KEYS[3])}");

/// ARGV: epoch, number, how many are set, their keys and values, the keys of those that are deleted. The first write is
/// one that is refused where memory is short: after it Redis lets the others through.
///
/// The trace has each changed key by the number of the newest write that changed it, of the newest 50,000 of them; what was
/// changed up to `floor` it does not tell. `traced` is the number of the newest write that it knows of: an older release
/// writes none down.
const WRITE: &str = if_ours!(
    "
local before = redis.call('HGET', KEYS[2], 'number') or '0'
if tonumber(ARGV[2]) <= tonumber(before) then return {'late'} end
local traced = redis.call('HGET', KEYS[2], 'traced') or '0'
redis.call('HSET', KEYS[2], 'number', ARGV[2], 'traced', ARGV[2])
if traced ~= before then
  redis.call('DEL', KEYS[5])
  redis.call('HSET', KEYS[2], 'floor', before)
end
local last = 3 + 2 * tonumber(ARGV[3])
for at = 4, last, 2 do
  redis.call('HSET', KEYS[3], ARGV[at], ARGV[at + 1])
  redis.call('ZADD', KEYS[5], ARGV[2], ARGV[at])
end
for at = last + 1, #ARGV do
  redis.call('HDEL', KEYS[3], ARGV[at])
  redis.call('ZADD', KEYS[5], ARGV[2], ARGV[at])
end
local more = redis.call('ZCARD', KEYS[5]) - 50000
if more > 0 then
  local floor = redis.call('ZRANGE', KEYS[5], more - 1, more - 1, 'WITHSCORES')[2]
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', floor)
  redis.call('HSET', KEYS[2], 'floor', floor)
end
return {'ours'}
"
);

const GET_BESIDE: &str = if_ours!("return {'ours', redis.call('HGET', KEYS[4], ARGV[2])}");

const PUT_BESIDE: &str = if_ours!(
    "
if ARGV[3] then redis.call('HSET', KEYS[4], ARGV[2], ARGV[3]) else redis.call('HDEL', KEYS[4], ARGV[2]) end
return {'ours'}
"
);

const RELEASE: &str = if_ours!("return {'ours', redis.call('DEL', KEYS[1])}");

const CLEAN: &str =
    "return {'ours', redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])}";

/// The first words of Redis's errors that pass.
const PASSING: [&str; 6] = ["LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF"];

/// The number of entries that a waiting head reads at a time.
const SCANNED: &[u8] = b"1000";

/// A connection to Redis.
pub(super) struct Redis {
    target: Target,
    keys: [String; 5],
    connection: Option<Connection>,
    /// The waiting head's copy of the entries.
    copy: Option<Copy>,
}

/// The entries of a state as of a write, or newer.
struct Copy {
    born: String,
    number: u64,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The cursor where reading goes on; `None`: all was read.
    cursor: Option<Vec<u8>>,
}

impl Copy {
    /// Applies the answer of [`NEWS`]; `false`: the copy cannot be brought up to date.
    fn take(&mut self, told: Option<Reply>) -> bool {
        let Some(Reply::List(told)) = told else { return false };
        let mut told = told.into_iter();
        if told.next().and_then(Reply::text).as_deref() != Some("news") {
            return false;
        }
        let number = number(told.next());
        let (Some(Reply::List(keys)), Some(Reply::List(values))) = (told.next(), told.next())
        else {
            return false;
        };
        if keys.len() != values.len() {
            return false;
        }
        for pair in keys.into_iter().zip(values) {
            match pair {
                (Reply::Bytes(key), Reply::Bytes(value)) => drop(self.entries.insert(key, value)),
                (Reply::Bytes(key), Reply::Nothing) => drop(self.entries.remove(&key)),
                _ => return false,
            }
        }
        self.number = number;
        true
    }
}

impl Redis {
    pub(super) fn new(target: Target) -> Self {
        let key = |name| format!("{{heliostat:{}}}:{name}", target.namespace);
        let keys = ["lease", "meta", "entries", "beside", "trace"].map(key);
        Self { target, keys, connection: None, copy: None }
    }

    /// Runs a script; what it returned, a word first.
    fn run(&mut self, script: &str, arguments: &[&[u8]], within: Duration) -> Outcome<Vec<Reply>> {
        // Of whoever has not logged in Redis takes ten words; with more it does not say that a password is missing.
        let has_more = script.contains("KEYS[4]") || script.contains("KEYS[5]");
        let keys = if has_more { &self.keys[..] } else { &self.keys[..3] };
        let count = keys.len().to_string();
        let mut parts: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), count.as_bytes()];
        parts.extend(keys.iter().map(|key| key.as_bytes()));
        parts.extend(arguments);
        list(call(&mut self.connection, &self.target, &parts, within)?)
    }

    /// Brings a copy further: reads more of the entries, or the changes since.
    fn step(&mut self, copy: &mut Option<Copy>) -> Outcome<()> {
        if let Some(copy) = copy.as_mut().filter(|copy| copy.cursor.is_some()) {
            return self.scan(copy);
        }
        let (born, since) = match copy {
            Some(copy) => (copy.born.as_str(), copy.number.to_string()),
            None => ("none", "0".to_owned()),
        };
        let arguments = [b"", born.as_bytes(), since.as_bytes()];
        let told = match self.run_ours(NEWS, &arguments, self.target.answer_max())? {
            Done::Ours(told) => told,
            Done::Lost(_) => None,
        };
        if let Some(anew) = anew(told.as_ref()) {
            *copy = Some(anew);
        } else if !copy.as_mut().is_some_and(|copy| copy.take(told)) {
            *copy = None;
        }
        Ok(())
    }

    /// Reads more of the entries while another head may change them: those that are there all the time are found, and
    /// the trace knows of the others.
    fn scan(&mut self, copy: &mut Copy) -> Outcome<()> {
        let Some(cursor) = copy.cursor.clone() else { return Ok(()) };
        let parts = [b"HSCAN", self.keys[2].as_bytes(), &cursor, b"COUNT", SCANNED];
        let within = self.target.answer_max();
        let reply = call(&mut self.connection, &self.target, &parts, within);
        let mut all = list(reply?)?.into_iter();
        let (Some(Reply::Bytes(next)), Some(Reply::List(pairs))) = (all.next(), all.next()) else {
            return Err(away("an answer that is not understood"));
        };
        copy.entries.extend(entries(pairs));
        copy.cursor = (next != b"0").then_some(next);
        Ok(())
    }

    /// Runs a script that begins with `if_ours`.
    fn run_ours(
        &mut self,
        script: &str,
        arguments: &[&[u8]],
        within: Duration,
    ) -> Outcome<Done<Option<Reply>>> {
        let mut all = self.run(script, arguments, within)?.into_iter();
        let word = all.next().and_then(Reply::text).unwrap_or_default();
        let second = all.next();
        match &*word {
            "ours" => Ok(Done::Ours(second)),
            "lost" => Ok(Done::Lost(holder(second))),
            _ => Err(away(&format!("an answer that is not understood: {word:?}"))),
        }
    }
}

/// Sends a command on a connection that is open, or is opened.
fn call(
    open: &mut Option<Connection>,
    target: &Target,
    parts: &[&[u8]],
    within: Duration,
) -> Outcome<Reply> {
    let mut connection = match open.take() {
        Some(connection) => connection,
        None => connect(target)?,
    };
    let reply = connection.call(parts, within).map_err(|error| away(&error.to_string()))?;
    // After an error of the connection its rest would be taken for the next answer.
    *open = Some(connection);
    Ok(reply)
}

fn list(reply: Reply) -> Outcome<Vec<Reply>> {
    match reply {
        Reply::List(all) => Ok(all),
        Reply::Error(text) => Err(failure(&text)),
        other => Err(away(&format!("an answer that is not understood: {other:?}"))),
    }
}

/// Returns the entries of a list that has keys and values by turns.
fn entries(all: Vec<Reply>) -> impl Iterator<Item = Entry> {
    let mut all = all.into_iter();
    std::iter::from_fn(move || match (all.next(), all.next()) {
        (Some(Reply::Bytes(key)), Some(Reply::Bytes(value))) => Some((key, value)),
        _ => None,
    })
}

/// Returns the holder of a lease, of "epoch holder".
fn holder(lease: Option<Reply>) -> String {
    let text = lease.and_then(Reply::text).unwrap_or_default();
    text.split_once(' ').map_or_else(String::new, |(_, who)| who.to_owned())
}

fn away(reason: &str) -> Failure {
    Failure::Away(reason.to_owned())
}

/// An error that Redis answered.
fn failure(text: &str) -> Failure {
    // The line of the script that failed tells an operator nothing.
    let text = text.split(" script: ").next().unwrap_or(text);
    let word = text.split_whitespace().next().unwrap_or_default();
    if word == "OOM" || text.contains("-OOM") {
        return Failure::Full;
    }
    if word == "READONLY" || text.contains("-READONLY") {
        return Failure::Away(format!("{text} Give the address of the server that it copies"));
    }
    if PASSING.contains(&word) || PASSING.iter().any(|word| text.contains(&format!("-{word}"))) {
        return Failure::Away(text.to_owned());
    }
    let hint = match word {
        "NOAUTH" | "WRONGPASS" => {
            ". The password goes into `--redis-password` or RAY_REDIS_PASSWORD, a user's name into `--redis-username`"
        }
        "NOPERM" => {
            ". The user needs EVAL and the commands of hashes, sorted sets, strings and keys for the keys {heliostat:*"
        }
        "MOVED" => {
            ". It is a member of a Redis Cluster, which this release does not follow: give one server"
        }
        _ => "",
    };
    Failure::Refused(format!("{text}{hint}"))
}

fn connect(target: &Target) -> Outcome<Connection> {
    let within = target.answer_max();
    let opened = Connection::open(&target.host, target.port, target.encryption.as_ref(), within);
    let mut connection = opened.map_err(|error| away(&error.to_string()))?;
    if !target.password.is_empty() {
        let mut parts: Vec<&[u8]> = vec![b"AUTH"];
        if !target.username.is_empty() {
            parts.push(target.username.as_bytes());
        }
        parts.push(target.password.as_bytes());
        let reply = connection.call(&parts, within).map_err(|error| away(&error.to_string()))?;
        if let Reply::Error(text) = reply {
            return Err(failure(&text));
        }
    }
    Ok(connection)
}

/// Returns an empty copy of the state that [`NEWS`] named, where it named one.
fn anew(told: Option<&Reply>) -> Option<Copy> {
    let Some(Reply::List(told)) = told else { return None };
    let mut told = told.iter().cloned();
    let is_anew = told.next().and_then(Reply::text).as_deref() == Some("anew");
    let born = told.next().and_then(Reply::text).filter(|_| is_anew)?;
    let entries = BTreeMap::new();
    Some(Copy { born, number: number(told.next()), entries, cursor: Some(b"0".to_vec()) })
}

fn number(reply: Option<Reply>) -> u64 {
    reply.and_then(Reply::text).and_then(|text| text.parse().ok()).unwrap_or_default()
}

impl Backend for Redis {
    fn acquire(&mut self, holder_name: &str, lease: Duration) -> Outcome<Attempt> {
        let (cluster, lease) = (self.target.cluster.clone(), lease.as_millis().to_string());
        let time = unix_ms().to_string();
        let arguments =
            [cluster.as_bytes(), holder_name.as_bytes(), lease.as_bytes(), time.as_bytes()];
        let mut all = self.run(ACQUIRE, &arguments, self.target.answer_max())?.into_iter();
        let word = all.next().and_then(Reply::text).unwrap_or_default();
        let (second, third) = (all.next(), all.next());
        match &*word {
            "won" => Ok(Attempt::Won { epoch: number(second), number: number(third) }),
            "held" => {
                let left = Duration::from_millis(number(third));
                Ok(Attempt::Held { by: holder(second), left })
            }
            "foreign" => Ok(Attempt::Foreign),
            _ => Err(away(&format!("an answer that is not understood: {word:?}"))),
        }
    }

    fn renew(&mut self, epoch: u64, holder: &str, lease: Duration) -> Outcome<Done<()>> {
        let (epoch, lease) = (epoch.to_string(), lease.as_millis().to_string());
        let arguments = [epoch.as_bytes(), holder.as_bytes(), lease.as_bytes()];
        let done = self.run_ours(RENEW, &arguments, self.target.answer_max())?;
        Ok(done.map(drop))
    }

    fn follow(&mut self, within: Duration) -> Outcome<Followed> {
        let mut copy = self.copy.take();
        let step = self.step(&mut copy);
        let is_reading = copy.as_ref().is_some_and(|copy| copy.cursor.is_some());
        let even = copy.as_ref().filter(|_| !is_reading).map(|copy| copy.entries.len());
        self.copy = copy;
        step?;
        if !is_reading {
            std::thread::sleep(within);
        }
        Ok(even.map_or(Followed::Behind, Followed::Even))
    }

    fn read(&mut self, epoch: u64) -> Outcome<Done<Vec<Entry>>> {
        let epoch = epoch.to_string();
        if let Some(mut copy) = self.copy.take().filter(|copy| copy.cursor.is_none()) {
            let since = copy.number.to_string();
            // The same script compares the epoch and tells what changed: nobody can write in between.
            let arguments = [epoch.as_bytes(), copy.born.as_bytes(), since.as_bytes()];
            match self.run_ours(NEWS_OF_OURS, &arguments, READ_MAX)? {
                Done::Ours(told) => {
                    if copy.take(told) {
                        return Ok(Done::Ours(copy.entries.into_iter().collect()));
                    }
                }
                Done::Lost(to) => return Ok(Done::Lost(to)),
            }
        }
        let done = self.run_ours(READ, &[epoch.as_bytes()], READ_MAX)?;
        Ok(done.map(|reply| {
            let Some(Reply::List(all)) = reply else { return Vec::new() };
            let mut entries: Vec<Entry> = entries(all).collect();
            entries.sort_unstable();
            entries
        }))
    }

    fn write(&mut self, epoch: u64, number: u64, changes: &[Change]) -> Outcome<Done<()>> {
        let puts =
            changes.iter().filter_map(|change| Some((&*change.key, change.value.as_deref()?)));
        let count = puts.clone().count().to_string();
        let (epoch, number) = (epoch.to_string(), number.to_string());
        let mut arguments = vec![epoch.as_bytes(), number.as_bytes(), count.as_bytes()];
        arguments.extend(puts.flat_map(|(key, value)| [key, value]));
        let deletes = changes.iter().filter(|change| change.value.is_none());
        arguments.extend(deletes.map(|change| &*change.key));
        let done = self.run_ours(WRITE, &arguments, self.target.answer_max())?;
        Ok(done.map(drop))
    }

    fn get_beside(&mut self, epoch: u64, name: &str) -> Outcome<Done<Option<Vec<u8>>>> {
        let epoch = epoch.to_string();
        let arguments = [epoch.as_bytes(), name.as_bytes()];
        let done = self.run_ours(GET_BESIDE, &arguments, self.target.answer_max())?;
        Ok(done.map(|reply| match reply {
            Some(Reply::Bytes(value)) => Some(value),
            _ => None,
        }))
    }

    fn put_beside(&mut self, epoch: u64, name: &str, value: Option<&[u8]>) -> Outcome<Done<()>> {
        let epoch = epoch.to_string();
        let mut arguments = vec![epoch.as_bytes(), name.as_bytes()];
        arguments.extend(value);
        let done = self.run_ours(PUT_BESIDE, &arguments, self.target.answer_max())?;
        Ok(done.map(drop))
    }

    fn release(&mut self, epoch: u64) -> Outcome<()> {
        self.run_ours(RELEASE, &[epoch.to_string().as_bytes()], self.target.answer_max()).map(drop)
    }

    fn clean(&mut self) -> Outcome<bool> {
        let all = self.run(CLEAN, &[], self.target.answer_max())?;
        Ok(matches!(all.get(1), Some(Reply::Number(1..))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_redis_say_what_to_do() {
        assert_eq!(
            failure("OOM command not allowed when used memory > 'maxmemory'."),
            Failure::Full
        );
        let script = "ERR Error running script (call to f_1): -OOM command not allowed";
        assert_eq!(failure(script), Failure::Full);
        let passing = "LOADING Redis is loading the dataset in memory";
        assert_eq!(failure(passing), Failure::Away(passing.to_owned()));
        let replica = "READONLY You can't write against a read only replica.";
        let told = failure(&format!("{replica} script: cd2f7e, on @user_script:8."));
        let what = format!("{replica} Give the address of the server that it copies");
        assert_eq!(told, Failure::Away(what));
        for (text, part) in [
            ("NOAUTH Authentication required.", "--redis-password"),
            ("WRONGPASS invalid username-password pair", "--redis-username"),
            ("MOVED 1 10.0.0.1:6379", "Redis Cluster"),
            ("NOPERM this user has no permissions", "EVAL"),
        ] {
            let Failure::Refused(why) = failure(text) else { panic!("{text}") };
            assert!(why.contains(part) && why.contains(text), "{why}");
        }
    }
}
