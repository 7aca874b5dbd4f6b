//! Topic of a run's producer: events arrive, identified by ids of the runner, and a request to stop is pushed back.
//!
//! A runner has one push in flight. The runner sends the same events again, possibly in other groups, until they are
//! acknowledged. Events whose ids are in the log are skipped. The others are appended under the next producer_seqs, so
//! the store recognizes an append whose answer was lost.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use sha2::{Digest as _, Sha256};
use threadline_core::{
    EventError, EventErrorKind, Fence, NewEvents, Principal, ReadFrom, RunId, Seq, ThreadId,
    event::BatchBuilder,
    json as text,
    limits::{INGEST_TIMEOUT, MAX_EVENT_PAGE},
};
use threadline_engine::{
    AppendError, DrainingError, PageRequest, ServiceError, evicted,
    subscription::{TopicRef, TopicState},
};
use threadline_http::ws::protocol::HandOver;
use tokio::{sync::watch, time};

use super::{Refusal, refused};
use crate::api::{
    ApiState,
    copilotkit::{
        intelligence::{event_id, legacy::Legacy},
        phoenix::channel::{ChannelHandler, ChannelReply, Joined, Outgoing, Push, SocketKind},
    },
};

/// Capability in the reply to a join: the runner may send several events in one push.
const BATCHES: &str = "runner_event_batch_v1";

/// Socket of a runtime, for runs of the key's project.
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
    /// Makes the plane of a runtime that is authenticated by a key.
    pub fn new(state: ApiState, principal: Principal) -> Self {
        Self { state, principal: super::super::acting::holder(principal) }
    }

    async fn produce(&self, topic: &str, params: &RawValue) -> Result<Joined, Refusal> {
        let malformed = |error: &dyn std::fmt::Display| Refusal::Malformed(error.to_string());
        let Params { thread_id, run_id } = serde_json::from_str(params.get()).map_err(|error| malformed(&error))?;
        if topic.strip_prefix("ingestion:") != Some(run_id.as_str()) {
            return Err(Refusal::Unauthorized);
        }
        if self.state.http.draining.is_cancelled() {
            return Err(DrainingError::Draining.into());
        }
        let thread = ThreadId::new(thread_id).map_err(|error| malformed(&error))?;
        let run = RunId::new(run_id).map_err(|error| malformed(&error))?;
        let service = &self.state.service;
        let (topic, fence) = service.events.watch_run(&self.principal, &thread, &run).await?;
        let found = service.runs.get(&self.principal, &thread, &run).await?;
        // Before anything is noted about the run: only its author or a key writes into it, and none into a driven one.
        let looked_up = service.runs.look_up(&self.principal, &thread, &run).await?;
        // The thread's user from here on: another user's thread may get the same id during the run.
        let principal = self.principal.clone().for_user(looked_up.user().clone());
        // A runner has the first attempt.
        if evicted(found.status, found.error_code.as_deref()) || found.is_taken_up() {
            return Err(Refusal::Evicted);
        }
        let legacy = self.state.copilotkit.legacy.clone();
        if found.producer_seq > 0 && legacy.is(&principal, &thread, &run) {
            return Err(Refusal::LegacyRunner);
        }
        let producing = Producing {
            state: self.state.clone(),
            principal,
            thread,
            run,
            known: (found.producer_seq == 0).then(ThreadCursor::default),
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
impl SocketKind for RunnerPlane {
    async fn join(&mut self, topic: &str, params: &RawValue) -> Result<Joined, Value> {
        self.produce(topic, params).await.map_err(Refusal::for_runner)
    }

    async fn closed(&mut self, _: HandOver) {}
}

struct Stop {
    changes: watch::Receiver<TopicState>,
    // Keeps the topic alive, so that its changes are delivered.
    _topic: TopicRef,
    fence: Fence,
}

/// Pushes at most once: when the run is requested to stop, or at once if that happened before this join.
async fn stop(waiting: Option<Stop>) -> Option<(Outgoing, Option<Stop>)> {
    let mut waiting = waiting?;
    loop {
        let state = *waiting.changes.borrow_and_update();
        if state.has_ended(waiting.fence) {
            return None;
        }
        if state.stop_requested(waiting.fence) {
            let stop = json!({ "type": "CUSTOM", "name": "stop", "value": {} });
            return Some((Outgoing::Push(vec![Push { event: "ag-ui", payload: stop.to_string() }]), None));
        }
        waiting.changes.changed().await.ok()?;
    }
}

/// Ids and count of the events in the log of a run.
#[derive(Default)]
struct ThreadCursor {
    ids: HashSet<u128>,
    producer_seq: u64,
}

/// Inbox for the events of a run.
struct Producing {
    state: ApiState,
    principal: Principal,
    thread: ThreadId,
    run: RunId,
    /// `None` if the log must be read, or read again.
    known: Option<ThreadCursor>,
    legacy: Arc<Legacy>,
}

/// Shortens an event id. Most ids are UUIDs; any other id is kept as a digest. Collisions affect only the runner that
/// chose both ids, in its own run.
fn short(id: &str) -> u128 {
    uuid::Uuid::try_parse(id).map(|id| id.as_u128()).unwrap_or_else(|_| {
        let digest: [u8; 32] = Sha256::digest(id.as_bytes()).into();
        digest.iter().take(16).fold(0, |all, byte| all << 8 | u128::from(*byte))
    })
}

/// Push of an old runner: a single event, sent without waiting for the reply to the one before.
const SINGLE: &str = "event";

#[async_trait]
impl ChannelHandler for Producing {
    async fn push(&mut self, event: &str, payload: &RawValue) -> ChannelReply {
        if event != SINGLE && event != "events" {
            return Err(refused("unknown_event")).into();
        }
        if event == SINGLE {
            self.legacy.note(&self.principal, &self.thread, &self.run);
        }
        let Some(events) = event_id::events_of(event, payload) else {
            return Err(Refusal::Invalid("events is not an array".into()).for_runner()).into();
        };
        match self.check_all(&events) {
            Ok(ids) => self.put(&events, &ids).await,
            Err(refusal) => Err(refusal.for_runner()).into(),
        }
    }

    /// Appends single events that have arrived together as one batch: otherwise an old runner would wait for the disk
    /// with each of them.
    async fn push_all(&mut self, pushes: &[(&str, &RawValue)]) -> Vec<ChannelReply> {
        let events: Vec<_> = pushes.iter().filter(|(event, _)| *event == SINGLE).map(|(_, event)| *event).collect();
        if events.len() == pushes.len()
            && let Ok(ids) = self.check_all(&events)
        {
            self.legacy.note(&self.principal, &self.thread, &self.run);
            let last = self.put(&events, &ids).await;
            let mut replies: Vec<ChannelReply> = events.iter().skip(1).map(|_| last.result.clone().into()).collect();
            replies.push(last);
            return replies;
        }
        let mut replies = Vec::with_capacity(pushes.len());
        for (event, payload) in pushes {
            replies.push(self.push(event, payload).await);
        }
        replies
    }

    /// Ends or releases the run: a runner that leaves sends no more events. A run of an old runner that was requested
    /// to stop ends, because its own end is lost. Any other run that has not ended waits briefly for another socket of
    /// its runner, and not as long as its lock would last.
    async fn left(&mut self) {
        let (runs, principal) = (&self.state.service.runs, &self.principal);
        let ended = match runs.get(principal, &self.thread, &self.run).await {
            Ok(run) if !run.status.is_active() => return,
            Ok(run) if run.stop_requested_at.is_some() => {
                runs.finish(principal, &self.thread, &self.run, 0).await.map_err(ServiceError::from)
            }
            Ok(_) => runs.release(principal, &self.thread, &self.run).await.map_err(ServiceError::from),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, thread = %self.thread, run = %self.run, "cannot end the run of a disconnected runner; its lease will expire");
        }
    }
}

fn is_terminal(event: &str) -> bool {
    text::string_member(event, "type").is_some_and(|kind| kind == "RUN_FINISHED" || kind == "RUN_ERROR")
}

impl Producing {
    /// Appends events, and makes the reply.
    async fn put(&mut self, events: &[&RawValue], ids: &[u128]) -> ChannelReply {
        // Clients that wait for the end of the run see it only after the runner knows that it is stored.
        let ends = events.iter().any(|event| is_terminal(event.get()));
        let held = ends.then(|| self.state.copilotkit.acks.hold(&self.principal, &self.thread, &self.run));
        let took = time::timeout(INGEST_TIMEOUT, self.take(events, ids)).await;
        let result = match took {
            Ok(Ok(())) => Ok(json!({})),
            Ok(Err(refusal)) => {
                if let Refusal::LegacyRunner = refusal {
                    self.end_twice().await;
                }
                Err(refusal.for_runner())
            }
            // The append may have succeeded; the runner sends it again.
            Err(_) => Err(Refusal::Unavailable.for_runner()),
        };
        if result.is_err() {
            self.known = None;
        }
        ChannelReply { result, until_written: held.map(|held| Box::new(held) as _) }
    }

    /// Checks all events, and returns their ids. Fails if one of them is invalid.
    fn check_all(&self, events: &[&RawValue]) -> Result<Vec<u128>, Refusal> {
        events.iter().enumerate().map(|(at, event)| self.check(at, event.get())).collect()
    }

    /// Checks the event at index `at` of the push, and returns its id.
    fn check(&self, at: usize, event: &str) -> Result<u128, Refusal> {
        let invalid = |what: &str| Refusal::Invalid(format!("event {at}: {what}"));
        if text::string_member(event, "type").is_none_or(|kind| kind.is_empty()) {
            return Err(invalid("an event must be an object with a type"));
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
                return Err(invalid(&format!("{member} differs from that of the topic")));
            }
        }
        Ok(short(&id))
    }

    /// Fails a run whose agent was started twice: the events of both executions are mixed, and the runner ignores
    /// replies. Events that the executions still send are refused as late.
    async fn end_twice(&self) {
        self.legacy.note(&self.principal, &self.thread, &self.run);
        let message = "The runner lost its connection and restarted the run.".to_owned();
        let (runs, code) = (&self.state.service.runs, "legacy-runner".to_owned());
        if let Err(error) = runs.fail(&self.principal, &self.thread, &self.run, Some(code), Some(message)).await {
            tracing::debug!(%error, thread = %self.thread, run = %self.run, "cannot end a run that started twice; its lease will expire");
        }
    }

    /// Appends the events that are not in the log. Returns once all events are durable.
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
                    new.push((*event, *id));
                }
            }
            if new.is_empty() {
                return Ok(());
            }
            // An old runner runs its agent again when it joins again. Events of that execution do not belong to this
            // run.
            if known.producer_seq > 0
                && new
                    .iter()
                    .any(|(event, _)| text::string_member(event.get(), "type").as_deref() == Some("RUN_STARTED"))
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
                // Another socket of this run has appended first.
                Err(AppendError::ProducerSeqGap { .. } | AppendError::ProducerSeqConflict { .. }) if !looked_again => {
                    looked_again = true;
                    self.known = None;
                }
                Err(AppendError::RunFenced(run))
                    if !run.status.is_active()
                        && !run.is_taken_up()
                        && !evicted(run.status, run.error_code.as_deref()) =>
                {
                    // The run has ended, by its own last event or by an overdue stop: no event may be added.
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Makes one batch, up to and including the terminal event: events after it have no meaning.
fn gathered(new: &[(&RawValue, u128)]) -> Result<NewEvents, Refusal> {
    let invalid = |error: EventError| match error.kind {
        EventErrorKind::BatchTooLarge => Refusal::Invalid("the push is too large".into()),
        _ => Refusal::Invalid(error.to_string()),
    };
    let mut batch = BatchBuilder::default();
    for (event, _) in new {
        batch.push_raw(event).map_err(invalid)?;
        if batch.is_terminal() {
            break;
        }
    }
    batch.finish().map_err(invalid)
}

/// Reads the ids of all events in the log of a run.
async fn look(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
    run: &RunId,
) -> Result<ThreadCursor, Refusal> {
    let mut known = ThreadCursor::default();
    let (mut after, mut epoch): (Seq, _) = (0, None);
    loop {
        let request = PageRequest {
            from: ReadFrom::After(after),
            limit: MAX_EVENT_PAGE,
            epoch,
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
        (after, epoch) = (page.cursor, Some(page.epoch));
    }
}
