//! Input of an attempt that continues the ones before: with the messages and the state that they have left in the log.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use threadline_core::{
    Seq, json,
    projection::{conversation::Conversation, superseding::ATTEMPT},
};

use super::{
    given::{Evidence, digest},
    messages::{Array, text_of},
    verify::{Verdict, messages_of, state_of},
};
use crate::agents::{
    reading::{items, whole},
    source::RunInput,
};

/// Evidence of what an agent was given in an attempt that continues others: the member `given` of the CUSTOM event that names the
/// attempt. Tools and context are those of the run.
#[derive(Debug, Serialize, Deserialize)]
struct AttemptEvidence {
    /// Version of the fold with which the messages and the state were built.
    fold: u32,
    /// Number of all messages that the agent was given.
    count: usize,
    digests: AttemptDigests,
}

/// SHA-256 of each part, in hexadecimal, of its JSON text as it was handed to the agent.
#[derive(Debug, Serialize, Deserialize)]
struct AttemptDigests {
    messages: String,
    state: String,
}

/// Gives an input the messages and the state that the attempts before have left. `opening` is the conversation in which the
/// first attempt began, and `left` the one that is left.
pub fn continue_with(input: &mut RunInput, opening: &Conversation, left: &Conversation) {
    input.messages = joined(&input.messages, opening, left);
    if let Some(state) = changed_state(opening, left) {
        input.state = state;
    }
}

/// Evidence of an input that continues others, as JSON.
pub fn evidence_of(input: &RunInput) -> Value {
    let digests = AttemptDigests { messages: digest(&input.messages), state: digest(&input.state) };
    let evidence = AttemptEvidence { fold: Conversation::VERSION, count: items(&input.messages).len(), digests };
    // Serializing cannot fail: the evidence holds only texts and numbers.
    serde_json::to_value(evidence).unwrap_or_default()
}

/// Messages of the run's input, as the attempts have changed them, and then those that they have added.
fn joined(given: &str, opening: &Conversation, left: &Conversation) -> String {
    let readable = whole(given);
    let (mut all, mut ids) = (Array::default(), HashSet::new());
    // Lone surrogates are replaced in a text of the same structure, from which ids are read.
    for (message, readable) in items(given).into_iter().zip(items(&readable)) {
        let id = readable.text("id").unwrap_or_default();
        let stands = |conversation: &Conversation| conversation.message(&id).map(text_of);
        match stands(left).filter(|text| stands(opening).is_some_and(|before| before != *text)) {
            Some(changed) => all.push(&changed),
            None => all.push(message.0),
        }
        ids.insert(id);
    }
    let added = left.messages().filter(|message| {
        message.role() != "activity" && !opening.contains(message.id()) && !ids.contains(message.id())
    });
    added.for_each(|message| all.push_message(message));
    all.finish()
}

fn changed_state(opening: &Conversation, left: &Conversation) -> Option<String> {
    let state = left.state_json();
    (state != opening.state_json()).then(|| String::from_utf8_lossy(&state).into_owned())
}

/// Results for the input of an attempt that continues others.
#[derive(Debug, Clone)]
pub struct AttemptVerdicts {
    /// Number of the attempt.
    pub attempt: u64,
    /// Each part of the input with its result, in a fixed order.
    pub parts: [(&'static str, Verdict); 2],
}

/// CUSTOM event that names an attempt.
#[derive(Debug, Deserialize)]
struct Named {
    attempt: u64,
    given: AttemptEvidence,
    through: Seq,
}

/// Compares the evidence of attempts that continue others with the log.
pub struct Attempts {
    /// Messages of the run's input; `None` if they are not kept.
    messages: Option<String>,
    state: Option<String>,
    opening: Conversation,
    now: Conversation,
    /// Attempt whose superseding events are not complete.
    begun: Option<Named>,
    pub found: Vec<AttemptVerdicts>,
}

impl Attempts {
    /// Begins with the conversation that the run continues, and the first events of the run.
    pub fn new(evidence: &Evidence, before: &Conversation, first: &[&str]) -> Self {
        let state = state_of(evidence, before, first);
        let messages = messages_of(evidence, before, first);
        let mut opening = before.clone();
        first.iter().take(evidence.opening_events()).for_each(|event| opening.observe(event.as_bytes()));
        Self { messages, state, opening, now: before.clone(), begun: None, found: Vec::new() }
    }

    /// Takes in the next event of the run, from the first one on.
    pub fn observe(&mut self, seq: Seq, event: &str) {
        self.now.observe(event.as_bytes());
        if json::string_member(event, "name").as_deref() == Some(ATTEMPT) {
            self.begun = json::member(event, "value").and_then(|value| serde_json::from_str(value).ok());
        }
        if let Some(named) = self.begun.take_if(|named| named.through == seq) {
            self.compare(named);
        }
    }

    fn compare(&mut self, named: Named) {
        let Named { attempt, given, .. } = named;
        let verdict = |text: Option<String>, expected: &str| Verdict::of_fold(text.as_deref(), expected, given.fold);
        let messages = self.messages.as_ref().map(|messages| joined(messages, &self.opening, &self.now));
        let state = changed_state(&self.opening, &self.now).or_else(|| self.state.clone());
        let parts =
            [("messages", verdict(messages, &given.digests.messages)), ("state", verdict(state, &given.digests.state))];
        self.found.push(AttemptVerdicts { attempt, parts });
    }
}
