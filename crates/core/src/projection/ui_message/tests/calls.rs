//! Tool calls, their results and approvals.

use serde_json::{Value, json};

use super::{
    super::{UiMessage, UiStream, continues},
    call, json_of, kinds, told,
};

#[test]
fn a_call_of_the_agent_is_the_providers_and_what_follows_its_result_is_the_next_step() {
    let [start, args, end] = call("c", "search", "{\"q\":\n1}");
    let (chunks, parts) = told(&[
        start,
        args,
        end,
        json!({"type":"TOOL_CALL_RESULT","messageId":"x","toolCallId":"c","content":"{\"hits\":\n[1]}"}),
        json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"one"}),
        json!({"type":"RUN_FINISHED"}),
    ]);
    assert_eq!(
        kinds(&chunks),
        [
            "start-step",
            "tool-input-start",
            "tool-input-delta",
            "tool-input-available",
            "tool-output-available",
            "finish-step",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "finish-step",
            "finish",
        ]
    );
    assert_eq!(chunks[3]["providerExecuted"], true);
    assert_eq!(
        parts[1],
        json!({"type":"dynamic-tool","toolName":"search","toolCallId":"c","providerExecuted":true,"state":"output-available",
            "input":{"q":1},"output":{"hits":[1]}})
    );
    assert_eq!(parts[2], json!({"type":"step-start"}));
}

#[test]
fn a_call_of_the_front_end_is_its_own_and_so_is_one_that_no_agent_executes() {
    let given = json!({"threadline":{"given":{"tools":["locate"]}}});
    let [start, args, end] = call("a", "locate", "");
    let [start2, args2, end2] = call("b", "other", "[1]");
    let (chunks, parts) = told(&[
        json!({"type":"RUN_STARTED","metadata":given}),
        start,
        args,
        end,
        start2,
        args2,
        end2,
        json!({"type":"RUN_FINISHED","outcome":{"type":"success"}}),
    ]);
    let available: Vec<_> = chunks.iter().filter(|chunk| chunk["type"] == "tool-input-available").collect();
    let executed: Vec<_> = available.iter().map(|chunk| (&chunk["toolCallId"], &chunk["providerExecuted"])).collect();
    assert_eq!(executed, [(&json!("a"), &json!(false)), (&json!("b"), &json!(true)), (&json!("b"), &json!(false))]);
    assert_eq!(chunks.last(), Some(&json!({"type":"finish","finishReason":"tool-calls"})));
    assert_eq!((&parts[1]["input"], &parts[2]["input"]), (&json!({}), &json!([1])));
    assert_eq!(parts[2]["providerExecuted"], false);
}

#[test]
fn arguments_that_are_no_json_are_an_error_of_the_call() {
    let [start, args, end] = call("c", "f", "{\"half\": \u{1}");
    let (chunks, parts) = told(&[start, args, end, json!({"type":"RUN_FINISHED"})]);
    assert_eq!(chunks[3]["type"], "tool-input-error");
    assert_eq!((&parts[1]["state"], &parts[1]["input"]), (&json!("output-error"), &json!("{\"half\": \u{1}")));
    assert_eq!(chunks.last(), Some(&json!({"type":"finish","finishReason":"stop"})));
}

#[test]
fn an_approval_is_asked_for_at_the_call_and_its_answer_is_in_the_next_run() {
    let [start, args, end] = call("c", "send", "{}");
    let interrupts = json!([{"id":"i","reason":"tool_call","toolCallId":"c"},{"id":"k","reason":"confirmation"}]);
    let mut stream = UiStream::new("r");
    let (mut chunks, mut message) = (Vec::new(), UiMessage::default());
    let end_of_run = json!({"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":interrupts}});
    for event in [start, args, end, end_of_run] {
        stream.observe(event.to_string().as_bytes(), &mut chunks);
    }
    let seen: Vec<_> = chunks.iter().map(json_of).collect();
    assert_eq!(
        seen[5..],
        [
            json!({"type":"tool-approval-request","approvalId":"i","toolCallId":"c"}),
            json!({"type":"data-interrupt","id":"k","data":interrupts[1]}),
            json!({"type":"finish-step"}),
            json!({"type":"finish","finishReason":"tool-calls"}),
        ]
    );
    chunks.drain(..).for_each(|chunk| message.observe(chunk));
    let shown =
        |message: &UiMessage| serde_json::from_str::<Value>(&message.to_json()).expect("JSON")["parts"][1].clone();
    assert_eq!(
        (&shown(&message)["state"], &shown(&message)["approval"]["id"]),
        (&json!("approval-requested"), &json!("i"))
    );

    let answer = |approved: bool| {
        let resume = json!([{"interruptId":"i","status":"resolved","payload":{"approved":approved}},{"interruptId":"k","status":"cancelled"}]);
        json!({"type":"RUN_STARTED","input":{"messages":[],"resume":resume}})
    };
    assert!(continues(&answer(true).to_string()));
    stream.continued("r2", true);
    stream.observe(answer(false).to_string().as_bytes(), &mut chunks);
    assert_eq!(
        chunks.iter().map(json_of).collect::<Vec<_>>(),
        [
            json!({"type":"start","messageId":"r","messageMetadata":{"runId":"r2"}}),
            json!({"type":"tool-output-denied","toolCallId":"c"}),
        ]
    );
    chunks.drain(..).for_each(|chunk| message.observe(chunk));
    assert_eq!(shown(&message)["state"], "output-denied");
}

#[test]
fn results_that_a_run_brings_are_those_of_the_message() {
    let [start, args, end] = call("c", "locate", "{}");
    let mut stream = UiStream::new("r");
    let mut chunks = Vec::new();
    for event in [start, args, end, json!({"type":"RUN_FINISHED"})] {
        stream.observe(event.to_string().as_bytes(), &mut chunks);
    }
    chunks.clear();
    let brought = json!({"type":"RUN_STARTED","input":{"messages":[{"id":"x","role":"tool","toolCallId":"c","content":"Paris"}]}});
    assert!(continues(&brought.to_string()));
    stream.continued("r2", false);
    stream.observe(brought.to_string().as_bytes(), &mut chunks);
    assert_eq!(
        chunks.iter().map(json_of).collect::<Vec<_>>(),
        [json!({"type":"tool-output-available","toolCallId":"c","output":"Paris"})]
    );
    for other in [
        json!({"type":"RUN_STARTED"}),
        json!({"type":"RUN_STARTED","input":{"messages":[]}}),
        json!({"type":"RUN_STARTED","input":{"messages":[{"role":"tool"},{"role":"user"}]}}),
    ] {
        assert!(!continues(&other.to_string()), "{other}");
    }
}

#[test]
fn arguments_with_a_hole_are_no_input() {
    let piece = "x".repeat(7 * 1024 * 1024);
    let args = |delta: &str| json!({"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":delta});
    let (chunks, parts) = told(&[
        json!({"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}),
        args("{\"to\":\"a"),
        args(&piece),
        args(&piece),
        args(&piece),
        args("\",\"all\":true}"),
        json!({"type":"RUN_FINISHED"}),
    ]);
    assert!(kinds(&chunks).contains(&"tool-input-error") && !kinds(&chunks).contains(&"tool-input-available"));
    assert_eq!(parts[1]["state"], "output-error");
}

#[test]
fn calls_of_one_step_stay_together_until_all_have_results() {
    let mut stream = UiStream::new("r");
    let mut chunks = Vec::new();
    let mut tell = |stream: &mut UiStream, events: &[Value]| {
        chunks.clear();
        events.iter().for_each(|event| stream.observe(event.to_string().as_bytes(), &mut chunks));
        chunks.iter().map(json_of).collect::<Vec<_>>()
    };
    tell(&mut stream, &call("k", "mail", "{}"));
    tell(
        &mut stream,
        &[json!({"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i","toolCallId":"k"}]}})],
    );
    stream.continued("r2", true);
    // A result before the first step of the run cuts no step.
    let result = json!({"type":"TOOL_CALL_RESULT","messageId":"x","toolCallId":"k","content":"sent"});
    let told = tell(&mut stream, &[&[result][..], &call("a", "f", "{}"), &call("b", "f", "{}")].concat());
    assert_eq!(kinds(&told).iter().filter(|kind| kind.ends_with("-step")).count(), 1, "{told:?}");
    // One of two has a result: the text and the approval of the other stay in their step.
    let result = json!({"type":"TOOL_CALL_RESULT","messageId":"y","toolCallId":"a","content":"1"});
    let text = json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Approve, please."});
    let interrupts = json!([{"id":"other"},{"id":"j","toolCallId":"b"}]);
    let end = json!({"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":interrupts}});
    let told = tell(&mut stream, &[result, text, end]);
    assert_eq!(
        kinds(&told),
        [
            "tool-output-available",
            "text-start",
            "text-delta",
            "text-end",
            "tool-approval-request",
            "data-interrupt",
            "finish-step",
            "finish"
        ]
    );
}
