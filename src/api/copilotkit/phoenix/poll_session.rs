//! The task of one long-poll session.

use tokio::{
    sync::oneshot,
    time::{self, Instant},
};

use super::{
    channel::Plane,
    longpoll::{Opened, Polled, Post},
    session::Session,
};
use crate::{
    api::{ApiState, native::socket::CloseCode},
    domain::{
        Principal,
        limits::{CHANNEL_POLL_PATIENCE, CHANNEL_POLL_WAIT, FRAMES_TOGETHER, FRAMES_TOGETHER_BYTES},
    },
    metrics::Present,
};

/// A poll that waits for something to answer.
struct Waiting {
    answer: oneshot::Sender<Polled>,
    until: Instant,
}

/// Frames that are being carried out.
struct Work {
    post: Post,
    done: usize,
}

struct Task<P> {
    session: Session<P>,
    waiting: Option<Waiting>,
    work: Option<Work>,
    /// When the client was last there.
    seen: Instant,
    /// Since when something waits for its reply to be fetched.
    held: Option<Instant>,
}

/// Serves a session until it ends.
pub(super) async fn run<P: Plane>(state: ApiState, principal: Principal, plane: P, mut opened: Opened) {
    let metrics = state.service.metrics().clone();
    let _present = Present::new(&metrics.sockets);
    let session = Session::new(state.quota.clone(), principal.clone(), plane);
    let mut task = Task { session, waiting: None, work: None, seen: Instant::now(), held: None };
    let code = task.serve(&state, &principal, &mut opened).await;
    if code == Some(CloseCode::Draining) {
        task.hand_over(&mut opened, Instant::now() + state.close).await;
    }
    // From here on it is not found any more.
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
    task.session.end(false).await;
}

impl<P: Plane> Task<P> {
    /// Serves until the client stays away (`None`), or is to be sent away.
    async fn serve(&mut self, state: &ApiState, principal: &Principal, opened: &mut Opened) -> Option<CloseCode> {
        let draining = state.draining.clone();
        let mut credential = state.auth.watch(principal);
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
                () = time::sleep_until(self.seen + CHANNEL_POLL_PATIENCE), if !is_waiting && !has_work => return None,
                // Nobody else waits for a client that does not fetch its replies.
                () = time::sleep_until(self.held.unwrap_or(now) + state.close), if self.held.is_some() => {
                    self.session.written();
                }
                () = draining.cancelled() => return Some(CloseCode::Draining),
                () = credential.over() => return Some(CloseCode::CredentialOver),
            }
        }
    }

    /// Answers the poll that waits, if there is something to answer.
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

    /// Carries out the next frames of what was sent.
    async fn take_some(&mut self) -> Result<(), CloseCode> {
        let Some(Work { post, done }) = &mut self.work else { return Ok(()) };
        let (mut lines, mut end) = (Vec::new(), (*done + FRAMES_TOGETHER_BYTES).min(post.lines.len()));
        // A line that is cut here is carried out with those behind it, or alone if it is the only one.
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
        // Nothing stands between two line ends.
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

    /// Lets the client fetch the replies that it has not seen: it would send again what they are about.
    async fn hand_over(&mut self, opened: &mut Opened, until: Instant) {
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

/// The client of this poll has gone.
async fn left(waiting: &mut Option<Waiting>) {
    match waiting {
        Some(waiting) => waiting.answer.closed().await,
        None => std::future::pending().await,
    }
}
