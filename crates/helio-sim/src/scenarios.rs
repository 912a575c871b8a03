//! Scenarios with names: runs in which a certain thing happens each time.
//!
//! Some of them came from failures that long runs found; others play what single draws hardly ever come to, so that each
//! planted bug ([`crate::mutants`]) fails a seed or a scenario.

mod found;
mod planted;
mod tools;

pub use tools::Played;

/// A run, or several, with a name.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The thing that happens in it and comes out right.
    pub name: &'static str,
    /// Plays it.
    pub play: fn() -> Played,
}

/// Gives the names of all scenarios to a macro.
#[macro_export]
macro_rules! for_each_scenario {
    ($with:ident) => {
        $with! {
          found {
            a_node_that_hangs_while_it_is_cut_off_is_dead_sooner
            requests_that_are_lost_with_their_node_are_not_made_again_at_once
            a_small_object_has_room_beside_pinned_ones
            an_actor_leaves_nothing_in_its_creators_table
            a_call_and_its_hand_back_do_not_pass_each_other_for_ever
            answers_lost_with_one_of_two_links_are_asked_for_again
            two_attempts_in_one_process_may_write_the_same_object
            a_head_that_stands_still_does_not_give_itself_up
            a_task_that_outlives_its_caller_on_the_way_is_not_begun
            an_answer_on_a_new_connection_is_not_lost_with_the_old_one
            a_group_that_loses_two_nodes_is_placed_when_both_bundles_are
            a_process_that_dies_in_an_answer_begins_nothing
            a_lost_item_and_a_generator_that_waits_for_its_reader_do_not_wait_for_each_other
            a_method_does_not_wait_for_one_that_is_to_run_behind_it
            an_answer_goes_out_on_a_connection_that_its_caller_has_not_given_up
            a_later_attempt_of_a_generator_does_not_wait_for_the_reader_of_a_lost_item
            a_constructor_that_raised_unheard_is_reported_when_the_actor_is_sent_again
            an_actor_that_was_given_back_unheard_does_not_live_where_it_was_given_back
            items_of_a_generator_that_its_reader_has_left_are_made_again
            an_actor_that_is_over_as_it_begins_may_miss_its_arguments
            a_task_whose_worker_died_before_it_was_reached_runs_elsewhere
            calls_whose_replies_are_lost_with_the_link_count_as_begun
            a_node_that_comes_after_a_recovery_has_ended_is_dead
            the_last_answer_of_a_worker_that_was_a_lessee_too_is_read
            an_actor_that_moves_while_the_control_service_restarts_lives_on
            no_store_keeps_what_nobody_refers_to
            what_is_owned_on_a_node_that_is_taken_for_dead_goes
            what_workers_own_on_a_node_that_has_to_leave_goes_with_them
            parts_of_a_gpu_go_back_to_the_bundle_that_they_came_from
            a_clock_that_jumps_after_a_restart_buries_nobody
            a_call_that_was_never_sent_waits_for_a_connection
            nothing_stays_pinned_that_came_too_late
            what_no_node_can_hold_is_demand_also_where_nodes_have_room_for_all_actors
            what_a_node_has_inherited_is_lost_with_it
          }
          planted {
            a_node_that_is_cut_off_stops_its_workers
            a_disk_that_was_full_once_is_tried_again
            a_restart_of_the_control_service_grants_no_life
            a_lost_order_to_stay_is_given_again
            a_node_does_not_join_the_session_that_follows_its_own
            news_of_an_older_life_do_not_end_the_next_one
            no_worker_is_asked_for_when_its_calls_are_cancelled
            idle_workers_end
            what_a_cancelled_call_has_made_goes_on
            a_copy_goes_with_the_reader_that_died_unheard
            items_of_which_nobody_has_heard_go_with_their_generator
            a_refusal_that_nobody_read_is_not_for_the_next_reader
            an_actor_whose_move_ends_unheard_lives_on
            a_drained_node_leaves_when_it_is_heard
          }
        }
    };
}

macro_rules! list {
    ($($module:ident { $($name:ident)* })*) => {
        /// All scenarios.
        pub const SCENARIOS: &[Scenario] =
            &[$($(Scenario { name: stringify!($name), play: $module::$name }),*),*];
    };
}

for_each_scenario!(list);
