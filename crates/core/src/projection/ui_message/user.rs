//! Messages of the user, in AG-UI's form and in that of the AI SDK.

use serde_json::{Value, json, value::RawValue};

use crate::{
    event::SERVER_MEMBER,
    json,
    projection::{
        media::{Media, kind_of, source},
        reading::{has_role, items},
    },
};

/// True if a run with this first event continues the message of the run before: it brings results of tools or answers to
/// interrupts, and no other message.
pub fn continues(started: &str) -> bool {
    let Some(input) = json::member(started, "input") else { return false };
    let mut has_result = false;
    for message in items(json::member(input, "messages")) {
        if !has_role(message, "tool") {
            return false;
        }
        has_result = true;
    }
    // The server cancels expired interrupts in a run of any kind.
    let by_server =
        |entry: &str| json::member(entry, "metadata").is_some_and(|of| json::member(of, SERVER_MEMBER).is_some());
    has_result || items(json::member(input, "resume")).any(|entry| !by_server(entry))
}

/// UI messages of the user and the system that a RUN_STARTED brings.
pub fn said(started: &str) -> Vec<Value> {
    let input = json::member(started, "input").unwrap_or("null");
    items(json::member(input, "messages")).filter_map(ui_message).collect()
}

/// Role of a message, or of an event that begins one, if it is the user's or the system's.
pub(super) fn role_of(message: &str) -> Option<&'static str> {
    ["user", "system"].into_iter().find(|role| has_role(message, role))
}

fn ui_message(message: &str) -> Option<Value> {
    let role = role_of(message)?;
    let id = json::string_member(message, "id")?;
    let content: Value = serde_json::from_str(json::member(message, "content")?).ok()?;
    let parts: Vec<Value> = match content {
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(parts) => parts.iter().filter_map(ui_part).collect(),
        _ => return None,
    };
    Some(json!({ "id": id, "role": role, "parts": parts }))
}

/// Part of a UI message from a part of AG-UI's content.
fn ui_part(part: &Value) -> Option<Value> {
    if part.get("type")? == "text" {
        return Some(json!({ "type": "text", "text": part.get("text")?.as_str()? }));
    }
    let Media { media_type, url, filename } = Media::read(part)?;
    let mut file = json!({ "type": "file", "mediaType": media_type, "url": url });
    if let Some(name) = filename {
        file["filename"] = name.into();
    }
    Some(file)
}

/// AG-UI's message from a UI message of the user, without its id if it has none. `None` if the message has no text and no file.
pub fn of_client(message: &Value) -> Option<Value> {
    let parts = message.get("parts")?.as_array()?;
    let content: Vec<Value> = parts.iter().filter_map(agui_part).collect();
    let content = match &content[..] {
        [] => return None,
        [text] if text["type"] == "text" => text["text"].clone(),
        _ => content.into(),
    };
    let mut said = json!({ "role": "user", "content": content });
    if let Some(id) = message.get("id").filter(|id| id.is_string()) {
        said["id"] = id.clone();
    }
    Some(said)
}

fn agui_part(part: &Value) -> Option<Value> {
    match part.get("type")?.as_str()? {
        "text" => Some(json!({ "type": "text", "text": part.get("text")?.as_str()? })),
        "file" => {
            let (media, url) = (part.get("mediaType")?.as_str()?, part.get("url")?.as_str()?);
            let mut said = json!({ "type": kind_of(media), "source": source(url, Some(media)) });
            if let Some(name) = part.get("filename").filter(|name| name.is_string()) {
                said["metadata"] = json!({ "filename": name });
            }
            Some(said)
        }
        _ => None,
    }
}

/// Result of a tool as the AI SDK has it: the JSON value in the text of the content, or else that text as a JSON string.
pub(super) fn output(content: &str) -> Box<RawValue> {
    json::string(content).and_then(|text| value(text.trim())).or_else(|| value(content)).unwrap_or_default()
}

/// JSON value on one line, as a frame of an event stream needs it; `None` for text that is not valid JSON. In JSON, line breaks stand
/// only between tokens.
pub(super) fn value(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.replace(['\n', '\r'], " ")).ok()
}
