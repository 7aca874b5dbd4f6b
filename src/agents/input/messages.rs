//! Messages of an agent's input, as a JSON array.

use std::collections::HashMap;

use threadline_core::projection::conversation::{Conversation, Message};

use super::{message::Sent, rules::Window};

/// Message of the log as a JSON object.
pub(super) fn text_of(message: &Message) -> String {
    let mut text = Vec::new();
    message.write_json(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Messages that the conversation lacks.
pub(super) fn new_to<'a>(conversation: &'a Conversation, sent: &'a [Sent]) -> impl Iterator<Item = &'a Sent> {
    sent.iter().filter(|sent| !conversation.contains(&sent.id))
}

/// Messages of a trusted client, with the history before them if the client does not have it.
pub(super) fn believed(sent: &[Sent], whole: bool, conversation: &Conversation) -> String {
    let mut all = Array::default();
    if !whole {
        let sent: HashMap<&str, &str> = sent.iter().map(|sent| (&*sent.id, &*sent.text)).collect();
        // As in AG-UI clients, activities are shown to users and not sent to agents.
        for message in conversation.messages().filter(|message| message.role() != "activity") {
            // The client may have edited the message that it sends again.
            match sent.get(message.id()) {
                Some(text) => all.push(text),
                None => all.push_message(message),
            }
        }
    }
    let sent = sent.iter().filter(|sent| whole || !conversation.contains(&sent.id));
    sent.for_each(|sent| all.push(&sent.text));
    all.finish()
}

/// Messages of the log, then the new ones.
pub(super) fn joined<'a>(window: &Window, new: impl Iterator<Item = &'a Sent>, conversation: &Conversation) -> String {
    joined_texts(window, new.map(|sent| &*sent.text), conversation)
}

pub(super) fn joined_texts<'a>(
    window: &Window,
    new: impl Iterator<Item = &'a str>,
    conversation: &Conversation,
) -> String {
    let mut all = Array::default();
    window.messages(conversation).for_each(|message| all.push_message(message));
    new.for_each(|text| all.push(text));
    all.finish()
}

/// JSON array in the making.
#[derive(Default)]
pub(super) struct Array(String);

impl Array {
    pub fn push(&mut self, element: &str) {
        self.0.push(if self.0.is_empty() { '[' } else { ',' });
        self.0.push_str(element);
    }

    pub fn push_message(&mut self, message: &Message) {
        self.push(&text_of(message));
    }

    pub fn finish(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('[');
        }
        self.0.push(']');
        self.0
    }
}
