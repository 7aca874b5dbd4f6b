//! Checkpoints: what a framework stores at the steps of a graph, and continues from.

use std::sync::Arc;

use threadline_core::{
    Principal, RunId, ThreadId, UserId,
    checkpoints::{
        Blob, ChannelAt, Checkpoint, CheckpointId, CheckpointNs, CheckpointParts, CheckpointPosition, FoundCheckpoint,
        FoundWrite, MetadataFilter, TaskId, TaskWrites, TypedData, WhichCheckpoints,
    },
    limits::{
        AGENT_DATA_ANSWER_BYTES, AGENT_DATA_SWEEP, CHECKPOINT_GROUP, CHECKPOINT_SWEEP, CHECKPOINTS_SCANNED,
        WORK_SLICE_ROWS,
    },
};
use threadline_store::{
    CheckpointBound, CheckpointDone, CheckpointPart, CheckpointScope, CheckpointWalk, PutCheckpoint, StoreError,
};

use super::{AgentDataDeps, AnswerRoom, ROUNDS};
use crate::{
    AgentDataError, DataLimit, directory::Attempt, limits::QueuedWork, metrics::AgentTable, records::ThreadRef,
};

/// Use cases of checkpoints.
#[derive(Clone)]
pub struct Checkpoints {
    pub(crate) deps: Arc<AgentDataDeps>,
}

/// List of checkpoints, the newest first.
#[derive(Debug, Clone)]
pub struct ListCheckpoints {
    /// Thread of the checkpoints; `None` for all threads that the principal sees.
    pub thread: Option<ThreadId>,
    /// Namespace of the checkpoints; `None` for all.
    pub ns: Option<CheckpointNs>,
    /// Position behind which the list begins.
    pub from: CheckpointPosition,
    /// Members that their metadata has.
    pub filter: MetadataFilter,
    /// Most checkpoints that are returned.
    pub limit: usize,
    /// True if bytes are wanted.
    pub data: bool,
}

/// A checkpoint with its blobs and writes.
#[derive(Debug, Clone)]
pub struct WholeCheckpoint {
    /// Checkpoint with its thread.
    pub found: FoundCheckpoint,
    /// Parts of the checkpoint. Values for which the answer has no room are left out.
    pub parts: CheckpointParts,
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct CheckpointPage {
    /// Checkpoints, the newest first.
    pub checkpoints: Vec<WholeCheckpoint>,
    /// Position behind which the list goes on; `None` at its end.
    pub next: Option<CheckpointPosition>,
}

impl Checkpoints {
    /// Stores values of channels. One that is there stays as it is.
    pub async fn put_blobs(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        ns: &CheckpointNs,
        blobs: &[Blob],
    ) -> Result<(), AgentDataError> {
        self.admit(principal).await?;
        let store = move |thread: Arc<ThreadRef>| async move {
            let done = self.blobs(&thread, ns, blobs).await?;
            self.outcome(principal, &thread, done, &[])
        };
        self.deps.directory.with_thread(principal, thread, store).await
    }

    /// Stores a checkpoint with values of channels. All of its channels must have values.
    pub async fn put(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        checkpoint: &Checkpoint,
        blobs: &[Blob],
    ) -> Result<(), AgentDataError> {
        self.admit(principal).await?;
        let store = move |thread: Arc<ThreadRef>| async move {
            for _ in 0..ROUNDS {
                if !blobs.is_empty() {
                    let done = self.blobs(&thread, &checkpoint.ns, blobs).await?;
                    if let Attempt::ThreadGone = self.outcome(principal, &thread, done, &[])? {
                        return Ok(Attempt::ThreadGone);
                    }
                }
                let done = {
                    let _turn = self.deps.turn().await?;
                    self.deps.store.put_checkpoint(thread.key, checkpoint, PutCheckpoint::Replace).await?
                };
                match done {
                    // A blob was there, and a deletion has removed it with the last checkpoint that had it: it is stored again.
                    CheckpointDone::BlobMissing(missing)
                        if blobs.iter().any(|blob| blob.at == checkpoint.channels[missing]) => {}
                    done => return self.outcome(principal, &thread, done, &checkpoint.channels),
                }
            }
            Err(changing())
        };
        self.deps.directory.with_thread(principal, thread, store).await
    }

    /// Stores writes of a task beside a checkpoint, which may come later.
    pub async fn put_writes(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        ns: &CheckpointNs,
        id: &CheckpointId,
        writes: &TaskWrites,
    ) -> Result<(), AgentDataError> {
        self.admit(principal).await?;
        let store = move |thread: Arc<ThreadRef>| async move {
            let done = {
                let _turn = self.deps.turn().await?;
                self.deps.store.put_writes(thread.key, ns, id, writes).await?
            };
            self.outcome(principal, &thread, done, &[])
        };
        self.deps.directory.with_thread(principal, thread, store).await
    }

    /// Reads a checkpoint, or the newest one of a namespace.
    pub async fn get(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        ns: &CheckpointNs,
        id: Option<&CheckpointId>,
    ) -> Result<WholeCheckpoint, AgentDataError> {
        let read = move |thread: Arc<ThreadRef>| async move {
            let (least, from) = match id {
                Some(id) => (id.as_str().to_owned(), CheckpointPosition::before(id.next())),
                None => (String::new(), CheckpointPosition::newest()),
            };
            let scope = CheckpointScope::Namespace(thread.key, ns.clone(), least);
            let bound = CheckpointBound { limit: 1, bytes: usize::MAX, data: true };
            for _ in 0..ROUNDS {
                let Some(found) = self.deps.store.checkpoints(&scope, &from, bound).await?.pop() else {
                    let what = match id {
                        Some(id) => format!("checkpoint {:?} in the namespace {:?}", id.as_str(), ns.as_str()),
                        None => format!("checkpoint in the namespace {:?}", ns.as_str()),
                    };
                    return self.missing(&thread, what).await;
                };
                let mut room = AnswerRoom::new();
                room.take(found.own_bytes());
                let parts = self.deps.store.checkpoint_parts(std::slice::from_ref(&found), room.left()).await?;
                if let Some(parts) = parts.into_iter().next().filter(|parts| found.is_whole(&parts.blobs)) {
                    return Ok(Attempt::Done(WholeCheckpoint { found, parts }));
                }
            }
            Err(changing())
        };
        self.deps.directory.with_thread(principal, thread, read).await
    }

    /// Reads the value of a channel.
    pub async fn blob(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        ns: &CheckpointNs,
        at: &ChannelAt,
    ) -> Result<TypedData, AgentDataError> {
        let read = move |thread: Arc<ThreadRef>| async move {
            match self.deps.store.blob(thread.key, ns, at).await? {
                Some(data) => Ok(Attempt::Done(data)),
                None => {
                    let (channel, version) = (at.channel.as_str(), at.version.as_str());
                    let what = format!(
                        "blob of channel {channel:?} at version {version:?} in the namespace {:?}",
                        ns.as_str()
                    );
                    self.missing(&thread, what).await
                }
            }
        };
        self.deps.directory.with_thread(principal, thread, read).await
    }

    /// Reads a write of a task.
    pub async fn task_write(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        (ns, id): (&CheckpointNs, &CheckpointId),
        task: &TaskId,
        idx: i64,
    ) -> Result<FoundWrite, AgentDataError> {
        let read = move |thread: Arc<ThreadRef>| async move {
            match self.deps.store.task_write(thread.key, ns, id, task, idx).await? {
                Some(write) => Ok(Attempt::Done(write)),
                None => {
                    let what = format!("write {idx} of task {:?} beside checkpoint {:?}", task.as_str(), id.as_str());
                    self.missing(&thread, what).await
                }
            }
        };
        self.deps.directory.with_thread(principal, thread, read).await
    }

    /// Lists checkpoints, each with its parts.
    pub async fn list(&self, principal: &Principal, list: &ListCheckpoints) -> Result<CheckpointPage, AgentDataError> {
        match &list.thread {
            None => {
                let scope = CheckpointScope::Project(principal.project.clone(), principal.user.clone());
                self.page(principal, list, &scope).await
            }
            Some(id) => {
                let read = move |thread: Arc<ThreadRef>| async move {
                    let scope = match &list.ns {
                        Some(ns) => CheckpointScope::Namespace(thread.key, ns.clone(), String::new()),
                        None => CheckpointScope::Thread(thread.key),
                    };
                    let page = self.page(principal, list, &scope).await?;
                    let is_there = !page.checkpoints.is_empty() || self.deps.directory.exists(thread.key).await?;
                    Ok::<_, AgentDataError>(if is_there { Attempt::Done(page) } else { Attempt::ThreadGone })
                };
                self.deps.directory.with_thread(principal, id, read).await
            }
        }
    }

    async fn page(
        &self,
        principal: &Principal,
        list: &ListCheckpoints,
        scope: &CheckpointScope,
    ) -> Result<CheckpointPage, AgentDataError> {
        let mut work = self.deps.queue.begin(principal).await?;
        let (found, next) = self.scan(list, scope, &mut work).await?;
        let mut room = AnswerRoom::new();
        let mut checkpoints: Vec<WholeCheckpoint> = Vec::with_capacity(found.len());
        for group in found.chunks(CHECKPOINT_GROUP) {
            work.go_on().await?;
            room.take(group.iter().map(FoundCheckpoint::own_bytes).sum());
            let bytes = if list.data { room.left() } else { 0 };
            let parts = self.deps.store.checkpoint_parts(group, bytes).await?;
            work.done(parts.iter().map(CheckpointParts::bytes).sum(), group.len());
            for (found, parts) in group.iter().zip(parts) {
                if !found.is_whole(&parts.blobs) {
                    continue;
                }
                // Only the first checkpoint of a page comes without all of its values: the next page begins with another one.
                if list.data
                    && !parts.has_all()
                    && let Some(last) = checkpoints.last()
                {
                    let next = Some(CheckpointPosition::behind(&last.found));
                    return Ok(CheckpointPage { checkpoints, next });
                }
                room.take(parts.bytes());
                checkpoints.push(WholeCheckpoint { found: found.clone(), parts });
            }
        }
        Ok(CheckpointPage { checkpoints, next })
    }

    /// Checkpoints that a list takes, without their parts, and the position at which it goes on.
    async fn scan(
        &self,
        list: &ListCheckpoints,
        scope: &CheckpointScope,
        work: &mut QueuedWork,
    ) -> Result<(Vec<FoundCheckpoint>, Option<CheckpointPosition>), AgentDataError> {
        let (mut taken, mut scanned, mut bytes) = (Vec::new(), 0, 0);
        let mut from = list.from.clone();
        let all = list.filter.is_empty() && (list.ns.is_none() || list.thread.is_some());
        while taken.len() < list.limit && scanned < CHECKPOINTS_SCANNED && bytes < AGENT_DATA_ANSWER_BYTES {
            work.go_on().await?;
            let rows = WORK_SLICE_ROWS.min(CHECKPOINTS_SCANNED - scanned);
            let limit = if all { rows.min(list.limit - taken.len()) } else { rows };
            let bound = CheckpointBound { limit, bytes: AGENT_DATA_ANSWER_BYTES - bytes, data: list.data };
            let page = self.deps.store.checkpoints(scope, &from, bound).await?;
            if page.is_empty() {
                return Ok((taken, None));
            }
            work.done(page.iter().map(FoundCheckpoint::own_bytes).sum(), page.len());
            for found in page {
                if taken.len() == list.limit {
                    break;
                }
                from = CheckpointPosition::behind(&found);
                scanned += 1;
                let checkpoint = &found.stored.checkpoint;
                let in_ns = list.ns.as_ref().is_none_or(|ns| *ns == checkpoint.ns);
                if in_ns && list.filter.takes(&checkpoint.metadata) {
                    bytes += found.own_bytes();
                    taken.push(found);
                }
            }
        }
        Ok((taken, Some(from)))
    }

    /// Deletes checkpoints of a thread with what no other checkpoint has; returns their number.
    pub async fn delete(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        which: &WhichCheckpoints,
    ) -> Result<usize, AgentDataError> {
        self.deps.refuse_if_draining()?;
        let delete = move |thread: Arc<ThreadRef>| async move {
            let mut deleted = 0;
            loop {
                let step = {
                    let _turn = self.deps.turn().await?;
                    self.deps.store.delete_checkpoints(thread.key, which, CHECKPOINT_SWEEP).await?
                };
                let Some(step) = step else { return Ok::<_, AgentDataError>(Attempt::ThreadGone) };
                self.deps.note(principal, Some(&thread.user), -step.bytes);
                deleted += step.checkpoints;
                if !step.more {
                    return Ok(Attempt::Done(deleted));
                }
            }
        };
        self.deps.directory.with_thread(principal, thread, delete).await
    }

    /// Deletes the checkpoints of a run in all threads that the principal sees; returns their number.
    pub async fn delete_run(&self, principal: &Principal, run: &RunId) -> Result<usize, AgentDataError> {
        self.deps.refuse_if_draining()?;
        let (project, user) = (&principal.project, principal.user.as_ref());
        let mut deleted = 0;
        loop {
            let places = self.deps.store.checkpoints_of_run(project, user, run, AGENT_DATA_SWEEP).await?;
            let before = deleted;
            for place in places {
                let which = WhichCheckpoints { ns: Some(place.ns), ids: Some(vec![place.id]) };
                let _turn = self.deps.turn().await?;
                let step = self.deps.store.delete_checkpoints(place.thread, &which, CHECKPOINT_SWEEP).await?;
                let step = step.unwrap_or_default();
                self.deps.note(principal, Some(&place.user), -step.bytes);
                deleted += step.checkpoints;
            }
            if deleted == before {
                return Ok(deleted);
            }
        }
    }

    /// Copies all checkpoints of a thread to another one of the same user, each with its parts; returns their number. An existing
    /// checkpoint stays as it is, so a copy of a thread to itself changes nothing.
    pub async fn copy(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        from: &ThreadId,
    ) -> Result<usize, AgentDataError> {
        self.admit(principal).await?;
        let source = self.deps.directory.find(principal, from).await?;
        let source = &source;
        let copy = move |thread: Arc<ThreadRef>| async move {
            // Data that the agent of one user keeps is not copied to another user.
            if source.user != thread.user {
                return Err(AgentDataError::ThreadNotFound);
            }
            if source.key == thread.key {
                let is_there = self.deps.directory.exists(thread.key).await?;
                return Ok(if is_there { Attempt::Done(0) } else { Attempt::ThreadGone });
            }
            let mut work = self.deps.queue.begin(principal).await?;
            let (mut copied, mut walk) = (0, CheckpointWalk::new(&*self.deps.store, source.key));
            loop {
                work.go_on().await?;
                let Some(part) = walk.next().await? else { break };
                let done = {
                    let _turn = self.deps.turn().await?;
                    self.put_part(&thread, &part).await?
                };
                // A checkpoint whose blobs are gone was deleted meanwhile.
                if let CheckpointDone::BlobMissing(_) = done {
                    continue;
                }
                if let Attempt::ThreadGone = self.outcome(principal, &thread, done, &[])? {
                    return Ok(Attempt::ThreadGone);
                }
                work.done(part.bytes(), 1);
                copied += usize::from(matches!(part, CheckpointPart::Checkpoint(_)));
            }
            if copied == 0 && !self.deps.directory.exists(source.key).await? {
                self.deps.directory.forget(source);
                return Err(AgentDataError::ThreadNotFound);
            }
            Ok(Attempt::Done(copied))
        };
        self.deps.directory.with_thread(principal, thread, copy).await
    }

    async fn put_part(&self, thread: &ThreadRef, part: &CheckpointPart) -> Result<CheckpointDone, StoreError> {
        let store = &self.deps.store;
        match part {
            CheckpointPart::Blobs(ns, blobs) => store.put_blobs(thread.key, ns, blobs).await,
            CheckpointPart::Writes(ns, id, writes) => store.put_writes(thread.key, ns, id, writes).await,
            CheckpointPart::Checkpoint(stored) => {
                store.put_checkpoint(thread.key, &stored.checkpoint, PutCheckpoint::Keep(stored.at)).await
            }
        }
    }

    async fn admit(&self, principal: &Principal) -> Result<(), AgentDataError> {
        self.deps.refuse_if_draining()?;
        Ok(self.deps.admit(principal).await?)
    }

    async fn blobs(
        &self,
        thread: &ThreadRef,
        ns: &CheckpointNs,
        blobs: &[Blob],
    ) -> Result<CheckpointDone, AgentDataError> {
        let _turn = self.deps.turn().await?;
        Ok(self.deps.store.put_blobs(thread.key, ns, blobs).await?)
    }

    /// Error of a part that is not there, unless the thread is gone.
    async fn missing<T>(&self, thread: &ThreadRef, what: String) -> Result<Attempt<T>, AgentDataError> {
        if self.deps.directory.exists(thread.key).await? {
            return Err(AgentDataError::CheckpointNotFound(what));
        }
        Ok(Attempt::ThreadGone)
    }

    fn outcome(
        &self,
        principal: &Principal,
        thread: &ThreadRef,
        done: CheckpointDone,
        channels: &[ChannelAt],
    ) -> Result<Attempt<()>, AgentDataError> {
        match done {
            CheckpointDone::Done { added } => {
                let user: &UserId = &thread.user;
                self.deps.note(principal, Some(user), added);
                self.deps.metrics.agent_data.wrote(AgentTable::Checkpoints, usize::try_from(added).unwrap_or(0));
                Ok(Attempt::Done(()))
            }
            CheckpointDone::ThreadGone => Ok(Attempt::ThreadGone),
            CheckpointDone::TooLarge => Err(AgentDataError::DataFull(DataLimit::ThreadBytes)),
            CheckpointDone::BlobMissing(missing) => {
                let name =
                    |text: fn(&ChannelAt) -> &str| channels.get(missing).map(text).unwrap_or_default().to_owned();
                let (channel, version) = (name(|at| at.channel.as_str()), name(|at| at.version.as_str()));
                Err(AgentDataError::BlobMissing { channel, version })
            }
        }
    }
}

fn changing() -> AgentDataError {
    StoreError::Unavailable("other clients delete and replace the checkpoint all the time".to_owned()).into()
}
