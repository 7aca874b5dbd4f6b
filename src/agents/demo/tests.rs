//! Runs of the demo, checked by the rules of AG-UI's own client.

use std::collections::HashSet;

use serde_json::Value;
use tokio::time::Instant;

use super::{
    super::tests::{collect, input},
    *,
};

async fn play(input: &RunInput) -> Vec<Value> {
    let (events, failure) = collect(run(input, Duration::ZERO)).await;
    assert_eq!(failure, None);
    let events: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).expect("JSON")).collect();
    verify(&events);
    events
}

async fn say(text: &str) -> Vec<Value> {
    play(&saying(text)).await
}

fn saying(text: &str) -> RunInput {
    RunInput { messages: json!([{ "id": "1", "role": "user", "content": text }]).to_string(), ..input() }
}

/// Rules of `verifyEvents` of `@ag-ui/client` 1.0: a run starts once, ends once, closes every part that it opens, and
/// opens no id twice.
fn verify(events: &[Value]) {
    let (mut open, mut used) = (HashSet::new(), HashSet::new());
    for (at, event) in events.iter().enumerate() {
        let kind = event["type"].as_str().expect("a type");
        assert_eq!(at == 0, kind == "RUN_STARTED", "{event}");
        let end = kind == "RUN_FINISHED" || kind == "RUN_ERROR";
        assert_eq!(at + 1 == events.len(), end, "{event}");
        assert!(kind != "RUN_FINISHED" || open.is_empty(), "{open:?} open at the end");
        assert!(event["delta"] != "", "an empty delta");
        let id = ["toolCallId", "messageId", "stepName"].iter().find_map(|name| event[name].as_str());
        let part = |of: &str| (of.to_owned(), id.map(str::to_owned));
        if kind == "TOOL_CALL_RESULT" {
            assert!(used.contains(&part("TOOL_CALL")) && !open.contains(&part("TOOL_CALL")), "{event}");
        } else if let Some(of) = kind.strip_suffix("_START").or(kind.strip_suffix("_STARTED")).filter(|of| *of != "RUN")
        {
            assert!(used.insert(part(of)) && open.insert(part(of)), "{event} opens a part that was opened before");
        } else if let Some(of) = kind.strip_suffix("_END").or(kind.strip_suffix("_FINISHED")).filter(|of| *of != "RUN")
        {
            assert!(open.remove(&part(of)), "{event} closes a part that is not open");
        } else if let Some(of) = kind.strip_suffix("_CONTENT").or(kind.strip_suffix("_ARGS")) {
            assert!(open.contains(&part(of)), "{event} continues a part that is not open");
        }
    }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    kinds.dedup();
    kinds
}

fn joined(events: &[Value], kind: &str) -> String {
    events.iter().filter(|event| event["type"] == kind).filter_map(|event| event["delta"].as_str()).collect()
}

fn text(events: &[Value]) -> String {
    joined(events, "TEXT_MESSAGE_CONTENT")
}

fn last(events: &[Value]) -> &Value {
    events.last().expect("an event")
}

#[tokio::test]
async fn the_demo_shows_every_kind_of_event_for_any_input() {
    let events = say("Héllo, **dear** world! ```").await;
    assert_eq!(
        kinds(&events),
        [
            "RUN_STARTED",
            "STATE_SNAPSHOT",
            "STEP_STARTED",
            "REASONING_START",
            "REASONING_MESSAGE_START",
            "REASONING_MESSAGE_CONTENT",
            "REASONING_MESSAGE_END",
            "REASONING_END",
            "STEP_FINISHED",
            "STATE_DELTA",
            "STEP_STARTED",
            "TOOL_CALL_START",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_END",
            "TOOL_CALL_RESULT",
            "STEP_FINISHED",
            "STATE_DELTA",
            "STEP_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "STEP_FINISHED",
            "STATE_DELTA",
            "RUN_FINISHED",
        ]
    );
    let arguments: Value = serde_json::from_str(&joined(&events, "TOOL_CALL_ARGS")).expect("JSON");
    assert_eq!(arguments["text"], "Héllo, **dear** world! ```");
    let result = events.iter().find(|event| event["type"] == "TOOL_CALL_RESULT").expect("a result");
    let result: Value = serde_json::from_str(result["content"].as_str().expect("text")).expect("JSON");
    assert_eq!(result, json!({ "words": 3, "characters": 26, "longest": "Héllo" }));
    assert!(text(&events).contains("> Héllo, **dear** world!") && text(&events).contains("**3 words**"));
    let usage = &last(&events)["usage"][0];
    let deltas = events.iter().filter(|event| event["delta"].is_string()).count();
    assert_eq!((&usage["inputTokens"], &usage["outputTokens"]), (&json!(4), &json!(deltas)));
    assert_eq!(events[1]["snapshot"]["plan"]["progress"], 0);
    assert_eq!(events[events.len() - 2]["delta"][1]["value"], 100);
}

#[tokio::test]
async fn the_script_is_the_same_each_time_but_for_its_ids() {
    let without_ids = |events: Vec<Value>| {
        let strip = |mut event: Value| {
            for name in ["messageId", "toolCallId", "parentMessageId"] {
                event.as_object_mut().expect("an object").remove(name);
            }
            event
        };
        events.into_iter().map(strip).collect::<Vec<_>>()
    };
    assert_eq!(without_ids(say("hi").await), without_ids(say("hi").await));
}

#[tokio::test]
async fn anything_can_be_said() {
    for messages in [
        "[]",
        r#"[{"id":"1","role":"user"}]"#,
        r#"[{"id":"1","role":"user","content":"\ud800 \u0000"}]"#,
        r#"[{"id":"1","role":"user","content":[{"type":"text","text":"hi"},{"type":"image"}]}]"#,
        r#"[7,{"id":"1","role":"tool"}]"#,
    ] {
        play(&RunInput { messages: messages.to_owned(), state: "[1e999]".into(), ..input() }).await;
    }
    let long = say(&"é".repeat(1_000_000)).await;
    assert!(text(&long).len() < 10_000);
}

#[tokio::test]
async fn an_approval_is_asked_for_and_the_next_run_acts_on_it() {
    let asked = say("Please approve.").await;
    let outcome = &last(&asked)["outcome"];
    assert_eq!((&outcome["type"], outcome["interrupts"].as_array().map(Vec::len)), (&json!("interrupt"), Some(1)));
    let interrupt = &outcome["interrupts"][0];
    assert!(interrupt["reason"].is_string() && interrupt["responseSchema"]["type"] == "object");
    let open = json!([{ "text": "Ask for approval", "done": true }, { "text": "Publish the summary", "done": false }]);
    for (answer, expected, done) in [
        (json!({ "status": "resolved", "payload": { "approved": true } }), "**published**", true),
        (json!({ "status": "resolved", "payload": true }), "**published**", true),
        (json!({ "status": "resolved", "payload": { "approved": false } }), "**not**", false),
        (json!({ "status": "resolved", "payload": { "approved": "later" } }), "later", false),
        (json!({ "status": "resolved" }), "instead", false),
        (json!({ "status": "cancelled" }), "**cancelled**", false),
    ] {
        let mut entry = answer.clone();
        entry["interruptId"] = interrupt["id"].clone();
        let state = json!({ "plan": { "steps": open, "progress": 50, "runs": 1 } }).to_string();
        let resume = Some(json!([entry]).to_string());
        let events = play(&RunInput { resume, state, ..saying("Please approve.") }).await;
        assert!(text(&events).contains(expected), "{answer}: {}", text(&events));
        let delta = events.iter().find(|event| event["type"] == "STATE_DELTA").expect("a delta");
        assert_eq!(delta["delta"][0]["op"] == "replace", done, "{answer}");
        assert_eq!(delta["delta"][1]["value"], 100);
        assert_eq!(last(&events)["outcome"]["type"], "success");
    }
    let events = play(&RunInput { resume: Some("[]".into()), ..saying("hi") }).await;
    assert!(text(&events).contains("> hi"), "nothing is resumed");
}

#[tokio::test]
async fn a_tool_of_the_frontend_is_called_and_its_result_commented_on() {
    let parameters = json!({ "type": "object", "required": ["color"], "properties": { "color": { "enum": ["red"] } } });
    let tools =
        json!([{ "name": "set", "description": "" }, { "name": "set_color", "parameters": parameters }]).to_string();
    let asked = RunInput { tools: tools.clone(), ..saying("Would you SET_COLOR, please? Or set.") };
    let events = play(&asked).await;
    let start = events.iter().find(|event| event["type"] == "TOOL_CALL_START").expect("a call");
    assert_eq!(start["toolCallName"], "set_color");
    assert_eq!(joined(&events, "TOOL_CALL_ARGS"), r#"{"color":"red"}"#);
    assert_eq!(last(&events)["outcome"]["pendingToolCallIds"], json!([start["toolCallId"]]));
    assert!(!kinds(&events).contains(&"TOOL_CALL_RESULT"));

    let call = json!({ "id": start["toolCallId"], "type": "function", "function": { "name": "set_color", "arguments": "{}" } });
    for (result, expected) in [
        (json!({ "content": "it is red now" }), "> it is red now"),
        (json!({ "content": "", "error": "no paint" }), "> no paint"),
        (json!({ "content": "" }), "without a word"),
    ] {
        let mut message = json!({ "id": "3", "role": "tool", "toolCallId": start["toolCallId"] });
        message.as_object_mut().expect("an object").extend(result.as_object().expect("an object").clone());
        let messages = json!([
            { "id": "1", "role": "user", "content": "set_color" },
            { "id": "2", "role": "assistant", "toolCalls": [call] },
            message,
        ]);
        let events = play(&RunInput { messages: messages.to_string(), tools: tools.clone(), ..input() }).await;
        assert!(text(&events).contains("`set_color`") && text(&events).contains(expected), "{}", text(&events));
        assert!(!kinds(&events).contains(&"TOOL_CALL_START"));
    }
}

#[tokio::test]
async fn errors_long_answers_and_help_are_there_for_the_asking() {
    let events = say("error!").await;
    assert_eq!((&last(&events)["type"], &last(&events)["code"]), (&json!("RUN_ERROR"), &json!("demo-error")));
    assert!(!text(&events).is_empty() && !kinds(&events).contains(&"TEXT_MESSAGE_END"));
    let events = say("A LONG one").await;
    let tokens = last(&events)["usage"][0]["outputTokens"].as_u64().expect("a number");
    assert!((1_900..=2_100).contains(&tokens), "{tokens}");
    assert!(text(&events).contains("(1) ") && text(&events).contains("(130) "));
    let tools = json!([{ "name": "set_color", "description": "" }]).to_string();
    let events = play(&RunInput { tools, ..saying("help") }).await;
    for word in ["approve", "error", "long", "help", "set_color"] {
        assert!(text(&events).contains(&format!("- **{word}**")), "{word}");
    }
    assert!(text(&say("no errors, no belongings").await).contains("> no errors"));
}

#[tokio::test(start_paused = true)]
async fn the_pace_is_kept() {
    let pace = Duration::from_millis(20);
    let start = Instant::now();
    let (events, _) = collect(run(&saying("hi"), pace)).await;
    let deltas = events.iter().filter(|event| event.contains("\"delta\":\"")).count() as u32;
    assert!(
        start.elapsed() >= pace * deltas && start.elapsed() < pace * (deltas + deltas / 10),
        "{:?}",
        start.elapsed()
    );
}
