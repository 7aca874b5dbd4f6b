//! Changes of queues by people: each is computed from what was read, and written if the queue still has that version.

use std::sync::Arc;

use threadline_core::{
    Hold, Principal, RunId, Scope, ThreadId,
    limits::{MAX_QUEUE_BYTES, MAX_QUEUED_TURN_BYTES, MAX_QUEUED_TURNS, MAX_QUEUED_TURNS_OF_USER},
};
use threadline_store::{ChangeQueue, Queue, QueuedTurn, StoreError};

use crate::{
    QueueError, authority,
    directory::Attempt,
    errors::QueueLimit,
    records::{ThreadAt, ThreadRef},
    runs::{
        Runs,
        queued_turn::{Enqueued, PlacedTurn, ThreadQueue, TurnEdit, TurnRequest},
    },
    subscription::ReplacedLog,
};

/// Number of other changes that may overtake one before the caller must retry.
const TRIES: usize = 32;

/// A change of a queue, as it is computed from what the queue is.
type Change = Result<Option<ChangeQueue>, QueueError>;

fn keeping(queue: &Queue) -> ChangeQueue {
    ChangeQueue {
        key: queue.head.key,
        seen: queue.head.clone(),
        order: queue.turns.iter().map(|turn| turn.run.clone()).collect(),
        new: None,
        edited: None,
        gone: Vec::new(),
        held: queue.head.queue.held,
    }
}

fn bytes(input: Option<&str>) -> usize {
    input.map_or(0, str::len)
}

/// Refuses a turn with this input beside `others`.
fn check_room<'t>(others: impl Iterator<Item = &'t QueuedTurn>, input: &str) -> Result<(), QueueError> {
    if input.len() > MAX_QUEUED_TURN_BYTES {
        return Err(QueueError::QueueFull(QueueLimit::TurnBytes));
    }
    let others: usize = others.map(|turn| bytes(turn.input.as_deref())).sum();
    if others + input.len() > MAX_QUEUE_BYTES {
        return Err(QueueError::QueueFull(QueueLimit::QueueBytes));
    }
    Ok(())
}

/// Moves a turn before another one, or to the end. `None`: the other one is not queued.
fn moved(order: &mut Vec<RunId>, run: &RunId, before: Option<&RunId>) -> Option<()> {
    order.retain(|other| other != run);
    let place = match before {
        Some(before) => order.iter().position(|other| other == before)?,
        None => order.len(),
    };
    order.insert(place, run.clone());
    Some(())
}

fn placed(queue: &ThreadQueue, run: &RunId) -> Option<PlacedTurn> {
    let place = queue.turns.iter().position(|turn| turn.run == *run)?;
    Some(PlacedTurn { turn: queue.turns[place].clone(), place: place + 1, version: queue.state.version })
}

impl Runs {
    /// The queue of a thread.
    pub async fn queue(&self, principal: &Principal, thread: &ThreadId) -> Result<ThreadQueue, QueueError> {
        let read = move |thread: Arc<ThreadRef>| async move {
            Ok::<_, QueueError>(self.deps.store.queue(thread.key).await?.map(ThreadQueue::from).into())
        };
        self.deps.directory.with_thread(principal, thread, read).await
    }

    /// Queues a turn behind the active run, or before the other turns. A repetition with the same id finds the turn where it is.
    pub async fn enqueue(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        request: &TurnRequest,
    ) -> Result<Enqueued, QueueError> {
        self.deps.lifecycle.refuse_if_draining()?;
        authority::require(principal, Scope::Chat)?;
        let put = move |thread: Arc<ThreadRef>| async move {
            if request.epoch.is_some() {
                self.deps.directory.head_at::<QueueError>(thread.key, request.epoch).await?;
            }
            self.check_storage(principal, &thread, &request.run).await?;
            for _ in 0..TRIES {
                let Some(queue) = self.deps.store.queue(thread.key).await? else { return Ok(Attempt::ThreadGone) };
                if let Some(placed) = placed(&queue.clone().into(), &request.run) {
                    return Ok(Attempt::Done(Enqueued::Queued(placed)));
                }
                let free = queue.head.active.is_none() && !queue.head.queue.moves();
                if free || self.deps.store.run(thread.key, &request.run).await?.is_some() {
                    return Ok(Attempt::Done(Enqueued::Free));
                }
                let change = self.coming(principal, &thread, &queue, request).await?;
                let Some(head) = self.deps.store.change_queue(change).await? else { continue };
                self.deps.queues.changed(&thread, &head);
                if !request.interrupts && head.active.is_none() {
                    self.deps.queues.work.notify_one();
                }
                let placed =
                    self.deps.store.queue(thread.key).await?.and_then(|queue| placed(&queue.into(), &request.run));
                // The turn has begun in the meantime.
                return Ok(Attempt::Done(placed.map_or(Enqueued::Free, Enqueued::Queued)));
            }
            Err(overtaken())
        };
        let enqueued = self.deps.directory.with_thread(principal, thread, put).await?;
        if request.interrupts && matches!(enqueued, Enqueued::Queued(_)) {
            self.stop_for(principal, thread, &request.run).await?;
        }
        Ok(enqueued)
    }

    async fn coming(
        &self,
        principal: &Principal,
        thread: &ThreadRef,
        queue: &Queue,
        request: &TurnRequest,
    ) -> Result<ChangeQueue, QueueError> {
        if queue.turns.len() >= MAX_QUEUED_TURNS {
            return Err(QueueError::QueueFull(QueueLimit::Turns));
        }
        check_room(queue.turns.iter(), &request.input)?;
        let bound = MAX_QUEUED_TURNS_OF_USER;
        if self.deps.store.queued_turns(&thread.project, &thread.user, bound).await? >= bound {
            return Err(QueueError::QueueFull(QueueLimit::TurnsOfUser));
        }
        let mut change = keeping(queue);
        change.order.insert(if request.interrupts { 0 } else { change.order.len() }, request.run.clone());
        change.new = Some(QueuedTurn {
            run: request.run.clone(),
            agent: request.agent.clone(),
            asked_by: Some(principal.author()),
            key: principal.key().cloned(),
            at: self.deps.queues.clock.now(),
            input: Some(request.input.clone()),
        });
        Ok(change)
    }

    /// Stops the active run for the turn that is the first; what is queued goes on. The turn may have begun meanwhile.
    async fn stop_for(&self, principal: &Principal, thread: &ThreadId, turn: &RunId) -> Result<(), QueueError> {
        let stop = move |thread: Arc<ThreadRef>| async move {
            let newest = self.deps.store.runs(thread.key, None, 1).await?.pop();
            let other = newest.filter(|run| run.status.is_active() && run.id != *turn);
            Ok::<_, QueueError>(Attempt::Done(other.map(|run| run.id)))
        };
        let Some(run) = self.deps.directory.with_thread(principal, thread, stop).await? else { return Ok(()) };
        match self.request_stop(principal, ThreadAt::from(thread), &run, false).await {
            Err(crate::StopError::Store(error)) => Err(error.into()),
            // The run has ended, or its thread is gone.
            _ => Ok(()),
        }
    }

    /// Computes a change until it is written; nothing is written for `None`. Answers with the queue as it is then.
    async fn change_queue(
        &self,
        principal: &Principal,
        at: ThreadAt<'_>,
        change: impl Fn(&Queue) -> Change,
    ) -> Result<ThreadQueue, QueueError> {
        authority::require(principal, Scope::Chat)?;
        let change = &change;
        let write = move |thread: Arc<ThreadRef>| async move {
            for _ in 0..TRIES {
                let Some(queue) = self.deps.store.queue(thread.key).await? else { return Ok(Attempt::ThreadGone) };
                ReplacedLog::refuse(at.epoch, &queue.head).map_err(QueueError::LogReplaced)?;
                let Some(wanted) = change(&queue)? else { return Ok(Attempt::Done(queue.into())) };
                let Some(head) = self.deps.store.change_queue(wanted).await? else { continue };
                self.deps.queues.changed(&thread, &head);
                if head.active.is_none() && head.queue.moves() {
                    self.deps.queues.begin_next(&thread).await?;
                }
                return Ok::<_, QueueError>(self.deps.store.queue(thread.key).await?.map(ThreadQueue::from).into());
            }
            Err(overtaken())
        };
        self.deps.directory.with_thread(principal, at.id, write).await
    }

    /// Changes the input or the place of a queued turn.
    pub async fn edit_turn(
        &self,
        principal: &Principal,
        at: ThreadAt<'_>,
        run: &RunId,
        edit: TurnEdit,
    ) -> Result<ThreadQueue, QueueError> {
        let edit = &edit;
        let changed = self.change_queue(principal, at, |queue| {
            let version = queue.head.queue.version;
            if edit.version.is_some_and(|wanted| wanted != version) {
                return Err(QueueError::QueueChanged { version });
            }
            if !queue.turns.iter().any(|turn| turn.run == *run) {
                return Err(QueueError::TurnNotFound);
            }
            let mut change = keeping(queue);
            if let Some(input) = &edit.input {
                check_room(queue.turns.iter().filter(|turn| turn.run != *run), input)?;
                change.edited = Some((run.clone(), input.clone()));
            }
            if let Some(before) = &edit.before
                && before.as_ref() != Some(run)
                && moved(&mut change.order, run, before.as_ref()).is_none()
            {
                return Err(QueueError::TurnNotFound);
            }
            Ok(Some(change))
        });
        match changed.await {
            Err(QueueError::TurnNotFound) => Err(self.missing(principal, at.id, run).await),
            changed => changed,
        }
    }

    /// Error for a turn that is not queued: it has begun, or there is none.
    async fn missing(&self, principal: &Principal, thread: &ThreadId, run: &RunId) -> QueueError {
        match self.get(principal, thread, run).await {
            Ok(run) => QueueError::TurnBegun(Box::new(run)),
            Err(crate::RunLookupError::Store(error)) => error.into(),
            Err(_) => QueueError::TurnNotFound,
        }
    }

    /// Removes a queued turn. A turn that is not there is removed already.
    pub async fn cancel_turn(&self, principal: &Principal, at: ThreadAt<'_>, run: &RunId) -> Result<(), QueueError> {
        let queue = self.change_queue(principal, at, |queue| {
            let mut change = keeping(queue);
            change.order.retain(|other| other != run);
            change.gone.push(run.clone());
            Ok((change.order.len() < queue.turns.len()).then_some(change))
        });
        queue.await?;
        match self.missing(principal, at.id, run).await {
            QueueError::TurnNotFound => Ok(()),
            error => Err(error),
        }
    }

    /// Holds the queue until it is released.
    pub async fn hold_queue(&self, principal: &Principal, at: ThreadAt<'_>) -> Result<ThreadQueue, QueueError> {
        self.set_held(principal, at, Some(Hold::Hand)).await
    }

    /// Releases the queue, whatever holds it. In a free thread the next turn begins.
    pub async fn release_queue(&self, principal: &Principal, at: ThreadAt<'_>) -> Result<ThreadQueue, QueueError> {
        self.set_held(principal, at, None).await
    }

    async fn set_held(
        &self,
        principal: &Principal,
        at: ThreadAt<'_>,
        held: Option<Hold>,
    ) -> Result<ThreadQueue, QueueError> {
        let set = |queue: &Queue| {
            let changes = queue.head.queue.held != held;
            Ok(changes.then(|| ChangeQueue { held, ..keeping(queue) }))
        };
        self.change_queue(principal, at, set).await
    }

    /// Begins a queued turn as soon as possible: it is the first, nothing holds the queue, and the active run is stopped.
    pub async fn start_turn(
        &self,
        principal: &Principal,
        at: ThreadAt<'_>,
        run: &RunId,
    ) -> Result<ThreadQueue, QueueError> {
        let first = self.change_queue(principal, at, |queue| {
            let mut change = ChangeQueue { held: None, ..keeping(queue) };
            if !change.order.contains(run) {
                return Err(QueueError::TurnNotFound);
            }
            let front = change.order[0].clone();
            if front != *run {
                moved(&mut change.order, run, Some(&front));
            }
            Ok(Some(change))
        });
        let queue = match first.await {
            Err(QueueError::TurnNotFound) => return Err(self.missing(principal, at.id, run).await),
            queue => queue?,
        };
        if placed(&queue, run).is_some() {
            self.stop_for(principal, at.id, run).await?;
        }
        Ok(queue)
    }

    /// Queued turn of an id.
    pub async fn queued_turn(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        run: &RunId,
    ) -> Result<Option<PlacedTurn>, QueueError> {
        Ok(placed(&self.queue(principal, thread).await?, run))
    }

    /// Begins the next turns of free threads whose queues move.
    pub async fn move_queues(&self) -> Result<(), StoreError> {
        self.deps.queues.move_all().await
    }

    /// Waits until a run has begun that nobody drives yet.
    pub async fn begun(&self) {
        self.deps.queues.work.notified().await;
    }
}

fn overtaken() -> QueueError {
    StoreError::Unavailable("the queue is changing too fast; try again".into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_moves_before_another_one_or_to_the_end() {
        let ids = |runs: &[&str]| -> Vec<RunId> { runs.iter().map(|run| RunId::new(run).expect("id")).collect() };
        let after = |run: &str, before: Option<&str>| {
            let mut order = ids(&["a", "b", "c"]);
            let before = before.map(|run| RunId::new(run).expect("id"));
            moved(&mut order, &RunId::new(run).expect("id"), before.as_ref()).map(|()| order)
        };
        assert_eq!(after("c", Some("a")), Some(ids(&["c", "a", "b"])));
        assert_eq!(after("a", Some("c")), Some(ids(&["b", "a", "c"])));
        assert_eq!(after("a", None), Some(ids(&["b", "c", "a"])));
        assert_eq!(after("a", Some("x")), None);
    }
}
