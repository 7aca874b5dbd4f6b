//! The socket's protocol, as the driver of sockets sees it.

use futures_util::{FutureExt, future::BoxFuture};
use threadline_core::{limits::PAGE_BYTES, projection::langgraph::Frame};
use threadline_engine::StoreError;
use threadline_http::ws::{
    close::CloseCode,
    protocol::{Binary, CloseFrames, Closing, Outbox, Protocol, Reading},
};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::session::Session;
use crate::api::langgraph::pump::Pump;

/// The response to the command that is being answered, if one is.
async fn response(command: &mut Option<BoxFuture<'static, String>>) -> String {
    match command {
        Some(command) => command.await,
        None => std::future::pending().await,
    }
}

/// The next frames of a stream; none if there is no stream.
async fn next(pump: &mut Option<Pump>) -> Result<Option<Vec<Frame>>, StoreError> {
    match pump {
        Some(pump) => pump.next().await,
        None => std::future::pending().await,
    }
}

impl Protocol for Session {
    const BINARY: Binary = Binary::Refused;
    const CLOSING: Closing = Closing::Prompt;

    async fn receive(&mut self, text: Utf8Bytes) -> Result<(), CloseCode> {
        self.take(text.as_str()).await
    }

    fn reading(&self) -> Reading {
        match self.paused {
            Some(until) if until > Instant::now() => Reading::PausedUntil(until),
            _ if self.command.is_none() => Reading::Open,
            _ => Reading::Full,
        }
    }

    fn takes_more(&self) -> bool {
        self.reading() == Reading::Open && self.out.bytes() < PAGE_BYTES
    }

    async fn ready(&mut self) -> Result<(), CloseCode> {
        if self.begins {
            self.begin().await.map_err(|problem| {
                tracing::warn!(detail = problem.detail, "closing a socket of LangGraph's API: its stream cannot begin");
                CloseCode::ServerError
            })?;
            self.begins = false;
        }
        tokio::select! {
            frames = next(&mut self.pump) => return self.deliver(frames),
            answer = response(&mut self.command) => self.answered(answer),
        }
        Ok(())
    }

    fn gather(&mut self) -> Result<(), CloseCode> {
        while self.out.bytes() < PAGE_BYTES {
            if let Some(answer) = response(&mut self.command).now_or_never() {
                self.answered(answer);
            } else if let Some(frames) = next(&mut self.pump).now_or_never() {
                self.deliver(frames)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn out(&mut self) -> &mut Outbox {
        &mut self.out
    }

    /// LangGraph's clients take codes from 4400 to 4499 for the status of a refusal, and do not connect again after them.
    fn close_frames(code: CloseCode) -> CloseFrames {
        let code = match code {
            CloseCode::BadFrame => 4400,
            CloseCode::CredentialOver => 4401,
            CloseCode::ForbiddenOrigin => 4403,
            CloseCode::TooLarge => 4413,
            code => code.code(),
        };
        CloseFrames { text: None, code }
    }

    fn be_over(&mut self) {
        self.pump = None;
        self.command = None;
    }
}
