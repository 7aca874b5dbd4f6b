//! Members of a Response that do not come from its run.

use std::fmt::Write;

use serde_json::Value;

use crate::{Timestamp, json, limits::MAX_ECHO_BYTES};

/// Members of a Response that its run does not change.
#[derive(Debug, Clone)]
pub struct Header {
    /// Id of the response, as clients name it.
    pub id: String,
    /// Model as the request named it.
    pub model: String,
    /// Time at which the response was requested.
    pub created_at: Timestamp,
    /// Id of the conversation; `None` for a response in no conversation.
    pub conversation: Option<String>,
    /// Response that this one follows.
    pub previous_response_id: Option<String>,
    /// True if no client waits for the response.
    pub background: bool,
    /// True if the response can be retrieved later.
    pub store: bool,
    /// Members of the request that the response repeats.
    pub echo: Echo,
}

/// Form of a member of the request.
#[derive(Debug, Clone, Copy)]
enum Form {
    Text,
    /// Text, or a list of items.
    Instructions,
    Number,
    /// Whole number from 0.
    Count,
    Flag,
    Object,
    List,
    /// Name, or an object.
    Choice,
    /// At most 16 pairs of texts.
    Metadata,
}

/// Members that a response repeats: their names, forms, and the values of those that are absent or null.
const MEMBERS: [(&str, Form, &str); 19] = [
    ("instructions", Form::Instructions, "null"),
    ("metadata", Form::Metadata, "{}"),
    ("tools", Form::List, "[]"),
    ("tool_choice", Form::Choice, "\"auto\""),
    ("parallel_tool_calls", Form::Flag, "true"),
    ("temperature", Form::Number, "1"),
    ("top_p", Form::Number, "1"),
    ("presence_penalty", Form::Number, "0"),
    ("frequency_penalty", Form::Number, "0"),
    ("top_logprobs", Form::Count, "0"),
    ("max_output_tokens", Form::Count, "null"),
    ("max_tool_calls", Form::Count, "null"),
    ("reasoning", Form::Object, "null"),
    ("text", Form::Object, r#"{"format":{"type":"text"}}"#),
    ("truncation", Form::Text, "\"disabled\""),
    ("service_tier", Form::Text, "\"default\""),
    ("safety_identifier", Form::Text, "null"),
    ("prompt_cache_key", Form::Text, "null"),
    ("user", Form::Text, "null"),
];

/// Refusal of members of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The value is of another kind.
    #[error("\"{member}\" must be {expected}")]
    Form {
        /// Name of the member in the request.
        member: &'static str,
        /// Form that the value must have.
        expected: &'static str,
    },
    /// The members that a response repeats are too large together.
    #[error("instructions, tools, metadata and settings together exceed {MAX_ECHO_BYTES} bytes")]
    TooLarge,
}

/// Members of a request that its response repeats unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Echo {
    /// Values by the places of their members in [`MEMBERS`], each on one line; `None` for one that is absent.
    values: Vec<Option<Box<str>>>,
}

impl Echo {
    /// Reads the members of a request, or of the result of [`Echo::to_json`]. `request` must be a JSON object.
    pub fn read(request: &str) -> Result<Self, Misfit> {
        let (mut values, mut bytes) = (vec![None; MEMBERS.len()], 0);
        for (key, value) in json::entries(request) {
            let Some(place) = MEMBERS.iter().position(|(name, ..)| json::is_string(key, name)) else { continue };
            let (member, form, _) = MEMBERS[place];
            if value == "null" {
                values[place] = None;
                continue;
            }
            bytes += member.len() + value.len();
            if bytes > MAX_ECHO_BYTES {
                return Err(Misfit::TooLarge);
            }
            form.check(value).map_err(|expected| Misfit::Form { member, expected })?;
            // In JSON, line breaks stand only between tokens.
            values[place] = Some(value.replace(['\n', '\r'], " ").into());
        }
        Ok(Self { values })
    }

    /// The members as a JSON object, without those that are absent.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        for ((name, ..), value) in MEMBERS.iter().zip(&self.values) {
            if let Some(value) = value {
                let comma = if json.len() > 1 { "," } else { "" };
                _ = write!(json, "{comma}\"{name}\":{value}");
            }
        }
        json.push('}');
        json
    }

    /// Writes all members, each with a comma before it.
    pub(super) fn write(&self, json: &mut String) {
        for (place, (name, _, default)) in MEMBERS.iter().enumerate() {
            let value = self.values.get(place).and_then(Option::as_deref).unwrap_or(default);
            _ = write!(json, ",\"{name}\":{value}");
        }
    }
}

impl Form {
    /// The form that a value must have, if it has another one.
    fn check(self, value: &str) -> Result<(), &'static str> {
        let first = value.as_bytes().first().copied().unwrap_or_default();
        let is_number = first == b'-' || first.is_ascii_digit();
        let (fits, expected) = match self {
            Self::Text => (first == b'"', "a string"),
            Self::Instructions => (matches!(first, b'"' | b'['), "a string or a list of items"),
            Self::Number => (is_number, "a number"),
            Self::Count => (value.parse::<u32>().is_ok(), "a whole number from 0 to 4294967295"),
            Self::Flag => (matches!(value, "true" | "false"), "true or false"),
            Self::Object => (first == b'{', "an object"),
            Self::List => (first == b'[', "a list"),
            Self::Choice => (matches!(first, b'"' | b'{'), "a string or an object"),
            Self::Metadata => (
                is_metadata(value),
                "an object of at most 16 strings, with names of at most 64 and values of at most 512 characters",
            ),
        };
        if fits { Ok(()) } else { Err(expected) }
    }
}

fn is_metadata(value: &str) -> bool {
    let Ok(Value::Object(pairs)) = serde_json::from_str(value) else { return false };
    let fits = |(name, value): (&String, &Value)| {
        name.chars().count() <= 64 && value.as_str().is_some_and(|value| value.chars().count() <= 512)
    };
    pairs.len() <= 16 && pairs.iter().all(fits)
}
