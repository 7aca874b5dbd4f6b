//! The topic of a run's producer: events come in, numbered by ids of the runner's own, and a stop goes out.
//!
//! A runner keeps one push under way and sends it again, the same events grouped anew, until it is acknowledged. Events
//! whose ids are in the log are passed over; the others are appended under the producer_seqs that follow, so that an
//! append whose answer was lost is found again by the store.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use sha2::{Digest as _, Sha256};
use tokio::{sync::watch, time};

use super::{Refusal, refused};
use crate::{
    api::{
        ApiState,
        copilotkit::{
            intelligence::{event_id, legacy::Legacy},
            phoenix::channel::{Inbox, Joined, Outgoing, Plane, Push, Reply},
        },
    },
    domain::{
        EventErrorKind, Fence, NewEvents, Principal, RunId, Seq, ThreadId, json as text,
        limits::{INGEST_PATIENCE, MAX_EVENT_PAGE},
    },
    service::{PageRequest, ServiceError, evicted},
    store::ReadFrom,
    subscription::{TopicRef, TopicState},
};

/// What a join is answered if the runner may send several events in one push.
const BATCHES: &str = "runner_event_batch_v1";

/// One socket of a runtime: runs of the key's project.
pub struct RunnerPlane {
    state: ApiState,
    principal: Principal,
}

#[derive(Deserialize)]
struct Params {
    thread_id: String,
    run_id: String,
}

impl RunnerPlane {
    /// For a runtime that has shown a key.
    pub fn new(state: ApiState, principal: Principal) -> Self {
        Self { state, principal: super::super::acting::holder(principal) }
    }

    async fn produce(&self, topic: &str, params: &RawValue) -> Result<Joined, Refusal> {
        let malformed = |error: &dyn std::fmt::Display| Refusal::Malformed(error.to_string());
        let Params { thread_id, run_id } = serde_json::from_str(params.get()).map_err(|error| malformed(&error))?;
        if topic.strip_prefix("ingestion:") != Some(run_id.as_str()) {
            return Err(Refusal::Unauthorized);
        }
        if self.state.draining.is_cancelled() {
            return Err(ServiceError::Draining.into());
        }
        let thread = ThreadId::new(thread_id).map_err(|error| malformed(&error))?;
        let run = RunId::new(run_id).map_err(|error| malformed(&error))?;
        let service = &self.state.service;
        let (topic, fence) = service.events.watch_run(&self.principal, &thread, &run).await?;
        let found = service.runs.get(&self.principal, &thread, &run).await?;
        if found.driven {
            return Err(Refusal::Driven);
        }
        if evicted(found.status, found.error_code.as_deref()) {
            return Err(Refusal::Evicted);
        }
        let legacy = self.state.copilotkit.legacy.clone();
        if found.producer_seq > 0 && legacy.is(&self.principal.project, &thread, &run) {
            return Err(Refusal::LegacyRunner);
        }
        let producing = Producing {
            state: self.state.clone(),
            principal: self.principal.clone(),
            thread,
            run,
            known: (found.producer_seq == 0).then(Known::default),
            legacy,
        };
        let pushes = stream::unfold(Some(Stop { changes: topic.watch(), _topic: topic, fence }), stop);
        Ok(Joined {
            response: json!({ "capabilities": [BATCHES] }),
            pushes: pushes.boxed(),
            inbox: Box::new(producing),
        })
    }
}

#[async_trait]
impl Plane for RunnerPlane {
    async fn join(&mut self, topic: &str, params: &RawValue) -> Result<Joined, Value> {
        self.produce(topic, params).await.map_err(Refusal::for_runner)
    }

    async fn closed(self, _: bool) {}
}

struct Stop {
    changes: watch::Receiver<TopicState>,
    // Held so that news keep coming.
    _topic: TopicRef,
    fence: Fence,
}

/// At most one push: the run is asked to stop, now or before this join.
async fn stop(waiting: Option<Stop>) -> Option<(Outgoing, Option<Stop>)> {
    let mut waiting = waiting?;
    loop {
        let state = *waiting.changes.borrow_and_update();
        if state.is_over(waiting.fence) {
            return None;
        }
        if state.must_stop(waiting.fence) {
            let stop = json!({ "type": "CUSTOM", "name": "stop", "value": {} });
            return Some((Outgoing::Push(vec![Push { event: "ag-ui", payload: stop.to_string() }]), None));
        }
        waiting.changes.changed().await.ok()?;
    }
}

/// What is in the log of a run.
#[derive(Default)]
struct Known {
    ids: HashSet<u128>,
    producer_seq: u64,
}

/// Takes a run's events.
struct Producing {
    state: ApiState,
    principal: Principal,
    thread: ThreadId,
    run: RunId,
    /// `None` where it has to be looked at (again).
    known: Option<Known>,
    legacy: Arc<Legacy>,
}

/// Ids are mostly UUIDs; of any other a digest is kept. A runner chooses both, and only for its own run.
fn short(id: &str) -> u128 {
    uuid::Uuid::try_parse(id).map(|id| id.as_u128()).unwrap_or_else(|_| {
        let digest: [u8; 32] = Sha256::digest(id.as_bytes()).into();
        digest.iter().take(16).fold(0, |all, byte| all << 8 | u128::from(*byte))
    })
}

/// What a runner of old pushes: one event at a time, without waiting for the reply.
const SINGLE: &str = "event";

#[async_trait]
impl Inbox for Producing {
    async fn push(&mut self, event: &str, payload: &RawValue) -> Reply {
        if event != SINGLE && event != "events" {
            return Err(refused("unknown_event")).into();
        }
        if event == SINGLE {
            self.legacy.note(&self.principal.project, &self.thread, &self.run);
        }
        let Some(events) = event_id::events_of(event, payload) else {
            return Err(Refusal::Invalid("no list of events".into()).for_runner()).into();
        };
        match self.check_all(&events) {
            Ok(ids) => self.put(&events, &ids).await,
            Err(refusal) => Err(refusal.for_runner()).into(),
        }
    }

    /// Single events that have come together are one batch: an old runner would wait for the disk with each of them.
    async fn push_all(&mut self, pushes: &[(&str, &RawValue)]) -> Vec<Reply> {
        let events: Vec<_> = pushes.iter().filter(|(event, _)| *event == SINGLE).map(|(_, event)| *event).collect();
        if events.len() == pushes.len()
            && let Ok(ids) = self.check_all(&events)
        {
            self.legacy.note(&self.principal.project, &self.thread, &self.run);
            let last = self.put(&events, &ids).await;
            let mut replies: Vec<Reply> = events.iter().skip(1).map(|_| last.result.clone().into()).collect();
            replies.push(last);
            return replies;
        }
        let mut replies = Vec::with_capacity(pushes.len());
        for (event, payload) in pushes {
            replies.push(self.push(event, payload).await);
        }
        replies
    }

    /// Whoever leaves has nothing more to say. An old runner loses the end of a run that was stopped; any other run that has
    /// not ended waits a moment for another socket of its own, and not as long as its lock would last.
    async fn left(&mut self) {
        let (runs, principal) = (&self.state.service.runs, &self.principal);
        let ended = match runs.get(principal, &self.thread, &self.run).await {
            Ok(run) if !run.status.is_active() => return,
            Ok(run) if run.stop_requested_at.is_some() => runs.finish(principal, &self.thread, &self.run).await,
            Ok(_) => runs.release(principal, &self.thread, &self.run).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, thread = %self.thread, run = %self.run, "a run whose runner has left is left to its lease");
        }
    }
}

fn is_terminal(event: &str) -> bool {
    text::string_member(event, "type").is_some_and(|kind| kind == "RUN_FINISHED" || kind == "RUN_ERROR")
}

impl Producing {
    /// Takes events, and says so.
    async fn put(&mut self, events: &[&RawValue], ids: &[u128]) -> Reply {
        // Whoever waits for the end of the run sees it once the runner knows that it is in.
        let ends = events.iter().any(|event| is_terminal(event.get()));
        let held = ends.then(|| self.state.copilotkit.acks.hold(&self.principal.project, &self.thread, &self.run));
        let took = time::timeout(INGEST_PATIENCE, self.take(events, ids)).await;
        let result = match took {
            Ok(Ok(())) => Ok(json!({})),
            Ok(Err(refusal)) => {
                if let Refusal::LegacyRunner = refusal {
                    self.end_twice().await;
                }
                Err(refusal.for_runner())
            }
            // It may be in; the runner sends it again.
            Err(_) => Err(Refusal::Unavailable.for_runner()),
        };
        if result.is_err() {
            self.known = None;
        }
        Reply { result, until_written: held.map(|held| Box::new(held) as _) }
    }

    /// The ids of events, if all of them may be taken.
    fn check_all(&self, events: &[&RawValue]) -> Result<Vec<u128>, Refusal> {
        events.iter().enumerate().map(|(at, event)| self.check(at, event.get())).collect()
    }

    /// The id of an event that may be taken.
    fn check(&self, at: usize, event: &str) -> Result<u128, Refusal> {
        let invalid = |what: &str| Refusal::Invalid(format!("event {at}: {what}"));
        if text::string_member(event, "type").is_none_or(|kind| kind.is_empty()) {
            return Err(invalid("an event is an object with a type"));
        }
        let id = event_id::own(event).ok_or_else(|| invalid("metadata.cpki_event_id is missing"))?;
        let named = [
            ("threadId", self.thread.as_str()),
            ("thread_id", self.thread.as_str()),
            ("runId", self.run.as_str()),
            ("run_id", self.run.as_str()),
        ];
        for (member, own) in named {
            if text::string_member(event, member).is_some_and(|named| named != own) {
                return Err(invalid(&format!("{member} names another one than the topic")));
            }
        }
        Ok(short(&id))
    }

    /// Two executions of the agent speak, one into the other, and their runner does not listen to what is replied: the run
    /// ends here, and what they still say comes too late.
    async fn end_twice(&self) {
        self.legacy.note(&self.principal.project, &self.thread, &self.run);
        let message = "Its runner lost the connection, and began the run once more.".to_owned();
        let (runs, code) = (&self.state.service.runs, "legacy-runner".to_owned());
        if let Err(error) = runs.fail(&self.principal, &self.thread, &self.run, Some(code), Some(message)).await {
            tracing::debug!(%error, thread = %self.thread, run = %self.run, "a run that began twice is left to its lease");
        }
    }

    /// Puts in what is not in; returns once all of it is durable.
    async fn take(&mut self, events: &[&RawValue], ids: &[u128]) -> Result<(), Refusal> {
        let mut looked_again = false;
        loop {
            let known = match &mut self.known {
                Some(known) => known,
                None => {
                    let known = look(&self.state, &self.principal, &self.thread, &self.run).await?;
                    self.known.insert(known)
                }
            };
            let mut new = Vec::with_capacity(events.len());
            let mut added = HashSet::new();
            for (event, id) in events.iter().zip(ids) {
                if !known.ids.contains(id) && added.insert(*id) {
                    new.push((event.get(), *id));
                }
            }
            if new.is_empty() {
                return Ok(());
            }
            // A runner of old runs its agent anew when it joins again. What that one says does not belong here.
            if known.producer_seq > 0
                && new.iter().any(|(event, _)| text::string_member(event, "type").as_deref() == Some("RUN_STARTED"))
            {
                return Err(Refusal::LegacyRunner);
            }
            let batch = gathered(&new)?;
            let (principal, runs) = (&self.principal, &self.state.service.runs);
            let (count, next) = (batch.count(), known.producer_seq + 1);
            match runs.append(principal, &self.thread, &self.run, Some(next), batch).await {
                Ok(receipt) => {
                    known.ids.extend(new.iter().take(count).map(|(_, id)| *id));
                    known.producer_seq = receipt.producer_seq.max(known.producer_seq + count as u64);
                    return Ok(());
                }
                // Another socket of this run was quicker.
                Err(ServiceError::ProducerSeqGap { .. } | ServiceError::ProducerSeqConflict { .. })
                    if !looked_again =>
                {
                    looked_again = true;
                    self.known = None;
                }
                Err(ServiceError::RunFenced(run)) if !evicted(run.status, run.error_code.as_deref()) => {
                    // It has ended, by its own last event or because a stop was overdue: there is nothing to add.
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// One batch, up to and with the event that ends the run: what follows that says nothing.
fn gathered(new: &[(&str, u128)]) -> Result<NewEvents, Refusal> {
    let end = new.iter().position(|(event, _)| is_terminal(event)).map_or(new.len(), |at| at + 1);
    let mut array = String::with_capacity(new.iter().map(|(event, _)| event.len() + 1).sum::<usize>() + 2);
    array.push('[');
    for (at, (event, _)) in new[..end].iter().enumerate() {
        if at > 0 {
            array.push(',');
        }
        array.push_str(event);
    }
    array.push(']');
    NewEvents::from_array(array.as_bytes()).map_err(|error| match error.kind {
        EventErrorKind::BatchTooLarge => Refusal::Invalid("the push is too large".into()),
        _ => Refusal::Invalid(error.to_string()),
    })
}

/// Reads the ids of all that is in the log of a run.
async fn look(state: &ApiState, principal: &Principal, thread: &ThreadId, run: &RunId) -> Result<Known, Refusal> {
    let mut known = Known::default();
    let mut after: Seq = 0;
    loop {
        let request = PageRequest {
            from: ReadFrom::After(after),
            limit: MAX_EVENT_PAGE,
            epoch: None,
            run: Some(run.clone()),
            wait: None,
        };
        let page = state.service.events.page(principal, thread, request).await?;
        for (_, event, _) in page.slice.events() {
            known.producer_seq += 1;
            if let Some(id) = std::str::from_utf8(event).ok().and_then(event_id::own) {
                known.ids.insert(short(&id));
            }
        }
        if !page.has_more {
            return Ok(known);
        }
        after = page.cursor;
    }
}
