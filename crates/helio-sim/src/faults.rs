//! Breaking things.

use helio_node_state::Exit;

use crate::core::Event;
use crate::net::{End, Kind};
use crate::plan::Fault;
use crate::world::World;

impl World {
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.core.note(|| format!("FAULT {fault:?}"));
        match fault {
            Fault::Worker => self.kill_some(false),
            Fault::Driver => self.kill_some(true),
            Fault::Node => {
                let alive: Vec<usize> =
                    (1..self.nodes.len()).filter(|node| self.nodes[*node].is_some()).collect();
                if let Some(node) = self.core.rng.pick(&alive).copied() {
                    self.core.facts.count("faults: node");
                    self.kill_node(node);
                }
            }
            Fault::Control { away_us } => self.restart_control(away_us),
            Fault::Peer => self.cut_some(Kind::Peer),
            Fault::Remote => self.cut_some(Kind::Remote),
            Fault::Daemon => self.cut_some(Kind::Daemon),
            Fault::ControlLink => self.cut_some(Kind::Control),
        }
    }

    fn kill_some(&mut self, is_driver: bool) {
        let alive: Vec<usize> = self
            .processes
            .iter()
            .filter(|process| process.is_alive && process.is_driver == is_driver)
            .map(|process| process.pid)
            .collect();
        let Some(pid) = self.core.rng.pick(&alive).copied() else { return };
        let facts = &mut self.core.facts;
        if is_driver {
            facts.count("faults: driver");
            facts.drivers_killed += 1;
        } else {
            facts.count("faults: worker");
            facts.workers_killed += 1;
        }
        self.end_process(pid, Exit::Signal(9));
    }

    fn restart_control(&mut self, away_us: u64) {
        let Some(control) = self.control.take() else { return };
        self.core.facts.count("faults: control");
        self.core.facts.control_restarts += 1;
        self.core.control = None;
        self.core.close_all(End::Control(control.life));
        self.core.after(away_us, Event::ControlStart);
    }

    /// Breaks a connection of that kind; between processes only one that leaves its node.
    fn cut_some(&mut self, kind: Kind) {
        let people = &self.core.people;
        let found = self.core.net.find(|link| {
            let is_local = match link.ends {
                [End::Process(a), End::Process(b)] => people[a].node == people[b].node,
                _ => false,
            };
            link.kind == kind && !is_local
        });
        let Some(link) = self.core.rng.pick(&found).copied() else { return };
        let facts = &mut self.core.facts;
        match kind {
            Kind::Local | Kind::Remote | Kind::Peer => {
                facts.count("faults: link of a process");
                facts.links_cut += 1;
            }
            Kind::Control | Kind::Daemon => {
                facts.count("faults: link of a daemon");
                facts.daemon_links_cut += 1;
            }
        }
        self.core.note(|| format!("link {link} is cut"));
        self.core.cut(link);
    }
}
