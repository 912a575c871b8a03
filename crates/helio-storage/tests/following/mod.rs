//! Heads that wait: their copy of the state is whole when they lead.

use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use helio_storage::outside::{Leased, Target, Waiting, clean, open};
use helio_storage::{Change, Storage};

use crate::commits::{self, COMMITS, Map, changes, states};
use crate::contract::{delete, put};
use crate::proxy::Proxy;
use crate::servers::Server;
use crate::{LONG, head, loaded, run};

/// A head that waits for its turn in a thread of its own.
struct Standby {
    said: Receiver<Waiting>,
    thread: JoinHandle<Leased>,
}

impl Standby {
    fn of(target: &Target) -> Self {
        let (say, said) = channel();
        let target = target.clone();
        let waits = move || {
            open(&target, "standby", |waiting| {
                let _ = say.send(waiting.clone());
            })
            .unwrap()
        };
        Self { said, thread: std::thread::spawn(waits) }
    }

    /// Waits until it says that it has a copy.
    fn copied(&self) -> usize {
        loop {
            if let Waiting::Copied(entries) =
                self.said.recv_timeout(Duration::from_secs(60)).unwrap()
            {
                return entries;
            }
        }
    }

    fn leads(self) -> Leased {
        self.thread.join().unwrap()
    }
}

/// Returns the state by the copy, which must be the state by the store.
fn found(store: &mut Leased) -> Map {
    let by_copy = loaded(store);
    // The copy has been given away: this is read from the store.
    assert_eq!(by_copy, loaded(store), "the copy is not what the store has");
    by_copy
}

fn through(proxy: &Proxy, target: &Target) -> Target {
    Target { port: proxy.port, ..target.clone() }
}

fn committed(store: &mut Leased, map: &mut Map, changes: &[Change]) {
    store.commit(changes).unwrap();
    commits::commit(map, changes);
}

pub(crate) fn a_head_that_waits_reads_only_what_changed_last<S: Server>() {
    let server = S::run();
    let target = server.target("copy", LONG);
    let (mut leader, mut map) = (head(&target, "leader"), Map::new());
    let large = |byte: u8| Change { key: b"large".to_vec(), value: Some(vec![byte; 1_300_000]) };
    for part in 0..30 {
        let value = "x".repeat(200);
        let many: Vec<Change> = (0..100).map(|n| put(&format!("{part} {n}"), &value)).collect();
        committed(&mut leader, &mut map, &many);
    }
    committed(&mut leader, &mut map, &[large(1), put("other", ""), put("gone", "1")]);
    let proxy = Proxy::to(server.port());
    let standby = Standby::of(&through(&proxy, &target));
    assert_eq!(standby.copied(), map.len());
    committed(&mut leader, &mut map, &[delete("large"), delete("0 0"), put("other", "2")]);
    committed(&mut leader, &mut map, &[put("gone", "2"), put("new", "1")]);
    committed(&mut leader, &mut map, &[delete("gone"), put("0 1", "")]);
    server.expire("copy");
    let mut standby = standby.leads();
    let before = proxy.passed().1;
    let by_copy = loaded(&mut standby);
    let heard = proxy.passed().1 - before;
    assert_eq!(by_copy, map);
    assert!(heard < 100_000, "{heard} bytes were read for three small commits");
    assert_eq!(found(&mut standby), map);
    // It is a head like any other, also for what lies in parts.
    for changes in
        [[large(2), put("a", "1")], [large(3), delete("a")], [delete("large"), put("b", "1")]]
    {
        committed(&mut standby, &mut map, &changes);
        assert_eq!(loaded(&mut standby), map);
    }
    assert!(leader.commit(&[put("b", "2")]).is_err());
}

/// The copy lags behind when its head takes over.
pub(crate) fn a_copy_whose_link_breaks_goes_on_from_where_it_was<S: Server>() {
    let server = S::run();
    let target = server.target("cut", LONG);
    let (mut leader, mut map) = (head(&target, "leader"), Map::new());
    committed(&mut leader, &mut map, &changes(0));
    let proxy = Proxy::to(server.port());
    let standby = Standby::of(&through(&proxy, &target));
    standby.copied();
    for n in 1..COMMITS {
        match n % 3 {
            1 => proxy.cut(),
            2 => proxy.mend(),
            _ => proxy.cut_after(40, 400),
        }
        committed(&mut leader, &mut map, &changes(n));
    }
    server.expire("cut");
    proxy.mend();
    assert_eq!(found(&mut standby.leads()), map);
}

/// The connections that it has pass nothing any more, and do not end either.
pub(crate) fn a_copy_that_hears_nothing_is_not_believed<S: Server>() {
    let server = S::run();
    let target = server.target("hush", Duration::from_secs(2));
    let (mut leader, mut map) = (head(&target, "leader"), Map::new());
    committed(&mut leader, &mut map, &changes(0));
    let proxy = Proxy::to(server.port());
    let standby = Standby::of(&through(&proxy, &target));
    standby.copied();
    proxy.hush();
    for n in 1..COMMITS {
        committed(&mut leader, &mut map, &changes(n));
    }
    drop(leader);
    assert_eq!(found(&mut standby.leads()), map);
}

/// etcd forgets what its keys were, and the trace in Redis has an end.
pub(crate) fn what_changed_and_is_forgotten_is_read_anew<S: Server>() {
    let server = S::run();
    let target = server.target("forgotten", LONG);
    let (mut leader, mut map) = (head(&target, "leader"), Map::new());
    committed(&mut leader, &mut map, &changes(0));
    let proxy = Proxy::to(server.port());
    let standby = Standby::of(&through(&proxy, &target));
    standby.copied();
    proxy.cut();
    for n in 1..COMMITS {
        committed(&mut leader, &mut map, &changes(n));
    }
    server.forget("forgotten");
    proxy.mend();
    committed(&mut leader, &mut map, &[put("last", "1"), delete("none")]);
    server.expire("forgotten");
    assert_eq!(found(&mut standby.leads()), map);
}

pub(crate) fn a_state_that_was_deleted_meanwhile_is_not_taken_for_the_new_one<S: Server>() {
    let server = S::run();
    let target = server.target("deleted", LONG);
    let mut leader = head(&target, "leader");
    for n in 0..COMMITS {
        leader.commit(&changes(n)).unwrap();
    }
    let proxy = Proxy::to(server.port());
    let standby = Standby::of(&through(&proxy, &target));
    standby.copied();
    proxy.cut();
    assert!(clean(&target).unwrap());
    let (mut other, mut map) = (head(&target, "other"), Map::new());
    for n in 0..30 {
        committed(&mut other, &mut map, &[put(&format!("{n}"), "new")]);
    }
    server.expire("deleted");
    proxy.mend();
    assert_eq!(found(&mut standby.leads()), map);
}

/// A crash has the same result as without a copy: nothing that was acknowledged is missing, and no
/// commit is torn.
pub(crate) fn a_crash_of_the_leader_at_any_byte_leaves_a_whole_copy<S: Server>() {
    let server = S::run();
    let (states, counted) = (states(), Proxy::to(server.port()));
    let target = server.target("counted copy", LONG);
    let mut leader = head(&through(&counted, &target), "leader");
    let before = counted.passed().0;
    assert_eq!(run(&mut leader), COMMITS);
    let said = counted.passed().0 - before;
    drop(leader);
    let steps = S::CUTS.min(30);
    for step in 0..=steps {
        let namespace = format!("copy {step}");
        let direct = Target { namespace: namespace.clone(), ..target.clone() };
        let proxy = Proxy::to(server.port());
        let mut leader = head(&through(&proxy, &direct), "leader");
        let standby = Standby::of(&direct);
        standby.copied();
        proxy.cut_after(step * said / steps, u64::MAX);
        let acknowledged = usize::from(run(&mut leader));
        proxy.cut();
        server.expire(&namespace);
        let mut standby = standby.leads();
        let state = found(&mut standby);
        let is_whole = states.iter().skip(acknowledged).take(2).any(|known| *known == state);
        assert!(is_whole, "step {step}: {acknowledged} acknowledged, found {:?}", state.keys());
        assert!(leader.commit(&changes(0)).is_err(), "step {step}: the dead one writes");
    }
}
