//! What one client has joined, whichever way its frames come: takes them one after the other, and gathers what is to be
//! written.
//!
//! Nothing is queued per channel: its next push is asked for when there is room for it, so a client that does not read
//! holds up nobody but itself.

use std::{any::Any, collections::VecDeque, future::poll_fn, ops::Deref, task::Poll};

use futures_util::{FutureExt, StreamExt, stream::BoxStream};
use serde_json::json;
use tokio::time::Instant;

use super::{
    channel::{HangUp, Inbox, Joined, Outgoing, Plane, Push, Reply},
    frame::{self, Address, Frame},
};
use crate::{
    api::native::socket::CloseCode,
    domain::{
        Principal,
        limits::{CHANNEL_PAYLOAD_DEPTH, MAX_BATCH_BYTES, MAX_CHANNELS, PAGE_BYTES},
    },
    quota::Quota,
};

impl From<HangUp> for CloseCode {
    fn from(hang_up: HangUp) -> Self {
        match hang_up {
            HangUp::Draining => Self::Draining,
            HangUp::Failed => Self::ServerError,
            HangUp::CredentialOver => Self::CredentialOver,
        }
    }
}

/// What a client wants with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Beat,
    Join,
    Leave,
    Push,
    Refused(&'static str),
}

impl Wish {
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

/// A topic as it was joined.
struct Channel {
    address: Address,
    inbox: Box<dyn Inbox>,
    /// `None` once it has come to its end.
    pushes: Option<BoxStream<'static, Outgoing>>,
    /// What it has given and is not in frames yet.
    pending: VecDeque<Push>,
}

/// See the module.
pub struct Session<P> {
    quota: Quota,
    principal: Principal,
    plane: P,
    /// Few, see [`MAX_CHANNELS`].
    channels: Vec<Channel>,
    /// Whose push is looked for first, so that one that always has some keeps nobody waiting.
    turn: usize,
    out: Vec<String>,
    out_bytes: usize,
    until_written: Vec<Box<dyn Any + Send>>,
    paused: Option<Instant>,
    /// It is over for the client: of what still comes only pushes are taken.
    is_over: bool,
    /// Something that a channel has given was never written.
    has_lost: bool,
}

impl<P: Plane> Session<P> {
    /// With nothing joined yet.
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
            is_over: false,
            has_lost: false,
        }
    }

    /// Until when the client is to be read no further, because it sends more than it may.
    pub fn paused(&mut self) -> Option<Instant> {
        self.paused = self.paused.filter(|until| *until > Instant::now());
        self.paused
    }

    /// Bytes that wait to be written.
    pub fn out_bytes(&self) -> usize {
        self.out_bytes
    }

    /// Whether more may be gathered before what there is has been written.
    pub fn has_room(&self) -> bool {
        self.out_bytes < PAGE_BYTES && self.until_written.is_empty()
    }

    /// Whether something waits for a reply to be written.
    pub fn holds(&self) -> bool {
        !self.until_written.is_empty()
    }

    /// Takes what is to be written; [`Self::written`] is to follow.
    pub fn take_out(&mut self) -> Vec<String> {
        self.out_bytes = 0;
        std::mem::take(&mut self.out)
    }

    /// Puts back what could not be written, in front of what has come since.
    pub fn put_back(&mut self, mut frames: Vec<String>) {
        self.out_bytes += frames.iter().map(String::len).sum::<usize>();
        frames.append(&mut self.out);
        self.out = frames;
    }

    /// All that was taken out is written, or never will be.
    pub fn written(&mut self) {
        self.until_written.clear();
    }

    /// The client is told nothing more, and joins nothing more; what it has pushed is still taken.
    pub fn be_over(&mut self) {
        self.is_over = true;
        self.has_lost |= !self.out.is_empty() || self.channels.iter().any(|channel| !channel.pending.is_empty());
        for channel in &mut self.channels {
            channel.pushes = None;
            channel.pending.clear();
        }
        self.out.clear();
        self.out_bytes = 0;
        self.written();
    }

    /// Drops the channels, and says good-bye to the plane.
    pub async fn end(self, handed_over: bool) {
        drop(self.channels);
        drop(self.until_written);
        self.plane.closed(handed_over && !self.has_lost).await;
    }

    /// Carries out frames of the client that have come together, in their order.
    pub async fn take(&mut self, texts: &[impl Deref<Target = str>]) -> Result<(), CloseCode> {
        let frames: Vec<_> = texts.iter().map_while(|text| Frame::parse(text)).map(Wish::of).collect();
        let pushed = frames.iter().filter(|(wish, _)| *wish == Wish::Push).map(|(_, frame)| frame.payload.get().len());
        self.paused = self.quota.pace(&self.principal, frames.len() as u64, pushed.sum());
        for together in frames.chunk_by(|(one, first), (other, second)| {
            (*one, *other) == (Wish::Push, Wish::Push) && first.is_like(second)
        }) {
            let Some((wish, frame)) = together.first() else { continue };
            match wish {
                Wish::Beat => self.reply(frame, Ok(json!({})).into()),
                Wish::Join => self.join(frame).await,
                Wish::Leave => self.leave(frame).await,
                Wish::Push => self.push(together).await,
                // Such a frame can only be refused again.
                Wish::Refused(reason) => self.refuse(frame, reason),
            }
        }
        // A Phoenix server crashes on what is no frame, too; none of its clients sends any.
        if frames.len() == texts.len() { Ok(()) } else { Err(CloseCode::BadFrame) }
    }

    async fn join(&mut self, frame: &Frame<'_>) {
        // Joined anew it begins anew. Its client ignores what still comes for the old join.
        self.channels.retain(|channel| channel.address.topic() != frame.topic);
        if self.is_over {
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
            // Of a join that was replaced.
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

    /// Pushes to one join of one topic.
    async fn push(&mut self, together: &[(Wish, Frame<'_>)]) {
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

    fn reply(&mut self, frame: &Frame<'_>, reply: Reply) {
        if !self.is_over {
            self.until_written.extend(reply.until_written);
            self.write(frame.reply(&reply.result));
        }
    }

    fn write(&mut self, frame: String) {
        if !self.is_over {
            self.out_bytes += frame.len();
            self.out.push(frame);
        }
    }

    /// Waits until a channel has something to push, and puts it into frames. May be dropped and called again.
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

    /// Takes along what else is ready now, so that it is written in one piece.
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
