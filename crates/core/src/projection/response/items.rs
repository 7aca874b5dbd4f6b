//! Items of a conversation, from its messages.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{halves::whole, ids::ItemId};
use crate::{
    json::{self, quoted},
    projection::{
        media::{Media, inline},
        reading::{has_role, items as elements},
    },
};

/// Items of a message of a conversation, each as JSON on one line. `message` is the message as JSON text. Activities, and messages
/// without content and calls, give none.
pub fn items(message: &str) -> Vec<String> {
    // No text of the items may hold half of a character.
    let message = &*whole(message);
    let Some(id) = json::string_member(message, "id") else { return Vec::new() };
    let mut items = Vec::new();
    let role = ["user", "assistant", "system", "developer", "tool", "reasoning"];
    match role.into_iter().find(|role| has_role(message, role)) {
        Some("assistant") => {
            if let Some(text) = text_of(message) {
                let part = format!("{{\"type\":\"output_text\",\"text\":{text},\"annotations\":[],\"logprobs\":[]}}");
                items.push(said(&id, "assistant", &part));
            }
            items.extend(elements(json::member(message, "toolCalls")).filter_map(call));
        }
        Some("tool") => items.extend(result(&id, message)),
        Some("reasoning") => items.extend(text_of(message).map(|text| {
            let id = quoted(&ItemId::Reasoning(&id).to_string());
            format!(
                "{{\"type\":\"reasoning\",\"id\":{id},\"status\":\"completed\",\"summary\":[],\"content\":\
                 [{{\"type\":\"reasoning_text\",\"text\":{text}}}]}}"
            )
        })),
        Some(role) => items.extend(content(message).map(|content| said(&id, role, &content))),
        None => {}
    }
    items
}

fn said(id: &str, role: &str, content: &str) -> String {
    let id = quoted(&ItemId::Message(id).to_string());
    format!("{{\"type\":\"message\",\"id\":{id},\"status\":\"completed\",\"role\":\"{role}\",\"content\":[{content}]}}")
}

/// Text of a message, a JSON string token; `None` if it is empty, or if the content is no text.
fn text_of(message: &str) -> Option<&str> {
    json::member(message, "content").filter(|content| content.starts_with('"') && *content != "\"\"")
}

fn call(call: &str) -> Option<String> {
    let function = json::member(call, "function")?;
    let (id, name) =
        (json::string_member(call, "id")?, json::member(function, "name").filter(|name| name.starts_with('"'))?);
    // Clients parse the arguments as JSON.
    let arguments = json::member(function, "arguments").filter(|arguments| *arguments != "\"\"").unwrap_or("\"{}\"");
    let (item, id) = (quoted(&ItemId::Call(&id).to_string()), quoted(&id));
    Some(format!(
        "{{\"type\":\"function_call\",\"id\":{item},\"status\":\"completed\",\"call_id\":{id},\"name\":{name},\
         \"arguments\":{arguments}}}"
    ))
}

fn result(id: &str, message: &str) -> Option<String> {
    let call = json::string_member(message, "toolCallId")?;
    let given = json::member(message, "content").unwrap_or("\"\"");
    let error = json::member(message, "error").filter(|error| error.starts_with('"') && given == "\"\"");
    let output = match error {
        None if given.starts_with('[') => format!("[{}]", content(message)?),
        error => error.unwrap_or(given).to_owned(),
    };
    let (id, call) = (quoted(&ItemId::Output(id).to_string()), quoted(&call));
    Some(format!(
        "{{\"type\":\"function_call_output\",\"id\":{id},\"status\":\"completed\",\"call_id\":{call},\"output\":{output}}}"
    ))
}

/// Parts of a content, without the brackets around them. `None` for content that is neither a text nor a list.
fn content(message: &str) -> Option<String> {
    let content = json::member(message, "content")?;
    if content.starts_with('"') {
        return Some(format!("{{\"type\":\"input_text\",\"text\":{content}}}"));
    }
    if !content.starts_with('[') {
        return None;
    }
    let mut parts = String::new();
    for part in elements(Some(content)).filter_map(part) {
        let comma = if parts.is_empty() { "" } else { "," };
        _ = write!(parts, "{comma}{part}");
    }
    Some(parts)
}

fn part(part: &str) -> Option<String> {
    if json::member(part, "type").is_some_and(|kind| json::is_string(kind, "text")) {
        let text = json::member(part, "text").filter(|text| text.starts_with('"'))?;
        return Some(format!("{{\"type\":\"input_text\",\"text\":{text}}}"));
    }
    let part: Value = serde_json::from_str(part).ok()?;
    let is_image = part["type"] == "image";
    let handle = part["source"]["value"].as_str().filter(|_| part["source"]["type"] == "file");
    if let Some(handle) = handle {
        let kind = if is_image { "input_image" } else { "input_file" };
        let mut item = json!({ "type": kind, "file_id": handle });
        if is_image {
            item["detail"] = "auto".into();
        }
        return Some(item.to_string());
    }
    let Media { media_type, url, filename } = Media::read(&part)?;
    if is_image || media_type.starts_with("image/") {
        return Some(json!({ "type": "input_image", "detail": "auto", "image_url": url }).to_string());
    }
    let place = if inline(&url).is_some() { "file_data" } else { "file_url" };
    let mut item = json!({ "type": "input_file", place: url });
    if let Some(filename) = filename {
        item["filename"] = filename.into();
    }
    Some(item.to_string())
}
