//! Values of a thread: its state, with its messages as LangChain has them.

use serde_json::value::RawValue;

use super::message::message_of;
use crate::{
    Seq,
    json::{self, quoted},
    limits::MAX_PAGE_BYTES,
    projection::{conversation::Conversation, reading::items},
};

/// Id of the checkpoint after the event with this seq. Ids are compared as texts, so all have the same length.
pub fn checkpoint_id(seq: Seq) -> String {
    format!("{seq:016}")
}

/// Seq of the newest event that a checkpoint includes; `None` for a text that is no id of a checkpoint.
pub fn seq_of_checkpoint(id: &str) -> Option<Seq> {
    let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_digit());
    if is_id { id.parse().ok() } else { None }
}

/// Values after the newest event of the conversation, as a JSON object on one line: the members of the state, and `messages`, the
/// newest ones that fit into [`MAX_PAGE_BYTES`], at least one.
pub fn values_of(conversation: &Conversation) -> String {
    let (mut list, mut bytes) = (Vec::new(), 0);
    let all: Vec<_> = conversation.messages().collect();
    for message in all.into_iter().rev() {
        let mut text = Vec::new();
        message.write_json(&mut text);
        let Some(message) = std::str::from_utf8(&text).ok().and_then(message_of) else { continue };
        bytes += message.len();
        if bytes > MAX_PAGE_BYTES && !list.is_empty() {
            break;
        }
        list.push(one_line(message));
    }
    list.reverse();
    let state = conversation.state_json();
    let state = std::str::from_utf8(&state).unwrap_or_default();
    let mut out = String::from("{");
    let members = if state.starts_with('{') { json::entries(state).collect() } else { Vec::new() };
    for (name, value) in members {
        if !json::is_string(name, "messages") {
            out.push_str(name);
            out.push(':');
            out.push_str(value);
            out.push(',');
        }
    }
    out.push_str("\"messages\":[");
    out.push_str(&list.join(","));
    out.push_str("]}");
    out
}

/// JSON without line breaks, at which frames would be cut: messages that are kept byte for byte may have some between tokens.
fn one_line(json: String) -> String {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ") } else { json }
}

/// Interrupts that wait for an answer, as JSON objects with their ids and values.
pub fn interrupts_of(conversation: &Conversation) -> Vec<Box<RawValue>> {
    let open = conversation.interrupts_json();
    let open = std::str::from_utf8(&open).unwrap_or_default();
    let interrupts = items(Some(open)).filter_map(|interrupt| {
        let id = json::string_member(interrupt, "id")?;
        RawValue::from_string(format!("{{\"id\":{},\"value\":{interrupt}}}", quoted(&id))).ok()
    });
    interrupts.collect()
}
