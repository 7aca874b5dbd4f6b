//! The design as it is, or without one of its rules, and what the checker has to find then.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use self::Design::*;
use super::{
    Scope,
    scopes::{
        ANSWERED_BESIDE, APPROVED, ASKED, ASKED_AGAIN, BESIDE, CONTINUED, DOOMED, DRAINED, DRIVEN, FAILED_OVER, ONCE,
        OUTAGE, PRODUCED, QUEUE, QUEUE_LOST, QUEUED_ASKED, REVOKED,
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    Whole,
    // Recovery
    DriveIfCreated,     // a turn is driven only by the node that got the answer to its start
    NoOwnScan,          // a node leaves its own turns alone, also those that it knows nothing of
    TakeKeepsFence,     // a takeover does not raise the fence
    CloseByFreshFence,  // a driver ends its run by the fence that it reads just then
    MarkAfterCall,      // `called` is written after the call
    TakeClearsCalled,   // a takeover clears `called` by what it read, and does not look at what it overwrote
    RetryBlind,         // a run is tried again after it has logged a tool call
    ContinueForgets,    // an agent that continues is told of the calls of the lost attempt alone
    RetryApproved,      // a run that answers interrupts is tried again after it was called
    NoSupersede,        // a takeover writes nothing about what the attempt before it has logged
    TakeForgetsRecord,  // rows after a takeover show the fence of the attempt
    StartTwice,         // a start does not know its own retry
    TakeRemoves,        // a takeover removes what the attempt before it has logged
    NoBudget,           // attempts that come to nothing are not counted
    JudgeAfterOutage,   // a node judges others though its own beats were late
    LeavingIsDead,      // a node that drains counts as lost at once
    EntryOutlivesTask,  // what a task entered into the registry of its node stays there when the task ends
    FencesRepeat,       // a fence does not have the generation in it
    ContinueUncompared, // a driver goes on after a loss of commits without comparing its run
    DriverShowsRecord,  // the fence of a driver is the one that the run is recorded with
    // The queue
    QueueUnversioned,   // changes and begins do not compare the version of the queue
    StopClears,         // a stop empties the queue
    StopKeepsVersion,   // a stop holds the queue without changing its version
    BeginRevoked,       // an item is begun whatever became of the key that asked for it
    NextInSecondCommit, // the next turn is begun after the commit that ends the run
    StartJumps,         // a start does not look at the queue
    HoldOutlivesQueue,  // a stop holds a queue that is empty
    EnqueueOverEnded,   // the statement that queues an item does not look for a run of this id
    // Interrupts
    InterruptHolds,      // an interrupt holds the queue by a state of its own, if there are items
    FinishSettles,       // any finished run settles what is open
    SettleUncounted,     // what is settled is not taken off the number in the head
    CheckOutsideHead,    // whether interrupts are open is read before a start, and not compared by it
    RandomResumeId,      // a run that answers interrupts has an id of its own
    IdsInOneSpace,       // clients may choose the id that is derived for a run that answers interrupts
    ResumeBringsAnswers, // a start gives the agent its own answers, whatever was answered before
}

/// Searches level by level, so that the trace it prints is a shortest one.
fn breaks(scope: Scope, design: Design, property: &'static str) {
    let begun = Instant::now();
    let scope = Scope { design, reaches: &[], ..scope };
    for depth in 4..=18 {
        let search = scope.checker().target_max_depth(depth).finish_when(HasDiscoveries::AnyOf([property].into()));
        let checker = search.spawn_bfs().join();
        if let Some(path) = checker.discovery(property) {
            let (states, trace) = (checker.unique_state_count(), path.into_actions());
            return println!("{design:?} breaks {property:?}: {trace:?}, in {states} states, {:?}", begun.elapsed());
        }
    }
    panic!("{design:?} was not found to break {property:?}");
}

macro_rules! controls {
    ($($test:ident: $design:ident in $scope:ident breaks $property:literal;)*) => {
        $(#[test] fn $test() { breaks($scope, $design, $property); })*
    };
}

controls! {
    with_a_turn_that_only_its_starter_drives: DriveIfCreated in DRIVEN breaks "what is accepted ends";
    with_nodes_that_leave_their_own_turns_alone: NoOwnScan in DRIVEN breaks "what is accepted ends";
    with_a_takeover_that_keeps_the_fence: TakeKeepsFence in DRIVEN breaks "nothing of an attempt after the next one began";
    with_a_driver_that_closes_by_a_fresh_fence: CloseByFreshFence in DRIVEN breaks "no old driver ends a run";
    with_a_mark_after_the_call: MarkAfterCall in ONCE breaks "what may be called once is called once";
    with_a_takeover_that_clears_what_it_did_not_read: TakeClearsCalled in ONCE breaks "what may be called once is called once";
    with_a_retry_after_a_tool_call: RetryBlind in DRIVEN breaks "no attempt calls that began after a logged tool call";
    with_a_retry_of_what_was_approved: RetryApproved in APPROVED breaks "what may be called once is called once";
    with_attempts_that_forget_calls_in_doubt: ContinueForgets in CONTINUED breaks "an agent that continues knows of each call in doubt";
    without_supersession: NoSupersede in DRIVEN breaks "the fold shows one attempt";
    with_a_takeover_that_forgets_the_record: TakeForgetsRecord in DRIVEN breaks "the rows of a run stand under its record, and together";
    with_starts_that_do_not_know_their_retry: StartTwice in DRIVEN breaks "an item begins once";
    with_runs_that_begin_again: StartTwice in DRIVEN breaks "one terminal each, and nothing after it";
    with_a_takeover_that_removes: TakeRemoves in DRIVEN breaks "the log only grows";
    without_a_budget: NoBudget in DOOMED breaks "attempts that come to nothing are counted";
    with_judges_that_were_late_themselves: JudgeAfterOutage in OUTAGE breaks "no live node loses a run as the store was away";
    with_nodes_that_are_lost_while_they_leave: LeavingIsDead in DRAINED breaks "no live node loses a run as the store was away";
    with_entries_that_outlive_their_task: EntryOutlivesTask in QUEUE_LOST breaks "what is accepted ends";
    with_fences_that_repeat: FencesRepeat in FAILED_OVER breaks "nothing of an attempt after the next one began";
    with_drivers_that_go_on_after_a_loss: ContinueUncompared in FAILED_OVER breaks "a run that ends has all that was acknowledged to its driver";
    with_a_driver_that_shows_its_record: DriverShowsRecord in DRIVEN breaks "nobody but the driver writes to a driven run";
    with_begins_that_compare_no_version: QueueUnversioned in QUEUE breaks "items begin in the order last committed";
    with_begins_of_what_was_cancelled: QueueUnversioned in QUEUE breaks "no item begins that was cancelled";
    with_begins_of_what_was_edited_since: QueueUnversioned in QUEUE breaks "an item begins as it was last edited";
    with_a_number_of_items_from_an_old_list: QueueUnversioned in QUEUE breaks "as many items are queued as the head says";
    with_changes_that_compare_no_version: QueueUnversioned in QUEUE breaks "nothing accepted is swallowed";
    with_a_stop_that_empties_the_queue: StopClears in QUEUE breaks "nothing accepted is swallowed";
    with_a_stop_that_keeps_the_version: StopKeepsVersion in QUEUE breaks "no item begins in a held queue";
    with_items_of_revoked_keys: BeginRevoked in REVOKED breaks "no item begins for a key that is known to be revoked";
    with_the_next_turn_in_a_second_commit: NextInSecondCommit in QUEUE breaks "an end leaves no queue that moves behind";
    with_starts_that_jump_the_queue: StartJumps in BESIDE breaks "no start jumps a queue that moves";
    with_a_hold_of_an_empty_queue: HoldOutlivesQueue in QUEUE breaks "a hold of a stop or an error holds something";
    with_items_that_have_run_before: EnqueueOverEnded in QUEUE_LOST breaks "what a node decides by the store as it is gets through";
    with_interrupts_that_hold_by_themselves: InterruptHolds in QUEUED_ASKED breaks "what a node decides by the store as it is gets through";
    with_any_run_settling: FinishSettles in PRODUCED breaks "an interrupt is open until its answer";
    with_a_check_outside_of_the_head: CheckOutsideHead in PRODUCED breaks "no run begins over an open interrupt";
    with_random_ids_of_answering_runs: RandomResumeId in ASKED_AGAIN breaks "no run begins over an open interrupt";
    with_two_runs_for_one_answer: RandomResumeId in ASKED_AGAIN breaks "one run answers, and whoever answered is told of it";
    with_a_number_of_interrupts_that_stays: SettleUncounted in ASKED breaks "as many interrupts wait as the head says";
    with_derived_ids_that_clients_may_take: IdsInOneSpace in ANSWERED_BESIDE breaks "what a node decides by the store as it is gets through";
    with_starts_that_bring_answers: ResumeBringsAnswers in ASKED breaks "the first answer is the one that the agent gets";
}
