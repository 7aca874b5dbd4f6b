//! Task of one long-poll session.

use threadline_core::{
    Principal,
    limits::{CHANNEL_POLL_TIMEOUT, CHANNEL_POLL_WAIT, FRAMES_TOGETHER, FRAMES_TOGETHER_BYTES},
};
use threadline_engine::metrics::GaugeGuard;
use threadline_http::ws::{close::CloseCode, protocol::HandOver};
use tokio::{
    sync::oneshot,
    time::{self, Instant},
};

use super::{
    channel::SocketKind,
    poll_sessions::{PollOpened, Polled, Post},
    session::Session,
};
use crate::api::ApiState;

/// Poll that waits for frames.
struct Waiting {
    answer: oneshot::Sender<Polled>,
    until: Instant,
}

/// Frames that are being processed.
struct Work {
    post: Post,
    done: usize,
}

struct Task<P> {
    session: Session<P>,
    waiting: Option<Waiting>,
    work: Option<Work>,
    /// Time of the client's last activity.
    seen: Instant,
    /// Time since which a reply that the client has not fetched holds a value.
    held: Option<Instant>,
}

/// Serves a session until it ends.
pub(super) async fn run<P: SocketKind>(state: ApiState, principal: Principal, plane: P, mut opened: PollOpened) {
    let metrics = state.service.metrics().clone();
    let _present = GaugeGuard::new(&metrics.sockets);
    let session = Session::new(state.http.quota.clone(), principal.clone(), plane);
    let mut task = Task { session, waiting: None, work: None, seen: Instant::now(), held: None };
    let code = task.serve(&state, &principal, &mut opened).await;
    if code == Some(CloseCode::Draining) {
        task.hand_over(&mut opened, Instant::now() + state.http.close).await;
    }
    // Later requests no longer find the session.
    drop(opened);
    if let Some(waiting) = task.waiting.take() {
        let _ = waiting.answer.send(match code {
            Some(CloseCode::Draining) | None => Polled::Gone,
            Some(CloseCode::CredentialOver) => Polled::Forbidden,
            Some(_) => Polled::Failed,
        });
    }
    if let Some(code) = code {
        metrics.socket_closed(code.reason());
    }
    task.session.end(HandOver::Uncertain).await;
}

impl<P: SocketKind> Task<P> {
    /// Serves until the client makes no more requests (`None`), or must be disconnected.
    async fn serve(&mut self, state: &ApiState, principal: &Principal, opened: &mut PollOpened) -> Option<CloseCode> {
        let mut turn = state.http.closing.turn();
        let mut credential = state.http.auth.watch(principal);
        loop {
            self.give();
            let now = Instant::now();
            self.held = self.session.holds().then(|| self.held.unwrap_or(now));
            let (is_waiting, has_work) = (self.waiting.is_some(), self.work.is_some());
            let next_frame = self.session.paused().unwrap_or(now);
            let has_room = self.session.has_room();
            let answered = self.waiting.as_ref().map_or(now, |waiting| waiting.until);
            tokio::select! {
                Some(answer) = opened.polls.recv() => self.wait(answer),
                Some(post) = opened.posts.recv(), if !has_work => self.work = Some(Work { post, done: 0 }),
                () = time::sleep_until(next_frame), if has_work => {
                    if !credential.still_holds().await {
                        return Some(CloseCode::CredentialOver);
                    }
                    if let Err(code) = self.take_some().await {
                        return Some(code);
                    }
                }
                pumped = self.session.pump(), if has_room => {
                    if let Err(code) = pumped.and_then(|()| self.session.gather()) {
                        return Some(code);
                    }
                }
                () = time::sleep_until(answered), if is_waiting => {
                    if let Some(waiting) = self.waiting.take() {
                        self.seen = Instant::now();
                        let _ = waiting.answer.send(Polled::Nothing);
                    }
                }
                () = left(&mut self.waiting), if is_waiting => {
                    self.waiting = None;
                    self.seen = Instant::now();
                }
                () = time::sleep_until(self.seen + CHANNEL_POLL_TIMEOUT), if !is_waiting && !has_work => return None,
                // A client that does not fetch its replies must not delay other clients.
                () = time::sleep_until(self.held.unwrap_or(now) + state.http.close), if self.held.is_some() => {
                    self.session.written();
                }
                () = turn.comes() => return Some(CloseCode::Draining),
                () = credential.expired() => return Some(CloseCode::CredentialOver),
            }
        }
    }

    /// Answers the waiting poll, if there are frames.
    fn give(&mut self) {
        if self.session.out_bytes() == 0 {
            return;
        }
        if let Some(waiting) = self.waiting.take() {
            self.seen = Instant::now();
            match waiting.answer.send(Polled::Frames(self.session.take_out())) {
                Err(Polled::Frames(frames)) => self.session.put_back(frames),
                Ok(()) | Err(_) => self.session.written(),
            }
        }
    }

    fn wait(&mut self, answer: oneshot::Sender<Polled>) {
        let waiting = Waiting { answer, until: Instant::now() + CHANNEL_POLL_WAIT };
        if let Some(before) = self.waiting.replace(waiting) {
            let _ = before.answer.send(Polled::Nothing);
        }
    }

    /// Processes the next frames of the current request.
    async fn take_some(&mut self) -> Result<(), CloseCode> {
        let Some(Work { post, done }) = &mut self.work else { return Ok(()) };
        let (mut lines, mut end) = (Vec::new(), (*done + FRAMES_TOGETHER_BYTES).min(post.lines.len()));
        // A line that crosses the bound is processed in the next pass. If it is the only line of this pass, the bound
        // moves to its end.
        if end < post.lines.len() {
            let cut = memchr::memrchr(b'\n', &post.lines[*done..end]).map(|at| *done + at);
            end = cut
                .or_else(|| memchr::memchr(b'\n', &post.lines[end..]).map(|at| end + at))
                .unwrap_or(post.lines.len());
        }
        let mut at = *done;
        while at < end && lines.len() < FRAMES_TOGETHER {
            let stop = memchr::memchr(b'\n', &post.lines[at..end]).map_or(end, |found| at + found);
            let line = std::str::from_utf8(&post.lines[at..stop]).map_err(|_| CloseCode::NotUtf8)?.trim();
            if !line.is_empty() {
                lines.push(line);
            }
            at = stop + 1;
        }
        // The position must pass the line end at which this pass stops.
        at += usize::from(at == end);
        self.session.take(&lines).await?;
        *done = at;
        if at >= post.lines.len()
            && let Some(work) = self.work.take()
        {
            self.seen = Instant::now();
            let _ = work.post.taken.send(());
        }
        Ok(())
    }

    /// Lets the client fetch the replies that it has not received: without them it would send the same frames again.
    async fn hand_over(&mut self, opened: &mut PollOpened, until: Instant) {
        while self.session.out_bytes() > 0 {
            match time::timeout_at(until, opened.polls.recv()).await {
                Ok(Some(answer)) => {
                    self.wait(answer);
                    self.give();
                }
                Ok(None) | Err(_) => return,
            }
        }
    }
}

/// Resolves once the client has closed the request of the waiting poll. Without a poll it never resolves.
async fn left(waiting: &mut Option<Waiting>) {
    match waiting {
        Some(waiting) => waiting.answer.closed().await,
        None => std::future::pending().await,
    }
}
