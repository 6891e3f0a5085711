//! The list of cases, and how they are run.

use crate::{Stand, cases as c};
use futures::{FutureExt, StreamExt, future::LocalBoxFuture, stream};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Ends,
    Stops,
    Output,
    Environment,
    Once,
    Others,
    Leases,
    Many,
}

#[derive(Debug)]
pub struct Case<S> {
    pub name: &'static str,
    pub group: Group,
    pub run: for<'a> fn(&'a S) -> LocalBoxFuture<'a, ()>,
}

macro_rules! list {
    ($($group:ident: $module:ident { $($name:ident),* $(,)? })*) => {
        /// Every case there is.
        pub fn cases<S: Stand>() -> Vec<Case<S>> {
            vec![$($(Case { name: stringify!($name), group: Group::$group, run: |stand| c::$module::$name(stand).boxed_local() }),*),*]
        }
    };
}

list! {
    Ends: ends {
        exit_zero_is_told, exit_one_is_told, the_highest_exit_code_is_told, death_by_kill_is_told, death_by_term_is_told,
        a_program_that_is_not_there_is_127, a_program_that_is_a_folder_is_126, an_end_reads_the_same_at_every_look,
        a_runs_length_is_measured, what_a_command_leaves_behind_ends_with_it, a_checkpoints_name_is_kept,
        without_a_command_devices_are_held,
    }
    Stops: stops {
        what_was_never_started_is_not_there, a_run_that_was_just_asked_for_can_be_stopped, a_polite_end_is_left_alone,
        who_does_not_hear_is_killed_after_the_grace, a_checkpoint_is_asked_for_first, stopping_twice_is_stopping_once,
        stopping_what_ended_changes_nothing, grandchildren_are_stopped_too, a_program_without_a_shell_hears_the_polite_signal,
        a_stopped_run_does_not_start_again,
        the_last_checkpoint_is_named_by_a_stopped_run_too,
    }
    Output: output {
        both_streams_are_kept_in_order, output_is_read_from_any_byte, a_line_of_a_million_bytes_is_whole,
        output_beyond_the_limit_is_cut, bytes_that_are_no_text_are_replaced, characters_are_never_cut,
        a_run_nobody_knows_has_no_output, output_is_there_while_it_runs, output_stays_after_a_restart,
    }
    Environment: environment {
        the_environment_is_the_orders, no_word_of_an_order_reaches_a_shell, a_run_begins_in_its_own_folder,
        a_large_variable_arrives_whole, devices_are_shown_by_their_familys_variable, what_cannot_be_run_is_refused,
    }
    Once: once {
        starting_twice_runs_once, what_ended_is_not_run_again, nothing_is_known_before_the_first_start,
        a_restart_right_after_the_start_runs_it_once, a_restart_while_it_runs_adopts_it,
        a_restart_while_it_stops_goes_on_stopping, a_restart_after_the_end_tells_the_same_end,
        generations_are_runs_of_their_own, replicas_are_runs_of_their_own, a_gang_starts_as_one,
        a_gang_waits_for_all_of_it,
    }
    Others: others {
        what_was_started_is_listed_until_it_is_forgotten, a_namesake_of_somebody_else_is_not_ours,
        devices_of_others_are_counted, a_runs_end_is_known_after_the_site_forgot_it,
        an_end_while_nobody_looked_is_known_after_the_site_forgot_it, a_run_that_lost_its_supervisor_is_no_success,
        nothing_runs_beside_its_removed_folder, two_agents_do_not_see_each_others_runs,
    }
    Leases: leases {
        a_lease_ends_a_run_although_nobody_looks, a_lease_that_is_prolonged_keeps_a_run,
        a_lease_that_is_over_lets_nothing_begin, without_a_lease_a_run_goes_on,
    }
    Many: many { many_runs_end_each_in_its_own_way }
}

/// Runs cases side by side, `width` at a time, and says which failed; panics unless all passed. Needs a runtime of tokio.
/// With `RHUMB_CASE` only those are run whose name has it as a part.
pub async fn run<S: Stand>(stand: Arc<S>, groups: &[Group], width: usize) {
    let part = std::env::var("RHUMB_CASE").unwrap_or_default();
    let chosen = cases::<S>().into_iter().filter(|case| groups.contains(&case.group) && case.name.contains(&part));
    let results: Vec<(&str, bool)> = stream::iter(chosen)
        .map(|case| {
            let stand = Arc::clone(&stand);
            async move {
                let began = Instant::now();
                let done = AssertUnwindSafe((case.run)(&stand)).catch_unwind().await;
                println!("{} {} ({:.1?})", if done.is_ok() { "ok  " } else { "FAIL" }, case.name, began.elapsed());
                (case.name, done.is_ok())
            }
        })
        .buffer_unordered(width)
        .collect()
        .await;
    let failed: Vec<&str> = results.iter().filter(|(_, passed)| !passed).map(|(name, _)| *name).collect();
    println!("{} cases, {} failed", results.len(), failed.len());
    assert!(failed.is_empty(), "failed: {failed:?}");
}
