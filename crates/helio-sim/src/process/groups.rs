//! Operations on placement groups.

use helio_owner_state::Event;
use helio_proto::control::ControlRequest;
use helio_proto::group::{AwaitGroup, Bundle, GroupSpec, RemoveGroup};
use helio_types::{PlacementGroupId, ResourceSet};

use super::user::{Frame, Held, Step};
use super::{Asked, Process};
use crate::core::Core;
use crate::program::{GroupWish, Slot};
use crate::rng::hash;
use crate::value::{Expect, Val};

impl Process {
    pub(super) fn make_group(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        wish: &GroupWish,
    ) -> Step {
        let mut group_id = PlacementGroupId::default();
        group_id.0[..8].copy_from_slice(&self.unique().to_le_bytes());
        group_id.0[14..].copy_from_slice(&self.job.job_id.0);
        let bundle = |amount: &u32| Bundle {
            resources: ResourceSet::from_units([(wish.resource, f64::from(*amount))]),
            labels: Vec::new(),
        };
        let spec = GroupSpec {
            group_id,
            job_id: self.job.job_id,
            strategy: wish.strategy as u32,
            detached: wish.detached,
            bundles: wish.bundles.iter().map(bundle).collect(),
            ..GroupSpec::default()
        };
        core.facts.count("groups");
        if wish.detached {
            core.facts.groups_left.insert(group_id);
        }
        core.note(|| format!("p{} makes group {group_id} {wish:?}", self.pid));
        self.ask(core, ControlRequest::CreateGroup(spec), Asked::Nobody);
        frame.slots.insert(wish.to, Held::Group { id: group_id });

        let value = Val { hash: hash([u64::from(wish.ready)]), inner: Vec::new() };
        let expect = Expect { hash: value.hash, raises: false };
        let id = self.new_put_id();
        self.apply(core, Event::Expect { id });
        let request = ControlRequest::AwaitGroup(AwaitGroup { group_id });
        self.ask(core, request, Asked::Promise(id, value.encode(false)));
        frame.slots.insert(wish.ready, Held::Ref { id, expect });
        Step::Next
    }

    pub(super) fn remove_group(&mut self, core: &mut Core, frame: &Frame, slot: Slot) -> Step {
        if let Some(Held::Group { id }) = frame.slots.get(&slot) {
            let group_id = *id;
            core.facts.groups_removed += 1;
            self.ask(core, ControlRequest::RemoveGroup(RemoveGroup { group_id }), Asked::Nobody);
        }
        Step::Next
    }

    pub(super) fn remove_group_by_id(
        &mut self,
        core: &mut Core,
        group_id: PlacementGroupId,
    ) -> Step {
        core.facts.groups_removed += 1;
        self.ask(core, ControlRequest::RemoveGroup(RemoveGroup { group_id }), Asked::Nobody);
        Step::Next
    }
}
