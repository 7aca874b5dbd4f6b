//! Content of a thread for a stock client: messages and state as one run that has ended. Old errors are not repeated,
//! because some clients end the stream at an error. Interrupts that wait for an answer are repeated.

use std::collections::HashSet;

use serde_json::{json, value::RawValue};
use threadline_core::{
    Run, RunId, Seq, ThreadId,
    projection::{conversation::Conversation, resuming::Resuming},
};

use super::{
    acceptable,
    stream::{Telling, bound, write, write_value},
};

/// Content of a thread up to one event.
pub struct Past<'a> {
    pub thread: &'a ThreadId,
    /// Run under whose id the content is sent: the last run that has ended, if there is one.
    pub run: &'a RunId,
    pub conversation: &'a Conversation,
}

impl Past<'_> {
    /// Writes the complete content of a thread without an active run. `last` must have folded the events of its last
    /// run.
    pub fn whole(&self, out: &mut Vec<u8>, last: &Resuming) {
        self.begin(out, &HashSet::new());
        let mut telling = Telling::new(self.thread.clone(), self.run.clone(), true);
        last.custom(Seq::MAX).for_each(|event| telling.tell(out, event));
        let mut finished = bound("RUN_FINISHED", self.thread, self.run);
        let interrupts: Vec<Box<RawValue>> =
            serde_json::from_slice(&self.conversation.interrupts_json()).unwrap_or_default();
        if !interrupts.is_empty() {
            finished["outcome"] = json!({ "type": "interrupt", "interrupts": interrupts });
        }
        write_value(out, &finished);
    }

    /// Writes the content up to the last quiet event of the active run. If that event belongs to the run, its custom
    /// events and the starts of its open spans follow. `known` are the ids of the reasoning that the client has.
    pub fn until(&self, out: &mut Vec<u8>, active: &Run, resuming: &Resuming, known: &HashSet<String>) -> Telling {
        let seq = resuming.quiet();
        // The client has the beginning of these messages, and receives it again, so the snapshot empties them first.
        let half = resuming.reasoning().iter().filter(|id| known.contains(*id)).map(String::as_str).collect();
        if seq > 0 {
            self.begin(out, &half);
            write_value(out, &bound("RUN_FINISHED", self.thread, self.run));
        }
        let begun = seq >= active.first_seq;
        let mut telling = Telling::new(self.thread.clone(), active.id.clone(), begun);
        if begun {
            write_value(out, &bound("RUN_STARTED", self.thread, &active.id));
            resuming.custom(seq).chain(resuming.spans()).for_each(|event| telling.tell(out, event));
        }
        telling
    }

    fn begin(&self, out: &mut Vec<u8>, half: &HashSet<&str>) {
        write_value(out, &bound("RUN_STARTED", self.thread, self.run));
        let mut snapshot = b"{\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":[".to_vec();
        let begin = snapshot.len();
        let mut text = Vec::new();
        let mut add = |message: &[u8]| {
            let Some(message) = std::str::from_utf8(message).ok().and_then(acceptable::message) else { return };
            if snapshot.len() > begin {
                snapshot.push(b',');
            }
            snapshot.extend_from_slice(message.as_bytes());
        };
        for message in self.conversation.messages() {
            text.clear();
            message.write_json(&mut text);
            add(&text);
        }
        for id in half {
            add(json!({ "id": id, "role": "reasoning", "content": "" }).to_string().as_bytes());
        }
        snapshot.extend_from_slice(b"]}");
        write(out, &snapshot);
        let state = self.conversation.state_json();
        // A client starts with the empty state. Sending it would remove the values that the client's application has
        // set.
        if state != b"{}" {
            write(out, &[b"{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":".as_slice(), &state, b"}"].concat());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use threadline_core::{Fence, RunStatus, Timestamp};

    use super::*;

    /// Pseudo-random choices: the same seed gives the same run.
    struct Choices(u64);

    impl Choices {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % n
        }
    }

    /// Run as agents produce it: constructs of every kind, interleaved, some of them not closed.
    fn some_run(seed: u64) -> Vec<Value> {
        let (mut choices, mut open, mut chunked) = (Choices(seed), Vec::<(&str, String)>::new(), None::<String>);
        let input = json!({ "messages": [{ "id": "u", "role": "user", "content": "hi" }] });
        let mut events = vec![json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": input })];
        for number in 0..40 {
            let id = format!("{seed}-{number}");
            let open_one = (!open.is_empty()).then(|| choices.below(open.len().max(1)));
            let event = match (choices.below(12), open_one) {
                (0, _) => {
                    open.push(("TEXT_MESSAGE", id.clone()));
                    json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" })
                }
                (1, _) => {
                    open.push(("TOOL_CALL", id.clone()));
                    json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "f" })
                }
                (2, _) => {
                    open.push(("REASONING_MESSAGE", id.clone()));
                    json!({ "type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning" })
                }
                (3, _) => {
                    open.push(("STEP", id.clone()));
                    json!({ "type": "STEP_STARTED", "stepName": id })
                }
                (4, _) => json!({ "type": "STATE_SNAPSHOT", "snapshot": { "n": number } }),
                (5, _) => json!({ "type": "STATE_DELTA", "delta": [{ "op": "add", "path": "/m", "value": number }] }),
                (6, _) => {
                    json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": "p", "activityType": "P", "content": { "n": number } })
                }
                (7, _) => json!({ "type": "TOOL_CALL_RESULT", "messageId": id, "toolCallId": "x", "content": "y" }),
                (8, _) => {
                    let chunk = if choices.below(2) == 0 { None } else { chunked.clone() };
                    let id = chunk.unwrap_or(id);
                    chunked = Some(id.clone());
                    json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": id, "delta": "c" })
                }
                (_, Some(at)) => {
                    let (kind, id) = open[at].clone();
                    let end = kind == "STEP" || choices.below(3) == 0;
                    if end {
                        open.remove(at);
                    }
                    let member = match kind {
                        "TOOL_CALL" => "toolCallId",
                        "STEP" => "stepName",
                        _ => "messageId",
                    };
                    match (kind, end) {
                        ("STEP", _) => json!({ "type": "STEP_FINISHED", member: id }),
                        (kind, true) => json!({ "type": format!("{kind}_END"), member: id }),
                        ("TOOL_CALL", false) => json!({ "type": "TOOL_CALL_ARGS", member: id, "delta": "1" }),
                        (kind, false) => json!({ "type": format!("{kind}_CONTENT"), member: id, "delta": "x" }),
                    }
                }
                _ => json!({ "type": "CUSTOM", "name": "n", "value": number }),
            };
            if !matches!(event["type"].as_str(), Some("TEXT_MESSAGE_CHUNK" | "ACTIVITY_SNAPSHOT")) {
                chunked = None;
            }
            events.push(event);
        }
        events
    }

    fn folded<'a>(events: impl IntoIterator<Item = &'a Value>) -> Conversation {
        let mut conversation = Conversation::default();
        events.into_iter().for_each(|event| conversation.observe(event.to_string().as_bytes()));
        conversation
    }

    /// Asserts that the stream begins each construct once, before it continues the construct.
    fn verify(events: &[Value], what: &str) {
        let mut open = HashSet::new();
        for event in events {
            let (kind, id) = (event["type"].as_str().expect("a type"), ["messageId", "toolCallId", "stepName"]);
            let id = id.iter().find_map(|name| event[name].as_str()).unwrap_or_default();
            let Some((of, end)) = kind.rsplit_once('_') else { continue };
            let part = format!("{of} {id}");
            match end {
                "START" | "STARTED" if of != "RUN" => assert!(open.insert(part), "{what}: {event}"),
                "END" => assert!(open.remove(&part), "{what}: {event}"),
                "FINISHED" if of != "RUN" => assert!(open.remove(&part), "{what}: {event}"),
                "CONTENT" | "ARGS" => {
                    let begun = open.contains(&part) || open.contains(&format!("{of}_CALL {id}"));
                    assert!(begun || of == "TOOL_CALL" && open.contains(&format!("TOOL_CALL {id}")), "{what}: {event}");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn wherever_a_client_comes_in_it_has_what_the_log_has() {
        let (thread, run) = (ThreadId::new("t").expect("id"), RunId::new("r").expect("id"));
        let active = Run {
            id: run.clone(),
            fence: Fence(1),
            agent: None,
            driven: false,
            author: None,
            asked_by: None,
            attempt: 1,
            status: RunStatus::Running,
            error_code: None,
            error_message: None,
            usage: None,
            first_seq: 1,
            producer_seq: 1,
            started_at: Timestamp(0),
            ended_at: None,
            lease_until: None,
            stop_requested_at: None,
        };
        for seed in 0..15 {
            let events = some_run(seed);
            let all = folded(&events);
            for cut in 0..=events.len() {
                let what = format!("seed {seed}, after {cut}");
                let mut resuming = Resuming::new(1);
                for (seq, event) in (1..).zip(&events[..cut]) {
                    resuming.observe(seq, event.to_string().as_bytes());
                }
                let quiet = usize::try_from(resuming.quiet()).expect("small");
                let (conversation, seen) = (folded(&events[..quiet]), folded(&events[..cut]));
                let past = Past { thread: &thread, run: &run, conversation: &conversation };
                // Two clients: one without any content, and one that has received all events up to the cut.
                let known = seen.messages().filter(|message| message.role() == "reasoning");
                let known: HashSet<String> = known.map(|message| message.id().to_owned()).collect();
                for (new, known) in [(true, HashSet::new()), (false, known)] {
                    let mut client = if new { Conversation::default() } else { seen.clone() };
                    let mut told = Vec::new();
                    let mut telling = past.until(&mut told, &active, &resuming, &known);
                    for event in &events[quiet..] {
                        telling.tell(&mut told, event.to_string().as_bytes());
                    }
                    let told = String::from_utf8(told).expect("text");
                    let told: Vec<Value> = told
                        .split("\n\n")
                        .filter_map(|event| event.strip_prefix("data: "))
                        .map(|event| serde_json::from_str(event).expect("JSON"))
                        .collect();
                    verify(&told, &what);
                    told.iter().for_each(|event| client.observe(event.to_string().as_bytes()));
                    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
                    assert_eq!(client.messages().len(), all.messages().len(), "{what}");
                    for message in all.messages() {
                        let same = client.messages().find(|one| one.id() == message.id()).expect("a message");
                        let json = |message: &threadline_core::projection::conversation::Message| {
                            let mut out = Vec::new();
                            message.write_json(&mut out);
                            text(out)
                        };
                        assert_eq!(json(same), json(message), "{what}");
                    }
                    if new {
                        assert_eq!(text(client.messages_json()), text(all.messages_json()), "{what}: the order");
                    }
                    assert_eq!(text(client.state_json()), text(all.state_json()), "{what}");
                }
            }
        }
    }
}
