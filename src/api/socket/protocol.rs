//! The socket's protocol, as the driver of sockets sees it.

use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use threadline_core::limits::PAGE_BYTES;
use threadline_http::ws::{
    close::CloseCode,
    protocol::{Binary, CloseFrames, Closing, Outbox, Protocol, Reading},
};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::{frames::frame, session::Session};

impl Protocol for Session {
    const BINARY: Binary = Binary::Refused;
    const CLOSING: Closing = Closing::Prompt;

    async fn receive(&mut self, text: Utf8Bytes) -> Result<(), CloseCode> {
        self.take(text.as_str()).await
    }

    fn takes_more(&self) -> bool {
        self.reading() == Reading::Open && self.out.bytes() < PAGE_BYTES
    }

    fn reading(&self) -> Reading {
        match self.paused {
            Some(until) if until > Instant::now() => Reading::PausedUntil(until),
            _ if self.has_room() => Reading::Open,
            _ => Reading::Full,
        }
    }

    async fn ready(&mut self) -> Result<(), CloseCode> {
        tokio::select! {
            Some(item) = self.items.next(), if !self.items.is_empty() => return self.write(item),
            Some(answer) = self.answers.next(), if !self.answers.is_empty() => self.answer(answer),
            Some(answer) = self.appends.next(), if self.appends.len() > 0 => self.answer(answer),
            else => std::future::pending().await,
        }
        Ok(())
    }

    fn gather(&mut self) -> Result<(), CloseCode> {
        while self.out.bytes() < PAGE_BYTES {
            if let Some(answer) = self.appends.ready() {
                self.answer(answer);
            } else if let Some(Some(answer)) = self.answers.next().now_or_never() {
                self.answer(answer);
            } else if let Some(Some(item)) = self.items.next().now_or_never() {
                self.write(item)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn beat(&mut self) {
        self.heartbeat();
    }

    fn out(&mut self) -> &mut Outbox {
        &mut self.out
    }

    fn written(&mut self) {
        self.count_delivery();
    }

    fn close_frames(code: CloseCode) -> CloseFrames {
        let closing = json!({
            "code": code.code(),
            "reason": code.reason(),
            "reconnect": code.retry_after().is_some(),
            "retryAfterMs": code.retry_after().map(|wait| wait.as_millis() as u64),
        });
        CloseFrames { text: Some(frame(None, "closing", &closing).into()), code: code.code() }
    }

    fn be_over(&mut self) {
        self.items.clear();
    }
}
