//! What a topic is to the transport: an answer to its join, pushes one after the other, and an inbox.

use std::any::Any;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde_json::{Value, value::RawValue};

/// The topics that one kind of socket serves. One value per socket, and it is asked about one frame at a time.
#[async_trait]
pub trait Plane: Send + 'static {
    /// Joins a topic. `Err` is the `response` of the error reply.
    async fn join(&mut self, topic: &str, params: &RawValue) -> Result<Joined, Value>;

    /// The socket is over, and its channels are dropped. `handed_over`: the server has closed it, and the client has
    /// answered the close, so everything that was written has arrived.
    async fn closed(self, handed_over: bool);
}

/// A topic that was joined.
pub struct Joined {
    /// The `response` of the ok reply.
    pub response: Value,
    /// What is pushed to the client. The next item is asked for once the one before is written; dropped when the
    /// channel is left, or joined anew.
    pub pushes: BoxStream<'static, Outgoing>,
    /// Takes what the client pushes.
    pub inbox: Box<dyn Inbox>,
}

/// What comes out of a channel.
pub enum Outgoing {
    /// Pushes, to be written in this order, each a frame of its own.
    Push(Vec<Push>),
    /// The channel cannot go on: `phx_error`, and the client joins again with the parameters it had.
    Crashed,
    /// The whole socket has to go (the client comes again), with this close code.
    Hangup(HangUp),
}

/// Why a server ends a socket. Never 1000: a client would take it for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HangUp {
    /// The server shuts down: 1012.
    Draining,
    /// The client reads too slowly, or the store cannot be read: 1011.
    Failed,
    /// What it was let in with is not valid any more: 1008.
    CredentialOver,
}

/// One push of a channel.
pub struct Push {
    /// The event of the frame.
    pub event: &'static str,
    /// Its payload, a JSON object.
    pub payload: String,
}

/// Takes what a client pushes to a channel.
#[async_trait]
pub trait Inbox: Send {
    /// Carries out a push, and says what is replied. Frames of a socket come one after the other.
    async fn push(&mut self, event: &str, payload: &RawValue) -> Reply;

    /// The same for pushes that have come together; a reply to each, in their order.
    async fn push_all(&mut self, pushes: &[(&str, &RawValue)]) -> Vec<Reply> {
        let mut replies = Vec::with_capacity(pushes.len());
        for (event, payload) in pushes {
            replies.push(self.push(event, payload).await);
        }
        replies
    }

    /// The client has left the channel, and pushes nothing more. A client that is merely gone may come again.
    async fn left(&mut self) {}
}

/// The reply to a push.
pub struct Reply {
    /// `Ok` is the `response` of an ok reply, `Err` that of an error reply.
    pub result: Result<Value, Value>,
    /// Dropped once the reply is written.
    pub until_written: Option<Box<dyn Any + Send>>,
}

impl From<Result<Value, Value>> for Reply {
    fn from(result: Result<Value, Value>) -> Self {
        Self { result, until_written: None }
    }
}
