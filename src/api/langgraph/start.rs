//! Starts of runs, by a command or by the route of runs.

use std::mem;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use threadline_core::{
    AgentId, Principal, RunId, Seq, Thread, ThreadId,
    agent::{Agent, Busy},
    hex,
    limits::INPUT_COPIES,
    projection::langgraph::{Refused, checkpoint_id, number_after, said},
};
use threadline_engine::{LookupError, Projected, RunLookupError, limits::BudgetPermit};
use threadline_http::problem::Problem;

use super::states::{named_seq, newest, no_checkpoint, run_of};
use crate::{
    agents::{AgentRun, ClientInput, RunAnswer},
    api::{ApiState, run_agent::ask_agent},
};

/// Most runs whose ids derive from one request. If all of them have failed, the id of the next run is generated.
const REPETITIONS: usize = 16;

/// Parameters of a start.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StartParams {
    assistant_id: String,
    /// `messages`, and members of the state.
    input: Value,
    config: Map<String, Value>,
    context: Map<String, Value>,
    metadata: Map<String, Value>,
    /// Clients send this name, the other one, or both.
    multitask_strategy: Option<String>,
    #[serde(rename = "multitaskStrategy")]
    strategy: Option<String>,
    checkpoint_id: Option<String>,
    checkpoint: Option<Value>,
    command: Option<Value>,
    /// With `create`, the route of runs creates a missing thread. The command always does.
    if_not_exists: Option<String>,
}

/// Run that a request asked for.
pub struct Asked {
    pub run: RunId,
    /// Number before the first event that derives from the run, if the run has begun; otherwise the number before the next event of
    /// the thread.
    pub through: u64,
}

/// Input of a run.
pub struct NewInput {
    messages: Vec<Value>,
    /// Members to set in the state.
    state: Map<String, Value>,
    resume: Vec<Value>,
    forwarded: Map<String, Value>,
    /// Checkpoint that the request names.
    base: Option<Base>,
}

/// Checkpoint at which a run begins.
struct Base {
    seq: Seq,
    /// Run of a checkpoint before the newest one.
    run: Option<RunId>,
}

/// Reason for which a start is refused.
pub enum NotStarted {
    /// The request asks for something that the server does not support.
    NotSupported(String),
    /// The request answers an interrupt of a thread that has none.
    NotAsked(String),
    Problem(Problem),
}

impl From<Problem> for NotStarted {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<NotStarted> for Problem {
    fn from(refused: NotStarted) -> Self {
        match refused {
            NotStarted::NotSupported(detail) | NotStarted::NotAsked(detail) => Self::invalid(detail),
            NotStarted::Problem(problem) => problem,
        }
    }
}

/// Messages and other members of an input, or of an update of the state.
pub fn read_input(input: Value) -> Result<(Vec<Value>, Map<String, Value>), Problem> {
    let refused = |error: Refused| Problem::invalid(error.to_string());
    match input {
        Value::Null => Ok((Vec::new(), Map::new())),
        Value::Object(mut state) => {
            let messages = state.remove("messages").unwrap_or_default();
            Ok((said(&messages).map_err(refused)?, state))
        }
        _ => Err(Problem::invalid(
            "input is not an object: send {\"messages\": […]}, and members of the state beside it",
        )),
    }
}

impl NewInput {
    pub fn new(input: Value, resume: Vec<Value>, forwarded: Map<String, Value>) -> Result<Self, Problem> {
        let (messages, state) = read_input(input)?;
        Ok(Self { messages, state, resume, forwarded, base: None })
    }

    /// Ids by which a repetition of the request is recognized: those of its messages, of the interrupts that it answers, and of the
    /// checkpoint that it names. `None` if a message has no id, or if there is neither a message nor an interrupt.
    fn ids(&self) -> Option<Vec<String>> {
        let messages = self.messages.iter().map(|message| message["id"].as_str());
        let answers = self.resume.iter().map(|answer| answer["interruptId"].as_str());
        let ids = messages.chain(answers).map(|id| id.map(str::to_owned));
        let mut ids: Vec<String> = ids.collect::<Option<_>>()?;
        if ids.is_empty() {
            return None;
        }
        ids.extend(self.base.as_ref().map(|base| checkpoint_id(base.seq)));
        Some(ids)
    }

    /// AG-UI's input. Members of the state are set in the state that the run begins with.
    async fn into_client(
        self,
        state: &ApiState,
        principal: &Principal,
        thread: Option<&Thread>,
        mut room: BudgetPermit,
    ) -> Result<ClientInput, Problem> {
        let mut input = json!({ "messages": self.messages });
        if !self.state.is_empty() {
            let mut now = match thread {
                Some(thread) => {
                    let read = |projected: &Projected| projected.conversation.state_json();
                    let (at, epoch) = (self.base.as_ref().map(|base| base.seq), Some(thread.epoch));
                    let json = state.service.projections.read(principal, &thread.id, at, epoch, read).await?;
                    serde_json::from_slice(&json).unwrap_or_default()
                }
                None => Map::new(),
            };
            now.extend(self.state);
            input["state"] = now.into();
        }
        if let Some(run) = self.base.and_then(|base| base.run) {
            input["parentRunId"] = run.as_str().into();
        }
        if !self.resume.is_empty() {
            input["resume"] = self.resume.into();
        }
        if !self.forwarded.is_empty() {
            input["forwardedProps"] = self.forwarded.into();
        }
        let mut input: ClientInput =
            serde_json::from_value(input).map_err(|error| Problem::invalid(error.to_string()))?;
        // The trees are dropped.
        room.shrink(input.bytes() * INPUT_COPIES);
        input.room = Some(room);
        Ok(input)
    }
}

/// Settings of a run for its agent, without those that say where the run begins.
pub fn configurable(mut config: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Object(mut configurable)) = config.remove("configurable") else { return Map::new() };
    configurable.retain(|name, _| !matches!(name.as_str(), "thread_id" | "checkpoint_id" | "checkpoint_ns"));
    configurable
}

/// Thread of this id; `None` if there is none.
pub async fn thread_of(state: &ApiState, principal: &Principal, id: &ThreadId) -> Result<Option<Thread>, Problem> {
    match state.service.threads.get(principal, id).await {
        Err(LookupError::ThreadNotFound) => Ok(None),
        thread => Ok(Some(thread?)),
    }
}

impl StartParams {
    /// True if a request of the route of runs creates a missing thread.
    pub fn makes_thread(&self) -> bool {
        self.if_not_exists.as_deref() == Some("create")
    }

    /// Choice of the client for a thread with an active run.
    fn busy(&self) -> Result<Busy, NotStarted> {
        match self.multitask_strategy.as_deref().or(self.strategy.as_deref()) {
            None | Some("enqueue") => Ok(Busy::Enqueue),
            Some("interrupt") => Ok(Busy::Interrupt),
            Some("reject") => Ok(Busy::Reject),
            Some("rollback") => Err(NotStarted::NotSupported(
                "multitask_strategy rollback is not supported, because the events of a run are never removed: use interrupt, which \
                 keeps what the run has said so far"
                    .to_owned(),
            )),
            Some(other) => Err(Problem::invalid(format!(
                "multitask_strategy {other:?} is none of enqueue, interrupt and reject"
            ))
            .into()),
        }
    }

    /// Refuses `command`, which addresses a graph.
    fn check(&self) -> Result<(), NotStarted> {
        if self.command.as_ref().is_some_and(|command| !command.is_null()) {
            let detail = "command is not supported: answer an interrupt with the command input.respond";
            return Err(NotStarted::NotSupported(detail.to_owned()));
        }
        Ok(())
    }

    /// Seq of the checkpoint that the request names.
    fn checkpoint(&self, thread: Option<&Thread>) -> Result<Option<Seq>, Problem> {
        let in_config = self.config.get("configurable").and_then(|of| of.get("checkpoint_id"));
        let in_checkpoint = self.checkpoint.as_ref().and_then(|of| of.get("checkpoint_id"));
        let named = self.checkpoint_id.as_deref().or_else(|| in_config?.as_str()).or_else(|| in_checkpoint?.as_str());
        let Some(named) = named else { return Ok(None) };
        let seq = named_seq(named)?;
        if seq <= thread.map_or(0, newest) { Ok(Some(seq)) } else { Err(no_checkpoint(named)) }
    }

    /// Parts of the request that the agent receives beside the messages.
    fn forwarded(self) -> Map<String, Value> {
        let parts =
            [("configurable", configurable(self.config)), ("context", self.context), ("metadata", self.metadata)];
        parts
            .into_iter()
            .filter(|(_, part)| !part.is_empty())
            .map(|(name, part)| (name.to_owned(), part.into()))
            .collect()
    }

    /// Starts a run in the thread, or queues it. The thread is created if it does not exist.
    pub async fn start(
        mut self,
        state: &ApiState,
        principal: &Principal,
        thread: &ThreadId,
        room: BudgetPermit,
    ) -> Result<Asked, NotStarted> {
        let mut busy = self.busy()?;
        self.check()?;
        let agent = AgentId::new(self.assistant_id.as_str());
        let agent = agent.map_err(|error| Problem::invalid(format!("assistant_id: {error}")))?;
        let (agent, _) = state.agents.get(principal, &agent).await.map_err(Problem::from)?;
        let known = thread_of(state, principal, thread).await?;
        let checkpoint = self.checkpoint(known.as_ref())?;
        let mut input = NewInput::new(mem::take(&mut self.input), Vec::new(), self.forwarded())?;
        if let (Some(thread), Some(seq)) = (&known, checkpoint) {
            // A queued run would discard the output of the run before it.
            busy = Busy::Reject;
            let is_older = seq < newest(thread);
            let run = if is_older { run_of(state, principal, thread, seq).await?.map(|run| run.id) } else { None };
            input.base = Some(Base { seq, run });
        }
        ask(state, principal, (thread, known.as_ref()), agent, input, room, busy).await
    }
}

/// Has an agent produce a run. A repeated request is recognized by the ids of its messages, of the interrupts that it answers and of
/// the checkpoint that it names, and gets the same run.
pub async fn ask(
    state: &ApiState,
    principal: &Principal,
    (id, thread): (&ThreadId, Option<&Thread>),
    agent: Agent,
    input: NewInput,
    room: BudgetPermit,
    busy: Busy,
) -> Result<Asked, NotStarted> {
    let run = match input.ids() {
        Some(ids) => unfailed(state, principal, id, &ids).await?,
        None => RunId::generate(),
    };
    let (base, epoch) = (input.base.as_ref().map(|base| base.seq), thread.map(|thread| thread.epoch));
    let input = input.into_client(state, principal, thread, room).await?;
    let request = AgentRun {
        id: Some(run.clone()),
        // The seq of a checkpoint belongs to one epoch.
        epoch: epoch.filter(|_| base.is_some()),
        base,
        input,
        makes_thread: base.is_none(),
        answers_open: true,
        ..AgentRun::default()
    };
    let (answer, _) = ask_agent(state, principal, id, agent, request, Some(busy), false).await?;
    let after = match answer {
        RunAnswer::Started(start) => start.started.cursor,
        RunAnswer::Queued(_) => thread.map_or(0, |thread| thread.tail),
    };
    Ok(Asked { run, through: number_after(after) })
}

/// Id of the first run of a request that has not failed. A request that is repeated after a failure asks for another run.
async fn unfailed(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
    ids: &[String],
) -> Result<RunId, Problem> {
    for attempt in 0..REPETITIONS {
        let run = repeatable_id(thread, ids, attempt);
        match state.service.runs.get(principal, thread, &run).await {
            Err(RunLookupError::ThreadNotFound | RunLookupError::RunNotFound) => return Ok(run),
            Ok(found) if !found.status.is_failure() => return Ok(run),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(RunId::generate())
}

/// Id of a run, in the form of a UUID as clients expect it.
fn repeatable_id(thread: &ThreadId, ids: &[String], attempt: usize) -> RunId {
    let mut digest = Sha256::new().chain_update(thread.as_str()).chain_update(attempt.to_le_bytes());
    for id in ids {
        digest.update((id.len() as u64).to_le_bytes());
        digest.update(id);
    }
    let text = hex(&digest.finalize()[..16]);
    let uuid = format!("{}-{}-8{}-8{}-{}", &text[..8], &text[8..12], &text[13..16], &text[17..20], &text[20..]);
    RunId::new(uuid).unwrap_or_else(|_| RunId::generate())
}
