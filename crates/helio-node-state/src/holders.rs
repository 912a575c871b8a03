//! **WHY-1** Who holds what others wait for, by the names that users gave.

use std::collections::BTreeMap;

use helio_scheduler::taken;
use helio_types::{ResourceSet, WorkerId};

use crate::Node;
use crate::bundles::Stage;
use crate::clients::Kind;
use crate::pool::Worker;

/// How many holders are named.
const NAMED_MAX: usize = 4;

impl Node {
    /// The end of a sentence that says what is missing here: who has it. Empty when this node could not
    /// hold the request, or has all of it free.
    pub(crate) fn holders(&self, need: &ResourceSet) -> String {
        let (total, available) = self.cluster.own();
        if !total.covers(need) {
            return String::new();
        }
        let short = need.iter().find(|(name, quantity)| available.get(name) < *quantity);
        let Some((short, _)) = short else { return String::new() };
        let pid = |id: WorkerId| self.pool.workers.get(&id).map_or(0, Worker::pid);
        let actors = self.actors.holders(short).map(|(name, class, worker)| {
            let name = if name.is_empty() { String::new() } else { format!(" {name:?}") };
            let pid = worker.map_or_else(String::new, |id| format!(" (pid {})", pid(id)));
            format!("actor {class}{name}{pid}")
        });
        let lent = self.lent(short).into_iter().map(|(n, lessee)| {
            let workers = if n == 1 { "1 worker".to_owned() } else { format!("{n} workers") };
            match lessee {
                Some((pid, true)) => format!("{workers} with calls of the driver (pid {pid})"),
                Some((pid, false)) => format!("{workers} with calls of pid {pid}"),
                None => format!("{workers} about to end"),
            }
        });
        let bundles = self.bundles.all.iter().filter(|(_, bundle)| {
            bundle.stage != Stage::Ends && bundle.assigned.resources.get(short).0 > 0
        });
        let bundles = bundles.map(|((group_id, number), _)| {
            format!("bundle {number} of placement group {group_id}")
        });
        let mut others = actors.chain(lent).chain(bundles);
        let mut all: Vec<String> = others.by_ref().take(NAMED_MAX).collect();
        match others.count() {
            0 if all.is_empty() => return String::new(),
            0 => {}
            more => all.push(format!("{more} more")),
        }
        let here = match self.cluster.size() {
            0 | 1 => String::new(),
            _ => format!("on node {} ", self.ctx.setup().address.host),
        };
        let name = helio_scheduler::plain_name(short);
        format!("; {here}{name} is held by {}", all.join(", "))
    }

    /// The leases that take some of the resource: how many, and by whose pid, and whether it is a driver.
    fn lent(&self, resource: &str) -> Vec<(usize, Option<(u32, bool)>)> {
        let mut lent: BTreeMap<Option<(u32, bool)>, usize> = BTreeMap::new();
        for lease in self.leases.values() {
            let takes = taken(&lease.assigned.resources, lease.strategy());
            let worker = lease.worker.and_then(|id| self.pool.workers.get(&id));
            let is_blocked = resource == "CPU" && worker.is_some_and(|worker| worker.is_blocked);
            if takes.get(resource).0 > 0 && !is_blocked {
                let lessee = lease.lessee.and_then(|conn| self.clients.get(conn));
                let lessee = lessee.map(|client| (client.pid(), client.kind() == Kind::Driver));
                *lent.entry(lessee).or_default() += 1;
            }
        }
        lent.into_iter().map(|(lessee, n)| (n, lessee)).collect()
    }
}

/// The end of a sentence about a process that is being started: what is made for it before.
pub(crate) fn with_env(runtime_env: &str) -> String {
    let fields = ["pip", "uv", "conda", "working_dir", "py_modules", "image_uri"];
    let has = |field: &&&str| runtime_env.contains(&format!("\"{field}\":"));
    let made: Vec<&str> = fields.iter().filter(has).copied().collect();
    match made.as_slice() {
        [] => String::new(),
        made => format!(", for which its runtime_env is made first ({})", made.join(", ")),
    }
}
