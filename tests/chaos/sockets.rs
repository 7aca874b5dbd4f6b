//! A producer on a socket: several appends under way at once, sent again in order on another node after a break.

use std::collections::VecDeque;

use serde_json::value::RawValue;
use threadline_client::{ClientError, ClientFrame, Problem, ServerFrame, Socket, event_array};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    healing::is_lost,
    history::{Class, Line, Micros, Outcome, Request, What, now},
    producers::{Producer, Step},
    world::PATIENCE,
};

/// Appends under way at once.
const AHEAD: usize = 8;

/// An append without an answer yet.
struct Pending {
    what: What,
    events: Box<RawValue>,
    sent: Micros,
}

impl Pending {
    /// Number of the first event.
    fn from(&self) -> u64 {
        match self.what {
            What::Append { from, .. } => from,
            _ => 0,
        }
    }
}

/// How a turn on a socket ended.
enum Turn {
    Went(Step),
    /// The connection is of no use any more.
    Broke,
    /// Events before those under way are lost.
    Lost,
}

impl Producer {
    /// Runs one run over sockets.
    pub async fn over_a_socket(&mut self) {
        if !self.start().await {
            return;
        }
        let mut left = self.caller.rng.between(3, 60);
        let terminal = self.caller.rng.chance(50);
        let cares = self.caller.rng.chance(70);
        let rude = self.caller.rng.chance(self.caller.world.size.rude);
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let mut socket = None;
        let began = Instant::now();
        while left > 0 || !pending.is_empty() {
            if !self.caller.world.is_running() {
                left = left.min(1);
            }
            if socket.is_none() {
                socket = self.connect(&mut pending).await;
            }
            let Some(open) = &mut socket else {
                if !self.caller.again(began).await {
                    return self.note_all(&mut pending, &Outcome::Unknown);
                }
                continue;
            };
            match self.turn(open, &mut left, terminal, &mut pending).await {
                Turn::Went(Step::Goes) => {}
                Turn::Went(Step::StopAsked) if !cares => {}
                // What is still under way may arrive before the end or not.
                Turn::Went(Step::StopAsked) => {
                    self.note_all(&mut pending, &Outcome::Unknown);
                    return self.end().await;
                }
                Turn::Went(Step::Over) => return self.note_all(&mut pending, &Outcome::Unknown),
                Turn::Lost => {
                    self.note_all_kept(&pending, &Outcome::Unknown);
                    socket = None;
                    let next = pending.front().map_or(self.next, |append| append.from());
                    if !self.send_lost(next).await {
                        return;
                    }
                }
                Turn::Broke => {
                    self.note_all_kept(&pending, &Outcome::Unknown);
                    socket = None;
                    self.caller.hop();
                    // Some die with their node.
                    if self.caller.rng.chance(20) {
                        return;
                    }
                }
            }
            // Like a user who thinks that the run hangs.
            if rude && pending.len() == AHEAD - 1 && self.caller.rng.chance(10) {
                self.note_all(&mut pending, &Outcome::Unknown);
                self.caller.hop();
                return self.end().await;
            }
            if pending.is_empty() && self.caller.rng.chance(self.caller.world.size.hops) {
                self.caller.hop();
                socket = None;
            }
            // A connection that is dropped on purpose, with appends under way.
            if self.caller.rng.chance(self.caller.world.size.dropped) {
                self.note_all_kept(&pending, &Outcome::Dropped);
                socket = None;
            }
        }
        if !terminal {
            self.end().await;
        }
    }

    /// A socket on the node of the moment, with everything sent again that has no answer.
    async fn connect(&mut self, pending: &mut VecDeque<Pending>) -> Option<Socket> {
        let client = self.caller.client();
        let Ok(Ok(mut socket)) = timeout(PATIENCE, client.socket()).await else {
            self.caller.hop();
            return None;
        };
        for append in pending.iter_mut() {
            append.sent = now();
            if self.send(&mut socket, append).await.is_err() {
                self.note_all_kept(pending, &Outcome::Unknown);
                return None;
            }
        }
        Some(socket)
    }

    async fn send(&self, socket: &mut Socket, append: &Pending) -> Result<(), ClientError> {
        let from = append.from();
        let frame = ClientFrame::Append {
            thread_id: self.thread.clone(),
            run_id: self.run.clone(),
            producer_seq: Some(from),
            events: append.events.clone(),
        };
        let sent = timeout(PATIENCE, socket.send(Some(&from.to_string()), &frame)).await;
        sent.unwrap_or(Err(ClientError::Unanswered))
    }

    /// Sends some ahead, then takes one answer.
    async fn turn(
        &mut self,
        socket: &mut Socket,
        left: &mut u64,
        terminal: bool,
        pending: &mut VecDeque<Pending>,
    ) -> Turn {
        while *left > 0 && pending.len() < AHEAD {
            *left -= 1;
            let (what, body) = self.take(terminal && *left == 0);
            let events = event_array(body.as_bytes()).expect("events");
            let append = Pending { what, events, sent: now() };
            let sent = self.send(socket, &append).await;
            pending.push_back(append);
            if sent.is_err() {
                return Turn::Broke;
            }
            let most = self.caller.world.size.pause;
            self.caller.breathe(most).await;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Ok(Ok((id, frame))) = timeout_at(deadline, socket.next()).await else { return Turn::Broke };
            let from = id.and_then(|id| id.parse::<u64>().ok());
            let at = from.and_then(|from| pending.iter().position(|append| append.from() == from));
            let Some(at) = at else { continue };
            match frame {
                ServerFrame::Appended(told) => {
                    let Some(append) = pending.remove(at) else { continue };
                    self.note(
                        &append,
                        Outcome::Done { first: told.first_seq, ended: false, epoch: Some(told.epoch.clone()) },
                    );
                    self.acknowledged(told.last_seq + 1 - told.first_seq);
                    return Turn::Went(if told.stop_requested { Step::StopAsked } else { Step::Goes });
                }
                ServerFrame::Error(problem) if is_open(&problem) => {
                    if problem.status == 500 {
                        let what = format!("node {} answers an append with {problem}", self.caller.node);
                        self.caller.world.wrong(Class::Lost, what);
                    }
                    return Turn::Broke;
                }
                ServerFrame::Error(problem) if is_lost(&problem.slug) => {
                    self.note(&pending[at], Outcome::Refused { slug: problem.slug.clone(), active: None });
                    return Turn::Lost;
                }
                ServerFrame::Error(problem) => {
                    let Some(append) = pending.remove(at) else { continue };
                    self.note(&append, Outcome::Refused { slug: problem.slug.clone(), active: None });
                    self.expect_over(&problem.slug);
                    return Turn::Went(Step::Over);
                }
                _ => {}
            }
        }
    }

    fn note(&self, append: &Pending, outcome: Outcome) {
        let request = Request {
            at: append.sent,
            done: now(),
            node: self.caller.node,
            thread: self.thread.clone(),
            run: self.run.clone(),
            what: append.what,
            outcome,
        };
        self.caller.history.write(&Line::Request(request));
    }

    fn note_all_kept(&self, pending: &VecDeque<Pending>, outcome: &Outcome) {
        pending.iter().for_each(|append| self.note(append, outcome.clone()));
    }

    fn note_all(&self, pending: &mut VecDeque<Pending>, outcome: &Outcome) {
        self.note_all_kept(pending, outcome);
        pending.clear();
    }
}

/// Whether a problem leaves it open what became of the append.
fn is_open(problem: &Problem) -> bool {
    problem.status >= 500 || matches!(problem.status, 408 | 429)
}
