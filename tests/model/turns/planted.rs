//! The design as it is, or without one of its rules.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    Whole,
    // Recovery
    DriveIfCreated,    // a turn is driven only by the node that got the answer to its start
    NoOwnScan,         // a node leaves its own turns alone, also those that it knows nothing of
    TakeKeepsFence,    // a takeover does not raise the fence
    CloseByFreshFence, // a driver ends its run by the fence that it reads just then
    MarkAfterCall,     // `called` is written after the call
    TakeClearsCalled,  // a takeover clears `called` by what it read, and does not look at what it overwrote
    RetryBlind,        // a run is tried again after it has logged a tool call
    RetryApproved,     // a run that answers interrupts is tried again after it was called
    NoSupersede,       // a takeover writes nothing about what the attempt before it has logged
    TakeForgetsRecord, // rows after a takeover show the fence of the attempt
    StartTwice,        // a start does not know its own retry
    TakeRemoves,       // a takeover removes what the attempt before it has logged
    NoBudget,          // attempts that come to nothing are not counted
    JudgeAfterOutage,  // a node judges others though its own beats were late
    LeavingIsDead,     // a node that drains counts as lost at once
    EntryOutlivesTask, // what a task entered into the registry of its node stays there when the task ends
    DriverShowsRecord, // the fence of a driver is the one that the run is recorded with
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
