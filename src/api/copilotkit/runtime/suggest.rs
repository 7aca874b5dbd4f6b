//! Suggestions for the user's next message: an agent is asked, and nothing of its answer is stored.
//!
//! Newer clients send the request to its own route. Older clients, and clients of the single endpoint, request a run in
//! a new thread, which would stay in every list. Such a request is recognized by the tool that the agent is to use.

use axum::{
    body::Bytes,
    extract::{Request, State},
    response::Response,
};
use futures_util::StreamExt;
use threadline_core::{
    Principal,
    agent::Agent,
    json as text,
    projection::closing::{Ending, OpenParts},
};
use threadline_engine::{StoreError, limits::StreamPermit};
use threadline_http::{
    extract::{Caller, InAgent},
    problem::{Problem, ProblemDocument},
    sse::{self, EventSource, Farewell},
};

use super::stream::{Telling, write};
use crate::{
    agents::{Asked, ClientInput, source::AgentFailure},
    api::ApiState,
};

/// Tool with which an agent makes suggestions.
const TOOL: &str = "\"copilotkitSuggest\"";

/// Requests suggestions from an agent. It creates no thread and no run.
#[utoipa::path(post, path = "/copilotkit/agent/{agentId}/suggest", tag = "copilotkit",
    params(("agentId" = String, Path)), request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "The events of the agent", content((String = "text/event-stream"))),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Agent not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 429, description = "Too many active runs", body = ProblemDocument)))]
pub async fn suggest(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(agent): InAgent,
    request: Request,
) -> Result<Response, Problem> {
    let input = state.read_run_input(&principal, request).await?;
    let (agent, _) = state.agents.get(&principal, &agent).await?;
    answer(&state, &principal, &agent, input).await
}

/// True if an input requests suggestions.
pub fn is_one(input: &ClientInput) -> bool {
    let function = || {
        let choice = text::member(input.forwarded_props.as_ref()?.get(), "toolChoice")?;
        text::member(text::member(choice, "function")?, "name")
    };
    function() == Some(TOOL)
}

/// Streams the agent's answer.
pub async fn answer(
    state: &ApiState,
    principal: &Principal,
    agent: &Agent,
    input: ClientInput,
) -> Result<Response, Problem> {
    // Suggestions are no runs and do not count as runs. A principal that may start no run gets no suggestions, and at
    // most as many at a time as it may have active runs.
    state.service.runs.check_room(principal).await?;
    let permit = state.http.quota.suggest(principal)?;
    let place = state.http.quota.open(principal)?;
    let asked = state.agents.ask(principal, agent, input).await?;
    let telling = Telling::new(asked.thread.clone(), asked.run.clone(), false);
    let followed = Suggestions { asked, telling, open: OpenParts::default(), over: false, _permit: permit };
    Ok(sse::response(followed, None, place, &state.http, principal))
}

struct Suggestions {
    asked: Asked,
    telling: Telling,
    open: OpenParts,
    over: bool,
    _permit: StreamPermit,
}

impl EventSource for Suggestions {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let mut out = Vec::new();
        while out.is_empty() && !self.over {
            let failure = match self.asked.events.next().await {
                Some(Ok(event)) => {
                    // One event must be one line.
                    let event: Vec<u8> =
                        event.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect();
                    let kind = std::str::from_utf8(&event).ok().and_then(|event| text::member(event, "type"));
                    self.over = matches!(kind, Some("\"RUN_FINISHED\"" | "\"RUN_ERROR\""));
                    self.open.observe(&event);
                    self.telling.tell(&mut out, &event);
                    continue;
                }
                Some(Err(failure)) => failure,
                None => AgentFailure::Incomplete,
            };
            self.over = true;
            let ending = Ending::Error { code: failure.code().to_owned(), message: failure.to_string() };
            let closers = self.open.closers(self.asked.thread.as_str(), self.asked.run.as_str(), &ending);
            closers.body().split(|byte| *byte == b'\n').for_each(|event| write(&mut out, event));
        }
        Ok(Some(Bytes::from(out)).filter(|out| !out.is_empty()))
    }

    fn tail(&self) -> u64 {
        0
    }

    fn failed(&mut self, _: StoreError) -> Option<Bytes> {
        None
    }

    fn goodbye(&mut self, _: Farewell) -> Option<Bytes> {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn suggestions_are_known_by_their_tool() {
        let input = |choice| {
            let input = json!({ "forwardedProps": { "toolChoice": choice } });
            serde_json::from_value::<ClientInput>(input).expect("an input")
        };
        assert!(is_one(&input(json!({ "type": "function", "function": { "name": "copilotkitSuggest" } }))));
        for other in [json!("auto"), json!({ "type": "function", "function": { "name": "search" } }), json!(null)] {
            assert!(!is_one(&input(other)));
        }
    }
}
