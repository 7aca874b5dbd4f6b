//! Runs in forks: a message is edited, or an answer made again, in a new branch of the conversation.

use serde::Deserialize;
use serde_json::value::RawValue;
use threadline_core::{Epoch, Principal, Seq, ThreadId, agent::Agent, json};
use threadline_engine::{ForkError, ForkThread, ForkedThread, MessageOrigin, ServiceError, StopError, ThreadAt};

use super::{
    AgentError, AgentRun, AgentStart, Agents, ClientInput,
    fork::{ForkPoint, ForkStart},
};

/// Members of a RUN_STARTED's input that a run is given again.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Given {
    messages: Vec<Box<RawValue>>,
    resume: Option<Box<RawValue>>,
}

impl Given {
    /// Input that an event carries; empty for an event without a list of messages.
    fn of(event: Option<&str>) -> Self {
        let Some(event) = event else { return Self::default() };
        let given = json::member(event, "input").unwrap_or(event);
        serde_json::from_str(given).unwrap_or_default()
    }

    /// Messages before this one; `None` if it is not among them.
    fn before(mut self, message: &str) -> Option<Vec<Box<RawValue>>> {
        let at =
            self.messages.iter().position(|given| json::string_member(given.get(), "id").as_deref() == Some(message));
        self.messages.truncate(at?);
        Some(self.messages)
    }
}

/// Puts the messages that are given again before the client's own. Returns the seq at which the fork ends.
fn give(input: &mut ClientInput, point: &ForkPoint, origin: &MessageOrigin) -> Seq {
    let given = Given::of(origin.started.as_deref());
    let listed = |message: &str| Given::of(Some(&origin.event)).before(message);
    let (mut messages, at) = match point {
        ForkPoint::At(seq) => (Vec::new(), *seq),
        ForkPoint::Before(message) => match (listed(message), origin.asked) {
            (Some(messages), _) => (messages, origin.before()),
            (None, Some(asked)) => (Vec::new(), asked),
            (None, None) => (given.messages, origin.before()),
        },
        ForkPoint::Regenerate(message) => {
            if input.resume.is_none() {
                input.resume = given.resume.filter(|resume| !matches!(resume.get(), "null" | "[]"));
            }
            if input.state.is_none() {
                input.state = origin.state.clone().and_then(|state| RawValue::from_string(state).ok());
            }
            match (given.messages.is_empty(), origin.asked) {
                (false, _) => (given.messages, origin.before()),
                // The run says what the user asks in events of its own: the fork has them.
                (true, Some(asked)) => (Vec::new(), asked),
                // The run has a list that was saved.
                (true, None) => (listed(message).unwrap_or_default(), origin.before()),
            }
        }
    };
    messages.append(&mut input.messages);
    input.messages = messages;
    at
}

impl Agents {
    /// Forks a thread and starts a run in the fork, which then is the listed branch, if it is to be listed. A refused run leaves no fork.
    pub(super) async fn run_in_fork(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        agent: &Agent,
        mut request: AgentRun,
        fork: ForkStart,
    ) -> Result<AgentStart, AgentError> {
        let service = &self.shared.service;
        let (epoch, listed) = (request.epoch.take(), fork.listed);
        let stopped = if fork.stop {
            service.threads.get(principal, thread).await.map_err(ForkError::from)?.active_run
        } else {
            None
        };
        let forked = self.open_fork(principal, ThreadAt { id: thread, epoch }, fork, &mut request).await?;
        let child = forked.thread.id;
        let begun = self.run(principal, &child, agent, request).await;
        let start = match begun {
            Ok(start) => start,
            Err(error) => {
                // The outcome of a store that failed is unknown: a repetition goes on with the fork.
                let is_left = !forked.thread.branch.listed && forked.thread.version == 1;
                if (forked.created || is_left) && !matches!(error, AgentError::Service(ServiceError::Store(_))) {
                    let at = ThreadAt { id: &child, epoch: Some(forked.thread.epoch) };
                    service.threads.delete(principal, at).await.map_err(ServiceError::from)?;
                }
                return Err(error);
            }
        };
        if listed {
            service.forks.choose(principal, &child, &child).await.map_err(ServiceError::from)?;
        }
        if let Some(run) = stopped {
            match service.runs.stop(principal, thread, &run.id).await {
                Ok(_) | Err(StopError::ThreadNotFound | StopError::RunNotFound) => {}
                Err(error) => return Err(ServiceError::from(error).into()),
            }
        }
        Ok(start)
    }

    /// The fork in which a run is to begin, and the messages that it begins with.
    async fn open_fork(
        &self,
        principal: &Principal,
        thread: ThreadAt<'_>,
        fork: ForkStart,
        request: &mut AgentRun,
    ) -> Result<ForkedThread, AgentError> {
        let forks = &self.shared.service.forks;
        let (at, epoch): (Seq, Option<Epoch>) = match &fork.point {
            ForkPoint::At(seq) => (*seq, thread.epoch),
            ForkPoint::Before(message) | ForkPoint::Regenerate(message) => {
                let origin = forks.origin_of(principal, thread.id, message).await?;
                (give(&mut request.input, &fork.point, &origin), thread.epoch.or(Some(origin.epoch)))
            }
        };
        let wanted = ForkThread { id: fork.thread, at: Some(at), separate: false, unlisted: true, request: None };
        Ok(forks.fork(principal, ThreadAt { id: thread.id, epoch }, wanted).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(messages: &[Box<RawValue>]) -> Vec<String> {
        messages.iter().filter_map(|message| json::string_member(message.get(), "id")).collect()
    }

    #[test]
    fn what_comes_before_a_message_of_a_list_is_given_again() {
        let started = r#"{"type":"RUN_STARTED","input":{"messages":[{"id":"a"},{"id":"b"}],"resume":null}}"#;
        assert_eq!(ids(&Given::of(Some(started)).before("b").expect("listed")), ["a"]);
        assert!(Given::of(Some(started)).before("c").is_none());
        let snapshot = r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a"},{"id":"b"}]}"#;
        assert_eq!(ids(&Given::of(Some(snapshot)).before("b").expect("listed")), ["a"]);
        assert!(Given::of(Some(r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#)).before("m").is_none());
    }
}
