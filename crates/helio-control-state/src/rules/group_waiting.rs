//! Answers to the requests and nodes that wait for a placement group.

use std::collections::BTreeMap;

use helio_proto::control::Empty;
use helio_proto::group::{AskGroup, GroupNews};
use helio_scheduler::why_group;
use helio_types::{NodeId, PlacementGroupId, mutant};

use super::Control;
use crate::durable;
use crate::event::Requester;
use crate::groups::gone;

impl Control {
    pub(crate) fn on_await_group(&mut self, requester: Requester, group_id: PlacementGroupId) {
        match self.groups.get(group_id).map(|group| group.is_placed()) {
            None => self.out.reply(requester, gone(group_id)),
            Some(true) => self.out.reply(requester, Empty {}),
            Some(false) if mutant!("group-ready-before-it-is-placed") => {
                self.out.reply(requester, Empty {});
            }
            Some(false) => self.groups.add_waiter(group_id, requester),
        }
    }

    pub(crate) fn on_ask_group(&mut self, node_id: NodeId, ask: &AskGroup) {
        let group_id = ask.group_id;
        let Some(group) = self.groups.get_mut(group_id) else {
            let removed = GroupNews { group_id, removed: true, why: String::new() };
            return self.out.send(node_id, removed);
        };
        if group.is_placed() {
            return self.tell_places(node_id, group_id);
        }
        group.add_asker(node_id);
        let why = group.why().to_owned();
        self.out.send(node_id, GroupNews { group_id, removed: false, why });
    }

    /// Tells a node which nodes hold the group's bundles, without waiting for the next publication.
    fn tell_places(&mut self, to: NodeId, group_id: PlacementGroupId) {
        let Some(group) = self.groups.get(group_id) else { return };
        let view = self.nodes.show(to, &group.nodes());
        self.out.send(to, view);
        self.out.send(to, GroupNews { group_id, removed: false, why: String::new() });
    }

    /// All bundles are held: what waited for that goes on.
    pub(crate) fn group_is_placed(&mut self, group_id: PlacementGroupId) {
        let (waiters, askers) = self.groups.mark_placed(group_id, self.now_ms());
        for requester in waiters {
            self.out.reply(requester, Empty {});
        }
        for node_id in askers {
            self.tell_places(node_id, group_id);
        }
    }

    /// The places become durable before anything that is sent from now on.
    pub(crate) fn persist_places(&mut self, group_id: PlacementGroupId) {
        if let Some(group) = self.groups.get(group_id) {
            self.out.persist(durable::places(group_id, group.places()));
        }
    }

    /// The node that holds the bundles tells so when it registers: no send rests on this.
    pub(crate) fn persist_places_later(&mut self, group_id: PlacementGroupId) {
        if let Some(group) = self.groups.get(group_id) {
            self.out.persist_later(durable::places(group_id, group.places()));
        }
    }

    fn why_group_waits(&self, group_id: PlacementGroupId) -> (String, bool) {
        let Some(group) = self.groups.get(group_id) else { return Default::default() };
        group.with_wanted(|wanted| why_group(self.nodes.views(), wanted))
    }

    /// Works out what the group waits for, and tells nobody yet.
    pub(crate) fn set_why_group_waits(&mut self, group_id: PlacementGroupId) {
        let (why, is_hopeless) = self.why_group_waits(group_id);
        if let Some(group) = self.groups.get_mut(group_id) {
            group.set_why(&why, is_hopeless);
        }
    }

    /// **WHY-1** Works out anew what the groups wait for, and tells the nodes that asked. A driver is
    /// warned once of a group that no node could ever hold.
    pub(crate) fn explain_groups(&mut self) {
        let mut said: BTreeMap<Vec<u8>, (String, bool)> = BTreeMap::new();
        for group_id in self.groups.waiting() {
            let Some(shape) = self.groups.shape_of(group_id).cloned() else { continue };
            let (why, is_hopeless) = match said.get(&shape) {
                Some(said) => said.clone(),
                None => self.why_group_waits(group_id),
            };
            self.explain_group(group_id, &why, is_hopeless);
            said.insert(shape, (why, is_hopeless));
        }
    }

    fn explain_group(&mut self, group_id: PlacementGroupId, why: &str, is_hopeless: bool) {
        let is_recovering = self.is_recovering();
        let Some(group) = self.groups.get_mut(group_id) else { return };
        let askers = group.explain(why, is_hopeless);
        // While the service recovers, nodes that could hold it may only be late.
        let warns = !is_recovering && group.warn_once();
        let job_id = group.spec().job_id;
        for node_id in askers {
            self.out.send(node_id, GroupNews { group_id, removed: false, why: why.to_owned() });
        }
        if warns {
            let text = format!(
                "The placement group {group_id} cannot be placed: {why}. It waits until a node joins that can \
                 hold it."
            );
            self.warn_driver(job_id, text);
        }
    }
}
