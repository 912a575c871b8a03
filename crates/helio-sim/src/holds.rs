//! Events that are kept back: those for something that stands still, and those that would cross a
//! partition. At the end of the hold they are given out in the order in which they came, as a kernel's
//! buffers and TCP would.

use std::collections::VecDeque;

use crate::core::{Core, Event};
use crate::net::End;
use crate::plan::Way;

/// The events that a hold keeps back.
#[derive(Debug)]
pub(crate) enum Scope {
    /// The events for these parts: they are suspended.
    Still(Vec<End>),
    /// All there are: every machine stands still.
    Everything,
    /// The events for the workers of a node that is cut off.
    Workers(usize),
    /// The messages from one group of nodes to another. The head's group is the one of `false`.
    Across { is_apart: Vec<bool>, way: Way },
}

#[derive(Debug)]
struct Hold {
    number: u64,
    scope: Scope,
    events: VecDeque<Event>,
}

/// The holds in force, each with the events that it has kept back.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    holds: Vec<Hold>,
    count: u64,
}

impl Holds {
    /// Keeps back from now on; the number ends the hold.
    pub(crate) fn begin(&mut self, scope: Scope) -> u64 {
        self.count += 1;
        self.holds.push(Hold { number: self.count, scope, events: VecDeque::new() });
        self.count
    }

    /// Ends a hold and hands out what it kept back.
    pub(crate) fn end(&mut self, number: u64) -> VecDeque<Event> {
        let Some(place) = self.holds.iter().position(|hold| hold.number == number) else {
            return VecDeque::new();
        };
        self.holds.remove(place).events
    }

    /// Whether nothing is kept back.
    pub(crate) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// Whether a hold keeps the daemon of that node from the control service, or it from the daemon.
    pub(crate) fn parts(&self, node: usize) -> bool {
        self.holds.iter().any(|hold| match &hold.scope {
            Scope::Still(ends) => ends.contains(&End::Node(node)),
            Scope::Workers(_) => false,
            // Nobody misses anybody while nobody looks.
            Scope::Everything => false,
            Scope::Across { is_apart, .. } => is_apart.get(node).copied().unwrap_or(false),
        })
    }

    /// Keeps the event back where a hold says so; otherwise hands it back.
    pub(crate) fn keep(&mut self, core: &Core, head: usize, event: Event) -> Option<Event> {
        if self.holds.is_empty() {
            return Some(event);
        }
        let keeps = |hold: &&mut Hold| match &hold.scope {
            Scope::Still(ends) => {
                let target = match event {
                    // The control service starts in the process of the head's daemon.
                    Event::ControlStart => Some(End::Node(head)),
                    _ => target(core, &event),
                };
                target.is_some_and(|end| ends.contains(&end))
            }
            Scope::Everything => target(core, &event).is_some(),
            Scope::Workers(node) => target(core, &event).is_some_and(|end| match end {
                End::Process(pid) => core.people[pid].node == *node && !core.people[pid].is_driver,
                End::Control(_) | End::Node(_) => false,
            }),
            Scope::Across { is_apart, way } => {
                let apart = |end| is_apart.get(node_of(core, head, end)).copied().unwrap_or(false);
                match route(core, &event).map(|(from, to)| (apart(from), apart(to))) {
                    Some((false, true)) => *way != Way::In,
                    Some((true, false)) => *way != Way::Out,
                    _ => false,
                }
            }
        };
        match self.holds.iter_mut().find(keeps) {
            Some(hold) => {
                hold.events.push_back(event);
                None
            }
            None => Some(event),
        }
    }
}

/// The node on which a part lives.
pub(crate) fn node_of(core: &Core, head: usize, end: End) -> usize {
    match end {
        End::Control(_) => head,
        End::Node(node) => node,
        End::Process(pid) => core.people[pid].node,
    }
}

/// The part that takes an event.
fn target(core: &Core, event: &Event) -> Option<End> {
    match event {
        Event::Arrive { link, side, .. } => {
            core.net.get(*link).map(|found| found.ends[(*side).min(1)])
        }
        Event::Run { pid }
        | Event::Writable { pid }
        | Event::Reaches { pid, .. }
        | Event::OwnerTick { pid } => Some(End::Process(*pid)),
        Event::NodeTick { node }
        | Event::Reach { node, .. }
        | Event::Spawned { node, .. }
        | Event::Exited { node, .. }
        | Event::Serve { node, .. }
        | Event::ReceiptLost { node, .. }
        | Event::Disk { node, .. }
        | Event::Reserved { node, .. }
        | Event::Loaded { node, .. }
        | Event::Unreached { node, .. } => Some(End::Node(*node)),
        Event::ControlTick { life } => Some(End::Control(*life)),
        // Process starts, signals, faults and the ends of holds are never delayed.
        Event::ControlStart
        | Event::HeadStart
        | Event::NodeStart { .. }
        | Event::Killed { .. }
        | Event::DriverStart { .. }
        | Event::DriverEnd { .. }
        | Event::Fault { .. }
        | Event::Release { .. }
        | Event::DiskHasRoom { .. }
        | Event::DiskMended { .. }
        | Event::HeadDiskHasRoom => None,
    }
}

/// Returns the two ends between which an event crosses the network.
fn route(core: &Core, event: &Event) -> Option<(End, End)> {
    let Event::Arrive { link, side, .. } = event else { return None };
    // A side's own news of its own end crosses nothing.
    (*side <= 1).then_some(())?;
    core.net.get(*link).map(|link| (link.ends[1 - side], link.ends[*side]))
}
