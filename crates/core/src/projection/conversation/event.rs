//! Reading of an event: each member with its JSON text, without a tree.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, value::RawValue};

use super::{
    canonical::beyond_doubles,
    text::{self, Wtf8},
};

/// Members of an object in order, each as it is written in the text.
pub(super) struct Members<'a>(pub Vec<(Cow<'a, str>, &'a str)>);

/// Members of an event that the fold knows. Of a name that occurs twice the last one counts, as `JSON.parse` has it.
#[derive(Debug, Clone, Default)]
pub(super) struct Event<'a> {
    pub kind: Option<&'a str>,
    pub message_id: Option<&'a str>,
    pub tool_call_id: Option<&'a str>,
    pub delta: Option<&'a str>,
    pub metadata: Option<&'a str>,
    pub subagent_run_id: Option<&'a str>,
    pub role: Option<&'a str>,
    pub name: Option<&'a str>,
    pub tool_call_name: Option<&'a str>,
    pub parent_message_id: Option<&'a str>,
    pub content: Option<&'a str>,
    pub snapshot: Option<&'a str>,
    pub messages: Option<&'a str>,
    pub input: Option<&'a str>,
    pub activity_type: Option<&'a str>,
    pub replace: Option<&'a str>,
    pub patch: Option<&'a str>,
    pub subtype: Option<&'a str>,
    pub entity_id: Option<&'a str>,
    pub encrypted_value: Option<&'a str>,
    pub outcome: Option<&'a str>,
    pub raw_event: Option<&'a str>,
}

/// A member has a form that the protocol does not allow: the event is ignored.
#[derive(Debug)]
pub(super) struct Malformed;

/// Reads a string member that must be present.
pub(super) fn required(token: Option<&str>) -> Result<Wtf8<'_>, Malformed> {
    token.and_then(Wtf8::of).ok_or(Malformed)
}

/// Reads a string member that may be absent, but not `null`.
pub(super) fn optional(token: Option<&str>) -> Result<Option<Wtf8<'_>>, Malformed> {
    token.map(|token| Wtf8::of(token).ok_or(Malformed)).transpose()
}

impl<'a> Event<'a> {
    /// Reads the text; `None` if it is not a JSON object.
    pub fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Subagent that the event is attributed to; `None` is the parent agent.
    pub fn owner(&self) -> Result<Option<String>, Malformed> {
        Ok(optional(self.subagent_run_id)?.map(Wtf8::into_string))
    }

    /// Number of numbers beyond a double in the members that the event brings into messages, state and interrupts.
    pub fn unreadable_numbers(&self, kind: &str) -> u64 {
        let count = |token: Option<&str>| {
            // A string holds no number, even if its text looks like one.
            token.filter(|token| !token.starts_with('"')).map_or(0, |token| beyond_doubles(token).len() as u64)
        };
        let of_input = || {
            let members = self.input.and_then(members).map(|input| input.0).unwrap_or_default();
            members.into_iter().filter(|(name, _)| name == "messages").map(|(_, token)| count(Some(token))).sum()
        };
        match kind {
            "STATE_SNAPSHOT" => count(self.snapshot),
            "STATE_DELTA" => count(self.delta),
            "RUN_STARTED" => of_input(),
            "RUN_FINISHED" => count(self.outcome),
            "MESSAGES_SNAPSHOT" => count(self.messages) + count(self.metadata),
            "ACTIVITY_SNAPSHOT" | "TOOL_CALL_RESULT" => count(self.content) + count(self.metadata),
            "ACTIVITY_DELTA" => count(self.patch) + count(self.metadata),
            _ if self.metadata.is_none() => 0,
            _ => {
                let is_text = ["TEXT_", "TOOL_", "REASONING_", "THINKING_"].iter().any(|begin| kind.starts_with(begin));
                if is_text { count(self.metadata) } else { 0 }
            }
        }
    }

    /// Metadata of the event, which must be an object if present.
    pub fn metadata(&self) -> Result<Option<Map<String, Value>>, Malformed> {
        match self.metadata.map(text::value) {
            None => Ok(None),
            Some(Some(Value::Object(map))) => Ok(Some(map)),
            Some(_) => Err(Malformed),
        }
    }

    fn member(&mut self, name: &[u8]) -> Option<&mut Option<&'a str>> {
        Some(match name {
            b"type" => &mut self.kind,
            b"messageId" => &mut self.message_id,
            b"toolCallId" => &mut self.tool_call_id,
            b"delta" => &mut self.delta,
            b"metadata" => &mut self.metadata,
            b"subagentRunId" => &mut self.subagent_run_id,
            b"role" => &mut self.role,
            b"name" => &mut self.name,
            b"toolCallName" => &mut self.tool_call_name,
            b"parentMessageId" => &mut self.parent_message_id,
            b"content" => &mut self.content,
            b"snapshot" => &mut self.snapshot,
            b"messages" => &mut self.messages,
            b"input" => &mut self.input,
            b"activityType" => &mut self.activity_type,
            b"replace" => &mut self.replace,
            b"patch" => &mut self.patch,
            b"subtype" => &mut self.subtype,
            b"entityId" => &mut self.entity_id,
            b"encryptedValue" => &mut self.encrypted_value,
            b"outcome" => &mut self.outcome,
            b"rawEvent" => &mut self.raw_event,
            _ => return None,
        })
    }
}

impl<'de> Deserialize<'de> for Event<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Event<'de>;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut event = Event::default();
                // Names are read as bytes: read as text, a lone half in one of them would make the event unreadable.
                while let Some(name) = map.next_key::<Wtf8<'de>>()? {
                    let value = map.next_value::<&RawValue>()?.get();
                    if let Some(member) = event.member(name.as_str().as_bytes()) {
                        *member = Some(value);
                    }
                }
                Ok(event)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Members<'de>;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key::<Wtf8<'de>>()? {
                    members.push((Cow::Owned(name.into_string()), map.next_value::<&RawValue>()?.get()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Members of an object; `None` if the text is not one.
pub(super) fn members(object: &str) -> Option<Members<'_>> {
    serde_json::from_str(object).ok()
}

/// Elements of an array; `None` if the text is not one.
pub(super) fn elements(array: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(array).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}
