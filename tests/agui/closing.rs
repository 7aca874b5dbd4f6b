//! The events that close a run are accepted by the clients, old and new, wherever its producer stopped.

use threadline_core::projection::closing::{Ending, OpenParts};

use crate::{
    generate::stream,
    node::{self, Client},
    rng::{Rng, seed},
};

const STREAMS: u64 = 100;

fn is(event: &str, kind: &str) -> bool {
    event.contains(&format!("\"type\":\"{kind}\""))
}

/// The events, and the closers of the run that they end in.
fn closed(events: &[String], ending: &Ending) -> Vec<String> {
    let start = events.iter().rposition(|event| is(event, "RUN_STARTED")).unwrap_or(0);
    let mut open = OpenParts::default();
    for event in &events[start..] {
        open.observe(event.as_bytes());
    }
    let closers = open.closers("t", "r", ending);
    let closers = std::str::from_utf8(closers.body()).expect("UTF-8").lines().map(str::to_owned);
    events.iter().cloned().chain(closers).collect()
}

/// Asks for each beginning that the client accepts whether it accepts it closed. How many there were.
fn assert_closable(client: Client, beginnings: &[Vec<String>]) -> usize {
    let failed = Ending::Error { code: "lease-expired".into(), message: "The producer fell silent.".into() };
    let cases: Vec<_> = beginnings
        .iter()
        .flat_map(|events| [events.clone(), closed(events, &Ending::Finished), closed(events, &failed)])
        .collect();
    let outcomes = node::fold(client, &cases);
    let mut accepted = 0;
    for (cases, outcomes) in cases.chunks(3).zip(outcomes.chunks(3)) {
        if outcomes[0].error.is_some() {
            continue;
        }
        accepted += 1;
        for (case, outcome) in cases.iter().zip(outcomes) {
            assert_eq!(outcome.error, None, "{client:?} refuses the end of\n{}", case.join("\n"));
        }
    }
    accepted
}

fn beginnings() -> Vec<Vec<String>> {
    let seed = seed();
    let mut rng = Rng::new(seed, u64::MAX);
    let cut = |number| {
        let mut events = stream(seed, 5_000 + number);
        events.truncate(rng.between(1, events.len() as u64) as usize);
        if events.last().is_some_and(|event| is(event, "RUN_FINISHED") || is(event, "RUN_ERROR")) {
            events.pop();
        }
        events
    };
    (0..STREAMS).map(cut).collect()
}

#[test]
fn parts_that_a_producer_leaves_open_are_closed_for_the_client() {
    let accepted = assert_closable(Client::New, &beginnings());
    assert!(accepted > STREAMS as usize * 9 / 10, "{accepted} of {STREAMS}");
}

#[test]
fn parts_that_a_producer_leaves_open_are_closed_for_the_older_client() {
    let accepted = assert_closable(Client::Old, &beginnings());
    println!("{accepted} of {STREAMS} were accepted by the client of before");
    assert!(accepted > STREAMS as usize / 10, "{accepted} of {STREAMS}");
}

#[test]
fn corners_are_closed_for_both_clients() {
    let cases = [
        &[][..],
        &[r#"{"type":"THINKING_START"}"#, r#"{"type":"THINKING_TEXT_MESSAGE_START"}"#],
        &[r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"x"}"#],
        &[
            r#"{"type":"TEXT_MESSAGE_START","messageId":"n","role":"assistant"}"#,
            r#"{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","delta":"x"}"#,
        ],
        &[
            r#"{"type":"REASONING_START","messageId":"m"}"#,
            r#"{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}"#,
            r#"{"type":"STEP_STARTED","stepName":"s"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"n","role":"assistant"}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#,
        ],
        &[
            r#"{"type":"SUBAGENT_STARTED","subagentRunId":"a","name":"n"}"#,
            r#"{"type":"STEP_STARTED","stepName":"s"}"#,
            r#"{"type":"STEP_STARTED","stepName":"s","subagentRunId":"a"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant","subagentRunId":"a"}"#,
        ],
    ];
    let cases: Vec<Vec<String>> = cases
        .iter()
        .map(|events| {
            let start = [r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#];
            start.iter().chain(events.iter()).map(|event| (*event).to_owned()).collect()
        })
        .collect();
    for client in [Client::New, Client::Old] {
        assert_eq!(assert_closable(client, &cases), cases.len(), "{client:?}");
    }
    // A snapshot that gives an open message to another author: unknown to the old client.
    let reowned = [
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant","subagentRunId":"a"}"#,
        r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","content":""}]}"#,
    ];
    assert_eq!(assert_closable(Client::New, &[reowned.map(str::to_owned).to_vec()]), 1);
}

#[test]
fn a_run_without_events_is_accepted() {
    for client in [Client::New, Client::Old] {
        let outcome = node::fold(client, &[closed(&[], &Ending::Finished)]).remove(0);
        assert_eq!(outcome.error, None, "{client:?}");
    }
}
