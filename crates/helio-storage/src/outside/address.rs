//! The address of a store: `redis://[user:password@]host:port`, `etcd://[user:password@]host:port[,host:port]`;
//! `rediss` and `etcds` where connections are encrypted.

use std::fmt;
use std::time::Duration;

use helio_tls::ClientFiles;
use helio_types::address::{host_port, split_host_port};

use super::backend::Failure;
use crate::Error;

/// Time for which a head that starts tries to reach a store that does not answer.
pub(super) const REACH_MAX: Duration = Duration::from_secs(30);

const REDIS_PORT: u16 = 6379;
const ETCD_PORT: u16 = 2379;

/// The kind of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A single Redis server.
    Redis,
    /// The members of an etcd.
    Etcd,
}

/// A store, and which part of it is this cluster's.
#[derive(Clone)]
pub struct Target {
    /// Redis or etcd.
    pub kind: Kind,
    /// The host name of the server.
    pub host: String,
    /// The port of the server.
    pub port: u16,
    /// Machines and ports of its other members.
    pub others: Vec<(String, u16)>,
    /// The user who logs in; empty: the store's default.
    pub username: String,
    /// The password of the user; empty: nobody logs in.
    pub password: String,
    /// The certificates of encrypted connections; `None`: they are in the clear.
    pub encryption: Option<ClientFiles>,
    /// The part of the store: clusters of several namespaces do not see each other.
    pub namespace: String,
    /// The mark of the cluster, so that another one does not take its state: not the token itself.
    pub cluster: String,
    /// Time for which a silent head keeps the state from others.
    pub lease: Duration,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Reads the address of a store.
///
/// # Errors
/// A sentence about what is wrong with it.
pub fn parse(text: &str) -> Result<Target, String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("redis", text));
    let (kind, usual) = match scheme {
        "redis" | "rediss" => (Kind::Redis, REDIS_PORT),
        "etcd" | "etcds" => (Kind::Etcd, ETCD_PORT),
        _ => {
            return Err(format!(
                "{text}: a store is redis://HOST:PORT or etcd://HOST:PORT,HOST:PORT; rediss:// and etcds:// are encrypted"
            ));
        }
    };
    let (user, places) = rest.rsplit_once('@').unwrap_or(("", rest));
    let places = places.split('/').next().unwrap_or_default();
    let (username, password) = user.split_once(':').unwrap_or((user, ""));
    let place = |place: &str| {
        let (host, port) = match split_host_port(place.trim()) {
            Some((host, port)) => {
                let port = port.parse().map_err(|_| format!("{text}: {port:?} is not a port"))?;
                (host, port)
            }
            None => (place.trim(), usual),
        };
        match host {
            "" => Err(format!("{text}: the host is missing; a store is {scheme}://HOST:PORT")),
            host => Ok((host.to_owned(), port)),
        }
    };
    let mut places = places.split(',').map(place).collect::<Result<Vec<_>, _>>()?;
    let (host, port) = places.remove(0);
    if kind == Kind::Redis {
        // Of a list Ray uses the first one, too.
        places.clear();
    }
    Ok(Target {
        kind,
        host,
        port,
        others: places,
        username: decoded(username),
        password: decoded(password),
        encryption: matches!(scheme, "rediss" | "etcds").then(ClientFiles::default),
        namespace: "default".to_owned(),
        cluster: String::new(),
        lease: Duration::from_secs(5),
    })
}

/// Without `%40` and the like.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%').then(|| after.get(..2)).flatten();
        let code =
            code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Target {
    /// Returns the name of the store for messages: without the password.
    #[must_use]
    pub fn name(&self) -> String {
        let scheme = match self.kind {
            Kind::Redis => "redis",
            Kind::Etcd => "etcd",
        };
        let secured = if self.encryption.is_some() { "s" } else { "" };
        let others = self.others.iter().map(|(host, port)| host_port(host, port));
        let places: Vec<String> =
            std::iter::once(host_port(&self.host, self.port)).chain(others).collect();
        format!("{scheme}{secured}://{} (namespace {})", places.join(","), self.namespace)
    }

    /// Returns the time that an operation may take: where there are several members, each has its
    /// part of the lease.
    pub(super) fn answer_max(&self) -> Duration {
        let members = self.others.len() as u32 + 1;
        (self.lease / members).clamp(Duration::from_millis(250), Duration::from_secs(5))
    }

    pub(super) fn refused(&self, reason: &str) -> Error {
        Error::Refused { place: self.name(), reason: reason.to_owned() }
    }

    /// Returns the error of a head that gives up after [`REACH_MAX`].
    pub(super) fn not_reached(&self, reason: &str) -> Error {
        let seconds = REACH_MAX.as_secs();
        let kind = match self.kind {
            Kind::Redis => "a Redis",
            Kind::Etcd => "an etcd",
        };
        Error::Away {
            place: self.name(),
            reason: format!(
                "{reason}. It was tried for {seconds} s: {kind} that takes writes has to answer there"
            ),
        }
    }

    pub(super) fn failed(&self, failure: Failure) -> Error {
        match failure {
            Failure::Away(reason) => Error::Away { place: self.name(), reason },
            Failure::Full => Error::Full { path: self.name() },
            Failure::Refused(reason) => Error::Refused { place: self.name(), reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_ray_reads_them() {
        let check = |text: &str, expect: (&str, u16, &str, &str)| {
            let target = parse(text).unwrap();
            let found = (&*target.host, target.port, &*target.username, &*target.password);
            assert_eq!(found, expect, "{text}");
        };
        check("redis:6379", ("redis", 6379, "", ""));
        check("redis", ("redis", 6379, "", ""));
        check("redis://10.0.0.1:7000,10.0.0.2:7000", ("10.0.0.1", 7000, "", ""));
        check("redis://me:p%40ss@redis:1/0", ("redis", 1, "me", "p@ss"));
        check("etcd://a:7,b", ("a", 7, "", ""));
        check("etcd://a", ("a", 2379, "", ""));
        assert_eq!(parse("etcd://a:7,b").unwrap().others, [("b".to_owned(), 2379)]);
        check("rediss://redis", ("redis", 6379, "", ""));
        for (text, is_encrypted) in [("rediss://a", true), ("etcds://a", true), ("etcd://a", false)]
        {
            let target = parse(text).unwrap();
            assert_eq!(target.encryption.is_some(), is_encrypted, "{text}");
            assert!(target.name().starts_with(text), "{}", target.name());
        }
        check("redis://:secret@[::1]:6379", ("::1", 6379, "", "secret"));
        for (text, part) in [
            ("etcd://a,:1", "host is missing"),
            ("mysql://a:1", "redis://HOST:PORT"),
            ("redis://:1", "host is missing"),
            ("redis://a:many", "not a port"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn no_message_has_the_password() {
        let target = parse("redis://me:secret@redis:1").unwrap();
        assert!(!format!("{target:?} {}", target.name()).contains("secret"));
    }
}
