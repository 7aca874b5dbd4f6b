//! Driver of an agent's run: writes the agent's events, until the run has ended, and records how it ended.

use std::{collections::HashSet, future};

use futures_util::TryStreamExt;
use threadline_core::{
    EventError, Fence, event::BatchBuilder, json, limits::WRITE_RETRY, projection::superseding::BegunSubagents,
};
use threadline_engine::{
    AppendError, DriveRight, EndRunError, ReadEvents, WriteExit, WritePolicy, subscription::TopicRef,
};
use tokio::time;

use super::source::{AgentFailure, EventStream};

/// Number of tries to end a run while the store is unavailable.
const END_TRIES: usize = 10;

/// One run of one agent.
pub(super) struct Drive {
    pub right: DriveRight,
    pub fence: Fence,
    /// producer_seq of the agent's first event.
    pub next: u64,
    pub policy: WritePolicy,
    /// Ids of messages of users and of results of tools, under which the agent must not write.
    pub client_messages: HashSet<String>,
    /// Subagents of the attempts before.
    pub begun: BegunSubagents,
    /// True if another node goes on with the run when this one shuts down.
    pub hands_over: bool,
}

impl Drive {
    /// Drives the run to its end, and records in the log how it ended.
    pub async fn run(self, stream: EventStream, topic: TopicRef) {
        let Self { right, fence, next, policy, client_messages, begun, hands_over } = self;
        let mut messages = ForeignMessages { ids: client_messages, last: String::new() };
        let said = stream.and_then(move |event| future::ready(messages.check(&event).map(|()| event)));
        let exit = right.writer(topic, fence, next, policy).drive(said, &mut AgentEvents { begun }).await;
        if hands_over && matches!(exit, WriteExit::Leaving) {
            tracing::debug!("handing an agent's run over");
            if let Err(error) = right.give_up().await {
                tracing::warn!(%error, "cannot hand an agent's run over: another node takes it over later");
            }
            return;
        }
        tracing::debug!(?exit, "an agent's run has ended");
        if let Some(end) = RunEnd::of(exit) {
            end.record(&right).await;
        }
    }
}

/// End that the log lacks.
enum RunEnd {
    /// A run with a requested stop ends as `stopped`, no matter which node or client ends it.
    Stopped,
    /// Failure, with its code and message.
    Failed(&'static str, String),
}

impl RunEnd {
    /// End to record after this exit; `None` if the run has ended.
    fn of(exit: WriteExit<AgentFailure>) -> Option<Self> {
        let failed = |code, message: &str| Some(Self::Failed(code, message.to_owned()));
        let failure = match exit {
            WriteExit::Terminal | WriteExit::Ended => return None,
            WriteExit::Stopped => return Some(Self::Stopped),
            WriteExit::SourceFailed(failure) => failure,
            WriteExit::SourceEnded | WriteExit::Silent => AgentFailure::Incomplete,
            WriteExit::InvalidEvent(EventError { kind, .. }) => AgentFailure::InvalidEvent(kind.to_string()),
            WriteExit::Leaving => return failed("server-stopped", "The server that ran the agent shut down."),
            // The agent cannot repeat what it has said.
            WriteExit::HistoryLost { .. } => return failed("history-lost", "The store has lost events of the run."),
            WriteExit::Refused(AppendError::Store(_)) => {
                return failed("store-unavailable", "The server could not store the agent's events.");
            }
            // Another producer has appended to the run, so that the agent's next events do not fit.
            WriteExit::Refused(AppendError::ProducerSeqConflict { .. } | AppendError::ProducerSeqGap { .. }) => {
                return failed("agent-displaced", "Events of another producer were appended to the agent's run.");
            }
            WriteExit::Refused(_) => return None,
        };
        Some(Self::Failed(failure.code(), failure.to_string()))
    }

    /// Ends the run in the log. If the store is unavailable, the run's lease expires and the reaper ends it.
    async fn record(&self, right: &DriveRight) {
        for _ in 0..END_TRIES {
            let result = match self {
                Self::Stopped => right.finish().await,
                Self::Failed(code, message) => right.fail((*code).to_owned(), message.clone()).await,
            };
            let Err(error @ EndRunError::Store(_)) = result else { return };
            tracing::warn!(%error, "cannot end an agent's run; retrying");
            time::sleep(WRITE_RETRY).await;
        }
    }
}

/// Messages of users and results of tools, to which an agent's words must not be added: a client could choose the id that
/// the agent's next message will have.
struct ForeignMessages {
    ids: HashSet<String>,
    /// Token of the id that was checked last: the pieces of one text come in rows.
    last: String,
}

impl ForeignMessages {
    /// Fails if an event writes under the id of one of these messages.
    fn check(&mut self, event: &[u8]) -> Result<(), AgentFailure> {
        let Ok(event) = std::str::from_utf8(event) else { return Ok(()) };
        let writes = |kind: &str| {
            ["\"TEXT_MESSAGE_", "\"REASONING_", "\"ACTIVITY_"].iter().any(|begin| kind.starts_with(begin))
                || kind.contains('\\')
        };
        if self.ids.is_empty() || !json::member(event, "type").is_some_and(writes) {
            return Ok(());
        }
        let Some(token) = json::member(event, "messageId").filter(|token| *token != self.last) else { return Ok(()) };
        match json::string(token).filter(|id| self.ids.contains(id)) {
            Some(id) => Err(AgentFailure::MessageIdTaken(id)),
            None => {
                token.clone_into(&mut self.last);
                Ok(())
            }
        }
    }
}

/// Events of an agent: each chunk is one. RUN_STARTED is skipped: the run already has one, with the messages that the
/// agent received, and clients refuse a second one. So are CUSTOM events with names that only the server gives, and begins
/// and ends of subagents that an attempt before has begun.
struct AgentEvents {
    begun: BegunSubagents,
}

/// True if the name of a CUSTOM event begins with `threadline.`.
fn is_reserved(event: &[u8]) -> bool {
    let name = std::str::from_utf8(event).ok().and_then(|text| json::string_member(text, "name"));
    name.is_some_and(|name| name.starts_with("threadline."))
}

impl ReadEvents for AgentEvents {
    fn chunk(&mut self, event: &[u8], batch: &mut BatchBuilder) -> Result<(), EventError> {
        let kind = std::str::from_utf8(event).ok().and_then(|text| json::member(text, "type"));
        let is = |name| kind.is_some_and(|kind| json::is_string(kind, name));
        if is("RUN_STARTED") || (is("CUSTOM") && is_reserved(event)) || self.begun.is_repeated(event) {
            return Ok(());
        }
        batch.push_line(event)
    }

    fn rest(&mut self, _: &mut BatchBuilder) -> Result<(), EventError> {
        Ok(())
    }
}
