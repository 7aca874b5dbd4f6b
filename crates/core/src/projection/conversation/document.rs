//! Conversation as one document: a list of messages that is compared with the messages that the events amount to.

use std::collections::HashSet;

use sha2::{Digest, Sha256};

use super::{
    Conversation, canonical,
    event::{elements, members},
    message::Message,
    text::Wtf8,
};
use crate::{
    hex,
    json::{depth, disguised, has_more_items, is_too_dense, quoted},
    limits::{MAX_DOCUMENT_MESSAGE_BYTES, MAX_DOCUMENT_MESSAGES, MAX_JSON_DEPTH, MAX_TREE_BYTES},
};

/// Deepest nesting of a message, which lies three levels deep in the event that carries it: the event, its input, the
/// list.
const MESSAGE_DEPTH: usize = MAX_JSON_DEPTH - 3;

/// Message of a list that is to be stored.
#[derive(Debug, Clone)]
pub struct Draft {
    text: String,
    id: String,
    has_own_id: bool,
    is_by_user: bool,
    digest: [u8; 32],
    chain: [u8; 32],
}

/// Reason for which a message cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The messages are not a JSON array.
    #[error("messages is not an array")]
    NotList,
    /// The list has more than [`MAX_DOCUMENT_MESSAGES`].
    #[error("the conversation has more than {MAX_DOCUMENT_MESSAGES} messages")]
    TooMany,
    /// The message is not a JSON object.
    #[error("a message must be a JSON object")]
    NotObject,
    /// The message has no `role`, or one that is no string or empty.
    #[error("role must be a non-empty string")]
    NoRole,
    /// The `id` is no string, or empty.
    #[error("id must be a non-empty string; omit it and the server generates one")]
    BadId,
    /// Another message before this one has the same id.
    #[error("an earlier message has the same id")]
    SameId,
    /// `toolCalls` holds calls that would not be kept.
    #[error(
        "toolCalls must be an array of calls, each with an id and a function with a name and arguments, all strings"
    )]
    BadCalls,
    /// The message is nested too deep: in its event it would exceed [`MAX_JSON_DEPTH`].
    #[error("nested deeper than {MESSAGE_DEPTH} levels")]
    TooDeep,
    /// The message is larger than [`MAX_DOCUMENT_MESSAGE_BYTES`].
    #[error("the message exceeds {MAX_DOCUMENT_MESSAGE_BYTES} bytes")]
    TooLarge,
    /// The message has so many values that it could take more than [`MAX_TREE_BYTES`] of memory.
    #[error("too many values: as a tree the message would take more than {MAX_TREE_BYTES} bytes")]
    TooManyValues,
    /// The message would be read back as another one.
    #[error(
        "unsupported value: numbers must be below 1e308, and an unpaired surrogate may occur only in content and arguments"
    )]
    NotKept,
}

/// Message that cannot be stored, and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message {index}: {flaw}")]
pub struct InvalidMessage {
    /// Position in the list, from 0.
    pub index: usize,
    /// Reason for which the message cannot be stored.
    pub flaw: MessageError,
}

impl Draft {
    /// Reads `[message, …]`, whose JSON syntax was checked before. Fails with the first message that cannot be stored.
    pub fn list(json: &str) -> Result<Vec<Self>, InvalidMessage> {
        if has_more_items(json, MAX_DOCUMENT_MESSAGES) && json.starts_with('[') {
            return Err(InvalidMessage { index: MAX_DOCUMENT_MESSAGES, flaw: MessageError::TooMany });
        }
        let messages = elements(json).ok_or(InvalidMessage { index: 0, flaw: MessageError::NotList })?;
        let mut drafts: Vec<Self> = Vec::with_capacity(messages.len());
        for (index, message) in messages.into_iter().enumerate() {
            let draft = Self::read(message, index, drafts.last().map_or([0; 32], |before| before.chain));
            drafts.push(draft.map_err(|flaw| InvalidMessage { index, flaw })?);
        }
        Ok(drafts)
    }

    fn read(text: &str, index: usize, before: [u8; 32]) -> Result<Self, MessageError> {
        if text.len() > MAX_DOCUMENT_MESSAGE_BYTES {
            return Err(MessageError::TooLarge);
        }
        if is_too_dense(text) {
            return Err(MessageError::TooManyValues);
        }
        if depth(text.as_bytes(), MESSAGE_DEPTH) > MESSAGE_DEPTH {
            return Err(MessageError::TooDeep);
        }
        let (mut id, mut role) = (None, None);
        for (name, token) in members(text).ok_or(MessageError::NotObject)?.0 {
            match &*name {
                "id" => id = Some(token),
                "role" => role = Some(token),
                _ => {}
            }
        }
        role.and_then(text_of).ok_or(MessageError::NoRole)?;
        let own_id = id.map(|id| text_of(id).ok_or(MessageError::BadId)).transpose()?;
        let own_id = own_id.map(Wtf8::into_utf8).transpose().map_err(|_| MessageError::NotKept)?;
        let mut form = Vec::with_capacity(text.len());
        canonical::write_message(text, &mut form);
        let digest: [u8; 32] = Sha256::digest(&form).into();
        let named = own_id.as_deref().map_or(String::new(), |id| format!("{}:{id}", id.len()));
        let chain: [u8; 32] =
            Sha256::new().chain_update(before).chain_update(named).chain_update(digest).finalize().into();
        let has_own_id = own_id.is_some();
        let id = own_id.unwrap_or_else(|| format!("{index}-{}", hex(&chain[..12])));
        let text = if has_own_id {
            text.to_owned()
        } else {
            let rest = text.trim_ascii_start().trim_start_matches('{');
            format!("{{\"id\":{},{rest}", quoted(&id))
        };
        let message = Message::read(&text).ok_or(MessageError::NotKept)?;
        if message.id() != id || digest_of(&message) != digest {
            let calls = members(&text).into_iter().flat_map(|members| members.0).any(|member| member.0 == "toolCalls");
            return Err(if calls && message.role() == "assistant" {
                MessageError::BadCalls
            } else {
                MessageError::NotKept
            });
        }
        // Decoders that ignore case could take another member for the role.
        let is_by_user =
            message.role() == "user" && disguised(&text, &["id", "role", "content", "toolCalls"]).is_none();
        Ok(Self { text, id, has_own_id, is_by_user, digest, chain })
    }

    /// Memory that the draft takes, in bytes (about).
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.text.capacity() + self.id.capacity()
    }

    /// The message as it is to be stored: a JSON object with its id.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Id of the message: its own, or one made from its position and all messages before it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// True for a message of the role `user`.
    pub fn is_by_user(&self) -> bool {
        self.is_by_user
    }

    /// Name of the list up to this message: the same for the same list, and for no other.
    pub fn name_of_list(&self) -> String {
        hex(&self.chain[..20])
    }

    fn is(&self, message: &Message) -> bool {
        (!self.has_own_id || self.id == message.id()) && self.digest == digest_of(message)
    }
}

impl Conversation {
    /// Number of messages at the beginning that are equal in both, as JSON values. A draft that came without an id
    /// matches any id.
    pub fn in_common(&self, drafts: &[Draft]) -> usize {
        self.messages().zip(drafts).take_while(|(message, draft)| draft.is(message)).count()
    }

    /// Fails with the first draft from `start` on that has the id of a message before it, stored or not.
    pub fn repeated_id(&self, drafts: &[Draft], start: usize) -> Result<(), InvalidMessage> {
        let mut known: HashSet<&str> = self.messages().take(start).map(Message::id).collect();
        match drafts.iter().enumerate().skip(start).find(|(_, draft)| !known.insert(&draft.id)) {
            Some((index, _)) => Err(InvalidMessage { index, flaw: MessageError::SameId }),
            None => Ok(()),
        }
    }
}

/// Text of a string token that is not empty.
fn text_of(token: &str) -> Option<Wtf8<'_>> {
    Wtf8::of(token).filter(|text| !text.as_bytes().is_empty())
}

fn digest_of(message: &Message) -> [u8; 32] {
    let (mut text, mut form) = (Vec::new(), Vec::new());
    message.write_json(&mut text);
    canonical::write_message(std::str::from_utf8(&text).unwrap_or_default(), &mut form);
    Sha256::digest(&form).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drafts(json: &str) -> Vec<Draft> {
        Draft::list(json).expect("a list")
    }

    fn flaw(json: &str) -> (usize, MessageError) {
        Draft::list(json).map_err(|flawed| (flawed.index, flawed.flaw)).expect_err(json)
    }

    /// Conversation that has these messages.
    fn stored(drafts: &[Draft]) -> Conversation {
        let mut conversation = Conversation::default();
        let messages: Vec<_> = drafts.iter().map(Draft::text).collect();
        let event = format!(r#"{{"type":"RUN_STARTED","input":{{"messages":[{}]}}}}"#, messages.join(","));
        conversation.observe(event.as_bytes());
        conversation
    }

    const LIST: &str = r#"[{"role":"user","content":"hi","name":"n"},
        {"id":"a","role":"assistant","content":null,"toolCalls":[{"id":"c","type":"function",
            "function":{"name":"f","arguments":"{}"}}],"encryptedValue":"x"},
        {"role":"tool","toolCallId":"c","content":"r","score":123456789012345678901234567890,"deep":[{"n":1.0}]},
        {"role":"user","content":[{"type":"text","text":"é"}],"name":"😀"},{"role":"user","content":"\ud83d"}]"#;

    #[test]
    fn stored_events_are_recognized_and_other_lists_are_distinguished() {
        let list = drafts(LIST);
        let conversation = stored(&list);
        assert_eq!(conversation.messages().len(), 5);
        assert_eq!(conversation.in_common(&list), 5);
        // The stored messages are read and sent again, with their ids.
        let shown = String::from_utf8(conversation.messages_json()).expect("text");
        assert!(shown.contains("123456789012345678901234567890"), "{shown}");
        assert_eq!(conversation.in_common(&drafts(&shown)), 5);
        let kept = Conversation::decode(&conversation.encode()).expect("decodes");
        assert_eq!(kept.messages_json(), conversation.messages_json());
        for (from, to, common) in [
            ("\"hi\"", "\"ho\"", 0),
            ("\"a\"", "\"b\"", 1),
            ("\"{}\"", "\"{ }\"", 1),
            ("567890", "567891", 2),
            ("\\ud83d", "\\ud83e", 4),
            ("1.0", "1", 5),
            ("é", "\\u00e9", 5),
            ("é", "e", 3),
            (r#""role":"user","content":"hi""#, r#""content" : "hi", "role" : "user""#, 5),
            (r#""content":null,"#, "", 5),
        ] {
            assert!(LIST.contains(from));
            assert_eq!(conversation.in_common(&drafts(&LIST.replace(from, to))), common, "{from} {to}");
        }
    }

    #[test]
    fn ids_are_made_of_the_place_and_of_all_before_it() {
        let list = drafts(r#"[{"role":"user","content":"x"},{"role":"user","content":"x"}]"#);
        assert_eq!(list[0].id(), drafts(r#"[{"content":"x","role":"user"}]"#)[0].id());
        assert_ne!(list[0].id(), list[1].id());
        let other = drafts(r#"[{"role":"user","content":"y"},{"role":"user","content":"x"}]"#);
        assert_ne!(list[1].id(), other[1].id());
        assert_ne!(list[1].name_of_list(), other[1].name_of_list());
        assert!(list[1].text().starts_with("{\"id\":\"1-"));
    }

    #[test]
    fn documents_that_would_not_round_trip_are_refused() {
        let at = |message: &str| flaw(&format!("[{{\"role\":\"user\"}},{message}]"));
        for (message, wrong) in [
            ("7", MessageError::NotObject),
            ("{}", MessageError::NoRole),
            (r#"{"role":""}"#, MessageError::NoRole),
            (r#"{"role":"user","id":7}"#, MessageError::BadId),
            (r#"{"role":"user","id":null}"#, MessageError::BadId),
            (r#"{"role":"user","id":""}"#, MessageError::BadId),
            (r#"{"role":"user","id":"\ud800x"}"#, MessageError::NotKept),
            (r#"{"role":"user","name":"\ud800"}"#, MessageError::NotKept),
            (r#"{"role":"user","score":1e999}"#, MessageError::NotKept),
            (r#"{"role":"assistant","toolCalls":[{"id":"c"}]}"#, MessageError::BadCalls),
            (r#"{"role":"assistant","toolCalls":{}}"#, MessageError::BadCalls),
        ] {
            assert_eq!(at(message), (1, wrong), "{message}");
        }
        assert_eq!(flaw("{}"), (0, MessageError::NotList));
        let deep = format!(r#"{{"role":"user","a":{}{}}}"#, "[".repeat(MESSAGE_DEPTH), "]".repeat(MESSAGE_DEPTH));
        assert_eq!(at(&deep), (1, MessageError::TooDeep));
        let dense = format!(r#"{{"role":"user","a":[{}]}}"#, vec!["{}"; 1 << 20].join(","));
        assert_eq!(at(&dense), (1, MessageError::TooManyValues));
        let many = vec!["{}"; MAX_DOCUMENT_MESSAGES + 1].join(",");
        assert_eq!(flaw(&format!("[{many}]")), (MAX_DOCUMENT_MESSAGES, MessageError::TooMany));
        let twice = drafts(r#"[{"id":"a","role":"user"},{"id":"a","role":"user"}]"#);
        let none = Conversation::default();
        assert_eq!(none.repeated_id(&twice, 0), Err(InvalidMessage { index: 1, flaw: MessageError::SameId }));
        assert_eq!(
            stored(&twice[..1]).repeated_id(&twice, 1),
            Err(InvalidMessage { index: 1, flaw: MessageError::SameId })
        );
    }
}
