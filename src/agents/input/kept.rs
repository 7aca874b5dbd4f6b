//! Input of a run as it is kept beside the log, so that another node can call the agent with the same input.
//!
//! The log has the messages and the state, and the evidence of the run says which of them the agent was given. Kept is what the
//! log does not have: tools, context, forwarded properties and answers. It is removed with the end of the run.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{RunId, ThreadId, json, projection::conversation::Conversation};

use super::{
    given::{Believed, StateSource, rebuild},
    verify::evidence,
};
use crate::agents::{
    client_input::Unknown,
    forwarded,
    source::{AgentCall, RunInput, Trust},
};

/// Parts of an input that the log does not have.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    /// Value of the header `Idempotency-Key` in every call of the run.
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent_run_id: Option<String>,
    tools: String,
    context: String,
    forwarded_props: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resume: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rest: Unknown,
    /// Messages of a client with a key, which were handed on as they came and are not those of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    messages: Option<String>,
    /// True if the input answers an interrupt.
    #[serde(default)]
    answers: bool,
}

/// Input of a run, built again.
#[derive(Debug)]
pub struct Rebuilt {
    pub input: RunInput,
    /// True if the input answers an interrupt.
    pub answers: bool,
}

/// Text that keeps an input. `from_log` is true if the log gives its messages; `answers`, if it answers an interrupt.
pub fn keep(input: &RunInput, call: &AgentCall, from_log: bool, answers: bool) -> String {
    let kept = Kept {
        key: call.key.clone(),
        parent_run_id: input.parent_run_id.clone(),
        tools: input.tools.clone(),
        context: input.context.clone(),
        forwarded_props: input.forwarded_props.clone(),
        resume: input.resume.clone(),
        rest: input.rest.clone(),
        messages: (!from_log).then(|| input.messages.clone()),
        answers,
    };
    // Serializing cannot fail: all parts are texts.
    serde_json::to_string(&kept).unwrap_or_default()
}

/// Builds an input again from the conversation that its run continues and the first events of the run, which it takes in: it is then the
/// conversation as the agent found it, and has nothing that the agent has said. `None` if what was kept, or the
/// evidence, cannot be read.
pub fn rebuilt(
    kept: &str,
    attempt: u64,
    thread: &ThreadId,
    run: &RunId,
    before: &mut Conversation,
    events: &[String],
) -> Option<Rebuilt> {
    let kept: Kept = serde_json::from_str(kept).ok()?;
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let evidence = evidence(events.get(..1)?)?;
    let new: Vec<&RawValue> = json::member(events[0], "input")
        .and_then(|input| json::member(input, "messages"))
        .and_then(|messages| serde_json::from_str(messages).ok())
        .unwrap_or_default();
    let messages = match (&evidence.messages.log, kept.messages) {
        (_, Some(messages)) => messages,
        (Some(source), None) => rebuild(source, &new, before),
        (None, None) => return None,
    };
    let state = match evidence.state {
        StateSource::Thread => String::from_utf8_lossy(&before.state_json()).into_owned(),
        StateSource::Client => json::member(events.get(1)?, "snapshot")?.to_owned(),
    };
    events.get(..evidence.opening_events())?.iter().for_each(|event| before.observe(event.as_bytes()));
    let input = RunInput {
        thread_id: thread.clone(),
        run_id: run.clone(),
        parent_run_id: kept.parent_run_id,
        messages,
        state,
        tools: kept.tools,
        context: kept.context,
        trust: match evidence.trust {
            Believed::Key => Trust::Key,
            Believed::Client => Trust::Client,
        },
        // An earlier release has kept what it handed on.
        forwarded_props: forwarded::of_client(&kept.forwarded_props).0.into_owned(),
        resume: kept.resume,
        rest: kept.rest,
        thread_mark: None,
        call: Some(AgentCall { key: kept.key, attempt }),
        continuation: None,
    };
    Some(Rebuilt { input, answers: kept.answers })
}
