//! One socket: carries out the client's frames, and hands over the events of its subscriptions.

use std::collections::BTreeMap;

use axum::{
    body::{Body, to_bytes},
    http::{HeaderValue, Method, Request as HttpRequest, StatusCode, header},
};
use futures_util::{FutureExt, future::BoxFuture};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{error::Category, json, value::RawValue};
use threadline_core::{
    Principal, Scope, Scopes, ThreadId, json,
    limits::PAGE_BYTES,
    projection::langgraph::{Channels, Frame},
};
use threadline_engine::StoreError;
use threadline_http::{
    extract::parse_json,
    problem::Problem,
    routes::{Access, ClientFrames, InnerRoutes},
    ws::{close::CloseCode, protocol::Outbox},
};
use tokio::time::Instant;

use crate::api::{
    ApiState,
    langgraph::{
        events::FollowBody,
        pump::Pump,
        refusals::{code_of, code_of_status, refusal},
        start::thread_of,
    },
};

/// Frames that a client may send, each with the permission that it requires.
pub const CLIENT_FRAMES: ClientFrames = ClientFrames(&[
    (START, Access::CONVERSE),
    (RESPOND, Access::All(Scopes::of(&[Scope::Read, Scope::Chat, Scope::Approve]))),
    (SUBSCRIBE, Access::READ),
    (UNSUBSCRIBE, Access::READ),
]);
const START: &str = "run.start";
const RESPOND: &str = "input.respond";
const SUBSCRIBE: &str = "subscription.subscribe";
const UNSUBSCRIBE: &str = "subscription.unsubscribe";

/// Frame of a client.
#[derive(Debug, Deserialize)]
struct ClientFrame<'a> {
    /// Number by which the client knows the response.
    id: u64,
    method: String,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// Parameters of the end of a subscription.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Unsubscribe {
    subscription_id: String,
}

/// Session of a socket.
pub(super) struct Session {
    state: ApiState,
    principal: Principal,
    routes: InnerRoutes,
    thread: ThreadId,
    /// Channels of the subscriptions, by their ids.
    subscriptions: BTreeMap<String, Channels>,
    /// Number of subscriptions that have been named.
    named: u64,
    /// Stream of all subscriptions. `None` without any, and while the thread does not exist.
    pub(super) pump: Option<Pump>,
    /// True if the thread may have come to exist: the stream is to begin.
    pub(super) begins: bool,
    /// The command that is being answered; the client is not read meanwhile, so that commands keep their order.
    pub(super) command: Option<BoxFuture<'static, String>>,
    pub(super) out: Outbox,
    /// End of the pause in reading from the client, because it has sent more than its limit.
    pub(super) paused: Option<Instant>,
}

impl Session {
    pub(super) fn new(state: ApiState, principal: Principal, routes: InnerRoutes, thread: ThreadId) -> Self {
        Self {
            state,
            principal,
            routes,
            thread,
            subscriptions: BTreeMap::new(),
            named: 0,
            pump: None,
            begins: false,
            command: None,
            out: Outbox::default(),
            paused: None,
        }
    }

    /// Carries out a frame of the client.
    pub(super) async fn take(&mut self, text: &str) -> Result<(), CloseCode> {
        self.paused = self.state.http.quota.pace(&self.principal, 1, 0);
        let ClientFrame { id, method, params } = match parse(text)? {
            Ok(frame) => frame,
            Err(detail) => {
                self.out.text(refusal(None::<u64>, "invalid_argument", &detail).into());
                return Ok(());
            }
        };
        if CLIENT_FRAMES.0.iter().all(|(name, _)| *name != method) {
            let names: Vec<&str> = CLIENT_FRAMES.0.iter().map(|(name, _)| *name).collect();
            let detail = format!("the command {method:?} is unknown: the commands are {}", names.join(", "));
            self.out.text(refusal(id, "unknown_command", &detail).into());
            return Ok(());
        }
        if let Err(error) = CLIENT_FRAMES.check(&method, &self.principal) {
            self.refuse(id, &Problem::from(error));
            return Ok(());
        }
        let params = params.map_or("{}", RawValue::get);
        match method.as_str() {
            SUBSCRIBE => match self.subscribe(params).await {
                Ok(name) => self.succeed(id, &json!({ "subscription_id": name })),
                Err(problem) => self.refuse(id, &problem),
            },
            UNSUBSCRIBE => self.unsubscribe(id, params),
            _ => {
                let answer = answer(id, self.routes.clone(), self.principal.clone(), self.inner(text)?);
                self.command = Some(answer.boxed());
            }
        }
        Ok(())
    }

    fn succeed(&mut self, id: u64, result: &serde_json::Value) {
        self.out.text(json!({ "type": "success", "id": id, "result": result }).to_string().into());
    }

    fn refuse(&mut self, id: u64, problem: &Problem) {
        let code = code_of(problem).unwrap_or_else(|| code_of_status(problem.kind.status()));
        self.out.text(refusal(id, code, &problem.detail).into());
    }

    /// Adds a subscription, and returns its name. A subscription to a thread that does not exist waits for it.
    async fn subscribe(&mut self, params: &str) -> Result<String, Problem> {
        let body: FollowBody = parse_json(params.as_bytes())?;
        let channels = body.channels()?;
        self.state.http.quota.subscribe(&self.principal, self.subscriptions.len())?;
        self.named += 1;
        let name = self.named.to_string();
        self.subscriptions.insert(name.clone(), channels);
        if let Err(problem) = self.begin().await {
            self.subscriptions.remove(&name);
            return Err(problem);
        }
        Ok(name)
    }

    fn unsubscribe(&mut self, id: u64, params: &str) {
        let name = match parse_json::<Unsubscribe>(params.as_bytes()) {
            Ok(Unsubscribe { subscription_id }) => subscription_id,
            Err(problem) => return self.refuse(id, &problem),
        };
        if self.subscriptions.remove(&name).is_none() {
            let detail =
                format!("the socket has no subscription {name:?}: subscription_id is in the response to {SUBSCRIBE}");
            return self.out.text(refusal(id, "no_such_subscription", &detail).into());
        }
        let channels = self.channels();
        self.pump = self.pump.take().filter(|_| !self.subscriptions.is_empty());
        if let Some(pump) = &mut self.pump {
            pump.set_channels(channels);
        }
        self.succeed(id, &json!({}));
    }

    /// Channels of all subscriptions.
    fn channels(&self) -> Channels {
        let mut all = Channels::default();
        self.subscriptions.values().for_each(|channels| all.extend(channels));
        all
    }

    /// Begins the stream of all subscriptions with the newest run, or with an earlier one of which not all is sent. Clients drop what
    /// they have seen before by its id.
    pub(super) async fn begin(&mut self) -> Result<(), Problem> {
        let Some(thread) = thread_of(&self.state, &self.principal, &self.thread).await? else { return Ok(()) };
        let unsent = self.pump.as_ref().map(Pump::unsent);
        let pump = Pump::open(&self.state, &self.principal, &thread, self.channels(), unsent).await?;
        self.pump = Some(pump);
        Ok(())
    }

    /// Inner request of a command.
    fn inner(&self, text: &str) -> Result<HttpRequest<Body>, CloseCode> {
        let thread = utf8_percent_encode(self.thread.as_str(), NON_ALPHANUMERIC);
        HttpRequest::builder()
            .method(Method::POST)
            .uri(format!("/langgraph/threads/{thread}/commands"))
            .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(Body::from(text.to_owned()))
            .map_err(|_| CloseCode::BadFrame)
    }

    pub(super) fn answered(&mut self, answer: String) {
        self.command = None;
        self.out.text(answer.into());
        self.begins = self.pump.is_none() && !self.subscriptions.is_empty();
    }

    pub(super) fn deliver(&mut self, frames: Result<Option<Vec<Frame>>, StoreError>) -> Result<(), CloseCode> {
        // A client whose stream has ended connects again, and gets the reason as the response to its subscription.
        for frame in frames.map_err(store_failed)?.ok_or(CloseCode::ServerError)? {
            self.out.text(frame.json.into());
        }
        Ok(())
    }
}

fn store_failed(error: StoreError) -> CloseCode {
    tracing::warn!(%error, "closing a socket of LangGraph's API: the store failed");
    CloseCode::ServerError
}

/// Reads a frame; the inner error is the detail of a refusal. A text that is not a JSON object closes the socket.
fn parse(text: &str) -> Result<Result<ClientFrame<'_>, String>, CloseCode> {
    // Serde would also accept an array, with its items as the members in order.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(CloseCode::BadFrame);
    }
    match serde_json::from_str(text) {
        Ok(frame) => Ok(Ok(frame)),
        Err(error) if error.classify() == Category::Data => {
            Ok(Err(format!("{error}: a command is {{\"id\": NUMBER, \"method\": NAME, \"params\": {{…}}}}")))
        }
        Err(_) => Err(CloseCode::BadFrame),
    }
}

/// Response to a command: that of the inner request, or a refusal in its place.
async fn answer(id: u64, routes: InnerRoutes, principal: Principal, inner: HttpRequest<Body>) -> String {
    let (head, body) = routes.ask(inner, principal).await.into_parts();
    let body = to_bytes(body, PAGE_BYTES).await.unwrap_or_default();
    let body = std::str::from_utf8(&body).unwrap_or_default();
    if head.status == StatusCode::OK && !body.is_empty() {
        return body.to_owned();
    }
    let detail = ["detail", "title"].iter().find_map(|name| json::string_member(body, name));
    refusal(id, code_of_status(head.status), &detail.unwrap_or_else(|| "The command was refused.".to_owned()))
}
