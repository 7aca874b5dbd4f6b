//! The folds of the packages for TypeScript and Python are the server's fold.

use serde_json::{Value, json};
use threadline_core::projection::conversation::{Conversation, is_same_value};

use crate::{
    compare::{HIGH, LOW, assert_same, event, fold, json as read},
    generate::stream,
    node::{self, Client, Outcome},
    rng::{Rng, seed},
};

const STREAMS: u64 = 160;

/// Stands for a number that no double can hold.
const HUGE: &str = "\u{e002}";

fn assert_the_same(what: &str, events: &[String], conversation: &Conversation, outcome: &Outcome) {
    assert_eq!(outcome.error, None, "{what}");
    let all = || format!("{what}:\n{}", events.join("\n"));
    assert_eq!(read(&text(conversation.messages_json())), outcome.messages, "messages of {}", all());
    assert_eq!(read(&text(conversation.state_json())), outcome.state, "state of {}", all());
    assert_eq!(read(&text(conversation.interrupts_json())), outcome.interrupts, "interrupts of {}", all());
    assert_eq!(conversation.pending_tool_calls(), outcome.pending, "pending calls of {}", all());
}

/// Asserts that numbers that differ as doubles or as integers of 64 bits are told apart: JavaScript has doubles alone.
fn assert_the_same_numbers(what: &str, events: &[String], conversation: &Conversation, outcome: &Outcome) {
    let ours = [conversation.messages_json(), conversation.state_json()].map(text);
    for (ours, theirs) in ours.iter().zip(&outcome.written) {
        let [tree, other] = [ours, theirs].map(|text| {
            let text = text.replace("\\ud83d", HIGH).replace("\\ude00", LOW);
            serde_json::from_str::<Value>(&text).expect("JSON").to_string()
        });
        assert!(is_same_value(&tree, &other), "{what}: {tree}\nand {other} of:\n{}", events.join("\n"));
    }
}

/// Our own packages.
const PACKAGES: [Client; 2] = [Client::TypeScript, Client::Python];

/// Asserts that the packages' folds of each case are ours. How many deltas were skipped.
pub fn assert_as_the_server(what: &str, cases: &[Vec<String>]) -> u64 {
    let folds: Vec<_> = cases.iter().map(|events| fold(events)).collect();
    for client in PACKAGES {
        for (number, (events, outcome)) in cases.iter().zip(node::fold(client, cases)).enumerate() {
            let (conversation, what) = (&folds[number], format!("case {number} of {what} by {client:?}"));
            assert_the_same(&what, events, conversation, &outcome);
            if client == Client::Python {
                assert_the_same_numbers(&what, events, conversation, &outcome);
            }
            assert_eq!(conversation.skipped_deltas(), outcome.skipped, "{what}");
            let numbers = (conversation.skipped_numbers(), outcome.skipped_numbers);
            assert_eq!(numbers.0, numbers.1, "numbers in {what}:\n{}", events.join("\n"));
        }
    }
    folds.iter().map(Conversation::skipped_deltas).sum()
}

fn text(json: Vec<u8>) -> String {
    String::from_utf8(json).expect("UTF-8")
}

/// Something that the protocol does not allow, or that stands in a place where it may mean something else.
fn odd(rng: &mut Rng) -> Value {
    let values = [
        Value::Null,
        json!(7),
        json!(true),
        json!("m1"),
        json!(""),
        json!([]),
        json!({}),
        json!("user"),
        json!("tool"),
        json!("s1"),
        json!(format!("m{HIGH}")),
        json!([{"id": "m1", "role": "assistant", "toolCalls": [{"id": "c1"}, 7]}, {"id": 1}, null]),
        json!({LOW: HIGH, "a": [HUGE]}),
        json!([{"op": "add", "path": "/a", "value": LOW}, {"op": "copy", "from": "", "path": "/a/b"}]),
        json!({"type": "interrupt", "interrupts": [7, {"id": "i", "subagentRunId": null}]}),
        json!("thinking-1"),
    ];
    values[rng.draw() as usize % values.len()].clone()
}

/// Breaks events here and there: members become something else or vanish, events come twice, late or not at all.
fn broken(seed: u64, number: u64) -> Vec<String> {
    const MEMBERS: [&str; 23] = [
        "type",
        "messageId",
        "toolCallId",
        "delta",
        "metadata",
        "subagentRunId",
        "role",
        "name",
        "toolCallName",
        "parentMessageId",
        "content",
        "snapshot",
        "messages",
        "input",
        "activityType",
        "replace",
        "patch",
        "subtype",
        "entityId",
        "encryptedValue",
        "outcome",
        "rawEvent",
        "unknown",
    ];
    let mut rng = Rng::new(seed, 10_000 + number);
    let mut events: Vec<String> = Vec::new();
    for sent in stream(seed, 10_000 + number) {
        let sent = sent.replace("\\ud83d", HIGH).replace("\\ude00", LOW);
        let mut value: Value = serde_json::from_str(&sent).expect("JSON");
        if rng.chance(30) {
            let there: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
            let name = match rng.chance(70) {
                true => there[rng.draw() as usize % there.len()].clone(),
                false => MEMBERS[rng.draw() as usize % MEMBERS.len()].to_owned(),
            };
            match rng.chance(25) {
                true => drop(value.as_object_mut().expect("an object").remove(&name)),
                false => value[name] = odd(&mut rng),
            }
        }
        if rng.chance(5) {
            let think = ["START", "CONTENT", "END"][rng.draw() as usize % 3];
            events.push(event(&json!({"type": format!("THINKING_TEXT_MESSAGE_{think}"), "delta": "x"})));
        }
        let text = event(&value).replace(&format!("\"{HUGE}\""), "1e999");
        for _ in 0..[1, 1, 1, 1, 1, 1, 2, 0][rng.draw() as usize % 8] {
            let furthest = if rng.chance(10) { 5 } else { 0 };
            let back = rng.between(0, furthest) as usize;
            events.insert(events.len().saturating_sub(back), text.clone());
        }
    }
    events
}

#[test]
fn the_packages_fold_as_the_server_does_from_the_beginning() {
    let seed = seed();
    let mut rng = Rng::new(seed, 1);
    let mut streams: Vec<_> = (0..STREAMS).map(|number| stream(seed, number)).collect();
    streams.extend((0..STREAMS).map(|number| broken(seed, number)));
    let mut cases = streams.clone();
    for stream in streams {
        let cut = rng.between(0, stream.len() as u64) as usize;
        cases.push(stream[..cut].to_vec());
    }
    assert!(assert_as_the_server(&format!("seed {seed}"), &cases) > STREAMS);
}

/// What settles an interrupt and what does not, after each event.
#[test]
fn the_packages_have_the_same_interrupts_open() {
    let asking = |ids: &[&str]| {
        let interrupts: Vec<_> = ids.iter().map(|id| json!({"id": id, "reason": ids.len()})).collect();
        json!({"type": "RUN_FINISHED", "outcome": {"type": "interrupt", "interrupts": interrupts}})
    };
    let answering = |ids: &[&str]| {
        let resume: Vec<_> = ids.iter().map(|id| json!({"interruptId": id, "status": "resolved"})).collect();
        json!({"type": "RUN_STARTED", "input": {"resume": resume}})
    };
    let finished = json!({"type": "RUN_FINISHED"});
    let many: Vec<_> = (0..300).map(|at| at.to_string()).collect();
    let long = "é".repeat(200);
    let events = [
        asking(&["a", "b", "c"]),
        json!({"type": "RUN_STARTED"}),
        finished.clone(),
        answering(&["a"]),
        json!({"type": "RUN_ERROR", "message": "no"}),
        finished.clone(),
        json!({"type": "RUN_STARTED", "input": {"resume": [{"interruptId": "a"}, "a", null,
            {"interruptId": "a", "status": "perhaps"}, {"interruptId": 1, "status": "resolved"}]}}),
        finished.clone(),
        json!({"type": "RUN_STARTED", "input": {"resume": {"interruptId": "a", "status": "resolved"}}}),
        finished.clone(),
        answering(&["a", "x"]),
        asking(&["b", "d"]),
        answering(&["b", "c", "d"]),
        asking(&["d", &long]),
        json!({"type": "RUN_FINISHED", "outcome": {"type": "interrupt", "interrupts": [{"reason": 1}, {"id": 7}, 8]}}),
        finished.clone(),
        asking(&many.iter().map(String::as_str).collect::<Vec<_>>()),
        finished.clone(),
        json!({"type": "RUN_FINISHED", "outcome": {"type": "interrupt", "interrupts": [{"id": "large",
            "reason": "x".repeat(1_100_000)}]}}),
        finished.clone(),
        answering(&["d"]),
        answering(&["1"]),
        finished,
    ];
    let mut events: Vec<_> = events.iter().map(Value::to_string).collect();
    let payload = r#"{"type":"RUN_STARTED","input":{"resume":[],"resume":[{"interruptId":"2","status":"resolved","payload":1e999}]}}"#;
    events.extend([payload.to_owned(), r#"{"type":"RUN_FINISHED"}"#.to_owned()]);
    let prefixes: Vec<_> = (1..=events.len()).map(|upto| events[..upto].to_vec()).collect();
    assert_as_the_server("interrupts", &prefixes);
    assert!(!fold(&events).open_interrupts().any(|id| ["a", "1", "2"].contains(&id)));
}

/// A state that grows and shrinks stays within its limit, however often it does, and one that only grows does not.
#[test]
fn the_packages_know_the_size_of_a_state() {
    // Four fit into a state, and five do not.
    let name = "n".repeat(4_000_000);
    let delta = |operation: Value| json!({"type": "STATE_DELTA", "delta": [operation]}).to_string();
    let round = || {
        let path = format!("/{name}");
        [delta(json!({"op": "add", "path": path, "value": 1})), delta(json!({"op": "remove", "path": path}))]
    };
    let mut events: Vec<_> = (0..5).flat_map(|_| round()).collect();
    events.push(delta(json!({"op": "add", "path": "/done", "value": true})));
    assert_eq!(assert_as_the_server("sizes of members that come and go", &[events]), 0);
    let growing = |at| delta(json!({"op": "add", "path": format!("/{at}"), "value": name}));
    let growing: Vec<_> = (0..5).map(growing).collect();
    assert_eq!(assert_as_the_server("a size beyond the limit", &[growing]), 1);
}

/// Numbers that languages read, compare and write differently, after each event.
#[test]
fn the_packages_read_and_compare_numbers_as_the_server_does() {
    let digits = "9".repeat(5_000);
    let numbers = [
        "0",
        "-0",
        "-0.0",
        "1",
        "1.0",
        "1e0",
        "true",
        "9007199254740992",
        "9007199254740993",
        "-9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "1e400",
        "-1e400",
        "5e-324",
        "0.1",
        "1.7976931348623157e308",
        &digits,
    ];
    let mut events = Vec::new();
    for one in numbers {
        events.push(format!(r#"{{"type":"STATE_SNAPSHOT","snapshot":{{"n":[{one}]}}}}"#));
        events.push(format!(r#"{{"type":"CUSTOM","name":"n","value":{one}}}"#));
        for other in numbers {
            events.push(format!(
                r#"{{"type":"STATE_DELTA","delta":[{{"op":"test","path":"/n/0","value":{other}}},{{"op":"add","path":"/n/-","value":{other}}}]}}"#
            ));
        }
        events.push(format!(
            r#"{{"type":"MESSAGES_SNAPSHOT","messages":[{{"id":"m","role":"user","content":"x","score":{one}}}]}}"#
        ));
        events
            .push(format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"y","metadata":{{"n":{one}}}}}"#));
    }
    let prefixes: Vec<_> = (1..=events.len()).map(|upto| events[..upto].to_vec()).collect();
    assert!(assert_as_the_server("numbers", &prefixes) > 0);
}

/// A page begins with what the server says of a thread between two runs, and folds what comes after.
#[test]
fn the_packages_continue_between_two_runs_from_what_the_server_shows() {
    let seed = seed();
    let (mut cases, mut wholes) = (Vec::new(), Vec::new());
    for number in 0..STREAMS {
        let events = stream(seed, 20_000 + number);
        let begins = |event: &String| event.contains("\"type\":\"RUN_STARTED\"");
        for at in (1..events.len()).filter(|at| begins(&events[*at])) {
            let start = fold(&events[..at]);
            cases.push(format!(
                r#"{{"start":{{"messages":{},"state":{},"interrupts":{}}},"events":[{}]}}"#,
                text(start.messages_json()),
                text(start.state_json()),
                text(start.interrupts_json()),
                events[at..].join(",")
            ));
            wholes.push(events.clone());
        }
    }
    assert!(cases.len() > STREAMS as usize / 2);
    for client in PACKAGES {
        for (number, (events, outcome)) in wholes.iter().zip(node::outcomes(client, &cases)).enumerate() {
            assert_the_same(&format!("case {number} of seed {seed} by {client:?}"), events, &fold(events), &outcome);
        }
    }
}

/// The conversations are also those of the real client, where that refuses nothing.
#[test]
fn the_packages_build_what_the_client_builds_from_a_recorded_run() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/pydantic-ai/recorded-run.ndjson");
    let recorded = std::fs::read_to_string(path).expect("a recorded run");
    let events: Vec<String> = recorded.lines().map(str::to_owned).collect();
    let theirs = node::fold(Client::New, std::slice::from_ref(&events)).remove(0);
    for client in PACKAGES {
        let ours = node::fold(client, std::slice::from_ref(&events)).remove(0);
        assert_eq!((&ours.messages, &ours.state), (&theirs.messages, &theirs.state), "{client:?}");
        assert_same("the recorded run", &events, &ours);
    }
}
