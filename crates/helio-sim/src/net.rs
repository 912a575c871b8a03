//! The network: links between processes that carry bytes in order, late, until they break.
//!
//! A link is what a TCP or UNIX connection is: each direction is first-in first-out, each message takes
//! a random time. When a process ends, what it had written still arrives, then the end of the stream.
//! When a link *breaks*, each direction loses what had not arrived by a random moment, and each side
//! learns of the break at a moment of its own.

use std::collections::BTreeMap;

use crate::rng::Rng;

/// The holder of an end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    /// The control service, by the number of its life.
    Control(u32),
    /// A daemon, by number.
    Node(usize),
    /// A driver or worker, by number.
    Process(usize),
}

impl End {
    /// The daemon, if it is one.
    #[must_use]
    pub fn node(self) -> Option<usize> {
        if let Self::Node(node) = self { Some(node) } else { None }
    }
}

/// The kind of the two ends of a link. The connector is side 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A process to its own daemon; it never breaks while both live.
    Local,
    /// A process to another node's daemon, for leases.
    Remote,
    /// Between drivers and workers; breaks only between nodes.
    Peer,
    /// A daemon to the control service.
    Control,
    /// Between daemons.
    Daemon,
}

/// An event at the end of a link.
#[derive(Clone, Debug)]
pub enum What {
    /// A connection was opened.
    Opened,
    /// A message.
    Bytes(Vec<u8>),
    /// The other side is gone, or the line is.
    Closed,
}

/// A simulated connection between two processes.
#[derive(Debug)]
pub struct Link {
    /// The kind of the two ends.
    pub kind: Kind,
    /// The connector, and who was connected to.
    pub ends: [End; 2],
    /// The epoch in the connector's greeting.
    pub epoch: u32,
    /// The time at which the last message to each side arrives.
    last: [u64; 2],
    /// After this moment nothing more arrives at that side.
    cut: [Option<u64>; 2],
    /// Whether each side has closed, or was told.
    done: [bool; 2],
}

impl Link {
    /// The line broke: what was on it is lost.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut[0].is_some()
    }
}

/// All links. Deliveries are handed back to the caller, who has the queue of events.
#[derive(Debug, Default)]
pub struct Net {
    links: BTreeMap<u64, Link>,
    count: u64,
    /// The longest that a message takes, in microseconds.
    delay_us_max: u64,
}

/// The arrival of a message at `side` of `link`, at a moment.
#[derive(Debug)]
pub struct Arrival {
    /// The moment, in simulated microseconds.
    pub at: u64,
    /// The number of the link.
    pub link: u64,
    /// The side of the link.
    pub side: usize,
    /// A connection, a message or an end.
    pub what: What,
}

impl Net {
    /// No links; messages take at most so long, in microseconds.
    #[must_use]
    pub fn new(delay_us_max: u64) -> Self {
        Self { delay_us_max, ..Self::default() }
    }

    /// A link's record.
    #[must_use]
    pub fn get(&self, link: u64) -> Option<&Link> {
        self.links.get(&link)
    }

    /// The whole links that satisfy `wanted`.
    pub fn find(&self, wanted: impl Fn(&Link) -> bool) -> Vec<u64> {
        let is_whole = |link: &Link| link.cut[0].is_none() && link.done != [true, true];
        self.links
            .iter()
            .filter(|(_, link)| is_whole(link) && wanted(link))
            .map(|(number, _)| *number)
            .collect()
    }

    /// Connects; numbers are never used twice.
    pub fn connect(
        &mut self,
        kind: Kind,
        from: End,
        to: End,
        now: u64,
        rng: &mut Rng,
    ) -> (u64, Arrival) {
        self.count += 1;
        let number = self.count;
        let link = Link {
            kind,
            ends: [from, to],
            epoch: 0,
            last: [now; 2],
            cut: [None; 2],
            done: [false; 2],
        };
        self.links.insert(number, link);
        let arrival =
            self.queue(number, 1, What::Opened, now, rng).expect("the link is new and whole");
        (number, arrival)
    }

    /// The connector's greeting, which arrives with the connection.
    pub fn greet(&mut self, link: u64, epoch: u32) {
        if let Some(link) = self.links.get_mut(&link) {
            link.epoch = epoch;
        }
    }

    fn queue(
        &mut self,
        number: u64,
        side: usize,
        what: What,
        now: u64,
        rng: &mut Rng,
    ) -> Option<Arrival> {
        let max = self.delay_us_max;
        let link = self.links.get_mut(&number)?;
        // Most messages are quick; a few take their time, as on a busy machine.
        let delay = if rng.one_in(8) { rng.range(1, max) } else { rng.range(1, 1 + max / 8) };
        // A stream keeps its order, however long each piece takes.
        let at = (now + delay).max(link.last[side] + 1);
        link.last[side] = at;
        Some(Arrival { at, link: number, side, what })
    }

    /// The side of `end` on a link.
    #[must_use]
    pub fn side(&self, number: u64, end: End) -> usize {
        usize::from(
            self.links.get(&number).is_some_and(|link| link.ends[1] == end && link.ends[0] != end),
        )
    }

    /// Sends from `end`; nothing comes of it when the link is over.
    pub fn send(
        &mut self,
        number: u64,
        end: End,
        bytes: Vec<u8>,
        now: u64,
        rng: &mut Rng,
    ) -> Option<Arrival> {
        let side = self.side(number, end);
        let link = self.links.get(&number)?;
        if link.done[side] || link.cut[0].is_some() {
            return None;
        }
        self.queue(number, 1 - side, What::Bytes(bytes), now, rng)
    }

    /// `end` closes; the other side reads what was sent and then learns of it.
    pub fn close(&mut self, number: u64, end: End, now: u64, rng: &mut Rng) -> Option<Arrival> {
        let side = self.side(number, end);
        let link = self.links.get_mut(&number)?;
        // A side that was told of the end, or whose line is cut, has nobody to tell.
        if std::mem::replace(&mut link.done[side], true)
            || link.done[1 - side]
            || link.cut[0].is_some()
        {
            return None;
        }
        self.queue(number, 1 - side, What::Closed, now, rng)
    }

    /// Breaks a connection whose two ends both live.
    pub fn cut(&mut self, number: u64, now: u64, rng: &mut Rng) -> Vec<Arrival> {
        let max = self.delay_us_max;
        let Some(link) = self.links.get_mut(&number) else { return Vec::new() };
        // What a closed end had sent still arrives: its kernel goes on without it.
        if link.cut[0].is_some() || link.done.contains(&true) {
            return Vec::new();
        }
        let mut arrivals = Vec::new();
        for side in 0..2 {
            let at = now + rng.range(1, max);
            link.cut[side] = Some(at);
            // The news itself may take much longer than the loss.
            let told = at + if rng.one_in(3) { rng.range(1, 400_000) } else { rng.range(1, max) };
            arrivals.push(Arrival { at: told, link: number, side, what: What::Closed });
        }
        arrivals
    }

    /// Whether an arrival reaches its side; keeps the books.
    pub fn arrives(&mut self, number: u64, side: usize, what: &What, now: u64) -> bool {
        let Some(link) = self.links.get_mut(&number) else { return false };
        if link.done[side] {
            return false;
        }
        match what {
            What::Closed => {
                link.done[side] = true;
                true
            }
            What::Opened | What::Bytes(_) => link.cut[side].is_none_or(|cut| now <= cut),
        }
    }
}
