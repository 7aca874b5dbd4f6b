//! Topics as the transport sees them: the reply to a join, an ordered stream of pushes, and an inbox.

use std::any::Any;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde_json::{Value, value::RawValue};
use threadline_http::ws::protocol::HandOver;

/// Topics that one kind of socket serves. One value serves one socket, and handles one frame at a time.
#[async_trait]
pub trait SocketKind: Send + 'static {
    /// Joins a topic. `Err` is the `response` of the error reply.
    async fn join(&mut self, topic: &str, params: &RawValue) -> Result<Joined, Value>;

    /// Ends the socket; its channels are already dropped.
    async fn closed(&mut self, hand_over: HandOver);
}

/// Result of a successful join: the reply, and both directions of the channel.
pub struct Joined {
    /// The `response` of the ok reply to the join.
    pub response: Value,
    /// Pushes to the client. The next item is polled once the one before is written. The stream is dropped when the
    /// client leaves the channel or joins it again.
    pub pushes: BoxStream<'static, Outgoing>,
    /// Handler of the client's pushes.
    pub inbox: Box<dyn ChannelHandler>,
}

/// Item that a channel produces.
pub enum Outgoing {
    /// Pushes, to be written in this order, each as one frame.
    Push(Vec<Push>),
    /// The channel cannot continue: the client receives `phx_error` and joins again with the same parameters.
    Crashed,
    /// The complete socket must be closed with this code; the client reconnects.
    Hangup(Disconnect),
}

/// Reason for which the server closes a socket. The close code is never 1000: a client would not reconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disconnect {
    /// The server shuts down: 1012.
    Draining,
    /// The client reads too slowly, or the store cannot be read: 1011.
    Failed,
    /// The credential with which the client was authenticated is no longer valid: 1008.
    CredentialOver,
}

/// Push from a channel to its client.
pub struct Push {
    /// Event name of the frame.
    pub event: &'static str,
    /// Payload of the frame, the text of a JSON object.
    pub payload: String,
}

/// Handler of the pushes from a client to a channel.
#[async_trait]
pub trait ChannelHandler: Send {
    /// Processes a push and returns the reply. Frames of one socket are passed in sequence.
    async fn push(&mut self, event: &str, payload: &RawValue) -> ChannelReply;

    /// Processes pushes that have arrived together. Returns one reply for each push, in the same order.
    async fn push_all(&mut self, pushes: &[(&str, &RawValue)]) -> Vec<ChannelReply> {
        let mut replies = Vec::with_capacity(pushes.len());
        for (event, payload) in pushes {
            replies.push(self.push(event, payload).await);
        }
        replies
    }

    /// Called when the client leaves the channel, after which it pushes nothing more. A client that has only
    /// disconnected may reconnect, and is not reported here.
    async fn left(&mut self) {}
}

/// Reply to a push.
pub struct ChannelReply {
    /// `Ok` is the `response` of an ok reply, `Err` that of an error reply.
    pub result: Result<Value, Value>,
    /// Value that is dropped once the reply is written.
    pub until_written: Option<Box<dyn Any + Send>>,
}

impl From<Result<Value, Value>> for ChannelReply {
    fn from(result: Result<Value, Value>) -> Self {
        Self { result, until_written: None }
    }
}
