//! Storage form of a conversation: encoding to bytes, and decoding.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{
    Conversation,
    chunks::{Lanes, Stream},
    front_end::FrontEnd,
    interrupts::Interrupts,
    list::List,
    message::{Message, write_value},
    patch, text,
};

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    messages: Vec<&'a Message>,
    state: Box<RawValue>,
    copied: usize,
    purse: i64,
    skipped: u64,
    skipped_numbers: u64,
    interrupts: &'a [Value],
    answered: &'a BTreeSet<Box<str>>,
    settled: &'a VecDeque<Box<str>>,
    front_end: &'a FrontEnd,
    lanes: Vec<(&'a Option<String>, &'a Stream)>,
    thoughts: u64,
    thinking: &'a Option<String>,
}

#[derive(Deserialize)]
struct Read<'a> {
    version: u32,
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow)]
    state: &'a RawValue,
    copied: usize,
    purse: i64,
    skipped: u64,
    skipped_numbers: u64,
    #[serde(borrow)]
    interrupts: Vec<&'a RawValue>,
    answered: BTreeSet<Box<str>>,
    settled: VecDeque<Box<str>>,
    front_end: FrontEnd,
    lanes: Vec<(Option<String>, Stream)>,
    thoughts: u64,
    thinking: Option<String>,
}

pub(super) fn encode(conversation: &Conversation) -> Vec<u8> {
    let mut state = Vec::new();
    write_value(&conversation.state, &mut state);
    let state = String::from_utf8(state).ok().and_then(|state| RawValue::from_string(state).ok());
    let mut lanes: Vec<_> = conversation.lanes.iter().collect();
    // A hash map has no order of its own; the same conversation must give the same bytes.
    lanes.sort_by_key(|(owner, _)| *owner);
    let written = Written {
        version: Conversation::VERSION,
        messages: conversation.messages().collect(),
        state: state.unwrap_or_else(|| RawValue::NULL.to_owned()),
        copied: conversation.copied,
        purse: conversation.purse,
        skipped: conversation.skipped,
        skipped_numbers: conversation.skipped_numbers,
        interrupts: &conversation.interrupts.open,
        answered: &conversation.interrupts.answered,
        settled: &conversation.interrupts.settled,
        front_end: &conversation.front_end,
        lanes,
        thoughts: conversation.thoughts,
        thinking: &conversation.thinking,
    };
    // Names are strings, and every value can be written, so this cannot fail.
    serde_json::to_vec(&written).unwrap_or_default()
}

pub(super) fn decode(bytes: &[u8]) -> Option<Conversation> {
    let read: Read<'_> = serde_json::from_slice(bytes).ok()?;
    if read.version != Conversation::VERSION {
        return None;
    }
    // Each value is parsed on its own, so that each may be as deep as an event.
    let messages: Option<Vec<_>> = read.messages.iter().map(|message| Message::read(message.get())).collect();
    let state = text::value(read.state.get())?;
    let mut lanes = Lanes::default();
    for (owner, stream) in read.lanes {
        lanes.open(owner, stream);
    }
    Some(Conversation {
        messages: List::of(messages?),
        state_size: patch::size(&state),
        state,
        copied: read.copied,
        purse: read.purse,
        skipped: read.skipped,
        skipped_numbers: read.skipped_numbers,
        interrupts: Interrupts {
            open: read.interrupts.iter().map(|value| text::value(value.get())).collect::<Option<_>>()?,
            answered: read.answered,
            settled: read.settled,
        },
        front_end: read.front_end,
        lanes,
        thoughts: read.thoughts,
        thinking: read.thinking,
    })
}
