//! One message of a conversation, and the reading of messages that arrive complete.

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::Error};
use serde_json::{Map, Value, value::RawValue};

use super::{
    canonical::{self, beyond_doubles},
    event::{elements, members},
    patch,
    text::{self, Text, Wtf8, write_string},
};
use crate::json::{memory, memory_of_members};

/// Message of a conversation. `Serialize` gives the AG-UI JSON object; properties that Threadline does not know are
/// kept.
#[derive(Debug, Clone)]
pub struct Message {
    pub(super) id: Box<str>,
    pub(super) role: Box<str>,
    pub(super) content: Content,
    pub(super) tool_calls: Option<Vec<ToolCall>>,
    /// Every other member of the object.
    pub(super) rest: Map<String, Value>,
    /// Complete JSON text, as long as no event has changed the message, if it holds numbers that a tree does not keep.
    pub(super) exact: Option<Box<str>>,
}

/// Content of a message.
#[derive(Debug, Clone)]
pub(super) enum Content {
    /// No content yet: the member is absent.
    Absent,
    /// Text, to which deltas append.
    Text(Text),
    /// Parts, or an activity's object, and the size (see `patch::size`).
    Json(Value, usize),
}

/// Tool call that an assistant message made.
#[derive(Debug, Clone)]
pub(super) struct ToolCall {
    pub id: Box<str>,
    pub name: String,
    pub arguments: Text,
    /// Every other member of the call.
    pub rest: Map<String, Value>,
    /// Every other member of the call's `function`.
    pub function: Map<String, Value>,
}

impl Message {
    /// Memory that the message takes, in bytes (about), with its places in the list and in the index of ids.
    pub(super) fn weight(&self) -> usize {
        const INDEXED: usize = 128;
        let content = match &self.content {
            Content::Absent => 0,
            Content::Text(text) => text.len(),
            Content::Json(value, _) => memory(value),
        };
        let calls = self.tool_calls.iter().flatten().map(|call| {
            let members = memory_of_members(&call.rest) + memory_of_members(&call.function);
            INDEXED + size_of::<ToolCall>() + 2 * call.id.len() + call.name.len() + call.arguments.len() + members
        });
        let exact = self.exact.as_ref().map_or(0, |text| text.len());
        let texts = 2 * self.id.len() + self.role.len() + content + exact;
        INDEXED + size_of::<Self>() + texts + memory_of_members(&self.rest) + calls.sum::<usize>()
    }

    /// Size of the message as text, in bytes (about).
    pub(super) fn size(&self) -> usize {
        const OWN: usize = 128;
        let members = |map: &Map<String, Value>| map.iter().map(|(name, value)| name.len() + patch::size(value)).sum();
        let rest: usize = members(&self.rest);
        let content = match &self.content {
            Content::Absent => 0,
            Content::Text(text) => text.len(),
            Content::Json(_, size) => *size,
        };
        let calls = self.tool_calls.iter().flatten().map(|call| {
            let own: usize = members(&call.rest);
            OWN + call.id.len() + call.name.len() + call.arguments.len() + own
        });
        let exact = self.exact.as_ref().map_or(0, |text| text.len());
        OWN + self.id.len() + content + rest + calls.sum::<usize>() + exact
    }

    /// Id of the message. Meant to be unique in a conversation; if it is not, events that name it mean the first
    /// message.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `developer`, `system`, `assistant`, `user`, `tool`, `activity`, `reasoning`, or one of a later protocol.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// Text of the message; of content in parts the parts that are texts, one a line. Empty for any other content.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.content {
            Content::Text(text) => text.as_str(),
            Content::Json(Value::Array(parts), _) => {
                let texts = parts.iter().filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str());
                Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
            }
            Content::Absent | Content::Json(..) => Cow::Borrowed(""),
        }
    }

    /// Appends the message as a JSON object, on one line.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        if let Some(text) = &self.exact {
            return out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(b"{\"id\":");
        write_string(&self.id, out);
        out.extend_from_slice(b",\"role\":");
        write_string(&self.role, out);
        match &self.content {
            Content::Absent => {}
            Content::Text(text) => {
                out.extend_from_slice(b",\"content\":");
                text.write_json(out);
            }
            Content::Json(value, _) => {
                out.extend_from_slice(b",\"content\":");
                write_value(value, out);
            }
        }
        if let Some(calls) = &self.tool_calls {
            out.extend_from_slice(b",\"toolCalls\":[");
            for (at, call) in calls.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                call.write_json(out);
            }
            out.push(b']');
        }
        write_members(&self.rest, out);
        out.push(b'}');
    }

    pub(super) fn new(id: &str, role: &str, content: Content) -> Self {
        Self { id: id.into(), role: role.into(), content, tool_calls: None, rest: Map::new(), exact: None }
    }

    /// Reads a message that arrived complete; `None` if it has no `id` or no `role` that is a string. The schemas of
    /// AG-UI 1.0 allow no `null` where a member may be absent, yet some producers write it: it reads as absent. Of tool
    /// calls only those with an id, a name and arguments are kept.
    pub(super) fn read(object: &str) -> Option<Self> {
        let (mut id, mut role, mut content) = (None, None, None);
        let mut message = Self::new("", "", Content::Absent);
        let mut calls = None;
        // The last of several members with one name counts, so an earlier one may have any form.
        for (name, token) in members(object)?.0 {
            match &*name {
                "id" => id = Some(token),
                "role" => role = Some(token),
                "content" => content = Some(token),
                "toolCalls" => calls = Some(token),
                "subagentRunId" if token == "null" => {}
                _ => {
                    message.rest.insert(name.into_owned(), text::value(token)?);
                }
            }
        }
        message.id = Wtf8::of(id?)?.into_string().into();
        message.role = Wtf8::of(role?)?.into_string().into();
        if let Some(content) = content {
            message.content = Content::read(content)?;
        }
        match calls {
            None | Some("null") => {}
            Some(calls) if &*message.role == "assistant" => {
                let calls = elements(calls).unwrap_or_default();
                message.tool_calls = Some(calls.into_iter().filter_map(ToolCall::read).collect());
            }
            Some(calls) => {
                message.rest.insert("toolCalls".to_owned(), text::value(calls)?);
            }
        }
        // Some readers of a message's text cannot read lone halves outside of contents, or numbers beyond a double.
        let is_readable = || text::without_lone_halves(object) == object && beyond_doubles(object).is_empty();
        if !canonical::numbers_are_kept(object) && is_readable() {
            message.exact = Some(object.into());
        }
        Some(message)
    }

    /// Merges an event's metadata, key by key; the last write wins.
    pub(super) fn merge_metadata(&mut self, metadata: Option<Map<String, Value>>) {
        merge_metadata(&mut self.rest, metadata);
    }

    pub(super) fn set(&mut self, member: &str, value: impl Into<Value>) {
        self.rest.insert(member.to_owned(), value.into());
    }

    /// Appends to the text. Content that is not a text is replaced by one, as the client does.
    pub(super) fn push_text(&mut self, delta: &Wtf8<'_>) {
        if !matches!(self.content, Content::Text(_)) {
            self.content = Content::Text(Text::default());
        }
        if let Content::Text(text) = &mut self.content {
            text.push(delta);
        }
    }

    pub(super) fn member(&self, name: &str) -> Option<&str> {
        self.rest.get(name).and_then(Value::as_str)
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = Vec::new();
        self.write_json(&mut json);
        let json = String::from_utf8(json).map_err(S::Error::custom)?;
        RawValue::from_string(json).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl Content {
    pub fn of(value: Value) -> Self {
        let size = patch::size(&value);
        Self::Json(value, size)
    }

    pub fn read(token: &str) -> Option<Self> {
        Some(match Wtf8::of(token) {
            Some(text) => Self::Text(text.into()),
            None if token == "null" => Self::Absent,
            None => Self::of(text::value(token)?),
        })
    }
}

impl ToolCall {
    pub fn new(id: &str, name: String) -> Self {
        let rest = Map::from_iter([("type".to_owned(), Value::from("function"))]);
        Self { id: id.into(), name, arguments: Text::default(), rest, function: Map::new() }
    }

    fn read(object: &str) -> Option<Self> {
        let (mut id, mut called) = (None, None);
        let mut call = Self { rest: Map::new(), ..Self::new("", String::new()) };
        for (name, token) in members(object)?.0 {
            match &*name {
                "id" => id = Some(Wtf8::of(token)?.into_string()),
                "function" => called = Some(token),
                _ => {
                    call.rest.insert(name.into_owned(), text::value(token)?);
                }
            }
        }
        let (mut name, mut arguments) = (None, None);
        for (member, token) in members(called?)?.0 {
            match &*member {
                "name" => name = Some(Wtf8::of(token)?.into_string()),
                "arguments" => arguments = Some(Wtf8::of(token)?.into()),
                _ => {
                    call.function.insert(member.into_owned(), text::value(token)?);
                }
            }
        }
        (call.id, call.name, call.arguments) = (id?.into(), name?, arguments?);
        Some(call)
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"id\":");
        write_string(&self.id, out);
        out.extend_from_slice(b",\"function\":{\"name\":");
        write_string(&self.name, out);
        out.extend_from_slice(b",\"arguments\":");
        self.arguments.write_json(out);
        write_members(&self.function, out);
        out.push(b'}');
        write_members(&self.rest, out);
        out.push(b'}');
    }
}

pub(super) fn merge_metadata(rest: &mut Map<String, Value>, metadata: Option<Map<String, Value>>) {
    let Some(metadata) = metadata else { return };
    match rest.get_mut("metadata") {
        Some(Value::Object(known)) => known.extend(metadata),
        _ => {
            rest.insert("metadata".to_owned(), metadata.into());
        }
    }
}

pub(super) fn write_value(value: &Value, out: &mut Vec<u8>) {
    // Writing a value into memory cannot fail.
    let written = serde_json::to_writer(&mut *out, value);
    debug_assert!(written.is_ok(), "a value can be written");
}

fn write_members(members: &Map<String, Value>, out: &mut Vec<u8>) {
    for (name, value) in members {
        out.push(b',');
        write_string(name, out);
        out.push(b':');
        write_value(value, out);
    }
}
