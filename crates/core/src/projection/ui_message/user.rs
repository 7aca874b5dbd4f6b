//! Messages of the user, in AG-UI's form and in that of the AI SDK.

use serde_json::{Value, json, value::RawValue};

use crate::{event::SERVER_MEMBER, json};

/// Elements of a JSON array, as text; none for anything else.
pub(super) fn items(array: Option<&str>) -> impl Iterator<Item = &str> {
    let items: Vec<&RawValue> = array.and_then(|array| serde_json::from_str(array).ok()).unwrap_or_default();
    items.into_iter().map(RawValue::get)
}

pub(super) fn has_role(message: &str, role: &str) -> bool {
    json::member(message, "role").is_some_and(|known| json::is_string(known, role))
}

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

/// Content of a part that is no text.
pub(in crate::projection) enum Source {
    /// The bytes, in Base64.
    Data(String),
    Url(String),
}

/// Content of a part of AG-UI's InputContent that is no text, with its media type if the part names one.
pub(in crate::projection) fn source_of(part: &Value) -> Option<(Source, Option<String>)> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    // `binary` is the form before AG-UI 1.0, in which the part itself has the data.
    let source = part.get("source").unwrap_or(part);
    let media = text(source, "mimeType").or_else(|| text(part, "mimeType"));
    let found = match text(source, "type").as_deref() {
        Some("data") => Source::Data(text(source, "value")?),
        Some("url") => Source::Url(text(source, "value")?),
        _ => text(source, "url").map(Source::Url).or_else(|| text(source, "data").map(Source::Data))?,
    };
    Some((found, media))
}

/// Part of a UI message from a part of AG-UI's InputContent.
fn ui_part(part: &Value) -> Option<Value> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = text(part, "type")?;
    if kind == "text" {
        return Some(json!({ "type": "text", "text": text(part, "text")? }));
    }
    let (source, media) = source_of(part)?;
    let media =
        media.unwrap_or_else(|| if kind == "image" { "image/*" } else { "application/octet-stream" }.to_owned());
    let url = match source {
        Source::Data(data) => format!("data:{media};base64,{data}"),
        Source::Url(url) => url,
    };
    let mut file = json!({ "type": "file", "mediaType": media, "url": url });
    if let Some(name) = text(part, "filename").or_else(|| text(part.get("metadata")?, "filename")) {
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
            let named = |kind: &&str| media.strip_prefix(*kind).is_some_and(|rest| rest.starts_with('/'));
            let kind = ["image", "audio", "video"].into_iter().find(named).unwrap_or("document");
            let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
            let source = match inline {
                Some((_, data)) => json!({ "type": "data", "value": data, "mimeType": media }),
                None => json!({ "type": "url", "value": url, "mimeType": media }),
            };
            let mut said = json!({ "type": kind, "source": source });
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
