//! Fork in which a run begins, as a client asks for it.

use threadline_core::{Seq, ThreadId};

/// Place at which a conversation is forked for a run.
#[derive(Debug, Clone)]
pub enum ForkPoint {
    /// Behind the event with this seq.
    At(Seq),
    /// Before this message: the messages of the run replace it and everything after it.
    Before(String),
    /// Before the run that made this message: the new run answers the same messages.
    Regenerate(String),
}

/// Fork in which a run begins.
#[derive(Debug, Clone)]
pub struct ForkStart {
    /// Place of the fork.
    pub point: ForkPoint,
    /// Id of the fork; generated if absent.
    pub thread: Option<ThreadId>,
    /// True to stop the active run of the thread that is forked, once the fork's run has begun.
    pub stop: bool,
    /// True to list the fork in place of the other branches of its conversation, once its run has begun.
    pub listed: bool,
}
