//! Producers in the styles that the API has. Each works on one thread, one run after the other.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use reqwest::{Body, Method};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    api::{Api, JSON, NDJSON, Reply},
    record::{Fate, Lane, Tally},
    rng::Rng,
};

pub struct Producer {
    pub api: Api,
    pub lane: Arc<Lane>,
    pub tally: Arc<Tally>,
    pub rng: Rng,
    /// Begins the ids of its runs.
    pub name: String,
    /// Longest pause between two appends, in milliseconds.
    pub pause: u64,
}

/// How a run went on after a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Goes,
    /// The run had ended already (its lease expired while the server was down), or was abandoned.
    Over,
}

impl Producer {
    /// One run, in a style chosen by chance.
    pub async fn run(&mut self, number: u64) {
        let id = format!("{}-{number}", self.name);
        match self.rng.between(0, 9) {
            0..=3 => self.rest(&id).await,
            4..=6 => self.socket(&id).await,
            7 => self.streamed(&id).await,
            _ => self.whole(&id).await,
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/threads/{}{rest}", self.lane.thread)
    }

    pub async fn breathe(&mut self) {
        sleep(Duration::from_millis(self.rng.between(0, self.pause))).await;
    }

    /// Starts a run; waits while another one is active. False if it was left alone.
    pub async fn start(&mut self, id: &str) -> bool {
        self.lane.with(id, |_| ());
        let body = json!({ "runId": id, "leaseSeconds": 1 }).to_string();
        for _ in 0..400 {
            match self.api.insist(Method::POST, &self.path("/runs"), JSON, &body).await {
                (Reply::Done(..), unclear) => {
                    self.tally.retried(unclear);
                    self.lane.with(id, |run| run.started = true);
                    return true;
                }
                (Reply::Refused(slug, _), _) if slug == "run-active" => sleep(Duration::from_millis(25)).await,
                (reply, _) => {
                    self.tally.violation(format!("start of {id}: {reply:?}"));
                    return false;
                }
            }
        }
        self.tally.violation(format!("start of {id}: the thread stays locked"));
        false
    }

    /// Notes what came of a batch.
    pub fn settle(&self, id: &str, batch: usize, fate: Fate, receipt: &Value) {
        let count = self.lane.with(id, |run| {
            let sent = &mut run.batches[batch];
            sent.fate = fate;
            sent.to - sent.from
        });
        if matches!(fate, Fate::Acked(_)) {
            self.tally.acked(count);
            if receipt["lastSeq"].as_u64().unwrap_or(0) + 1 != receipt["firstSeq"].as_u64().unwrap_or(0) + count as u64
            {
                self.tally.violation(format!("{id} batch {batch} of {count} events: the receipt is {receipt}"));
            }
        }
    }

    /// A refusal that a producer has to expect: its run is over.
    pub fn expect_over(&self, id: &str, slug: &str, problem: &Value) {
        if slug != "run-fenced" {
            self.tally.violation(format!("{id} may have lost its lease, but received: {problem}"));
        }
    }

    async fn rest(&mut self, id: &str) {
        if !self.start(id).await {
            return;
        }
        let batches = self.rng.between(1, 8);
        for last in (0..batches).map(|n| n + 1 == batches) {
            let terminal = last && self.rng.chance(60);
            let (batch, body, seq) = self.prepare(id, terminal);
            let path = self.path(&format!("/runs/{id}/events?producerSeq={seq}"));
            if self.append(id, batch, &path, &body).await == Step::Over {
                return;
            }
            self.lane.with(id, |run| run.ended |= terminal);
            self.breathe().await;
            if last && !terminal {
                self.end(id).await;
            }
        }
    }

    pub fn prepare(&mut self, id: &str, terminal: bool) -> (usize, String, usize) {
        let count = self.rng.between(1, 90) as usize;
        let rng = &mut self.rng;
        self.lane.with(id, |run| {
            let batch = run.prepare(id, count, terminal, rng);
            (batch, run.array(batch), run.batches[batch].from + 1)
        })
    }

    async fn append(&mut self, id: &str, batch: usize, path: &str, body: &str) -> Step {
        loop {
            match self.api.send(Method::POST, path, JSON, body.to_owned()).await {
                Reply::Done(_, receipt) => {
                    self.settle(id, batch, Fate::Acked(receipt["firstSeq"].as_u64().unwrap_or(0)), &receipt);
                    return Step::Goes;
                }
                Reply::Refused(slug, problem) => {
                    self.settle(id, batch, Fate::Refused, &problem);
                    self.expect_over(id, &slug, &problem);
                    return Step::Over;
                }
                // Some producers die with their server: no retry will ever come.
                Reply::Unknown(_) if self.rng.chance(30) => return Step::Over,
                Reply::Unknown(_) => {
                    self.tally.retried(1);
                    sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }

    /// Ends a run, or forgets to.
    pub async fn end(&mut self, id: &str) {
        let how = match self.rng.between(0, 9) {
            0..=5 => "finish",
            6..=7 => "fail",
            _ => return,
        };
        match self.api.insist(Method::POST, &self.path(&format!("/runs/{id}/{how}")), JSON, "{}").await {
            (Reply::Done(_, run), _) if !run["endedAt"].is_null() => self.lane.with(id, |run| run.ended = true),
            (reply, _) => self.tally.violation(format!("{how} of {id}: {reply:?}")),
        }
    }

    async fn whole(&mut self, id: &str) {
        let count = self.rng.between(100, 500) as usize;
        let rng = &mut self.rng;
        let body = self.lane.with(id, |run| {
            let batch = run.prepare(id, count, rng.chance(50), rng);
            run.array(batch)
        });
        for _ in 0..100 {
            match self.api.insist(Method::PUT, &self.path(&format!("/runs/{id}")), JSON, &body).await {
                (Reply::Done(_, answer), unclear) => {
                    self.tally.retried(unclear);
                    let first = answer["run"]["firstSeq"].as_u64().unwrap_or(0);
                    let receipt = json!({ "firstSeq": first, "lastSeq": first + count as u64 - 1 });
                    self.lane.with(id, |run| (run.started, run.ended) = (true, true));
                    self.settle(id, 0, Fate::Acked(first), &receipt);
                    return self.tally.sealing.notify_one();
                }
                (Reply::Refused(slug, _), _) if slug == "run-active" => {}
                (reply, _) => return self.tally.violation(format!("whole run {id}: {reply:?}")),
            }
        }
        self.tally.violation(format!("whole run {id}: the thread stays locked"));
    }

    async fn streamed(&mut self, id: &str) {
        let count = self.rng.between(20, 300) as usize;
        let rng = &mut self.rng;
        let lines = self.lane.with(id, |run| {
            run.streamed = true;
            run.prepare(id, count, rng.chance(50), rng);
            run.events.clone()
        });
        let mut from = 0;
        for _ in 0..400 {
            let path = self.path(&format!("/runs?runId={id}&leaseSeconds=1&producerSeq={}", from + 1));
            let body = self.body(&lines[from..]);
            match self.api.send(Method::POST, &path, NDJSON, body).await {
                Reply::Done(_, answer) => {
                    let first = answer["run"]["firstSeq"].as_u64().unwrap_or(0);
                    let receipt = json!({ "firstSeq": first, "lastSeq": first + count as u64 - 1 });
                    self.lane.with(id, |run| (run.started, run.ended) = (true, true));
                    self.settle(id, 0, Fate::Acked(first), &receipt);
                    return self.tally.sealing.notify_one();
                }
                Reply::Refused(slug, _) if slug == "run-active" => sleep(Duration::from_millis(25)).await,
                Reply::Refused(slug, problem) => {
                    // A prefix may be there: this is no refusal of the whole.
                    return self.expect_over(id, &slug, &problem);
                }
                Reply::Unknown(_) => {
                    self.tally.retried(1);
                    sleep(Duration::from_millis(10)).await;
                    // Either from the beginning, or from where the server stands.
                    from = 0;
                    if self.rng.chance(50)
                        && let Reply::Done(_, run) = self.api.get(&self.path(&format!("/runs/{id}"))).await
                        && run["endedAt"].is_null()
                    {
                        from = (run["producerSeq"].as_u64().unwrap_or(0) as usize).min(lines.len());
                    }
                }
            }
        }
        self.tally.violation(format!("streamed run {id}: the thread stays locked"));
    }

    /// The lines in pieces that are cut anywhere, with pauses.
    fn body(&mut self, lines: &[String]) -> Body {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let size = self.rng.between(500, 8_000) as usize;
        let pieces: Vec<Bytes> = text.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
        Body::wrap_stream(stream::unfold(pieces.into_iter(), async |mut pieces| {
            let piece = pieces.next()?;
            sleep(Duration::from_millis(5)).await;
            Some((Ok::<_, Infallible>(piece), pieces))
        }))
    }
}
