//! What a start brings with it, and what comes of it.

use super::StartedRun;
use crate::{
    domain::{NewEvents, Seq},
    store::Head,
};

/// What a start brings with it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Opening<'a> {
    /// Nothing.
    Bare,
    /// The first events of a run that the server drives.
    Driven(&'a NewEvents),
    /// All its events, the last one terminal; if so asked, behind this tail only.
    Whole(&'a NewEvents, Option<Seq>),
}

/// What came of a start, if it was not refused.
#[derive(Debug)]
pub(super) enum Begun<T = StartedRun> {
    /// The run is there.
    Run(T),
    /// The thread has another tail than was asked for.
    Moved,
    /// There is no such thread (any more).
    Gone,
}

impl<'a> Opening<'a> {
    /// Its events.
    pub fn events(self) -> Option<&'a NewEvents> {
        match self {
            Self::Bare => None,
            Self::Driven(events) | Self::Whole(events, _) => Some(events),
        }
    }

    /// The tail that the thread must have.
    pub fn at(self) -> Option<Seq> {
        if let Self::Whole(_, at) = self { at } else { None }
    }
}

impl Begun<(StartedRun, Head)> {
    /// What the door is told.
    pub fn without_head(self) -> Begun {
        match self {
            Self::Run((started, _)) => Begun::Run(started),
            Self::Moved => Begun::Moved,
            Self::Gone => Begun::Gone,
        }
    }
}
