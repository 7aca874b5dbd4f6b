//! A stored conversation continues where it ended.

use threadline_core::projection::conversation::Conversation;

use crate::{compare::fold, generate::stream, rng::seed};

/// All that can be seen of it.
fn seen(conversation: &Conversation) -> (Vec<u8>, Vec<u8>, Vec<u8>, u64, Vec<u8>) {
    (
        conversation.messages_json(),
        conversation.state_json(),
        conversation.interrupts_json(),
        conversation.skipped_deltas(),
        conversation.encode(),
    )
}

#[test]
fn a_conversation_stored_after_any_event_continues_the_same() {
    let seed = seed();
    for number in 0..40 {
        let events = stream(seed, 1_000 + number);
        let whole = seen(&fold(&events));
        let mut prefix = Conversation::default();
        for at in 0..=events.len() {
            let bytes = prefix.encode();
            let mut stored = Conversation::decode(&bytes).expect("what encode wrote");
            assert_eq!(seen(&stored), seen(&prefix), "stream {number} of seed {seed} at {at}");
            for event in &events[at..] {
                stored.observe(event.as_bytes());
            }
            assert_eq!(seen(&stored), whole, "stream {number} of seed {seed} from {at}");
            if let Some(event) = events.get(at) {
                prefix.observe(event.as_bytes());
            }
        }
    }
}
