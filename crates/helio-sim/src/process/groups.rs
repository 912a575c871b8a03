//! Operations on placement groups.

use helio_process_state::Event;
use helio_proto::control::ControlRequest;
use helio_proto::group::{AwaitGroup, Bundle, GroupSpec, RemoveGroup};
use helio_types::{PlacementGroupId, ResourceSet};

use super::Process;
use super::user::{Frame, Held, Step};
use crate::bundles::ROOM;
use crate::core::Core;
use crate::evidence::GroupPromise;
use crate::node::GPU;
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
        let Some(machine) = &mut self.machine else { return Step::Next };
        let job_id = machine.job().job_id;
        let mut group_id = PlacementGroupId::default();
        group_id.0[..8].copy_from_slice(&machine.unique().to_le_bytes());
        group_id.0[14..].copy_from_slice(&job_id.0);
        let bundle = |amount: &u32| Bundle {
            resources: ResourceSet::from_units([
                (wish.resource, f64::from(*amount)),
                (GPU, f64::from(wish.gpu) / 100.0),
            ]),
            labels: Vec::new(),
        };
        let spec = GroupSpec {
            group_id,
            job_id,
            strategy: wish.strategy,
            detached: wish.detached,
            bundles: wish.bundles.iter().map(bundle).collect(),
            ..GroupSpec::default()
        };
        core.facts.count("groups");
        if wish.detached {
            core.facts.groups_left.insert(group_id);
        }
        core.facts.history.group_made(group_id, self.id, wish.detached);
        let promise = GroupPromise {
            strategy: wish.strategy,
            bundles: wish.bundles.clone(),
            is_everywhere: wish.resource == ROOM && wish.gpu == 0,
        };
        core.facts.groups.insert(group_id, promise);
        core.note(|| format!("p{} makes group {group_id} {wish:?}", self.pid));
        self.apply(core, Event::Tell(Box::new(ControlRequest::CreateGroup(spec))));
        frame.slots.insert(wish.to, Held::Group { id: group_id });

        let value = Val { hash: hash([u64::from(wish.ready)]), inner: Vec::new() };
        let expect = Expect { hash: value.hash, raises: false };
        let id = self.new_put(core);
        let message = ControlRequest::AwaitGroup(AwaitGroup { group_id });
        let value = value.encode(false);
        core.facts.history.ready_with(id, group_id);
        self.apply(core, Event::Promise { object: id, message: Box::new(message), value });
        frame.slots.insert(wish.ready, Held::Ref { id, expect });
        Step::Next
    }

    pub(super) fn remove_group(&mut self, core: &mut Core, frame: &Frame, slot: Slot) -> Step {
        if let Some(Held::Group { id }) = frame.slots.get(&slot) {
            let group_id = *id;
            core.facts.history.group_removed(group_id);
            let remove = ControlRequest::RemoveGroup(RemoveGroup { group_id });
            self.apply(core, Event::Tell(Box::new(remove)));
        }
        Step::Next
    }

    pub(super) fn remove_group_by_id(
        &mut self,
        core: &mut Core,
        group_id: PlacementGroupId,
    ) -> Step {
        core.facts.history.group_removed(group_id);
        let remove = ControlRequest::RemoveGroup(RemoveGroup { group_id });
        self.apply(core, Event::Tell(Box::new(remove)));
        Step::Next
    }
}
