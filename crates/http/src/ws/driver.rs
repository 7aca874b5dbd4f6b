//! The loop of every socket: reads the client, writes what is pending with one flush, and closes. No queue exists per
//! subscriber: a [`Protocol`] adds output only when the output before is written, so a client that does not read falls
//! behind, and after a timeout its socket is closed.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use threadline_core::{Principal, limits::SOCKET_PINGS};
use threadline_engine::{
    close_schedule::CloseTurn,
    metrics::{GaugeGuard, Metrics},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{self, Instant},
};
use tokio_tungstenite::tungstenite::{
    Error, Message, Utf8Bytes,
    protocol::{CloseFrame, frame::coding::CloseCode as WireCode},
};

use super::{
    WebSocket,
    close::{CloseCode, read_error},
    protocol::{Binary, CloseFrames, Closing, HandOver, Protocol, Reading},
};
use crate::{HttpState, auth::watch::CredentialWatch};

/// Surroundings of a socket.
pub struct SocketEnv {
    /// Turn of this socket to be closed when the node shuts down.
    pub turn: CloseTurn,
    /// Watch over the credential that the socket was opened with.
    pub credential: CredentialWatch,
    /// Time between two pings.
    pub heartbeat: Duration,
    /// Time without any message of the client after which it is disconnected, at the next heartbeat.
    pub idle: Duration,
    /// Time for a write, however small.
    pub write: Duration,
    /// Slowest allowed rate of reading, in bytes per second. The time for a write grows with its bytes.
    pub slowest_read: usize,
    /// Timeout of the close handshake.
    pub close: Duration,
    pub metrics: Metrics,
}

impl SocketEnv {
    /// Surroundings of a principal's socket.
    pub fn new(http: &HttpState, principal: &Principal) -> Self {
        let limits = http.quota.limits();
        Self {
            turn: http.closing.turn(),
            credential: http.auth.watch(principal),
            heartbeat: http.heartbeat,
            idle: limits.socket_idle,
            write: limits.write,
            slowest_read: limits.slowest_read,
            close: http.close,
            metrics: http.metrics.clone(),
        }
    }
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

/// Treatment of texts that arrive after the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Process,
    Drop,
}

/// Serves a socket until it is closed. The protocol is boxed because each future on the way to the driver holds a copy of
/// its arguments, and an idle socket must take little memory.
pub async fn drive<P, T>(socket: WebSocket<T>, protocol: Box<P>, env: SocketEnv)
where
    P: Protocol,
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let _present = GaugeGuard::new(&env.metrics.sockets);
    let mut driver = Driver { socket, protocol, env, ping: None, pings: Pings::default() };
    let end = driver.serve().await;
    driver.end(end).await;
}

/// Closes a socket that is not served.
pub async fn refuse<P, T>(socket: WebSocket<T>, protocol: Box<P>, env: SocketEnv, code: CloseCode)
where
    P: Protocol,
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let _present = GaugeGuard::new(&env.metrics.sockets);
    Driver { socket, protocol, env, ping: None, pings: Pings::default() }.end(End::Close(code)).await;
}

struct Driver<P, T> {
    socket: WebSocket<T>,
    protocol: Box<P>,
    env: SocketEnv,
    /// Ping to be written with the next flush.
    ping: Option<Message>,
    pings: Pings,
}

/// Pings of the client: the time at which as many as allowed may come at once again.
#[derive(Default)]
struct Pings(Option<Instant>);

impl Pings {
    fn came(&mut self, now: Instant) {
        let each = Duration::from_secs(1) / SOCKET_PINGS;
        self.0 = Some(self.0.map_or(now, |rested| rested.max(now)) + each);
    }

    /// Time until which a client that pings too often is not read; `None` if it is read now.
    fn pause(&self, now: Instant) -> Option<Instant> {
        self.0.and_then(|rested| rested.checked_sub(Duration::from_secs(1))).filter(|until| *until > now)
    }
}

impl<P: Protocol, T: AsyncRead + AsyncWrite + Unpin + Send> Driver<P, T> {
    async fn serve(&mut self) -> End {
        let mut beat = time::interval_at(Instant::now() + self.env.heartbeat, self.env.heartbeat);
        beat.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        let mut before = Reading::Open;
        loop {
            let held = self.protocol.reading();
            if held != Reading::Open {
                // The client is not read during the flush either, and the pause may end before it.
                before = held;
            }
            if let Err(end) = self.flush().await {
                return end;
            }
            let reading = self.protocol.reading();
            if before != Reading::Open && reading == Reading::Open {
                // The client was not read meanwhile: an incomplete message gets its complete timeout again.
                self.socket.restart_deadline();
            }
            let paused = pause(reading);
            if pause(before).is_some() && paused.is_none() {
                // The client was not read during the pause: its idle time starts again.
                heard = Instant::now();
            }
            before = reading;
            // A pause for pings gives no message its timeout again: else pings would keep half of one alive.
            let rests = self.pings.pause(Instant::now());
            if rests.is_some() && self.socket.is_overdue() {
                return End::Close(CloseCode::MessageTimeout);
            }
            let waits = paused.or(rests);
            let turn = tokio::select! {
                message = self.socket.recv(), if reading == Reading::Open && rests.is_none() => {
                    let read = self.read(message).await;
                    heard = Instant::now();
                    read
                }
                () = time::sleep_until(waits.unwrap_or(heard)), if waits.is_some() => Ok(()),
                ready = self.protocol.ready() => ready.map_err(End::Close),
                _ = beat.tick() => {
                    if paused.is_none() && heard.elapsed() > self.env.idle {
                        return End::Close(CloseCode::Idle);
                    }
                    self.protocol.beat();
                    // The client's pong shows that it is alive.
                    self.ping = Some(Message::Ping(Bytes::new()));
                    Ok(())
                }
                () = self.env.turn.comes() => return End::Close(CloseCode::Draining),
                () = self.env.credential.expired() => return End::Close(CloseCode::CredentialOver),
            };
            if let Err(end) = turn.and_then(|()| self.protocol.gather().map_err(End::Close)) {
                return end;
            }
        }
    }

    /// Processes a message, and the messages that have arrived with it, in one turn.
    async fn read(&mut self, message: Option<Result<Message, Error>>) -> Result<(), End> {
        let (mut next, mut end) = (Some(message), Ok(()));
        while let Some(message) = next {
            match message {
                Some(Ok(Message::Text(text))) => {
                    if self.env.credential.still_holds().await {
                        self.protocol.receive(text).await.map_err(End::Close)?;
                    } else {
                        end = Err(End::Close(CloseCode::CredentialOver));
                    }
                }
                Some(Ok(Message::Binary(_))) if P::BINARY == Binary::Refused => {
                    end = Err(End::Close(CloseCode::BadFrame));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => self.pings.came(Instant::now()),
                Some(Ok(Message::Binary(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) | None => end = Err(End::Gone),
                Some(Err(error)) => end = Err(read_error(&error).map_or(End::Gone, End::Close)),
            }
            let more = end.is_ok() && self.protocol.takes_more() && self.pings.pause(Instant::now()).is_none();
            next = if more { self.socket.recv().now_or_never() } else { None };
        }
        self.protocol.end_turn().await.map_err(End::Close)?;
        end
    }

    /// Writes the pending messages.
    async fn flush(&mut self) -> Result<(), End> {
        let out = self.protocol.out();
        out.messages.extend(self.ping.take());
        if out.messages.is_empty() {
            return Ok(());
        }
        // The timeout grows with the bytes to be written, so only a client below the slowest allowed rate is disconnected.
        let patience = self.env.write + Duration::from_secs((out.bytes() / self.env.slowest_read.max(1)) as u64);
        let write = async {
            for message in out.messages.drain(..) {
                self.socket.feed(message).await?;
            }
            self.socket.flush().await
        };
        let written = time::timeout(patience, write).await;
        out.clear();
        match written {
            Ok(Ok(())) => {
                self.protocol.written();
                Ok(())
            }
            Ok(Err(_)) => Err(End::Deaf),
            Err(_) => Err(End::Close(CloseCode::SlowConsumer)),
        }
    }

    async fn end(&mut self, end: End) {
        let thorough = P::CLOSING == Closing::Thorough;
        let written = match end {
            End::Close(code) => {
                self.env.metrics.socket_closed(code.reason());
                thorough && code != CloseCode::SlowConsumer && self.flush().await.is_ok()
            }
            End::Gone | End::Deaf => false,
        };
        self.protocol.be_over();
        let answered = match end {
            End::Close(code) => self.close(code).await,
            End::Deaf if thorough => {
                self.read_rest(Rest::Process, self.timeout()).await;
                HandOver::Uncertain
            }
            End::Gone | End::Deaf => {
                self.read_to_end(self.timeout()).await;
                HandOver::Uncertain
            }
        };
        self.protocol.end(if written { answered } else { HandOver::Uncertain }).await;
    }

    /// Carries out the close handshake (RFC 6455, section 7). Complete if the client has answered with the same code.
    async fn close(&mut self, code: CloseCode) -> HandOver {
        let until = self.timeout();
        let CloseFrames { text, code: wire } = P::close_frames(code);
        let wire = WireCode::from(wire);
        let close = CloseFrame { code: wire, reason: Utf8Bytes::from_static(code.reason()) };
        let send = async {
            if let Some(text) = text {
                self.socket.feed(Message::Text(text)).await?;
            }
            self.socket.send(Message::Close(Some(close))).await
        };
        // A client that does not read cannot receive the reason: its connection ends at the timeout.
        if !matches!(time::timeout_at(until, send).await, Ok(Ok(()))) {
            return HandOver::Uncertain;
        }
        // A producer may send unacknowledged frames again through another node, but not every producer does.
        let process = P::CLOSING == Closing::Thorough && code == CloseCode::Draining;
        let rest = if process { Rest::Process } else { Rest::Drop };
        let answer = self.read_rest(rest, self.next_timeout(until)).await;
        // A close with another code is no answer: the client was closing the connection on its own initiative.
        let answered = answer.is_some_and(|answer| answer.code == wire);
        // The client must be the first to see the end of the connection.
        self.read_to_end(self.next_timeout(until)).await;
        if answered { HandOver::Complete } else { HandOver::Uncertain }
    }

    fn timeout(&self) -> Instant {
        Instant::now() + self.env.close
    }

    /// End of the next step of a handshake whose first step ended by `until`.
    fn next_timeout(&self, until: Instant) -> Instant {
        match P::CLOSING {
            Closing::Prompt => until,
            Closing::Thorough => self.timeout(),
        }
    }

    /// Reads until the client's close frame, which is returned, or until the connection ends.
    async fn read_rest(&mut self, rest: Rest, until: Instant) -> Option<CloseFrame> {
        // The timeout applies to reading only: a text whose processing has begun is completed. A timeout looks at the clock
        // only when no message is ready, and a client may send without a pause.
        while (rest == Rest::Process || Instant::now() < until)
            && let Ok(Some(Ok(message))) = time::timeout_at(until, self.socket.recv()).await
        {
            match message {
                Message::Text(text) if rest == Rest::Process => {
                    if !self.env.credential.still_holds().await {
                        return None;
                    }
                    self.protocol.receive(text).await.ok()?;
                    self.protocol.end_turn().await.ok()?;
                }
                Message::Close(frame) => return frame,
                Message::Text(_) | Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
        None
    }

    /// Reads until the connection ends, which also answers the client's close frame, if one was sent.
    async fn read_to_end(&mut self, until: Instant) {
        let _ = time::timeout_at(until, async { while let Some(Ok(_)) = self.socket.recv().await {} }).await;
    }
}

fn pause(reading: Reading) -> Option<Instant> {
    match reading {
        Reading::PausedUntil(until) => Some(until),
        Reading::Open | Reading::Full => None,
    }
}
