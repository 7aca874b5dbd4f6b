//! Requests for a response, and the run inputs that are made from them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use threadline_core::{
    AgentId, RunId, ThreadId, json as text,
    limits::{MAX_INPUT_ITEMS, MAX_INPUT_MESSAGES},
    projection::response::{Echo, Input, Misfit, read_input},
};
use threadline_http::problem::{Problem, ProblemType};

use super::{
    errors::invalid,
    ids::{ResponseId, conversation, no_response},
    models::agent_id,
    parameters::check_included,
};

/// Members of a request that this API reads itself.
const READ: [&str; 10] = [
    "background",
    "conversation",
    "include",
    "input",
    "model",
    "previous_response_id",
    "store",
    "stream",
    "stream_options",
    "tools",
];
/// Members that the response repeats, and that the agent receives in `forwardedProps`.
const FORWARDED: [&str; 18] = [
    "frequency_penalty",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "temperature",
    "text",
    "tool_choice",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];
/// Members without a meaning for an agent, which are ignored.
const IGNORED: [&str; 3] = ["context_management", "moderation", "prompt_cache_options"];
/// Member of `forwardedProps` with the settings of a request.
const SETTINGS: &str = "openai";
/// Description of the context entry that holds the instructions of a request.
const INSTRUCTIONS: &str = "Instructions for this response";

/// Place at which a response begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// In a conversation of its own.
    New,
    /// The end of a conversation.
    Conversation(ThreadId),
    /// The end of a response.
    After(ResponseId),
}

/// Request for a response.
#[derive(Debug)]
pub struct Asked {
    pub model: String,
    pub agent: AgentId,
    pub target: Target,
    pub previous: Option<String>,
    pub stream: bool,
    pub background: bool,
    pub store: bool,
    /// Member `input`, a JSON text.
    pub input: String,
    pub echo: Echo,
    /// Tools in AG-UI's form.
    tools: Vec<Value>,
    instructions: Option<String>,
    settings: Map<String, Value>,
}

/// Members of a request by their names.
struct Members<'r>(BTreeMap<String, &'r str>);

impl<'r> Members<'r> {
    /// Reads an object. Of members that occur twice the last one counts; `null` counts as absent.
    fn of(request: &'r str) -> Self {
        let named = text::entries(request).filter_map(|(name, value)| Some((text::string(name)?, value)));
        Self(named.collect::<BTreeMap<_, _>>().into_iter().filter(|(_, value)| *value != "null").collect())
    }

    fn raw(&self, name: &str) -> Option<&'r str> {
        self.0.get(name).copied()
    }

    fn string(&self, name: &str) -> Result<Option<String>, Problem> {
        let read = |value| text::string(value).ok_or_else(|| invalid(name, format!("{name} is not a string")));
        self.raw(name).map(read).transpose()
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, Problem> {
        match self.raw(name) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(invalid(name, format!("{name} is neither true nor false"))),
        }
    }

    fn refuse_unknown(&self) -> Result<(), Problem> {
        let known = |name: &str| [&READ[..], &FORWARDED, &IGNORED].concat().contains(&name) || name == "instructions";
        match self.0.keys().find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => {
                let shown = &name[..name.floor_char_boundary(64)];
                let problem = invalid(shown, format!("the member {shown:?} is unknown, or not supported here"));
                Err(with_code(problem, "unknown_parameter"))
            }
        }
    }

    /// Place at which the response begins, and the previous response as the request names it.
    fn target(&self) -> Result<(Target, Option<String>), Problem> {
        let conversation_id = match self.raw("conversation") {
            None => None,
            Some(value) => {
                let id = text::string(value).or_else(|| text::string_member(value, "id"));
                let id =
                    id.ok_or_else(|| invalid("conversation", "conversation is neither an id nor an object with one"))?;
                Some(conversation(&id).map_err(|problem| about(problem, "conversation"))?)
            }
        };
        let previous = self.string("previous_response_id")?;
        match (conversation_id, previous) {
            (Some(_), Some(_)) => Err(invalid(
                "previous_response_id",
                "previous_response_id and conversation exclude each other: send one of them",
            )),
            (Some(thread), None) => Ok((Target::Conversation(thread), None)),
            (None, Some(previous)) => {
                let id = ResponseId::read(&previous).map_err(|_| no_previous(&previous))?;
                Ok((Target::After(id), Some(previous)))
            }
            (None, None) => Ok((Target::New, None)),
        }
    }
}

/// The problem with a code of OpenAI's own.
fn with_code(mut problem: Problem, code: &str) -> Problem {
    problem.facts.insert("openai_code".to_owned(), code.into());
    problem
}

/// The problem, with the parameter that it is about.
fn about(mut problem: Problem, param: &str) -> Problem {
    problem.facts.insert("param".to_owned(), param.into());
    problem
}

/// Refusal of a previous response that does not exist for this caller.
pub fn no_previous(id: &str) -> Problem {
    with_code(about(no_response(id), "previous_response_id"), "previous_response_not_found")
}

impl Asked {
    /// Reads the members of a request, a JSON object.
    pub fn read(request: &str) -> Result<Self, Problem> {
        let members = Members::of(request);
        members.refuse_unknown()?;
        let model = members.string("model")?.ok_or_else(|| invalid("model", "model is missing: the id of an agent"))?;
        let agent = agent_id(&model)?;
        let (target, previous) = members.target()?;
        let (stream, background) = (members.flag("stream", false)?, members.flag("background", false)?);
        let store = members.flag("store", true)?;
        if background && !store {
            return Err(invalid("background", "a background response must be stored: send store as true"));
        }
        if !store && matches!(target, Target::Conversation(_)) {
            return Err(invalid("store", "a response in a conversation is stored: omit store, or conversation"));
        }
        let input =
            members.raw("input").ok_or_else(|| invalid("input", "input is missing: a text or a list of items"))?;
        if let Some(include) = members.raw("include") {
            let names: Vec<String> =
                serde_json::from_str(include).map_err(|_| invalid("include", "include is not a list of strings"))?;
            names.iter().try_for_each(|name| check_included(name))?;
        }
        let echo = Echo::read(request).map_err(|misfit| match misfit {
            Misfit::Form { member, .. } => invalid(member, misfit.to_string()),
            Misfit::TooLarge => Problem::new(ProblemType::TooLarge, misfit.to_string()),
        })?;
        let settings = FORWARDED
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), serde_json::from_str(members.raw(name)?).ok()?)));
        Ok(Self {
            agent,
            target,
            previous,
            stream,
            background,
            store,
            input: input.to_owned(),
            echo,
            tools: members.raw("tools").map(tools).transpose()?.unwrap_or_default(),
            instructions: members.string("instructions")?,
            settings: settings.collect(),
            model,
        })
    }

    /// Messages and answers that the request brings. Those without an id get one that derives from the run.
    pub fn said(&self, run: &RunId) -> Result<Input, Problem> {
        said(&self.input, "input", run)
    }

    /// AG-UI's input with these messages and answers to interrupts.
    pub fn agent_input(&self, messages: Vec<Value>, resume: Vec<Value>) -> Value {
        let mut input = json!({ "messages": messages, "tools": self.tools });
        if let Some(instructions) = &self.instructions {
            input["context"] = json!([{ "description": INSTRUCTIONS, "value": instructions }]);
        }
        if !resume.is_empty() {
            input["resume"] = resume.into();
        }
        if !self.settings.is_empty() {
            input["forwardedProps"] = json!({ SETTINGS: self.settings });
        }
        input
    }
}

/// Messages and answers of a list of items, or of a text. `name` is the member that holds them.
pub fn said(input: &str, name: &str, run: &RunId) -> Result<Input, Problem> {
    let input: Value =
        serde_json::from_str(input).map_err(|error| invalid(name, format!("{name} cannot be read: {error}")))?;
    if input.as_array().is_some_and(|items| items.len() > MAX_INPUT_MESSAGES) {
        return Err(invalid(name, format!("{name} has more than {MAX_INPUT_MESSAGES} items")));
    }
    let mut number = 0;
    let make_id = || {
        number += 1;
        format!("{}-{number}", run.as_str())
    };
    read_input(&input, make_id).map_err(|error| {
        let at = error.at.strip_prefix("input").map_or_else(|| error.at.clone(), |rest| format!("{name}{rest}"));
        invalid(&at, format!("{at}: {}", error.kind))
    })
}

/// Functions of a request as tools of AG-UI. Tools that OpenAI itself runs are refused: an agent brings its own.
fn tools(list: &str) -> Result<Vec<Value>, Problem> {
    let list: Vec<Map<String, Value>> =
        serde_json::from_str(list).map_err(|_| invalid("tools", "tools is not a list of objects"))?;
    if list.len() > MAX_INPUT_ITEMS {
        return Err(invalid("tools", format!("tools has more than {MAX_INPUT_ITEMS} items")));
    }
    list.into_iter().enumerate().map(|(index, tool)| function(index, &tool)).collect()
}

fn function(index: usize, tool: &Map<String, Value>) -> Result<Value, Problem> {
    let text = |name: &str| tool.get(name).and_then(Value::as_str);
    match text("type") {
        Some("function") => {}
        kind => {
            let detail = format!(
                "tools[{index}] has the type {:?}: only functions are supported, as an agent brings its own tools",
                kind.unwrap_or_default()
            );
            return Err(invalid(&format!("tools[{index}].type"), detail));
        }
    }
    let name = text("name").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| invalid(&format!("tools[{index}].name"), format!("tools[{index}] has no name")))?;
    let parameters = tool.get("parameters").filter(|schema| schema.is_object()).cloned();
    Ok(json!({
        "name": name,
        "description": text("description").unwrap_or_default(),
        "parameters": parameters.unwrap_or_else(|| json!({ "type": "object", "properties": {} })),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(request: Value) -> (Option<String>, String) {
        let problem = Asked::read(&request.to_string()).expect_err("refused");
        (problem.facts.get("param").and_then(Value::as_str).map(str::to_owned), problem.detail)
    }

    #[test]
    fn a_request_becomes_an_input_of_an_agent() {
        let request = json!({ "model": "a", "input": "hi", "instructions": "Be kind.", "temperature": 0.5, "metadata": null,
            "tools": [{ "type": "function", "name": "pay", "parameters": null, "strict": true }] });
        let asked = Asked::read(&request.to_string()).expect("a request");
        assert_eq!((asked.store, asked.stream, &asked.target), (true, false, &Target::New));
        let input = asked.agent_input(Vec::new(), vec![json!({ "interruptId": "i" })]);
        assert_eq!(
            input["tools"],
            json!([{ "name": "pay", "description": "", "parameters": { "type": "object", "properties": {} } }])
        );
        assert_eq!(input["context"][0]["value"], "Be kind.");
        assert_eq!(input["forwardedProps"], json!({ "openai": { "temperature": 0.5 } }));
        assert_eq!(input["resume"], json!([{ "interruptId": "i" }]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |name: &str, value: Value| {
            let mut request = json!({ "model": "a", "input": "hi" });
            request[name] = value;
            refused(request)
        };
        assert_eq!(refused(json!({ "input": "hi" })).0.as_deref(), Some("model"));
        assert_eq!(refused(json!({ "model": "a" })).0.as_deref(), Some("input"));
        for (name, value, param) in [
            ("model", json!(7), "model"),
            ("stream", json!("yes"), "stream"),
            ("no_such_member", json!(1), "no_such_member"),
            ("prompt", json!({ "id": "p" }), "prompt"),
            ("tools", json!({}), "tools"),
            ("tools", json!([{ "type": "web_search" }]), "tools[0].type"),
            ("tools", json!([{ "type": "function" }]), "tools[0].name"),
            ("metadata", json!({ "a": 1 }), "metadata"),
            ("include", json!(["no.such"]), "include"),
            ("conversation", json!({}), "conversation"),
            ("conversation", json!("t"), "conversation"),
            ("previous_response_id", json!("resp_x"), "previous_response_id"),
        ] {
            assert_eq!(with(name, value.clone()).0.as_deref(), Some(param), "{name} {value}");
        }
        let both =
            json!({ "model": "a", "input": "hi", "conversation": "conv_t", "previous_response_id": "resp_dAByAA" });
        assert!(refused(both).1.contains("exclude each other"));
        let gone = json!({ "model": "a", "input": "hi", "background": true, "store": false });
        assert!(refused(gone).1.contains("must be stored"));
    }
}
