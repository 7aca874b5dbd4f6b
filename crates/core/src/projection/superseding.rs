//! Events between two attempts of a run: they end what the attempt before left open, name it, and bring messages and state
//! back to what they were. All are standard events of AG-UI, so that every client folds to the same without knowing of
//! attempts.

use std::collections::HashSet;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    EventError, NewEvents, Seq,
    event::BatchBuilder,
    json::{self, string_member},
    limits::MAX_OPEN_BYTES,
    projection::{
        closing::OpenParts,
        conversation::{Conversation, UnverifiedCall, message_snapshots},
    },
};

/// Name of the CUSTOM event that names an attempt.
pub const ATTEMPT: &str = "threadline.attempt";
/// Reason of an attempt at a run of a producer, which another process has taken up.
pub const TAKEN_UP: &str = "taken-up";

/// Next attempt of a run, as the log names it.
#[derive(Debug, Clone, Copy)]
pub struct NextAttempt<'a> {
    /// Number of the attempt.
    pub number: u64,
    /// Fate of the driver before.
    pub reason: &'static str,
    /// Seqs of the first and of the last event of the attempt before.
    pub superseded: (Seq, Seq),
    /// Facts of an attempt that continues the one before; `None` for one that begins anew.
    pub continued: Option<Continued<'a>>,
}

/// Facts of an attempt that continues the one before.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Continued<'a> {
    /// Ids of the messages that stay of the attempt before.
    pub kept: &'a [String],
    /// Calls of all attempts before that were begun and have no result.
    pub unverified: &'a [UnverifiedCall],
    /// Evidence of what an agent of the server is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<&'a Value>,
}

/// Value of the CUSTOM event that names an attempt.
#[derive(Serialize)]
struct Named<'a> {
    attempt: u64,
    reason: &'a str,
    superseded: [Seq; 2],
    #[serde(flatten)]
    continued: Option<Continued<'a>>,
    /// Newest event of those that supersede: up to it, the log holds what the agent is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    through: Option<Seq>,
}

/// Events that supersede an attempt. `open` has the run's events so far, `now` is the conversation after them, which is changed
/// while the events are made, and `kept` the conversation that they leave. Fails if a list of messages is larger than an event.
pub fn superseding(
    next: NextAttempt<'_>,
    open: &OpenParts,
    now: &mut Conversation,
    kept: &Conversation,
) -> Result<NewEvents, EventError> {
    let mut batch = BatchBuilder::default();
    let closers = open.part_closers(false);
    for closer in &closers {
        let closer = closer.to_string();
        now.observe(closer.as_bytes());
        batch.push_line(closer.as_bytes())?;
    }
    // The CUSTOM event is known by then up to its value, of which a conversation takes in nothing.
    now.observe(json!({ "type": "CUSTOM", "name": ATTEMPT }).to_string().as_bytes());
    let mut snapshots = Vec::new();
    let state = kept.state_json();
    if now.state_json() != state {
        let state = String::from_utf8_lossy(&state);
        let snapshot = format!("{{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{state}}}");
        now.observe(snapshot.as_bytes());
        snapshots.push(snapshot);
    }
    let messages = kept.messages_json();
    // A chunk without an id would continue what the attempt before has begun.
    if now.messages_json() != messages || now.has_open_chunks() {
        let list = String::from_utf8_lossy(&messages);
        let list = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or_default();
        let is_reached = |reached: &Conversation| reached.messages_json() == messages;
        snapshots.extend(message_snapshots(now, list, is_reached));
    }
    let NextAttempt { number, reason, superseded: (from, to), continued } = next;
    let is_given = continued.is_some_and(|continued| continued.given.is_some());
    let through = is_given.then(|| to + (closers.len() + 1 + snapshots.len()) as Seq);
    let value = Named { attempt: number, reason, superseded: [from, to], continued, through };
    batch.push_line(json!({ "type": "CUSTOM", "name": ATTEMPT, "value": value }).to_string().as_bytes())?;
    for snapshot in snapshots {
        batch.push_line(snapshot.as_bytes())?;
    }
    batch.finish()
}

/// Value of a CUSTOM event that names an attempt; `None` for every other event, and for a value of another form.
pub fn takeover<T: DeserializeOwned>(event: &str) -> Option<T> {
    let is = |member, value| string_member(event, member).is_some_and(|found| found == value);
    if !is("type", "CUSTOM") || !is("name", ATTEMPT) {
        return None;
    }
    serde_json::from_str(json::member(event, "value")?).ok()
}

/// Subagents that the attempts of a run have begun. Clients refuse a subagent that begins twice in a run, and an agent that is
/// called again may give its subagents the same ids.
#[derive(Debug, Default)]
pub struct BegunSubagents {
    ids: HashSet<Box<str>>,
    /// Bytes of the ids.
    bytes: usize,
}

impl BegunSubagents {
    /// Takes in one event of an attempt, as JSON text.
    pub fn observe(&mut self, event: &[u8]) {
        let Some((kind, id)) = of_subagent(event) else { return };
        if kind == "SUBAGENT_STARTED" && self.bytes + id.len() <= MAX_OPEN_BYTES && self.ids.insert(id.as_str().into())
        {
            self.bytes += id.len();
        }
    }

    /// True if an event of a later attempt begins or ends one of these subagents. Clients accept what belongs to a
    /// subagent without such events.
    pub fn is_repeated(&self, event: &[u8]) -> bool {
        !self.ids.is_empty() && of_subagent(event).is_some_and(|(_, id)| self.ids.contains(id.as_str()))
    }
}

/// Kind and id of a subagent's begin or end.
fn of_subagent(event: &[u8]) -> Option<(String, String)> {
    let event = std::str::from_utf8(event).ok()?;
    let kind = string_member(event, "type").filter(|kind| kind.starts_with("SUBAGENT_"))?;
    Some((kind, string_member(event, "subagentRunId")?))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const OPENING: [&str; 2] = [
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"messages":[{"id":"u","role":"user","content":"hi"}]}}"#,
        r#"{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}"#,
    ];

    fn fold(events: &[&str]) -> Conversation {
        let mut conversation = Conversation::default();
        events.iter().for_each(|event| conversation.observe(event.as_bytes()));
        conversation
    }

    /// Events that supersede `said`, said after the opening.
    fn after(said: &[&str]) -> Result<Vec<Value>, EventError> {
        let mut open = OpenParts::default();
        OPENING.iter().chain(said).for_each(|event| open.observe(event.as_bytes()));
        let next =
            NextAttempt { number: 2, reason: "node-lost", superseded: (3, 2 + said.len() as Seq), continued: None };
        let events = superseding(next, &open, &mut fold(&[&OPENING, said].concat()), &fold(&OPENING))?;
        let mut all = fold(&[&OPENING, said].concat());
        let lines = events.body().split(|byte| *byte == b'\n');
        let values =
            lines.inspect(|line| all.observe(line)).map(|line| serde_json::from_slice(line).expect("JSON")).collect();
        let kept = fold(&OPENING);
        assert_eq!((all.messages_json(), all.state_json()), (kept.messages_json(), kept.state_json()));
        Ok(values)
    }

    fn types(events: &[Value]) -> Vec<&str> {
        events.iter().filter_map(|event| event["type"].as_str()).collect()
    }

    #[test]
    fn what_is_in_no_fold_is_closed_and_named() {
        let events = after(&[r#"{"type":"STEP_STARTED","stepName":"s"}"#]).expect("fits");
        let value = json!({ "attempt": 2, "reason": "node-lost", "superseded": [3, 3] });
        let named = json!({ "type": "CUSTOM", "name": ATTEMPT, "value": value });
        assert_eq!(events, [json!({ "type": "STEP_FINISHED", "stepName": "s" }), named]);
    }

    #[test]
    fn messages_and_state_are_taken_back() {
        let events = after(&[
            r#"{"type":"TEXT_MESSAGE_START","messageId":"a","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"half"}"#,
            r#"{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}"#,
        ])
        .expect("fits");
        assert_eq!(types(&events), ["TEXT_MESSAGE_END", "CUSTOM", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]);
        assert_eq!(events[3]["messages"], json!([{ "id": "u", "role": "user", "content": "hi" }]));
    }

    #[test]
    fn what_stays_is_named_with_the_end_of_the_takeover() {
        let said = [
            r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"whole"}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#,
            r#"{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}"#,
        ];
        let all = [&OPENING[..], &said].concat();
        let mut open = OpenParts::default();
        all.iter().for_each(|event| open.observe(event.as_bytes()));
        let kept = fold(&all).keep(&fold(&OPENING), &open, &[]);
        let continued =
            Continued { kept: &kept.ids, unverified: &kept.unverified, given: Some(&json!({ "count": 2 })) };
        let next = NextAttempt { number: 2, reason: "node-lost", superseded: (3, 5), continued: Some(continued) };
        let events = superseding(next, &open, &mut fold(&all), &kept.conversation).expect("fits");
        let mut after = fold(&all);
        let lines = events.body().split(|byte| *byte == b'\n').inspect(|line| after.observe(line));
        let events: Vec<Value> = lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect();
        assert_eq!(types(&events), ["TOOL_CALL_END", "CUSTOM", "MESSAGES_SNAPSHOT"]);
        let unverified = json!([{ "toolCallId": "c", "name": "f", "arguments": "" }]);
        let value = json!({ "attempt": 2, "reason": "node-lost", "superseded": [3, 5], "kept": ["a"],
            "unverified": unverified, "given": { "count": 2 }, "through": 8 });
        assert_eq!(events[1]["value"], value);
        let messages: Vec<_> = after.messages().map(|message| message.id()).collect();
        assert_eq!((messages, after.state_json()), (vec!["u", "a"], b"{\"n\":2}".to_vec()));
    }

    #[test]
    fn activities_and_reasoning_are_taken_back_in_clients_that_keep_them() {
        for said in [
            r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"v","activityType":"x","content":{}}"#,
            r#"{"type":"REASONING_MESSAGE_CHUNK","messageId":"v","delta":"x"}"#,
            r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"u","activityType":"x","content":{}}"#,
        ] {
            let events = after(&[said]).expect("fits");
            assert_eq!(
                types(&events),
                ["CUSTOM", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT"],
                "{said}"
            );
            let roles: Vec<_> =
                events[2]["messages"].as_array().expect("a list").iter().map(|message| &message["role"]).collect();
            assert_eq!(roles, ["activity", "reasoning", "system"]);
        }
    }

    #[test]
    fn a_conversation_that_no_event_can_hold_is_an_error() {
        let long = "x".repeat(crate::limits::MAX_EVENT_BYTES / 2);
        let begun = |id: &str| format!(r#"{{"type":"TEXT_MESSAGE_CHUNK","messageId":"{id}","delta":"{long}"}}"#);
        let (one, other) = (begun("1"), begun("2"));
        let kept = [OPENING[0], &one, &other];
        let now = [kept[0], kept[1], kept[2], r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"3","delta":"x"}"#];
        let next = NextAttempt { number: 2, reason: "node-lost", superseded: (4, 4), continued: None };
        assert!(superseding(next, &OpenParts::default(), &mut fold(&now), &fold(&kept)).is_err());
    }

    #[test]
    fn a_subagent_is_repeated_by_its_begin_and_its_end() {
        let mut begun = BegunSubagents::default();
        let (start, end) =
            (r#"{"type":"SUBAGENT_STARTED","subagentRunId":"a"}"#, r#"{"type":"SUBAGENT_ERROR","subagentRunId":"a"}"#);
        begun.observe(br#"{"type":"SUBAGENT_FINISHED","subagentRunId":"a"}"#);
        assert!(!begun.is_repeated(start.as_bytes()));
        begun.observe(start.as_bytes());
        assert!(begun.is_repeated(start.as_bytes()) && begun.is_repeated(end.as_bytes()));
        assert!(!begun.is_repeated(br#"{"type":"SUBAGENT_STARTED","subagentRunId":"b"}"#));
        assert!(!begun.is_repeated(br#"{"type":"STEP_STARTED","stepName":"s","subagentRunId":"a"}"#));
    }
}
