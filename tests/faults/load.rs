//! Producers and followers on many threads at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::Method;
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::{
    api::{Api, JSON, Reply},
    check::check,
    churn::churn,
    follow::Follower,
    judge::Found,
    producers::Producer,
    record::{Lane, Tally},
    rng::Rng,
};

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Threads with one producer.
    pub lanes: usize,
    /// Threads on which two producers compete.
    pub contended: usize,
    /// Threads that are deleted and made again.
    pub churned: usize,
    /// Longest pause between two appends of a producer, in milliseconds.
    pub pause: u64,
}

pub struct Load {
    pub tally: Arc<Tally>,
    pub base: watch::Sender<Option<String>>,
    pub api: Api,
    lanes: Vec<Arc<Lane>>,
    followers: Vec<Follower>,
    going: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
    churners: Vec<JoinHandle<Arc<Lane>>>,
}

impl Load {
    /// Begins once `base` says where a server is.
    pub fn begin(size: Size, seed: u64) -> Self {
        let (base, at) = watch::channel(None);
        let api = Api::new(at);
        let tally = Arc::new(Tally::default());
        let going = Arc::new(AtomicBool::new(true));
        let stable = size.lanes + size.contended;
        let lanes: Vec<_> = (0..stable).map(|n| Lane::new(format!("lane-{n}"))).collect();
        let producer = |lane: &Arc<Lane>, name: String, stream: usize| Producer {
            api: api.clone(),
            lane: lane.clone(),
            tally: tally.clone(),
            rng: Rng::new(seed, stream as u64 + 1),
            name,
            pause: size.pause,
        };
        let mut workers = Vec::new();
        for (n, lane) in lanes.iter().enumerate() {
            let producers = if n < size.contended { 2 } else { 1 };
            for twin in 0..producers {
                let producer = producer(lane, format!("r{n}.{twin}"), n * 2 + twin);
                workers.push(tokio::spawn(work(producer, going.clone())));
            }
        }
        let churners = (0..size.churned).map(|n| {
            let lane = Lane::new(format!("churn-{n}"));
            let producer = producer(&lane, format!("c{n}"), 10_000 + n);
            let going = going.clone();
            tokio::spawn(churn(producer, move || going.load(Ordering::Relaxed)))
        });
        let churners = churners.collect();
        let names: Vec<_> = lanes.iter().map(|lane| lane.thread.clone()).collect();
        let churned: Vec<_> = (0..size.churned).map(|n| format!("churn-{n}")).collect();
        let all = names.iter().chain(&churned).cloned().collect();
        let mut followers = vec![Follower::socket(api.clone(), all, tally.clone())];
        followers.extend(names.iter().take(4).map(|name| Follower::sse(api.clone(), name.clone(), tally.clone())));
        Self { tally, base, api, lanes, followers, going, workers, churners }
    }

    /// Ends the load and compares everything. A server must be up.
    pub async fn end(self) -> Found {
        self.going.store(false, Ordering::Relaxed);
        let mut lanes = self.lanes;
        for worker in self.workers {
            timeout(Duration::from_secs(30), worker).await.expect("producers end").expect("no panic");
        }
        for churner in self.churners {
            lanes.push(timeout(Duration::from_secs(30), churner).await.expect("producers end").expect("no panic"));
        }
        // The lease of a silent producer, and 5 s.
        let deadline = Instant::now() + Duration::from_millis(6_500);
        loop {
            let mut active = Vec::new();
            for lane in &lanes {
                let thread = self.api.get(&format!("/v1/threads/{}", lane.thread)).await.done();
                if !thread["activeRun"].is_null() {
                    active.push(thread["activeRun"].to_string());
                }
            }
            if active.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "runs that did not end in their lease + 5 s: {active:#?}");
            sleep(Duration::from_millis(200)).await;
        }
        // No thread is locked.
        for lane in &lanes {
            let body = json!({ "runId": "last" }).to_string();
            let path = format!("/v1/threads/{}/runs", lane.thread);
            let started = self.api.send(Method::POST, &path, JSON, body).await;
            assert!(matches!(started, Reply::Done(201, _)), "{} is locked: {started:?}", lane.thread);
            lane.with("last", |run| run.started = true);
            self.api.post(&format!("{path}/last/finish"), "{}").await.done();
        }
        let found = check(&self.api, &lanes, &self.tally).await;
        for follower in self.followers {
            follower.compare(&found.logs).await;
        }
        self.tally.assert_clean();
        found
    }
}

async fn work(mut producer: Producer, going: Arc<AtomicBool>) {
    let create = json!({ "threadId": producer.lane.thread }).to_string();
    let (made, _) = producer.api.insist(Method::POST, "/v1/threads", JSON, &create).await;
    made.done();
    let mut number = 0;
    while going.load(Ordering::Relaxed) {
        producer.run(number).await;
        number += 1;
    }
}
