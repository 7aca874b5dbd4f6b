//! AG-UI's messages from those that LangChain's clients send.

use serde_json::{Map, Value, json};

use crate::projection::media::source;

/// Reason for which the messages of an input are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The member is neither a message, nor a text, nor a list of these.
    #[error("input.messages is neither a message, nor a text, nor a list of these")]
    NoMessages,
    /// A message has none of the known types.
    #[error("input.messages/{0} has the type {1:?}, which is none of human, ai, system, developer and tool")]
    Type(usize, String),
    /// A message has neither a text nor parts that can be sent on.
    #[error(
        "input.messages/{0} has no content: send a text, or parts of the type text, image, image_url, audio, video or file"
    )]
    Content(usize),
    /// A message of a tool names no call.
    #[error("input.messages/{0} has no tool_call_id, the id of the call that it is the result of")]
    Call(usize),
}

/// Messages in AG-UI's form, from a list, one message, or a text of the user.
pub fn said(messages: &Value) -> Result<Vec<Value>, Refused> {
    match messages {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => list.iter().enumerate().map(|(at, message)| one(at, message)).collect(),
        Value::Object(_) | Value::String(_) => Ok(vec![one(0, messages)?]),
        _ => Err(Refused::NoMessages),
    }
}

fn one(at: usize, message: &Value) -> Result<Value, Refused> {
    let message = match message {
        Value::String(text) => return Ok(json!({ "role": "user", "content": text })),
        Value::Object(message) => message,
        _ => return Err(Refused::NoMessages),
    };
    let text = |name: &str| message.get(name).and_then(Value::as_str);
    let named = text("type").or_else(|| text("role")).unwrap_or_default();
    let role = match named {
        "human" | "user" => "user",
        "ai" | "assistant" | "AIMessageChunk" => "assistant",
        "system" => "system",
        "developer" => "developer",
        "tool" => "tool",
        other => return Err(Refused::Type(at, other.to_owned())),
    };
    let mut said = json!({ "role": role });
    for name in ["id", "name"] {
        if let Some(value) = text(name).filter(|value| !value.is_empty()) {
            said[name] = value.into();
        }
    }
    let calls: Vec<Value> =
        message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().map(call).collect();
    let content = content(message.get("content"));
    match role {
        "assistant" => {
            if let Some(content) = content.map(|content| only_text(&content)) {
                said["content"] = content.into();
            } else if calls.is_empty() {
                return Err(Refused::Content(at));
            }
            if !calls.is_empty() {
                said["toolCalls"] = calls.into();
            }
        }
        "tool" => {
            said["toolCallId"] = text("tool_call_id").filter(|id| !id.is_empty()).ok_or(Refused::Call(at))?.into();
            // The results of tools may be values of any form.
            let content = content.or_else(|| message.get("content").map(|content| content.to_string().into()));
            let content = only_text(&content.ok_or(Refused::Content(at))?);
            if text("status") == Some("error") {
                said["error"] = content.clone().into();
            }
            said["content"] = content.into();
        }
        "user" => said["content"] = content.ok_or(Refused::Content(at))?,
        _ => said["content"] = only_text(&content.ok_or(Refused::Content(at))?).into(),
    }
    Ok(said)
}

fn call(call: &Value) -> Value {
    let args = match call.get("args") {
        Some(Value::String(args)) => args.clone(),
        Some(args) => args.to_string(),
        None => "{}".to_owned(),
    };
    json!({ "id": call["id"], "type": "function", "function": { "name": call["name"], "arguments": args } })
}

/// Text, or a list of AG-UI's parts; `None` for an empty list and for anything else.
fn content(content: Option<&Value>) -> Option<Value> {
    match content? {
        Value::String(text) => Some(text.clone().into()),
        Value::Array(blocks) => {
            let parts: Vec<Value> = blocks.iter().filter_map(part).collect();
            match &parts[..] {
                [] => None,
                [one] if one["type"] == "text" => Some(one["text"].clone()),
                _ => Some(parts.into()),
            }
        }
        _ => None,
    }
}

/// Text of a content, or of its parts, one a line.
fn only_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        content => {
            let parts = content.as_array().into_iter().flatten();
            parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    }
}

/// AG-UI's part from a content block of LangChain, in the current form or an older one.
fn part(block: &Value) -> Option<Value> {
    if let Value::String(text) = block {
        return Some(json!({ "type": "text", "text": text }));
    }
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    let kind = match text("type")? {
        "text" => return Some(json!({ "type": "text", "text": text("text")? })),
        "image_url" => {
            let image = block.get("image_url")?;
            let url = image.as_str().or_else(|| image.get("url")?.as_str())?;
            return Some(json!({ "type": "image", "source": source(url, None) }));
        }
        kind @ ("image" | "audio" | "video") => kind,
        "file" => "document",
        _ => return None,
    };
    let media = ["mime_type", "mimeType", "media_type"].into_iter().find_map(text);
    let source = match ["base64", "data"].into_iter().find_map(text) {
        Some(data) => {
            let media = media.unwrap_or(if kind == "document" { "application/octet-stream" } else { "image/*" });
            json!({ "type": "data", "value": data, "mimeType": media })
        }
        None => source(text("url")?, media),
    };
    let mut part = json!({ "type": kind, "source": source });
    if let Some(metadata) = block.get("metadata").and_then(Value::as_object).filter(|metadata| !metadata.is_empty()) {
        part["metadata"] = Value::Object(Map::clone(metadata));
    }
    Some(part)
}
