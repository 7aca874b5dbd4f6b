//! Channels that one client has joined, independent of the transport: processes the client's frames in sequence, and
//! collects the frames to be written.
//!
//! No channel has a queue: its next push is polled once there is memory for it, so a client that does not read delays
//! only itself.

use std::{any::Any, collections::VecDeque, future::poll_fn, ops::Deref, task::Poll};

use futures_util::{FutureExt, StreamExt, stream::BoxStream};
use serde_json::json;
use threadline_core::{
    Principal,
    limits::{CHANNEL_PAYLOAD_DEPTH, MAX_BATCH_BYTES, MAX_CHANNELS, PAGE_BYTES},
};
use threadline_engine::limits::Quota;
use threadline_http::ws::{close::CloseCode, protocol::HandOver};
use tokio::time::Instant;

use super::{
    channel::{ChannelHandler, ChannelReply, Disconnect, Joined, Outgoing, Push, SocketKind},
    frame::{self, Address, Frame},
};

impl From<Disconnect> for CloseCode {
    fn from(hang_up: Disconnect) -> Self {
        match hang_up {
            Disconnect::Draining => Self::Draining,
            Disconnect::Failed => Self::ServerError,
            Disconnect::CredentialOver => Self::CredentialOver,
        }
    }
}

/// Kind of request that a client's frame makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    Beat,
    Join,
    Leave,
    Push,
    Refused(&'static str),
}

impl FrameKind {
    fn of(frame: Frame<'_>) -> (Self, Frame<'_>) {
        let wish = match frame.event.as_str() {
            _ if frame.payload.get().len() > MAX_BATCH_BYTES => Self::Refused("too_large"),
            _ if frame.is_deeper_than(CHANNEL_PAYLOAD_DEPTH) => Self::Refused("too_deep"),
            frame::HEARTBEAT if frame.topic == frame::SOCKET_TOPIC => Self::Beat,
            frame::JOIN => Self::Join,
            frame::LEAVE => Self::Leave,
            _ => Self::Push,
        };
        (wish, frame)
    }
}

/// Topic that the client has joined, with the pushes that wait.
struct Channel {
    address: Address,
    inbox: Box<dyn ChannelHandler>,
    /// `None` once the stream has ended.
    pushes: Option<BoxStream<'static, Outgoing>>,
    /// Pushes taken from the stream that are not formatted as frames yet.
    pending: VecDeque<Push>,
}

/// Session of one client; see the module.
pub struct Session<P> {
    quota: Quota,
    principal: Principal,
    plane: P,
    /// Joined topics, at most [`MAX_CHANNELS`].
    channels: Vec<Channel>,
    /// Index of the channel that is polled first. The index moves on, so a channel that always has pushes cannot starve
    /// the others.
    turn: usize,
    out: Vec<String>,
    out_bytes: usize,
    until_written: Vec<Box<dyn Any + Send>>,
    paused: Option<Instant>,
    /// The session has ended for the client: only pushes that still arrive are processed.
    has_ended: bool,
    /// A push that a channel produced was never written.
    has_lost: bool,
}

impl<P: SocketKind> Session<P> {
    /// Makes a session without channels.
    pub fn new(quota: Quota, principal: Principal, plane: P) -> Self {
        Self {
            quota,
            principal,
            plane,
            channels: Vec::new(),
            turn: 0,
            out: Vec::new(),
            out_bytes: 0,
            until_written: Vec::new(),
            paused: None,
            has_ended: false,
            has_lost: false,
        }
    }

    /// Time until which no further frame of the client may be read, because the client exceeds its rate; `None` if
    /// reading may continue.
    pub fn paused(&self) -> Option<Instant> {
        self.paused.filter(|until| *until > Instant::now())
    }

    /// Bytes of the frames that wait to be written.
    pub fn out_bytes(&self) -> usize {
        self.out_bytes
    }

    /// True if more frames may be collected before the ones that wait have been written.
    pub fn has_room(&self) -> bool {
        self.out_bytes < PAGE_BYTES && self.until_written.is_empty()
    }

    /// True if a value is held until a reply is written.
    pub fn holds(&self) -> bool {
        !self.until_written.is_empty()
    }

    /// Takes the frames to be written. The caller must call [`Self::written`] afterwards.
    pub fn take_out(&mut self) -> Vec<String> {
        self.out_bytes = 0;
        std::mem::take(&mut self.out)
    }

    /// Restores frames that could not be written, ahead of the frames collected since.
    pub fn put_back(&mut self, mut frames: Vec<String>) {
        self.out_bytes += frames.iter().map(String::len).sum::<usize>();
        frames.append(&mut self.out);
        self.out = frames;
    }

    /// Releases the values that are held until their replies are written: the frames taken out are written, or never
    /// will be.
    pub fn written(&mut self) {
        self.until_written.clear();
    }

    /// Ends the session for the client: no more frames are written to it and joins are ignored. Pushes that the client
    /// has already sent are still processed.
    pub fn be_over(&mut self) {
        self.has_ended = true;
        self.has_lost |= !self.out.is_empty() || self.channels.iter().any(|channel| !channel.pending.is_empty());
        for channel in &mut self.channels {
            channel.pushes = None;
            channel.pending.clear();
        }
        self.out.clear();
        self.out_bytes = 0;
        self.written();
    }

    /// Drops the channels and closes the plane.
    pub async fn end(&mut self, hand_over: HandOver) {
        self.channels.clear();
        self.until_written.clear();
        self.plane.closed(if self.has_lost { HandOver::Uncertain } else { hand_over }).await;
    }

    /// Processes frames that have arrived together, in order. Fails with [`CloseCode::BadFrame`] at the first text that
    /// is no frame, after the frames before it are processed.
    pub async fn take(&mut self, texts: &[impl Deref<Target = str>]) -> Result<(), CloseCode> {
        let frames: Vec<_> = texts.iter().map_while(|text| Frame::parse(text)).map(FrameKind::of).collect();
        let pushed =
            frames.iter().filter(|(wish, _)| *wish == FrameKind::Push).map(|(_, frame)| frame.payload.get().len());
        self.paused = self.quota.pace(&self.principal, frames.len() as u64, pushed.sum());
        for together in frames.chunk_by(|(one, first), (other, second)| {
            (*one, *other) == (FrameKind::Push, FrameKind::Push) && first.is_like(second)
        }) {
            let Some((wish, frame)) = together.first() else { continue };
            match wish {
                FrameKind::Beat => self.reply(frame, Ok(json!({})).into()),
                FrameKind::Join => self.join(frame).await,
                FrameKind::Leave => self.leave(frame).await,
                FrameKind::Push => self.push(together).await,
                // The refusal is final: the same frame would be refused again.
                FrameKind::Refused(reason) => self.refuse(frame, reason),
            }
        }
        // A Phoenix server also crashes on a text that is no frame; none of its clients sends any.
        if frames.len() == texts.len() { Ok(()) } else { Err(CloseCode::BadFrame) }
    }

    async fn join(&mut self, frame: &Frame<'_>) {
        // A second join replaces the channel. The client ignores frames that still arrive for the old join.
        self.channels.retain(|channel| channel.address.topic() != frame.topic);
        if self.has_ended {
            return;
        }
        if self.channels.len() >= MAX_CHANNELS {
            return self.refuse(frame, "too_many_topics");
        }
        match self.plane.join(&frame.topic, frame.payload).await {
            Ok(Joined { response, pushes, inbox }) => {
                self.reply(frame, Ok(response).into());
                let address = Address::of(frame);
                self.channels.push(Channel { address, inbox, pushes: Some(pushes), pending: VecDeque::new() });
            }
            Err(response) => self.reply(frame, Err(response).into()),
        }
    }

    async fn leave(&mut self, frame: &Frame<'_>) {
        let at = self.channels.iter().position(|channel| channel.address.topic() == frame.topic);
        match at {
            // The frame belongs to a join that was replaced.
            Some(at) if !self.channels[at].address.is_of(frame) => {}
            Some(at) => {
                let mut left = self.channels.remove(at);
                left.inbox.left().await;
                self.reply(frame, Ok(json!({})).into());
                self.write(left.address.closed());
            }
            None => self.reply(frame, Ok(json!({})).into()),
        }
    }

    /// Passes pushes to the inbox of one join of one topic.
    async fn push(&mut self, together: &[(FrameKind, Frame<'_>)]) {
        let Some((_, first)) = together.first() else { return };
        let Some(channel) = self.channels.iter_mut().find(|channel| channel.address.topic() == first.topic) else {
            let unmatched = || Err(json!({ "reason": "unmatched topic" })).into();
            return together.iter().for_each(|(_, frame)| self.reply(frame, unmatched()));
        };
        if !channel.address.is_of(first) {
            return;
        }
        let pushes: Vec<_> = together.iter().map(|(_, frame)| (frame.event.as_str(), frame.payload)).collect();
        let replies = channel.inbox.push_all(&pushes).await;
        for ((_, frame), reply) in together.iter().zip(replies) {
            self.reply(frame, reply);
        }
    }

    fn refuse(&mut self, frame: &Frame<'_>, reason: &str) {
        self.reply(frame, Err(json!({ "reason": reason, "retryable": false })).into());
    }

    fn reply(&mut self, frame: &Frame<'_>, reply: ChannelReply) {
        if !self.has_ended {
            self.until_written.extend(reply.until_written);
            self.write(frame.reply(&reply.result));
        }
    }

    fn write(&mut self, frame: String) {
        if !self.has_ended {
            self.out_bytes += frame.len();
            self.out.push(frame);
        }
    }

    /// Waits until a channel has pushes, and formats them as frames. Cancel safe: the future may be dropped, and the
    /// method called again.
    pub async fn pump(&mut self) -> Result<(), CloseCode> {
        let (at, outgoing) = poll_fn(|context| {
            let count = self.channels.len();
            for at in (0..count).map(|offset| (self.turn + offset) % count) {
                if !self.channels[at].pending.is_empty() {
                    return Poll::Ready((at, Outgoing::Push(Vec::new())));
                }
                let pushes = &mut self.channels[at].pushes;
                match pushes.as_mut().map(|pushes| pushes.poll_next_unpin(context)) {
                    Some(Poll::Ready(Some(outgoing))) => return Poll::Ready((at, outgoing)),
                    Some(Poll::Ready(None)) => *pushes = None,
                    Some(Poll::Pending) | None => {}
                }
            }
            Poll::Pending
        })
        .await;
        self.turn = at + 1;
        match outgoing {
            Outgoing::Push(pushes) => {
                self.channels[at].pending.extend(pushes);
                while self.out_bytes < PAGE_BYTES
                    && let Some(push) = self.channels[at].pending.pop_front()
                {
                    let frame = self.channels[at].address.push(push.event, &push.payload);
                    self.write(frame);
                }
            }
            Outgoing::Crashed => {
                let crashed = self.channels.remove(at);
                self.write(crashed.address.crashed());
            }
            Outgoing::Hangup(hang_up) => return Err(hang_up.into()),
        }
        Ok(())
    }

    /// Collects the pushes of all channels that are ready now, so that one write takes them all.
    pub fn gather(&mut self) -> Result<(), CloseCode> {
        while self.has_room() {
            match self.pump().now_or_never() {
                Some(pumped) => pumped?,
                None => break,
            }
        }
        Ok(())
    }
}
