//! Merges a client's input with the thread into the input of the agent.
//!
//! A client may send the complete conversation, as AG-UI clients do, or only new messages. If it sends the first
//! message of the thread, or one by an agent, it has the history. Otherwise the history precedes its messages.
//!
//! A client with a key is trusted: with the history, the agent receives its messages unchanged. What an untrusted
//! client sends again refers to the log, and what it may not say is ignored, see `rules`. In both cases only new messages
//! are stored, in the run's RUN_STARTED.

mod back;
mod continued;
mod given;
mod kept;
mod message;
mod messages;
mod rules;
mod tools;
mod transcript;
mod verify;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt::Write,
};

use serde_json::value::RawValue;
use threadline_core::{
    NewEvents, RunId, ThreadId, Timestamp,
    event::{BatchBuilder, SERVER_MEMBER},
    json::{self, plain},
    projection::conversation::{Conversation, GIVEN, is_same_value},
};

pub use self::{
    back::{MAX_OPENING_EVENTS, base_of},
    continued::{AttemptVerdicts, Attempts},
    rules::{Ignored, Rules},
    verify::{Verdict, Verdicts, evidence, verify},
};
use self::{
    back::{has_more_instructions, snapshots, state_snapshot},
    given::MessageSource,
    message::{Sent, canonical},
    messages::{believed, joined, new_to},
    rules::{Sorted, Window, has_history, sort, with_moved},
    tools::keep_tools,
};
pub(super) use self::{
    continued::{continue_with, evidence_of},
    given::{Base, Given},
    kept::{Rebuilt, keep, rebuilt},
    transcript::fold_into_one,
};
use super::{
    AgentError, ClientInput, forwarded,
    interrupts::{self, Answered},
    reading::without_line_ends,
    source::{RunInput, Trust},
};

/// Members of AG-UI's RunAgentInput.
const MEMBERS: [&str; 9] =
    ["threadId", "runId", "parentRunId", "messages", "state", "tools", "context", "forwardedProps", "resume"];

/// Validated input of a client.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    client: &'a ClientInput,
    trust: Trust,
    history: History,
    /// Client-chosen ids of messages that the thread does not have.
    news: HashSet<String>,
    /// State that replaces the thread's.
    state: Option<Cow<'a, str>>,
    tools: Cow<'a, str>,
    context: Cow<'a, str>,
    forwarded_props: Cow<'a, str>,
    /// Interrupts that the run answers.
    pub(super) answered: Answered,
    /// Parts of the input that were ignored.
    pub(super) ignored: Ignored,
}

/// Origin of the messages that the agent is given.
#[derive(Debug)]
enum History {
    /// The client. `whole` is true if it sent the history, and not only new messages.
    Client { sent: Vec<Sent>, whole: bool },
    /// The log, with the client's new messages after it.
    Log(Sorted),
}

/// Checks the input against the conversation so far.
pub(super) fn prepare<'a>(
    client: &'a ClientInput,
    rules: Rules<'_>,
    conversation: &Conversation,
) -> Result<Prepared<'a>, AgentError> {
    let invalid = AgentError::InvalidInput;
    for (name, list) in [("tools", &client.tools), ("context", &client.context), ("resume", &client.resume)] {
        if list.as_ref().is_some_and(|list| !list.get().starts_with('[')) {
            return Err(invalid(format!("{name} is not an array")));
        }
    }
    let answered = Answered::read(client.resume.as_ref().map(|resume| resume.get()))?;
    let sent = read_messages(&client.messages, conversation).map_err(invalid)?;
    let mut context = Cow::Borrowed(text_or(&client.context, "[]"));
    let mut tools = Cow::Borrowed(text_or(&client.tools, "[]"));
    let mut ignored = Ignored::default();
    let history = match rules.referring() {
        Some(may) => {
            let mut sorted = sort(sent, may, conversation).map_err(invalid)?;
            ignored = std::mem::take(&mut sorted.ignored);
            if let Some(more) = with_moved(&context, &sorted.moved) {
                context = Cow::Owned(more);
            }
            History::Log(sorted)
        }
        None => {
            let ids: HashSet<&str> = sent.iter().map(|sent| &*sent.id).collect();
            History::Client { whole: has_history(conversation, |id| ids.contains(id)), sent }
        }
    };
    if let Some(may) = rules.may {
        if let Some((name, _)) =
            client.rest.iter().find(|(name, _)| MEMBERS.iter().any(|known| plain(known) == plain(name)))
        {
            return Err(invalid(format!("the input has a member {name:?}, which is not written as AG-UI defines it")));
        }
        let (kept, dropped) = keep_tools(tools, may, rules.reserved).map_err(invalid)?;
        tools = kept;
        ignored.count("tools", dropped);
    }
    let (forwarded_props, dropped) = forwarded::of_client(text_or(&client.forwarded_props, "{}"));
    ignored.count("forwardedProps", dropped);
    let state = client.state.as_ref().map(|state| state.get()).filter(|state| !is_empty(state));
    if state.is_some_and(json::is_too_dense) {
        return Err(AgentError::TooLarge);
    }
    let mut state = state.filter(|state| !is_same_value(state, &String::from_utf8_lossy(&conversation.state_json())));
    if rules.may.is_some_and(|may| !may.state) {
        ignored.count("state", usize::from(state.take().is_some()));
    }
    let fresh = match &history {
        History::Client { sent, .. } => new_to(conversation, sent),
        History::Log(sorted) => new_to(conversation, &sorted.taken),
    };
    let news = fresh.filter(|sent| !sent.nameless).map(|sent| sent.id.clone()).collect();
    let trust = rules.trust;
    let state = state.map(Cow::Borrowed);
    Ok(Prepared { client, trust, history, news, state, tools, context, forwarded_props, answered, ignored })
}

fn text_or<'a>(value: &'a Option<Box<RawValue>>, default: &'a str) -> &'a str {
    value.as_ref().map_or(default, |value| value.get())
}

/// Messages with an id each: those without one get one.
pub(super) fn with_ids(messages: &[Box<RawValue>]) -> Result<Vec<String>, String> {
    messages.iter().enumerate().map(|(index, message)| Sent::read(index, message).map(|sent| sent.text)).collect()
}

/// Ids of the messages of an input that the thread would store, and of those of the user and of tools at its end: new messages,
/// and the client's last ones, which a repeated request sends again.
pub(super) fn said_since(
    client: &ClientInput,
    rules: Rules<'_>,
    conversation: &Conversation,
) -> Result<(Vec<String>, Vec<String>), AgentError> {
    let sent = read_messages(&client.messages, conversation).map_err(AgentError::InvalidInput)?;
    let heard = match rules.referring() {
        Some(may) => sort(sent, may, conversation).map_err(AgentError::InvalidInput)?.heard,
        None => sent,
    };
    let ids =
        |messages: Vec<&Sent>| messages.iter().filter(|sent| !sent.nameless).map(|sent| sent.id.clone()).collect();
    let last = heard.iter().rposition(|sent| !matches!(&*sent.role, "user" | "tool")).map_or(0, |at| at + 1);
    Ok((ids(new_to(conversation, &heard).collect()), ids(heard[last..].iter().collect())))
}

/// Reads the messages. A thread may have several messages of one id, and gives them all to its clients: the first counts.
fn read_messages(messages: &[Box<RawValue>], conversation: &Conversation) -> Result<Vec<Sent>, String> {
    let mut seen = HashSet::new();
    let mut all = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let message = Sent::read(index, message)?;
        if !seen.insert(message.id.clone()) {
            if conversation.contains(&message.id) {
                continue;
            }
            return Err(format!("message {index} has the id of an earlier message"));
        }
        all.push(message);
    }
    Ok(all)
}

impl Prepared<'_> {
    /// Has the run cancel the open interrupts that have expired and that the client does not answer.
    pub(super) fn expire(&mut self, conversation: &Conversation, now: Timestamp) {
        self.answered.expire(conversation, now);
    }

    /// Answers of the run to interrupts, a JSON array.
    fn resume(&self) -> Option<Cow<'_, str>> {
        self.answered.resume(self.client.resume.as_ref().map(|resume| resume.get()))
    }

    /// True if an existing run may have been started with this input, judged by the run's first event: then both are
    /// the same run. Otherwise the run would ignore messages or answers of this input.
    pub(super) fn is_heard_by(&self, first: Option<&str>) -> bool {
        let input = first.and_then(|event| json::member(event, "input")).unwrap_or("null");
        let stored: Vec<&RawValue> = json::member(input, "messages").and_then(read).unwrap_or_default();
        let resume = self.client.resume.as_ref().map_or("[]", |resume| resume.get());
        let answered = interrupts::of_client(json::member(input, "resume").unwrap_or("[]"));
        let named =
            stored.iter().filter_map(|message| Some((json::string_member(message.get(), "id")?, message.get())));
        let named: HashMap<String, &str> = named.collect();
        // A message without an id is recognized by all else that it says.
        let nameless = self.heard().iter().any(|message| message.nameless);
        let texts = stored.iter().filter(|_| nameless).map(|message| canonical(message.get()));
        let texts: HashSet<String> = texts.collect();
        let is_stored = |message: &Sent| match (named.get(&message.id), &self.history) {
            _ if message.nameless => texts.contains(&canonical(&message.text)),
            (Some(other), History::Client { .. }) => canonical(other) == canonical(&message.text),
            (Some(other), History::Log(_)) => message.says(other),
            (None, _) => !self.news.contains(&message.id),
        };
        self.heard().iter().all(is_stored) && (self.answered.is_empty() || is_same_value(resume, &answered))
    }

    /// True if the client sent a result of this tool call that counts.
    pub(super) fn has_result_of(&self, call: &str) -> bool {
        let mut results = self.heard().iter().filter(|sent| sent.role == "tool");
        results.any(|sent| sent.tool_call().as_deref() == Some(call))
    }

    /// Messages that count, of those that the client sent.
    fn heard(&self) -> &[Sent] {
        match &self.history {
            History::Client { sent, .. } => sent,
            History::Log(sorted) => &sorted.heard,
        }
    }

    /// Ids of the messages that the client sent as the user, or as the result of a tool.
    pub(super) fn own_messages(&self) -> impl Iterator<Item = &str> {
        self.heard().iter().filter(|sent| matches!(&*sent.role, "user" | "tool")).map(|sent| &*sent.id)
    }

    /// Builds the agent's input from the conversation before the run, and the facts of its evidence.
    pub(super) fn complete(&self, thread: &ThreadId, run: &RunId, conversation: &Conversation) -> (RunInput, Given) {
        let (messages, source, moved) = match &self.history {
            History::Client { sent, whole } => {
                let messages = believed(sent, *whole, conversation);
                // Clients with the history mostly send what the log gave them.
                let same = joined(&Window::ALL, new_to(conversation, sent), conversation) == messages;
                (messages, same.then(|| MessageSource::of(&Window::ALL, conversation)), 0)
            }
            History::Log(sorted) => {
                let window = sorted.window(conversation);
                let messages = joined(&window, new_to(conversation, &sorted.taken), conversation);
                (messages, Some(MessageSource::of(&window, conversation)), sorted.moved.len())
            }
        };
        let state = match &self.state {
            Some(state) => without_line_ends(state),
            None => String::from_utf8_lossy(&conversation.state_json()).into_owned(),
        };
        let client = self.client;
        let input = RunInput {
            thread_id: thread.clone(),
            run_id: run.clone(),
            parent_run_id: client.parent_run_id.clone(),
            messages,
            state,
            tools: self.tools.clone().into_owned(),
            context: self.context.clone().into_owned(),
            trust: self.trust,
            forwarded_props: self.forwarded_props.clone().into_owned(),
            resume: self.resume().map(Cow::into_owned),
            rest: client.rest.clone(),
            thread_mark: None,
            call: None,
            continuation: None,
        };
        let state_from_client = self.state.is_some();
        (input, Given { source, base: None, state_from_client, moved, ignored: self.ignored.clone() })
    }

    /// Has a run that goes back keep what its client may not change: instructions, and a state that the client must not set.
    pub(super) fn go_back(
        &mut self,
        rules: Rules<'_>,
        earlier: &Conversation,
        newest: &Conversation,
    ) -> Result<(), AgentError> {
        let Some(may) = rules.may else { return Ok(()) };
        if has_more_instructions(earlier, newest) {
            let why = "the thread got instructions after the checkpoint: only an API key may begin a run before them";
            return Err(AgentError::InvalidInput(why.to_owned()));
        }
        let state = newest.state_json();
        if !may.state && state != earlier.state_json() {
            self.state = Some(Cow::Owned(String::from_utf8_lossy(&state).into_owned()));
        }
        Ok(())
    }

    /// Snapshots that bring the newest conversation back to an earlier one, with what the client says there.
    pub(super) fn back(
        &self,
        thread: &ThreadId,
        run: &RunId,
        earlier: &Conversation,
        newest: &Conversation,
    ) -> Vec<String> {
        let started = format!("{}}}", self.started(thread, run, earlier));
        let state = self.state.as_ref().map_or_else(|| earlier.state_json(), |state| state.as_bytes().to_vec());
        snapshots(&started, &String::from_utf8_lossy(&state), earlier, newest)
    }

    /// First events of the run: RUN_STARTED with the new messages and the evidence of the input, and a STATE_SNAPSHOT if
    /// the client's state differs from the thread's. A run that goes back to an earlier conversation has the snapshots that bring it
    /// back instead. Forwarded properties may be secret and tools belong to the client: neither is stored.
    pub(super) fn first_events(
        &self,
        thread: &ThreadId,
        run: &RunId,
        conversation: &Conversation,
        evidence: &str,
        back: &[String],
    ) -> Result<NewEvents, AgentError> {
        let mut started = self.started(thread, run, conversation);
        let _ = write!(started, ",\"metadata\":{{\"{SERVER_MEMBER}\":{{\"{GIVEN}\":{evidence}}}}}}}");
        let mut batch = BatchBuilder::default();
        batch.push_server_line(started.as_bytes())?;
        for snapshot in back {
            batch.push_line(snapshot.as_bytes())?;
        }
        if let Some(state) = self.state.as_ref().filter(|_| back.is_empty()) {
            batch.push_line(state_snapshot(state).as_bytes())?;
        }
        Ok(batch.finish()?)
    }

    /// RUN_STARTED with the new messages, up to its last member.
    fn started(&self, thread: &ThreadId, run: &RunId, conversation: &Conversation) -> String {
        let ids = format!("\"threadId\":{},\"runId\":{}", json::quoted(thread.as_str()), json::quoted(run.as_str()));
        let mut started = format!("{{\"type\":\"RUN_STARTED\",{ids}");
        if let Some(parent) = &self.client.parent_run_id {
            let _ = write!(started, ",\"parentRunId\":{}", json::quoted(parent));
        }
        let sent = match &self.history {
            History::Client { sent, .. } => sent,
            History::Log(sorted) => &sorted.taken,
        };
        let fresh: Vec<_> = new_to(conversation, sent).map(|sent| &*sent.text).collect();
        let _ = write!(
            started,
            ",\"input\":{{{ids},\"messages\":[{}],\"tools\":[],\"context\":[],\"forwardedProps\":{{}}",
            fresh.join(",")
        );
        if let Some(resume) = self.resume() {
            let _ = write!(started, ",\"resume\":{resume}");
        }
        started.push('}');
        started
    }
}

/// True for null and an empty object, which a new client sends as its state.
fn is_empty(state: &str) -> bool {
    state == "null"
        || state.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(|s| s.trim().is_empty())
}

fn read<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ids() -> (ThreadId, RunId) {
        (ThreadId::new("t").expect("id"), RunId::new("r").expect("id"))
    }

    /// Input of the agent, and the first events of the run.
    fn merged(input: Value, conversation: &Conversation) -> Result<(Value, Vec<Value>), AgentError> {
        let client = serde_json::from_value(input).expect("an input");
        let prepared = prepare(&client, Rules::believed(), conversation)?;
        let (thread, run) = ids();
        let (input, _) = prepared.complete(&thread, &run, conversation);
        let first = prepared.first_events(&thread, &run, conversation, "{}", &[])?;
        let events = first.body().split(|byte| *byte == b'\n');
        let events = events.map(|line| serde_json::from_slice(line).expect("JSON")).collect();
        Ok((serde_json::from_str(&input.to_json()).expect("JSON"), events))
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
        let (given, events) = merged(input, &history).expect("fine");
        let started = &events[0];
        assert_eq!(started["input"]["messages"][0]["content"], "more");
        assert_eq!(started["input"]["forwardedProps"], json!({}), "not stored");
        let id = started["input"]["messages"][0]["id"].clone();
        assert_eq!(events.len(), 1);
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
        let (given, events) = merged(input, &history).expect("fine");
        assert_eq!(events[0]["input"]["messages"], json!([{"id":"u2","role":"user","content":"again"}]));
        assert_eq!(events[1], json!({"type":"STATE_SNAPSHOT","snapshot":{"a":2}}));
        assert_eq!(given["messages"].as_array().map(Vec::len), Some(2));
        assert_eq!(given["state"], json!({"a":2}));
    }

    #[test]
    fn a_client_that_says_nothing_of_the_state_changes_none() {
        for state in [json!(null), json!({}), json!({"a":1})] {
            let (given, events) = merged(json!({"state":state,"messages":[]}), &history()).expect("fine");
            assert_eq!((events.len(), &given["state"]), (1, &json!({"a":1})));
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
            assert!(matches!(merged(bad.clone(), &history()), Err(AgentError::InvalidInput(_))), "{bad}");
        }
    }
}
