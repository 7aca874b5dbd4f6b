//! Comparison of the evidence of a run with the log.

use std::fmt;

use serde_json::value::RawValue;
use threadline_core::{
    event::SERVER_MEMBER,
    json,
    projection::conversation::{Conversation, GIVEN},
};

use super::{
    continued::AttemptVerdicts,
    given::{Evidence, StateSource, digest, rebuild},
};

/// Result for one part of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The log gives the part that the agent was given.
    Same,
    /// The log gives another one.
    Different,
    /// The part is not kept.
    NotKept,
    /// The part was built by another version of the fold, and cannot be compared.
    OtherFold,
}

impl Verdict {
    /// Result for a part of which the log gives this text; `None` if it is not kept.
    pub(super) fn of(text: Option<&str>, expected: &str) -> Self {
        match text {
            Some(text) if digest(text) == expected => Self::Same,
            Some(_) => Self::Different,
            None => Self::NotKept,
        }
    }

    /// Result for a part that was built by this version of the fold.
    pub(super) fn of_fold(text: Option<&str>, expected: &str, fold: u32) -> Self {
        match Self::of(text, expected) {
            Self::Different if fold != Conversation::VERSION => Self::OtherFold,
            verdict => verdict,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Same => "same",
            Self::Different => "different",
            Self::NotKept => "not kept",
            Self::OtherFold => "other fold",
        })
    }
}

/// Results for the input of a run.
#[derive(Debug, Clone)]
pub struct Verdicts {
    /// Evidence that the run holds.
    pub evidence: Evidence,
    /// Each part of the input with its result, in a fixed order.
    pub parts: [(&'static str, Verdict); 4],
    /// Results for the attempts that continue others.
    pub attempts: Vec<AttemptVerdicts>,
}

/// Evidence in the RUN_STARTED among the first events of a run; `None` if there is none.
pub fn evidence(first: &[&str]) -> Option<Evidence> {
    let started = of_kind(first, "\"RUN_STARTED\"")?;
    let metadata = json::member(started, "metadata")?;
    serde_json::from_str(json::member(json::member(metadata, SERVER_MEMBER)?, GIVEN)?).ok()
}

/// Compares the evidence with the conversation before the run and the run's first events.
pub fn verify(evidence: Evidence, before: &Conversation, first: &[&str]) -> Verdicts {
    let fold = evidence.fold;
    let messages = messages_of(&evidence, before, first);
    let messages = Verdict::of_fold(messages.as_deref(), &evidence.digests.messages, fold);
    let state = Verdict::of_fold(state_of(&evidence, before, first).as_deref(), &evidence.digests.state, fold);
    let recorded = evidence.recorded.as_ref();
    let tools = Verdict::of(recorded.and_then(|recorded| recorded.tools.as_deref()), &evidence.digests.tools);
    let context = Verdict::of(recorded.and_then(|recorded| recorded.context.as_deref()), &evidence.digests.context);
    let parts = [("messages", messages), ("state", state), ("tools", tools), ("context", context)];
    Verdicts { evidence, parts, attempts: Vec::new() }
}

fn of_kind<'e>(first: &[&'e str], kind: &str) -> Option<&'e str> {
    first.iter().find(|event| json::member(event, "type") == Some(kind)).copied()
}

/// State of the input; `None` if it is not kept.
pub(super) fn state_of(evidence: &Evidence, before: &Conversation, first: &[&str]) -> Option<String> {
    match evidence.state {
        StateSource::Thread => Some(String::from_utf8_lossy(&before.state_json()).into_owned()),
        StateSource::Client => {
            of_kind(first, "\"STATE_SNAPSHOT\"").and_then(|event| json::member(event, "snapshot")).map(str::to_owned)
        }
    }
}

/// Messages of the input, built again; `None` if they are not kept.
pub(super) fn messages_of(evidence: &Evidence, before: &Conversation, first: &[&str]) -> Option<String> {
    let new: Vec<&RawValue> = of_kind(first, "\"RUN_STARTED\"")
        .and_then(|event| json::member(event, "input"))
        .and_then(|input| json::member(input, "messages"))
        .and_then(|messages| serde_json::from_str(messages).ok())
        .unwrap_or_default();
    evidence.messages.log.as_ref().map(|source| rebuild(source, &new, before))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn started(given: &Value) -> String {
        let input = json!({ "messages": [{ "id": "u1", "role": "user", "content": "hi" }] });
        json!({ "type": "RUN_STARTED", "input": input, "metadata": { "threadline": { "given": given } } }).to_string()
    }

    #[test]
    fn another_text_in_the_log_is_seen() {
        let text = json!([{ "id": "u1", "role": "user", "content": "hi" }]).to_string();
        let given = json!({ "v": 1, "fold": Conversation::VERSION, "trust": "client",
            "messages": { "count": 1, "log": { "start": 0, "end": 0 } },
            "digests": { "messages": digest(&text), "state": digest("{}"), "tools": digest("[]"), "context": digest("[]") },
            "state": "thread", "tools": [], "context": 0, "moved": 0 });
        let parts = |given: &Value, event: &str| {
            let found = evidence(&[event]).expect("evidence");
            assert_eq!(found.fold, given["fold"]);
            verify(found, &Conversation::default(), &[event]).parts.map(|(_, verdict)| verdict)
        };
        let event = started(&given);
        use Verdict::{Different, NotKept, OtherFold, Same};
        assert_eq!(parts(&given, &event), [Same, Same, NotKept, NotKept]);
        assert_eq!(parts(&given, &event.replace("hi", "ho")), [Different, Same, NotKept, NotKept]);
        let mut other = given.clone();
        other["fold"] = json!(1);
        assert_eq!(parts(&other, &started(&other).replace("hi", "ho")), [OtherFold, Same, NotKept, NotKept]);
        assert!(evidence(&[r#"{"type":"RUN_STARTED"}"#]).is_none());
    }
}
