//! Streams of hand-written runs.

use super::*;
use crate::limits::{MAX_OPEN_PARTS, MAX_RESPONSE_BYTES, MAX_RESPONSE_RESULT_BYTES};

#[test]
fn a_text_is_an_item_with_one_part() {
    let events = told(&[started(), said("m", "he\"l"), said("m", ""), said("m", "lo"), finished()]);
    let place = json!({"item_id":"msg_m","output_index":0,"content_index":0});
    let with = |kind: &str, sequence: u64, more: Value| {
        let mut event = place.clone();
        event["type"] = kind.into();
        event["sequence_number"] = sequence.into();
        for (name, value) in more.as_object().expect("an object") {
            event[name] = value.clone();
        }
        event
    };
    let part = |text: &str| json!({"type":"output_text","text":text,"annotations":[],"logprobs":[]});
    let item = |status: &str, content: Value| json!({"type":"message","id":"msg_m","status":status,"role":"assistant","content":content});
    let expected = [
        json!({"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":item("in_progress", json!([]))}),
        with("response.content_part.added", 3, json!({"part":part("")})),
        with("response.output_text.delta", 4, json!({"delta":"he\"l","logprobs":[]})),
        with("response.output_text.delta", 5, json!({"delta":"lo","logprobs":[]})),
        with("response.output_text.done", 6, json!({"text":"he\"llo","logprobs":[]})),
        with("response.content_part.done", 7, json!({"part":part("he\"llo")})),
        json!({"type":"response.output_item.done","sequence_number":8,"output_index":0,
            "item":item("completed", json!([part("he\"llo")]))}),
    ];
    assert_eq!(events[..7], expected);
    assert_eq!(
        events[7]["response"],
        json!({
            "id":"resp_1","object":"response","created_at":1_700_000_000,"status":"completed","completed_at":1_700_000_002,
            "error":null,"incomplete_details":null,"model":"agent","previous_response_id":null,
            "conversation":{"id":"conv_t"},"background":false,"store":true,"usage":null,"instructions":null,
            "metadata":{"k":"v"},"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"temperature":0.5,"top_p":1,
            "presence_penalty":0,"frequency_penalty":0,"top_logprobs":0,"max_output_tokens":null,"max_tool_calls":null,
            "reasoning":null,"text":{"format":{"type":"text"}},"truncation":"disabled","service_tier":"default",
            "safety_identifier":null,"prompt_cache_key":null,"user":null,
            "output":[item("completed", json!([part("he\"llo")]))],
        })
    );
}

#[test]
fn calls_and_reasoning_are_items_and_parts_may_interleave() {
    let think = |delta: &str| json!({"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":delta});
    let [begin, args, end] = call("c", "f", "{\"x\":1}");
    let result = json!({"type":"TOOL_CALL_RESULT","messageId":"o","toolCallId":"c","content":"2"});
    let empty = call("d", "g", "");
    let events = told(&[
        started(),
        think("a"),
        begin,
        said("m", "b"),
        args,
        think("c"),
        end,
        result,
        empty[0].clone(),
        finished(),
    ]);
    let output = &events.last().expect("an end")["response"]["output"];
    assert_eq!(
        output,
        &json!([
            {"type":"reasoning","id":"rs_m","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"ac"}]},
            {"type":"function_call","id":"fc_c","status":"completed","call_id":"c","name":"f","arguments":"{\"x\":1}"},
            {"type":"message","id":"msg_m","status":"completed","role":"assistant",
                "content":[{"type":"output_text","text":"b","annotations":[],"logprobs":[]}]},
            {"type":"function_call","id":"fc_d","status":"completed","call_id":"d","name":"g","arguments":"{}"},
        ])
    );
}

#[test]
fn a_call_that_the_agent_executes_has_its_result() {
    let result = |content: Value| json!({"type":"TOOL_CALL_RESULT","messageId":"o","toolCallId":"c","content":content});
    let [begin, args, end] = call("c", "calc", "{\"x\":1}");
    let events = told(&[
        started(),
        begin.clone(),
        args,
        end.clone(),
        end.clone(),
        result(json!("\"4")),
        said("m", "a"),
        finished(),
    ]);
    let item = |status: &str, arguments: &str, output: Value| {
        json!({"type":"mcp_call","id":"mcp_c","status":status,"name":"calc","server_label":"threadline",
            "arguments":arguments,"output":output,"error":null})
    };
    let expected = [
        ("response.output_item.added", json!({"item":item("in_progress", "", Value::Null)})),
        ("response.mcp_call.in_progress", json!({"item_id":"mcp_c"})),
        ("response.mcp_call_arguments.delta", json!({"item_id":"mcp_c","delta":"{\"x\":1}"})),
        ("response.mcp_call_arguments.done", json!({"item_id":"mcp_c","arguments":"{\"x\":1}"})),
        ("response.mcp_call.completed", json!({"item_id":"mcp_c"})),
        ("response.output_item.done", json!({"item":item("completed", "{\"x\":1}", json!("\"4"))})),
    ];
    for (event, (kind, more)) in events.iter().zip(expected) {
        let mut expected = more;
        expected["type"] = kind.into();
        expected["sequence_number"] = event["sequence_number"].clone();
        expected["output_index"] = 0.into();
        assert_eq!(event, &expected);
    }
    // Parts are their JSON, a call may lack its end, and one without a result is incomplete.
    let parts = told(&[started(), begin.clone(), result(json!([{"type":"text","text":"4"}])), finished()]);
    let of = |events: &[Value]| events.last().expect("an end")["response"]["output"][0].clone();
    assert_eq!(of(&parts), item("completed", "{}", json!("[{\"type\":\"text\",\"text\":\"4\"}]")));
    assert_eq!(of(&told(&[started(), begin, end, finished()])), item("incomplete", "{}", Value::Null));
}

#[test]
fn messages_of_others_state_and_activities_give_no_item() {
    let events = told(&[
        started(),
        json!({"type":"TEXT_MESSAGE_START","messageId":"u","role":"user"}),
        said("u", "mine"),
        json!({"type":"TEXT_MESSAGE_START","messageId":"s","role":"assistant","subagentRunId":"a"}),
        said("s", "its"),
        json!({"type":"TEXT_MESSAGE_START","messageId":"e","role":"assistant"}),
        json!({"type":"TEXT_MESSAGE_END","messageId":"e"}),
        json!({"type":"STATE_SNAPSHOT","snapshot":{}}),
        json!({"type":"CUSTOM","name":"x","value":1}),
        json!({"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"x","content":{}}),
        json!({"type":"STEP_STARTED","stepName":"s"}),
        finished(),
    ]);
    assert_eq!(kinds(&events), ["response.completed"]);
}

#[test]
fn a_character_that_is_cut_comes_as_one_piece() {
    let (mut stream, mut out) = (ResponseStream::new(header()), Vec::new());
    let deltas = [r"a\ud83d", r"\ude00b", r"\ude00", r"\ud83d"];
    for (place, delta) in deltas.iter().enumerate() {
        let event = format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"{delta}"}}"#);
        stream.observe(event.as_bytes(), time(place), &mut out);
    }
    stream.observe(finished().to_string().as_bytes(), time(9), &mut out);
    let mut client = Accumulator::default();
    out.iter().for_each(|event| client.take(&value_of(event)));
    assert_eq!(client.items()[0]["content"][0]["text"], "a😀b\u{fffd}\u{fffd}");
}

#[test]
fn ids_are_used_once() {
    let end = json!({"type":"TEXT_MESSAGE_END","messageId":"m"});
    let again = call("c", "other", "9");
    let mut run = vec![started(), said("m", "a"), end.clone(), said("m", "b"), end, said("m#2", "c")];
    run.extend(call("c", "f", "1"));
    run.extend(again);
    run.push(json!({"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"t"}));
    run.push(finished());
    let events = told(&run);
    let output = events.last().expect("an end")["response"]["output"].as_array().expect("a list").clone();
    let ids: Vec<&str> = output.iter().filter_map(|item| item["id"].as_str()).collect();
    assert_eq!(ids, ["msg_m", "msg_m#2", "msg_m#2#1", "fc_c", "rs_#1"]);
    assert_eq!((&output[3]["name"], &output[3]["arguments"]), (&json!("f"), &json!("1")));
}

#[test]
fn a_snapshot_gives_what_was_not_streamed() {
    let user = |id: &str| json!({"id":id,"role":"user","content":"hi"});
    let answer = |id: &str| json!({"id":id,"role":"assistant","content":id});
    let texts = |input: Value, messages: Value| {
        let mut begin = started();
        begin["input"] = input;
        let snapshot = json!({"type":"MESSAGES_SNAPSHOT","messages":messages});
        let end = json!({"type":"TEXT_MESSAGE_END","messageId":"s"});
        let events = told(&[begin, said("s", "s"), end, snapshot, finished()]);
        let output = events.last().expect("an end")["response"]["output"].clone();
        let output = output.as_array().expect("a list").iter();
        output.map(|item| item["content"][0]["text"].as_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    let tool = json!({"id":"o","role":"tool","toolCallId":"c","content":"1"});
    let brought = json!({"messages":[user("u")]});
    assert_eq!(texts(brought, json!([answer("old"), user("u"), answer("s"), answer("b")])), ["s", "b"]);
    let result = json!({"messages":[tool]});
    assert_eq!(texts(result, json!([user("u"), answer("old"), tool, answer("b")])), ["s", "b"]);
    assert_eq!(texts(json!({}), json!([user("u"), answer("old"), tool, answer("b")])), ["s", "b"]);
    assert_eq!(texts(json!({}), json!([answer("old")])), ["s"]);
}

#[test]
fn interrupts_ask_for_approvals() {
    let mut run = vec![started()];
    run.extend(call("c", "send", "{\"to\":\"a\"}"));
    run.push(json!({"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[
        {"id":"i","reason":"tool_call","toolCallId":"c"},
        {"id":"i","reason":"again"},
        {"id":"j","reason":"input_required","message":"which?"},
    ]}}));
    let events = told(&run);
    let response = &events.last().expect("an end")["response"];
    assert_eq!(response["status"], "completed");
    assert_eq!(
        response["output"].as_array().expect("a list")[1..],
        [
            json!({"type":"mcp_approval_request","id":"mcpr_i","name":"send","server_label":"threadline",
                "arguments":"{\"to\":\"a\"}"}),
            json!({"type":"mcp_approval_request","id":"mcpr_j","name":"input_required","server_label":"threadline",
                "arguments":"{\"id\":\"j\",\"reason\":\"input_required\",\"message\":\"which?\"}"}),
        ]
    );
}

#[test]
fn errors_and_stops_end_what_is_open() {
    let usage = json!([
        {"model":"m","inputTokens":3,"outputTokens":5,"reasoningTokens":1,"cachedInputTokens":2},
        {"inputTokens":1,"cacheWriteInputTokens":1,"outputTokens":1.5},
    ]);
    let failed = json!({"type":"RUN_ERROR","message":"no","code":"timeout","usage":usage});
    let events = told(&[started(), said("m", "a"), failed]);
    let response = &events.last().expect("an end")["response"];
    assert_eq!(events.last().expect("an end")["type"], "response.failed");
    assert_eq!(response["error"], json!({"code":"timeout","message":"no"}));
    assert_eq!(response["output"][0]["status"], "incomplete");
    assert_eq!(
        response["usage"],
        json!({"input_tokens":4,"input_tokens_details":{"cached_tokens":2,"cache_write_tokens":1},"output_tokens":5,
            "output_tokens_details":{"reasoning_tokens":1},"total_tokens":9})
    );

    let mut stream = ResponseStream::new(header());
    assert_eq!(serde_json::from_str::<Value>(&stream.response()).expect("JSON")["status"], "queued");
    stream.note_stop();
    let (out, _) = fold(stream, &[started(), said("m", "a"), finished()]);
    let last = value_of(out.last().expect("an end"));
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.incomplete"), &json!("cancelled")));
    let cancelled = json!({"type":"RUN_FINISHED","outcome":{"type":"cancelled"}});
    let events = told(&[started(), cancelled]);
    assert_eq!(events.last().expect("an end")["response"]["status"], "cancelled");
}

#[test]
fn a_run_without_a_start_and_events_after_its_end_do_no_harm() {
    let events = told(&[said("m", "a"), json!({"type":"RUN_ERROR"}), said("m", "b"), finished()]);
    assert_eq!(events.last().expect("an end")["response"]["error"]["code"], "server_error");
    let mut out = Vec::new();
    let mut stream = ResponseStream::new(header());
    for bytes in [&b"\xff"[..], b"{}", b"[]", b"{\"type\":1}"] {
        stream.observe(bytes, time(0), &mut out);
    }
    assert!(out.is_empty());
}

#[test]
fn a_response_is_cut_at_its_limit() {
    let piece = "x".repeat(MAX_RESPONSE_BYTES / 4);
    let mut run = vec![started()];
    run.extend((0..6).map(|_| said("m", &piece)));
    run.extend(call("c", "f", "1"));
    run.push(finished());
    let events = told(&run);
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta").count();
    let last = events.last().expect("an end");
    assert_eq!((deltas, &last["type"]), (3, &json!("response.incomplete")));
    assert_eq!(last["response"]["incomplete_details"], json!({"reason":"max_output_tokens"}));
    assert_eq!(last["response"]["output"].as_array().map(Vec::len), Some(1));
    assert_eq!(last["response"]["output"][0]["status"], "incomplete");
}

#[test]
fn large_results_are_left_out_and_the_answer_is_not() {
    let large = "x".repeat(MAX_RESPONSE_RESULT_BYTES / 2);
    let mut run = vec![started()];
    for id in ["a", "b", "c"] {
        let result = if id == "c" { "small".to_owned() } else { large.clone() + id };
        run.extend(call(id, "calc", "1"));
        run.push(json!({"type":"TOOL_CALL_RESULT","messageId":"o","toolCallId":id,"content":result}));
    }
    run.extend([said("m", "done"), finished()]);
    let events = told(&run);
    let response = &events.last().expect("an end")["response"];
    let outputs: Vec<usize> =
        (0..3).map(|place| response["output"][place]["output"].as_str().map_or(0, str::len)).collect();
    assert_eq!(outputs[0], large.len() + 1);
    assert_eq!(response["output"][1]["output"], format!("[result of {} bytes, left out]", large.len() + 1));
    assert_eq!((outputs[2], &response["status"]), (5, &json!("completed")));
    assert_eq!(response["output"][3]["content"][0]["text"], "done");
}

#[test]
fn arguments_that_interrupts_repeat_count() {
    let mut run = vec![started()];
    run.extend(call("c", "f", &"x".repeat(MAX_RESPONSE_BYTES / 3)));
    let asked: Vec<Value> = (0..9).map(|number| json!({"id":number.to_string(),"toolCallId":"c"})).collect();
    run.push(json!({"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":asked}}));
    let events = told(&run);
    let output = &events.last().expect("an end")["response"]["output"];
    assert_eq!(output.as_array().map(Vec::len), Some(2));
}

#[test]
fn the_oldest_of_too_many_open_items_ends() {
    let mut run = vec![started()];
    run.extend((0..=MAX_OPEN_PARTS).map(|number| said(&format!("m{number}"), "a")));
    run.push(said("m0", "b"));
    run.push(finished());
    let events = told(&run);
    let output = events.last().expect("an end")["response"]["output"].as_array().expect("a list").clone();
    assert_eq!(output.len(), MAX_OPEN_PARTS + 2);
    assert_eq!(output.last().expect("an item")["id"], "msg_m0#2");
}

#[test]
fn numbers_after_a_superseded_attempt_stay() {
    let live = [started(), said("m", "a"), said("kept", "k"), said("m", "b"), said("n", "c"), finished()];
    let (all, _) = fold(ResponseStream::new(header()), &live);
    let mut stream = ResponseStream::new(header());
    let mut out = Vec::new();
    for (place, event) in live.iter().enumerate() {
        let event = event.to_string();
        match place {
            0..4 => stream.observe_superseded(event.as_bytes(), time(place), place == 2, &mut out),
            _ => stream.observe(event.as_bytes(), time(place), &mut out),
        }
    }
    let numbered = |kind: &str, text: &str| {
        let is = |event: &&ResponseEvent| event.kind == kind && String::from_utf8_lossy(&event.json).contains(text);
        let find = |events: &[ResponseEvent]| events.iter().find(is).map(|event| event.sequence);
        (find(&all), find(&out))
    };
    let same = |(live, replayed): (Option<u64>, Option<u64>)| live.is_some() && live == replayed;
    assert!(same(numbered("response.created", "")));
    assert!(same(numbered("response.output_text.delta", "msg_kept")));
    assert!(same(numbered("response.output_text.delta", "msg_n")));
    assert_eq!(numbered("response.output_text.delta", "\"a\"").1, None);
    let last = value_of(out.last().expect("an end"));
    let ids: Vec<&Value> =
        last["response"]["output"].as_array().expect("a list").iter().map(|item| &item["id"]).collect();
    assert_eq!(ids, ["msg_kept", "msg_n"]);
    assert!(out.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
}
