//! The contract of the store port. Every test runs on every back-end.

mod agent_data;
mod agents;
mod annotations;
mod attempts;
mod branches;
mod bus;
mod checkpoints;
mod claimed;
mod clocks;
mod concurrent;
mod credentials;
mod damage;
#[path = "../shared/damaged_page.rs"]
mod damaged_page;
mod differential;
mod erasure;
mod feed;
mod identity;
mod interrupts;
mod items;
mod jobs;
mod kv;
mod last_run;
mod lineage;
mod lock;
mod log;
mod nodes;
mod packing;
mod postgres;
mod preconditions;
mod projections;
mod queries;
mod queue;
mod redis;
mod redis_cluster;
mod redis_sentinels;
mod restored;
mod runs;
mod secrets;
mod sqlite;
mod streams;
mod support;
mod threads;
mod tool_claims;
mod transfer;
mod trash;
mod turns;
mod usage;

use threadline_backing as backing;

/// Runs each test on each back-end.
macro_rules! contract {
    ($($module:ident: $($test:ident)+;)+) => {
        mod memory {
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                crate::$module::$test(crate::support::Env::memory()).await;
            })+)+
        }
        mod on_sqlite {
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                crate::$module::$test(crate::support::Env::sqlite().await).await;
            })+)+
        }
        mod on_postgres {
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                crate::$module::$test(crate::support::Env::postgres().await).await;
            })+)+
        }
    };
}

contract! {
    agent_data:
        data_of_agents_comes_back_from_the_trash
        data_of_agents_is_erased_with_its_user;
    streams:
        a_write_of_a_stream_needs_the_row_that_it_has_read
        of_concurrent_appends_to_a_stream_none_is_lost
        chunks_of_a_stream_are_read_in_pages
        a_deleted_source_stays_until_its_last_fork_is_gone
        expired_streams_are_swept
        streams_are_counted_and_erased_with_their_user;
    credentials:
        a_cutoff_only_moves_forward
        a_key_is_found_by_its_id_and_shows_its_last_use
        the_audit_is_read_forward_and_old_entries_go
        the_origin_of_an_agent_is_changed_by_who_saw_it;
    threads:
        a_create_is_idempotent
        a_thread_belongs_to_its_project_and_user
        lists_are_ordered_and_paged
        lists_can_leave_out_and_pick
        a_list_and_its_feed_miss_no_thread_that_jumps
        an_edit_needs_the_version_it_saw
        a_read_marker_only_moves_forward
        a_read_marker_is_in_the_feed_and_moves_no_thread
        a_deleted_thread_is_gone_at_once
        a_deleted_thread_is_purged_in_chunks
        a_recreated_thread_is_a_new_thread
        the_deletion_of_a_requested_thread_is_remembered_for_a_day;
    last_run:
        the_row_follows_the_newest_run
        runs_that_end_in_one_commit_end_each_in_its_row
        a_taken_turn_stays_the_newest_run
        the_feed_reports_start_and_end_with_the_state
        lists_are_filtered_by_status
        a_filtered_list_repeats_and_skips_no_thread_that_stays
        an_imported_thread_has_the_state_of_its_newest_run;
    interrupts:
        an_interrupt_is_open_until_a_run_that_answers_it_has_ended
        a_run_that_another_one_closes_settles_by_its_end
        runs_of_one_commit_change_each_its_own_thread
        a_row_lists_a_bounded_number_of_interrupts
        interrupts_of_an_agent_are_listed_whatever_producers_request
        threads_that_wait_are_listed_in_every_order
        a_deleted_thread_has_no_open_interrupt;
    claimed:
        users_have_ids_of_their_own
        a_claimed_id_is_taken_for_the_project
        of_concurrent_creations_one_takes_an_id
        the_trash_keeps_ids_of_users_apart
        ids_of_users_move_with_their_threads;
    runs:
        a_start_gives_the_thread_to_one_run
        a_start_repeated_is_the_same_run
        a_thread_without_an_agent_takes_that_of_its_first_run
        a_lapsed_run_is_closed_by_the_next_start
        a_close_with_an_old_tail_changes_nothing
        a_released_run_may_continue_until_the_next_start
        a_released_run_is_soon_due
        a_run_without_events_is_abandoned
        a_close_compares_and_sets
        a_close_if_due_asks_the_clock
        a_stop_is_remembered_once
        nothing_is_appended_once_a_stop_is_overdue
        a_heartbeat_extends_the_lease
        a_lease_can_be_made_shorter
        runs_that_are_due_are_found
        active_runs_are_counted_by_project_and_user
        a_run_is_counted_exactly_while_it_is_active
        a_due_run_is_claimed_once
        a_whole_run_is_one_commit
        a_start_may_ask_for_a_tail
        a_run_starts_with_its_first_events
        a_run_keeps_its_token_usage
        run_records_are_kept_and_paged;
    queue:
        queue_keeps_its_order_through_each_change
        queue_changes_compare_the_version
        queue_refuses_the_id_of_a_run
        queue_goes_on_in_the_commit_that_ends_a_run
        queue_end_by_an_append_is_left_to_advance
        queue_is_held_by_a_stop
        queue_is_not_overtaken_by_a_start
        queue_moves_in_free_threads
        queue_waits_for_interrupts
        queue_begins_a_turn_that_nobody_drives
        queue_goes_with_its_thread
        queue_ends_and_changes_race;
    turns:
        a_turn_that_is_given_up_is_claimed_once
        turns_of_a_lost_node_are_claimed
        a_node_claims_turns_of_its_own_that_it_has_lost
        a_takeover_displaces_the_driver_before
        a_takeover_needs_the_log_that_it_has_seen
        a_takeover_tells_of_a_call_that_the_claim_did_not_see
        of_concurrent_takeovers_one_succeeds
        a_turn_ends_with_its_run
        a_purge_leaves_no_turn_of_a_start_that_met_the_deletion
        nobody_writes_into_a_driven_run_without_the_fence_of_its_driver;
    attempts:
        a_producers_turn_names_its_attempt_and_its_begin
        a_take_up_displaces_the_attempt_before
        a_take_up_needs_the_log_that_it_has_seen
        a_run_remembers_whom_it_has_displaced
        the_first_attempt_has_the_number_of_its_generation
        of_concurrent_take_ups_one_succeeds;
    branches:
        a_fork_has_the_log_of_its_parent_and_a_life_of_its_own
        a_fork_needs_its_parent_as_it_was_read
        lists_and_feeds_show_one_branch_of_a_conversation
        of_concurrent_choices_one_branch_is_listed
        a_branch_is_idle_with_all_of_its_conversation;
    preconditions:
        a_write_that_requires_another_epoch_changes_nothing
        the_epoch_before_names_the_same_thread_but_not_the_same_log;
    log:
        appends_are_dense
        an_append_answers_with_the_head_after_it
        an_append_must_fit_the_producer_seq
        a_late_retry_changes_nothing
        the_terminal_event_frees_the_thread_in_its_commit
        a_terminal_error_is_recorded
        a_stale_writer_is_refused
        a_batch_of_many_threads_fails_only_for_the_stale
        a_thread_named_twice_in_a_batch_is_taken_in_order
        pages_have_every_cursor_both_ways
        pages_are_bounded_but_never_empty
        sealing_changes_nothing_for_readers
        sealing_packs_across_runs_and_skips_large_rows
        heads_are_read_in_one_query
        events_are_returned_byte_for_byte;
    packing:
        a_thread_is_packed_once_it_is_idle
        packing_changes_nothing_for_readers
        readers_see_no_seam_while_a_log_is_packed;
    jobs:
        a_job_is_taken_by_one_until_its_claim_ends
        a_job_that_fails_is_tried_less_often_and_parked
        the_age_of_the_oldest_job_is_measured
        a_run_puts_the_jobs_of_its_thread
        a_job_stays_if_a_run_began_in_its_thread_meanwhile
        a_job_of_the_store_is_put_once_or_anew
        jobs_go_with_their_thread;
    feed:
        the_feed_keeps_the_newest_change_of_each_thread
        a_feed_resumes_from_any_cursor
        deletions_are_fed
        a_thread_recreated_by_another_user_keeps_the_record_of_the_deletion
        dirty_feeds_are_found
        the_heads_of_feeds_are_read_in_one_query;
    projections:
        a_snapshot_is_found_by_seq_and_version
        snapshots_are_replaced_and_dropped
        events_after_the_newest_snapshot_are_measured
        events_after_a_snapshot_count_by_their_share_of_a_segment
        snapshots_go_with_their_thread;
    annotations:
        an_annotation_is_stored_once
        annotations_are_numbered_as_they_came
        annotations_go_with_their_thread
        one_of_many_concurrent_puts_of_an_annotation_is_first
        annotated_threads_are_listed_in_order;
    tool_claims:
        a_call_is_held_until_the_lease_is_over
        a_claim_is_given_up_by_its_holder
        a_claim_does_not_outlive_a_clock_that_is_set_back
        claims_go_with_their_thread
        of_many_concurrent_claims_one_is_held;
    checkpoints:
        a_checkpoint_is_stored_byte_for_byte_and_replaced
        a_checkpoint_needs_the_blobs_of_its_channels
        the_first_blob_of_a_version_stays
        writes_stay_or_are_replaced_by_their_number
        checkpoints_are_read_in_pages_the_newest_first
        checkpoints_of_all_threads_are_read_in_one_order
        parts_are_left_out_beyond_their_bytes
        a_deletion_takes_what_no_other_checkpoint_has
        a_deletion_goes_on_in_steps
        checkpoints_of_a_run_are_found_in_all_threads
        checkpoints_go_with_their_thread
        a_moved_checkpoint_replaces_none
        a_thread_has_a_bounded_number_of_bytes
        blobs_that_no_checkpoint_names_are_removed_after_an_hour
        a_deletion_races_checkpoints_and_none_loses_a_blob;
    items:
        items_are_added_in_order_and_read_in_pages
        a_repeated_operation_has_the_same_answer
        items_are_popped_replaced_and_copied
        a_pop_of_a_missing_list_is_remembered
        an_operation_needs_the_list_as_it_was_seen
        entries_are_written_with_the_list_or_not_at_all
        lists_go_with_their_thread
        what_is_over_is_removed_after_a_day
        a_thread_has_a_bounded_number_of_lists
        a_list_moves_with_its_tag_and_positions
        of_many_concurrent_appends_none_is_lost;
    kv:
        an_entry_is_stored_byte_for_byte_and_replaced
        a_batch_of_writes_is_stored_as_a_whole_or_not_at_all
        a_repeated_write_is_recognized_by_its_tag
        a_removal_is_recognized_by_its_tag
        a_batch_with_two_conditions_on_an_entry_is_repeated
        a_touch_lets_an_entry_expire_later_and_changes_nothing_else
        entries_of_a_deleted_thread_leave_the_sums_at_once
        entries_belong_to_their_owner
        entries_are_read_in_pages
        namespaces_are_listed_once_and_in_order
        an_entry_expires
        an_entry_goes_with_its_thread
        a_footprint_and_a_sum_count_entries
        entries_move_with_their_times
        of_many_concurrent_writes_with_one_condition_one_is_stored;
    agents:
        agents_are_kept_by_project;
    nodes:
        a_beat_is_numbered_and_has_the_time_of_the_store
        nodes_are_listed_as_their_last_beats_describe_them
        nodes_without_a_beat_for_long_are_forgotten;
    clocks:
        a_clock_that_jumps_ahead_ends_no_run
        a_clock_that_is_set_back_leaves_no_lease_for_ever
        leases_that_are_right_are_not_renewed
        time_in_a_log_never_goes_back
        a_log_that_is_more_than_an_hour_ahead_gets_the_time_of_the_store;
    identity:
        a_project_is_put_by_version
        keys_are_found_by_digest_and_belong_to_a_project
        a_key_is_revoked_once
        a_ticket_is_taken_once_and_in_time
        old_tickets_are_removed_as_new_ones_are_issued
        old_tickets_are_swept
        the_audit_is_paged_newest_first
        of_many_at_once_one_wins
        every_audit_entry_has_a_unique_number;
    erasure:
        idle_threads_are_found_the_longest_unused_first
        a_footprint_counts_what_is_there
        nothing_is_left_of_a_user
        a_returning_erased_user_starts_empty
        data_of_other_users_stays_when_a_user_is_erased
        a_long_feed_is_erased_completely;
    trash:
        a_thread_in_the_trash_is_gone_and_comes_back_as_it_was
        a_thread_in_use_is_not_put_in_the_trash
        the_feed_reports_the_trash_and_the_restoration
        an_id_in_use_is_not_restored
        the_trash_is_listed_newest_first
        the_trash_is_purged_when_its_time_has_come
        the_trash_of_a_user_is_erased
        the_trash_is_not_exported
        retention_waits_until_a_number_is_approved
        no_run_and_no_event_gets_into_the_trash;
    usage:
        sums_are_added_for_users_and_their_project
        nodes_that_add_at_once_lose_nothing
        a_purge_subtracts_what_it_removes
        a_count_corrects_a_sum
        sums_are_due_once_a_day
        nothing_is_counted_of_an_erased_user
        a_pass_over_the_sums_is_a_job_of_the_store;
    transfer:
        a_thread_moves_as_it_is
        a_requested_stop_is_transferred_with_its_run
        a_queue_is_not_transferred
        staged_data_is_invisible
        earlier_staged_data_is_discarded
        an_incomplete_log_is_not_published
        everything_is_listed_in_order
        a_feed_moves_with_its_positions
        changes_before_the_feed_was_imported_are_fed;
    lineage:
        a_log_enters_a_generation_with_its_first_write
        a_generation_is_recorded_in_the_audit_log
        fences_and_keys_are_not_given_in_two_generations
        a_feed_enters_a_generation_with_its_next_change
        generations_are_listed_with_their_causes
        an_imported_log_belongs_to_the_present_generation;
    concurrent:
        a_start_races_the_last_appends
        closes_race_appends
        a_batch_commits_beside_a_concurrent_close
        readers_see_a_growing_log_without_a_seam
        cancelled_callers_leave_no_partial_write
        creates_race_for_one_id
        marks_race_each_other_and_the_appends
        pumps_race_each_other;
}

/// Runs each test of the lock, or the bus, in process, on Redis, on a Redis that sentinels name, and on a Redis Cluster.
macro_rules! both {
    ($port:ident, $env:path: $($test:ident)+) => {
        mod $port {
            mod local {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    crate::$port::$test(<$env>::local()).await;
                })+
            }
            mod on_redis {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    crate::$port::$test(<$env>::redis(crate::backing::Redis::shared().url())).await;
                })+
            }
            mod on_sentinels {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    crate::$port::$test(<$env>::redis(crate::backing::Sentinels::shared().url())).await;
                })+
            }
            mod on_cluster {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    crate::$port::$test(<$env>::redis(crate::backing::RedisCluster::shared().url())).await;
                })+
            }
        }
    };
}

mod ports {
    both! {
        lock, crate::lock::Gate:
            a_lock_is_held_by_one
            many_at_once_and_one_gets_it
            only_its_holder_releases_a_lock
            a_renewal_keeps_it_and_restores_it
            a_lock_expires_without_a_release
            a_lock_is_taken_over_from_the_holder_that_was_read
    }
    both! {
        bus, crate::bus::Net:
            published_messages_arrive_on_other_nodes
            the_newest_hint_arrives
            a_full_queue_ends_in_a_resync
            a_node_that_left_does_not_disturb_the_others
            a_question_is_answered_to_the_node_that_asked
    }
}
