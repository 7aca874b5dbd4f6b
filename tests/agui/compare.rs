//! Values as JavaScript has them: numbers are doubles, and strings may hold halves of characters.

use serde_json::Value;
use threadline_core::projection::conversation::Conversation;

use crate::node::Outcome;

/// JSON, with numbers as doubles.
pub type Json = Value;

/// Stand for the halves of 😀 that are alone, in generated events and in what is compared.
pub const HIGH: &str = "\u{e000}";
pub const LOW: &str = "\u{e001}";

/// An event as JSON text, with real halves.
pub fn event(value: &Value) -> String {
    value.to_string().replace(HIGH, "\\ud83d").replace(LOW, "\\ude00")
}

/// Reads JSON for comparing.
pub fn json(text: &str) -> Json {
    let text = text.replace("\\ud83d", HIGH).replace("\\ude00", LOW);
    doubles(serde_json::from_str(&text).expect("JSON"))
}

/// The same with the halves of a character that follow each other as that character: folds leave them as two escapes.
pub fn whole(text: &str) -> Json {
    json(&text.replace("\\ud83d\\ude00", "😀"))
}

fn doubles(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map(|number| number + 0.0).into(),
        Value::Array(values) => values.into_iter().map(doubles).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, doubles(value))).collect(),
        other => other,
    }
}

fn ours(json_text: Vec<u8>) -> Json {
    json(std::str::from_utf8(&json_text).expect("UTF-8"))
}

pub fn messages(conversation: &Conversation) -> Json {
    ours(conversation.messages_json())
}

pub fn state(conversation: &Conversation) -> Json {
    ours(conversation.state_json())
}

pub fn fold(events: &[String]) -> Conversation {
    let mut conversation = Conversation::default();
    for event in events {
        conversation.observe(event.as_bytes());
    }
    conversation
}

/// The events that the client took in: all of them, or those before the one that it refused.
pub fn taken<'a>(events: &'a [String], outcome: &Outcome) -> &'a [String] {
    if outcome.error.is_none() {
        return events;
    }
    // `seen` counts over all runs: the agent is the same.
    &events[..outcome.seen]
}

/// Asserts that our fold of these events is what the client made of them.
pub fn assert_same(what: &str, events: &[String], outcome: &Outcome) {
    let events = taken(events, outcome);
    let conversation = fold(events);
    let all = || format!("{what}, client's error: {:?}, events:\n{}", outcome.error, events.join("\n"));
    assert_eq!(messages(&conversation), outcome.messages, "messages of {}", all());
    assert_eq!(state(&conversation), outcome.state, "state of {}", all());
    assert_eq!(ours(conversation.interrupts_json()), outcome.interrupts, "interrupts of {}", all());
}
