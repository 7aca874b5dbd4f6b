//! WebSocket transport of Phoenix channels.

use axum::response::Response;
use threadline_core::{
    Principal,
    limits::{CHANNEL_FRAME_BYTES, FRAMES_TOGETHER, FRAMES_TOGETHER_BYTES},
};
use threadline_http::{
    problem::Problem,
    ws::{
        Terms, Upgrade,
        close::CloseCode,
        driver::{self, SocketEnv},
        protocol::{Binary, CloseFrames, Closing, HandOver, Outbox, Protocol, Reading},
    },
};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::{channel::SocketKind, session::Session};
use crate::api::ApiState;

/// Subprotocol that the client requests, next to the one that holds the key, and that the server selects.
const PROTOCOL: &str = "phoenix";

/// Upgrades the request to a socket on which the principal joins topics. Fails if the quota refuses the connection; the
/// plane is closed then.
pub async fn open<P: SocketKind>(
    state: ApiState,
    principal: Principal,
    mut plane: P,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    let place = match state.http.quota.open(&principal) {
        Ok(place) => place,
        Err(limited) => {
            plane.closed(HandOver::Uncertain).await;
            return Err(limited.into());
        }
    };
    let alive = state.http.connections.token();
    let terms = Terms::new(&state.http, &principal, PROTOCOL, CHANNEL_FRAME_BYTES);
    let mut env = SocketEnv::new(&state.http, &principal);
    // A browser tab in the background sends a heartbeat only once a minute.
    env.idle = env.idle * 3 / 2;
    let session = Session::new(state.http.quota.clone(), principal, plane);
    let phoenix = Box::new(Phoenix { session, texts: Vec::new(), text_bytes: 0, out: Outbox::default() });
    Ok(upgrade.open(terms, async move |socket| {
        let _held = (alive, place);
        driver::drive(socket, phoenix, env).await;
    }))
}

/// Session of a socket, as the driver of sockets sees it.
struct Phoenix<P> {
    session: Session<P>,
    /// Texts of the current turn, which the session processes together.
    texts: Vec<Utf8Bytes>,
    /// Size of these texts, in bytes.
    text_bytes: usize,
    out: Outbox,
}

impl<P: SocketKind> Protocol for Phoenix<P> {
    // A Phoenix server would treat a binary message as a push; no client of Threadline sends any.
    const BINARY: Binary = Binary::Ignored;
    // A producer may send unacknowledged events again through another node; versions before 1.69 do not.
    const CLOSING: Closing = Closing::Thorough;

    async fn receive(&mut self, text: Utf8Bytes) -> Result<(), CloseCode> {
        self.text_bytes += text.len();
        self.texts.push(text);
        Ok(())
    }

    fn takes_more(&self) -> bool {
        self.texts.len() < FRAMES_TOGETHER && self.text_bytes < FRAMES_TOGETHER_BYTES
    }

    async fn end_turn(&mut self) -> Result<(), CloseCode> {
        self.text_bytes = 0;
        self.session.take(&std::mem::take(&mut self.texts)).await
    }

    fn reading(&self) -> Reading {
        self.session.paused().map_or(Reading::Open, Reading::PausedUntil)
    }

    async fn ready(&mut self) -> Result<(), CloseCode> {
        self.session.pump().await
    }

    fn gather(&mut self) -> Result<(), CloseCode> {
        self.session.gather()
    }

    fn out(&mut self) -> &mut Outbox {
        for frame in self.session.take_out() {
            self.out.text(frame.into());
        }
        &mut self.out
    }

    fn written(&mut self) {
        self.session.written();
    }

    fn close_frames(code: CloseCode) -> CloseFrames {
        CloseFrames { text: None, code: wire_code(code) }
    }

    fn be_over(&mut self) {
        self.session.be_over();
    }

    async fn end(&mut self, hand_over: HandOver) {
        self.session.end(hand_over).await;
    }
}

/// Close codes of RFC 6455. Phoenix's clients treat all codes alike except 1000, after which some do not reconnect.
fn wire_code(code: CloseCode) -> u16 {
    match code {
        CloseCode::Draining => 1012,
        CloseCode::ServerError | CloseCode::SlowConsumer => 1011,
        CloseCode::CredentialOver | CloseCode::ForbiddenOrigin => 1008,
        CloseCode::Idle | CloseCode::MessageTimeout => 1001,
        CloseCode::NotUtf8 | CloseCode::BadFrame => 1007,
        CloseCode::TooLarge => 1009,
        CloseCode::ProtocolError | CloseCode::UnsupportedVersion => 1002,
    }
}
