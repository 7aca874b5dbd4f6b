//! Copy of the first events of a thread: read in slices of the queue, packed, and staged in parts.

use std::sync::Arc;

use threadline_core::{
    Batch, Fence, LogSlice, Principal, ReadFrom, Run, RunStatus, Seq, Thread, ThreadId, ThreadKey, Timestamp,
    event::BatchBuilder,
    interrupt::{self, RunCommit},
    limits::{BODY_ROOM_WAIT, FOLD_EVENTS, MAX_PAGE, PAGE_BYTES, QUOTA_RETRY, SEAL_BYTES},
    lines,
    projection::closing::{Ending, OpenParts},
};
use threadline_store::{MovedThread, StagedPart, Staging, StoreError, staging::Packer};
use tokio::time::Instant;

use super::deps::ForkDeps;
use crate::{
    ForkError,
    limits::{BudgetOwner, MemoryKind, in_place},
};

/// Memory of a copy: pages of events until they make a segment, and the segments of a part.
const COPY_BYTES: usize = 2 * SEAL_BYTES + PAGE_BYTES;

/// Code and message of a run that answers interrupts, and that a fork has cut.
const CUT: (&str, &str) = (
    "forked",
    "The thread was forked before this run ended. The answers given to it do not count in the fork, and the interrupts are open again.",
);

/// Outcome of a copy.
pub(super) enum Copied {
    /// Copy that is staged under this key.
    Staged(ThreadKey, Box<MovedThread>),
    /// Thread that has the id already.
    Taken(Box<Thread>),
    /// Id under which another request stages a thread.
    Replaced(ThreadId),
}

/// Part of the events up to the base that is not staged yet, and what they say so far.
struct Copy<'c> {
    runs: &'c [Run],
    /// Run that goes on beyond the base.
    cut: Option<&'c Run>,
    packer: Packer,
    part: StagedPart,
    bytes: usize,
    /// Time of the newest event that was copied so far.
    newest: Timestamp,
    parts: OpenParts,
    /// True if the run that goes on answers interrupts.
    cuts_answer: bool,
    interrupts: Option<String>,
}

impl ForkDeps {
    /// Copies the first events of `parent` into staged data of the child.
    pub(super) async fn copied(
        &self,
        principal: &Principal,
        parent: &Thread,
        mut child: MovedThread,
        base: Seq,
    ) -> Result<Copied, ForkError> {
        let mut work = self.queue.begin(principal).await?;
        let mut memory = self.memory.place(MemoryKind::Fold, &BudgetOwner::of(principal));
        let room = memory.take(COPY_BYTES.min(memory.most_at_once()), Instant::now() + BODY_ROOM_WAIT).await;
        room.map_err(|full| self.quota.refuse(full.limit, full.value as u64, QUOTA_RETRY))?;

        let (now, mut runs) = (self.clock.now(), self.runs(parent, base).await?);
        // A run that goes on beyond the base ends in the fork.
        child.thread.last_run_at = runs.last().map(|newest| newest.ended_at.unwrap_or(now));
        let mut copy = Copy::of(&runs);
        let (mut key, mut since) = (None, 0);
        while since < base {
            work.go_on().await?;
            let page = self.store.page(parent.key, ReadFrom::After(since), FOLD_EVENTS).await?;
            let slice = page.ok_or(ForkError::ThreadNotFound)?.slice.between(since, base + 1);
            since = slice.last_seq().ok_or_else(|| StoreError::Corrupt(format!("the log ends at seq {since}")))?;
            work.done(slice.bytes(), slice.0.len());
            in_place(|| slice.0.iter().try_for_each(|batch| copy.push(batch)))?;
            if copy.bytes >= SEAL_BYTES {
                work.pause();
                match self.staged(key, &child, copy.take()).await? {
                    Ok(staged) => key = Some(staged),
                    Err(copied) => return Ok(copied),
                }
            }
        }
        let ended = copy.end_cut(&child.thread.id, base)?;
        child.interrupts = copy.interrupts.take();
        let mut rest = copy.finish()?;
        if let (Some(ended), Some(newest)) = (ended, runs.last_mut()) {
            child.thread.tail = ended.last_seq();
            *newest = ended;
        }
        child.fence = runs.last().map_or(Fence(0), |newest| newest.fence);
        rest.runs = runs;
        work.pause();
        Ok(match self.staged(key, &child, rest).await? {
            Ok(key) => Copied::Staged(key, Box::new(child)),
            Err(copied) => copied,
        })
    }

    /// Runs that have begun by the event `base`, oldest first, as of then.
    async fn runs(&self, parent: &Thread, base: Seq) -> Result<Vec<Run>, ForkError> {
        let (mut runs, mut before) = (Vec::new(), None::<Fence>);
        loop {
            let page = self.store.runs(parent.key, before, MAX_PAGE).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.fence);
            runs.extend(page.iter().filter_map(|run| run.as_of(base)));
        }
        runs.reverse();
        Ok(runs)
    }

    /// Stages a part, as the first one or as the next.
    async fn staged(
        &self,
        key: Option<ThreadKey>,
        child: &MovedThread,
        part: StagedPart,
    ) -> Result<Result<ThreadKey, Copied>, StoreError> {
        let store = &self.store;
        Ok(match key {
            None => match store.stage(child, part).await? {
                Staging::Staged(key) => Ok(key),
                Staging::Taken(there) => Err(Copied::Taken(there)),
            },
            Some(key) if store.stage_more(key, part).await? => Ok(key),
            Some(_) => Err(Copied::Replaced(child.thread.id.clone())),
        })
    }
}

impl<'c> Copy<'c> {
    fn of(runs: &'c [Run]) -> Self {
        Self {
            runs,
            cut: runs.last().filter(|run| run.status.is_active()),
            packer: Packer::new(runs),
            part: StagedPart::default(),
            bytes: 0,
            newest: Timestamp(0),
            parts: OpenParts::default(),
            cuts_answer: false,
            interrupts: None,
        }
    }

    fn push(&mut self, batch: &Arc<Batch>) -> Result<(), StoreError> {
        if self.cut.is_some_and(|cut| cut.id == batch.run) {
            batch.events().for_each(|(_, event)| self.parts.observe(event));
        }
        self.newest = batch.at;
        self.note_interrupts(batch);
        self.pack(batch)
    }

    fn pack(&mut self, batch: &Arc<Batch>) -> Result<(), StoreError> {
        for row in self.packer.push(batch.clone())? {
            self.bytes += row.row.body.len();
            self.part.rows.push(row);
        }
        Ok(())
    }

    /// Notes what the events do to the open interrupts. Only the first and the last events of a run do anything.
    fn note_interrupts(&mut self, batch: &Batch) {
        let at = self.runs.partition_point(|run| run.last_seq() < batch.last_seq);
        let Some(run) = self.runs.get(at) else { return };
        let ends = batch.last_seq == run.last_seq();
        if !ends && memchr::memmem::find(&batch.body, b"RUN_STARTED").is_none() {
            return;
        }
        let mut events = BatchBuilder::default();
        let readable = lines(&batch.body).all(|line| events.push_server_line(line).is_ok());
        let Some(events) = readable.then(|| events.finish().ok()).flatten() else { return };
        let (end, at) = ((run.last_seq(), run.status), (batch.last_seq, batch.at));
        let commit = RunCommit::of(&run.id, run.author.as_ref(), end, &events, at);
        self.interrupts = interrupt::after(self.interrupts.as_deref(), &commit);
        self.cuts_answer |= commit.answers.is_some() && self.cut.is_some_and(|cut| cut.id == run.id);
    }

    /// The part that is complete so far.
    fn take(&mut self) -> StagedPart {
        self.bytes = 0;
        std::mem::take(&mut self.part)
    }

    /// Ends the run that goes on beyond the base, by the last events of the copy. Returns its record in the fork. Answers that were
    /// not carried out settle nothing: a run that has some fails.
    fn end_cut(&mut self, thread: &ThreadId, base: Seq) -> Result<Option<Run>, StoreError> {
        let Some(cut) = self.cut else { return Ok(None) };
        // Time of the last event that was copied. By this node's clock the end could be later than an event that another node
        // appends after it.
        let at = self.newest;
        let error = self.cuts_answer.then(|| (CUT.0.to_owned(), CUT.1.to_owned()));
        let (ending, status) = match error.clone() {
            None => (Ending::Finished, RunStatus::Stopped),
            Some((code, message)) => (Ending::Error { code, message }, RunStatus::Error),
        };
        let events = self.parts.closers(thread.as_str(), cut.id.as_str(), &ending);
        let slice = LogSlice::of(&events, base + 1, &cut.id, at);
        slice.0.iter().try_for_each(|batch| self.pack(batch))?;
        let (error_code, error_message) = error.unzip();
        let ended = Run {
            status,
            error_code,
            error_message,
            producer_seq: cut.producer_seq + slice.count(),
            ended_at: Some(at),
            lease_until: None,
            stop_requested_at: None,
            ..cut.clone()
        };
        let end = (ended.last_seq(), status);
        let commit = RunCommit::of(&cut.id, cut.author.as_ref(), end, &events, (ended.last_seq(), at));
        self.interrupts = interrupt::after(self.interrupts.as_deref(), &commit);
        Ok(Some(ended))
    }

    fn finish(self) -> Result<StagedPart, StoreError> {
        let mut part = self.part;
        part.rows.extend(self.packer.finish()?);
        Ok(part)
    }
}
