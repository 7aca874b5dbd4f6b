//! Consecutive appends of one producer, which look the run up once.

use std::sync::Arc;

use threadline_core::{NewEvents, Principal, RunId, Scope, ThreadId, UserId, WriteFence};

use crate::{
    EndRunError, Runs, authority,
    commit::{
        receipt::check_producer_seq,
        requests::{CommitReply, Request},
    },
    records::ThreadRef,
    runs::writer::Writer,
};

/// Run that a principal may append to, already looked up. Holds only facts that never change.
#[derive(Debug, Clone)]
pub struct RunRef {
    thread: Arc<ThreadRef>,
    run: RunId,
    fence: WriteFence,
    /// Principal whose storage the appends fill.
    principal: Arc<Principal>,
    /// True if the principal may answer interrupts with the events that it appends.
    answers: bool,
    /// Value of [`Directory::forgotten`](crate::directory::Directory::forgotten) at the time of the lookup.
    as_of: u64,
}

impl RunRef {
    /// Id of the thread that the run belongs to.
    pub fn thread_id(&self) -> &ThreadId {
        &self.thread.id
    }

    /// User who owns the thread.
    pub fn user(&self) -> &UserId {
        &self.thread.user
    }

    /// Id of the run to append to.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }
}

impl Runs {
    /// Looks up a run for appends of its first attempt.
    pub async fn look_up(&self, principal: &Principal, thread: &ThreadId, run: &RunId) -> Result<RunRef, EndRunError> {
        let as_of = self.deps.directory.forgotten();
        let (thread, fence) = self.find(Writer::FIRST, principal, thread.into(), run).await?;
        let answers = principal.scopes.contains(Scope::Approve);
        Ok(RunRef { thread, run: run.clone(), fence, principal: Arc::new(principal.clone()), answers, as_of })
    }

    /// True if a new lookup of the run would give the same result.
    pub fn is_current(&self, run: &RunRef) -> bool {
        run.as_of == self.deps.directory.forgotten()
    }

    /// [`Runs::submit`] for a run that was looked up. Results and errors arrive as the reply.
    pub async fn submit_to(&self, run: &RunRef, producer_seq: Option<u64>, events: NewEvents, reply: CommitReply) {
        if let Err(error) = producer_seq.map_or(Ok(()), check_producer_seq) {
            return reply.send(Err(error.into()));
        }
        if !run.answers
            && let Err(denied) = authority::refuse_answers(&events)
        {
            return reply.send(Err(denied.into()));
        }
        if let Err(refused) = self.check_answers(&run.principal, run.thread.key, &run.run, &events, false).await {
            return reply.send(Err(refused.into()));
        }
        if let Err(refused) = self.check_append(&run.principal, &run.thread, &run.run, producer_seq, &events).await {
            return reply.send(Err(refused.into()));
        }
        let (thread, fence, run) = (run.thread.clone(), run.fence, run.run.clone());
        // A request that is not queued is dropped, and its drop sends the answer.
        let _ =
            self.deps.committer.submit(Request { thread, run, fence, epoch: None, producer_seq, events, reply }).await;
    }
}
