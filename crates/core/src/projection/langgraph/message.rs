//! LangChain's form of AG-UI's messages.

use serde_json::{Value, json};

use super::blocks::arguments;
use crate::{
    event::names_subagent,
    json,
    projection::{
        media::{Media, inline, kind_of},
        reading::items,
    },
};

/// Text of a content, which is given as a JSON token: for parts, their texts, one a line.
pub(super) fn content_text(token: &str) -> String {
    if let Some(text) = json::string(token) {
        return text;
    }
    let texts: Vec<String> = items(Some(token)).filter_map(|part| json::string_member(part, "text")).collect();
    texts.join("\n")
}

/// LangChain's message from AG-UI's, both as JSON. `None` for activities, for messages of subagents, and for roles that LangChain
/// does not have.
pub fn message_of(message: &str) -> Option<String> {
    if names_subagent(message) {
        return None;
    }
    let member = |name: &str| json::member(message, name).filter(|value| *value != "null");
    let role = json::string_member(message, "role")?;
    let id = member("id")?;
    let content = member("content").unwrap_or("\"\"");
    let name = member("name").map(|name| format!(",\"name\":{name}")).unwrap_or_default();
    Some(match &*role {
        "user" => format!("{{\"type\":\"human\",\"id\":{id},\"content\":{}{name}}}", parts(content)),
        "system" | "developer" => format!("{{\"type\":\"system\",\"id\":{id},\"content\":{}{name}}}", parts(content)),
        "reasoning" => {
            let content = if content.starts_with('"') { content } else { "\"\"" };
            format!(
                "{{\"type\":\"ai\",\"id\":{id},\"content\":[{{\"type\":\"reasoning\",\"reasoning\":{content}}}],\
                 \"tool_calls\":[],\"invalid_tool_calls\":[]}}"
            )
        }
        "assistant" => {
            let (valid, invalid) = calls(member("toolCalls"));
            let content = parts(content);
            format!(
                "{{\"type\":\"ai\",\"id\":{id},\"content\":{content},\"tool_calls\":[{}],\"invalid_tool_calls\":[{}]{name}}}",
                valid.join(","),
                invalid.join(",")
            )
        }
        "tool" => {
            let call = member("toolCallId").unwrap_or("\"\"");
            let status = if member("error").is_some() { "error" } else { "success" };
            let content = parts(content);
            format!(
                "{{\"type\":\"tool\",\"id\":{id},\"tool_call_id\":{call},\"content\":{content},\"status\":\"{status}\"{name}}}"
            )
        }
        _ => return None,
    })
}

/// Calls of a message whose arguments are JSON objects, and the others.
fn calls(list: Option<&str>) -> (Vec<String>, Vec<String>) {
    let (mut valid, mut invalid) = (Vec::new(), Vec::new());
    for call in items(list) {
        let function = json::member(call, "function").unwrap_or("{}");
        let (Some(id), Some(name)) = (json::member(call, "id"), json::member(function, "name")) else { continue };
        let args = json::member(function, "arguments").unwrap_or("\"\"");
        match json::string(args).and_then(|args| arguments(&args)) {
            Some(args) => valid.push(format!("{{\"type\":\"tool_call\",\"id\":{id},\"name\":{name},\"args\":{args}}}")),
            None => invalid.push(format!(
                "{{\"type\":\"invalid_tool_call\",\"id\":{id},\"name\":{name},\"args\":{args},\
                 \"error\":\"The arguments are not a JSON object.\"}}"
            )),
        }
    }
    (valid, invalid)
}

/// Content with LangChain's content blocks in place of AG-UI's parts.
fn parts(content: &str) -> String {
    if !content.starts_with('[') {
        return if content.starts_with('"') { content.to_owned() } else { "\"\"".to_owned() };
    }
    let blocks: Vec<Value> = items(Some(content)).filter_map(|part| block(&serde_json::from_str(part).ok()?)).collect();
    Value::from(blocks).to_string()
}

fn block(part: &Value) -> Option<Value> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = text(part, "type")?;
    if kind == "text" {
        return Some(json!({ "type": "text", "text": text(part, "text")? }));
    }
    let Media { media_type, url, .. } = Media::read(part)?;
    let kind = match &*kind {
        "image" | "audio" | "video" => &kind,
        _ => kind_of(&media_type),
    };
    let mut block = json!({ "type": if kind == "document" { "file" } else { kind } });
    match inline(&url) {
        Some((_, data)) => block["base64"] = data.into(),
        None => block["url"] = url.into(),
    }
    block["mime_type"] = media_type.into();
    if let Some(metadata) = part.get("metadata").filter(|metadata| metadata.is_object()) {
        block["metadata"] = metadata.clone();
    }
    Some(block)
}
