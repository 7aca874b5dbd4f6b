//! Errors on the wire: RFC 9457 problem documents. One closed list of types, one exhaustive mapping.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{conversations::etag, native::view::RunView};
use crate::{
    agents::{AgentError, interrupts::Breach},
    auth::AuthError,
    domain::{
        EventErrorKind, Limit,
        limits::{DRAIN_RETRY_AFTER, WHOLE_RUN_WAIT},
    },
    projection::conversation::Flaw,
    quota::Limited,
    service::ServiceError,
};

/// Media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";

macro_rules! problem_types {
    ($($(#[$doc:meta])* $name:ident = $slug:literal, $status:ident, $title:literal, $retry:literal, $help:literal;)*) => {
        /// The types of problems. Their slugs are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ProblemType {
            $($(#[$doc])* $name,)*
        }

        impl ProblemType {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable name.
            pub fn slug(self) -> &'static str {
                match self { $(Self::$name => $slug,)* }
            }

            /// The HTTP status.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// A short text for people, the same for every occurrence.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// Whether the same request may succeed later.
            pub fn is_retryable(self) -> bool {
                match self { $(Self::$name => $retry,)* }
            }

            /// What to do.
            pub fn help(self) -> &'static str {
                match self { $(Self::$name => $help,)* }
            }
        }
    };
}

problem_types! {
    /// Another run holds the thread.
    RunActive = "run-active", CONFLICT, "Another run is active in this thread", true,
        "Follow the active run from `cursor`, stop it, or wait until `run.leaseUntil` and try again.";
    /// The run can append nothing new.
    RunFenced = "run-fenced", CONFLICT, "The run has ended", false,
        "The run ended or lost its lease. Start a new run; appends of this one that were stored before still get their old answer.";
    /// The server drives the run.
    RunDriven = "run-driven", CONFLICT, "Run driven by the server", false,
        "Follow it, or stop it with POST /v1/threads/{threadId}/runs/{runId}/stop. To write events, start a run of your own once it has ended.";
    /// No such run.
    RunNotFound = "run-not-found", NOT_FOUND, "There is no such run", false,
        "Start the run first, or look at GET /v1/threads/{threadId}/runs.";
    /// The id of the run is taken.
    RunExists = "run-exists", CONFLICT, "The run id is taken", false,
        "The thread has a run of this id, of another agent or asked for with other messages or answers. Choose another runId, or leave it out and get one.";
    /// The thread waits for answers.
    InterruptsOpen = "interrupts-open", CONFLICT, "The thread waits for an answer", false,
        "Send `resume` with an entry for every open interrupt, answered or `cancelled`: GET /v1/threads/{threadId}/messages has them in `interrupts`.";
    /// What is answered does not wait any more.
    InterruptSettled = "interrupt-settled", CONFLICT, "The interrupt is answered already", false,
        "Somebody has answered it before, perhaps this client. Load the thread anew: GET /v1/threads/{threadId}/messages has what is open in `interrupts`.";
    /// Events are missing before these.
    ProducerSeqGap = "producer-seq-gap", CONFLICT, "Events are missing before these", false,
        "Send the events from producerSeq `expected` on.";
    /// Stored before with other bytes.
    ProducerSeqConflict = "producer-seq-conflict", UNPROCESSABLE_ENTITY, "This producerSeq was stored with other bytes", false,
        "A retry must send the same bytes. If these are new events, number them after the ones already sent.";
    /// The id is taken.
    ThreadExists = "thread-exists", CONFLICT, "The thread id is taken", false,
        "Choose another threadId, or leave it out and get one.";
    /// The messages and the state are beyond what is folded.
    ConversationTooLarge = "conversation-too-large", UNPROCESSABLE_ENTITY, "The conversation is too large", false,
        "Read its events instead, or its messages at an earlier seq (`at`), and go on in a new thread.";
    /// The list lacks what is stored, or has something else in its place.
    ConversationDiverged = "conversation-diverged", CONFLICT, "The stored conversation is another one", false,
        "Nothing was changed. Read it (GET), put what is new behind what is there and save that; or save this list with `If-Match: <etag>`, and it takes the place of what is stored.";
    /// The condition of a save is not met.
    ConversationChanged = "conversation-changed", PRECONDITION_FAILED, "The conversation has another version", false,
        "Nothing was changed. Somebody has saved it meanwhile: read it (GET) and decide again. `etag` is the version that it has; null says that there is none.";
    /// A message cannot be stored.
    InvalidMessage = "invalid-message", UNPROCESSABLE_ENTITY, "A message cannot be stored", false,
        "Mend the message at `index` (from 0). Nothing of the list was stored.";
    /// No such thread for this principal.
    ThreadNotFound = "thread-not-found", NOT_FOUND, "There is no such thread", false,
        "Create it with POST /v1/threads; a thread of another user looks the same as none.";
    /// The cursor is of another log.
    LogReplaced = "log-replaced", GONE, "The log was replaced", false,
        "The thread was deleted and made again, or restored. Forget what you have and read from `after=0` with the `epoch` given here.";
    /// The cursor is beyond the tail.
    CursorAhead = "cursor-ahead", RANGE_NOT_SATISFIABLE, "The cursor is beyond the end", false,
        "The newest position is `tail`. A cursor beyond it belongs to another log: read from `after=0`.";
    /// An event cannot be stored.
    InvalidEvent = "invalid-event", UNPROCESSABLE_ENTITY, "An event cannot be stored", false,
        "Mend the event at `index` (from 0). Nothing of the batch was stored.";
    /// The request makes no sense.
    InvalidRequest = "invalid-request", BAD_REQUEST, "The request makes no sense", false,
        "See `detail`, and GET /v1/openapi.json for what is understood.";
    /// The route has no query parameter of this name.
    UnknownParameter = "unknown-parameter", BAD_REQUEST, "Unknown parameter", false,
        "Remove the parameter, or correct its name: GET /v1/openapi.json lists those of each route.";
    /// Too many bytes.
    TooLarge = "too-large", PAYLOAD_TOO_LARGE, "The request is too large", false,
        "Send smaller batches; the limits are in the documentation.";
    /// The body stopped coming.
    BodyTimeout = "body-timeout", REQUEST_TIMEOUT, "The request body stopped coming", true,
        "Send the request again.";
    /// No or wrong key.
    Unauthorized = "unauthorized", UNAUTHORIZED, "You are not let in", false,
        "Send the API key as `Authorization: Bearer <key>`.";
    /// A page of another site asks.
    ForbiddenOrigin = "forbidden-origin", FORBIDDEN, "Origin not allowed", false,
        "In development mode, set THREADLINE_API_KEY: without it the server accepts requests from this machine only. Otherwise, start the server with `--allowed-origins <origin>` (in the file: `allowed_origins`).";
    /// A request that a proxy has brought from another machine, in development mode.
    DevelopmentOnly = "development-only", FORBIDDEN, "Request from another machine", false,
        "Development mode accepts requests from this machine only. To accept requests through a proxy, set THREADLINE_API_KEY to a random key of at least 22 characters (openssl rand -hex 32).";
    /// Only for the project itself.
    Forbidden = "forbidden", FORBIDDEN, "This is not for end users", false,
        "Use the project's API key without the header Threadline-User.";
    /// The token of a socket is not valid (any more).
    ForbiddenToken = "forbidden-token", FORBIDDEN, "The token is not valid", false,
        "Ask for another one: it may have been used before, be too old, or be for something else.";
    /// Another user's thread, told to the holder of the project's key alone.
    ForeignThread = "foreign-thread", FORBIDDEN, "The thread belongs to another user", false,
        "Choose another threadId; this one is taken by another user of the project.";
    /// No such agent.
    AgentNotFound = "agent-not-found", NOT_FOUND, "There is no such agent", false,
        "See GET /v1/agents; agents come from the configuration file, --agent NAME=URL, or PUT /v1/agents/{agentId}.";
    /// What was sent is no agent.
    InvalidAgent = "invalid-agent", UNPROCESSABLE_ENTITY, "This is no agent", false,
        "Mend what `detail` says and send it again.";
    /// The agent cannot be changed over the API.
    AgentConfigured = "agent-configured", CONFLICT, "The agent is part of the server's configuration", false,
        "Choose another name, or change the configuration and restart the server.";
    /// There is no such project.
    ProjectNotFound = "project-not-found", NOT_FOUND, "There is no such project", false,
        "The operator makes projects: PUT /v1/projects/{projectId}.";
    /// There is no such API key.
    KeyNotFound = "key-not-found", NOT_FOUND, "There is no such API key", false,
        "See GET /v1/keys.";
    /// The id of a key is taken.
    KeyExists = "key-exists", CONFLICT, "The id of the key is taken", false,
        "Choose another keyId, or leave it out and get one. A key is shown once: if its answer was lost, revoke it and make another.";
    /// The keys of a token's issuer cannot be had.
    IssuerUnavailable = "issuer-unavailable", SERVICE_UNAVAILABLE, "The token cannot be verified at present", true,
        "The server cannot reach the jwksUrl of the project's settings. Send the same request again in a moment.";
    /// Too much at once.
    RateLimited = "rate-limited", TOO_MANY_REQUESTS, "Too much at once", true,
        "Wait as long as Retry-After says, then send the same request again.";
    /// No more subscriptions on this socket.
    TooManySubscriptions = "too-many-subscriptions", CONFLICT, "The socket has as many subscriptions as it may", false,
        "Unsubscribe from a thread that is not needed, or open another socket.";
    /// No room for a body.
    Busy = "busy", SERVICE_UNAVAILABLE, "The server has no room for this request at the moment", true,
        "Wait as long as Retry-After says, then send the same request again; smaller batches find room sooner.";
    /// No such route.
    NotFound = "not-found", NOT_FOUND, "There is nothing here", false,
        "See GET /v1/openapi.json for the routes.";
    /// The route has other methods.
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED, "This route has other methods", false,
        "See the header Allow.";
    /// The body is of another type.
    UnsupportedMediaType = "unsupported-media-type", UNSUPPORTED_MEDIA_TYPE, "This content type is not understood", false,
        "Send application/json, or application/x-ndjson where events are sent.";
    /// No form that the client accepts.
    NotAcceptable = "not-acceptable", NOT_ACCEPTABLE, "None of the accepted types can be given", false,
        "Accept application/json, application/x-ndjson or text/event-stream.";
    /// Going away.
    Draining = "draining", SERVICE_UNAVAILABLE, "The server is shutting down", true,
        "Send the request again in a moment; another server, or this one restarted, answers it.";
    /// The store failed.
    StoreUnavailable = "store-unavailable", SERVICE_UNAVAILABLE, "The store is unavailable", true,
        "Send the same request again: if it was carried out, it is not carried out twice.";
    /// A bug of ours.
    Internal = "internal", INTERNAL_SERVER_ERROR, "Something is wrong inside", false,
        "This is a fault of the server. Its log says more.";
}

/// A problem on its way out: a type, what happened this time, and the facts needed to go on.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The type.
    pub kind: ProblemType,
    /// What happened this time.
    pub detail: String,
    /// Members of its own.
    pub facts: Map<String, Value>,
    /// When to come again, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// The document itself.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemDocument {
    /// `/problems/<slug>`; answers on this server with an explanation.
    #[schema(example = "/problems/run-active")]
    r#type: String,
    /// The same for every occurrence.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What happened this time.
    detail: String,
    /// Whether the same request may succeed later.
    retryable: bool,
    /// What to do.
    help: &'static str,
    /// When to come again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The facts of this type of problem.
    #[serde(flatten)]
    facts: Map<String, Value>,
}

impl Problem {
    /// A problem without facts.
    pub fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), facts: Map::new(), retry_after_ms: None }
    }

    /// A request that makes no sense.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::InvalidRequest, detail)
    }

    /// With the facts needed to go on.
    pub fn with(mut self, facts: Value) -> Self {
        if let Value::Object(facts) = facts {
            self.facts = facts;
        }
        self
    }

    /// It may be tried again after this time.
    pub fn retry_after(mut self, milliseconds: u64) -> Self {
        self.retry_after_ms = Some(milliseconds);
        self
    }

    /// As it travels.
    pub fn document(self) -> ProblemDocument {
        ProblemDocument {
            r#type: format!("/problems/{}", self.kind.slug()),
            title: self.kind.title(),
            status: self.kind.status().as_u16(),
            detail: self.detail,
            retryable: self.kind.is_retryable(),
            help: self.kind.help(),
            retry_after_ms: self.retry_after_ms,
            facts: self.facts,
        }
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        use ProblemType as Type;
        let detail = error.to_string();
        match error {
            ServiceError::ThreadNotFound => Self::new(Type::ThreadNotFound, detail),
            // Bare: it must not tell whose thread it is.
            ServiceError::ThreadExists => Self::new(Type::ThreadExists, detail),
            ServiceError::ConversationTooLarge => Self::new(Type::ConversationTooLarge, detail),
            ServiceError::ConversationChanged { version } => {
                Self::new(Type::ConversationChanged, detail).with(json!({ "etag": version.map(etag) }))
            }
            ServiceError::ConversationDiverged { stored, common, version } => {
                Self::new(Type::ConversationDiverged, detail)
                    .with(json!({ "stored": stored, "common": common, "etag": etag(version) }))
            }
            ServiceError::ReplacementTooLarge => Self::new(Type::TooLarge, detail),
            ServiceError::InvalidMessage(flawed) => {
                let kind = match flawed.flaw {
                    Flaw::TooLarge | Flaw::TooMany => Type::TooLarge,
                    _ => Type::InvalidMessage,
                };
                Self::new(kind, detail).with(json!({ "index": flawed.index, "reason": flawed.flaw.to_string() }))
            }
            ServiceError::RunNotFound => Self::new(Type::RunNotFound, detail),
            ServiceError::RunActive(active) => {
                let wait = u64::try_from(WHOLE_RUN_WAIT.as_millis()).unwrap_or(u64::MAX) / 10;
                Self::new(Type::RunActive, format!("run {} is active in this thread", active.run.id))
                    .with(json!({
                        "run": RunView::new(&active.run),
                        "epoch": active.epoch.to_string(),
                        "cursor": active.cursor,
                        "tail": active.tail,
                    }))
                    .retry_after(wait)
            }
            ServiceError::RunFenced(run) => {
                Self::new(Type::RunFenced, detail).with(json!({ "run": RunView::new(&run) }))
            }
            ServiceError::RunDriven { thread, run } => {
                let agent = run.agent.as_ref().map(|agent| agent.as_str());
                Self::new(Type::RunDriven, detail)
                    .with(json!({ "threadId": thread.as_str(), "agentId": agent, "run": RunView::new(&run) }))
            }
            ServiceError::ProducerSeqGap { expected } => {
                Self::new(Type::ProducerSeqGap, detail).with(json!({ "expected": expected }))
            }
            ServiceError::ProducerSeqConflict { producer_seq } => {
                Self::new(Type::ProducerSeqConflict, detail).with(json!({ "producerSeq": producer_seq }))
            }
            ServiceError::LogReplaced { epoch, tail } => {
                Self::new(Type::LogReplaced, detail).with(json!({ "epoch": epoch.to_string(), "tail": tail }))
            }
            ServiceError::CursorAhead { epoch, tail } => Self::new(Type::CursorAhead, detail)
                .with(json!({ "epoch": epoch.map(|epoch| epoch.to_string()), "tail": tail })),
            ServiceError::InvalidEvent(error) => match error.kind {
                EventErrorKind::EventTooLarge | EventErrorKind::BatchTooLarge | EventErrorKind::TooMany => {
                    Self::new(Type::TooLarge, detail).with(json!({ "index": error.index }))
                }
                EventErrorKind::NotUtf8
                | EventErrorKind::NotJson(_)
                | EventErrorKind::NotArray
                | EventErrorKind::NotObject
                | EventErrorKind::NoType
                | EventErrorKind::TooDeep
                | EventErrorKind::Empty
                | EventErrorKind::AfterTerminal => Self::new(Type::InvalidEvent, detail)
                    .with(json!({ "index": error.index, "reason": error.kind.to_string() })),
            },
            ServiceError::InvalidRequest(detail) => Self::invalid(detail),
            ServiceError::Limited(limited) => limited.into(),
            ServiceError::Draining => {
                let wait = u64::try_from(DRAIN_RETRY_AFTER.as_millis()).unwrap_or(u64::MAX);
                Self::new(Type::Draining, detail).retry_after(wait)
            }
            ServiceError::Store(crate::store::StoreError::Unavailable(reason)) => {
                tracing::warn!(reason, "store unavailable");
                Self::new(Type::StoreUnavailable, "the store could not do its work; the server's log says why")
                    .retry_after(1_000)
            }
            ServiceError::Store(crate::store::StoreError::Corrupt(reason)) => {
                tracing::error!(reason, "the store holds something impossible");
                Self::new(Type::Internal, "the server's log says more")
            }
        }
    }
}

impl From<Limited> for Problem {
    fn from(limited: Limited) -> Self {
        let kind = match limited.limit {
            Limit::Subscriptions => ProblemType::TooManySubscriptions,
            Limit::BodyMemory | Limit::AnswerMemory => ProblemType::Busy,
            _ => ProblemType::RateLimited,
        };
        let facts = json!({ "limit": limited.limit.as_str(), "value": limited.value });
        let problem = Self::new(kind, limited.to_string()).with(facts);
        // Rounded up: who comes again at that moment is let in.
        let wait = u64::try_from(limited.wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        if kind.is_retryable() { problem.retry_after(wait) } else { problem }
    }
}

impl From<AgentError> for Problem {
    fn from(error: AgentError) -> Self {
        use ProblemType as Type;
        let detail = error.to_string();
        match error {
            AgentError::NotFound(_) => Self::new(Type::AgentNotFound, detail),
            AgentError::InvalidInput(_) => Self::invalid(detail),
            AgentError::TooLarge | AgentError::ContextTooLarge(_) => Self::new(Type::TooLarge, detail),
            AgentError::Interrupts(breach) => {
                let kind = match breach {
                    Breach::Open(_) => Type::InterruptsOpen,
                    Breach::Settled(_) => Type::InterruptSettled,
                };
                Self::new(kind, detail).with(json!({ "interruptIds": breach.interrupts() }))
            }
            AgentError::RunTaken(_) | AgentError::RunUsed(_) => Self::new(Type::RunExists, detail),
            AgentError::InvalidAgent(_) => Self::new(Type::InvalidAgent, detail),
            AgentError::Configured(_) => Self::new(Type::AgentConfigured, detail),
            AgentError::Busy => Self::new(Type::RateLimited, detail).retry_after(1_000),
            AgentError::Service(error) => error.into(),
        }
    }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Missing
            | AuthError::WrongKey
            | AuthError::WrongToken(_)
            | AuthError::WrongScope(_)
            | AuthError::WrongTicket
            | AuthError::Over => Self::new(ProblemType::Unauthorized, error.to_string()),
            AuthError::Lacks(scope) => {
                Self::new(ProblemType::Forbidden, error.to_string()).with(json!({ "scope": scope.as_str() }))
            }
            AuthError::OtherUser | AuthError::OtherProject | AuthError::NotOperator => {
                Self::new(ProblemType::Forbidden, error.to_string())
            }
            AuthError::NoProject => Self::new(ProblemType::ProjectNotFound, error.to_string()),
            AuthError::NoKey => Self::new(ProblemType::KeyNotFound, error.to_string()),
            AuthError::KeyExists => Self::new(ProblemType::KeyExists, error.to_string()),
            AuthError::BadUser(_) | AuthError::BadProject(_) | AuthError::Invalid(_) => {
                Self::invalid(error.to_string())
            }
            AuthError::NoIssuer => Self::new(ProblemType::IssuerUnavailable, error.to_string()).retry_after(1_000),
            AuthError::Store(error) => ServiceError::Store(error).into(),
            AuthError::Randomness(_) => {
                tracing::error!(%error, "nothing secret can be made");
                Self::new(ProblemType::Internal, "the server's log says more")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.kind.status();
        let retry_after = self.retry_after_ms.map(|milliseconds| milliseconds.div_ceil(1_000).max(1));
        let body = serde_json::to_vec(&self.document()).unwrap_or_default();
        let mut response = (status, body).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_unique_and_every_problem_says_what_to_do() {
        let slugs: std::collections::HashSet<_> = ProblemType::ALL.iter().map(|kind| kind.slug()).collect();
        assert_eq!(slugs.len(), ProblemType::ALL.len());
        for kind in ProblemType::ALL {
            assert!(!kind.help().is_empty() && kind.status().as_u16() >= 400, "{kind:?}");
        }
    }
}
