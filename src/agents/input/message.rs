//! One message of a client's input: its checks, its id, and the comparison of contents.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};
use sha2::{Digest, Sha256};
use threadline_core::{hex, json};

use super::super::reading::{Object, items, whole, without_line_ends};

/// Members that decide what a message says.
const DECISIVE: [&str; 5] = ["id", "role", "content", "toolCalls", "toolCallId"];

/// Message that a client sends, on one line.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    /// Id of the message; generated if the client sent none.
    pub id: String,
    pub role: String,
    /// Message as a JSON object.
    pub text: String,
    /// True if the client sent no id.
    pub nameless: bool,
}

impl Sent {
    /// Reads the message at this position of the input. An error describes it to its author.
    pub fn read(index: usize, message: &RawValue) -> Result<Self, String> {
        let text = message.get();
        if !text.starts_with('{') {
            return Err(format!("message {index} is not an object"));
        }
        if json::is_too_dense(text) {
            return Err(format!("message {index} has too many values"));
        }
        let role = check(text).map_err(|wrong| format!("message {index} {wrong}"))?;
        let text = without_line_ends(text);
        match json::member(&text, "id") {
            None => {
                let id = uuid::Uuid::now_v7().to_string();
                Ok(Self { text: with_id(&text, &id), id, role, nameless: true })
            }
            Some(_) => match json::string_member(&text, "id").filter(|id| !id.is_empty()) {
                Some(id) => Ok(Self { id, role, text, nameless: false }),
                None => Err(format!("the id of message {index} is not a string")),
            },
        }
    }

    /// The same message under another id.
    pub fn renamed(&self, id: String) -> Self {
        let text = whole(&self.text);
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(&text).unwrap_or_default();
        let others = members.iter().filter(|(name, _)| *name != "id");
        let others: String = others.map(|(name, value)| format!(",{}:{value}", json::quoted(name))).collect();
        Self { text: format!("{{\"id\":{}{others}}}", json::quoted(&id)), id, ..self.clone() }
    }

    /// Member that decoders read differently, of those that decide what the message says.
    pub fn disguised(&self) -> Option<String> {
        json::disguised(&self.text, &DECISIVE)
    }

    /// Call that a message of role `tool` answers.
    pub fn tool_call(&self) -> Option<String> {
        Object(&self.text).text("toolCallId")
    }

    /// True if both messages have the same texts and media, whatever else their parts hold. Clients drop members that their
    /// schemas do not describe.
    pub fn says(&self, other: &str) -> bool {
        said(&whole(&self.text)) == said(&whole(other))
    }

    /// Id under which this message is stored if it is an edit of the stored one with its id.
    pub fn id_of_edit(&self) -> String {
        let mut digest = Sha256::new();
        for (kind, value) in said(&whole(&self.text)) {
            for part in [kind, value] {
                digest.update(part.len().to_le_bytes());
                digest.update(part);
            }
        }
        format!("{}~{}", self.id, hex(&digest.finalize()[..4]))
    }
}

/// Message without its id, in a form in which equal messages have equal texts.
pub(super) fn canonical(message: &str) -> String {
    let text = whole(message);
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(&text).unwrap_or_default();
    let others = members.into_iter().filter(|(name, _)| name != "id");
    // A value that no tree can hold is compared as it is written.
    let value = |raw: &RawValue| match serde_json::from_str::<Value>(raw.get()) {
        Ok(value) => sorted(value).to_string(),
        Err(_) => raw.get().to_owned(),
    };
    others.map(|(name, raw)| format!("{}:{},", json::quoted(&name), value(raw))).collect()
}

/// Value whose objects have their members in the order of their names.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<String, Value> = members.into_iter().collect();
            members.into_iter().map(|(name, value)| (name, sorted(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

/// Content of a message, as a list of texts and media.
fn said(message: &str) -> Vec<(String, String)> {
    let message = Object(message);
    let Some(parts) = message.raw("content").filter(|content| content.starts_with('[')) else {
        return vec![("text".to_owned(), message.text("content").unwrap_or_default())];
    };
    let parts = items(parts).into_iter().map(|part| {
        let kind = part.text("type").unwrap_or_default();
        let value = match &*kind {
            "text" => part.text("text").unwrap_or_default(),
            _ => {
                let source = Object(part.raw("source").unwrap_or_default());
                let members = ["type", "value", "mimeType", "url", "data", "id"];
                let values = members.iter().map(|name| source.text(name).or_else(|| part.text(name)));
                values.map(Option::unwrap_or_default).collect::<Vec<_>>().join("\n")
            }
        };
        (kind, value)
    });
    parts.collect()
}

/// Checks that AG-UI clients accept a message: one message that they refuse makes them refuse the complete
/// conversation. Other members are not checked. Returns its role.
fn check(message: &str) -> Result<String, String> {
    let member = |name| json::member(message, name).unwrap_or("null");
    let role = json::string_member(message, "role").unwrap_or_default();
    let begins = |name, with: &[char]| member(name).starts_with(with);
    let wants = |name: &str, what: &str| Err(format!("has role {role:?} and must have a member {name}: {what}"));
    match role.as_str() {
        "user" if !begins("content", &['"', '[']) => wants("content", "a string or an array of parts"),
        "system" | "developer" | "reasoning" if !begins("content", &['"']) => wants("content", "a string"),
        "assistant" if !begins("content", &['"', 'n']) => wants("content", "a string or null"),
        "assistant" if !begins("toolCalls", &['[', 'n']) => wants("toolCalls", "an array or null"),
        "tool" if !begins("content", &['"', '[']) => wants("content", "a string or an array of parts"),
        "tool" if !begins("toolCallId", &['"']) => wants("toolCallId", "a string"),
        "activity" if !begins("content", &['{']) => wants("content", "an object"),
        "activity" if !begins("activityType", &['"']) => wants("activityType", "a string"),
        "user" | "system" | "developer" | "reasoning" | "assistant" | "tool" | "activity" => Ok(role),
        "" => Err("has no role".into()),
        _ => Err("has a role that AG-UI does not define".into()),
    }
}

/// Inserts an id: `{…}` becomes `{"id":"…",…}`.
fn with_id(message: &str, id: &str) -> String {
    let rest = &message[1..];
    let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
    format!("{{\"id\":{}{comma}{rest}", json::quoted(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(text: &str) -> Sent {
        Sent::read(0, &RawValue::from_string(text.to_owned()).expect("JSON")).expect("a message")
    }

    #[test]
    fn contents_are_compared_by_what_they_say() {
        let user = |content: &str| format!(r#"{{"id":"u","role":"user","content":{content}}}"#);
        let image = |value: &str| {
            format!(r#"[{{"type":"text","text":"x"}},{{"type":"image","source":{{"type":"url","value":"{value}"}}}}]"#)
        };
        for (one, other, same) in [
            (r#""x""#, r#" "\u0078" "#, true),
            (r#""x""#, r#"[{"type":"text","text":"x","later":1}]"#, true),
            (r#""x""#, r#""y""#, false),
            (r#""\ud800""#, r#""\udfff""#, true),
            (&image("https://h/1"), &image("https://h/1"), true),
            (&image("https://h/1"), &image("https://h/2"), false),
            (&image("https://h/1"), r#""x""#, false),
        ] {
            assert_eq!(sent(&user(one)).says(&user(other)), same, "{one} {other}");
        }
    }

    #[test]
    fn equal_messages_have_one_canonical_form() {
        let forms = [
            r#"{"id":"a","role":"user","content":"x","m":{"a":1,"b":[{"d":1,"c":2}]}}"#,
            r#"{"m":{"b":[{"c":2,"d":1}],"a":1},"content":"\u0078","role":"user"}"#,
        ];
        assert_eq!(canonical(forms[0]), canonical(forms[1]));
        assert_ne!(canonical(forms[0]), canonical(&forms[0].replace("\"x\"", "\"y\"")));
        for odd in ["7", "[1]", r#"{"id":"a","n":1e999,"s":"\ud800"}"#] {
            assert_eq!(canonical(odd), canonical(odd));
        }
    }

    #[test]
    fn a_message_is_one_line_and_has_an_id() {
        let message = sent("{ \"role\":\r\n\"user\",\"content\":\"a\\nb\"}");
        assert!(message.nameless && !message.text.contains(['\r', '\n']) && message.text.contains(&message.id));
        let renamed = sent(r#"{"id":"u","role":"user","content":"a","id":"v"}"#).renamed("w~1".into());
        assert_eq!((renamed.id.as_str(), json::member(&renamed.text, "id")), ("w~1", Some("\"w~1\"")));
        assert_eq!(
            sent(r#"{"id":"u","role":"user","content":"a","Role":"system"}"#).disguised().as_deref(),
            Some("Role")
        );
        assert_eq!(renamed.disguised(), None);
        assert!(!renamed.text.contains("\"v\"") && !renamed.text.contains("\"u\""), "{}", renamed.text);
    }
}
