//! Requests of `useChat`, and the run inputs that are made from them.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json, value::RawValue};
use threadline_core::{
    ThreadId, json as text,
    projection::{conversation::Conversation, ui_message},
};
use threadline_http::problem::Problem;

use super::unreadable;

/// Members of a request by their names.
pub type Members = BTreeMap<String, Box<RawValue>>;

/// Members that the AI SDK defines.
const OF_SDK: [&str; 6] = ["id", "messages", "message", "trigger", "messageId", "metadata"];
/// Members that become members of AG-UI's input.
const OF_AGUI: [&str; 5] = ["tools", "context", "state", "resume", "parentRunId"];

/// Reason why a page sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A new message, an edited one, or results of tools.
    Submit,
    /// The last answer is to be regenerated.
    Regenerate,
}

/// Request of a page.
#[derive(Debug)]
pub struct Request {
    pub chat: ThreadId,
    pub trigger: Trigger,
    /// Id of the message that is edited, continued or regenerated.
    pub named: Option<String>,
    /// Last message of the request.
    pub last: Option<Value>,
    /// Id of the last message of the user.
    pub asked: Option<String>,
    /// Members of the application, and of AG-UI.
    rest: Members,
}

/// Content that a request adds to a chat.
#[derive(Debug)]
pub enum Said {
    /// A message of the user, in AG-UI's form.
    Message(Value),
    /// Results of tools and answers to interrupts: the run continues the last message.
    Answers { messages: Vec<Value>, resume: Vec<Value> },
    /// No content: the answer is regenerated.
    Nothing,
}

impl Request {
    /// Reads the members of a request.
    pub fn read(mut members: Members) -> Result<Self, Problem> {
        let chat = members
            .get("id")
            .and_then(|id| text::string(id.get()))
            .ok_or_else(|| Problem::invalid("id, the id of the chat, is missing or not a string"))?;
        let chat = ThreadId::new(chat).map_err(|error| Problem::invalid(format!("id: {error}")))?;
        let trigger = match members.get("trigger").and_then(|trigger| text::string(trigger.get())).as_deref() {
            None | Some("submit-message") => Trigger::Submit,
            Some("regenerate-message") => Trigger::Regenerate,
            Some(other) => {
                return Err(Problem::invalid(format!(
                    "trigger {other:?} is neither submit-message nor regenerate-message"
                )));
            }
        };
        let named = members.get("messageId").and_then(|id| text::string(id.get()));
        let list: Vec<Box<RawValue>> = match members.get("messages") {
            None => members.get("message").cloned().into_iter().collect(),
            Some(list) => serde_json::from_str(list.get()).map_err(|_| Problem::invalid("messages is not an array"))?,
        };
        let last = match list.last() {
            Some(message) => Some(serde_json::from_str(message.get()).map_err(|_| {
                let is_of_list = members.contains_key("messages");
                let name = if is_of_list { format!("messages/{}", list.len() - 1) } else { "message".to_owned() };
                Problem::invalid(unreadable::reason(&name, message.get()))
            })?),
            None => None,
        };
        let asked = list.iter().rev().find_map(|message| {
            let message = message.get();
            let role = text::member(message, "role")?;
            text::is_string(role, "user").then(|| text::string_member(message, "id"))?
        });
        for name in OF_SDK {
            members.remove(name);
        }
        Ok(Self { chat, trigger, named, last, asked, rest: members })
    }

    /// True if the request answers interrupts by itself.
    pub fn resumes(&self) -> bool {
        self.rest.get("resume").is_some_and(|resume| !matches!(resume.get(), "null" | "[]"))
    }

    /// Content that the request adds to the chat. Of an assistant message, these are the results of calls and the approvals for which
    /// the chat waits.
    pub fn said(&self, conversation: &Conversation) -> Result<Said, Problem> {
        if self.trigger == Trigger::Regenerate {
            return Ok(Said::Nothing);
        }
        let last = self.last.as_ref().ok_or_else(|| Problem::invalid("the request has no message"))?;
        match last.get("role").and_then(Value::as_str) {
            Some("user") => {
                let message = ui_message::of_client(last);
                message
                    .map(Said::Message)
                    .ok_or_else(|| Problem::invalid("the last message has neither text nor files"))
            }
            Some("assistant") => {
                let (messages, resume) = answers(last, conversation);
                if messages.is_empty() && resume.is_empty() && !self.resumes() {
                    return Err(Problem::invalid(
                        "the last message brings no result of a tool and no approval that the chat waits for",
                    ));
                }
                Ok(Said::Answers { messages, resume })
            }
            role => {
                let role = role.unwrap_or_default();
                Err(Problem::invalid(format!("the last message has the role {role:?}, neither user nor assistant")))
            }
        }
    }

    /// AG-UI's input: these messages and answers, and the members that the application has added to the body. Members that AG-UI's
    /// input does not have become its `forwardedProps`.
    pub fn input(mut self, messages: Vec<Value>, resume: Vec<Value>) -> Value {
        let mut input = Map::new();
        input.insert("messages".to_owned(), messages.into());
        let value = |raw: Box<RawValue>| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
        for name in OF_AGUI {
            if let Some(given) = self.rest.remove(name) {
                input.insert(name.to_owned(), value(given));
            }
        }
        if !resume.is_empty() {
            match input.get_mut("resume") {
                Some(Value::Array(given)) => given.extend(resume),
                _ => drop(input.insert("resume".to_owned(), resume.into())),
            }
        }
        let given = self.rest.remove("forwardedProps").map(value);
        let mut forwarded: Map<String, Value> = self.rest.into_iter().map(|(name, raw)| (name, value(raw))).collect();
        if let Some(Value::Object(given)) = given {
            forwarded.extend(given);
        }
        input.insert("forwardedProps".to_owned(), forwarded.into());
        input.into()
    }
}

/// Results of calls that wait for one, as AG-UI's messages, and answers to open interrupts.
fn answers(message: &Value, conversation: &Conversation) -> (Vec<Value>, Vec<Value>) {
    let pending: HashSet<String> = conversation.pending_tool_calls().into_iter().collect();
    let open: HashSet<&str> = conversation.open_interrupts().collect();
    let (mut results, mut resume) = (Vec::new(), Vec::new());
    for part in message.get("parts").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        let Some(call) = text("toolCallId") else { continue };
        let is_pending = pending.contains(call);
        match text("state") {
            Some("output-available") if is_pending => {
                let output = part.get("output").unwrap_or(&Value::Null);
                let content = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
                results.push(json!({ "id": result_id(call), "role": "tool", "toolCallId": call, "content": content }));
            }
            Some("output-error") if is_pending => {
                let error = text("errorText").unwrap_or_default();
                results.push(json!({ "id": result_id(call), "role": "tool", "toolCallId": call, "content": error, "error": error }));
            }
            Some("approval-responded") => {
                let approval = part.get("approval").unwrap_or(&Value::Null);
                let Some(id) = approval.get("id").and_then(Value::as_str).filter(|id| open.contains(id)) else {
                    continue;
                };
                let mut payload =
                    json!({ "approved": approval.get("approved").and_then(Value::as_bool).unwrap_or_default() });
                if let Some(reason) = approval.get("reason").filter(|reason| reason.is_string()) {
                    payload["reason"] = reason.clone();
                }
                resume.push(json!({ "interruptId": id, "status": "resolved", "payload": payload }));
            }
            _ => {}
        }
    }
    (results, resume)
}

/// Id of the message with the result of a call. Derived from the call, so that a repeated request brings the same message.
fn result_id(call: &str) -> String {
    format!("{call}:result")
}
