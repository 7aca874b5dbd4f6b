//! Reading of a run that is taken up. The process before may go on meanwhile, so a take-up may need several tries: each reads
//! only what is new since the one before.

use std::sync::Arc;

use serde::Deserialize;
use threadline_core::{
    Epoch, Principal, ReadFrom, Run, Seq, json,
    projection::{begun_calls::BegunCalls, closing::OpenParts, conversation::UnverifiedCall, superseding::takeover},
};

use threadline_store::{Displaced, Head, StoreError};

use crate::{
    AttemptError, LookupError, ProjectionError,
    limits::in_place,
    read::{
        held::HeldConversation,
        projections::{Projections, Reading},
    },
    records::ThreadRef,
    runs::Runs,
};

/// An active run of a producer, before it is taken up.
pub(super) struct Found<'a> {
    pub principal: &'a Principal,
    pub thread: &'a Arc<ThreadRef>,
    pub head: Head,
    pub run: Run,
    /// Seq after the events that the run began with.
    pub opened: Seq,
    /// Ids of the attempts that are displaced once the run was taken up.
    pub displaced: Displaced,
}

/// Log and conversations of a run, as far as the tries of a take-up have read them.
pub(super) struct Seen {
    /// Incarnation of the log that was read.
    epoch: Epoch,
    /// Newest event that `logged` has.
    since: Seq,
    pub logged: Logged,
    /// Conversation before what the attempts have said; `None` until it is needed.
    pub before: Option<HeldConversation>,
    /// Conversation up to the newest event that was read.
    pub now: Option<Reading>,
}

/// Events of a run, as far as a take-up needs them.
#[derive(Default)]
pub(super) struct Logged {
    pub open: OpenParts,
    /// Calls of all attempts.
    pub calls: BegunCalls,
    /// Calls of the attempt before, and those that were without a result when it began.
    pub in_doubt: BegunCalls,
    /// True if an event of the run answers an interrupt.
    pub answers: bool,
}

impl Seen {
    /// Continues what earlier tries have read, if it is of the log that was found.
    pub fn of(before: Option<Self>, found: &Found<'_>) -> Self {
        let (epoch, tail) = (found.head.epoch, found.head.tail);
        let known = before.filter(|seen| seen.epoch == epoch && seen.since <= tail);
        known.unwrap_or_else(|| {
            let since = found.run.first_seq - 1;
            Self { epoch, since, logged: Logged::default(), before: None, now: None }
        })
    }
}

/// Parts of the engine with which a take-up reads.
pub(super) struct Reader<'a> {
    pub runs: &'a Runs,
    pub projections: &'a Projections,
}

impl Reader<'_> {
    /// Reads the run's events up to the tail that was found, in slices of the queue. False if the thread is gone.
    pub async fn read_log(&self, found: &Found<'_>, seen: &mut Seen) -> Result<bool, AttemptError> {
        let (store, tail) = (&self.runs.deps.store, found.head.tail);
        if seen.since >= tail {
            return Ok(true);
        }
        let mut work = self.projections.queue.begin(found.principal).await?;
        while seen.since < tail {
            work.go_on().await?;
            self.runs.deps.metrics.store_reads.fold.inc();
            let page = store.page(found.thread.key, ReadFrom::After(seen.since), usize::MAX).await?;
            let Some(page) = page else { return Ok(false) };
            let slice = page.slice.between(seen.since, tail + 1);
            let Some(last) = slice.last_seq() else { return Ok(false) };
            let logged = &mut seen.logged;
            in_place(|| slice.events().for_each(|(seq, event, _)| logged.observe(seq < found.opened, event)));
            work.done(slice.bytes(), slice.0.len());
            seen.since = last;
        }
        Ok(true)
    }

    /// Reads the conversations before the attempts and up to the tail that was found. False if the thread is gone.
    pub async fn read_conversations(&self, found: &Found<'_>, seen: &mut Seen) -> Result<bool, AttemptError> {
        let too_large = || AttemptError::RecoveryTooLarge(Box::new(found.run.clone()));
        let failed = |error| unprojected(error, too_large);
        let Found { thread, head, opened, .. } = found;
        // A credential may name another thread by this id than the one of its user.
        let principal = found.principal.clone().for_user(thread.user.clone());
        if seen.before.is_none() {
            let before = self.projections.at(&principal, &thread.id, Some(opened - 1), Some(head.epoch)).await;
            seen.before = Some(before.map_err(failed)?.conversation);
        }
        if !seen.before.as_ref().is_some_and(HeldConversation::leaves_room) {
            return Err(too_large());
        }
        match &mut seen.now {
            Some(now) => self.projections.read_on(&principal, thread.key, now, head.tail).await.map_err(failed),
            None => {
                let now = self.projections.reading(&principal, &thread.id, head.tail, head.epoch).await;
                seen.now = Some(now.map_err(failed)?);
                Ok(true)
            }
        }
    }
}

fn unprojected(error: ProjectionError, too_large: impl FnOnce() -> AttemptError) -> AttemptError {
    match error {
        ProjectionError::ThreadNotFound => LookupError::ThreadNotFound.into(),
        ProjectionError::ThreadAmbiguous => LookupError::ThreadAmbiguous.into(),
        ProjectionError::ConversationTooLarge => too_large(),
        ProjectionError::LogReplaced(replaced) => replaced.into(),
        // The log was longer a moment ago, so it has lost events.
        ProjectionError::CursorAhead { .. } => StoreError::Unavailable("the log has lost events".into()).into(),
        ProjectionError::Limited(limited) => AttemptError::Limited(limited),
        ProjectionError::Store(error) => error.into(),
    }
}

/// Calls that the CUSTOM event of an earlier take-up names.
#[derive(Deserialize)]
struct Earlier {
    #[serde(default)]
    unverified: Vec<UnverifiedCall>,
}

impl Logged {
    /// Takes in the next event. `is_opening` is true for an event that the run began with.
    fn observe(&mut self, is_opening: bool, event: &[u8]) {
        self.open.observe(event);
        let Ok(event) = std::str::from_utf8(event) else { return };
        self.answers |= is_answer(event);
        if is_opening {
            return;
        }
        self.calls.observe(event);
        self.in_doubt.observe(event);
        if let Some(Earlier { unverified }) = takeover(event) {
            self.in_doubt = unverified.into();
        }
    }
}

/// True if an event answers an interrupt.
fn is_answer(event: &str) -> bool {
    let resume = json::member(event, "input").and_then(|input| json::member(input, "resume"));
    resume.is_some_and(|resume| !matches!(resume, "null" | "[]"))
}
