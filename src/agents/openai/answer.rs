//! Answer of an endpoint: the chunks of a completion as AG-UI events.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use serde_json::{Value, json};
use threadline_core::{
    agent::Secret,
    limits::{MAX_OPEN_PARTS, MAX_PRODUCER_SEQ},
};

use super::super::{
    events, http,
    reading::whole,
    source::{AgentFailure, RunInput},
};

/// Fold over the chunks of an answer: takes every chunk in order, and yields the events after each.
pub(super) struct Answer {
    thread: String,
    run: String,
    model: String,
    secrets: Vec<Secret>,
    /// RUN_STARTED, until the first chunk has arrived.
    started: Option<Value>,
    /// Id of the only message in the answer, with its text and its tool calls.
    message: String,
    text_open: bool,
    /// Id of the open span of reasoning.
    reasoning: Option<String>,
    calls: Vec<ToolCall>,
    /// Ids of calls that the thread already has.
    taken: HashSet<String>,
    finish_reason: Option<String>,
    usage: Option<Value>,
    out: VecDeque<Bytes>,
}

struct ToolCall {
    /// Index that identifies the call within the answer, if the endpoint sends one.
    index: Option<u64>,
    endpoint_id: String,
    /// Id of the call in the thread.
    id: String,
}

impl Answer {
    /// Starts an answer. `calls` are the ids of the tool calls in the conversation.
    pub(super) fn new(input: &RunInput, model: &str, calls: Vec<String>, secrets: Vec<Secret>) -> Self {
        Self {
            thread: input.thread_id.as_str().to_owned(),
            run: input.run_id.as_str().to_owned(),
            model: model.to_owned(),
            secrets,
            started: Some(events::run_started(input)),
            message: events::new_id(),
            text_open: false,
            reasoning: None,
            calls: Vec::new(),
            taken: calls.into_iter().collect(),
            finish_reason: None,
            usage: None,
            out: VecDeque::new(),
        }
    }

    pub(super) fn next(&mut self) -> Option<Bytes> {
        self.out.pop_front()
    }

    /// Reads a chunk; true if it was the last one.
    pub(super) fn read(&mut self, chunk: &[u8]) -> Result<bool, AgentFailure> {
        if chunk.trim_ascii() == b"[DONE]" {
            self.start();
            return self.finish();
        }
        let chunk = parsed(chunk, "a chunk")?;
        self.start();
        self.take(&chunk, "delta")
    }

    /// Reads a completion that was not streamed. Always returns true.
    pub(super) fn read_whole(&mut self, completion: &[u8]) -> Result<bool, AgentFailure> {
        let completion = parsed(completion, "the completion")?;
        if error_in(&completion).is_none() && !completion["choices"][0]["message"].is_object() {
            return Err(AgentFailure::InvalidEvent("the response is not a chat completion".to_owned()));
        }
        self.start();
        if self.take(&completion, "message")? { Ok(true) } else { self.finish() }
    }

    /// Reads the member `said` of the choice; true if the chunk is an error, which ends the answer.
    fn take(&mut self, chunk: &Value, said: &str) -> Result<bool, AgentFailure> {
        if let Some(error) = error_in(chunk) {
            self.report(error);
            return Ok(true);
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            // Some endpoints send the usage with every chunk; the last one holds the sums.
            self.usage = Some(token_usage(&self.model, usage));
        }
        // Only one choice was requested. The chunk with the usage has none.
        let choice = &chunk["choices"][0];
        self.delta(&choice[said])?;
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            if reason == "error" {
                self.report(choice);
                return Ok(true);
            }
            self.finish_reason = Some(reason.to_owned());
        }
        Ok(false)
    }

    /// Handles the end of the stream, or its failure. Returns true if the answer is complete.
    pub(super) fn end(&mut self, failure: Option<AgentFailure>) -> Result<bool, AgentFailure> {
        match failure {
            // Only the usage could be missing.
            _ if self.finish_reason.is_some() => self.finish(),
            Some(failure) => Err(failure),
            None => Err(AgentFailure::Incomplete),
        }
    }

    fn start(&mut self) {
        if let Some(started) = self.started.take() {
            self.push(&started);
        }
    }

    fn delta(&mut self, delta: &Value) -> Result<(), AgentFailure> {
        let (thought, text) = content(delta);
        if !thought.is_empty() {
            if self.reasoning.is_none() {
                let id = events::new_id();
                self.push_all(&events::reasoning_start(&id));
                self.reasoning = Some(id);
            }
            let id = self.reasoning.clone().unwrap_or_default();
            self.push(&events::reasoning_content(&id, &thought));
        }
        if !text.is_empty() {
            self.close_reasoning();
            if !self.text_open {
                self.text_open = true;
                self.push(&events::text_start(&self.message));
            }
            self.push(&events::text_content(&self.message, &text));
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.tool_call(call)?;
        }
        Ok(())
    }

    /// Reads one piece of a tool call. Pieces of several calls may alternate, so calls are closed at the end.
    fn tool_call(&mut self, piece: &Value) -> Result<(), AgentFailure> {
        let index = piece["index"].as_u64();
        let endpoint_id = piece["id"].as_str().unwrap_or_default();
        let name = piece["function"]["name"].as_str().unwrap_or_default();
        // Some endpoints send no index, or the same for all calls: then a new id starts a new call, and a piece without
        // id belongs to the last one. Others change the id from piece to piece: a piece without name continues a call.
        let same = |call: &ToolCall| {
            let going_on = endpoint_id.is_empty() || name.is_empty() || call.endpoint_id == endpoint_id;
            going_on && (index.is_none() || call.index == index)
        };
        let id = match self.calls.iter().rfind(|call| same(call)) {
            Some(call) => call.id.clone(),
            None => {
                if name.is_empty() {
                    return Err(AgentFailure::InvalidEvent("a tool call without a name".to_owned()));
                }
                if self.calls.len() == MAX_OPEN_PARTS {
                    return Err(AgentFailure::InvalidEvent(format!("more than {MAX_OPEN_PARTS} tool calls at once")));
                }
                // Some endpoints number their calls from 0 in every answer; an id must be unique in its thread.
                let mut id = endpoint_id.to_owned();
                if id.is_empty() || !self.taken.insert(id.clone()) {
                    id = events::new_id();
                }
                self.close_reasoning();
                // A message that goes on to call tools has said its text, which a recovery then keeps.
                self.close_text(None);
                self.push(&events::tool_start(&id, name, &self.message));
                self.calls.push(ToolCall { index, endpoint_id: endpoint_id.to_owned(), id: id.clone() });
                id
            }
        };
        if let Some(arguments) = piece["function"]["arguments"].as_str().filter(|arguments| !arguments.is_empty()) {
            self.push(&events::tool_args(&id, arguments));
        }
        Ok(())
    }

    /// Ends the run. Always returns true.
    fn finish(&mut self) -> Result<bool, AgentFailure> {
        let cut = self.finish_reason.clone().filter(|reason| reason == "length" || reason == "content_filter");
        self.close(cut.as_deref());
        let usage = self.usage.take();
        if cut.is_some() && !self.calls.is_empty() {
            // A frontend must not act on incomplete arguments.
            let mut event = events::run_error("agent-cut-off", "the model's answer was cut off inside a tool call");
            if let Some(usage) = usage {
                event["usage"] = json!([usage]);
            }
            self.push(&event);
            return Ok(true);
        }
        let mut outcome = json!({ "type": "success" });
        if !self.calls.is_empty() {
            outcome["pendingToolCallIds"] = self.calls.iter().map(|call| call.id.as_str()).collect();
        }
        let mut event = events::run_finished(&self.thread, &self.run, outcome, usage);
        if let Some(reason) = cut {
            event["metadata"] = json!({ "finishReason": reason });
        }
        self.push(&event);
        Ok(true)
    }

    /// Ends the run with an error that the endpoint reported. Users receive its code; its message goes to the log.
    fn report(&mut self, error: &Value) {
        let details = http::redact(error.to_string().as_bytes(), &self.secrets);
        tracing::warn!(error = %details.chars().take(2_048).collect::<String>(), "a model's endpoint reported an error");
        let is_code = |code: &&str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            (1..=64).contains(&code.len()) && code.bytes().all(plain)
        };
        let code = [&error["code"], &error["type"]].into_iter().find_map(|code| code.as_str().filter(is_code));
        let code = code.map(|code| format!(": {code}")).unwrap_or_default();
        self.close(None);
        self.push(&events::run_error("agent-model-error", &format!("the model's endpoint reported an error{code}")));
    }

    /// Closes all open parts of the answer.
    fn close(&mut self, cut: Option<&str>) {
        self.close_reasoning();
        self.close_text(cut);
        let ends: Vec<_> = self.calls.iter().map(|call| events::tool_end(&call.id)).collect();
        self.push_all(&ends);
    }

    fn close_text(&mut self, cut: Option<&str>) {
        if std::mem::take(&mut self.text_open) {
            let mut event = events::text_end(&self.message);
            if let Some(reason) = cut {
                event["metadata"] = json!({ "finishReason": reason });
            }
            self.push(&event);
        }
    }

    fn close_reasoning(&mut self) {
        if let Some(id) = self.reasoning.take() {
            self.push_all(&events::reasoning_end(&id));
        }
    }

    fn push(&mut self, event: &Value) {
        self.out.push_back(events::to_bytes(event));
    }

    fn push_all(&mut self, events: &[Value]) {
        events.iter().for_each(|event| self.push(event));
    }
}

/// Parses a chunk, or a completion, as an object.
fn parsed(json: &[u8], what: &str) -> Result<Value, AgentFailure> {
    let invalid = |flaw: &str| AgentFailure::InvalidEvent(format!("{what} is {flaw}"));
    let text = std::str::from_utf8(json).map_err(|_| invalid("not valid UTF-8"))?;
    let value: Value = serde_json::from_str(&whole(text)).map_err(|_| invalid("not valid JSON"))?;
    if value.is_object() { Ok(value) } else { Err(invalid("no JSON object")) }
}

fn error_in(chunk: &Value) -> Option<&Value> {
    let error = chunk.get("error").filter(|error| !error.is_null());
    error.or_else(|| (chunk["object"] == "error").then_some(chunk))
}

/// Reasoning and text in a delta, or in a complete message.
fn content(delta: &Value) -> (String, String) {
    let text = |name: &str| delta[name].as_str().filter(|text| !text.is_empty());
    // Extensions of DeepSeek, vLLM and OpenRouter; OpenAI's API does not have them.
    let mut thought = text("reasoning_content").or(text("reasoning")).unwrap_or_default().to_owned();
    let mut said = text("content").or(text("refusal")).unwrap_or_default().to_owned();
    // Reasoning models of Mistral send a list of parts.
    for part in delta["content"].as_array().into_iter().flatten() {
        said.push_str(part["text"].as_str().unwrap_or_default());
        for part in part["thinking"].as_array().into_iter().flatten() {
            thought.push_str(part["text"].as_str().unwrap_or_default());
        }
    }
    (thought, said)
}

/// AG-UI's TokenUsage, with the model named as requested, since some endpoints answer with an internal path.
fn token_usage(model: &str, usage: &Value) -> Value {
    let count = |value: &Value| value.as_u64().filter(|count| *count <= MAX_PRODUCER_SEQ);
    let (input, mut output) = (count(&usage["prompt_tokens"]), count(&usage["completion_tokens"]));
    let reasoning = count(&usage["completion_tokens_details"]["reasoning_tokens"]);
    if let (Some(input), Some(said), Some(thought)) = (input, output, reasoning) {
        // Some endpoints count reasoning in addition to the output; in AG-UI it is a part of the output.
        if thought > said || usage["total_tokens"].as_u64().is_some_and(|total| total == input + said + thought) {
            output = Some(said + thought);
        }
    }
    let mut all = json!({ "model": model });
    for (name, value) in [
        ("inputTokens", input),
        ("outputTokens", output),
        ("totalTokens", input.zip(output).map(|(input, output)| input + output)),
        ("reasoningTokens", reasoning),
        ("cachedInputTokens", count(&usage["prompt_tokens_details"]["cached_tokens"])),
    ] {
        if let Some(value) = value {
            all[name] = value.into();
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_tokens_count_as_output() {
        let usage = |output: u64, reasoning: u64, total: u64| {
            let details = json!({ "reasoning_tokens": reasoning });
            let usage = json!({ "prompt_tokens": 10, "completion_tokens": output, "total_tokens": total,
                "completion_tokens_details": details });
            let usage = token_usage("m", &usage);
            (usage["outputTokens"].as_u64(), usage["totalTokens"].as_u64())
        };
        assert_eq!(usage(9, 5, 19), (Some(9), Some(19)));
        assert_eq!(usage(9, 5, 24), (Some(14), Some(24)));
        assert_eq!(usage(4, 5, 0), (Some(9), Some(19)));
        let odd = json!({ "prompt_tokens": -1, "completion_tokens": 1.5, "total_tokens": u64::MAX });
        assert_eq!(token_usage("m", &odd), json!({ "model": "m" }));
    }
}
