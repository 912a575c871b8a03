//! The first frame each way: who is there, which version, and the proof of the token.
//!
//! **WIRE-1** A version that does not match is refused with a sentence that says what to do.
//! **AUTH-1** The token is compared in constant time before anything else is read, and a peer that
//! lacks it learns only that it was refused.
//!
//! The connector sends [`Hello`], the acceptor answers [`Welcome`]; a `Welcome` with a [`Refusal`] is the last frame of
//! the connection. Its kind is for programs, its text for people.

use std::fmt;

use helio_types::{NodeId, OPEN_TOKEN, WorkerId};

use crate::wire::{messages, number_field};

/// The wire version; raised when neighbouring releases cannot understand each other.
pub const VERSION: u32 = 1;

/// The role of a connector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// A role that this release does not know, and refuses: after the version, whose sentence says
    /// more.
    #[default]
    Unknown = 0,
    /// A driver: registers with its node's daemon, or connects to a worker.
    Driver = 1,
    /// A worker.
    Worker = 2,
    /// A node daemon.
    Node = 3,
    /// The command line or another observer.
    Observer = 4,
}

impl Role {
    fn from_number(number: u32) -> Option<Self> {
        let known = [Self::Driver, Self::Worker, Self::Node, Self::Observer];
        Some(known.into_iter().find(|role| *role as u32 == number).unwrap_or_default())
    }
}
number_field!(Role);

/// The kind of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RefusalKind {
    /// Another reason, which the text alone tells: that of an older release as well, and of a newer one whose kind is
    /// not known here.
    #[default]
    Other = 0,
    /// The token is missing or wrong.
    Token = 1,
    /// The other end has another wire version.
    Version = 2,
    /// The acceptor encrypts, and the connection does not.
    Encrypted = 3,
    /// The acceptor does not encrypt, and the connection does.
    Plain = 4,
}

impl RefusalKind {
    const ALL: [Self; 5] = [Self::Other, Self::Token, Self::Version, Self::Encrypted, Self::Plain];

    fn from_number(number: u32) -> Option<Self> {
        Some(Self::ALL.into_iter().find(|kind| *kind as u32 == number).unwrap_or_default())
    }

    /// Returns the name by which programs outside of Rust know the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Token => "token",
            Self::Version => "version",
            Self::Encrypted => "encrypted",
            Self::Plain => "plain",
        }
    }
}
number_field!(RefusalKind);

/// The reason why a connection is refused, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The kind, by which a program decides.
    pub kind: RefusalKind,
    /// A sentence for the user.
    pub text: String,
}

impl Refusal {
    /// Returns the same kind with words around its sentence.
    #[must_use]
    pub fn told(self, tell: impl FnOnce(&str) -> String) -> Self {
        Self { text: tell(&self.text), ..self }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self { kind: RefusalKind::Other, text }
    }
}

impl From<&str> for Refusal {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> Self {
        refusal.text
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The process or service that a connection is for: all of a node's processes are behind one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// The node's daemon.
    Daemon = 0,
    /// The control service, on the head.
    Control = 1,
    /// The driver or worker that `to_process` names.
    Process = 2,
    /// The node's daemon, for the bytes of large objects.
    Objects = 3,
    /// The node's daemon, for packages of code; the head has all of them.
    Packages = 4,
    /// The node's daemon, for its log files.
    Logs = 5,
    /// The gateway, on the head: for a driver's machine outside the cluster.
    Gateway = 6,
}

impl Destination {
    /// The destination of that number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        let known = [
            Self::Daemon,
            Self::Control,
            Self::Process,
            Self::Objects,
            Self::Packages,
            Self::Logs,
            Self::Gateway,
        ];
        known.into_iter().find(|destination| *destination as u32 == number)
    }
}

messages! {
    /// The connector's first frame.
    pub struct Hello {
        /// [`VERSION`].
        1 version: u32,
        /// The release, for the message of a mismatch.
        2 release: String,
        /// The cluster's token.
        3 token: String,
        4 role: Role,
        /// The id of the connecting process, for drivers and workers.
        5 worker_id: WorkerId,
        /// The node that the connector is or runs on.
        6 node_id: NodeId,
        /// The connector's process.
        7 pid: u32,
        /// Optional features, one bit each.
        8 features: u64,
        /// The connector's own address, for peers that may have to reach back.
        9 host: String,
        /// The TCP port of the process.
        10 port: u32,
        /// A [`Destination`].
        11 to: u32,
        /// The driver or worker, where the destination is one.
        12 to_process: WorkerId,
        /// Between drivers and workers: the number of times that the connector found that its connections
        /// with the other end were over, or heard that from the other end.
        13 epoch: u32,
        /// The message is not a greeting yet: it only says whom the connection is for, and a TLS session follows, in
        /// which the greeting comes.
        14 is_encrypted: bool,
        /// The node that is meant; nil: whose port it is. The machines of drivers outside the cluster are behind the
        /// head's port.
        15 to_node: NodeId,
    }
    /// The acceptor's first frame.
    pub struct Welcome {
        /// Empty, or why the connection ends here and what to do about it.
        1 refused: String,
        /// [`VERSION`].
        2 version: u32,
        /// The acceptor, when it is a daemon.
        3 node_id: NodeId,
        /// The acceptor, when it is a driver or worker.
        4 worker_id: WorkerId,
        /// The features that both sides have.
        5 features: u64,
        /// The acceptor's process.
        6 pid: u32,
        /// The kind of the refusal, if `refused` is one.
        7 refused_for: RefusalKind,
    }
}

impl Welcome {
    /// Returns the answer to a connection that ends here.
    #[must_use]
    pub fn refusing(refusal: Refusal) -> Self {
        let Refusal { kind, text } = refusal;
        Self { refused: text, refused_for: kind, version: VERSION, ..Self::default() }
    }

    /// Returns the welcome of a connection that goes on.
    ///
    /// # Errors
    /// The reason why the connection ends here.
    pub fn accepted(self) -> Result<Self, Refusal> {
        match self.refused.is_empty() {
            true => Ok(self),
            false => Err(Refusal { kind: self.refused_for, text: self.refused }),
        }
    }
}

/// Returns the reason why a peer is refused, if it is.
#[must_use]
pub fn refusal(hello: &Hello, token: &str) -> Option<Refusal> {
    if !is_right(hello.token.as_bytes(), token) {
        let hint =
            if hello.token == OPEN_TOKEN { ", and leave RAY_AUTH_MODE=disabled out" } else { "" };
        let text = format!(
            "the authentication token is missing or wrong: use the token of the cluster's head node \
             (HELIOSTAT_AUTH_TOKEN, or the file ~/.heliostat/auth_token){hint}"
        );
        return Some(Refusal { kind: RefusalKind::Token, text });
    }
    if token == OPEN_TOKEN && hello.is_of_node() && hello.token != OPEN_TOKEN {
        return Some(
            "authentication is disabled in this cluster, and a node of it would ask for a token: start the node with \
             RAY_AUTH_MODE=disabled, too"
                .into(),
        );
    }
    misrouted(hello).or_else(|| (hello.role == Role::Unknown).then(|| "unknown role".into()))
}

/// Returns the reason why a connection leads nowhere, whoever makes it, if it does.
#[must_use]
pub fn misrouted(hello: &Hello) -> Option<Refusal> {
    if hello.version != VERSION {
        let text = format!(
            "wire version {} (release {}) cannot speak with version {VERSION} (release {}): install the same \
             release of heliostat on every machine",
            hello.version,
            hello.release,
            env!("CARGO_PKG_VERSION"),
        );
        return Some(Refusal { kind: RefusalKind::Version, text });
    }
    Destination::from_number(hello.to).is_none().then(|| "unknown destination".into())
}

/// The sentence of a listener that encrypts to a connection that does not.
pub const ENCRYPTED_HERE: &str = "connections of this cluster are encrypted: set RAY_USE_TLS=1, RAY_TLS_SERVER_CERT, \
                                  RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT where the connection comes from";
/// The sentence of a listener that does not encrypt to a connection that does.
pub const PLAIN_HERE: &str = "connections of this cluster are not encrypted: unset RAY_USE_TLS where the connection \
                              comes from, or start all nodes with it";

/// Returns the refusal of a connection that comes in the clear and should not (`encrypts`), or the other way round.
#[must_use]
pub fn wrong_transport(encrypts: bool) -> Refusal {
    match encrypts {
        true => Refusal { kind: RefusalKind::Encrypted, text: ENCRYPTED_HERE.to_owned() },
        false => Refusal { kind: RefusalKind::Plain, text: PLAIN_HERE.to_owned() },
    }
}

impl Hello {
    /// Returns the greeting that is sent in the clear before an encrypted session in which this one comes: it names the
    /// destination alone.
    #[must_use]
    pub fn routing(&self) -> Self {
        Self {
            version: VERSION,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            to: self.to,
            to_process: self.to_process,
            to_node: self.to_node,
            is_encrypted: true,
            ..Self::default()
        }
    }

    /// Whether it is for the one that another one was routed to.
    #[must_use]
    pub fn goes_where(&self, routed: &Self) -> bool {
        (self.to, self.to_process, self.to_node) == (routed.to, routed.to_process, routed.to_node)
    }

    /// Whether it is that of a node, or of one that is about to join.
    fn is_of_node(&self) -> bool {
        self.role == Role::Node || (self.role == Role::Observer && !self.host.is_empty())
    }
}

/// Whether somebody who shows `given` is let in by one whose token is `own`.
#[must_use]
pub fn is_right(given: &[u8], own: &str) -> bool {
    own == OPEN_TOKEN || same(given, own.as_bytes())
}

/// Compares in a time that does not tell the length of the equal part.
#[must_use]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (x, y)| diff | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_token_or_version_is_refused_with_what_to_do() {
        let hello =
            Hello { version: VERSION, token: "t".into(), role: Role::Driver, ..Hello::default() };
        assert_eq!(refusal(&hello, "t"), None);
        let check = |hello: &Hello, kind, part: &str| {
            let refused = refusal(hello, "t").expect("it is refused");
            assert_eq!(refused.kind, kind);
            assert!(refused.text.contains(part), "{}", refused.text);
        };
        check(&Hello { token: "x".into(), ..hello.clone() }, RefusalKind::Token, "auth_token");
        let stranger = Hello { role: Role::Unknown, ..hello.clone() };
        check(&stranger, RefusalKind::Other, "unknown role");
        let old = Hello { version: 9, ..hello.clone() };
        check(&old, RefusalKind::Version, "install the same release");
        check(&Hello { to: 99, ..hello }, RefusalKind::Other, "unknown destination");
        let both = [true, false].map(|encrypts| wrong_transport(encrypts).kind);
        assert_eq!(both, [RefusalKind::Encrypted, RefusalKind::Plain]);
    }

    /// AUTH-1: a cluster without a token is entered by all but nodes that would ask for one.
    #[test]
    fn a_cluster_that_asks_for_no_token_says_so_to_nodes_that_do() {
        let check = |role, host: &str, token: &str, expect: Option<&str>| {
            let (token, host) = (token.into(), host.into());
            let hello = Hello { version: VERSION, token, role, host, ..Hello::default() };
            let refused = refusal(&hello, OPEN_TOKEN);
            match expect {
                None => assert_eq!(refused, None),
                Some(part) => assert!(refused.is_some_and(|refused| refused.text.contains(part))),
            }
        };
        for token in ["", "t", OPEN_TOKEN] {
            check(Role::Driver, "here", token, None);
            check(Role::Observer, "", token, None);
        }
        check(Role::Node, "", OPEN_TOKEN, None);
        check(Role::Node, "", "t", Some("RAY_AUTH_MODE=disabled"));
        check(Role::Observer, "joins", "t", Some("RAY_AUTH_MODE=disabled"));
        let open = Hello { token: OPEN_TOKEN.into(), role: Role::Driver, ..Hello::default() };
        let refused = refusal(&open, "t");
        assert!(
            refused
                .is_some_and(|refused| refused.text.contains("leave RAY_AUTH_MODE=disabled out")),
            "AUTH-1"
        );
    }

    #[test]
    fn a_role_of_a_newer_release_does_not_hide_that_its_version_is_another() {
        let hello = Hello { version: 9, token: "t".into(), ..Hello::default() };
        let mut bytes = crate::encode(&hello);
        bytes.extend_from_slice(&[4 << 3, 77]);
        let read = crate::decode::<Hello>(&bytes).expect("a greeting is read whatever its role");
        assert_eq!(read.role, Role::Unknown);
        let refused = refusal(&read, "t").expect("it is refused");
        assert_eq!(refused.kind, RefusalKind::Version, "WIRE-1");
    }

    #[test]
    fn every_kind_of_refusal_crosses_the_wire_with_its_text() {
        let mut names = std::collections::BTreeSet::new();
        for kind in RefusalKind::ALL {
            let refusal = Refusal { kind, text: "a reason".into() };
            let bytes = crate::encode(&Welcome::refusing(refusal.clone()));
            let read = crate::decode::<Welcome>(&bytes).expect("a welcome is read");
            assert_eq!(read.version, VERSION);
            assert_eq!(read.accepted(), Err(refusal));
            assert!(names.insert(kind.name()), "two kinds are called {}", kind.name());
        }
        let accepted = Welcome { version: VERSION, ..Welcome::default() };
        assert_eq!(accepted.clone().accepted(), Ok(accepted));
    }

    #[test]
    fn a_refusal_of_another_release_is_of_no_known_kind() {
        // An older one does not say the kind, a newer one may say another.
        let old = Welcome { refused: "a reason".into(), ..Welcome::default() };
        let mut newer = crate::encode(&old);
        newer.extend_from_slice(&[7 << 3, 77]);
        for bytes in [crate::encode(&old), newer] {
            let read = crate::decode::<Welcome>(&bytes).expect("a welcome is read, WIRE-1");
            assert_eq!(read.accepted(), Err("a reason".into()));
        }
    }

    #[test]
    fn unknown_fields_are_skipped_and_missing_ones_default() {
        let hello = Hello { token: "t".into(), pid: 7, ..Hello::default() };
        let mut bytes = crate::encode(&hello);
        bytes.extend_from_slice(&[0xf8, 0x3f, 5]); // field 1023, a varint
        assert_eq!(crate::decode::<Hello>(&bytes).ok(), Some(hello), "WIRE-1");
    }
}
