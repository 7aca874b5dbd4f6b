mod keeping;

use serde_json::json;

use super::*;
use crate::limits::{
    MAX_ID_BYTES, MAX_INPUT_ITEMS, MAX_OPEN_INTERRUPT_BYTES, MAX_OPEN_INTERRUPTS, MAX_SETTLED_INTERRUPTS,
};

fn fold(events: &[&str]) -> Conversation {
    let mut conversation = Conversation::default();
    for event in events {
        conversation.observe(event.as_bytes());
    }
    conversation
}

fn messages(conversation: &Conversation) -> Value {
    serde_json::from_slice(&conversation.messages_json()).expect("JSON")
}

fn state(conversation: &Conversation) -> Value {
    serde_json::from_slice(&conversation.state_json()).expect("JSON")
}

#[test]
fn a_turn_with_a_tool() {
    let conversation = fold(&[
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"messages":[{"id":"u","role":"user","content":"hi"}]}}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hel"}"#,
        r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"a\""}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"lo","metadata":{"k":1}}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":":1}"}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"n","name":"N","subagentRunId":"s"}"#,
        r#"{"type":"TOOL_CALL_RESULT","messageId":"tr","toolCallId":"c","content":"done"}"#,
        r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1}]}"#,
        r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/b","value":1},{"op":"remove","path":"/x"}]}"#,
    ]);
    assert_eq!(
        messages(&conversation),
        json!([
            {"id":"u","role":"user","content":"hi"},
            {"id":"m","role":"assistant","content":"Hello","metadata":{"k":1},"toolCalls":[
                {"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
            {"id":"tr","role":"tool","content":"done","toolCallId":"c"},
            {"id":"n","role":"assistant","content":"","name":"N","subagentRunId":"s"},
        ])
    );
    assert_eq!(state(&conversation), json!({"a":1}));
    assert_eq!(conversation.skipped_deltas(), 1);
    assert!(conversation.contains("tr") && !conversation.contains("x"));
    assert!(conversation.pending_tool_calls().is_empty());
}

/// The schemas of the client strip properties that they do not describe. Readers of Threadline may know more.
#[test]
fn unknown_properties_of_whole_messages_are_kept() {
    let whole = json!([
        {"id":"a","role":"assistant","content":"x","x":{"y":[1]},"toolCalls":[
            {"id":"c","type":"function","function":{"name":"f","arguments":"{}","z":1},"z":2}]},
        {"id":"b","role":"of-tomorrow","content":{"any":"thing"},"toolCalls":"odd"},
        {"id":"u","role":"user","content":[{"type":"binary","mimeType":"image/png","id":"f","x":null}]},
    ]);
    for event in [
        json!({"type":"MESSAGES_SNAPSHOT","messages":whole}),
        json!({"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"messages":whole}}),
    ] {
        let conversation = fold(&[&event.to_string()]);
        assert_eq!(messages(&conversation), whole);
        assert_eq!(messages(&Conversation::decode(&conversation.encode()).expect("stored")), whole);
    }
}

#[test]
fn whole_messages_that_are_none_are_passed_over() {
    let conversation = fold(&[
        r#"{"type":"MESSAGES_SNAPSHOT","messages":[7,{"id":"x"},{"role":"user"},{"id":1,"role":"user"},null,
            {"id":"a","role":"assistant","content":null,"toolCalls":null,"subagentRunId":null},
            {"id":"b","role":"assistant","toolCalls":[{"id":"c"},{"id":"d","function":{"name":"f","arguments":""}}]}]}"#,
    ]);
    assert_eq!(
        messages(&conversation),
        json!([{"id":"a","role":"assistant"},
            {"id":"b","role":"assistant","toolCalls":[{"id":"d","function":{"name":"f","arguments":""}}]}])
    );
    assert_eq!(conversation.pending_tool_calls(), ["d"]);
}

#[test]
fn halves_of_characters_meet_across_deltas_and_storage() {
    let mut conversation = fold(&[
        r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"\ud800","role":"user","content":"x\ud83d","name":"\udc00"}]}"#,
        r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f\ud800","parentMessageId":"p"}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"\"\ud83d"}"#,
    ]);
    let text = String::from_utf8(conversation.messages_json()).expect("UTF-8");
    assert!(text.contains(r#""content":"x\ud83d""#) && text.contains(r#""arguments":"\"\ud83d""#), "{text}");
    assert_eq!(conversation.encode(), Conversation::decode(&conversation.encode()).expect("stored").encode());
    conversation = Conversation::decode(&conversation.encode()).expect("stored");
    for event in [
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"\udbff","delta":"\ude00"}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"\ude00\"","metadata":{"\ud800":"\udfff"}}"#,
        r#"{"\ud800":1,"type":"STATE_SNAPSHOT","snapshot":["\ud800"]}"#,
    ] {
        conversation.observe(event.as_bytes());
    }
    assert_eq!(
        messages(&conversation),
        json!([{"id":"\u{fffd}","role":"user","content":"x😀","name":"\u{fffd}"},
            {"id":"p","role":"assistant","toolCalls":[{"id":"c","type":"function",
                "function":{"name":"f\u{fffd}","arguments":"\"😀\""},"metadata":{"\u{fffd}":"\u{fffd}"}}]}])
    );
    assert_eq!(state(&conversation), json!(["\u{fffd}"]));
}

fn asking(ids: &[&str]) -> String {
    let interrupts: Vec<_> = ids.iter().map(|id| json!({"id":id,"reason":"r"})).collect();
    json!({"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":interrupts}}).to_string()
}

fn answering(ids: &[&str]) -> String {
    let resume: Vec<_> = ids.iter().map(|id| json!({"interruptId":id,"status":"resolved"})).collect();
    json!({"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"resume":resume}}).to_string()
}

fn open(conversation: &Conversation) -> Vec<String> {
    conversation.open_interrupts().map(str::to_owned).collect()
}

const FINISHED: &[u8] = br#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#;

#[test]
fn an_interrupt_waits_until_a_run_has_finished_that_answers_it() {
    let waiting = |conversation: &Conversation| String::from_utf8(conversation.interrupts_json()).expect("UTF-8");
    let mut conversation = fold(&[r#"{"type":"RUN_FINISHED","threadId":"t","runId":"1","outcome":{"type":"interrupt",
            "interrupts":[{"id":"i","reason":"r","subagentRunId":null},7,{"id":"\ud800"}]}}"#]);
    let both = "[{\"id\":\"i\",\"reason\":\"r\"},{\"id\":\"\u{fffd}\"}]";
    for event in [
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"2"}"#,
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"2"}"#,
        r#"{"type":"RUN_FINISHED","outcome":{"type":"success"}}"#,
        &answering(&["i"]),
        r#"{"type":"RUN_ERROR","message":"no"}"#,
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"3"}"#,
        &answering(&["other"]),
        r#"{"type":"RUN_FINISHED"}"#,
        r#"{"type":"RUN_STARTED","input":{"resume":[{"interruptId":"i"},"i",{"interruptId":"i","status":"perhaps"}]}}"#,
        r#"{"type":"RUN_FINISHED"}"#,
        r#"{"type":"RUN_STARTED","input":{"forwardedProps":{"command":{"resume":"yes"}}}}"#,
        // Requested by another producer under the same id, it is the interrupt that was requested before.
        r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"another"}]}}"#,
    ] {
        conversation.observe(event.as_bytes());
        assert_eq!(waiting(&conversation), both, "{event}");
    }
    // A number beyond any double is for the agent to judge.
    conversation.observe(
        br#"{"type":"RUN_STARTED","input":{"resume":[{"interruptId":"i","status":"cancelled","payload":1e999},
        {"interruptId":"\udfff","status":"resolved"}]}}"#,
    );
    assert_eq!(waiting(&conversation), both, "it has not finished");
    let mut stored = Conversation::decode(&conversation.encode()).expect("its own bytes");
    for conversation in [&mut conversation, &mut stored] {
        conversation.observe(FINISHED);
        assert_eq!(waiting(conversation), "[]");
    }
}

#[test]
fn an_answered_interrupt_is_settled_until_its_id_waits_again() {
    let is_settled =
        |conversation: &Conversation, id: &str| conversation.settled_interrupts().any(|settled| settled == id);
    let mut conversation = fold(&[&asking(&["a", "b"]), &answering(&["a"])]);
    assert_eq!((open(&conversation), is_settled(&conversation, "a")), (vec!["a".into(), "b".into()], false));
    conversation.observe(asking(&["c"]).as_bytes());
    assert_eq!(open(&conversation), ["b", "c"]);
    let mut stored = Conversation::decode(&conversation.encode()).expect("its own bytes");
    for conversation in [&mut conversation, &mut stored] {
        assert_eq!(["a", "b", "c", "d"].map(|id| is_settled(conversation, id)), [true, false, false, false]);
        conversation.observe(answering(&["b", "c"]).as_bytes());
        conversation.observe(FINISHED);
        assert_eq!(["a", "b", "c", "d"].map(|id| is_settled(conversation, id)), [true, true, true, false]);
        conversation.observe(asking(&["a"]).as_bytes());
        assert_eq!((open(conversation), is_settled(conversation, "a")), (vec!["a".into()], false));
        conversation.observe(answering(&["a"]).as_bytes());
        // The interrupt is requested once more under the same id.
        conversation.observe(asking(&["a"]).as_bytes());
        assert_eq!((open(conversation), is_settled(conversation, "a")), (vec!["a".into()], false));
        conversation.observe(answering(&["a"]).as_bytes());
        conversation.observe(FINISHED);
    }
    // Interrupts without an id, or with one too long to be given back, wait for the next run; very many are not
    // remembered.
    let long = "x".repeat(MAX_ID_BYTES + 1);
    conversation.observe(asking(&[&long]).as_bytes());
    let nameless = r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"reason":"r"},{"id":7}]}}"#;
    conversation.observe(nameless.as_bytes());
    assert_eq!((open(&conversation).len(), is_settled(&conversation, &long)), (0, false));
    let many: Vec<_> = (0..=MAX_SETTLED_INTERRUPTS).map(|at| format!("{at:04}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    conversation.observe(asking(&many).as_bytes());
    conversation.observe(answering(&many).as_bytes());
    conversation.observe(FINISHED);
    assert_eq!(
        ["a", many[0], many[1], many[MAX_SETTLED_INTERRUPTS]].map(|id| is_settled(&conversation, id)),
        [false, false, true, true]
    );
}

#[test]
fn unanswered_interrupts_are_bounded_and_the_oldest_stay() {
    let many: Vec<_> = (0..=MAX_OPEN_INTERRUPTS).map(|at| at.to_string()).collect();
    let mut conversation = fold(&[&asking(&["first"])]);
    conversation.observe(asking(&many.iter().map(String::as_str).collect::<Vec<_>>()).as_bytes());
    assert_eq!(open(&conversation).len(), MAX_OPEN_INTERRUPTS + 2);
    conversation.observe(FINISHED);
    assert_eq!((open(&conversation).len(), open(&conversation)[0].as_str()), (MAX_OPEN_INTERRUPTS, "first"));
    // One input can answer all that are open.
    let more: Vec<_> = (0..=MAX_INPUT_ITEMS).map(|at| format!("more {at}")).collect();
    conversation.observe(asking(&more.iter().map(String::as_str).collect::<Vec<_>>()).as_bytes());
    assert_eq!((open(&conversation).len(), open(&conversation)[0].as_str()), (MAX_INPUT_ITEMS, "first"));
    let mut conversation = fold(&[&asking(&["first"])]);
    let large = json!({"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[
        {"id":"large","reason":"x".repeat(MAX_OPEN_INTERRUPT_BYTES)}]}});
    conversation.observe(large.to_string().as_bytes());
    conversation.observe(FINISHED);
    assert_eq!(open(&conversation), ["first"]);
}

#[test]
fn malformed_events_change_nothing() {
    let good = [
        r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"user","delta":"x","metadata":{"a":1}}"#,
        r#"{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","delta":"\ud83d\ude00"}"#,
        r#"{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":[{"type":"text","text":"x"}]}"#,
        r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"t","content":{"k":[1]},"replace":false}"#,
        r#"{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"t","patch":[{"op":"remove","path":"/k/0"}]}"#,
        r#"{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"m","encryptedValue":"e"}"#,
        r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"user","content":"\ud83d"}]}"#,
    ];
    for event in good {
        for at in 0..event.len() {
            let empty = Conversation::default().encode();
            assert_eq!(fold(&[&event[..at]]).encode(), empty, "cut: {}", &event[..at]);
            for byte in [b'"', b'\\', b'{', b'[', b'9', b'x', b' ', 0xff] {
                // The outcome of a changed byte is open, but it must not panic.
                let mut other = event.as_bytes().to_vec();
                other[at] = byte;
                let mut conversation = fold(&good);
                conversation.observe(&other);
                assert!(Conversation::decode(&conversation.encode()).is_some());
            }
        }
    }
    for event in [
        r#"{"type":"TEXT_MESSAGE_START","messageId":7}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"tool"}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","subagentRunId":null}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","metadata":[]}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#,
        r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}"#,
        r#"{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":{}}"#,
        r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"t","content":[]}"#,
        r#"{"type":"STATE_SNAPSHOT"}"#,
        r#"{"type":"OF_TOMORROW","messageId":"m"}"#,
        r#"["type"]"#,
    ] {
        assert_eq!(fold(&[event]).encode(), Conversation::default().encode(), "{event}");
    }
}

#[test]
fn bytes_that_no_encoder_wrote_are_not_decoded() {
    assert!(Conversation::decode(b"").is_none() && Conversation::decode(b"{}").is_none());
    let stored = String::from_utf8(Conversation::default().encode()).expect("UTF-8");
    let other = stored.replace(&format!("\"version\":{}", Conversation::VERSION), "\"version\":0");
    assert_ne!(stored, other);
    assert!(Conversation::decode(other.as_bytes()).is_none());
    assert!(Conversation::decode(stored.as_bytes()).is_some());
}

/// Values as deep as an event may be are read, stored and written again.
#[test]
fn deep_values_survive_storage() {
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let object = format!("{{\"k\":{}{}}}", "[".repeat(126), "]".repeat(126));
    let conversation = fold(&[
        &format!(r#"{{"type":"STATE_SNAPSHOT","snapshot":{deep}}}"#),
        &format!(r#"{{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"t","content":{object}}}"#),
    ]);
    assert_eq!(conversation.state_json(), deep.as_bytes());
    let stored = Conversation::decode(&conversation.encode()).expect("stored");
    assert_eq!(stored.encode(), conversation.encode());
    assert!(String::from_utf8(stored.messages_json()).expect("UTF-8").contains(&object));
}

#[test]
fn numbers_are_the_same_after_a_snapshot() {
    // A number that is shown reads as the same number, with the digits that JavaScript has.
    for (sent, shown) in [
        ("1111111511011111111111", "1.1111115110111111e+21"),
        ("5e-324", "5e-324"),
        ("2.2250738585072011e-308", "2.225073858507201e-308"),
        ("0.1", "0.1"),
        ("9007199254740993.0", "9007199254740992.0"),
    ] {
        let mut conversation = Conversation::default();
        conversation.observe(format!("{{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":[{sent}]}}").as_bytes());
        let state = String::from_utf8(conversation.state_json()).expect("text");
        assert_eq!(state, format!("[{shown}]"), "{sent}");
        let again = Conversation::decode(&conversation.encode()).expect("a conversation");
        assert_eq!(again.state_json(), state.as_bytes(), "{sent}");
    }
}
