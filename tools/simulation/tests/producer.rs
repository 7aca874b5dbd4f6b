//! Producers: each writes one run after the other to threads that it shares with other producers, under faults.

use std::collections::VecDeque;

use futures_util::SinkExt;
use hyper::Method;
use serde_json::{Value, json};
use threadline_core::Timestamp;
use tokio_tungstenite::tungstenite::Message;

use crate::{
    client::Client,
    network::{Socket, frame, socket},
    plan::Plan,
    planted::Design,
    record::Fate,
    reply::{Reply, slug},
    world::Held,
};

/// Next step of a producer in its run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Goes,
    /// The next batch has to end the run.
    Stops,
    Over,
}

/// A producer with its current run.
struct Work {
    client: Client,
    thread: usize,
    id: String,
}

/// Writes runs until the faults have ended.
pub async fn work(client: Client) {
    let world = client.world.clone();
    let mut work = Work { client, thread: 0, id: String::new() };
    for thread in 0..world.plan.threads {
        let create = json!({ "threadId": Plan::thread(thread) }).to_string();
        let made = work.client.insist(Method::POST, "/v1/threads", &create).await;
        if !matches!(made, Reply::Done(..)) {
            world.tally.violation(format!("a thread was not created: {made:?}"));
        }
    }
    let mut number = 0;
    while !world.is_calm() {
        work.thread = work.client.rng.between(0, world.plan.threads as u64 - 1) as usize;
        work.id = format!("{}.{number}", work.client.name);
        match work.client.rng.between(0, 9) {
            0..=3 => work.requests().await,
            4..=7 => work.frames().await,
            8 => work.streamed().await,
            _ => work.whole().await,
        }
        number += 1;
        work.client.pause(0, 300).await;
    }
    world.produced();
}

/// Stops runs of other clients at random times.
pub async fn stop(mut client: Client) {
    while !client.world.is_calm() {
        client.pause(300, 3_000).await;
        let thread = client.rng.between(0, client.world.plan.threads as u64 - 1) as usize;
        let path = format!("/v1/threads/{}", Plan::thread(thread));
        let Reply::Done(_, thread) = client.send(Method::GET, &path, "").await else { continue };
        let Some(run) = thread["activeRun"]["runId"].as_str() else { continue };
        match client.send(Method::POST, &format!("{path}/runs/{run}/stop"), "").await {
            Reply::Done(..) => client.world.counts().stops += 1,
            Reply::Unknown(_) => {}
            Reply::Refused(slug, problem) => {
                client.world.tally.violation(format!("stop of {run}: {slug} {problem}"));
            }
        }
    }
}

impl Work {
    fn path(&self, rest: &str) -> String {
        format!("/v1/threads/{}/runs{rest}", Plan::thread(self.thread))
    }

    fn with<T>(&self, change: impl FnOnce(&mut crate::record::RunRecord) -> T) -> T {
        self.client.world.lanes[self.thread].with(&self.id, change)
    }

    fn wrong(&self, what: impl std::fmt::Display) {
        self.client.world.tally.violation(format!("{}: {what}", self.id));
    }

    /// Starts the run; false if another run is active, or the start was refused.
    async fn start(&mut self) -> bool {
        self.with(|_| ());
        let body = json!({ "runId": self.id, "leaseSeconds": self.client.world.plan.lease }).to_string();
        let asked = self.client.world.clock.now();
        match self.client.insist(Method::POST, &self.path(""), &body).await {
            Reply::Done(_, answer) => {
                self.with(|run| run.started = true);
                self.leased(&answer["run"]);
                true
            }
            Reply::Refused(slug, problem) if slug == "run-active" => {
                self.held(asked, &problem);
                false
            }
            reply => {
                self.wrong(format_args!("the start got {reply:?}"));
                false
            }
        }
    }

    /// Records that a start was refused because another run was active.
    fn held(&self, asked: Timestamp, problem: &Value) {
        let world = &self.client.world;
        let by = problem["run"]["runId"].as_str().unwrap_or_default().to_owned();
        let held = Held { thread: Plan::thread(self.thread), by, asked, answered: world.clock.now() };
        world.held.lock().expect("lock").push(held);
        world.counts().held += 1;
    }

    /// Records the end of the lease that an answer promised.
    fn leased(&self, answer: &Value) {
        if let Some(until) = answer["leaseUntil"].as_str() {
            let leases = &mut self.client.world.leases.lock().expect("lock");
            let known = leases.entry(self.id.clone()).or_default();
            *known = until.to_owned().max(std::mem::take(known));
        }
    }

    /// Creates events; returns the number of their batch, the batch as JSON, and the producerSeq of the first event.
    fn prepare(&mut self, terminal: bool) -> (usize, String, usize) {
        let count = self.client.rng.between(1, 12) as usize;
        let id = self.id.clone();
        let rng = &mut self.client.rng;
        self.client.world.lanes[self.thread].with(&self.id, |run| {
            let batch = run.prepare(&id, count, terminal, rng);
            (batch, run.array(batch), run.batches[batch].from + 1)
        })
    }

    fn acked(&self, batch: usize, receipt: &Value) -> Step {
        let first = receipt["firstSeq"].as_u64().unwrap_or(0);
        let count = self.with(|run| {
            let sent = &mut run.batches[batch];
            sent.fate = Fate::Acked(first);
            (sent.to - sent.from) as u64
        });
        self.client.world.tally.acked(count as usize);
        self.client.note(format_args!("{} batch {batch} is at {first}", self.id));
        if receipt["lastSeq"] != first + count - 1 {
            self.wrong(format_args!("batch {batch} of {count} events: {receipt}"));
        }
        self.leased(receipt);
        if receipt["stopRequested"] == true { Step::Stops } else { Step::Goes }
    }

    fn refused(&self, batch: usize, slug: &str, problem: &Value) -> Step {
        self.with(|run| run.batches[batch].fate = Fate::Refused);
        self.client.world.counts().fenced += 1;
        if slug != "run-fenced" {
            self.wrong(format_args!("only run-fenced is a valid refusal, but the answer is {problem}"));
        }
        Step::Over
    }

    /// Writes a run with a request for each batch.
    async fn requests(&mut self) {
        if !self.start().await {
            return;
        }
        let mut left = self.client.rng.between(1, 8);
        let mut stops = false;
        while left > 0 {
            left -= 1;
            let terminal = stops || (left == 0 && self.client.rng.chance(60));
            let step = self.append(terminal).await;
            if step == Step::Over {
                return;
            }
            if terminal {
                return self.with(|run| run.ended = true);
            }
            if step == Step::Stops && self.client.rng.chance(80) {
                (stops, left) = (true, 1);
            }
            // Some producers are too slow for their lease, and some abandon the run.
            match self.client.rng.between(0, 99) {
                0..=3 => self.client.pause(500, 6_000).await,
                4..=5 => return,
                _ => self.client.pause(0, 120).await,
            }
        }
        self.end().await;
    }

    async fn append(&mut self, terminal: bool) -> Step {
        let (batch, events, mut seq) = self.prepare(terminal);
        loop {
            let path = self.path(&format!("/{}/events?producerSeq={seq}", self.id));
            match self.client.send(Method::POST, &path, &events).await {
                Reply::Done(_, receipt) => return self.acked(batch, &receipt),
                Reply::Refused(slug, problem) => return self.refused(batch, &slug, &problem),
                // Some producers do not retry.
                Reply::Unknown(_) if self.client.rng.chance(10) => return Step::Over,
                Reply::Unknown(_) if self.client.world.design == Design::RetriesAsNew => {
                    let run = self.path(&format!("/{}", self.id));
                    if let Reply::Done(_, run) = self.client.send(Method::GET, &run, "").await {
                        seq = run["producerSeq"].as_u64().unwrap_or(0) as usize + 1;
                    }
                }
                Reply::Unknown(_) => {}
            }
        }
    }

    /// Ends the run, or leaves it to the reaper.
    async fn end(&mut self) {
        let how = match self.client.rng.between(0, 9) {
            0..=4 => "finish",
            5..=6 => "fail",
            7 => "release",
            _ => return,
        };
        match self.client.insist(Method::POST, &self.path(&format!("/{}/{how}", self.id)), "{}").await {
            Reply::Done(_, run) if how == "release" || !run["endedAt"].is_null() => {
                self.with(|run| run.ended = how != "release");
            }
            reply => self.wrong(format_args!("{how}: {reply:?}")),
        }
    }

    /// Appends a complete run with one request.
    async fn whole(&mut self) {
        let terminal = self.client.rng.chance(50);
        let (batch, events, _) = self.prepare(terminal);
        let path = self.path(&format!("/{}", self.id));
        match self.client.insist(Method::PUT, &path, &events).await {
            Reply::Done(_, answer) => {
                self.with(|run| (run.started, run.ended) = (true, true));
                let first = answer["run"]["firstSeq"].as_u64().unwrap_or(0);
                let count = self.with(|run| run.events.len() as u64);
                self.acked(batch, &json!({ "firstSeq": first, "lastSeq": first + count - 1 }));
            }
            Reply::Refused(slug, _) if slug == "run-active" => self.with(|run| run.batches[batch].fate = Fate::Refused),
            reply => self.wrong(format_args!("the complete run got {reply:?}")),
        }
    }

    /// Writes a run as the body of one request, whose bytes extend the lease.
    async fn streamed(&mut self) {
        self.with(|run| run.streamed = true);
        let terminal = self.client.rng.chance(50);
        let (batch, _, _) = self.prepare(terminal);
        let lines = self.with(|run| run.events.clone());
        let asked = self.client.world.clock.now();
        let (mut from, lease) = (0, self.client.world.plan.lease);
        loop {
            // Some pauses are longer than the lease: blank lines extend it, or it expires in silence.
            let (is_slow, is_silent) = (self.client.rng.chance(10), self.client.rng.chance(30));
            let longest = if is_slow { 1_500 * lease } else { 200 };
            let mut pieces = Vec::new();
            for line in &lines[from..] {
                let mut pause = self.client.rng.between(0, longest);
                while is_slow && !is_silent && pause > 250 * lease {
                    pieces.push((250 * lease, String::new()));
                    pause -= 250 * lease;
                }
                pieces.push((pause, line.clone()));
            }
            let path = self.path(&format!("?runId={}&leaseSeconds={lease}&producerSeq={}", self.id, from + 1));
            match self.client.stream(&path, pieces).await {
                Reply::Done(_, answer) => {
                    self.with(|run| (run.started, run.ended) = (true, true));
                    let (run, count) = (&answer["run"], lines.len() as u64);
                    let first = run["firstSeq"].as_u64().unwrap_or(0);
                    // A stopped run has only some of the events.
                    if run["producerSeq"].as_u64() >= Some(count) && run["status"] != "stopped" {
                        self.acked(batch, &json!({ "firstSeq": first, "lastSeq": first + count - 1 }));
                    }
                    return;
                }
                Reply::Refused(slug, problem) if slug == "run-active" => return self.held(asked, &problem),
                // Some of the events may be stored, so the batch does not count as refused.
                Reply::Refused(slug, _) if slug == "run-fenced" => return,
                Reply::Refused(slug, problem) => return self.wrong(format_args!("streamed: {slug} {problem}")),
                Reply::Unknown(_) if self.client.rng.chance(10) => return,
                // The retry begins with the first event, or after the last stored one.
                Reply::Unknown(_) => {
                    from = 0;
                    let run = self.path(&format!("/{}", self.id));
                    if self.client.rng.chance(50)
                        && let Reply::Done(_, run) = self.client.send(Method::GET, &run, "").await
                        && run["endedAt"].is_null()
                    {
                        from = (run["producerSeq"].as_u64().unwrap_or(0) as usize).min(lines.len());
                    }
                }
            }
        }
    }

    /// Writes a run with frames of a socket, several of them under way at once.
    async fn frames(&mut self) {
        if !self.start().await {
            return;
        }
        let mut left = self.client.rng.between(1, 10);
        let terminal = self.client.rng.chance(60);
        let mut pending = VecDeque::new();
        'sockets: loop {
            let Some(mut socket) = socket(&self.client.node()).await else {
                self.client.note(format_args!("no socket at {}", self.client.node()));
                self.client.move_on().await;
                continue;
            };
            for (_, text) in &pending {
                // An error of the socket is found when the next answer is read.
                let _ = socket.feed(Message::text(String::clone(text))).await;
            }
            let _ = socket.flush().await;
            while left > 0 || !pending.is_empty() {
                match self.turn(&mut socket, &mut left, terminal, &mut pending).await {
                    Some(Step::Over) => return,
                    Some(Step::Goes | Step::Stops) if self.client.rng.chance(5) => self.beat(&mut socket).await,
                    Some(Step::Goes | Step::Stops) => {}
                    None if self.client.rng.chance(10) => return,
                    None => {
                        self.client.note(format_args!("the socket at {} broke", self.client.node()));
                        self.client.world.counts().retries += pending.len();
                        self.client.move_on().await;
                        continue 'sockets;
                    }
                }
            }
            break;
        }
        if terminal { self.with(|run| run.ended = true) } else { self.end().await }
    }

    /// Sends only heartbeats, for longer than the lease. Their answers are read with those to the appends.
    async fn beat(&mut self, socket: &mut Socket) {
        let lease = self.client.world.plan.lease * 1_000;
        for number in 0..self.client.rng.between(1, 6) {
            self.client.pause(lease / 3, lease / 2).await;
            let (thread, id) = (Plan::thread(self.thread), &self.id);
            let beat = json!({ "id": format!("beat {number}"), "heartbeat": { "threadId": thread, "runId": id } });
            if socket.send(Message::text(beat.to_string())).await.is_err() {
                return;
            }
        }
    }

    /// Sends batches until 6 have no answer, then reads one answer; `None` if the socket broke.
    async fn turn(
        &mut self,
        socket: &mut Socket,
        left: &mut u64,
        terminal: bool,
        pending: &mut VecDeque<(usize, String)>,
    ) -> Option<Step> {
        while *left > 0 && pending.len() < 6 {
            *left -= 1;
            let (batch, events, seq) = self.prepare(terminal && *left == 0);
            let (thread, id) = (Plan::thread(self.thread), &self.id);
            let text = format!(
                r#"{{"id":"{batch}","append":{{"threadId":"{thread}","runId":"{id}","producerSeq":{seq},"events":{events}}}}}"#
            );
            pending.push_back((batch, text.clone()));
            socket.send(Message::text(text)).await.ok()?;
            self.client.pause(0, 40).await;
        }
        loop {
            let answer: Value = serde_json::from_str(&frame(socket).await?).expect("JSON");
            self.leased(&answer["alive"]);
            let Some(batch) = answer["id"].as_str().and_then(|id| id.parse::<usize>().ok()) else { continue };
            if let Some(receipt) = answer.get("appended") {
                pending.retain(|(other, _)| *other != batch);
                return Some(self.acked(batch, receipt));
            }
            let problem = &answer["error"];
            self.client.note(format_args!("{} batch {batch}: {}", self.id, slug(problem)));
            return match slug(problem).as_str() {
                // Appends after a failed one leave a gap. The producer sends all of them again.
                "draining" | "store-unavailable" | "producer-seq-gap" => None,
                slug => Some(self.refused(batch, slug, problem)),
            };
        }
    }
}
