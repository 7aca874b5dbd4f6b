//! What one client has joined, whichever way its frames come: takes them one after the other, and gathers what is to be
//! written.
//!
//! Nothing is queued per channel: its next push is asked for when there is room for it, so a client that does not read
//! holds up nobody but itself.

use std::{any::Any, future::poll_fn, task::Poll};

use futures_util::{FutureExt, StreamExt, stream::BoxStream};
use serde_json::json;
use tokio::time::Instant;

use super::{
    channel::{HangUp, Inbox, Joined, Outgoing, Plane, Reply},
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

/// A topic as it was joined.
struct Channel {
    address: Address,
    inbox: Box<dyn Inbox>,
    /// `None` once it has come to its end.
    pushes: Option<BoxStream<'static, Outgoing>>,
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
        self.channels.iter_mut().for_each(|channel| channel.pushes = None);
        self.out.clear();
        self.out_bytes = 0;
        self.written();
    }

    /// Drops the channels, and says good-bye to the plane.
    pub async fn end(self, handed_over: bool) {
        drop(self.channels);
        drop(self.until_written);
        self.plane.closed(handed_over).await;
    }

    /// Carries out a frame of the client.
    pub async fn take(&mut self, text: &str) -> Result<(), CloseCode> {
        // A Phoenix server crashes on it, too; none of its clients sends any.
        let frame = Frame::parse(text).ok_or(CloseCode::BadFrame)?;
        let is_push = !matches!(frame.event.as_str(), frame::JOIN | frame::LEAVE) && frame.topic != frame::SOCKET_TOPIC;
        let appended = if is_push { frame.payload.get().len() } else { 0 };
        self.paused = self.quota.pace(&self.principal, 1, appended);
        match frame.event.as_str() {
            _ if frame.payload.get().len() > MAX_BATCH_BYTES => self.refuse(&frame, "too_large"),
            _ if frame.is_deeper_than(CHANNEL_PAYLOAD_DEPTH) => self.refuse(&frame, "too_deep"),
            frame::HEARTBEAT if frame.topic == frame::SOCKET_TOPIC => self.reply(&frame, Ok(json!({})).into()),
            frame::JOIN => self.join(frame).await,
            frame::LEAVE => self.leave(&frame).await,
            _ => self.push(&frame).await,
        }
        Ok(())
    }

    async fn join(&mut self, frame: Frame<'_>) {
        // Joined anew it begins anew. Its client ignores what still comes for the old join.
        self.channels.retain(|channel| channel.address.topic() != frame.topic);
        if self.is_over {
            return;
        }
        if self.channels.len() >= MAX_CHANNELS {
            return self.refuse(&frame, "too_many_topics");
        }
        match self.plane.join(&frame.topic, frame.payload).await {
            Ok(Joined { response, pushes, inbox }) => {
                self.reply(&frame, Ok(response).into());
                let address = Address::of(&frame);
                self.channels.push(Channel { address, inbox, pushes: Some(pushes) });
            }
            Err(response) => self.reply(&frame, Err(response).into()),
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

    async fn push(&mut self, frame: &Frame<'_>) {
        let Some(channel) = self.channels.iter_mut().find(|channel| channel.address.topic() == frame.topic) else {
            return self.reply(frame, Err(json!({ "reason": "unmatched topic" })).into());
        };
        if channel.address.is_of(frame) {
            let reply = channel.inbox.push(&frame.event, frame.payload).await;
            self.reply(frame, reply);
        }
    }

    /// Such a frame can only be refused again.
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
                for push in pushes {
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
