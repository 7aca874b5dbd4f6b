//! Takeovers of runs whose drivers are gone.

use threadline_core::{
    Epoch, NewEvents, Principal, ReadFrom, Run, Seq, ThreadId, UserId, WriteFence,
    limits::{MAX_ATTEMPTS, MAX_FUTILE_ATTEMPTS},
};
use threadline_store::{Before, ClaimTurns, StoreError, TakeTurn, Taken, Turn};

use crate::{
    after_commit::{Commit, RowChange},
    records::ThreadRef,
    runs::{Runs, close::CloseReason, driving::DriveRight, turns::HeldTurn},
};

/// A turn that this node has claimed, before its next attempt.
pub struct ClaimedTurn {
    runs: Runs,
    turn: Turn,
    /// `None` once the turn was taken.
    held: Option<HeldTurn>,
}

/// The next attempt of a run, in the hands of this node.
#[derive(Debug)]
pub struct NextAttempt {
    /// Right to write into the run.
    pub right: DriveRight,
    /// The run, with the events that supersede the attempt before.
    pub run: Run,
    /// True if the driver before noted a call of the agent, perhaps after the claim.
    pub called: bool,
}

/// The run of a claimed turn, as it is now.
#[derive(Debug, Clone)]
pub struct TurnState {
    /// The run, which is active.
    pub run: Run,
    /// Newest event of the log.
    pub tail: Seq,
    /// Incarnation of the log.
    pub epoch: Epoch,
    fence: WriteFence,
}

impl Runs {
    /// Claims up to `limit` turns without a driver. An error may leave turns claimed: the next call finds them again.
    pub async fn claim_turns(&self, limit: usize) -> Result<Vec<ClaimedTurn>, StoreError> {
        let (store, turns) = (&self.deps.store, &self.deps.turns);
        let mut own = Vec::new();
        if turns.looks_for_own() {
            // The store is asked first: a turn that ends meanwhile is in neither.
            let driven = store.turns_of(turns.node()).await?;
            own = turns.unheld(driven);
        }
        let claim = ClaimTurns { node: turns.node(), judges: turns.may_judge(), own, limit };
        let claimed = store.claim_turns(&claim).await?.into_iter().filter_map(|turn| {
            let held = turns.hold_alone(turn.key, &turn.run)?;
            Some(ClaimedTurn { runs: self.clone(), turn, held: Some(held) })
        });
        Ok(claimed.collect())
    }
}

impl ClaimedTurn {
    /// The turn as it was claimed.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Id of the thread.
    pub fn thread(&self) -> &ThreadId {
        &self.turn.thread
    }

    /// User who owns the thread.
    pub fn owner(&self) -> &UserId {
        &self.turn.user
    }

    /// Input that was kept for the agent.
    pub fn input(&self) -> Option<&str> {
        self.turn.input.as_deref()
    }

    /// The driver's principal: whatever happens to the credential that asked for the run, the run goes on.
    pub fn principal(&self) -> Principal {
        Principal::user(self.turn.project.clone(), self.turn.user.clone())
    }

    /// The run as it is now; `None` if it has ended, or another node drives it.
    pub async fn look(&self) -> Result<Option<TurnState>, StoreError> {
        let store = &self.runs.deps.store;
        let Some(head) = store.heads(&[self.turn.key]).await?.pop() else { return Ok(None) };
        let Some(run) = store.run(self.turn.key, &self.turn.run).await? else { return Ok(None) };
        let fence = WriteFence { run: run.fence, driver: self.turn.driver };
        let mine = run.status.is_active() && head.write_fence() == fence;
        Ok(mine.then_some(TurnState { run, tail: head.tail, epoch: head.epoch, fence }))
    }

    /// Applies `observe` to the run's events up to the newest one of `state`, with their seqs.
    pub async fn events(&self, state: &TurnState, mut observe: impl FnMut(Seq, &[u8])) -> Result<(), StoreError> {
        let mut since = state.run.first_seq - 1;
        while since < state.tail {
            self.runs.deps.metrics.store_reads.fold.inc();
            let page = self.runs.deps.store.page(self.turn.key, ReadFrom::After(since), usize::MAX).await?;
            let Some(last) = page.as_ref().and_then(|page| page.slice.last_seq()) else { return Ok(()) };
            for (seq, event, _) in page.iter().flat_map(|page| page.slice.events()) {
                if seq > since && seq <= state.tail {
                    observe(seq, event);
                }
            }
            since = last;
        }
        Ok(())
    }

    /// Attempts in a row that were lost without an event that is kept, with the one before the claim. `kept` is true if
    /// events of that one are kept.
    pub fn futile(&self, kept: bool) -> u64 {
        match self.turn.before {
            _ if kept => 0,
            Before::HandedOver => self.turn.futile,
            Before::NodeLost | Before::TaskLost => self.turn.futile + 1,
        }
    }

    /// True if there were so many attempts that the run ends.
    pub fn is_exhausted(&self, futile: u64) -> bool {
        futile >= MAX_FUTILE_ATTEMPTS || self.turn.attempt >= MAX_ATTEMPTS
    }

    /// Begins the next attempt, with events that supersede the attempt before, or with the first events of a run that began from the
    /// queue. `input` replaces the one that is kept. `None` if the run has ended, a stop was
    /// requested, or the log has other events by now.
    pub async fn take(
        &mut self,
        state: &TurnState,
        events: Option<NewEvents>,
        futile: u64,
        input: Option<String>,
    ) -> Result<Option<NextAttempt>, StoreError> {
        let deps = &self.runs.deps;
        let take = TakeTurn {
            key: self.turn.key,
            run: self.turn.run.clone(),
            fence: state.fence,
            tail: state.tail,
            driver: deps.turns.node(),
            events,
            futile,
            input,
        };
        let Some(Taken { committed: taken, called }) = deps.store.take_turn(take).await? else { return Ok(None) };
        let (head, slice) = (&taken.head, &taken.slice);
        let thread = self.thread_ref(head.epoch);
        deps.listeners.committed(&Commit { thread: &thread, head, slice, row: RowChange::Changed });
        if self.turn.attempt > 0 {
            deps.metrics.takeovers.count(self.turn.before.reason());
        }
        let Some(held) = self.held.take() else { return Ok(None) };
        let right = DriveRight::taken(self.runs.clone(), self.principal(), &self.turn, head.driver, held);
        Ok(Some(NextAttempt { right, run: taken.run, called }))
    }

    /// Ends the run with an error.
    pub async fn fail(&self, state: &TurnState, code: &str, message: String) -> Result<(), StoreError> {
        self.close(state, &CloseReason::failed(Some(code.to_owned()), Some(message))).await
    }

    /// Ends a run whose stop was requested.
    pub async fn stop(&self, state: &TurnState) -> Result<(), StoreError> {
        self.close(state, &CloseReason::Stopped).await
    }

    async fn close(&self, state: &TurnState, reason: &CloseReason) -> Result<(), StoreError> {
        let thread = self.thread_ref(state.epoch);
        self.runs.deps.closer.close(&thread, &self.turn.run, state.fence, None, reason).await.map(drop)
    }

    fn thread_ref(&self, epoch: Epoch) -> ThreadRef {
        let Turn { key, project, user, thread, .. } = &self.turn;
        ThreadRef { key: *key, epoch, project: project.clone(), user: user.clone(), id: thread.clone() }
    }
}
