//! Failures that long runs found, each made small: the case that showed it, and what it showed.

use super::tools::{Played, check, check_edition, report_of};
use crate::case::Case;
use crate::plan::{Fault, Scene};
use crate::run_with;

/// OWN-1: a node hangs after its connection to the control service broke, is declared dead after a second,
/// and wakes up: its worker begins a call that its caller has long had answered by another, and finds the
/// call's arguments gone.
pub(super) fn a_node_that_hangs_while_it_is_cut_off_is_dead_sooner() -> Played {
    let without = "f1,0.0-1,0.3-5,0.8-11,0.13-56,1.12-15,1.17-57";
    check(300_057, without)
}

/// LIMIT-1: the machine with a bundle is gone, and the daemons do not know it yet: requests for the bundle
/// are sent to that machine, and each time made again.
pub(super) fn requests_that_are_lost_with_their_node_are_not_made_again_at_once() -> Played {
    for seed in [1_004_547, 201_619] {
        let spills = report_of(seed, "")?.count("spills");
        if spills >= 2_000 {
            return Err(format!("LIMIT-1: seed {seed}: {spills} requests were sent on"));
        }
    }
    Ok(())
}

/// Readers pin most of the store, and it refuses a small object for which there is room.
pub(super) fn a_small_object_has_room_beside_pinned_ones() -> Played {
    check(101_199, "")
}

/// LIMIT-1: an actor that ends as it is created again.
pub(super) fn an_actor_leaves_nothing_in_its_creators_table() -> Played {
    check(102_616, "")
}

/// OWN-1: a link breaks under a call that is being handed back.
pub(super) fn a_call_and_its_hand_back_do_not_pass_each_other_for_ever() -> Played {
    check(200_329, "")
}

/// OWN-1: two processes had connected to each other at once, and the link broke on which one of them
/// answered: its answers were lost, and the other one went on with the link on which it asks.
pub(super) fn answers_lost_with_one_of_two_links_are_asked_for_again() -> Played {
    check(3_010_136, "")
}

/// A link broke, and a call ran again in the process in which its first attempt waited for room: the
/// daemon took the second request for the same object for nonsense and closed the connection.
pub(super) fn two_attempts_in_one_process_may_write_the_same_object() -> Played {
    check(3_015_522, "")
}

/// The head's machine stands still for little more than a second while its own daemon is about to
/// connect to the control service again: the time does not count against the daemon.
pub(super) fn a_head_that_stands_still_does_not_give_itself_up() -> Played {
    check(3_032_172, "")
}

/// A task of a process that was killed came to its worker after the news of the death: the worker ran it,
/// while its daemon lent it to others, and to the task itself for what that waited for.
pub(super) fn a_task_that_outlives_its_caller_on_the_way_is_not_begun() -> Played {
    check(10_038_598, "")
}

/// OWN-1: an answer waited for a borrow to be confirmed, and was dropped when its caller, whose older
/// connection had broken, turned out to live.
pub(super) fn an_answer_on_a_new_connection_is_not_lost_with_the_old_one() -> Played {
    check(11_012_493, "f0,f3,f4,0.51-56,1.11-30")
}

/// STATE-2: two machines with bundles of a group are lost at once.
pub(super) fn a_group_that_loses_two_nodes_is_placed_when_both_bundles_are() -> Played {
    check(10_041_663, "")?;
    check(11_028_808, "")
}

/// A process that died in the middle of an answer began its next task in the simulator, which no worker
/// does before the answer has left.
pub(super) fn a_process_that_dies_in_an_answer_begins_nothing() -> Played {
    check(10_038_305, "")
}

/// OWN-1: an item of a generator without retries is lost while that waits for its reader.
pub(super) fn a_lost_item_and_a_generator_that_waits_for_its_reader_do_not_wait_for_each_other()
-> Played {
    check(11_026_248, "")
}

/// OWN-1: a connection broke, and the value of a method counted as lost that a method of the same actor
/// was about to read.
pub(super) fn a_method_does_not_wait_for_one_that_is_to_run_behind_it() -> Played {
    check(11_030_674, "")
}

/// OWN-1: the news that a connection had broken came after the call that its other end, which had learned of
/// it long before, made over a new one: the answer was dropped with the old one.
pub(super) fn an_answer_goes_out_on_a_connection_that_its_caller_has_not_given_up() -> Played {
    check(12_007_547, "0.7-37,1.5,1.13-32,1.37-40,1.42-60")?;
    check(12_007_547, "")
}

/// OWN-1: a generator ran once more, and an item that this attempt had yielded was lost: it waited for its
/// reader, and the reader for the item.
pub(super) fn a_later_attempt_of_a_generator_does_not_wait_for_the_reader_of_a_lost_item() -> Played
{
    check(13_020_506, "")
}

/// OWN-1: a constructor raised while the connection to the control service was broken; the news of it were lost,
/// the actor was sent to its node once more while its process still ended, and nothing was ever said of it.
pub(super) fn a_constructor_that_raised_unheard_is_reported_when_the_actor_is_sent_again() -> Played
{
    check(21_017_144, "")
}

/// OWN-1: a node gave an actor back for want of room while the control service was away, and got it again when
/// that was back, before the news of it arrived: the actor lived there, and once more where it was sent then.
pub(super) fn an_actor_that_was_given_back_unheard_does_not_live_where_it_was_given_back() -> Played
{
    let without =
        "f1,f2,0.15,0.21,0.26-33,0.35-40,1.0-16,2.0-31,3.0-1,3.4-8,3.10-14,4.0-32,5.0-36,6.0-37";
    check(13_089_783, without)?;
    check(13_089_783, "")
}

/// OWN-1: the items that were read of a generator, whose reader left it then, were not made again.
pub(super) fn items_of_a_generator_that_its_reader_has_left_are_made_again() -> Played {
    check(24_165_380, "")
}

/// OWN-1: an actor's placement group was removed while its launch was on the way: its process began, and was
/// stopped at once, when its arguments had been let go of.
pub(super) fn an_actor_that_is_over_as_it_begins_may_miss_its_arguments() -> Played {
    check(24_084_413, "")
}

/// OWN-1: a worker was killed while its lease was on the way to the caller of a task without retries.
pub(super) fn a_task_whose_worker_died_before_it_was_reached_runs_elsewhere() -> Played {
    match report_of(13_048_606, "f0,f2,0.8-46,1.27-42")?.count("errors") {
        0 => Ok(()),
        errors => Err(format!("{errors} reads end with an error")),
    }
}

/// OWN-1: a link broke, and with it the replies of the calls before the one that was running: the owner took
/// the second of them for not begun, and ran it elsewhere.
pub(super) fn calls_whose_replies_are_lost_with_the_link_count_as_begun() -> Played {
    check(30_002_834, "f1,f2,0.0-83,1.12-72")
}

/// A node hung while the control service started anew and gave up what was on that node; the node woke up, and
/// went on with a driver whose job was over.
pub(super) fn a_node_that_comes_after_a_recovery_has_ended_is_dead() -> Played {
    check(30_022_271, "0.45-47,0.49-50,0.52-55,0.57-58,0.60-80")
}

/// OWN-1: two workers ran calls for each other, and one ended after its last call (`max_calls`): the other closed the
/// connection to its lessee, and with it the answer that lay there. The call ran twice.
pub(super) fn the_last_answer_of_a_worker_that_was_a_lessee_too_is_read() -> Played {
    check_edition(3, 331)?;
    check_edition(3, 1_820)
}

/// STATE-2: an actor was told to move from a drained node, its process ended while the control service restarted, and
/// the next one took that for the actor's own end.
pub(super) fn an_actor_that_moves_while_the_control_service_restarts_lives_on() -> Played {
    check_edition(3, 280)?;
    check_edition(3, 1_345)
}

/// LIMIT-1: a store kept a copy whose reader had died before it told the owner (342), one that was made for an argument
/// before its call was known (1,853), and one of which the news was lost with a connection (2,159).
pub(super) fn no_store_keeps_what_nobody_refers_to() -> Played {
    for seed in [342, 1_853, 2_159] {
        check_edition(4, seed)?;
    }
    Ok(())
}

/// OWN-1: a node hung, was declared dead, and woke up: what a process there owned elsewhere was gone.
pub(super) fn what_is_owned_on_a_node_that_is_taken_for_dead_goes() -> Played {
    check_edition(4, 1_954)
}

/// LIMIT-1: the time was over that a node had to leave, a worker there still had what it had put, and that went to the
/// node's heir, where nobody freed it (`make chaos` with seed 11).
pub(super) fn what_workers_own_on_a_node_that_has_to_leave_goes_with_them() -> Played {
    for seed in [97, 152] {
        check_edition(5, seed)?;
    }
    Ok(())
}

/// An assertion ended a daemon: users of any bundle had parts of the GPU of which two bundles have a half each, and gave
/// them back to the wrong one.
pub(super) fn parts_of_a_gpu_go_back_to_the_bundle_that_they_came_from() -> Played {
    check_edition(8, 119)
}

/// OWN-1: the control service had restarted, and a node whose clock jumped then took the others, of which it had not been
/// told yet, for dead.
pub(super) fn a_clock_that_jumps_after_a_restart_buries_nobody() -> Played {
    check_edition(8, 1_394)
}

/// OWN-1: an actor's first call had not left its caller, whose head was cut off, and failed when the connection could not be
/// made (`make chaos` with seed 351,006).
pub(super) fn a_call_that_was_never_sent_waits_for_a_connection() -> Played {
    check_edition(10, 1_497)
}

/// LIMIT-1: what a driver had read stayed pinned where its value came after its reader had left (`make chaos` with seed 22).
pub(super) fn nothing_stays_pinned_that_came_too_late() -> Played {
    check_edition(10, 41)
}

/// A hole of the draw: where every node had a hundred slots, the actor that no node was to hold could live.
pub(super) fn what_no_node_can_hold_is_demand_also_where_nodes_have_room_for_all_actors() -> Played
{
    for seed in 0..10 {
        let report = run_with(&Case::of(seed), 0, |plan| {
            (plan.scene, plan.n_drivers, plan.slots) = (Some(Scene::Demand), 1, 100);
            (plan.has_kills, plan.has_groups, plan.start_failures) = (false, false, 0);
            plan.faults.clear();
        });
        report.is_right()?.has("looks at the demand")?;
    }
    Ok(())
}

/// A hole of the judge: a node left, its heir was lost, and with it an object that was never written there.
pub(super) fn what_a_node_has_inherited_is_lost_with_it() -> Played {
    let report = run_with(&Case { edition: 11, ..Case::of(280) }, 0, |plan| {
        (plan.scene, plan.cpus) = (Some(Scene::Staying), vec![2, 3, 2, 2]);
        (plan.n_drivers, plan.n_ops, plan.start_failures) = (2, 9, 0);
        (plan.has_kills, plan.has_groups) = (false, false);
        (plan.store_size, plan.slots, plan.skew_ms_max) = (128 << 10, 2, 0);
        (plan.gpus, plan.drift_ppm_max, plan.kill_us_max, plan.reach_us_max) = (0, 0, 500, 0);
        plan.faults = vec![
            (689_426, Fault::Drain),
            (925_887, Fault::NodeTorn { after: 3 }),
            (951_170, Fault::Stay),
            (1_176_649, Fault::Drain),
            (1_303_570, Fault::Stay),
        ];
    });
    report.is_right()?.has("errors")
}
