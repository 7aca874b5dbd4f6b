//! Input of a response: messages and answers, from the items that a client sends.

use serde_json::{Map, Value, json};

use super::ids::ItemId;
use crate::{
    limits::MAX_ID_BYTES,
    projection::media::{inline, kind_of, source},
};

/// Input of a response, as AG-UI has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// Messages, each with an id.
    pub messages: Vec<Value>,
    /// Answers to interrupts, for `resume`.
    pub resume: Vec<Value>,
    /// Ids of items that the client refers to, and that are in the conversation already.
    pub references: Vec<String>,
}

/// Refusal of an item of an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {kind}")]
pub struct InputError {
    /// Path of the value, as `input[2].content[0]`.
    pub at: String,
    /// Reason for which the value cannot be read.
    pub kind: InputErrorKind,
}

/// Reason for which an item of an input cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputErrorKind {
    /// The value is of another form than the protocol gives it.
    #[error("expected {0}")]
    Form(&'static str),
    /// Items of this type cannot be sent.
    #[error("items of the type \"{0}\" are not supported")]
    UnknownItem(String),
    /// Parts of this type have no place in a message of this role.
    #[error("parts of the type \"{kind}\" are not supported in {role}")]
    UnknownPart {
        /// Type of the part.
        kind: String,
        /// Kind of message or item that has the part.
        role: &'static str,
    },
    /// Messages of this role cannot be sent.
    #[error("the role \"{0}\" is not supported; use user, assistant, system or developer")]
    UnknownRole(String),
    /// The id names no request for an approval.
    #[error("\"{0}\" is not the ID of an approval request")]
    UnknownApproval(String),
}

/// Reads the input of a request: a text, or a list of items. `make_id` gives an id to a message whose item has no id of this API.
/// Reasoning and requests for approvals, which clients send back with their history, are ignored.
pub fn read_input(input: &Value, mut make_id: impl FnMut() -> String) -> Result<Input, InputError> {
    let mut reader = Reader { input: Input::default(), make_id: &mut make_id, assistant: None };
    match input {
        Value::String(text) => {
            let id = (reader.make_id)();
            reader.input.messages.push(json!({ "id": id, "role": "user", "content": text }));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let at = format!("input[{index}]");
                reader.item(item, &at)?;
            }
        }
        _ => return Err(form("input", "a string or a list of items")),
    }
    Ok(reader.input)
}

fn form(at: &str, expected: &'static str) -> InputError {
    InputError { at: at.to_owned(), kind: InputErrorKind::Form(expected) }
}

/// Text of a member; an error if it is absent or no text.
fn text<'v>(object: &'v Map<String, Value>, name: &str, at: &str) -> Result<&'v str, InputError> {
    object.get(name).and_then(Value::as_str).ok_or_else(|| form(&format!("{at}.{name}"), "a string"))
}

struct Reader<'r> {
    input: Input,
    make_id: &'r mut dyn FnMut() -> String,
    /// Place of the message of the assistant to which a call that follows belongs.
    assistant: Option<usize>,
}

impl Reader<'_> {
    fn item(&mut self, item: &Value, at: &str) -> Result<(), InputError> {
        let Value::Object(item) = item else { return Err(form(at, "an object")) };
        let kind = match item.get("type") {
            None | Some(Value::Null) if item.contains_key("role") => "message",
            None | Some(Value::Null) => "item_reference",
            Some(kind) => kind.as_str().ok_or_else(|| form(&format!("{at}.type"), "a string"))?,
        };
        match kind {
            "message" => return self.message(item, at),
            "function_call" => {
                let id = text(item, "call_id", at)?;
                return self.call(id, item, at);
            }
            "mcp_call" => self.hosted(item, at)?,
            // Items of these types may stand between a message and its calls.
            "reasoning" | "mcp_approval_request" => return Ok(()),
            "function_call_output" => self.output(item, at)?,
            "mcp_approval_response" => self.answer(item, at)?,
            "item_reference" => self.input.references.push(text(item, "id", at)?.to_owned()),
            _ => return Err(InputError { at: at.to_owned(), kind: InputErrorKind::UnknownItem(kind.to_owned()) }),
        }
        self.assistant = None;
        Ok(())
    }

    fn message(&mut self, item: &Map<String, Value>, at: &str) -> Result<(), InputError> {
        let given = text(item, "role", at)?;
        let roles = ["user", "assistant", "system", "developer"];
        let Some(role) = roles.into_iter().find(|role| *role == given) else {
            let kind = InputErrorKind::UnknownRole(given.to_owned());
            return Err(InputError { at: format!("{at}.role"), kind });
        };
        let content = content(item.get("content").unwrap_or(&Value::Null), role, &format!("{at}.content"))?;
        let id = self.id(item, |id| match id {
            ItemId::Message(named) => Some(named),
            _ => None,
        });
        self.assistant = (role == "assistant").then_some(self.input.messages.len());
        self.input.messages.push(json!({ "id": id, "role": role, "content": content }));
        Ok(())
    }

    /// Reads a call that the agent has executed, and its result.
    fn hosted(&mut self, item: &Map<String, Value>, at: &str) -> Result<(), InputError> {
        let given = text(item, "id", at)?;
        let id = match ItemId::read(given) {
            Some(ItemId::Hosted(id)) => id,
            _ => given,
        };
        self.call(id, item, at)?;
        if let Some(output) = item.get("output").and_then(Value::as_str) {
            let message = (self.make_id)();
            self.input.messages.push(json!({ "id": message, "role": "tool", "toolCallId": id, "content": output }));
        }
        Ok(())
    }

    fn call(&mut self, id: &str, item: &Map<String, Value>, at: &str) -> Result<(), InputError> {
        let function = json!({ "name": text(item, "name", at)?, "arguments": text(item, "arguments", at)? });
        let call = json!({ "id": id, "type": "function", "function": function });
        let place = match self.assistant {
            Some(place) => place,
            None => {
                let message = json!({ "id": (self.make_id)(), "role": "assistant" });
                self.input.messages.push(message);
                self.input.messages.len() - 1
            }
        };
        self.assistant = Some(place);
        match &mut self.input.messages[place]["toolCalls"] {
            Value::Array(calls) => calls.push(call),
            none => *none = json!([call]),
        }
        Ok(())
    }

    fn output(&mut self, item: &Map<String, Value>, at: &str) -> Result<(), InputError> {
        let call = text(item, "call_id", at)?;
        let given = item.get("output").unwrap_or(&Value::Null);
        let content = content(given, "function_call_output", &format!("{at}.output"))?;
        let id = self.id(item, |id| match id {
            ItemId::Output(named) => Some(named),
            _ => None,
        });
        self.input.messages.push(json!({ "id": id, "role": "tool", "toolCallId": call, "content": content }));
        Ok(())
    }

    fn answer(&mut self, item: &Map<String, Value>, at: &str) -> Result<(), InputError> {
        let id = text(item, "approval_request_id", at)?;
        let Some(ItemId::Approval(interrupt)) = ItemId::read(id) else {
            let kind = InputErrorKind::UnknownApproval(id.to_owned());
            return Err(InputError { at: format!("{at}.approval_request_id"), kind });
        };
        let approved = item.get("approve").and_then(Value::as_bool);
        let approved = approved.ok_or_else(|| form(&format!("{at}.approve"), "true or false"))?;
        let mut payload = json!({ "approved": approved });
        if let Some(reason) = item.get("reason").filter(|reason| reason.is_string()) {
            payload["reason"] = reason.clone();
        }
        self.input.resume.push(json!({ "interruptId": interrupt, "status": "resolved", "payload": payload }));
        Ok(())
    }

    /// Id of a message: the one that the id of its item names, or a new one.
    fn id(&mut self, item: &Map<String, Value>, named: impl Fn(ItemId<'_>) -> Option<&str>) -> String {
        let given = item.get("id").and_then(Value::as_str).and_then(ItemId::read).and_then(named);
        given.filter(|id| id.len() <= MAX_ID_BYTES).map_or_else(|| (self.make_id)(), str::to_owned)
    }
}

/// Content of a message: a text, or parts if it has anything else.
fn content(given: &Value, role: &'static str, at: &str) -> Result<Value, InputError> {
    let list = match given {
        Value::String(text) => return Ok(Value::String(text.clone())),
        Value::Array(list) => list,
        _ => return Err(form(at, "a string or a list of parts")),
    };
    let mut parts = Vec::with_capacity(list.len());
    for (index, part) in list.iter().enumerate() {
        let at = format!("{at}[{index}]");
        parts.push(self::part(part, role, &at)?);
    }
    if parts.iter().all(|part| part["type"] == "text") {
        let texts = parts.iter().filter_map(|part| part["text"].as_str());
        return Ok(texts.collect::<Vec<_>>().join("").into());
    }
    Ok(parts.into())
}

fn part(part: &Value, role: &'static str, at: &str) -> Result<Value, InputError> {
    let Value::Object(part) = part else { return Err(form(at, "an object")) };
    let has_media = matches!(role, "user" | "function_call_output");
    match text(part, "type", at)? {
        "input_text" | "output_text" | "text" => Ok(json!({ "type": "text", "text": text(part, "text", at)? })),
        "refusal" => Ok(json!({ "type": "text", "text": text(part, "refusal", at)? })),
        "input_image" if has_media => image(part, at),
        "input_file" if has_media => file(part, at),
        "input_audio" if has_media => audio(part, at),
        kind => {
            let kind = InputErrorKind::UnknownPart { kind: kind.to_owned(), role };
            Err(InputError { at: at.to_owned(), kind })
        }
    }
}

/// Value of a member, if it is a text that is not empty.
fn given<'v>(part: &'v Map<String, Value>, name: &str) -> Option<&'v str> {
    part.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn image(part: &Map<String, Value>, at: &str) -> Result<Value, InputError> {
    let source = match (given(part, "image_url"), given(part, "file_id")) {
        (Some(url), _) => source(url, None),
        (None, Some(handle)) => json!({ "type": "file", "value": handle }),
        (None, None) => return Err(form(at, "an \"image_url\" or a \"file_id\"")),
    };
    Ok(json!({ "type": "image", "source": source }))
}

fn file(part: &Map<String, Value>, at: &str) -> Result<Value, InputError> {
    let source = match (given(part, "file_data"), given(part, "file_url"), given(part, "file_id")) {
        (Some(data), ..) if inline(data).is_some() => source(data, None),
        (Some(data), ..) => json!({ "type": "data", "value": data, "mimeType": "application/octet-stream" }),
        (None, Some(url), _) => source(url, None),
        (None, None, Some(handle)) => json!({ "type": "file", "value": handle }),
        (None, None, None) => return Err(form(at, "\"file_data\", a \"file_url\" or a \"file_id\"")),
    };
    let kind = kind_of(source["mimeType"].as_str().unwrap_or_default());
    let mut medium = json!({ "type": kind, "source": source });
    if let Some(name) = given(part, "filename") {
        medium["metadata"] = json!({ "filename": name });
    }
    Ok(medium)
}

fn audio(part: &Map<String, Value>, at: &str) -> Result<Value, InputError> {
    let sound = part.get("input_audio").and_then(Value::as_object);
    let sound = sound.and_then(|sound| Some((given(sound, "data")?, given(sound, "format")?)));
    let Some((data, format)) = sound else {
        return Err(form(&format!("{at}.input_audio"), "\"data\" and a \"format\""));
    };
    let media_type = if format == "mp3" { "audio/mpeg".to_owned() } else { format!("audio/{format}") };
    Ok(json!({ "type": "audio", "source": { "type": "data", "value": data, "mimeType": media_type } }))
}
