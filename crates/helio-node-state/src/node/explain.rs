//! **WHY-1** What requests, actors, objects and arguments wait for, by the names that users gave.

use std::collections::BTreeMap;

use helio_proto::environment::RuntimeEnv;
use helio_proto::node::{Why, WhyReply};
use helio_types::{ActorId, ResourceSet};

use super::Node;
use crate::actors::Progress;
use crate::clients::Kind;
use crate::event::{Action, Conn};

/// Number of holders of a resource that an explanation names.
const NAMED_MAX: usize = 4;

impl Node {
    pub(super) fn on_why(&mut self, conn: Conn, why: &Why) {
        let number = why.arguments_request_id;
        let text = if !why.object_id.is_nil() {
            self.why_object(why.object_id, &why.nodes)
        } else if number != 0 {
            self.arguments.why(conn, number, self.store.size(), |conn| self.clients.pid(conn))
        } else if !why.actor_id.is_nil() {
            self.why_actor(why.actor_id)
        } else {
            self.why_request(conn, why.lease_request_id)
        };
        let reply = WhyReply { request_id: why.request_id, why: text };
        match self.environment_being_made(conn, why) {
            pids if pids.is_empty() => self.ctx.send(conn, reply),
            pids => self.ctx.push(Action::TellMaking { conn, reply, pids }),
        }
    }

    /// The processes that are starting for whom the question is about, and make their environment.
    fn environment_being_made(&self, conn: Conn, why: &Why) -> Vec<u32> {
        let env = if !why.actor_id.is_nil() {
            match self.actors.progress(why.actor_id) {
                Some(Progress::Assigned { runtime_env }) => Some(runtime_env),
                _ => None,
            }
        } else {
            let lease = self.leases.of_request(conn, why.lease_request_id);
            lease.map(|(_, lease)| &lease.class().runtime_env)
        };
        let env = env.filter(|env| env.is_made_first());
        env.map(|env| self.pool.starting_in(env)).unwrap_or_default()
    }

    /// Returns the reason why a request for a worker waits.
    fn why_request(&self, conn: Conn, request_id: u64) -> String {
        if let Some((_, lease)) = self.leases.of_request(conn, request_id) {
            if lease.worker().is_some() {
                return "a worker was found just now".to_owned();
            }
            let (host, class) = (&self.ctx.setup().address.host, lease.class());
            let (name, env) = (&class.name, with_env(&class.runtime_env));
            return format!("node {host} is starting a worker process for {name}{env}");
        }
        let Some((class, takes, position)) = self.leases.waiting(conn, request_id) else {
            return "this node knows no such request".to_owned();
        };
        let mut text = self.why_class(class);
        if self.cluster.may_run_here(&class.strategy) {
            text.push_str(&self.holders(takes));
        }
        if position > 0 {
            text = format!("{text}; {position} requests of its kind come before it");
        }
        text
    }

    /// Returns the stage of an actor that was sent here, as a sentence.
    fn why_actor(&self, actor_id: ActorId) -> String {
        match self.actors.progress(actor_id) {
            Some(Progress::Queued(need)) => {
                format!("{}{}", self.cluster.why_here(&need), self.holders(&need))
            }
            Some(Progress::Assigned { runtime_env }) => {
                format!("its process is being started{}", with_env(runtime_env))
            }
            Some(Progress::Constructing { worker_id, since }) => {
                let pid = self.pool.pid(worker_id);
                let s = self.ctx.now().saturating_sub(since) as f64 / 1000.0;
                format!("its constructor was begun {s:.1} s ago and has not returned (pid {pid})")
            }
            Some(Progress::Alive) | None => String::new(),
        }
    }

    /// The end of a sentence that says what is missing here: who has it. Empty when this node could not
    /// hold the request, or has all of it free.
    fn holders(&self, need: &ResourceSet) -> String {
        let (total, available) = self.cluster.own();
        if !total.covers(need) {
            return String::new();
        }
        let short = need.iter().find(|(name, quantity)| available.get(name) < *quantity);
        let Some((short, _)) = short else { return String::new() };
        let actors = self.actors.holders(short).map(|(name, class, worker)| {
            let name = if name.is_empty() { String::new() } else { format!(" {name:?}") };
            let pid = |id| format!(" (pid {})", self.pool.pid(id));
            format!("actor {class}{name}{}", worker.map_or_else(String::new, pid))
        });
        let lent = self.lent(short).into_iter().map(|(n, lessee)| {
            let workers = if n == 1 { "1 worker".to_owned() } else { format!("{n} workers") };
            match lessee {
                Some((pid, true)) => format!("{workers} with calls of the driver (pid {pid})"),
                Some((pid, false)) => format!("{workers} with calls of pid {pid}"),
                None => format!("{workers} about to end"),
            }
        });
        let bundles = self.bundles.holders(short);
        let bundles =
            bundles.map(|(id, number)| format!("bundle {number} of placement group {id}"));
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
        for (_, lease) in self.leases.iter() {
            let is_blocked =
                resource == "CPU" && lease.worker().is_some_and(|id| self.pool.is_blocked(id));
            if lease.takes().get(resource).0 > 0 && !is_blocked {
                let lessee = lease.lessee().and_then(|conn| self.clients.get(conn));
                let lessee = lessee.map(|client| (client.pid(), client.kind() == Kind::Driver));
                *lent.entry(lessee).or_default() += 1;
            }
        }
        lent.into_iter().map(|(lessee, n)| (n, lessee)).collect()
    }
}

/// The end of a sentence about a process that is being started: what is made for it before.
fn with_env(env: &RuntimeEnv) -> String {
    let made: Vec<&str> = env.steps.iter().map(|step| step.field()).collect();
    match made.as_slice() {
        [] => String::new(),
        made => format!(", for which its runtime_env is made first ({})", made.join(", ")),
    }
}
