//! Events between two attempts of a run: they end what the attempt before left open, name it, and bring messages and state
//! back to what they were. All are standard events of AG-UI, so that every client folds to the same without knowing of
//! attempts.

use serde_json::json;

use crate::{
    EventError, NewEvents, Seq,
    event::BatchBuilder,
    projection::{
        closing::OpenParts,
        conversation::{Conversation, message_snapshots},
    },
};

/// Name of the CUSTOM event that names an attempt.
pub const ATTEMPT: &str = "threadline.attempt";

/// Next attempt of a run, as the log names it.
#[derive(Debug, Clone, Copy)]
pub struct NextAttempt {
    /// Number of the attempt.
    pub number: u64,
    /// Fate of the driver before.
    pub reason: &'static str,
    /// Seqs of the first and of the last event of the attempt before.
    pub superseded: (Seq, Seq),
}

/// Events that supersede an attempt. `open` has the run's events so far, `now` is the conversation after them, and `kept` the
/// conversation that they leave. Fails if a list of messages is larger than an event.
pub fn superseding(
    next: NextAttempt,
    open: &OpenParts,
    mut now: Conversation,
    kept: &Conversation,
) -> Result<NewEvents, EventError> {
    let mut batch = BatchBuilder::default();
    let mut push = |event: String, now: &mut Conversation| {
        now.observe(event.as_bytes());
        batch.push_line(event.as_bytes())
    };
    for closer in open.part_closers(false) {
        push(closer.to_string(), &mut now)?;
    }
    let NextAttempt { number, reason, superseded: (from, to) } = next;
    let value = json!({ "attempt": number, "reason": reason, "superseded": [from, to] });
    push(json!({ "type": "CUSTOM", "name": ATTEMPT, "value": value }).to_string(), &mut now)?;
    let state = kept.state_json();
    if now.state_json() != state {
        let state = String::from_utf8_lossy(&state);
        push(format!("{{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{state}}}"), &mut now)?;
    }
    let messages = kept.messages_json();
    if now.messages_json() != messages {
        let list = String::from_utf8_lossy(&messages);
        let list = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or_default();
        let first = kept.messages().next().map(|message| message.id());
        let is_reached = |reached: &Conversation| reached.messages_json() == messages;
        for snapshot in message_snapshots(&now, list, first, is_reached) {
            push(snapshot, &mut now)?;
        }
    }
    batch.finish()
}
