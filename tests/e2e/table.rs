//! Every route, as the server itself lists and describes it: a new one is in these tests without being named here.

use std::sync::LazyLock;

use serde_json::Value;
use threadline::api::router;
use threadline_http::routes::{Access, RouteEntry};

/// A route, and what its description says.
pub struct Route {
    pub method: &'static str,
    pub path: String,
    pub access: Access,
    pub description: Value,
}

/// What a request has for a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    None,
    /// One JSON object.
    Object,
    /// Events, as a JSON array or as NDJSON.
    Events,
    /// A JSON object, or events as NDJSON.
    ObjectOrEvents,
}

/// A path with these in place of its parameters.
pub fn fill(path: &str, thread: &str, run: &str) -> String {
    let path = path
        .replace("{threadId}", thread)
        .replace("{name}", thread)
        .replace("{runId}", run)
        .replace("{slug}", "run-active")
        .replace("{agentId}", "demo")
        .replace("{keyId}", "none")
        .replace("{clientEventId}", "noted")
        .replace("{toolCallId}", "none")
        .replace("{list}", "list")
        .replace("{checkpointId}", "0000000000000000")
        .replace("{responseId}", &response_id(thread, run))
        .replace("{conversationId}", &format!("conv_{thread}"))
        .replace("{itemId}", "msg_none")
        .replace("{model}", "demo")
        .replace("{projectId}", "default")
        .replace("{userId}", "nobody")
        .replace("{*path}", thread);
    assert!(!path.contains('{'), "a parameter of {path} is unknown here");
    path
}

/// Id of the response that stands for a run, in the OpenAI API.
pub fn response_id(thread: &str, run: &str) -> String {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    format!("resp_{}", URL_SAFE_NO_PAD.encode(format!("{thread}\0{run}")))
}

/// The query that a route requires, if it requires any.
pub fn needed(method: &str, path: &str) -> &'static str {
    match (method, path) {
        ("PUT", "/v1/threads/{threadId}/checkpoints" | "/v1/threads/{threadId}/checkpoints/writes") => "?id=c",
        ("GET", "/v1/threads/{threadId}/checkpoints/writes") => "?id=c&taskId=k&idx=0",
        ("GET", "/v1/threads/{threadId}/checkpoints/blobs") => "?channel=c&version=1",
        ("DELETE", "/v1/checkpoints") => "?runId=r",
        _ => "",
    }
}

/// A path with a query, which may have one already.
pub fn and_query(path: &str, query: &str) -> String {
    format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' })
}

/// All routes, the socket's handshake among them.
pub fn routes() -> &'static [Route] {
    // The description is long to make: tests ask for each route.
    static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(describe);
    &ROUTES
}

fn describe() -> Vec<Route> {
    let document = serde_json::to_value(router::openapi()).expect("a document");
    let describe = |entry: RouteEntry| {
        let method = entry.method?;
        // A parameter that takes the rest of a path is described like any other.
        let description = document["paths"][entry.path.replace("{*", "{")][method.to_lowercase()].clone();
        assert!(description.is_object(), "{method} {} is not described", entry.path);
        Some(Route { method, path: entry.path, access: entry.access, description })
    };
    let routes: Vec<_> = router::entries().into_iter().filter_map(describe).collect();
    assert!(routes.len() >= 19);
    routes
}

/// A message as `useChat` sends it.
const CHAT: &str = r#"{"id":"chat","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"}]}]}"#;

/// A command of LangGraph's protocol that makes nothing.
const ANSWER: &str = r#"{"id":1,"method":"input.respond","params":{"interrupt_id":"i","response":1}}"#;
/// A run as LangGraph's clients start it.
const RUN: &str = r#"{"assistant_id":"demo","input":{"messages":[{"type":"human","content":"x"}]}}"#;

impl Route {
    pub fn is_socket(&self) -> bool {
        self.path == "/v1/socket"
    }

    /// True for the handshake of a socket of one thread, which need not exist.
    pub fn opens_thread_socket(&self) -> bool {
        self.method == "GET" && self.path == "/langgraph/threads/{threadId}/stream/events"
    }

    /// Whether it is for a client of Phoenix channels, which goes by what it finds in a body and not by HTTP: what such a
    /// route answers is asked in `copilotkit`.
    pub fn is_channel(&self) -> bool {
        self.path.starts_with("/client/") || self.path.starts_with("/runner/")
    }

    /// Whether a thread that there is not is an empty one to it.
    pub fn is_forgiving(&self) -> bool {
        if self.path.starts_with("/ai/") && self.path.ends_with("/stream") {
            return true;
        }
        // Refusals of this route are answers to a command.
        if self.is_command() {
            return true;
        }
        let mute = self.path.ends_with("/connect") || self.path.contains("/_inspect/");
        let releases = self.method == "DELETE" && self.path.ends_with("/lock");
        self.path.starts_with("/api/") && (mute || releases)
    }

    /// True if the route ignores parameters that it does not have, as its protocol demands.
    pub fn takes_any_query(&self) -> bool {
        self.path == "/streams/v1/stream/{*path}"
    }

    /// True if the route removes a queued turn, and is content if there is none.
    pub fn removes_turns(&self) -> bool {
        self.method == "DELETE" && self.path.ends_with("/queue/{runId}")
    }

    /// The path with these in place of its parameters, and the query that it requires.
    pub fn at(&self, thread: &str, run: &str) -> String {
        format!("{}{}", fill(&self.path, thread, run), needed(self.method, &self.path))
    }

    pub fn body(&self) -> Body {
        let content = &self.description["requestBody"]["content"];
        let Some(lines) = content.as_object().map(|content| content.contains_key("application/x-ndjson")) else {
            return Body::None;
        };
        let array = content["application/json"]["schema"]["type"] == "array";
        match (lines, array) {
            (false, _) => Body::Object,
            (true, true) => Body::Events,
            (true, false) => Body::ObjectOrEvents,
        }
    }

    /// Whether its body is as large as a batch of events may be: it is one, or the messages for an agent.
    pub fn takes_events(&self) -> bool {
        let edits = self.method == "PATCH" && self.path.ends_with("/queue/{runId}");
        let messages = self.is_openai()
            || self.path.starts_with("/agui/")
            || self.is_chat()
            || self.takes_run_input()
            || self.starts_for_langgraph()
            || edits;
        messages
            || self.is_document()
            || self.is_agent_data()
            || matches!(self.body(), Body::Events | Body::ObjectOrEvents)
    }

    /// Whether it is a conversation as a whole, whose name is its thread's id.
    pub fn is_document(&self) -> bool {
        self.path.starts_with("/v1/conversations/")
    }

    /// True for agent data, of which a body may be as large.
    pub fn is_agent_data(&self) -> bool {
        matches!(self.access, Access::Backend(_))
    }

    /// Whether its body is, or may hold, what CopilotKit's packages send for a run.
    pub fn takes_run_input(&self) -> bool {
        let stops = self.path.contains("/stop/");
        self.path == "/copilotkit" || self.path.starts_with("/copilotkit/agent/") && !stops
    }

    /// True for a route of the OpenAI API, whose refusals have a form of their own.
    pub fn is_openai(&self) -> bool {
        self.path.starts_with("/openai/")
    }

    /// True if the body is what the AI SDK sends for a run.
    pub fn is_chat(&self) -> bool {
        self.path == "/ai/{agentId}"
    }

    /// True if the body is a command of LangGraph's protocol.
    pub fn is_command(&self) -> bool {
        self.path == "/langgraph/threads/{threadId}/commands"
    }

    /// True if the body has what LangGraph's clients send for a run.
    pub fn starts_for_langgraph(&self) -> bool {
        self.is_command() || self.method == "POST" && self.path == "/langgraph/threads/{threadId}/runs"
    }

    /// Whether members that it does not know are passed over.
    pub fn is_open(&self) -> bool {
        // What AG-UI does not name yet is handed on to the agent; CopilotKit's packages send what they will.
        let platform = self.path.starts_with("/api/") || self.path.starts_with("/connector/");
        platform || self.path.starts_with("/agui/") || self.is_chat() || self.path.starts_with("/copilotkit")
            // LangGraph's clients send members for what only its own server has.
            || self.path.starts_with("/langgraph/")
    }

    /// A body that it understands.
    pub fn valid_body(&self) -> &'static str {
        match self.body() {
            Body::None => "",
            Body::Object if self.is_chat() => CHAT,
            Body::Object if self.is_command() => ANSWER,
            Body::Object if self.starts_for_langgraph() => RUN,
            Body::Object if self.path.ends_with("/stream/events") => r#"{"channels":["values","lifecycle"]}"#,
            Body::Object if self.path == "/copilotkit" => r#"{"method":"info"}"#,
            Body::Object if self.path.starts_with("/api/") => r#"{"userId":"ann","runId":"r"}"#,
            Body::Object if self.path.starts_with("/connector/") => r#"{"type":"x","userId":"ann","threadId":"t"}"#,
            Body::Object if self.path.ends_with("/{list}") => r#"{"key":"k","items":[1]}"#,
            Body::Object if self.path.ends_with("/{list}/pop") => r#"{"key":"p"}"#,
            Body::Object if self.path.ends_with("/{list}/copy") => {
                r#"{"key":"c","fromThreadId":"t","fromList":"other"}"#
            }
            Body::Object if self.path.ends_with("/checkpoints") => r#"{"type":"t","data":"","channels":[]}"#,
            Body::Object if self.path.ends_with("/checkpoints/blobs") => r#"{"blobs":[]}"#,
            Body::Object if self.path.ends_with("/checkpoints/writes") => r#"{"taskId":"k","writes":[]}"#,
            Body::Object if self.path.ends_with("/checkpoints/copy") => r#"{"fromThreadId":"t"}"#,
            Body::Object if self.path == "/v1/kv" => r#"{"ops":[{"op":"get","ns":[],"key":"k"}]}"#,
            Body::Object if self.path.ends_with("/claim") => r#"{"clientId":"tab"}"#,
            Body::Object if self.path.ends_with("/read") => r#"{"seq":0}"#,
            Body::Object if self.path.ends_with("/branches/listed") => r#"{"threadId":"t"}"#,
            Body::Object if self.path.ends_with("/approve") => r#"{"count":1}"#,
            Body::Object if self.path == "/openai/v1/responses" => r#"{"model":"demo","input":"x"}"#,
            Body::Object if self.path.ends_with("{conversationId}/items") => {
                r#"{"items":[{"role":"user","content":"x"}]}"#
            }
            Body::Object if self.path.ends_with("{conversationId}") => r#"{"metadata":{}}"#,
            Body::Object if self.is_document() => r#"{"messages":[]}"#,
            Body::Object | Body::ObjectOrEvents => "{}",
            Body::Events => r#"[{"type":"X"}]"#,
        }
    }

    /// Its query parameters and their types.
    pub fn query(&self) -> Vec<(String, String)> {
        let parameters = self.description["parameters"].as_array().cloned().unwrap_or_default();
        let query = parameters.iter().filter(|parameter| parameter["in"] == "query");
        query
            .map(|parameter| {
                let name = parameter["name"].as_str().expect("a name").to_owned();
                let kind = &parameter["schema"]["type"];
                let kind = kind.as_array().and_then(|kinds| kinds.first()).unwrap_or(kind);
                (name, kind.as_str().unwrap_or("reference").to_owned())
            })
            .collect()
    }

    pub fn documents(&self, status: u16) -> bool {
        self.description["responses"].get(status.to_string()).is_some()
    }
}
