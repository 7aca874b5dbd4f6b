//! Handing in appends of one producer after the other: the run is looked up once, and the answers come in one place.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::{
    Receipt, Runs, ServiceError, committer::Request, directory::ThreadRef, driving::Writer, runs::check_producer_seq,
};
use crate::domain::{Fence, NewEvents, Principal, RunId, ThreadId};

type Answer = Result<Receipt, ServiceError>;

/// A run that somebody may append to, looked up. It holds only what never changes.
#[derive(Debug, Clone)]
pub struct RunRef {
    thread: Arc<ThreadRef>,
    run: RunId,
    fence: Fence,
    /// What the directory had forgotten by then.
    as_of: u64,
}

impl RunRef {
    /// Its thread.
    pub fn thread_id(&self) -> &ThreadId {
        &self.thread.id
    }

    /// Its id.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }
}

impl Runs {
    /// Looks up a run, to append to it.
    pub async fn look_up(&self, principal: &Principal, thread: &ThreadId, run: &RunId) -> Result<RunRef, ServiceError> {
        let as_of = self.context.directory.forgotten();
        let (thread, fence) = self.find(Writer::Producer, principal, thread, run).await?;
        Ok(RunRef { thread, run: run.clone(), fence, as_of })
    }

    /// Whether looking the run up again would give the same.
    pub fn is_current(&self, run: &RunRef) -> bool {
        run.as_of == self.context.directory.forgotten()
    }

    /// [`Runs::submit`] for a run that was looked up. Whatever there is to say comes as the reply.
    pub async fn submit_to(&self, run: &RunRef, producer_seq: Option<u64>, events: NewEvents, reply: Reply) {
        if let Err(error) = producer_seq.map_or(Ok(()), check_producer_seq) {
            return reply.send(Err(error));
        }
        let (thread, fence, run) = (run.thread.clone(), run.fence, run.run.clone());
        // A request that is not taken in is dropped, which answers it.
        let _ = self.context.committer.submit(Request { thread, run, fence, producer_seq, events, reply }).await;
    }
}

/// Where the answer to one append goes.
#[derive(Debug)]
pub struct Reply(Option<To>);

#[derive(Debug)]
enum To {
    One(oneshot::Sender<Answer>),
    /// With the append's ticket.
    Receipts(mpsc::UnboundedSender<(usize, Answer)>, usize),
}

impl Reply {
    /// For nobody.
    #[cfg(feature = "planted")]
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// For one append alone.
    pub(super) fn one(sender: oneshot::Sender<Answer>) -> Self {
        Self(Some(To::One(sender)))
    }

    /// Answers. A receiver that went away wants no answer.
    pub(super) fn send(mut self, answer: Answer) {
        self.put(answer);
    }

    fn put(&mut self, answer: Answer) {
        match self.0.take() {
            Some(To::One(sender)) => drop(sender.send(answer)),
            Some(To::Receipts(sender, ticket)) => drop(sender.send((ticket, answer))),
            None => {}
        }
    }
}

impl Drop for Reply {
    /// What nobody answers any more is answered all the same: the node is going away.
    fn drop(&mut self) {
        self.put(Err(ServiceError::Draining));
    }
}

/// The answers to many appends, as they come. It holds at most one for each append under way: whoever hands them in
/// bounds these.
#[derive(Debug)]
pub struct Receipts {
    sender: mpsc::UnboundedSender<(usize, Answer)>,
    receiver: mpsc::UnboundedReceiver<(usize, Answer)>,
}

impl Default for Receipts {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver }
    }
}

impl Receipts {
    /// For one append; its answer comes with this ticket, exactly once.
    pub fn reply(&self, ticket: usize) -> Reply {
        Reply(Some(To::Receipts(self.sender.clone(), ticket)))
    }

    /// The next answer. Dropping the future loses none.
    pub async fn next(&mut self) -> Option<(usize, Result<Receipt, ServiceError>)> {
        self.receiver.recv().await
    }

    /// The next answer if there is one.
    pub fn ready(&mut self) -> Option<(usize, Result<Receipt, ServiceError>)> {
        self.receiver.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ticket_is_answered_once() {
        let mut receipts = Receipts::default();
        receipts.reply(3).send(Err(ServiceError::RunNotFound));
        drop(receipts.reply(5));
        assert!(matches!(receipts.ready(), Some((3, Err(ServiceError::RunNotFound)))));
        assert!(matches!(receipts.ready(), Some((5, Err(ServiceError::Draining)))));
        assert!(receipts.ready().is_none());
    }
}
