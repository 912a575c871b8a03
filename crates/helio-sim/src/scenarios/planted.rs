//! Plays of what single draws hardly ever come to: each is what a planted bug needs to show.

use super::tools::{Played, calm, play};
use crate::ops::{Job, Op, Slot, Target};
use crate::plan::{Ending, Fault, Order, Plan, WAIT_US_MAX, Way};
use crate::program::Author;

/// Calls of an actor that take a while.
fn keep_busy(author: &mut Author<'_>, actor: Slot, calls: u64) -> Vec<Slot> {
    let mut made = Vec::new();
    for _ in 0..calls {
        let mut call = author.call(Job::Slow, -1, Target::Anywhere);
        call.actor = Some(actor);
        made.push(author.submit_op(call));
    }
    made
}

/// A machine that is cut off from the others stops its workers before it is declared dead.
pub(super) fn a_node_that_is_cut_off_stops_its_workers() -> Played {
    let change = |plan: &mut Plan, _: u64| {
        calm(plan, &[3, 3, 3, 3]);
        plan.faults = vec![(1_500_000, Fault::Partition { for_us: 14_000_000, way: Way::Both })];
    };
    let write = |author: &mut Author<'_>| {
        for _ in 0..4 {
            let mut made = Vec::new();
            for _ in 0..8 {
                let call = author.call(Job::Slow, -1, Target::Spread);
                made.push(author.submit_op(call));
            }
            author.ops.push(Op::Sleep(300_000));
            author.drop_all(&made);
        }
        author.ops.push(Op::Sleep(15_000_000));
    };
    play(8, change, write, &["nodes suspended", "nodes declared dead"])
}

/// A disk was full for a moment; when it has room it takes objects again.
pub(super) fn a_disk_that_was_full_once_is_tried_again() -> Played {
    let change = |plan: &mut Plan, _: u64| {
        calm(plan, &[2]);
        plan.store_size = 16 << 10;
        plan.faults = vec![(500_000, Fault::DiskFull { for_us: 1_500_000 })];
    };
    let write = |author: &mut Author<'_>| {
        author.ops.push(Op::Sleep(600_000));
        for _ in 0..2 {
            let mut made = Vec::new();
            for _ in 0..40 {
                let (to, salt) = (author.slot(), author.draw());
                author.ops.push(Op::Put { to, is_big: true, salt, inner: Vec::new() });
                made.push(to);
            }
            author.ops.push(Op::Sleep(30_000_000));
            author.drop_all(&made);
        }
    };
    play(4, change, write, &["disks tried again"])
}

/// An actor that has had its one restart is not restarted again by a control service that starts anew while the actor's
/// machine is lost.
pub(super) fn a_restart_of_the_control_service_grants_no_life() -> Played {
    let change = |plan: &mut Plan, _: u64| {
        calm(plan, &[2, 2]);
        plan.faults = vec![
            (1_000_000, Fault::Worker),
            (2_500_000, Fault::Control { away_us: 500_000 }),
            (2_600_000, Fault::Node),
        ];
    };
    let write = |author: &mut Author<'_>| {
        let actor = author.new_actor(1, None);
        if let Some(Op::Actor(actor_op)) = author.ops.last_mut() {
            actor_op.target = Target::RatherThere;
        }
        let mut made = Vec::new();
        for _ in 0..8 {
            made.extend(keep_busy(author, actor, 2));
            author.ops.push(Op::Sleep(500_000));
        }
        author.read(&made);
        author.drop_all(&made);
        author.drop_all(&[actor]);
    };
    play(12, change, write, &["faults: worker", "faults: control", "faults: node"])
}

/// The order to stay after all is lost with its connection: the node hears it when it is back.
pub(super) fn a_lost_order_to_stay_is_given_again() -> Played {
    let change = |plan: &mut Plan, _: u64| {
        calm(plan, &[2, 2]);
        plan.faults = vec![
            (2_500_000, Fault::Drain),
            (3_000_000, Fault::LostOrder(Order::Stay)),
            (3_500_000, Fault::Stay),
        ];
    };
    let write = |author: &mut Author<'_>| {
        author.ops.push(Op::Sleep(1_000_000));
        let streams: Vec<Slot> = (0..4)
            .map(|_| {
                let mut call = author.call(Job::Stream, 0, Target::There);
                (call.count, call.backpressure) = (6, 2);
                author.submit_op(call)
            })
            .collect();
        author.ops.push(Op::Sleep(12_000_000));
        for stream in streams {
            author.read_stream(stream);
            author.ops.push(Op::DropStream(stream));
        }
    };
    play(8, change, write, &["faults: lost order", "nodes told to stay"])
}

/// A node that stood still while its cluster ended finds another one at the address, and ends.
pub(super) fn a_node_does_not_join_the_session_that_follows_its_own() -> Played {
    let change = |plan: &mut Plan, _: u64| {
        calm(plan, &[2, 2]);
        plan.ending = Some(Ending::StopUnheard);
    };
    let write = |author: &mut Author<'_>| {
        let call = author.call(Job::Leaf, 0, Target::Spread);
        let made = author.submit_op(call);
        author.read(&[made]);
    };
    play(2, change, write, &["sessions that followed another"])
}

/// A process ends while its node has no connection to the control service: when the news of it come, its actor lives on
/// in another process of that node.
pub(super) fn news_of_an_older_life_do_not_end_the_next_one() -> Played {
    let change = |plan: &mut Plan, _: u64| {
        calm(plan, &[2]);
        let pair = |at: u64| [(at, Fault::ControlLink), (at + 1_000, Fault::Worker)];
        plan.faults = [1_000_000, 2_000_000, 3_000_000].into_iter().flat_map(pair).collect();
    };
    let write = |author: &mut Author<'_>| {
        let actor = author.new_actor(3, None);
        let mut made = Vec::new();
        for _ in 0..8 {
            made.extend(keep_busy(author, actor, 2));
            author.ops.push(Op::Sleep(500_000));
        }
        author.read(&made);
        author.drop_all(&made);
        author.drop_all(&[actor]);
    };
    play(12, change, write, &["faults: worker", "faults: link of a daemon"])
}

/// A request for a worker whose calls were cancelled is taken back.
pub(super) fn no_worker_is_asked_for_when_its_calls_are_cancelled() -> Played {
    let change = |plan: &mut Plan, _: u64| calm(plan, &[2, 2]);
    let write = |author: &mut Author<'_>| {
        let mut call = author.call(Job::Leaf, 0, Target::Anywhere);
        call.cpu = 100_000;
        let made = author.submit_op(call);
        author.ops.push(Op::Sleep(2_000_000));
        author.ops.push(Op::Cancel { slot: made, force: false, recursive: true });
        author.read(&[made]);
        author.drop_all(&[made]);
    };
    play(2, change, write, &["cancels"])
}

/// A driver has had many workers; when it has nothing for them, as many stay as the node keeps.
pub(super) fn idle_workers_end() -> Played {
    let change = |plan: &mut Plan, _: u64| {
        calm(plan, &[4]);
        (plan.idle_max, plan.starts_max) = (1, 4);
    };
    let write = |author: &mut Author<'_>| {
        let mut made = Vec::new();
        for _ in 0..12 {
            let call = author.call(Job::Slow, 0, Target::Anywhere);
            made.push(author.submit_op(call));
        }
        author.read(&made);
        author.drop_all(&made);
    };
    play(2, change, write, &["workers"])
}

/// A call that made others is cancelled alone: what it made goes on.
pub(super) fn what_a_cancelled_call_has_made_goes_on() -> Played {
    let change = |plan: &mut Plan, _: u64| calm(plan, &[4]);
    let write = |author: &mut Author<'_>| {
        for _ in 0..4 {
            let mut call = author.call(Job::Nest, 0, Target::Anywhere);
            call.count = 6;
            let made = author.submit_op(call);
            author.wait(40_000);
            author.ops.push(Op::Cancel { slot: made, force: false, recursive: false });
            author.read(&[made]);
            author.drop_all(&[made]);
        }
    };
    play(12, change, write, &["cancels of one call alone"])
}

/// A generator that is not tried again runs while its connection breaks: what it wrote then, and nobody has heard of, goes.
pub(super) fn items_of_which_nobody_has_heard_go_with_their_generator() -> Played {
    let change = |plan: &mut Plan, _: u64| {
        calm(plan, &[2, 2, 2]);
        plan.delay_us_max = 30_000;
        let cut = |n: u64| (1_000_000 + n * 30_000, Fault::Peer);
        plan.faults = (0..20).map(cut).collect();
    };
    let write = |author: &mut Author<'_>| {
        author.ops.push(Op::Sleep(800_000));
        let streams: Vec<Slot> = (0..4)
            .map(|_| {
                let mut call = author.call(Job::Stream, 0, Target::Spread);
                call.count = 200;
                author.submit_op(call)
            })
            .collect();
        for stream in streams {
            author.read_stream(stream);
            author.ops.push(Op::Sleep(500_000));
            author.ops.push(Op::DropStream(stream));
        }
    };
    play(16, change, write, &["faults: link of a process", "items"])
}

/// A process reads what another node has, and dies before it tells the owner of the copy that its node has made for it: the
/// copy goes with the process.
pub(super) fn a_copy_goes_with_the_reader_that_died_unheard() -> Played {
    let change = |plan: &mut Plan, _: u64| {
        calm(plan, &[2, 2, 2]);
        plan.faults = (0..6).map(|n| (500_000 + n * 100_000, Fault::Reader)).collect();
    };
    let write = |author: &mut Author<'_>| {
        for _ in 0..8 {
            let big = author.call(Job::Big, 3, Target::There);
            let big = author.submit_op(big);
            let (slots, count) = (vec![big], 1);
            author.ops.push(Op::Await { slots, count, fetch: false, for_us: WAIT_US_MAX });
            let mut call = author.call(Job::Read, 0, Target::Spread);
            call.inner = vec![big];
            let made = author.submit_op(call);
            author.read(&[made]);
            author.drop_all(&[made, big]);
            author.wait(200_000);
        }
    };
    play(16, change, write, &["faults: reader"])
}

/// Objects of another node are waited for where there is no room, and refused, on a disk that is full or fails; whoever reads
/// them then has them fetched again.
pub(super) fn a_refusal_that_nobody_read_is_not_for_the_next_reader() -> Played {
    let change = |plan: &mut Plan, seed: u64| {
        calm(plan, &[2, 2]);
        plan.store_size = 16 << 10;
        let for_us = 20_000_000;
        let fault = match seed % 2 {
            0 => Fault::DiskFull { for_us },
            _ => Fault::DiskBroken { for_us },
        };
        plan.faults = (0..6).map(|n| (300_000 + n * 50_000, fault)).collect();
    };
    let write = |author: &mut Author<'_>| {
        let far: Vec<Slot> = (0..4)
            .map(|_| {
                let call = author.call(Job::Big, 0, Target::There);
                author.submit_op(call)
            })
            .collect();
        author.ops.push(Op::Await {
            slots: far.clone(),
            count: 4,
            fetch: false,
            for_us: WAIT_US_MAX,
        });
        author.ops.push(Op::Sleep(1_000_000));
        let here: Vec<Slot> = (0..16)
            .map(|_| {
                let (to, salt) = (author.slot(), author.draw());
                author.ops.push(Op::Put { to, is_big: true, salt, inner: Vec::new() });
                to
            })
            .collect();
        for slot in &far {
            let slots = vec![*slot];
            author.ops.push(Op::Await { slots, count: 1, fetch: true, for_us: WAIT_US_MAX });
            author.ops.push(Op::Sleep(200_000));
            author.read(&[*slot]);
        }
        author.drop_all(&here);
        author.drop_all(&far);
    };
    play(4, change, write, &["reads refused for want of room"])
}

/// An actor moves from a node that is drained and cannot leave yet, for a generator there waits for its reader. The actor's
/// process ends while the control service restarts: it moves all the same.
pub(super) fn an_actor_whose_move_ends_unheard_lives_on() -> Played {
    let change = |plan: &mut Plan, seed: u64| drain_beside_a_restart(plan, &[2, 2], seed * 5_000);
    let write = |author: &mut Author<'_>| {
        let mut call = author.call(Job::Stream, 0, Target::There);
        (call.count, call.backpressure) = (6, 2);
        let stream = author.submit_op(call);
        let (actors, made) = four_busy_actors(author, 4);
        author.read(&made);
        author.read_stream(stream);
        author.ops.push(Op::DropStream(stream));
        author.drop_all(&made);
        author.drop_all(&actors);
    };
    play(12, change, write, &["faults: control", "faults: drained node"])
}

/// A drained node has nothing left to do while the control service restarts. It waits for the service, and says who has
/// its objects: no call runs a second time, and nobody keeps a copy that nobody frees.
pub(super) fn a_drained_node_leaves_when_it_is_heard() -> Played {
    let change = |plan: &mut Plan, seed: u64| {
        drain_beside_a_restart(plan, &[2, 2, 2], seed * 1_000);
    };
    let write = |author: &mut Author<'_>| {
        let (actors, made) = four_busy_actors(author, 2);
        author.read(&made);
        author.drop_all(&made);
        author.drop_all(&actors);
    };
    play(24, change, write, &["faults: control", "faults: drained node"])
}

/// Drains a node after two seconds, and restarts the control service soon after.
fn drain_beside_a_restart(plan: &mut Plan, cpus: &[u32], after_us: u64) {
    calm(plan, cpus);
    let (drain, away_us) = (2_000_000, 300_000);
    let restart = drain + 1_000 + after_us;
    plan.faults = vec![(drain, Fault::Drain), (restart, Fault::Control { away_us })];
}

/// Four actors all over the cluster, which have calls when the drain begins and after it.
fn four_busy_actors(author: &mut Author<'_>, calls: u64) -> (Vec<Slot>, Vec<Slot>) {
    let actors: Vec<Slot> = (0..4)
        .map(|_| {
            let actor = author.new_actor(1, None);
            if let Some(Op::Actor(actor_op)) = author.ops.last_mut() {
                (actor_op.target, actor_op.slots) = (Target::Spread, 0.25);
            }
            actor
        })
        .collect();
    author.ops.push(Op::Sleep(1_900_000));
    let mut made = Vec::new();
    for actor in &actors {
        made.extend(keep_busy(author, *actor, calls));
    }
    author.ops.push(Op::Sleep(4_000_000));
    for actor in &actors {
        made.extend(keep_busy(author, *actor, 1));
    }
    (actors, made)
}
