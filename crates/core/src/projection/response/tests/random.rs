//! Streams of random runs: each is what clients accept, and a stream that begins later is a suffix of the whole one.

use super::*;

const RUNS: u64 = 400;

/// Source of the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Events of a run, of which each may come at any time.
fn run(seed: u64) -> Vec<Value> {
    let mut dice = Dice(seed);
    let mut events = Vec::new();
    if dice.below(8) > 0 {
        events.push(started());
    }
    for _ in 0..dice.below(40) {
        let message = ["m", "n", "m#2", "o"][dice.below(4) as usize];
        let call = ["c", "d", "e"][dice.below(3) as usize];
        let tool = ["f", "hosted"][dice.below(2) as usize];
        let delta = ["", "a", "b\"\\", "ü\u{2028}", "{\"x\":", "1}"][dice.below(6) as usize];
        let role = ["assistant", "user"][dice.below(2) as usize];
        let mut event = match dice.below(16) {
            0 => {
                json!({"type":"TEXT_MESSAGE_START","messageId":message,"role":role})
            }
            1..4 => said(message, delta),
            4 => json!({"type":"TEXT_MESSAGE_END","messageId":message}),
            5 => json!({"type":"TEXT_MESSAGE_CHUNK","messageId":message,"delta":delta}),
            6 => json!({"type":"TEXT_MESSAGE_CHUNK","delta":delta}),
            7 => json!({"type":"REASONING_MESSAGE_CONTENT","messageId":message,"delta":delta}),
            8 => json!({"type":"REASONING_MESSAGE_END","messageId":message}),
            9 => json!({"type":"TOOL_CALL_START","toolCallId":call,"toolCallName":tool}),
            10 => json!({"type":"TOOL_CALL_ARGS","toolCallId":call,"delta":delta}),
            11 => json!({"type":"TOOL_CALL_END","toolCallId":call}),
            12 => json!({"type":"TOOL_CALL_CHUNK","toolCallId":call,"toolCallName":tool,"delta":delta}),
            13 => json!({"type":"TOOL_CALL_RESULT","messageId":message,"toolCallId":call,"content":"r"}),
            14 => json!({"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":""},
                {"id":message,"role":"assistant","content":delta}]}),
            _ => json!({"type":"STATE_SNAPSHOT","snapshot":{}}),
        };
        if dice.below(20) == 0 {
            event["subagentRunId"] = "s".into();
        }
        events.push(event);
    }
    match dice.below(4) {
        0 => events.push(json!({"type":"RUN_ERROR","message":"no"})),
        1 => events.push(json!({"type":"RUN_FINISHED","outcome":{"type":"interrupt",
            "interrupts":[{"id":"i","toolCallId":"c"},{"id":"j"}]}})),
        2 => events.push(finished()),
        _ => {}
    }
    events
}

#[test]
fn clients_accept_the_streams_of_random_runs() {
    let (mut ended, mut items) = (0, 0);
    for seed in 0..RUNS {
        let events = run(seed);
        if !events.is_empty() {
            let told = told(&events);
            let last = &told.last().map_or(Value::Null, |event| event["response"].clone());
            ended += usize::from(last.is_object());
            items += last["output"].as_array().map_or(0, Vec::len);
        }
    }
    assert!(ended > 200 && items > 1_000, "{ended} ends, {items} items");
}

#[test]
fn a_stream_that_begins_later_is_a_suffix() {
    for seed in 0..RUNS {
        let events = run(seed);
        let (whole, response) = fold(ResponseStream::new(header()), &events);
        assert_eq!(fold(ResponseStream::new(header()), &events).0, whole, "the same events give the same bytes");
        let cuts: Vec<u64> = (0..4).map(|cut| Dice(seed ^ cut).below(whole.len() as u64 + 2)).collect();
        for cut in cuts {
            let mut stream = ResponseStream::new(header());
            stream.skip(cut);
            let (suffix, then) = fold(stream, &events);
            let expected = whole.get(cut as usize + 1..).unwrap_or_default();
            assert_eq!(suffix, expected, "seed {seed}, after {cut}");
            assert_eq!(then, response);
        }
    }
}

#[test]
fn the_object_is_what_a_client_has_at_each_moment() {
    for seed in 0..RUNS / 4 {
        let mut stream = ResponseStream::new(header());
        let mut out = Vec::new();
        for (place, event) in run(seed).iter().enumerate() {
            stream.observe(event.to_string().as_bytes(), time(place), &mut out);
            let object: Value = serde_json::from_str(&stream.response()).expect("JSON");
            let mut client = Accumulator::default();
            out.iter().for_each(|event| client.take(&value_of(event)));
            assert_eq!(client.items(), object["output"], "seed {seed}, event {place}");
            assert_eq!(stream.count(), out.len() as u64);
            assert_eq!(stream.has_ended(), client.ended().is_some());
        }
    }
}
