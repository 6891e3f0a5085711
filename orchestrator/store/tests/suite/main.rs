//! One behavioural suite for every store: each case runs on SQLite, and on a PostgreSQL that is started for it.

#![allow(clippy::unwrap_used, clippy::wildcard_imports)] // all of it is tests

mod admission;
mod bench;
mod bounds;
mod crash;
mod enrolment;
mod fixture;
mod holds;
mod keys;
mod lead;
mod orders;
mod quotes;
mod slots;
mod stream;
mod tunnels;
mod world;

use bench::Bench;

macro_rules! cases {
    ($($module:ident: $($case:ident),+;)+) => {
        /// One test per case.
        mod sqlite {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::$module::$case(&crate::Bench::sqlite().await).await;
                }
            )+)+
        }

        /// One server for all cases, a database for each.
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn postgres() {
            let Some(server) = rhumb_store::testing::PostgresServer::start().await.unwrap() else { return };
            let mut failed = Vec::new();
            $($(
                let bench = Bench::postgres(&server).await;
                let case = tokio::task::LocalSet::new();
                let end = case.run_until(async {
                    tokio::task::spawn_local(async move { $module::$case(&bench).await }).await
                });
                if end.await.is_err() {
                    failed.push(stringify!($case));
                }
            )+)+
            lead::what_a_frozen_leader_has_locked_is_let_go(&server).await;
            bounds::a_lock_that_stays_is_given_up(&server).await;
            bounds::a_server_that_hangs_is_left(&server).await;
            bounds::a_read_only_server_is_not_ready(&server).await;
            assert!(failed.is_empty(), "failed on PostgreSQL: {failed:?}");
        }
    };
}

cases! {
    slots:
        what_is_held_for_a_time_leaves_the_rest_of_it_free,
        what_is_held_for_good_is_free_in_no_slot,
        what_is_held_is_exchanged_in_one_step,
        a_slot_is_never_over_full_whatever_is_written,
        of_many_at_once_a_slot_takes_what_it_has,
        work_that_takes_longer_holds_its_link_for_longer,
        what_is_over_is_forgotten_and_counts_no_more;
    orders:
        an_order_reads_back_as_it_was_accepted,
        a_change_needs_the_current_version,
        what_was_decided_on_an_older_document_is_refused_and_holds_nothing,
        what_a_change_leaves_out_stays,
        a_final_state_is_final,
        orders_come_in_pages_newest_first,
        live_orders_are_those_without_an_end,
        one_bad_intent_leaves_only_itself_out,
        the_ledger_bills_a_fact_once,
        what_does_not_exist_is_named;
    stream:
        events_of_an_order_have_no_gaps_under_concurrency,
        a_follower_sees_every_event_once;
    holds:
        a_rival_is_refused_until_what_is_held_is_given_back,
        of_fifty_at_once_twenty_get_room,
        a_link_is_never_over_full,
        a_refused_reservation_leaves_nothing,
        an_nvlink_island_is_kept_whole,
        shares_never_exceed_a_card,
        a_replica_on_its_own_node,
        replicas_of_one_rack_stay_in_it,
        cores_and_memory_run_out_too,
        a_smaller_inventory_keeps_holds_and_gives_no_new_ones,
        a_draining_site_takes_nothing_new,
        churn_leaves_nothing_behind;
    tunnels:
        of_twenty_at_once_sixteen_get_distinct_numbers,
        a_path_has_its_numbers_until_nothing_is_left_of_it,
        what_has_ended_or_is_of_before_gets_no_number,
        a_number_twice_is_impossible;
    quotes:
        a_quote_holds_until_it_ends,
        an_accepted_quote_keeps_its_devices,
        a_quote_is_accepted_once_in_time_by_its_tenant,
        a_refused_quote_is_remembered;
    world:
        reports_must_be_newer,
        capacity_is_not_cut_below_what_is_reserved,
        logs_are_kept_once_and_bounded,
        windows_of_links_are_kept_once_and_for_a_time;
    admission:
        tokens_read_back,
        a_revoked_token_stays_so,
        tokens_come_in_pages_as_far_as_one_may_see_them,
        a_closed_tenant_is_let_in_no_more,
        what_administrators_did_is_written_with_it_and_stays,
        a_tenant_of_before_is_known,
        of_eight_at_once_a_quota_lets_as_many_in_as_it_says,
        accelerators_are_counted_where_they_are_held;
    enrolment:
        a_join_token_makes_one_certificate,
        a_revoked_certificate_is_good_for_nothing,
        the_newest_authority_stays;
    keys:
        a_key_has_one_first_answer,
        a_key_makes_one_order,
        a_claim_is_taken_over_when_it_is_old;
    lead:
        one_leads_at_a_time,
        who_gives_up_is_followed_at_once,
        what_an_old_leader_commits_is_refused,
        nothing_of_an_old_leader_comes_after_the_new_one,
        a_lease_of_before_the_clock_was_set_back_is_over;
    crash:
        what_was_answered_survives_kill,
        an_epoch_is_never_given_twice,
        a_newer_schema_is_left_alone,
        several_may_open_at_once,
        callers_that_go_away_leave_no_open_transaction;
}
