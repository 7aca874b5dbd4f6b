//! Producers: one run after the other on one thread, in the styles that the API has, with the manners that producers have.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use threadline_client::{Appended, EventBody, StartRun, StartedRun, StreamRun};
use tokio::time::{Instant, sleep};

use crate::{
    healing::{Standing, is_lost},
    history::{Class, What, lines},
    world::{Answer, Caller, Size, World},
};

/// How a run continues after a step of its producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Goes,
    /// The run was asked to stop.
    StopAsked,
    /// The run has ended, or was abandoned.
    Over,
}

#[derive(Debug)]
pub struct Producer {
    pub caller: Caller,
    pub thread: String,
    /// Begins the ids of its runs.
    pub name: String,
    /// The run of the moment: its lease in seconds, and the number of its next event.
    pub run: String,
    pub lease: u64,
    pub next: u64,
}

impl Producer {
    pub fn new(world: std::sync::Arc<World>, thread: &str, name: &str, stream: u64) -> Self {
        let caller = Caller::new(world, &format!("producer-{name}"), stream);
        let (thread, name) = (thread.to_owned(), name.to_owned());
        Self { caller, thread, name, run: String::new(), lease: 0, next: 1 }
    }

    /// Runs until the load ends.
    pub async fn work(mut self) {
        let mut number = 0;
        while self.caller.world.is_running() {
            self.run = format!("{}-{number}", self.name);
            self.next = 1;
            number += 1;
            self.lease = self.caller.rng.between(3, 5);
            self.caller.world.begins(&self.thread, &self.run);
            match self.caller.rng.between(0, 19) {
                0..=8 => self.pushed().await,
                9..=15 => self.over_a_socket().await,
                16..=17 => self.streamed().await,
                _ => self.whole().await,
            }
            self.caller.world.has_ended(&self.run);
        }
        self.caller.history.flush();
    }

    /// Starts the run, waiting while another one is active. False if it was abandoned.
    pub async fn start(&mut self) -> bool {
        let start = StartRun { run_id: Some(self.run.clone()), lease_seconds: Some(self.lease), ..StartRun::default() };
        let began = Instant::now();
        loop {
            let (client, thread, run) = (self.caller.client(), self.thread.clone(), self.run.clone());
            let what = What::Start { lease: self.lease };
            let request = client.start_run(&thread, &start);
            match self.caller.ask(&thread, &run, what, request, |started: &StartedRun| (0, ended(started), None)).await
            {
                // A start that is sent again late may find that its run came and went.
                Answer::Done(started) => return started.run.status.is_active(),
                Answer::Refused(slug) if slug == "run-active" => {}
                Answer::Refused(slug) => {
                    self.unexpected("start", &slug);
                    return false;
                }
                Answer::Unknown | Answer::Dropped => {}
            }
            // Rivals do not wait for each other when the load has ended.
            if !self.caller.again(began).await || !self.caller.world.is_running() {
                return false;
            }
        }
    }

    /// So many events that go next.
    pub fn take(&mut self, terminal: bool) -> (What, String) {
        let (from, count) = (self.next, self.caller.rng.between(5, self.caller.world.size.batch));
        self.next += count;
        (What::Append { from, count, terminal }, lines(&self.run, from, count, terminal))
    }

    pub fn acknowledged(&self, count: u64) {
        self.caller.world.acknowledged.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
    }

    /// Appends until there is an answer, here or at another node. If the store has lost events of the run, they are sent
    /// again first.
    async fn append(&mut self, what: What, body: String) -> Step {
        let What::Append { from, .. } = what else { return Step::Over };
        loop {
            match self.try_append(what, &body).await {
                Some(step) => return step,
                None if self.send_lost(from).await => {}
                None => return Step::Over,
            }
        }
    }

    /// Appends until there is an answer; `None` if events before these are lost.
    pub async fn try_append(&mut self, what: What, body: &str) -> Option<Step> {
        let body = EventBody::Ndjson(body.to_owned().into());
        let What::Append { from, count, .. } = what else { return Some(Step::Over) };
        let began = Instant::now();
        loop {
            let (client, thread, run) = (self.caller.client(), self.thread.clone(), self.run.clone());
            let request = client.append(&thread, &run, Some(from), body.clone());
            let seq = |told: &Appended| (told.first_seq, false, Some(told.epoch.clone()));
            match self.caller.ask(&thread, &run, what, request, seq).await {
                Answer::Done(told) => {
                    if told.last_seq + 1 != told.first_seq + count {
                        let what = format!("{run}: {count} events were acknowledged as {told:?}");
                        self.caller.world.wrong(Class::Lost, what);
                    }
                    self.acknowledged(count);
                    return Some(if told.stop_requested { Step::StopAsked } else { Step::Goes });
                }
                Answer::Refused(slug) if is_lost(&slug) => return None,
                Answer::Refused(slug) => {
                    self.expect_over(&slug);
                    return Some(Step::Over);
                }
                Answer::Unknown => {}
                // Some come back only after the lease is over.
                Answer::Dropped if self.caller.rng.chance(30) => {
                    sleep(Duration::from_secs(self.lease + self.caller.rng.between(1, 3))).await;
                }
                Answer::Dropped => {}
            }
            if !self.caller.again(began).await {
                return Some(Step::Over);
            }
        }
    }

    /// One append after the other.
    async fn pushed(&mut self) {
        if !self.start().await {
            return;
        }
        // Some say nothing at all, or not for a long time.
        if self.caller.rng.chance(2) || !self.pause().await {
            return;
        }
        let batches = self.caller.rng.between(3, 40);
        let terminal = self.caller.rng.chance(50);
        for batch in 1..=batches {
            let (what, body) = self.take(terminal && batch == batches);
            match self.append(what, body).await {
                Step::Goes => {}
                Step::Over => return,
                // Some do not care, and are ended.
                Step::StopAsked if self.caller.rng.chance(30) => {}
                Step::StopAsked => return self.end().await,
            }
            if !self.pause().await {
                return;
            }
            if !self.caller.world.is_running() {
                return self.leave().await;
            }
        }
        if !terminal {
            self.end().await;
        }
    }

    /// What producers do between two appends. False if this one is gone for good.
    async fn pause(&mut self) -> bool {
        let Size { pause, hops, stuck, .. } = self.caller.world.size;
        if self.caller.rng.chance(hops) {
            self.caller.hop();
        }
        if self.caller.rng.between(0, 999) < stuck {
            sleep(Duration::from_secs(self.lease + self.caller.rng.between(1, 4))).await;
            return true;
        }
        match self.caller.rng.between(0, 999) {
            // Alive, with nothing to say for longer than the lease.
            0..=14 => {
                let until = Instant::now() + Duration::from_secs(self.lease + self.caller.rng.between(1, 4));
                while Instant::now() < until {
                    if self.beat().await == Step::Over {
                        return false;
                    }
                    sleep(Duration::from_millis(900)).await;
                }
            }
            // Dead.
            15..=24 => return false,
            _ => self.caller.breathe(pause).await,
        }
        true
    }

    async fn beat(&mut self) -> Step {
        let (client, thread, run) = (self.caller.client(), self.thread.clone(), self.run.clone());
        let request = client.heartbeat(&thread, &run, None);
        match self.caller.ask(&thread, &run, What::Beat, request, |_| (0, false, None)).await {
            // The next append finds out.
            Answer::Refused(slug) if is_lost(&slug) => Step::Goes,
            Answer::Refused(slug) => {
                self.expect_over(&slug);
                Step::Over
            }
            Answer::Done(_) | Answer::Unknown | Answer::Dropped => Step::Goes,
        }
    }

    /// When the load ends: most end their runs, some just go.
    async fn leave(&mut self) {
        if !self.caller.rng.chance(20) {
            self.end().await;
        }
    }

    /// Ends the run, well or badly.
    pub async fn end(&mut self) {
        let fails = self.caller.rng.chance(30);
        let what = if fails { What::Fail } else { What::Finish };
        let began = Instant::now();
        loop {
            let (client, thread, run) = (self.caller.client(), self.thread.clone(), self.run.clone());
            let request = async {
                if fails { client.fail(&thread, &run, None, None).await } else { client.finish(&thread, &run).await }
            };
            match self.caller.ask(&thread, &run, what, request, |run| (0, run.ended_at.is_some(), None)).await {
                Answer::Done(record) if record.ended_at.is_some() => return,
                Answer::Done(record) => {
                    let what = format!("{what:?} of {run} was acknowledged, and it continues: {record:?}");
                    return self.caller.world.wrong(Class::Unfinished, what);
                }
                // The run has ended already.
                Answer::Refused(slug) if is_lost(&slug) => return,
                Answer::Refused(slug) => return self.unexpected("end", &slug),
                Answer::Unknown | Answer::Dropped => {}
            }
            if !self.caller.again(began).await {
                return;
            }
        }
    }

    /// All at once.
    async fn whole(&mut self) {
        let (count, terminal) = (self.caller.rng.between(20, 300), self.caller.rng.chance(50));
        let body = EventBody::Ndjson(lines(&self.run, 1, count, terminal).into());
        let began = Instant::now();
        loop {
            let (client, thread, run) = (self.caller.client(), self.thread.clone(), self.run.clone());
            let request = client.append_complete_run(&thread, &run, None, body.clone());
            let what = What::Whole { count, terminal };
            let seq = |told: &StartedRun| (told.run.first_seq, true, Some(told.epoch.clone()));
            match self.caller.ask(&thread, &run, what, request, seq).await {
                Answer::Done(_) => return self.acknowledged(count),
                Answer::Refused(slug) if slug == "run-active" => {}
                Answer::Refused(slug) => return self.unexpected("whole run", &slug),
                Answer::Unknown | Answer::Dropped => {}
            }
            if !self.caller.again(began).await {
                return;
            }
        }
    }

    /// In one request, as it is made; after a break from the beginning, or from where the server stands.
    async fn streamed(&mut self) {
        let (count, terminal) = (self.caller.rng.between(50, 600), self.caller.rng.chance(50));
        let (began, mut from) = (Instant::now(), 1);
        loop {
            let body = lines(&self.run, from, count + 1 - from, terminal);
            let size = self.caller.rng.between(500, 6_000) as usize;
            let pieces: Vec<Bytes> = body.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
            let body = stream::unfold(pieces.into_iter(), async |mut pieces| {
                let piece = pieces.next()?;
                sleep(Duration::from_millis(15)).await;
                Some((Ok::<_, Infallible>(piece), pieces))
            });
            let (client, thread, run) = (self.caller.client(), self.thread.clone(), self.run.clone());
            let stream = StreamRun {
                run_id: Some(run.clone()),
                lease: Some(Duration::from_secs(self.lease)),
                producer_seq: Some(from),
                ..StreamRun::default()
            };
            let request = client.stream_run(&thread, &stream, body.boxed());
            let what = What::Stream { from, count: count + 1 - from, terminal, lease: self.lease };
            let started = |told: &StartedRun| {
                let whole = told.run.producer_seq >= count && ended(told);
                (told.run.first_seq + from - 1, whole, Some(told.epoch.clone()))
            };
            match self.caller.ask(&thread, &run, what, request, started).await {
                Answer::Done(told) if told.run.producer_seq >= count => return self.acknowledged(count + 1 - from),
                Answer::Done(_) => return,
                Answer::Refused(slug) if slug == "run-active" => {}
                Answer::Refused(slug) if is_lost(&slug) => match self.standing().await {
                    Standing::Stored(stored) => from = (stored + 1).min(count),
                    Standing::Lost => from = 1,
                    Standing::Over => return,
                },
                Answer::Refused(slug) => return self.expect_over(&slug),
                Answer::Unknown | Answer::Dropped => {}
            }
            if !self.caller.again(began).await {
                return;
            }
            if self.caller.rng.chance(50)
                && let Ok(record) = self.caller.client().run_record(&thread, &run).await
                && record.status.is_active()
            {
                from = (record.producer_seq + 1).min(count);
            }
        }
    }

    /// A refusal that a producer has to expect: its run is over.
    pub fn expect_over(&self, slug: &str) {
        if slug != "run-fenced" {
            self.unexpected("append", slug);
        }
    }

    fn unexpected(&self, what: &str, slug: &str) {
        let what = format!("{what} of {} in {} was refused: {slug}", self.run, self.thread);
        self.caller.world.wrong(Class::Lost, what);
    }
}

fn ended(started: &StartedRun) -> bool {
    started.run.ended_at.is_some()
}
