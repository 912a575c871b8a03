//! Operations on placement groups.

use helio_process_state::Event;
use helio_proto::control::ControlRequest;
use helio_proto::group::{AwaitGroup, Bundle, GroupSpec, RemoveGroup};
use helio_types::{PlacementGroupId, ResourceSet};

use super::Process;
use super::frames::{Frame, Held, Step};
use crate::core::Core;
use crate::evidence::GroupPromise;
use crate::node::GPU;
use crate::ops::{GroupOp, ROOM, Slot};
use crate::rng::hash;
use crate::value::{Expect, Val};

impl Process {
    pub(super) fn make_group(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        group_op: &GroupOp,
    ) -> Step {
        let Some(machine) = &mut self.machine else { return Step::Next };
        let job_id = machine.job().job_id;
        let mut group_id = PlacementGroupId::default();
        group_id.0[..8].copy_from_slice(&machine.unique().to_le_bytes());
        group_id.0[14..].copy_from_slice(&job_id.0);
        let bundle = |amount: &u32| Bundle {
            resources: ResourceSet::from_units([
                (group_op.resource, f64::from(*amount)),
                (GPU, f64::from(group_op.gpu) / 100.0),
            ]),
            labels: Vec::new(),
        };
        let spec = GroupSpec {
            group_id,
            job_id,
            strategy: group_op.strategy,
            detached: group_op.detached,
            bundles: group_op.bundles.iter().map(bundle).collect(),
            ..GroupSpec::default()
        };
        core.facts.count("groups");
        if group_op.detached {
            core.facts.groups_left.insert(group_id);
        }
        core.facts.history.group_made(group_id, self.id, group_op.detached);
        let promise = GroupPromise {
            strategy: group_op.strategy,
            bundles: group_op.bundles.clone(),
            is_everywhere: group_op.resource == ROOM && group_op.gpu == 0,
        };
        core.facts.groups.insert(group_id, promise);
        core.note(|| format!("p{} makes group {group_id} {group_op:?}", self.pid));
        self.apply(core, Event::Tell(Box::new(ControlRequest::CreateGroup(spec))));
        frame.slots.insert(group_op.to, Held::Group { id: group_id });

        let value = Val { hash: hash([u64::from(group_op.ready)]), inner: Vec::new() };
        let expect = Expect { hash: value.hash, raises: false };
        let id = self.new_put(core);
        let message = ControlRequest::AwaitGroup(AwaitGroup { group_id });
        let value = value.encode(false);
        core.facts.history.ready_with(id, group_id);
        self.apply(core, Event::Promise { object: id, message: Box::new(message), value });
        frame.slots.insert(group_op.ready, Held::Ref { id, expect });
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
