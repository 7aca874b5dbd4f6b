//! Validation of what producers append, for those that ask for it.
//!
//! The state of a run's validation is kept in memory between two appends, as of the last event that was checked. Without it, as on
//! another node, the stored events of the run are read again.

use std::sync::Arc;

use moka::sync::Cache;
use threadline_core::{
    Fence, NewEvents, Principal, ReadFrom, Run, RunId, ThreadId, ThreadKey,
    event::Flaw,
    limits::{MEMORY_FREE_BYTES, VALIDATION_BYTES, VALIDATION_STEP_BYTES},
    projection::validating::Validation,
};
use threadline_store::DynStore;

use crate::{
    ValidateError,
    directory::Directory,
    limits::{BudgetExceeded, BudgetOwner, BudgetPermit, FairQueue, MemoryBudget, MemoryKind, in_place},
    records::RunAt,
};

/// An attempt at a run, by the incarnation of its thread, the fence of the run and the number of the attempt: the events of one
/// attempt are not those of another one with the same numbers.
type Key = (ThreadKey, Fence, u64);

/// State of a run's validation after some of its events.
struct Checked {
    /// Number of events that were checked. The last of them may not be stored yet.
    count: u64,
    validation: Validation,
}

/// Validation of a streamed run, with the memory that it takes of its producer's share.
#[derive(Debug)]
pub struct StreamValidation {
    validation: Validation,
    memory: BudgetPermit,
}

impl StreamValidation {
    /// Takes in the next event of the run, as JSON text, if it is as AG-UI has it.
    pub(crate) fn check(&mut self, event: &str) -> Result<(), Flaw> {
        self.validation.check(event)
    }

    /// Takes memory for all that was checked. One event may add more, within the bounds of a [`Validation`].
    pub(crate) fn room(&mut self) -> Result<(), BudgetExceeded> {
        let (weight, held) = (self.validation.weight(), self.memory.bytes());
        if weight <= held.max(MEMORY_FREE_BYTES) {
            return Ok(());
        }
        self.memory.take_now((weight - held).next_multiple_of(VALIDATION_STEP_BYTES))
    }
}

/// Memory of an entry beside what its validation takes, in bytes (about).
const ENTRY: usize = 256;

/// Use cases of validation.
#[derive(Clone)]
pub struct Validations {
    store: DynStore,
    directory: Directory,
    queue: FairQueue,
    memory: MemoryBudget,
    known: Cache<Key, Arc<Checked>>,
}

/// Place of an append within its run.
struct Place {
    validation: Validation,
    /// Number of events before those that are checked.
    before: u64,
    /// Events of the append that are stored already.
    skip: usize,
}

impl Validations {
    pub(crate) fn new(store: DynStore, directory: Directory, queue: FairQueue, memory: MemoryBudget) -> Self {
        let weight =
            |_: &Key, checked: &Arc<Checked>| u32::try_from(ENTRY + checked.validation.weight()).unwrap_or(u32::MAX);
        let known = Cache::builder().weigher(weight).max_capacity(VALIDATION_BYTES as u64).build();
        Self { store, directory, queue, memory, known }
    }

    /// Refuses an append with an event that is not as AG-UI has it, after the events of the run before. Events that are stored
    /// already are passed over. An append that fails for another reason is left to the append itself.
    pub async fn check_append(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        run: RunAt<'_>,
        producer_seq: Option<u64>,
        events: &NewEvents,
    ) -> Result<(), ValidateError> {
        let key = self.directory.find(principal, thread).await?.key;
        let facts = self.directory.run(key, run.id).await?;
        let Some(facts) = facts.filter(|facts| !facts.driven) else { return Ok(()) };
        let key = (key, facts.fence, run.attempt.unwrap_or(facts.fence.first_attempt()));
        let Some(place) = self.place(principal, key, run.id, producer_seq, events).await? else { return Ok(()) };
        let Place { mut validation, before, skip } = place;
        let check = || validation.check_batch(events, skip).map(|()| validation);
        let validation = self.queue.process(principal, events.body().len(), check).await??;
        if events.terminal().is_some() {
            self.known.invalidate(&key);
        } else {
            let count = before + (events.count() - skip) as u64;
            self.known.insert(key, Arc::new(Checked { count, validation }));
        }
        Ok(())
    }

    /// Refuses the events of a run that they are the beginning of, or all of it.
    pub async fn check_run(&self, principal: &Principal, events: &NewEvents) -> Result<(), ValidateError> {
        let check = || Validation::default().check_batch(events, 0);
        Ok(self.queue.process(principal, events.body().len(), check).await??)
    }

    /// Validation of a run that a producer continues, after its events before this number; of a new run without events.
    pub async fn of_stream(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        run: Option<&RunId>,
        producer_seq: u64,
    ) -> Result<StreamValidation, ValidateError> {
        let memory = self.memory.place(MemoryKind::Fold, &BudgetOwner::of(principal));
        let new = |validation| Ok(StreamValidation { validation, memory });
        let Some(id) = run.filter(|_| producer_seq > 1) else { return new(Validation::default()) };
        let key = self.directory.find(principal, thread).await?.key;
        let Some(run) = self.store.run(key, id).await? else { return new(Validation::default()) };
        new(self.stored(principal, key, &run, run.producer_seq.min(producer_seq - 1)).await?)
    }

    /// Place of an append; `None` if nothing of it is new.
    async fn place(
        &self,
        principal: &Principal,
        key: Key,
        id: &RunId,
        producer_seq: Option<u64>,
        events: &NewEvents,
    ) -> Result<Option<Place>, ValidateError> {
        let known = self.known.get(&key);
        if let (Some(known), Some(from)) = (&known, producer_seq)
            && known.count + 1 == from
        {
            let validation = known.validation.clone();
            return Ok(Some(Place { validation, before: known.count, skip: 0 }));
        }
        let Some(run) = self.store.run(key.0, id).await? else { return Ok(None) };
        let stored = run.producer_seq;
        let skip = match producer_seq {
            Some(from) if from > stored + 1 => return Err(ValidateError::ProducerSeqGap { expected: stored + 1 }),
            Some(from) => usize::try_from((stored + 1).saturating_sub(from)).unwrap_or(usize::MAX),
            None => 0,
        };
        if skip >= events.count() || !run.status.is_active() {
            return Ok(None);
        }
        let validation = match known.filter(|known| known.count == stored) {
            Some(known) => known.validation.clone(),
            None => self.stored(principal, key.0, &run, stored).await?,
        };
        Ok(Some(Place { validation, before: stored, skip }))
    }

    /// Validation after the first `count` events of a run.
    async fn stored(
        &self,
        principal: &Principal,
        key: ThreadKey,
        run: &Run,
        count: u64,
    ) -> Result<Validation, ValidateError> {
        let mut validation = Validation::default();
        let (mut cursor, end) = (run.first_seq - 1, run.first_seq - 1 + count);
        if cursor == end {
            return Ok(validation);
        }
        let mut work = self.queue.begin(principal).await?;
        while cursor < end {
            let Some(page) = self.store.read(key, ReadFrom::After(cursor), usize::MAX).await? else { break };
            let slice = page.slice.between(0, end + 1);
            let bytes = slice.events().map(|(_, event, _)| event.len()).sum();
            work.step(bytes).await?;
            in_place(|| slice.events().for_each(|(_, event, _)| validation.observe(event)));
            work.done(bytes, 0);
            cursor = page.slice.last_seq().unwrap_or(end).min(end);
        }
        Ok(validation)
    }
}
