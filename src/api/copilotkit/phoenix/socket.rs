//! WebSocket transport of Phoenix channels.

use std::time::Duration;

use axum::response::Response;
use futures_util::FutureExt;
use threadline_http::{
    problem::Problem,
    ws::{
        Terms, Upgrade, WebSocket,
        close::{CloseCode, read_error},
    },
};
use tokio::time::{self, Instant};
use tokio_tungstenite::tungstenite::{
    Error, Message, Utf8Bytes,
    protocol::{CloseFrame, frame::coding::CloseCode as WireCode},
};

use super::{channel::SocketKind, session::Session};
use crate::{
    api::ApiState,
    domain::{
        Principal,
        limits::{CHANNEL_FRAME_BYTES, FRAMES_TOGETHER, FRAMES_TOGETHER_BYTES, UNTRUSTED_FRAME_BYTES},
    },
    metrics::GaugeGuard,
};

/// Subprotocol that the client requests, next to the one that holds the key, and that the server selects.
const PROTOCOL: &str = "phoenix";

/// Upgrades the request to a socket on which the principal joins topics. Fails if the quota refuses the connection; the
/// plane is closed then.
pub async fn open<P: SocketKind>(
    state: ApiState,
    principal: Principal,
    plane: P,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    let place = match state.http.quota.open(&principal) {
        Ok(place) => place,
        Err(limited) => {
            plane.closed(false).await;
            return Err(limited.into());
        }
    };
    let alive = state.http.connections.token();
    // A partial message occupies memory until the rest arrives, so the limit of an untrusted client is low.
    let largest = if principal.is_untrusted() { UNTRUSTED_FRAME_BYTES } else { CHANNEL_FRAME_BYTES };
    let terms = Terms { protocol: PROTOCOL, largest, message: state.http.quota.limits().message };
    Ok(upgrade.open(terms, async move |socket| {
        let _held = (alive, place);
        run(state, principal, plane, socket).await;
    }))
}

/// Reason for which the server stops serving a socket.
enum End {
    /// The client has closed the socket, or has disconnected.
    Gone,
    /// Writing to the client fails; frames that the client has sent may still wait to be read.
    Deaf,
    /// The server must close the socket.
    Close(CloseCode),
}

/// Serves a socket until it is closed.
pub async fn run<P: SocketKind>(state: ApiState, principal: Principal, plane: P, mut socket: WebSocket) {
    let metrics = state.service.metrics().clone();
    let _present = GaugeGuard::new(&metrics.sockets);
    let mut session = Session::new(state.http.quota.clone(), principal.clone(), plane);
    let handed_over = match serve(&state, &principal, &mut session, &mut socket).await {
        End::Gone => {
            session.be_over();
            // Reading to the end answers the client's close frame.
            let _ = time::timeout(state.http.close, async { while let Some(Ok(_)) = socket.recv().await {} }).await;
            false
        }
        End::Deaf => {
            session.be_over();
            read_rest(&mut session, &mut socket, state.http.close).await;
            false
        }
        End::Close(code) => {
            metrics.socket_closed(code.reason());
            // Frames that were collected before the close are still owed to the client.
            let written = code != CloseCode::SlowConsumer && flush(&state, &mut session, &mut socket).await.is_ok();
            session.be_over();
            farewell(&mut session, &mut socket, code, state.http.close).await && written
        }
    };
    session.end(handed_over).await;
}

async fn serve<P: SocketKind>(
    state: &ApiState,
    principal: &Principal,
    session: &mut Session<P>,
    socket: &mut WebSocket,
) -> End {
    let draining = state.http.draining.clone();
    let mut credential = state.http.auth.watch(principal);
    let mut beat = time::interval_at(Instant::now() + state.http.heartbeat, state.http.heartbeat);
    beat.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    // A browser tab in the background sends a heartbeat only once a minute.
    let idle = state.http.quota.limits().socket_idle * 3 / 2;
    let mut heard = Instant::now();
    loop {
        if let Err(end) = flush(state, session, socket).await {
            return end;
        }
        let paused = session.paused();
        let carried_out = tokio::select! {
            message = socket.recv(), if paused.is_none() => {
                let read = read(session, socket, message).await;
                heard = Instant::now();
                read
            }
            () = time::sleep_until(paused.unwrap_or(heard)), if paused.is_some() => {
                // The server did not read during the pause, so the pause must not count as idle time.
                heard = Instant::now();
                socket.restart_deadline();
                Ok(())
            }
            pumped = session.pump() => pumped.map_err(End::Close),
            _ = beat.tick() => {
                if paused.is_none() && heard.elapsed() > idle {
                    return End::Close(CloseCode::Idle);
                }
                ping(state, socket).await
            }
            () = draining.cancelled() => return End::Close(CloseCode::Draining),
            () = credential.expired() => return End::Close(CloseCode::CredentialOver),
        };
        if let Err(end) = carried_out.and_then(|()| session.gather().map_err(End::Close)) {
            return end;
        }
    }
}

/// Processes the frames that have arrived, in order. The number and size of frames per call are bounded, so that writes
/// need not wait for more.
async fn read<P: SocketKind>(
    session: &mut Session<P>,
    socket: &mut WebSocket,
    message: Option<Result<Message, Error>>,
) -> Result<(), End> {
    let (mut texts, mut bytes, mut end) = (Vec::new(), 0, Ok(()));
    let mut next = Some(message);
    while let Some(message) = next {
        match message {
            Some(Ok(Message::Text(text))) => {
                bytes += text.len();
                texts.push(text);
            }
            // A Phoenix server would treat a binary message as a push; no client of Threadline sends any.
            Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Close(_))) | None => end = Err(End::Gone),
            Some(Err(error)) => end = Err(read_error(&error).map_or(End::Gone, End::Close)),
        }
        let more = end.is_ok() && texts.len() < FRAMES_TOGETHER && bytes < FRAMES_TOGETHER_BYTES;
        next = if more { socket.recv().now_or_never() } else { None };
    }
    session.take(&texts).await.map_err(End::Close)?;
    end
}

/// Sends a ping. The client's pong shows that it is alive.
async fn ping(state: &ApiState, socket: &mut WebSocket) -> Result<(), End> {
    match time::timeout(state.http.quota.limits().write, socket.send(Message::Ping(bytes::Bytes::new()))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Deaf),
        Err(_) => Err(End::Close(CloseCode::SlowConsumer)),
    }
}

async fn flush<P: SocketKind>(state: &ApiState, session: &mut Session<P>, socket: &mut WebSocket) -> Result<(), End> {
    // The timeout grows with the bytes to be written, so only a client below the slowest allowed rate is disconnected.
    let limits = state.http.quota.limits();
    let patience = limits.write + Duration::from_secs((session.out_bytes() / limits.slowest_read.max(1)) as u64);
    let frames = session.take_out();
    if frames.is_empty() {
        return Ok(());
    }
    let write = async {
        for frame in frames {
            socket.feed(Message::text(frame)).await?;
        }
        socket.flush().await
    };
    let written = time::timeout(patience, write).await;
    session.written();
    match written {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Deaf),
        Err(_) => Err(End::Close(CloseCode::SlowConsumer)),
    }
}

/// Processes the pushes that arrived before the client disconnected or the server closed the socket, for at most
/// `patience`. Returns the client's close frame, if it has sent one.
async fn read_rest<P: SocketKind>(
    session: &mut Session<P>,
    socket: &mut WebSocket,
    patience: Duration,
) -> Option<CloseFrame> {
    let until = Instant::now() + patience;
    // The timeout applies to reading only: a push whose processing has begun is completed.
    while let Ok(Some(Ok(message))) = time::timeout_at(until, socket.recv()).await {
        match message {
            Message::Text(text) => session.take(&[text]).await.ok()?,
            Message::Close(frame) => return frame,
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
    None
}

/// Closes a socket. Returns true if the client has answered the close with the same code: the client has then read all
/// frames.
async fn farewell<P: SocketKind>(
    session: &mut Session<P>,
    socket: &mut WebSocket,
    code: CloseCode,
    patience: Duration,
) -> bool {
    let wire = WireCode::from(wire_code(code));
    let close = CloseFrame { code: wire, reason: Utf8Bytes::from_static(code.reason()) };
    if !matches!(time::timeout(patience, socket.send(Message::Close(Some(close)))).await, Ok(Ok(()))) {
        return false;
    }
    let answer = if code == CloseCode::Draining {
        // A producer may send unacknowledged events again through another node; versions before 1.69 do not.
        read_rest(session, socket, patience).await
    } else {
        let close = async {
            loop {
                match socket.recv().await? {
                    Ok(Message::Close(frame)) => return frame,
                    Ok(_) => {}
                    Err(_) => return None,
                }
            }
        };
        time::timeout(patience, close).await.ok().flatten()
    };
    // A close with another code is no answer: the client was closing the connection on its own initiative.
    let handed_over = answer.is_some_and(|answer| answer.code == wire);
    // The client must be the first to see the end of the connection.
    let _ = time::timeout(patience, async { while let Some(Ok(_)) = socket.recv().await {} }).await;
    handed_over
}

/// Close codes of RFC 6455. Phoenix's clients treat all codes alike except 1000, after which some do not reconnect.
fn wire_code(code: CloseCode) -> u16 {
    match code {
        CloseCode::Draining => 1012,
        CloseCode::ServerError | CloseCode::SlowConsumer => 1011,
        CloseCode::CredentialOver => 1008,
        CloseCode::Idle | CloseCode::MessageTimeout => 1001,
        CloseCode::NotUtf8 | CloseCode::BadFrame => 1007,
        CloseCode::TooLarge => 1009,
        CloseCode::ProtocolError | CloseCode::UnsupportedVersion => 1002,
    }
}
