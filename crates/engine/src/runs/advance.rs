//! The queue goes on: what begins when a run ends, or in a free thread.

use std::{collections::HashMap, sync::Arc};

use serde_json::json;
use threadline_core::{
    AuditEntry, Hold, KeyId, NewEvents, ProjectId, Run, RunId, Terminal, Timestamp,
    interrupt::{self, RunCommit},
    limits::MOVING_QUEUES,
};
use threadline_store::{
    Advance, Advanced, ChangeQueue, CloseWhen, Closing, Due, DynStore, Head, Queue, QueuedTurn, StoreClock, StoreError,
};
use tokio::sync::Notify;

use crate::{
    after_commit::{Commit, Listeners, RowChange},
    credentials::{Cutoffs, Holder},
    metrics::Metrics,
    records::ThreadRef,
    run_counts::count_ended,
};

/// Number of tries to begin the next turn of a free thread while its queue changes.
const TRIES: usize = 8;

/// Fate of a queue when its thread is free.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    next: Option<RunId>,
    dropped: Vec<RunId>,
    held: Option<Hold>,
}

/// The first turn that may still begin; those before it are dropped. Nothing begins while something holds the queue, or interrupts
/// are `open`.
fn plan(turns: &[QueuedTurn], held: Option<Hold>, open: bool, refused: impl Fn(&QueuedTurn) -> bool) -> Plan {
    if held.is_some() || open {
        return Plan { next: None, dropped: Vec::new(), held };
    }
    let dropped: Vec<_> = turns.iter().take_while(|turn| refused(turn)).map(|turn| turn.run.clone()).collect();
    let next = turns.get(dropped.len()).map(|turn| turn.run.clone());
    Plan { next, dropped, held }
}

/// Open interrupts after the end of a run.
fn interrupts_after(queue: &Queue, run: &Run, closing: &Closing) -> Option<String> {
    let events = closing.events.as_ref();
    let commit = RunCommit {
        run: &run.id,
        author: run.author.as_ref(),
        answers: events.and_then(NewEvents::answers),
        status: closing.status,
        requested: events.and_then(NewEvents::terminal).and_then(Terminal::interrupts),
        seq: closing.tail,
        at: Timestamp(0),
    };
    interrupt::after(queue.interrupts.as_deref(), &commit)
}

/// Queues, as ends of runs and the loop for free threads go on with them.
pub(crate) struct Queues {
    pub store: DynStore,
    pub clock: StoreClock,
    pub cutoffs: Arc<Cutoffs>,
    pub metrics: Metrics,
    pub listeners: Listeners,
    /// Notified when a run has begun that nobody drives yet, or a queue moves.
    pub work: Notify,
}

impl Queues {
    /// Ends the active run before queued turns, and begins the next one in the same commit. `None`: the head, or the queue, has
    /// changed meanwhile, and nothing was done.
    pub async fn end(
        &self,
        thread: &ThreadRef,
        run: &Run,
        closing: Closing,
        when: CloseWhen,
    ) -> Result<Option<Advanced>, StoreError> {
        let Some(queue) = self.store.queue(thread.key).await? else { return Ok(None) };
        let held = queue.head.queue.held.or(closing.status.is_failure().then_some(Hold::Error));
        let open = interrupts_after(&queue, run, &closing).is_some();
        self.advance(thread, &queue, Some((closing, when)), held, open).await
    }

    /// Begins the next turn of a free thread. True if one began.
    pub async fn begin_next(&self, thread: &ThreadRef) -> Result<bool, StoreError> {
        for _ in 0..TRIES {
            let Some(queue) = self.store.queue(thread.key).await? else { return Ok(false) };
            if queue.head.active.is_some() || !queue.head.queue.moves() || queue.interrupts.is_some() {
                return Ok(false);
            }
            if self.advance(thread, &queue, None, None, false).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Begins the next turns of free threads whose queues move: of those whose last run ended without one, because interrupts were
    /// open or something held the queue.
    pub async fn move_all(&self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let moving = self.store.moving_queues(after, MOVING_QUEUES).await?;
            let more = moving.len() == MOVING_QUEUES;
            for Due { key, project, user, thread: id } in moving {
                after = Some(key);
                let Some(head) = self.store.heads(&[key]).await?.pop() else { continue };
                let thread = ThreadRef { key, epoch: head.epoch, project, user, id };
                self.begin_next(&thread).await?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    async fn advance(
        &self,
        thread: &ThreadRef,
        queue: &Queue,
        end: Option<(Closing, CloseWhen)>,
        held: Option<Hold>,
        open: bool,
    ) -> Result<Option<Advanced>, StoreError> {
        let refused = if held.is_some() || open { HashMap::new() } else { self.refused(thread, &queue.turns).await? };
        let Plan { next, dropped, held } = plan(&queue.turns, held, open, |turn| refused.contains_key(&turn.run));
        if end.is_none() && next.is_none() {
            let order = queue.turns.iter().map(|turn| turn.run.clone()).filter(|run| !dropped.contains(run)).collect();
            let change = ChangeQueue {
                key: thread.key,
                seen: queue.head.clone(),
                order,
                new: None,
                edited: None,
                gone: dropped.clone(),
                held,
            };
            if let Some(head) = self.store.change_queue(change).await? {
                self.changed(thread, &head);
                self.report(thread, &dropped, &refused).await;
            }
            return Ok(None);
        }
        let advance = Advance { key: thread.key, end, seen: queue.head.queue, next, dropped: dropped.clone(), held };
        let ends = advance.end.is_some();
        let Some(advanced) = self.store.advance(advance).await? else { return Ok(None) };
        let committed = &advanced.committed;
        let (head, slice) = (&committed.head, &committed.slice);
        if ends && advanced.begun.is_some() {
            // Listeners that follow one run see it end before the next one begins.
            let free = Head { fence: queue.head.fence, driver: queue.head.driver, active: None, ..head.clone() };
            self.listeners.committed(&Commit { thread, head: &free, slice, row: RowChange::Changed });
            self.changed(thread, head);
        } else {
            self.listeners.committed(&Commit { thread, head, slice, row: RowChange::Changed });
        }
        if ends {
            count_ended(&self.metrics, committed.run.status);
        }
        if advanced.begun.is_some() {
            self.metrics.runs.started.inc();
        }
        self.work.notify_one();
        self.report(thread, &dropped, &refused).await;
        Ok(Some(advanced))
    }

    /// Tells listeners of a head that changed without an event.
    pub fn changed(&self, thread: &ThreadRef, head: &Head) {
        let slice = threadline_core::LogSlice::default();
        self.listeners.committed(&Commit { thread, head, slice: &slice, row: RowChange::Changed });
    }

    /// Turns at the front of a queue that may not begin any more, with the reason: the key behind the caller was revoked, or a sign-out
    /// has ended what the caller had shown. The end of a token's time is no reason.
    async fn refused(
        &self,
        thread: &ThreadRef,
        turns: &[QueuedTurn],
    ) -> Result<HashMap<RunId, &'static str>, StoreError> {
        let (mut refused, mut keys) = (HashMap::new(), HashMap::new());
        for turn in turns {
            if self.is_signed_out(thread, turn)? {
                refused.insert(turn.run.clone(), "signed-out");
                continue;
            }
            let Some(key) = &turn.key else { break };
            if !keys.contains_key(key) {
                keys.insert(key, self.is_revoked(&thread.project, key).await?);
            }
            if !keys[key] {
                break;
            }
            refused.insert(turn.run.clone(), "key-revoked");
        }
        Ok(refused)
    }

    async fn is_revoked(&self, project: &ProjectId, key: &KeyId) -> Result<bool, StoreError> {
        let found = self.store.key_named(project, key).await?;
        Ok(found.is_none_or(|key| key.revoked_at.is_some()))
    }

    fn is_signed_out(&self, thread: &ThreadRef, turn: &QueuedTurn) -> Result<bool, StoreError> {
        // A key itself is never signed out.
        if !turn.asked_by.as_ref().is_some_and(|author| author.is_user()) {
            return Ok(false);
        }
        let holder = Holder { project: &thread.project, user: Some(&thread.user), key: turn.key.as_ref() };
        self.cutoffs.refuses(holder, Some(turn.at))
    }

    /// Notes in the audit that turns were dropped. They are gone, whether or not this succeeds.
    async fn report(&self, thread: &ThreadRef, dropped: &[RunId], refused: &HashMap<RunId, &'static str>) {
        for run in dropped {
            let facts = json!({ "threadId": thread.id.as_str(), "runId": run.as_str(), "reason": refused.get(run) });
            let entry = AuditEntry {
                project: thread.project.clone(),
                at: self.clock.now(),
                actor: "node".to_owned(),
                action: "turn.cancelled".to_owned(),
                facts: facts.to_string(),
            };
            if let Err(error) = self.store.record(&entry).await {
                tracing::warn!(%error, thread = %thread.id, %run, "cannot note a cancelled turn in the audit");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use threadline_core::AgentId;

    use super::*;

    fn turns(runs: &[&str]) -> Vec<QueuedTurn> {
        let turn = |run: &&str| QueuedTurn {
            run: RunId::new(run).expect("id"),
            agent: AgentId::new("a").expect("id"),
            asked_by: None,
            key: None,
            at: Timestamp(0),
            input: None,
        };
        runs.iter().map(turn).collect()
    }

    fn planned(held: Option<Hold>, open: bool, refused: &[&str]) -> (Option<String>, usize, Option<Hold>) {
        let Plan { next, dropped, held } =
            plan(&turns(&["a", "b", "c"]), held, open, |turn| refused.contains(&turn.run.as_str()));
        (next.map(|run| run.to_string()), dropped.len(), held)
    }

    #[test]
    fn the_first_turn_that_may_begin_is_the_next() {
        assert_eq!(planned(None, false, &[]), (Some("a".into()), 0, None));
        assert_eq!(planned(None, false, &["a", "c"]), (Some("b".into()), 1, None));
        assert_eq!(planned(None, false, &["a", "b", "c"]), (None, 3, None));
    }

    #[test]
    fn a_queue_that_rests_begins_and_drops_nothing() {
        for held in Hold::ALL {
            assert_eq!(planned(Some(held), false, &["a"]), (None, 0, Some(held)));
        }
        assert_eq!(planned(None, true, &["a"]), (None, 0, None));
    }
}
