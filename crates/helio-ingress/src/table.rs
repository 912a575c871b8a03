//! The table of routes, deployments and replicas: it chooses the deployment of a path and the replica of a request, and
//! keeps the requests that wait.
//!
//! The number of requests in flight at each replica is exact, as far as they came through here: the replica
//! with the fewest gets the next one ([`Turns`]), nobody gets more than `max_ongoing`, and further requests wait in the
//! order in which they came.
//!
//! **LIMIT-1** So many requests wait for a deployment as its `max_queued` says; the next is refused.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use helio_turns::Turns;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::link::Link;

const GONE: &str = "The deployment is gone.";

/// A path's beginning, and what answers there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) prefix: String,
    pub(crate) app: String,
    pub(crate) deployment: String,
}

/// The route with the longest prefix; `routes` are sorted by that.
pub(crate) fn find<'a>(routes: &'a [Route], path: &str) -> Option<&'a Route> {
    routes.iter().find(|route| {
        let prefix = route.prefix.trim_end_matches('/');
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) id: String,
    pub(crate) link: Rc<Link>,
    ongoing: Cell<u32>,
}

/// The reason why a request gets no replica.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// The line is full: how many wait, and how many may.
    Full { waiting: usize, most: usize, refusal: Refusal },
    /// The deployment is gone, or failed.
    Unavailable(String),
}

/// The answer to a request that is one more than may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// Seconds after which the client may ask again.
    pub(crate) retry_after: Option<u64>,
}

impl Default for Refusal {
    fn default() -> Self {
        Self { status: 503, retry_after: None }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Deployment {
    max_ongoing: Cell<u32>,
    max_queued: Cell<Option<usize>>,
    /// The answer to requests that are refused.
    refusal: Cell<Refusal>,
    /// Whether the number of its replicas follows the counts.
    pub(crate) is_counted: Cell<bool>,
    replicas: RefCell<Vec<Rc<Replica>>>,
    waiting: RefCell<VecDeque<oneshot::Sender<Place>>>,
    turns: Cell<Turns>,
    failure: RefCell<Option<String>>,
}

impl Deployment {
    fn pick(&self) -> Option<Rc<Replica>> {
        let replicas = self.replicas.borrow();
        let mut turns = self.turns.get();
        let found = turns.pick(replicas.len(), self.max_ongoing.get(), |place| {
            let replica = &replicas[place];
            replica.link.is_up().then(|| replica.ongoing.get())
        });
        self.turns.set(turns);
        found.map(|place| Rc::clone(&replicas[place]))
    }

    fn place(self: &Rc<Self>, replica: Rc<Replica>) -> Place {
        replica.ongoing.set(replica.ongoing.get() + 1);
        Place { deployment: Rc::clone(self), replica }
    }

    /// A replica for a request, once there is one.
    pub(crate) async fn acquire(self: &Rc<Self>) -> Result<Place, NoPlace> {
        // Only when nobody waits: a newcomer does not pass those in the queue.
        if self.waiting.borrow().is_empty()
            && let Some(replica) = self.pick()
        {
            return Ok(self.place(replica));
        }
        if let Some(failure) = &*self.failure.borrow() {
            return Err(NoPlace::Unavailable(failure.clone()));
        }
        let waiting = self.queued();
        if let Some(most) = self.max_queued.get()
            && waiting >= most
        {
            return Err(NoPlace::Full { waiting, most, refusal: self.refusal.get() });
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push_back(sender);
        receiver.await.map_err(|_| {
            let failure = self.failure.borrow().clone();
            NoPlace::Unavailable(failure.unwrap_or_else(|| GONE.to_owned()))
        })
    }

    /// Gives the free replicas to the requests that wait.
    pub(crate) fn feed(self: &Rc<Self>) {
        loop {
            self.waiting.borrow_mut().retain(|sender| !sender.is_closed());
            if self.waiting.borrow().is_empty() {
                return;
            }
            let Some(replica) = self.pick() else { return };
            let Some(sender) = self.waiting.borrow_mut().pop_front() else { return };
            // A request that has gone in this moment gives the replica back by dropping it.
            let _ = sender.send(self.place(replica));
        }
    }

    /// Requests that wait for a replica.
    pub(crate) fn queued(&self) -> usize {
        self.waiting.borrow().iter().filter(|sender| !sender.is_closed()).count()
    }

    /// Requests that replicas have.
    pub(crate) fn ongoing(&self) -> u32 {
        self.replicas.borrow().iter().map(|replica| replica.ongoing.get()).sum()
    }

    /// Takes what the controller says; replicas that stay keep their connection and their count.
    fn update(self: &Rc<Self>, said: &Value, token: &Rc<str>) {
        let number = |name: &str| said[name].as_u64();
        self.max_ongoing.set(
            number("max_ongoing").and_then(|count| u32::try_from(count).ok()).unwrap_or(u32::MAX),
        );
        self.max_queued.set(number("max_queued").and_then(|count| usize::try_from(count).ok()));
        let refusal = &said["backpressure"];
        self.refusal.set(Refusal {
            status: refusal["status"].as_u64().and_then(|code| code.try_into().ok()).unwrap_or(503),
            retry_after: refusal["retry_after"].as_u64(),
        });
        self.is_counted.set(said["counted"].as_bool().unwrap_or(false));
        *self.failure.borrow_mut() = said["failure"].as_str().map(str::to_owned);
        let before = std::mem::take(&mut *self.replicas.borrow_mut());
        let mut before: HashMap<String, Rc<Replica>> =
            before.into_iter().map(|replica| (replica.id.clone(), replica)).collect();
        let mut after = Vec::new();
        for row in said["replicas"].as_array().into_iter().flatten() {
            let (Some(id), Some(address)) = (row["id"].as_str(), row["address"].as_str()) else {
                continue;
            };
            // A replica that was moved has the same name and another process.
            if before.get(id).is_some_and(|replica| replica.link.address() == address) {
                after.extend(before.remove(id));
                continue;
            }
            let deployment = Rc::downgrade(self);
            let on_up = move || {
                if let Some(deployment) = deployment.upgrade() {
                    deployment.feed();
                }
            };
            let link = Link::open(address, Rc::clone(token), on_up);
            after.push(Rc::new(Replica { id: id.to_owned(), link, ongoing: Cell::new(0) }));
        }
        *self.replicas.borrow_mut() = after;
        for replica in before.into_values() {
            replica.link.retire();
        }
        // Those that wait hear the reason by that: their senders are dropped.
        if self.failure.borrow().is_some() {
            self.waiting.borrow_mut().clear();
        }
        self.feed();
    }

    fn end(&self) {
        // A request that loses its replica from now on gets no other.
        *self.failure.borrow_mut() = Some(GONE.to_owned());
        for replica in self.replicas.borrow_mut().drain(..) {
            replica.link.retire();
        }
        self.waiting.borrow_mut().clear();
    }
}

/// A request's place at a replica; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    deployment: Rc<Deployment>,
    pub(crate) replica: Rc<Replica>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.replica.ongoing.set(self.replica.ongoing.get() - 1);
        self.deployment.feed();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    routes: RefCell<Rc<[Route]>>,
    deployments: RefCell<HashMap<String, Rc<Deployment>>>,
}

impl Table {
    pub(crate) fn routes(&self) -> Rc<[Route]> {
        Rc::clone(&self.routes.borrow())
    }

    pub(crate) fn deployment(&self, key: &str) -> Option<Rc<Deployment>> {
        self.deployments.borrow().get(key).map(Rc::clone)
    }

    /// Whether a replica can be reached.
    pub(crate) fn is_any_up(&self) -> bool {
        let is_up = |one: &Rc<Deployment>| one.replicas.borrow().iter().any(|r| r.link.is_up());
        self.deployments.borrow().values().any(is_up)
    }

    /// Ongoing and waiting requests of each deployment.
    pub(crate) fn counts(&self) -> Vec<(String, u32, usize)> {
        let deployments = self.deployments.borrow();
        deployments.iter().map(|(key, one)| (key.clone(), one.ongoing(), one.queued())).collect()
    }

    /// Whether there are deployments whose requests can be counted, and whether one of them is scaled by these
    /// counts.
    pub(crate) fn wants_counts(&self) -> (bool, bool) {
        let deployments = self.deployments.borrow();
        let is_scaled = deployments.values().any(|deployment| deployment.is_counted.get());
        (!deployments.is_empty(), is_scaled)
    }

    /// Takes the table that the controller sent.
    pub(crate) fn update(&self, said: &Value, token: &Rc<str>) {
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let rows = said["routes"].as_array().into_iter().flatten();
        let mut routes: Vec<Route> = rows
            .map(|row| Route {
                prefix: text(row, "prefix"),
                app: text(row, "app"),
                deployment: text(row, "deployment"),
            })
            .collect();
        // The longest prefix that fits counts, and it is found first.
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix.len()));
        let mut before = std::mem::take(&mut *self.deployments.borrow_mut());
        let mut after = HashMap::new();
        for (key, said) in said["deployments"].as_object().into_iter().flatten() {
            let deployment = before.remove(key).unwrap_or_default();
            deployment.update(said, token);
            after.insert(key.clone(), deployment);
        }
        *self.deployments.borrow_mut() = after;
        *self.routes.borrow_mut() = routes.into();
        for gone in before.into_values() {
            gone.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(prefixes: &[&str]) -> Vec<Route> {
        let route = |prefix: &&str| Route {
            prefix: (*prefix).to_owned(),
            app: String::new(),
            deployment: String::new(),
        };
        let mut routes: Vec<Route> = prefixes.iter().map(route).collect();
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix.len()));
        routes
    }

    #[test]
    fn the_longest_prefix_of_whole_parts_wins() {
        let routes = routes(&["/", "/a", "/a/b"]);
        let found = |path| find(&routes, path).map(|route| route.prefix.as_str());
        assert_eq!(found("/a/b/c"), Some("/a/b"));
        assert_eq!(found("/a/bc"), Some("/a"));
        assert_eq!(found("/a"), Some("/a"));
        assert_eq!(found("/ab"), Some("/"));
        assert_eq!(found("/"), Some("/"));
    }

    #[test]
    fn without_a_root_there_are_paths_without_a_route() {
        assert_eq!(find(&routes(&["/a"]), "/b"), None);
        assert_eq!(find(&[], "/"), None);
    }
}
