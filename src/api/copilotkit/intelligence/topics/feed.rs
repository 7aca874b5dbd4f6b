//! Topic of a user's thread list: changes of threads, and starts and ends of runs.
//!
//! The feed keeps the newest change of each thread. A socket that joins, also again, receives the changes since a
//! little before its token was issued, so its list is complete. Every push may be repeated.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json, value::RawValue};
use threadline_core::{
    FeedChange, FeedCursor, FeedEntry, Principal, ReadFrom, Run, RunId, RunStatus, Thread, ThreadId, Timestamp,
    limits::{FEED_BASELINE, MAX_REMEMBERED_THREADS},
};
use threadline_engine::{
    FeedError, ListRequest, PageRequest,
    metrics::GaugeGuard,
    subscription::{FeedDelivery, FeedSubscription},
};
use threadline_http::{auth::FeedPass, ws::protocol::HandOver};

use super::{Refusal, refused};
use crate::api::{
    ApiState,
    copilotkit::{
        intelligence::event_id,
        phoenix::channel::{ChannelHandler, ChannelReply, Disconnect, Joined, Outgoing, Push, SocketKind},
        view::{ThreadRecord, UNNAMED_AGENT},
    },
};

/// Time before a join in which a client may have lost its streams and its socket to the end of a server.
const AWAY: Duration = Duration::from_secs(60);

/// Socket that follows a user's feed.
pub struct FeedPlane {
    state: ApiState,
    pass: FeedPass,
    /// Feed position after which every join on this socket starts.
    after: FeedCursor,
}

impl FeedPlane {
    pub fn new(state: ApiState, pass: FeedPass) -> Self {
        Self { after: pass.after, state, pass }
    }

    async fn follow(&mut self, topic: &str) -> Result<Joined, Refusal> {
        let FeedPass { principal, .. } = &self.pass;
        let user = principal.user.as_ref().ok_or(Refusal::Unauthorized)?;
        let names = self.state.http.auth.feed_names(&principal.project, user).await?;
        let named = topic.strip_prefix("user_meta:");
        if !names.iter().any(|name| named == Some(name.as_str())) {
            return Err(Refusal::Unauthorized);
        }
        let feed = &self.state.service.feed;
        let subscription = match feed.subscribe(principal, None, self.after).await {
            // The user was erased, or the store has lost commits: the feed of the token's position is no more.
            Err(FeedError::LogReplaced(_) | FeedError::CursorAhead { .. }) => {
                feed.subscribe(principal, None, feed.head(principal).await?).await?
            }
            subscription => subscription?,
        };
        // Compared with times of the store: what this node knows of the store's clock has an error.
        let joined_at = self.state.service.store_time().await.map_err(FeedError::from)?;
        let request = ListRequest { include_archived: true, limit: FEED_BASELINE, ..ListRequest::default() };
        let page = self.state.service.threads.list(principal, request).await?;
        let known = page.threads.iter().map(|thread| (thread.id.clone(), Seen::of(thread)));
        let following = Following {
            known: known.collect(),
            since: page.feed_cursor.position,
            joined_at,
            state: self.state.clone(),
            principal: principal.clone(),
            subscription,
            _present: GaugeGuard::new(&self.state.service.metrics().following.socket_feed),
        };
        let pushes = stream::unfold(Some(following), Following::next);
        Ok(Joined { response: json!({}), pushes: pushes.boxed(), inbox: Box::new(Silent) })
    }
}

#[async_trait]
impl SocketKind for FeedPlane {
    async fn join(&mut self, topic: &str, _: &RawValue) -> Result<Joined, Value> {
        self.follow(topic).await.map_err(Refusal::for_reader)
    }

    async fn closed(&mut self, _: HandOver) {}
}

/// Inbox that refuses every push: pages push nothing to this topic.
struct Silent;

#[async_trait]
impl ChannelHandler for Silent {
    async fn push(&mut self, _: &str, _: &RawValue) -> ChannelReply {
        Err(refused("unknown_event")).into()
    }
}

/// Notification of a run that a client was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    run: RunId,
    attempt: u64,
    ended: bool,
}

impl Told {
    fn of(run: &Run) -> Self {
        Self { run: run.id.clone(), attempt: run.attempt, ended: !run.status.is_active() }
    }
}

/// State of a thread when it was last read. The name of a change depends on this state.
#[derive(Debug, Clone)]
struct Seen {
    name: Option<String>,
    archived: bool,
    /// Run that the client was last notified of.
    told: Option<Told>,
    last_run_at: Option<Timestamp>,
}

impl Seen {
    fn of(thread: &Thread) -> Self {
        Self {
            name: thread.name.clone(),
            archived: thread.archived,
            told: thread.active_run.as_ref().map(Told::of),
            last_run_at: thread.last_run_at,
        }
    }

    /// True if a run has started, was taken over or has ended since this state was read.
    fn is_behind(&self, thread: &Thread) -> bool {
        let active = thread.active_run.as_ref().map(Told::of);
        self.last_run_at != thread.last_run_at
            || self.told.as_ref().is_some_and(|told| !told.ended && active.as_ref() != Some(told))
    }
}

struct Following {
    state: ApiState,
    principal: Principal,
    subscription: FeedSubscription,
    /// Newest threads at the time of the join, and threads that have changed since.
    known: HashMap<ThreadId, Seen>,
    /// Feed position as of which `known` was read. Entries up to this position are repeated, and their runs are known.
    since: u64,
    joined_at: Timestamp,
    _present: GaugeGuard,
}

impl Following {
    async fn next(waiting: Option<Self>) -> Option<(Outgoing, Option<Self>)> {
        let mut following = waiting?;
        loop {
            match following.subscription.next().await {
                Ok(FeedDelivery::Entries(entries)) => {
                    let mut pushes = Vec::with_capacity(entries.len());
                    for entry in entries {
                        following.tell(entry, &mut pushes).await;
                    }
                    return Some((Outgoing::Push(pushes), Some(following)));
                }
                Ok(FeedDelivery::CaughtUp(_) | FeedDelivery::Rebased { .. }) => {}
                // The user was erased. A client that reconnects starts with a new feed, or is refused.
                Ok(FeedDelivery::Ended(_)) => return Some((Outgoing::Hangup(Disconnect::Failed), None)),
                Err(error) => {
                    tracing::warn!(%error, "cannot read a feed; its reader must reconnect");
                    return Some((Outgoing::Hangup(Disconnect::Failed), None));
                }
            }
        }
    }

    async fn tell(&mut self, entry: FeedEntry, pushes: &mut Vec<Push>) {
        let id = &entry.thread_id;
        let now = self.state.service.clock().now();
        let mut change = json!({
            "threadId": id.as_str(),
            "userId": self.principal.user.as_ref().map(|user| user.as_str()),
            "organizationId": self.principal.project.as_str(),
            "occurredAt": now,
        });
        let mut push = |operation: &str, name: &str, value: Value| {
            change["operation"] = operation.into();
            change[name] = value;
            pushes.push(Push { event: "thread_metadata", payload: change.to_string() });
        };
        let FeedChange::Upsert(thread) = entry.change else {
            self.known.remove(id);
            push("deleted", "deleted", json!({ "id": id.as_str() }));
            return;
        };
        let before = self.known.get(id);
        let record = serde_json::to_value(ThreadRecord::from(&*thread)).unwrap_or_default();
        push(operation(before, &thread), "thread", record);
        let told = before.and_then(|before| before.told.clone());
        let mut seen = Seen { told, ..Seen::of(&thread) };
        let ran = match before {
            Some(before) => before.is_behind(&thread),
            // The thread was not read before, so only a run after the join is reported.
            None => thread.last_run_at.is_some_and(|at| at >= self.joined_at),
        };
        let repeated = entry.cursor <= self.since;
        let recent = thread.last_run_at.is_some_and(|at| at.plus(AWAY) >= self.joined_at);
        let ran = if repeated { recent } else { ran };
        if ran && let Some(run) = self.newest_run(&thread).await {
            let now = Some(Told::of(&run));
            // A takeover that came before the join has cut what the client followed, and it connects again only if notified.
            let untold = if repeated { was_taken_over(&run) } else { seen.told != now };
            if untold {
                pushes.extend(self.activity(&thread, &run).await);
                seen.told = now;
            }
        }
        if self.known.len() < MAX_REMEMBERED_THREADS || self.known.contains_key(id) {
            self.known.insert(id.clone(), seen);
        }
    }

    async fn newest_run(&self, thread: &Thread) -> Option<Run> {
        let runs = self.state.service.runs.list(&self.principal, &thread.id, None, 1, None).await;
        runs.ok()?.items.pop()
    }

    /// Makes the push that notifies a chat of a run which another client started. `None` if the run was abandoned.
    async fn activity(&self, thread: &Thread, run: &Run) -> Option<Push> {
        let kind = match run.status {
            RunStatus::Running | RunStatus::Finishing => "RUN_STARTED",
            RunStatus::Finished | RunStatus::Stopped => "RUN_FINISHED",
            RunStatus::Error => "RUN_ERROR",
            RunStatus::Abandoned => return None,
        };
        let activity = json!({
            "threadId": thread.id.as_str(),
            "agentId": thread.agent.as_ref().or(run.agent.as_ref()).map_or(UNNAMED_AGENT, |agent| agent.as_str()),
            // A client ignores a run that it has followed in the last 30 s, also if its stream was cut, as it was by a takeover.
            "runId": (!was_taken_over(run)).then_some(run.id.as_str()),
            "eventType": kind,
            "latestEventId": self.newest_event(thread).await,
        });
        Some(Push { event: "thread_run_activity", payload: activity.to_string() })
    }

    async fn newest_event(&self, thread: &Thread) -> Option<String> {
        let request = PageRequest { from: ReadFrom::Before(u64::MAX), limit: 1, epoch: None, run: None, wait: None };
        let page = self.state.service.events.page(&self.principal, &thread.id, request).await.ok()?;
        let (seq, event, _) = page.slice.events().last()?;
        Some(event_id::of(std::str::from_utf8(event).ok()?, page.epoch, seq))
    }
}

/// True if the run has had another driver or producer before.
fn was_taken_over(run: &Run) -> bool {
    run.is_taken_up() || run.driven && run.attempt > 1
}

/// Names a change. Lists that hide archived threads depend on the name, so every change of an archived thread is
/// `archived`.
fn operation(before: Option<&Seen>, thread: &Thread) -> &'static str {
    match before {
        _ if thread.archived => "archived",
        None if thread.version == 1 => "created",
        Some(before) if before.archived => "unarchived",
        Some(before) if before.name != thread.name => "renamed",
        None | Some(_) => "updated",
    }
}
