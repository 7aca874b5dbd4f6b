//! Merges a client's input with the thread into the input of the agent.
//!
//! A client may send the complete conversation, as AG-UI clients do, or only new messages. If it sends the first
//! message of the thread, or one by an agent, it has the history, and the agent receives the client's messages
//! unchanged. Otherwise the history precedes them; a message that the thread already has, perhaps from a failed run,
//! keeps its place in the history. In both cases only new messages are stored, in the run's RUN_STARTED.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
};

use serde_json::{Value, value::RawValue};
use threadline_core::{NewEvents, RunId, ThreadId, event::BatchBuilder, json, projection::conversation::Conversation};

use super::{
    AgentError, ClientInput,
    interrupts::Answered,
    source::{RunInput, Trust},
};

/// Validated input of a client.
#[derive(Debug)]
pub(super) struct Prepared {
    client: ClientInput,
    trust: Trust,
    /// Ids and texts of the messages; an id was generated for messages without one.
    messages: Vec<(String, String)>,
    /// True if the client sent the history, and not only new messages.
    knows_history: bool,
    /// True if the client's state is used.
    brings_state: bool,
    /// Interrupts that the client answers.
    pub(super) answered: Answered,
    /// Client-chosen ids of messages that the thread does not have.
    news: HashSet<String>,
    /// Generated ids, of messages that the client sent without one.
    nameless: HashSet<String>,
    /// First events of the run: RUN_STARTED, and the state if the client has changed it.
    pub(super) first: NewEvents,
}

/// Checks the input against the conversation so far.
pub(super) fn prepare(
    thread: &ThreadId,
    run: &RunId,
    client: ClientInput,
    trust: Trust,
    conversation: &Conversation,
) -> Result<Prepared, AgentError> {
    let invalid = |what: String| AgentError::InvalidInput(what);
    for (name, list) in [("tools", &client.tools), ("context", &client.context), ("resume", &client.resume)] {
        if list.as_ref().is_some_and(|list| !list.get().starts_with('[')) {
            return Err(invalid(format!("{name} is not an array")));
        }
    }
    let answered = Answered::read(client.resume.as_ref().map(|resume| resume.get()))?;
    let mut messages = Vec::with_capacity(client.messages.len());
    let (mut fresh, mut known, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
    let (mut news, mut nameless) = (HashSet::new(), HashSet::new());
    for (index, message) in client.messages.iter().enumerate() {
        let text = message.get();
        if !text.starts_with('{') {
            return Err(invalid(format!("message {index} is not an object")));
        }
        check(text).map_err(|wrong| invalid(format!("message {index} {wrong}")))?;
        let (id, text) = match json::member(text, "id") {
            None => {
                let (id, text) = with_new_id(text);
                nameless.insert(id.clone());
                (id, text)
            }
            Some(_) => match json::string_member(text, "id").filter(|id| !id.is_empty()) {
                Some(id) => {
                    if !conversation.contains(&id) {
                        news.insert(id.clone());
                    }
                    (id, text.to_owned())
                }
                None => return Err(invalid(format!("the id of message {index} is not a string"))),
            },
        };
        if !seen.insert(id.clone()) {
            return Err(invalid(format!("message {index} has the id of an earlier message")));
        }
        if conversation.contains(&id) {
            known.insert(id.clone());
        } else {
            fresh.push(text.clone());
        }
        messages.push((id, text));
    }
    let knows_history = !known.is_empty() && {
        // Some clients send instructions with every request, which do not show that they have the history.
        let is_said = |role: &str| !matches!(role, "activity" | "system" | "developer");
        let mut before = conversation.messages().filter(|message| is_said(message.role())).enumerate();
        before.any(|(at, message)| (at == 0 || message.role() == "assistant") && known.contains(message.id()))
    };
    let state = client.state.as_ref().map(|state| state.get()).filter(|state| !is_empty(state));
    let brings_state = state.is_some();
    let changed = state.filter(|state| !same(state.as_bytes(), &conversation.state_json()));
    let first = first_events(thread, run, &client, &fresh, changed)?;
    Ok(Prepared { client, trust, messages, knows_history, brings_state, answered, news, nameless, first })
}

impl Prepared {
    /// True if an existing run may have been started with this input, judged by the run's first event: then both are
    /// the same run. Otherwise the run would ignore messages or answers of this input.
    pub(super) fn is_heard_by(&self, first: Option<&str>) -> bool {
        let input = first.and_then(|event| json::member(event, "input")).unwrap_or("null");
        let stored: Vec<Value> = json::member(input, "messages").and_then(read).unwrap_or_default();
        let resume = self.client.resume.as_ref().map_or("[]", |resume| resume.get());
        let answered = json::member(input, "resume").unwrap_or("[]");
        self.messages.iter().all(|(id, text)| self.is_stored(id, text, &stored))
            && (self.answered.is_empty() || same(resume.as_bytes(), answered.as_bytes()))
    }

    /// True if this message is among those that the run was started with, or part of the history before them. A message
    /// without an id is recognized by all else that it says.
    fn is_stored(&self, id: &str, text: &str, stored: &[Value]) -> bool {
        let Some(mut message) = read::<Value>(text) else { return false };
        if self.nameless.contains(id) {
            message["id"].take();
            return stored.iter().cloned().any(|mut other| {
                other["id"].take();
                other == message
            });
        }
        match stored.iter().find(|other| other["id"] == *id) {
            Some(other) => *other == message,
            None => !self.news.contains(id),
        }
    }

    /// Builds the agent's input from the conversation before the run.
    pub(super) fn complete(self, thread: &ThreadId, run: &RunId, conversation: &Conversation) -> RunInput {
        let Self { client, trust, messages, knows_history, brings_state, .. } = self;
        let mut all = String::from("[");
        let mut add = |text: &str| {
            if all.len() > 1 {
                all.push(',');
            }
            all.push_str(text);
        };
        if !knows_history {
            let sent: HashMap<&str, &str> = messages.iter().map(|(id, text)| (id.as_str(), text.as_str())).collect();
            let mut text = Vec::new();
            // As in AG-UI clients, activities are shown to users and not sent to agents.
            for message in conversation.messages().filter(|message| message.role() != "activity") {
                text.clear();
                message.write_json(&mut text);
                // The client may have edited the message that it sends again.
                add(sent.get(message.id()).copied().unwrap_or(&String::from_utf8_lossy(&text)));
            }
        }
        messages.iter().filter(|(id, _)| knows_history || !conversation.contains(id)).for_each(|(_, text)| add(text));
        all.push(']');
        let or = |value: Option<Box<RawValue>>, default: &str| {
            value.map_or_else(|| default.to_owned(), |value| String::from(Box::<str>::from(value)))
        };
        let state = match client.state.filter(|_| brings_state) {
            Some(state) => state.get().to_owned(),
            None => String::from_utf8_lossy(&conversation.state_json()).into_owned(),
        };
        RunInput {
            thread_id: thread.clone(),
            run_id: run.clone(),
            parent_run_id: client.parent_run_id,
            messages: all,
            state,
            tools: or(client.tools, "[]"),
            context: or(client.context, "[]"),
            trust,
            forwarded_props: or(client.forwarded_props, "{}"),
            resume: client.resume.map(|resume| resume.get().to_owned()),
            rest: client.rest,
        }
    }
}

/// Checks that AG-UI clients accept a message: one message that they refuse makes them refuse the complete
/// conversation. Other members are not checked.
fn check(message: &str) -> Result<(), String> {
    let member = |name| json::member(message, name).unwrap_or("null");
    let role = json::string_member(message, "role").unwrap_or_default();
    let begins = |name, with: &[char]| member(name).starts_with(with);
    let wants = |name: &str, what: &str| Err(format!("has role {role:?} and must have a member {name}: {what}"));
    match role.as_str() {
        "user" if !begins("content", &['"', '[']) => wants("content", "a string or an array of parts"),
        "system" | "developer" | "reasoning" if !begins("content", &['"']) => wants("content", "a string"),
        "assistant" if !begins("content", &['"', 'n']) => wants("content", "a string or null"),
        "assistant" if !begins("toolCalls", &['[', 'n']) => wants("toolCalls", "an array or null"),
        "tool" if !begins("content", &['"', '[']) => wants("content", "a string or an array of parts"),
        "tool" if !begins("toolCallId", &['"']) => wants("toolCallId", "a string"),
        "activity" if !begins("content", &['{']) => wants("content", "an object"),
        "activity" if !begins("activityType", &['"']) => wants("activityType", "a string"),
        "user" | "system" | "developer" | "reasoning" | "assistant" | "tool" | "activity" => Ok(()),
        "" => Err("has no role".into()),
        _ => Err("has a role that AG-UI does not define".into()),
    }
}

/// Inserts a new id: `{…}` becomes `{"id":"…",…}`.
fn with_new_id(message: &str) -> (String, String) {
    let id = uuid::Uuid::now_v7().to_string();
    let rest = &message[1..];
    let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
    let text = format!("{{\"id\":\"{id}\"{comma}{rest}");
    (id, text)
}

/// True for null and an empty object, which a new client sends as its state.
fn is_empty(state: &str) -> bool {
    state == "null"
        || state.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(|s| s.trim().is_empty())
}

fn same(one: &[u8], other: &[u8]) -> bool {
    let value = |text| serde_json::from_slice::<Value>(text).ok();
    one == other || value(one).is_some_and(|one| Some(one) == value(other))
}

fn read<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// Builds RUN_STARTED with the new messages, and a STATE_SNAPSHOT if the client's state differs from the thread's.
/// Forwarded properties may be secret and tools belong to the client: neither is stored.
fn first_events(
    thread: &ThreadId,
    run: &RunId,
    client: &ClientInput,
    fresh: &[String],
    state: Option<&str>,
) -> Result<NewEvents, AgentError> {
    let ids = format!("\"threadId\":{},\"runId\":{}", json::quoted(thread.as_str()), json::quoted(run.as_str()));
    let mut started = format!("{{\"type\":\"RUN_STARTED\",{ids}");
    if let Some(parent) = &client.parent_run_id {
        let _ = write!(started, ",\"parentRunId\":{}", json::quoted(parent));
    }
    let _ = write!(
        started,
        ",\"input\":{{{ids},\"messages\":[{}],\"tools\":[],\"context\":[],\"forwardedProps\":{{}}",
        fresh.join(",")
    );
    if let Some(resume) = &client.resume {
        let _ = write!(started, ",\"resume\":{}", resume.get());
    }
    started.push_str("}}");
    let mut batch = BatchBuilder::default();
    batch.push_line(started.as_bytes())?;
    if let Some(state) = state {
        batch.push_line(format!("{{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{state}}}").as_bytes())?;
    }
    Ok(batch.finish()?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn prepared(input: Value, conversation: &Conversation) -> Result<Prepared, AgentError> {
        let client = serde_json::from_value(input).expect("an input");
        prepare(&ThreadId::new("t").expect("id"), &RunId::new("r").expect("id"), client, Trust::Client, conversation)
    }

    fn given(prepared: Prepared, conversation: &Conversation) -> Value {
        let input = prepared.complete(&ThreadId::new("t").expect("id"), &RunId::new("r").expect("id"), conversation);
        serde_json::from_str(&input.to_json()).expect("JSON")
    }

    fn events(prepared: &Prepared) -> Vec<Value> {
        let lines = prepared.first.body().split(|byte| *byte == b'\n');
        lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
    }

    fn history() -> Conversation {
        let mut conversation = Conversation::default();
        for event in [
            json!({"type":"RUN_STARTED","threadId":"t","runId":"r0","input":{"messages":[{"id":"u1","role":"user","content":"hi"}]}}),
            json!({"type":"TEXT_MESSAGE_START","messageId":"a1","role":"assistant"}),
            json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"hello"}),
            json!({"type":"TEXT_MESSAGE_END","messageId":"a1"}),
            json!({"type":"ACTIVITY_SNAPSHOT","messageId":"x1","activityType":"PLAN","content":{}}),
            json!({"type":"STATE_SNAPSHOT","snapshot":{"a":1}}),
            json!({"type":"RUN_FINISHED","threadId":"t","runId":"r0"}),
        ] {
            conversation.observe(event.to_string().as_bytes());
        }
        conversation
    }

    #[test]
    fn new_messages_get_the_history_and_the_state() {
        let history = history();
        let input = json!({"messages":[{"role":"user","content":"more"}],"forwardedProps":{"token":"x"},"future":[1]});
        let prepared = prepared(input, &history).expect("fine");
        let started = &events(&prepared)[0];
        assert_eq!(started["input"]["messages"][0]["content"], "more");
        assert_eq!(started["input"]["forwardedProps"], json!({}), "not stored");
        let id = started["input"]["messages"][0]["id"].clone();
        assert_eq!(events(&prepared).len(), 1);
        let given = given(prepared, &history);
        let messages: Vec<_> = given["messages"].as_array().expect("a list").iter().map(|m| m["id"].clone()).collect();
        assert_eq!(messages, [json!("u1"), json!("a1"), id]);
        assert_eq!((&given["state"], &given["future"]), (&json!({"a":1}), &json!([1])));
        assert_eq!(given["forwardedProps"], json!({"token":"x"}));
    }

    #[test]
    fn a_client_with_the_history_is_believed_and_only_its_news_stored() {
        let history = history();
        let input = json!({"state":{"a":2},"messages":[
            {"id":"u1","role":"user","content":"hi"},{"id":"u2","role":"user","content":"again"}]});
        let prepared = prepared(input, &history).expect("fine");
        let events = events(&prepared);
        assert_eq!(events[0]["input"]["messages"], json!([{"id":"u2","role":"user","content":"again"}]));
        assert_eq!(events[1], json!({"type":"STATE_SNAPSHOT","snapshot":{"a":2}}));
        let given = given(prepared, &history);
        assert_eq!(given["messages"].as_array().map(Vec::len), Some(2));
        assert_eq!(given["state"], json!({"a":2}));
    }

    #[test]
    fn a_client_that_says_nothing_of_the_state_changes_none() {
        for state in [json!(null), json!({}), json!({"a":1})] {
            let prepared = prepared(json!({"state":state,"messages":[]}), &history()).expect("fine");
            assert_eq!(events(&prepared).len(), 1);
            assert_eq!(given(prepared, &history())["state"], json!({"a":1}));
        }
    }

    #[test]
    fn an_invalid_input_is_refused() {
        for bad in [
            json!({"messages":[1]}),
            json!({"messages":[{"id":"a"}]}),
            json!({"messages":[{"id":7,"role":"user","content":"x"}]}),
            json!({"messages":[{"id":"","role":"user","content":"x"}]}),
            json!({"messages":[{"id":"a","role":"user","content":"x"},{"id":"a","role":"user","content":"x"}]}),
            json!({"messages":[{"id":"a","role":"user"}]}),
            json!({"messages":[{"id":"a","role":"user","content":{"x":1}}]}),
            json!({"messages":[{"id":"a","role":"banana","content":"x"}]}),
            json!({"messages":[{"id":"a","role":"tool","content":"x"}]}),
            json!({"messages":[{"id":"a","role":"assistant","toolCalls":{}}]}),
            json!({"messages":[{"id":"a","role":"activity","activityType":"P","content":"x"}]}),
            json!({"tools":{}}),
            json!({"resume":"yes"}),
        ] {
            assert!(matches!(prepared(bad.clone(), &history()), Err(AgentError::InvalidInput(_))), "{bad}");
        }
    }
}
