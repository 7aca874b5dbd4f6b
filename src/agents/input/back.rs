//! Runs that begin at an earlier event: their first events restore the messages and the state at that event. Later events stay in the
//! log.

use threadline_core::{
    Seq,
    projection::conversation::{Conversation, message_snapshots},
};

use super::{rules::is_instruction, verify::evidence};

/// Most first events of a run that the server writes: RUN_STARTED, STATE_SNAPSHOT, and the snapshots of messages.
pub const MAX_OPENING_EVENTS: usize = 5;

/// Event that a run went back to, from the first events of the run; `None` if the run continued the thread.
pub fn base_of(first: &[&str]) -> Option<Seq> {
    Some(evidence(first)?.base?.seq)
}

/// True if the newest conversation has instructions for the model that the earlier one does not have.
pub(super) fn has_more_instructions(earlier: &Conversation, newest: &Conversation) -> bool {
    newest.messages().any(|message| is_instruction(message.role()) && !earlier.contains(message.id()))
}

pub(super) fn state_snapshot(state: &str) -> String {
    format!("{{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{state}}}")
}

/// Snapshots after which the newest conversation has this state, and the messages that the earlier one has after RUN_STARTED.
pub(super) fn snapshots(started: &str, state: &str, earlier: &Conversation, newest: &Conversation) -> Vec<String> {
    let (mut wanted, mut now) = (earlier.clone(), newest.clone());
    let mut snapshots = vec![state_snapshot(state)];
    for event in [started, &snapshots[0]] {
        wanted.observe(event.as_bytes());
        now.observe(event.as_bytes());
    }
    let messages = wanted.messages_json();
    let list = String::from_utf8_lossy(&messages);
    let list = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or_default();
    snapshots.extend(message_snapshots(&now, list, |reached| reached.messages_json() == messages));
    snapshots
}
