//! Appends queued for the commit loop, and the channels for their answers.

use std::sync::Arc;

use threadline_core::{Epoch, NewEvents, RunId, WriteFence};
use threadline_store::StoreError;
use tokio::sync::{mpsc, oneshot};

use crate::{AppendError, AppendReceipt, records::ThreadRef};

type Answer = Result<AppendReceipt, AppendError>;

/// One append of a producer.
#[derive(Debug)]
pub(crate) struct Request {
    pub thread: Arc<ThreadRef>,
    pub run: RunId,
    pub fence: WriteFence,
    /// Epoch that the log must have; `None` for any.
    pub epoch: Option<Epoch>,
    pub producer_seq: Option<u64>,
    pub events: NewEvents,
    pub reply: CommitReply,
}

impl Request {
    /// Notes that the store gets the append now: from here on, an append that is dropped may be in the log.
    pub(crate) fn hand_over(&mut self) {
        self.reply.repeatable = self.producer_seq.is_some();
    }
}

/// Error of an append that the store did not confirm. Only an append with a producer_seq is recognized when it is sent
/// again. A store whose history has changed has not taken the append.
pub(crate) fn unconfirmed(producer_seq: Option<u64>, error: StoreError) -> AppendError {
    match error {
        StoreError::Unavailable(reason) if producer_seq.is_none() => {
            tracing::warn!(reason, "the store did not confirm an append without producerSeq");
            AppendError::OutcomeUnknown
        }
        error => AppendError::Store(error),
    }
}

/// Channel for the answer to one append.
#[derive(Debug)]
pub struct CommitReply {
    to: Option<To>,
    /// False once the append may be in the log without its sender being able to find out by sending it again.
    repeatable: bool,
}

#[derive(Debug)]
enum To {
    One(oneshot::Sender<Answer>),
    /// With the ticket of the append.
    ReceiptStream(mpsc::UnboundedSender<(usize, Answer)>, usize),
}

impl CommitReply {
    /// Reply to a single append.
    pub(crate) fn one(sender: oneshot::Sender<Answer>) -> Self {
        Self { to: Some(To::One(sender)), repeatable: true }
    }

    /// Sends the answer. A receiver that was dropped needs none.
    pub(crate) fn send(mut self, answer: Answer) {
        self.put(answer);
    }

    fn put(&mut self, answer: Answer) {
        match self.to.take() {
            Some(To::One(sender)) => drop(sender.send(answer)),
            Some(To::ReceiptStream(sender, ticket)) => drop(sender.send((ticket, answer))),
            None => {}
        }
    }
}

impl Drop for CommitReply {
    /// An append that is dropped without an answer belongs to a node that is shutting down.
    fn drop(&mut self) {
        self.put(Err(if self.repeatable { AppendError::Draining } else { AppendError::OutcomeUnknown }));
    }
}

/// Answers to many appends, in order of completion. The queue holds at most one answer for each append in flight, so
/// the caller bounds it by bounding its appends.
#[derive(Debug)]
pub struct ReceiptStream {
    sender: mpsc::UnboundedSender<(usize, Answer)>,
    receiver: mpsc::UnboundedReceiver<(usize, Answer)>,
}

impl Default for ReceiptStream {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver }
    }
}

impl ReceiptStream {
    /// Reply for one append; its answer arrives with this ticket, exactly once.
    pub fn reply(&self, ticket: usize) -> CommitReply {
        CommitReply { to: Some(To::ReceiptStream(self.sender.clone(), ticket)), repeatable: true }
    }

    /// Waits for the next answer. Dropping the future loses none.
    pub async fn next(&mut self) -> Option<(usize, Result<AppendReceipt, AppendError>)> {
        self.receiver.recv().await
    }

    /// The next answer if one has arrived.
    pub fn ready(&mut self) -> Option<(usize, Result<AppendReceipt, AppendError>)> {
        self.receiver.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ticket_is_answered_once() {
        let mut receipts = ReceiptStream::default();
        receipts.reply(3).send(Err(AppendError::RunNotFound));
        drop(receipts.reply(5));
        assert!(matches!(receipts.ready(), Some((3, Err(AppendError::RunNotFound)))));
        assert!(matches!(receipts.ready(), Some((5, Err(AppendError::Draining)))));
        assert!(receipts.ready().is_none());
    }
}
