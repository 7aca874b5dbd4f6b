//! The part of a socket that differs between protocols. The driver does the rest: see [`drive`](super::driver::drive).

use std::future::ready;

use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::close::CloseCode;

/// Protocol of a socket. A value serves one socket.
pub trait Protocol: Send {
    /// Treatment of binary messages.
    const BINARY: Binary;
    /// Care that is taken of frames under way when the socket is closed.
    const CLOSING: Closing;

    /// Accepts a text of the client. The protocol may keep it until [`Self::end_turn`].
    fn receive(&mut self, text: Utf8Bytes) -> impl Future<Output = Result<(), CloseCode>> + Send;

    /// True if another text that has already arrived may join the current turn. The number of texts per turn must be
    /// bounded, so that writes need not wait for more.
    fn takes_more(&self) -> bool;

    /// Processes the texts of the turn that are not processed yet.
    fn end_turn(&mut self) -> impl Future<Output = Result<(), CloseCode>> + Send {
        ready(Ok(()))
    }

    /// State of reading; the driver asks before each turn.
    fn reading(&self) -> Reading;

    /// Waits for output, and adds it to the pending messages. Cancel safe.
    fn ready(&mut self) -> impl Future<Output = Result<(), CloseCode>> + Send;

    /// Adds the output that is ready now, up to a bound, so that it shares the next flush.
    fn gather(&mut self) -> Result<(), CloseCode>;

    /// Adds the protocol's own heartbeat, if it has one; a ping of the driver follows.
    fn beat(&mut self) {}

    /// Moves the output to the outbox, which the driver then writes and empties.
    fn out(&mut self) -> &mut Outbox;

    /// Called when all messages that were pending are written.
    fn written(&mut self) {}

    /// Last text and close code for a reason.
    fn close_frames(code: CloseCode) -> CloseFrames;

    /// Ends the output; the driver calls this before the close handshake, which may take long. Texts may still arrive,
    /// with [`Closing::Thorough`].
    fn be_over(&mut self);

    /// Ends the protocol, after the close handshake.
    fn end(&mut self, _: HandOver) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// Treatment of binary messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// A binary message closes the socket with [`CloseCode::BadFrame`].
    Refused,
    /// A binary message has no effect.
    Ignored,
}

/// Care that is taken of frames under way when a socket is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// Pending messages are dropped, texts that still arrive too, and one timeout bounds the complete handshake.
    Prompt,
    /// Pending messages are written first. Texts that arrive before the client's close are processed if the server is
    /// draining or a write has failed. Each step of the handshake has a timeout of its own.
    Thorough,
}

/// State of reading from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The client is read.
    Open,
    /// The client is not read, because too much of what it sent is in flight. Such a client can be idle.
    Full,
    /// The client is not read until then, because it exceeds its rate. The pause does not count as idle time.
    PausedUntil(Instant),
}

/// State of the messages that were given to a socket, at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandOver {
    /// The client has read all messages: each was written, and the client has answered the server's close with the same
    /// code.
    Complete,
    /// The last messages may be lost.
    Uncertain,
}

/// End of a socket on the wire.
#[derive(Debug)]
pub struct CloseFrames {
    /// Text ahead of the close frame, if the protocol has one.
    pub text: Option<Utf8Bytes>,
    /// Code of the close frame.
    pub code: u16,
}

/// Places for messages that an idle outbox keeps.
const MESSAGES_KEPT: usize = 64;

/// Messages that wait to be written with one flush.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(super) messages: Vec<Message>,
    bytes: usize,
}

impl Outbox {
    /// Adds a text behind the pending messages.
    pub fn text(&mut self, text: Utf8Bytes) {
        self.bytes += text.len();
        self.messages.push(Message::Text(text));
    }

    /// Size of the texts, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops the messages that are not written, and the memory of a burst.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.messages.shrink_to(MESSAGES_KEPT);
        self.bytes = 0;
    }
}
