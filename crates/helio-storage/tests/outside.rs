//! The contract, and what goes wrong, with the servers of the stores that operators run. `cargo xtask extras` runs these
//! tests, where the servers are installed; alone: `cargo test -p helio-storage --test outside -- --ignored`.
//!
//! STATE-2: what was acknowledged is there again.

#![allow(clippy::unwrap_used, reason = "tests")]

mod commits;
mod contract;
mod following;
mod proxy;
mod servers;

use std::time::Duration;

use commits::{COMMITS, Map, changes, states};
use contract::{conforms, put};
use following::{
    a_copy_that_hears_nothing_is_not_believed, a_copy_whose_link_breaks_goes_on_from_where_it_was,
    a_crash_of_the_leader_at_any_byte_leaves_a_whole_copy,
    a_head_that_waits_reads_only_what_changed_last,
    a_state_that_was_deleted_meanwhile_is_not_taken_for_the_new_one,
    what_changed_and_is_forgotten_is_read_anew,
};
use helio_storage::outside::{Leased, Target, Waiting, clean, open};
use helio_storage::{Change, Error, Standing, Storage};
use proxy::Proxy;
use servers::{EtcdServer, RedisServer, Server, until};

/// A lease that does not run out in a test that is not about that.
const LONG: Duration = Duration::from_secs(600);

/// A head that waits for no other one; a server that has just started may be slow to answer.
fn head(target: &Target, name: &str) -> Leased {
    let waits = |waiting: &Waiting| {
        assert!(matches!(waiting, Waiting::Store(_)), "{name} waits: {waiting:?}");
    };
    open(target, name, waits).unwrap()
}

fn loaded(store: &mut Leased) -> Map {
    store.load().unwrap().into_iter().collect()
}

/// The tests that each store passes.
macro_rules! with_each_store {
    ($($test:ident)+) => {
        mod redis {
            $(
                #[test]
                #[ignore = "needs redis-server"]
                fn $test() {
                    super::$test::<super::RedisServer>();
                }
            )+
        }

        mod etcd {
            $(
                #[test]
                #[ignore = "needs etcd"]
                fn $test() {
                    super::$test::<super::EtcdServer>();
                }
            )+
        }
    };
}

with_each_store! {
    it_conforms
    namespaces_and_clusters_are_apart
    whoever_takes_the_lease_is_the_only_writer
    a_second_head_waits_until_the_first_gives_up
    a_lease_that_is_not_renewed_runs_out_and_one_that_is_does_not
    a_crash_at_any_byte_loses_no_acknowledged_commit_and_tears_none
    a_commit_that_is_repeated_counts_once
    a_crash_in_a_large_commit_tears_nothing
    copies_of_files_are_found_by_the_next_head_alone
    a_head_that_waits_reads_only_what_changed_last
    a_copy_whose_link_breaks_goes_on_from_where_it_was
    a_copy_that_hears_nothing_is_not_believed
    what_changed_and_is_forgotten_is_read_anew
    a_state_that_was_deleted_meanwhile_is_not_taken_for_the_new_one
    a_crash_of_the_leader_at_any_byte_leaves_a_whole_copy
}

fn it_conforms<S: Server>() {
    let server = S::run();
    let target = server.target("conforms", LONG);
    conforms(head(&target, "first"), |store| {
        drop(store);
        head(&target, "next")
    });
}

fn namespaces_and_clusters_are_apart<S: Server>() {
    let server = S::run();
    let (one, two) = (server.target("one", LONG), server.target("two", LONG));
    head(&one, "head").commit(&[put("a", "1")]).unwrap();
    assert_eq!(head(&two, "head").load().unwrap(), []);
    let stranger = Target { cluster: "another token".to_owned(), ..one.clone() };
    let refused = open(&stranger, "stranger", |_| {}).unwrap_err().to_string();
    assert!(refused.contains("a cluster with another token"), "{refused}");
    assert_eq!(head(&one, "head").load().unwrap().len(), 1);
    assert!(clean(&one).unwrap() && !clean(&one).unwrap());
    assert_eq!(head(&stranger, "stranger").load().unwrap(), []);
}

/// A head that was stopped, and one that took over from it.
fn whoever_takes_the_lease_is_the_only_writer<S: Server>() {
    let server = S::run();
    let target = server.target("fence", LONG);
    let mut old = head(&target, "old");
    old.commit(&[put("a", "old")]).unwrap();
    server.expire("fence");
    let mut new = head(&target, "new");
    assert!(new.epoch() > old.epoch());
    let lost = old.commit(&[put("a", "too late")]).unwrap_err();
    assert!(matches!(&lost, Error::Lost { reason, .. } if reason.contains("new")), "{lost}");
    assert!(matches!(old.standing(), Standing::Lost(_)));
    assert!(matches!(old.load(), Err(Error::Lost { .. })));
    drop(old);
    new.commit(&[put("b", "new")]).unwrap();
    assert_eq!(new.load().unwrap(), contract::entries(&[("a", "old"), ("b", "new")]));
    assert_eq!(new.standing(), Standing::Certain, "the end of the old one takes nothing from it");
}

/// Larger than a part.
fn copies_of_files_are_found_by_the_next_head_alone<S: Server>() {
    let server = S::run();
    let target = server.target("copies", LONG);
    let folder = |name: &str| {
        let path = std::env::temp_dir().join(format!("copies-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let (at_old, at_new) = (folder("old"), folder("new"));
    let mut old = head(&target, "old");
    old.commit(&[put("a", "1")]).unwrap();
    let copies = old.copies("kind", at_old.clone());
    let content: Vec<u8> = (0..1_300_000u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(at_old.join("large"), &content).unwrap();
    std::fs::write(at_old.join("empty"), "").unwrap();
    for name in ["large", "empty", "large"] {
        copies.keep(name).unwrap();
    }
    assert!(copies.keep("none").is_err() && !copies.find("none").unwrap());
    server.expire("copies");
    let mut new = head(&target, "new");
    assert!(matches!(copies.keep("large"), Err(Error::Lost { .. })));
    assert!(!new.copies("another kind", at_new.clone()).find("large").unwrap());
    let found = new.copies("kind", at_new.clone());
    assert!(found.find("large").unwrap() && found.find("empty").unwrap());
    assert_eq!(std::fs::read(at_new.join("large")).unwrap(), content);
    assert_eq!(std::fs::read_dir(&at_new).unwrap().count(), 2, "no draft is left");
    assert_eq!(loaded(&mut new).len(), 1, "copies are no entries");
    drop((old, new));
    assert!(clean(&target).unwrap());
    let after = head(&target, "after").copies("kind", at_old.clone());
    std::fs::remove_file(at_old.join("large")).unwrap();
    assert!(!after.find("large").unwrap());
    for folder in [at_old, at_new] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

fn a_second_head_waits_until_the_first_gives_up<S: Server>() {
    let server = S::run();
    let target = server.target("standby", LONG);
    let first = head(&target, "first of all");
    let (said, heard) = std::sync::mpsc::channel();
    let second = std::thread::spawn({
        let target = target.clone();
        move || {
            open(&target, "second", |waiting| said.send(waiting.clone()).unwrap()).unwrap().epoch()
        }
    });
    assert_eq!(heard.recv().unwrap(), Waiting::For("first of all".to_owned()));
    let epoch = first.epoch();
    drop(first);
    assert!(second.join().unwrap() > epoch);
}

fn a_lease_that_is_not_renewed_runs_out_and_one_that_is_does_not<S: Server>() {
    let server = S::run();
    let target = server.target("lease", Duration::from_secs(1));
    let living = head(&target, "living");
    let proxy = Proxy::to(server.port());
    let cut_off = Target { port: proxy.port, namespace: "cut off".to_owned(), ..target.clone() };
    let mut cut = head(&cut_off, "cut off");
    proxy.cut();
    until("the head that is cut off to doubt", || matches!(cut.standing(), Standing::Doubtful(_)));
    assert!(!cut.regain().unwrap());
    assert!(matches!(cut.commit(&[put("a", "1")]), Err(Error::Away { .. })));
    // Nobody took it meanwhile, so that it goes on.
    proxy.mend();
    until("it to be certain again", || cut.regain().unwrap());
    until("a commit", || cut.commit(&[put("a", "1")]).is_ok());
    proxy.cut();
    let direct = Target { port: server.port(), ..cut_off };
    let mut next = open(&direct, "next", |_| {}).unwrap();
    assert_eq!(next.load().unwrap().len(), 1);
    proxy.mend();
    until("the old one to know", || matches!(cut.standing(), Standing::Lost(who) if who == "next"));
    assert_eq!(living.standing(), Standing::Certain);
}

#[test]
#[ignore = "needs redis-server"]
fn a_store_without_room_takes_what_ends_something_and_later_the_rest() {
    let server = RedisServer::start(&[]);
    let target = server.target("full", LONG);
    let mut store = head(&target, "head");
    store.commit(&[put("a", "1")]).unwrap();
    server.set("maxmemory", "1");
    for _ in 0..3 {
        let full = store.commit(&[put("b", "2")]).unwrap_err();
        assert!(matches!(full, Error::Full { .. }), "{full}");
    }
    assert!(store.full().contains("redis://"));
    server.set("maxmemory", "0");
    store.commit(&[put("b", "2")]).unwrap();
    assert_eq!(loaded(&mut store).len(), 2);
}

#[test]
#[ignore = "needs redis-server"]
fn a_store_that_refuses_says_what_to_do() {
    let server = RedisServer::start(&["--requirepass", "secret"]);
    let target = server.target("auth", LONG);
    let why = |target: &Target| open(target, "head", |_| {}).unwrap_err().to_string();
    assert!(why(&target).contains("--redis-password"));
    let wrong = Target { password: "wrong".to_owned(), ..target.clone() };
    assert!(why(&wrong).contains("WRONGPASS") && !why(&wrong).contains("wrong "));
    let right = Target { password: "secret".to_owned(), ..target };
    head(&right, "head").commit(&[put("a", "1")]).unwrap();
    let named = Target { username: "default".to_owned(), ..right };
    assert_eq!(head(&named, "head").load().unwrap().len(), 1);
}

#[test]
#[ignore = "needs redis-server"]
fn a_read_only_store_is_waited_for() {
    let server = RedisServer::start(&[]);
    let target = server.target("replica", LONG);
    let mut store = head(&target, "head");
    store.commit(&[put("a", "1")]).unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let away = store.commit(&[put("b", "2")]).unwrap_err();
    assert!(matches!(&away, Error::Away { reason, .. } if reason.contains("READONLY")), "{away}");
    server.command(&["REPLICAOF", "NO", "ONE"]);
    assert!(store.regain().unwrap());
    store.commit(&[put("b", "2")]).unwrap();
}

/// Runs the program until it ends or the connection does; how many commits were acknowledged.
fn run(store: &mut Leased) -> u8 {
    (0..COMMITS).take_while(|n| store.commit(&changes(*n)).is_ok()).count() as u8
}

/// The head's machine ends, or its link does, at each place of what it says and of what it hears: in the middle of a
/// command, before its answer, in the middle of that.
fn a_crash_at_any_byte_loses_no_acknowledged_commit_and_tears_none<S: Server>() {
    let server = S::run();
    let states = states();
    let counted = Proxy::to(server.port());
    let target = server.target("counted", LONG);
    let through = |proxy: &Proxy, namespace: &str| Target {
        port: proxy.port,
        namespace: namespace.to_owned(),
        ..target.clone()
    };
    let mut store = head(&through(&counted, "counted"), "head");
    let (said, heard) = counted.passed();
    assert_eq!(run(&mut store), COMMITS);
    let (said, heard) = (counted.passed().0 - said, counted.passed().1 - heard);
    drop(store);
    let steps = |total: u64, many: u64| (0..=many).map(move |step| step * total / many);
    // Commands are long, answers short.
    let crashes = steps(said, S::CUTS)
        .map(|at| (at, u64::MAX))
        .chain(steps(heard, heard.min(S::CUTS)).map(|at| (u64::MAX, at)));
    let mut torn = 0;
    for (number, (said, heard)) in crashes.enumerate() {
        let what = format!("crash after {said} bytes said or {heard} heard");
        let namespace = format!("crash {number}");
        let proxy = Proxy::to(server.port());
        let mut store = head(&through(&proxy, &namespace), "head");
        proxy.cut_after(said, heard);
        let acknowledged = usize::from(run(&mut store));
        proxy.cut();
        server.expire(&namespace);
        let mut next = head(&Target { port: server.port(), ..through(&proxy, &namespace) }, "next");
        let found = loaded(&mut next);
        let is_whole = states.iter().skip(acknowledged).take(2).any(|state| *state == found);
        assert!(is_whole, "{what}: {acknowledged} acknowledged, found {:?}", found.keys());
        torn += usize::from(states[acknowledged] != found);
        assert!(store.commit(&changes(0)).is_err(), "{what}: the dead one writes");
        assert_eq!(loaded(&mut next), found, "{what}");
        clean(&Target { port: server.port(), ..through(&proxy, &namespace) }).unwrap();
    }
    assert!(torn > 10, "{torn} commits were made and not acknowledged: too few to mean much");
}

/// The link breaks again and again, and the head goes on: each commit is repeated until it is acknowledged.
fn a_commit_that_is_repeated_counts_once<S: Server>() {
    let server = S::run();
    let proxy = Proxy::to(server.port());
    let target = Target { port: proxy.port, ..server.target("repeated", Duration::from_secs(3)) };
    let mut store = head(&target, "head");
    for n in 0..COMMITS {
        // Of some the command is lost, of others the answer.
        match n % 3 {
            0 => proxy.cut_after(40, u64::MAX),
            1 => proxy.cut_after(u64::MAX, 3),
            _ => {}
        }
        until("a commit", || {
            proxy.mend();
            matches!(store.commit(&changes(n)), Ok(())) || !store.regain().unwrap()
        });
        until("the commit once more", || store.commit(&changes(n)).is_ok());
    }
    assert_eq!(loaded(&mut store), *states().last().unwrap());
}

/// A commit that a store may have to take in several steps.
fn a_crash_in_a_large_commit_tears_nothing<S: Server>() {
    let server = S::run();
    let target = server.target("large", LONG);
    let large = |byte: u8| Change { key: b"large".to_vec(), value: Some(vec![byte; 2_500_000]) };
    let mut many: Vec<Change> = (0..300).map(|n| put(&format!("many {n:03}"), "1")).collect();
    many.extend([large(1), put("before", "")]);
    let mut next: Vec<Change> = (0..300).map(|n| put(&format!("many {n:03}"), "2")).collect();
    next.extend([large(2), Change { key: b"before".to_vec(), value: None }, put("after", "")]);
    let mut old = Map::new();
    commits::commit(&mut old, &many);
    let mut new = old.clone();
    commits::commit(&mut new, &next);
    let states = [old, new];
    let counted = Proxy::to(server.port());
    let mut store = head(&Target { port: counted.port, ..target.clone() }, "head");
    store.commit(&many).unwrap();
    let before = counted.passed().0;
    store.commit(&next).unwrap();
    let said = counted.passed().0 - before;
    drop(store);
    let mut found = [0; 2];
    // A number may have a digit more.
    let (steps, said) = (S::CUTS.min(20), said + 64);
    for step in 0..=steps {
        let proxy = Proxy::to(server.port());
        let mut store = head(&Target { port: proxy.port, ..target.clone() }, "head");
        // Part of the state comes back in parts: the next head reads what this one was told.
        store.commit(&many).unwrap();
        store.commit(&[put("before", ""), Change { key: b"after".to_vec(), value: None }]).unwrap();
        proxy.cut_after(step * said / steps, u64::MAX);
        let is_acknowledged = store.commit(&next).is_ok();
        proxy.cut();
        server.expire("large");
        let mut other = head(&target, "other");
        let state = loaded(&mut other);
        let which = states.iter().position(|known| *known == state);
        let which =
            which.unwrap_or_else(|| panic!("torn at {step} of {steps}: {} entries", state.len()));
        assert!(which == 1 || !is_acknowledged, "step {step}: acknowledged and lost");
        found[which] += 1;
        assert!(store.commit(&next).is_err());
    }
    assert!(found[0] > 0 && found[1] > 0, "{found:?}");
}

#[test]
#[ignore = "needs etcd"]
fn an_etcd_without_room_says_so() {
    let server = EtcdServer::start(&["--quota-backend-bytes", "1500000"]);
    let mut store = head(&server.target("full", LONG), "head");
    let large = Change { key: b"large".to_vec(), value: Some(vec![0; 700_000]) };
    let full = (0..20).find_map(|_| store.commit(std::slice::from_ref(&large)).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    assert!(store.full().contains("etcd://"));
}

/// A member that hangs or is away costs a part of the lease.
#[test]
#[ignore = "needs etcd"]
fn another_member_is_asked_when_one_does_not_answer() {
    let server = EtcdServer::run();
    let proxy = Proxy::to(server.port());
    let mut target = server.target("members", Duration::from_secs(10));
    target.others =
        vec![("127.0.0.1".to_owned(), proxy.port), ("127.0.0.1".to_owned(), server.port())];
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    target.port = silent.local_addr().unwrap().port();
    let mut store = head(&target, "head");
    store.commit(&[put("a", "1")]).unwrap();
    proxy.cut();
    store.commit(&[put("b", "2")]).unwrap();
    assert_eq!(store.load().unwrap().len(), 2);
    assert_eq!(store.standing(), Standing::Certain);
}
