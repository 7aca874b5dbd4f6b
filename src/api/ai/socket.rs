//! Socket of the AI SDK: `WebSocketChatTransport` of `ai` 7, with many chats of one agent over one connection.
//!
//! Each frame of a client becomes an inner request to another route of this API, whose stream comes back as frames. `sequence` is the
//! place of a chunk in its response, from 0: a response always begins with the first chunk of a message.
//! Protocol: <https://ai-sdk.dev/docs/ai-sdk-ui/transport>.

use std::collections::HashMap;

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderValue, Method, Request as HttpRequest, header},
    response::Response,
};
use futures_util::{
    FutureExt, Stream, StreamExt,
    future::{AbortHandle, Abortable, ready},
    stream::{BoxStream, SelectAll},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value};
use threadline_core::{
    AgentId, Principal, json,
    limits::{MAX_BATCH_BYTES, PAGE_BYTES, SOCKET_MAX_CHATS},
};
use threadline_engine::ServiceError;
use threadline_http::{
    extract::{Caller, InAgent},
    problem::{Problem, ProblemDocument},
    routes::{Access, ClientFrames, InnerRoutes},
    ws::{
        Terms, Upgrade,
        close::CloseCode,
        driver::{self, SocketEnv},
        protocol::{Binary, CloseFrames, Closing, Outbox, Protocol, Reading},
    },
};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::answer::{Part, parts};
use crate::api::{ApiState, run_agent::BUSY_HEADER};

/// Path of the socket.
pub const PATH: &str = "/ai/{agentId}";

/// Subprotocol that the server selects if the client requests it, next to the one that holds a key.
const PROTOCOL: &str = "threadline.ai";

/// Frames that a client may send, each with the permission that it requires.
pub const CLIENT_FRAMES: ClientFrames =
    ClientFrames(&[("send", Access::CONVERSE), ("resume", Access::READ), ("abort", Access::READ)]);

/// Opens a socket for chats with an agent (RFC 6455), as `WebSocketChatTransport` of `ai` 7 uses it.
///
/// Browsers cannot set headers: they may add a subprotocol `bearer.<API key>`, or send a ticket.
#[utoipa::path(get, path = "/ai/{agentId}", tag = "ai-sdk",
    params(("agentId" = String, Path),
        ("ticket" = Option<String>, Query, description = "Ticket from POST /v1/socket-tickets, in place of a key")), responses(
    (status = 101, description = "Switching protocols"),
    (status = 400, description = "Not a WebSocket handshake", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Agent not found", body = ProblemDocument),
    (status = 503, description = "Server shutting down", body = ProblemDocument)))]
pub async fn open(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Extension(routes): Extension<InnerRoutes>,
    InAgent(agent): InAgent,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    if state.http.draining.is_cancelled() {
        return Err(ServiceError::Draining.into());
    }
    state.agents.get(&principal, &agent).await?;
    let place = state.http.quota.open(&principal)?;
    let alive = state.http.connections.token();
    let terms = Terms::new(&state.http, &principal, PROTOCOL, MAX_BATCH_BYTES);
    let env = SocketEnv::new(&state.http, &principal);
    let session = Box::new(Chats {
        state,
        principal,
        routes,
        agent,
        answers: SelectAll::new(),
        active: HashMap::new(),
        out: Outbox::default(),
        paused: None,
    });
    Ok(upgrade.open(terms, async move |socket| {
        let _held = (alive, place);
        driver::drive(socket, session, env).await;
    }))
}

/// Frame of a client.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    request_id: String,
    /// Id of the chat.
    id: Option<String>,
    trigger: Option<Value>,
    message_id: Option<Value>,
    messages: Option<Value>,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    body: Option<Map<String, Value>>,
}

/// Frame for a client.
struct Answer {
    text: String,
    request: String,
    /// True for the last frame of its request.
    ends: bool,
}

/// Session of a socket.
struct Chats {
    state: ApiState,
    principal: Principal,
    routes: InnerRoutes,
    agent: AgentId,
    answers: SelectAll<BoxStream<'static, Answer>>,
    /// Requests that are being answered.
    active: HashMap<String, AbortHandle>,
    out: Outbox,
    /// End of the pause in reading from the client, because it has sent more than its limit.
    paused: Option<Instant>,
}

impl Chats {
    /// Carries out a frame of the client.
    fn take(&mut self, text: &str) -> Result<(), CloseCode> {
        let frame: Frame = serde_json::from_str(text).map_err(|_| CloseCode::BadFrame)?;
        self.paused = self.state.http.quota.pace(&self.principal, 1, 0);
        let request = frame.request_id.clone();
        if frame.kind == "abort" {
            if let Some(answer) = self.active.remove(&request) {
                answer.abort();
            }
            return Ok(());
        }
        if CLIENT_FRAMES.0.iter().all(|(name, _)| *name != frame.kind) {
            let detail = format!("type {:?} is none of send, resume and abort", frame.kind);
            self.refuse(&request, &Problem::invalid(detail));
        } else if let Err(error) = CLIENT_FRAMES.check(&frame.kind, &self.principal) {
            self.refuse(&request, &Problem::from(error));
        } else if self.active.contains_key(&request) {
            self.refuse(&request, &Problem::invalid("requestId names a request that is still being answered"));
        } else if self.active.len() >= SOCKET_MAX_CHATS {
            let detail = format!("a socket answers at most {SOCKET_MAX_CHATS} requests at a time");
            self.refuse(&request, &Problem::invalid(detail));
        } else {
            match self.inner(frame) {
                Ok(inner) => self.answer(request, inner),
                Err(problem) => self.refuse(&request, &problem),
            }
        }
        Ok(())
    }

    fn answer(&mut self, request: String, inner: HttpRequest<Body>) {
        let (handle, registration) = AbortHandle::new_pair();
        self.active.insert(request.clone(), handle);
        let (routes, principal) = (self.routes.clone(), self.principal.clone());
        let asked = async move { routes.ask(inner, principal).await };
        let answer = frames(request, asked.into_stream().flat_map(parts).boxed());
        self.answers.push(Abortable::new(answer, registration).boxed());
    }

    fn refuse(&mut self, request: &str, problem: &Problem) {
        let (id, rest) = (json::quoted(request), error_text(&problem.detail));
        self.out.text(format!("{{\"type\":\"error\",\"requestId\":{id}{rest}}}").into());
    }

    fn write(&mut self, answer: Answer) {
        if answer.ends {
            self.active.remove(&answer.request);
        }
        self.out.text(answer.text.into());
    }

    /// Inner request of a frame.
    fn inner(&self, frame: Frame) -> Result<HttpRequest<Body>, Problem> {
        let encoded = |id: &str| utf8_percent_encode(id, NON_ALPHANUMERIC).to_string();
        let agent = encoded(self.agent.as_str());
        let chat = frame.id.ok_or_else(|| Problem::invalid("id, the id of the chat, is missing"))?;
        let (method, uri, body) = if frame.kind == "resume" {
            (Method::GET, format!("/ai/{agent}/{}/stream", encoded(&chat)), Body::empty())
        } else {
            let mut body = frame.body.unwrap_or_default();
            body.insert("id".to_owned(), chat.into());
            for (name, value) in
                [("trigger", frame.trigger), ("messageId", frame.message_id), ("messages", frame.messages)]
            {
                if let Some(value) = value {
                    body.insert(name.to_owned(), value);
                }
            }
            (Method::POST, format!("/ai/{agent}"), Body::from(Value::from(body).to_string()))
        };
        let mut inner = HttpRequest::new(body);
        *inner.method_mut() = method;
        *inner.uri_mut() = uri.parse().map_err(|_| Problem::invalid("id cannot be part of a path"))?;
        inner.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let busy = frame.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(BUSY_HEADER));
        if let Some(busy) = busy.and_then(|(_, value)| HeaderValue::from_str(value.as_str()?).ok()) {
            inner.headers_mut().insert(BUSY_HEADER, busy);
        }
        Ok(inner)
    }
}

/// Frames of an answer.
fn frames(request: String, parts: BoxStream<'static, Part>) -> impl Stream<Item = Answer> + Send {
    parts.scan(0_u64, move |sequence, part| {
        let id = json::quoted(&request);
        let (kind, rest, ends) = match part {
            Part::Begin => ("start", String::new(), false),
            Part::Chunk(chunk) => {
                let rest = format!(",\"sequence\":{sequence},\"chunk\":{chunk}");
                *sequence += 1;
                ("chunk", rest, false)
            }
            Part::End => ("end", String::new(), true),
            Part::NoneActive => ("no-active", String::new(), true),
            Part::Refused(reason) => ("error", error_text(&reason), true),
            Part::Cut => ("error", error_text("The stream was cut off. Resume it."), true),
        };
        let text = format!("{{\"type\":\"{kind}\",\"requestId\":{id}{rest}}}");
        ready(Some(Answer { text, request: request.clone(), ends }))
    })
}

fn error_text(reason: &str) -> String {
    format!(",\"errorText\":{}", json::quoted(reason))
}

impl Protocol for Chats {
    const BINARY: Binary = Binary::Refused;
    const CLOSING: Closing = Closing::Prompt;

    async fn receive(&mut self, text: Utf8Bytes) -> Result<(), CloseCode> {
        self.take(text.as_str())
    }

    fn takes_more(&self) -> bool {
        self.reading() == Reading::Open && self.out.bytes() < PAGE_BYTES
    }

    fn reading(&self) -> Reading {
        self.paused.filter(|until| *until > Instant::now()).map_or(Reading::Open, Reading::PausedUntil)
    }

    async fn ready(&mut self) -> Result<(), CloseCode> {
        match self.answers.next().await {
            Some(answer) => self.write(answer),
            None => std::future::pending().await,
        }
        Ok(())
    }

    fn gather(&mut self) -> Result<(), CloseCode> {
        while self.out.bytes() < PAGE_BYTES
            && let Some(Some(answer)) = self.answers.next().now_or_never()
        {
            self.write(answer);
        }
        Ok(())
    }

    fn out(&mut self) -> &mut Outbox {
        &mut self.out
    }

    fn close_frames(code: CloseCode) -> CloseFrames {
        // Texts that the AI SDK's client does not know are a violation of the protocol to it.
        CloseFrames { text: None, code: code.code() }
    }

    fn be_over(&mut self) {
        self.answers.clear();
    }
}
