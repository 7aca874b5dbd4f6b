//! A chat as the page loads it: its UI messages.

use std::collections::{HashSet, VecDeque};

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use threadline_core::{
    AgentId, Principal, Run, Thread, ThreadId,
    limits::{MAX_CHAT_BYTES, MAX_CHAT_RUNS},
    projection::ui_message::{Spoken, UiMessage, UiStream, continues, said},
};
use threadline_engine::{LookupError, limits::in_place};
use threadline_http::{
    extract::{Caller, InAgentThread},
    problem::{Problem, ProblemDocument},
};
use utoipa::ToSchema;

use super::history::thread_of;
use crate::api::{ApiState, run_log::Log};

/// Chat as a page loads it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatView {
    /// Id of the chat, as the request names it.
    id: String,
    /// Thread of the listed branch.
    thread_id: String,
    /// UIMessages of the AI SDK, oldest first: those of the newest 1,000 runs, at most 16 MiB.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Box<RawValue>>,
    /// True if older messages are left out.
    has_more: bool,
    /// The active run, or null. Its message may be incomplete: follow it with GET /ai/{agentId}/{threadId}/stream.
    #[schema(required)]
    active_run_id: Option<String>,
}

const _: () = assert!(MAX_CHAT_RUNS == 1_000 && MAX_CHAT_BYTES == 16 * 1024 * 1024, "the API description says so");

/// Returns the UI messages of a chat.
#[utoipa::path(get, path = "/ai/{agentId}/{threadId}", tag = "ai-sdk",
    params(("agentId" = String, Path), ("threadId" = String, Path, description = "Id of the chat")), responses(
    (status = 200, description = "The chat", body = ChatView),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Agent or thread not found", body = ProblemDocument)))]
pub async fn load(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgentThread(agent, chat): InAgentThread,
) -> Result<Response, Problem> {
    let (state, principal) = (&state, &principal);
    let thread = chat_of(state, principal, &agent, &chat).await?;
    let make = || async { Ok((made(state, principal, &chat, &thread).await?, ())) };
    let (body, ()) = state.http.responses.chunk(principal, make).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// The thread of a chat with an agent.
pub async fn chat_of(
    state: &ApiState,
    principal: &Principal,
    agent: &AgentId,
    chat: &ThreadId,
) -> Result<Thread, Problem> {
    state.agents.get(principal, agent).await?;
    let thread = thread_of(state, principal, chat).await?;
    Ok(thread.ok_or(LookupError::ThreadNotFound)?)
}

/// JSON of a chat, made in slices of the queue.
async fn made(state: &ApiState, principal: &Principal, chat: &ThreadId, thread: &Thread) -> Result<Vec<u8>, Problem> {
    let log = Log { state, principal, thread: &thread.id, epoch: thread.epoch };
    let (mut runs, has_more) = log.runs(MAX_CHAT_RUNS).await?;
    runs.retain(|run| run.producer_seq > 0);
    runs.reverse();
    let mut chat_so_far = ChatSoFar::default();
    let mut work = log.begin().await?;
    let observe = |run: &Run, is_first, event: &[u8]| chat_so_far.observe(run.id.as_str(), is_first, event);
    log.read_all(&mut work, &runs, observe).await?;
    let bytes = chat_so_far.size();
    work.step(bytes).await?;
    work.took(bytes);
    Ok(in_place(|| {
        chat_so_far.close();
        let view = ChatView {
            id: chat.to_string(),
            thread_id: thread.id.to_string(),
            messages: chat_so_far.messages.into(),
            has_more: has_more || chat_so_far.cut,
            active_run_id: thread.active_run.as_ref().map(|run| run.id.to_string()),
        };
        serde_json::to_vec(&view).unwrap_or_default()
    }))
}

/// UI messages, while the events of their runs are read.
#[derive(Default)]
struct ChatSoFar {
    messages: VecDeque<Box<RawValue>>,
    /// Ids of the messages of the user and the system so far.
    said: HashSet<String>,
    /// Bytes of all of `messages`.
    bytes: usize,
    /// True if messages are left out.
    cut: bool,
    /// Messages of the user and the system in the events of the run.
    spoken: Spoken,
    /// The assistant message that is being built, with its stream.
    open: Option<(UiStream, UiMessage)>,
}

impl ChatSoFar {
    /// Bytes of all messages.
    fn size(&self) -> usize {
        self.bytes + self.open.as_ref().map_or(0, |(_, message)| message.bytes())
    }

    fn observe(&mut self, run: &str, is_first: bool, event: &[u8]) {
        let text = std::str::from_utf8(event).unwrap_or_default();
        if is_first {
            self.spoken = Spoken::default();
            self.begin(run, text);
        }
        // The message of the assistant is added once it is complete: those of the user stand before it.
        let spoken = self.spoken.observe(text);
        self.add(spoken);
        if let Some((stream, message)) = &mut self.open {
            let mut chunks = Vec::new();
            stream.observe(event, &mut chunks);
            chunks.into_iter().for_each(|chunk| message.observe(chunk));
            if message.bytes() > MAX_CHAT_BYTES {
                self.open = None;
                self.cut = true;
            }
        }
    }

    fn begin(&mut self, run: &str, first: &str) {
        match &mut self.open {
            Some((stream, _)) if continues(first) => stream.continued(run, true),
            _ => {
                self.close();
                self.add(said(first));
                self.open = Some((UiStream::new(run), UiMessage::default()));
            }
        }
    }

    /// Adds messages of the user and the system, each id once: some producers bring the whole history with each run.
    fn add(&mut self, messages: Vec<Value>) {
        for message in messages {
            let id = message["id"].as_str().unwrap_or_default();
            if self.said.insert(id.to_owned())
                && let Ok(message) = serde_json::value::to_raw_value(&message)
            {
                self.push(message);
            }
        }
    }

    fn close(&mut self) {
        if let Some((_, message)) = self.open.take().filter(|(_, message)| message.has_content())
            && let Ok(message) = RawValue::from_string(message.to_json())
        {
            self.push(message);
        }
    }

    /// Adds a message, and removes the oldest ones while all together are larger than [`MAX_CHAT_BYTES`].
    fn push(&mut self, message: Box<RawValue>) {
        self.bytes += message.get().len();
        self.messages.push_back(message);
        while self.bytes > MAX_CHAT_BYTES && self.messages.len() > 1 {
            self.bytes -= self.messages.pop_front().map_or(0, |oldest| oldest.get().len());
            self.cut = true;
        }
    }
}
