//! Errors on the wire: RFC 9457 problem documents. One closed list of types, one exhaustive mapping.

mod limited;
mod service;
mod store;
mod streams;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use threadline_core::Run;

use crate::view::problem_run;

/// Media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";

macro_rules! problem_types {
    ($(#[doc = $when:literal] $name:ident = $slug:literal, $status:ident, $title:literal, $retry:literal, $help:literal;)*) => {
        /// Types of problems, with stable slugs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ProblemType {
            $(#[doc = $when] $name,)*
        }

        impl ProblemType {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Stable name: the last segment of `type` on the wire.
            pub fn slug(self) -> &'static str {
                match self { $(Self::$name => $slug,)* }
            }

            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// A short text for people, the same for every occurrence.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// Condition of the problem, in one sentence: the documentation of the variant.
            pub fn when(self) -> &'static str {
                match self { $(Self::$name => $when.trim_ascii(),)* }
            }

            /// True if the same request may succeed later.
            pub fn is_retryable(self) -> bool {
                match self { $(Self::$name => $retry,)* }
            }

            /// Next step that the caller can take.
            pub fn help(self) -> &'static str {
                match self { $(Self::$name => $help,)* }
            }
        }
    };
}

problem_types! {
    /// Another run is active in the thread.
    RunActive = "run-active", CONFLICT, "Active run conflict", true,
        "Follow the active run with `cursor` as `after` and with `epoch`, stop it with POST /v1/threads/{threadId}/runs/{runId}/stop, or wait until `run.leaseUntil` and try again.";
    /// The run has ended, also because its lease has expired, or another process has continued it. This process can write no more events.
    RunFenced = "run-fenced", CONFLICT, "Run ended or continued by another process", false,
        "If `run.endedAt` is null, another process produces the run, as attempt `attempt`: stop producing it. Otherwise start a new run. An append that was stored before gets its receipt again.";
    /// A restart could repeat tool calls of the run, or an action that a user has approved.
    RecoveryUnsafe = "recovery-unsafe", CONFLICT, "Unsafe restart", false,
        "Send `onExisting: \"continue\"`, which keeps what is complete, or `toolsRepeatable: true` if the tools may run again. Or end the run with POST /v1/threads/{threadId}/runs/{runId}/fail and `attempt`, and start a new one. Nothing was changed.";
    /// The messages that another process would have to restore are larger than one event may be, or than the memory that the client may use.
    RecoveryTooLarge = "recovery-too-large", CONFLICT, "Conversation too large to restore", false,
        "Send `onExisting: \"continue\"` in place of `restart`: it restores nothing if all messages are complete. Or end the run with POST /v1/threads/{threadId}/runs/{runId}/fail and `attempt`, and start a new one. Nothing was changed.";
    /// A producer writes to a run that the server drives with an agent.
    RunDriven = "run-driven", CONFLICT, "Run driven by the server", false,
        "Follow the run, or stop it with POST /v1/threads/{threadId}/runs/{runId}/stop. To write events, start another run once it has ended.";
    /// An end user's token writes into a run of another author.
    RunNotYours = "run-not-yours", FORBIDDEN, "Run of another author", false,
        "Start a run of your own, or write with an API key. A user's token writes only into runs that the same user has started.";
    /// The events of an end user's token answer an interrupt that an agent of the server requested, or that is not open.
    InterruptNotYours = "interrupt-not-yours", FORBIDDEN, "Interrupt of an agent", false,
        "List the open interrupts with GET /v1/interrupts. Then start a run of the agent with the answer in `resume`: POST /v1/threads/{threadId}/runs with `agentId` and `input`, or POST /agui/{agentId}.";
    /// The thread has no run with this ID.
    RunNotFound = "run-not-found", NOT_FOUND, "Run not found", false,
        "Start the run first, or list the runs of the thread with GET /v1/threads/{threadId}/runs.";
    /// The thread has a run with this ID: of another agent, or requested with other messages or answers.
    RunExists = "run-exists", CONFLICT, "Run ID already in use", false,
        "Choose another runId, or omit it and the server generates one. An Idempotency-Key stands for one request: send another key with a new one.";
    /// No further turn can be queued in the thread or for its user, or the turn is too large to be queued.
    QueueFull = "queue-full", CONFLICT, "Queue full", true, "Wait until a queued turn has begun, or remove one with DELETE /v1/threads/{threadId}/queue/{runId}. A turn larger than 1 MiB cannot be queued: shorten it, or send it when the thread is free.";
    /// The queue has another version than the request names.
    QueueChanged = "queue-changed", PRECONDITION_FAILED, "Queue version mismatch", false, "Read the queue again with GET /v1/threads/{threadId}/queue, and decide whether to change it. This request changed nothing; an earlier attempt of it may have.";
    /// The queued turn has begun, and is a run.
    TurnBegun = "turn-begun", CONFLICT, "Turn already begun", false, "Follow the run `run`, or stop it with POST /v1/threads/{threadId}/runs/{runId}/stop.";
    /// No turn with this ID is queued.
    TurnNotFound = "turn-not-found", NOT_FOUND, "Turn not found", false, "List the queued turns with GET /v1/threads/{threadId}/queue. The turn was cancelled, or dropped because the key of its caller was revoked.";
    /// The conversation has reached its limit of branches.
    TooManyBranches = "too-many-branches", CONFLICT, "Too many branches", false, "List the branches with GET /v1/threads/{threadId}/branches, and delete some with DELETE /v1/threads/{threadId}. Or copy the thread into a new conversation: POST /v1/threads/{threadId}/forks with `separate`.";
    /// The named thread is not a branch of this conversation.
    BranchNotFound = "branch-not-found", NOT_FOUND, "Branch not found", false, "List the branches with GET /v1/threads/{threadId}/branches.";
    /// No event of the thread introduces a message with this ID.
    MessageNotFound = "message-not-found", NOT_FOUND, "Message not found", false, "Read the messages of the thread with GET /v1/threads/{threadId}/messages, or fork at a seq with `at`.";
    /// The thread has open interrupts that the request does not answer.
    InterruptsOpen = "interrupts-open", CONFLICT, "Unanswered interrupt", false,
        "Send `resume` with an entry for every open interrupt, answered or `cancelled`. GET /v1/threads/{threadId}/messages lists them in `interrupts`.";
    /// The request answers an interrupt that is no longer open.
    InterruptSettled = "interrupt-settled", CONFLICT, "Interrupt already answered", false,
        "Reload the thread: GET /v1/threads/{threadId}/messages lists the open interrupts in `interrupts`. Another client, or an earlier request of this client, has answered this one.";
    /// The request resolves an interrupt whose `expiresAt` has passed.
    InterruptExpired = "interrupt-expired", CONFLICT, "Expired interrupt", false,
        "Send the request without the entries of the expired interrupts in `resume`, or with their status `cancelled`. `interruptIds` names them. The next run of an agent cancels an expired interrupt that has no entry.";
    /// Another client holds the tool call.
    Claimed = "claimed", CONFLICT, "Tool call claimed", true,
        "Leave the call to the client that holds it. Or claim it again after `until`: that client may be gone by then.";
    /// A claim that the start names was taken by another client, or its call has a result.
    ClaimLost = "claim-lost", CONFLICT, "Claim lost", false,
        "Discard the result, and read the thread: GET /v1/threads/{threadId}/messages lists the calls that wait for a result in `pendingToolCallIds`. Nothing was started.";
    /// The tool call has a result, or the thread has no such call.
    ToolCallNotPending = "tool-call-not-pending", CONFLICT, "Tool call not pending", false,
        "Claim only calls in `pendingToolCallIds` of GET /v1/threads/{threadId}/messages.";
    /// The events before the first event of the append are missing.
    ProducerSeqGap = "producer-seq-gap", CONFLICT, "Gap in producerSeq", false,
        "Send the events from producerSeq `expected` on.";
    /// Events with these producerSeq are stored with other bytes.
    ProducerSeqConflict = "producer-seq-conflict", UNPROCESSABLE_ENTITY, "Conflicting producerSeq", false,
        "Send the same bytes when you retry. Number new events after the ones already sent.";
    /// A new message has the ID of a message that is already in the thread.
    MessageExists = "message-exists", CONFLICT, "Message ID already in use", false,
        "Give each new message an ID of its own, and send only new messages. Nothing was stored.";
    /// Threads of several users have this ID, and the request names no user.
    ThreadAmbiguous = "thread-ambiguous", CONFLICT, "Thread ID ambiguous", false,
        "Name the user in the header Threadline-User. IDs of threads that API keys create are never ambiguous.";
    /// The user has another thread of this ID, or, for an API key, another user's thread has claimed it.
    ThreadExists = "thread-exists", CONFLICT, "Thread ID already in use", false,
        "Choose another threadId, or omit it and the server generates one.";
    /// The thread that an earlier request with the same Idempotency-Key created was deleted.
    ThreadDeleted = "thread-deleted", GONE, "Thread deleted", false,
        "Send another Idempotency-Key to create another thread.";
    /// The messages and the state are too large to be computed from the events, or larger than the share of the server's memory that the client may have.
    ConversationTooLarge = "conversation-too-large", UNPROCESSABLE_ENTITY, "Conversation too large", false,
        "Read the events of the thread instead, or its messages at an earlier seq (`at`), and continue in a new thread.";
    /// The saved list omits stored messages, or has others in their place.
    ConversationDiverged = "conversation-diverged", CONFLICT, "Conversation diverged", false,
        "Read the stored conversation (GET), append the new messages to it and save that list. To replace the stored conversation instead, save this list with `If-Match: <etag>`. Nothing was changed.";
    /// The stored version does not match `If-Match` or `If-None-Match`.
    ConversationChanged = "conversation-changed", PRECONDITION_FAILED, "Conversation version mismatch", false,
        "Read the conversation again (GET), and decide whether to save. `etag` is the stored version, or null if no conversation is stored. Nothing was changed.";
    /// A message of the list cannot be stored.
    InvalidMessage = "invalid-message", UNPROCESSABLE_ENTITY, "Invalid message", false,
        "Fix the message at `index` (from 0) and send the list again. Nothing of the list was stored.";
    /// The thread does not exist, or belongs to another user.
    ThreadNotFound = "thread-not-found", NOT_FOUND, "Thread not found", false,
        "Create the thread with POST /v1/threads, or check its ID and its user. A thread of another user is reported as not found.";
    /// The request names the epoch of a log that was replaced, or its cursor covers events that the store has lost.
    LogReplaced = "log-replaced", GONE, "Log replaced", false,
        "Discard the events after the seq `commonUpTo` (all of them if it is null), and read on from there with the `epoch` of this problem. For a feed, read the list again. Before you repeat a write, read the thread. The cause: the thread was deleted and created again, the user of the feed was erased, or the store has lost events.";
    /// The `ifTag` of an operation does not match the tag of its entry. No write of the batch was stored.
    KvChanged = "kv-changed", PRECONDITION_FAILED, "Entry changed", false, "Read the entry of the operation `index` (from 0) again, and repeat the batch with its tag.";
    /// The `ifTag` of the operation does not match the tag of the list.
    ItemsChanged = "items-changed", PRECONDITION_FAILED, "List changed", false, "Read the list again, and repeat the operation with its tag and a new key. Nothing was changed.";
    /// A different operation on the list has already used this key, within 24 hours.
    ItemsConflict = "items-conflict", UNPROCESSABLE_ENTITY, "Conflicting operation key", false, "Send the same request when you retry, and another key with a new operation.";
    /// The user has no plain stream of this path, or the stream has expired.
    StreamNotFound = "stream-not-found", NOT_FOUND, "Stream not found", false, "Create the stream with PUT, or check its path and its user. A stream of another user is reported as not found.";
    /// The plain stream was deleted or has expired while forks of it exist, or the offset belongs to an earlier stream of the path.
    StreamGone = "stream-gone", GONE, "Stream gone", false, "Read one of the forks, or use another path: this one is free once the last fork is deleted. With an offset of an earlier stream, read again with `offset=-1`.";
    /// The plain stream is closed, exists with another configuration, or has another content type or a later `Stream-Seq`.
    StreamConflict = "stream-conflict", CONFLICT, "Stream conflict", false, "Read the stream's header fields with HEAD. A stream with `Stream-Closed: true` takes no further data: create another one. Nothing was changed.";
    /// Another process has begun a later epoch of the producer.
    StaleProducer = "stale-producer", FORBIDDEN, "Stale producer", false, "Stop writing: another process writes with this Producer-Id. To take over, begin an epoch greater than that in the header Producer-Epoch, with Producer-Seq 0.";
    /// A channel of a checkpoint has no blob at its version. The checkpoint was not stored.
    BlobMissing = "blob-missing", UNPROCESSABLE_ENTITY, "Blob missing", false, "Send the blob of `channel` at `version` with the checkpoint, or before it.";
    /// The thread has no such checkpoint, blob or write.
    CheckpointNotFound = "checkpoint-not-found", NOT_FOUND, "Checkpoint not found", false, "Check the namespace `ns` and the ID. Without `id`, the newest checkpoint of the namespace is read.";
    /// The history of the store has changed, after a failover or a restore, and this node has not adopted it yet.
    LineageChanging = "lineage-changing", SERVICE_UNAVAILABLE, "Store history changing", true,
        "Send the request again. A node adopts the changed history within about a second, once the store is reachable.";
    /// The cursor is greater than the seq of the newest event.
    CursorAhead = "cursor-ahead", RANGE_NOT_SATISFIABLE, "Cursor beyond end of log", false,
        "Read from `after=0`. The newest event has the seq `tail`: a cursor beyond it belongs to another log.";
    /// An event of the batch cannot be stored.
    InvalidEvent = "invalid-event", UNPROCESSABLE_ENTITY, "Invalid event", false,
        "Fix the event at `index` (from 0) and send the batch again. Nothing of the batch was stored.";
    /// A header, a parameter or the body is malformed or out of range.
    InvalidRequest = "invalid-request", BAD_REQUEST, "Invalid request", false,
        "Correct what `detail` names. GET /v1/openapi.json describes every route.";
    /// The cursor is damaged or belongs to another list, or a position comes without its epoch.
    InvalidCursor = "invalid-cursor", BAD_REQUEST, "Invalid cursor", false,
        "Send a `cursor` unchanged to the route that returned it, or a position together with the `epoch` that came with it. To read from the beginning, send neither.";
    /// The route has no query parameter of this name.
    UnknownParameter = "unknown-parameter", BAD_REQUEST, "Unknown parameter", false,
        "Remove the parameter, or correct its name: GET /v1/openapi.json lists those of each route.";
    /// The body, an event, a message or a list is larger than its limit.
    TooLarge = "too-large", PAYLOAD_TOO_LARGE, "Request body too large", false,
        "Send smaller batches. `detail` names the limit.";
    /// The request body did not arrive before the timeout.
    BodyTimeout = "body-timeout", REQUEST_TIMEOUT, "Request body timeout", true,
        "Send the request again.";
    /// The request has no valid API key, token or ticket.
    Unauthorized = "unauthorized", UNAUTHORIZED, "Authentication required", false,
        "Send a valid API key or token as `Authorization: Bearer <key>`.";
    /// The request comes from a web page whose origin is not allowed.
    ForbiddenOrigin = "forbidden-origin", FORBIDDEN, "Origin not allowed", false,
        "Development mode accepts requests from pages of this machine only: for others, start `threadline serve` with THREADLINE_API_KEY set. With an API key, add the origin to the list: `--allowed-origins <origin>` (in the file: `allowed_origins`), or start the server without a list.";
    /// A proxy forwarded a request of another machine to a server in development mode.
    DevelopmentOnly = "development-only", FORBIDDEN, "Request from another machine", false,
        "Development mode accepts requests from this machine only. To accept requests through a proxy, start `threadline serve` with THREADLINE_API_KEY set to a random key (openssl rand -hex 32).";
    /// The key or token does not have the scope or the role that the route, or the content of the request, requires.
    Forbidden = "forbidden", FORBIDDEN, "Insufficient permission", false,
        "Use a key or token with the permission that `detail` names. Routes of the project require its API key, without the header Threadline-User.";
    /// The token of a socket is invalid, has expired or was used before.
    ForbiddenToken = "forbidden-token", FORBIDDEN, "Invalid token", false,
        "Request a new token. Each one expires, may be valid only once, and is valid only for what it was issued for.";
    /// The thread belongs to another user of the project. Only the holder of the project's API key receives this.
    ForeignThread = "foreign-thread", FORBIDDEN, "Thread of another user", false,
        "Choose another threadId, or name the user of the thread in `userId`.";
    /// No agent has this ID.
    AgentNotFound = "agent-not-found", NOT_FOUND, "Agent not found", false,
        "List the agents with GET /v1/agents. Define one in the configuration file, with --agent NAME=URL, or with PUT /v1/agents/{agentId}.";
    /// The definition of an agent is malformed or not permitted.
    InvalidAgent = "invalid-agent", UNPROCESSABLE_ENTITY, "Invalid agent definition", false,
        "Correct what `detail` names and send the definition again.";
    /// The agent is defined by the server's configuration: the API cannot change it.
    AgentConfigured = "agent-configured", CONFLICT, "Agent defined by server configuration", false,
        "Choose another name, or change the configuration and restart the server.";
    /// No project has this ID.
    ProjectNotFound = "project-not-found", NOT_FOUND, "Project not found", false,
        "Create the project with PUT /v1/projects/{projectId} and the operator's key.";
    /// Retention of the project does not wait for an approval.
    RetentionNotHeld = "retention-not-held", CONFLICT, "Retention not waiting", false,
        "There is nothing to approve. Look for the newest `retention.held` of the project in GET /v1/audit: retention asks again with its next pass, if it has to wait.";
    /// The project has no API key with this ID.
    KeyNotFound = "key-not-found", NOT_FOUND, "API key not found", false,
        "List the keys with GET /v1/keys.";
    /// The project has another API key with this ID.
    KeyExists = "key-exists", CONFLICT, "API key ID already in use", false,
        "Choose another keyId, or omit it and the server generates one. A key is shown once: if the response was lost, revoke the key and create another.";
    /// The server cannot fetch the public keys of the token's issuer.
    IssuerUnavailable = "issuer-unavailable", SERVICE_UNAVAILABLE, "Token issuer unavailable", true,
        "Send the same request again after the time in Retry-After. If the problem persists, check the jwksUrl in the settings of the project.";
    /// A limit of the user, the project or the node is reached.
    RateLimited = "rate-limited", TOO_MANY_REQUESTS, "Rate limit exceeded", true,
        "Wait for the time in Retry-After, then send the same request again.";
    /// The user or the project has stored as much as the limit allows, or the server has little space left for its data.
    StorageFull = "storage-full", INSUFFICIENT_STORAGE, "Storage full", false,
        "Delete threads, or have an admin raise `limit` in the settings of the project (0: no limit). Reading, deleting, and ending or stopping a run remain possible. With `storageFreeBytes`, the operator has to make space.";
    /// The socket has as many subscriptions as the limit allows.
    TooManySubscriptions = "too-many-subscriptions", CONFLICT, "Subscription limit exceeded", false,
        "Unsubscribe from a thread that is not needed, or open another socket.";
    /// The server has no memory or no place left for the request, or the request has waited too long in a queue.
    Busy = "busy", SERVICE_UNAVAILABLE, "Server at capacity", true,
        "Wait for the time in Retry-After, then send the same request again. Smaller batches are accepted sooner.";
    /// The server serves as many connections as it can.
    TooManyConnections = "too-many-connections", SERVICE_UNAVAILABLE, "Connection limit exceeded", true,
        "Wait for the time in Retry-After, then connect again. Use fewer connections: one socket carries many subscriptions.";
    /// The process is alive, but does not run new tasks.
    Unresponsive = "unresponsive", SERVICE_UNAVAILABLE, "Server unresponsive", true,
        "Restart the server if the problem persists for a minute. Look for its cause in the server's log.";
    /// No route has this path.
    NotFound = "not-found", NOT_FOUND, "Route not found", false,
        "See GET /v1/openapi.json for the routes.";
    /// The route exists, but not with this method.
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED, "Method not allowed", false,
        "Use one of the methods in the header Allow.";
    /// The server cannot read bodies of this content type.
    UnsupportedMediaType = "unsupported-media-type", UNSUPPORTED_MEDIA_TYPE, "Unsupported media type", false,
        "Send application/json, or application/x-ndjson where events are sent.";
    /// The route has no response of a content type in the header Accept.
    NotAcceptable = "not-acceptable", NOT_ACCEPTABLE, "Not acceptable", false,
        "Accept application/json, application/x-ndjson or text/event-stream.";
    /// The server is shutting down and accepts no new requests.
    Draining = "draining", SERVICE_UNAVAILABLE, "Server shutting down", true,
        "Send the request again after the time in Retry-After. Another server, or this one after its restart, responds.";
    /// The store does not respond, or accepts no writes.
    StoreUnavailable = "store-unavailable", SERVICE_UNAVAILABLE, "Store unavailable", true,
        "Send the same request again. If it was carried out already, it is not carried out twice.";
    /// The store did not confirm a request whose repetition is not recognized, such as an append without producerSeq.
    OutcomeUnknown = "outcome-unknown", SERVICE_UNAVAILABLE, "Unknown outcome", false,
        "Read the thread to find out what was stored, and send only what is missing. Requests with a producerSeq, an Idempotency-Key or an ID of your choice can simply be repeated.";
    /// Events of the thread were changed in the store (their checksum is wrong), or are missing. Events before them can be read.
    LogDamaged = "log-damaged", INTERNAL_SERVER_ERROR, "Damaged log", false,
        "Ask the operator to restore the thread from a backup. Events before the damaged ones can be read.";
    /// The server has a bug, or its store is corrupt.
    Internal = "internal", INTERNAL_SERVER_ERROR, "Internal error", false,
        "Look for the cause in the server's log.";
}

/// Problem before serialization: a type, the detail of this occurrence, and the facts that the caller needs to
/// continue.
#[derive(Debug, Clone)]
pub struct Problem {
    pub kind: ProblemType,
    /// Explanation of this occurrence, with the offending value.
    pub detail: String,
    /// Additional members of the document.
    pub facts: Map<String, Value>,
    /// The delay before a retry, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// A problem (RFC 9457). See docs/errors.md.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemDocument {
    /// `/problems/<slug>`: a path of this server that explains the problem type.
    #[schema(example = "/problems/run-active")]
    r#type: String,
    /// The name of the problem, the same for every occurrence.
    title: &'static str,
    /// HTTP status code of the response.
    status: u16,
    /// Explanation of this occurrence, with the offending value.
    detail: String,
    /// True if the same request may succeed later.
    retryable: bool,
    /// Next step for the caller, imperative.
    help: &'static str,
    /// The delay before a retry, in milliseconds.
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

    fn of_run(kind: ProblemType, detail: String, run: &Run) -> Self {
        Self::new(kind, detail).with(json!({ "run": problem_run(run) }))
    }

    /// Invalid request: malformed or out of range.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::InvalidRequest, detail)
    }

    /// Sets the facts that the caller needs to continue.
    pub fn with(mut self, facts: Value) -> Self {
        if let Value::Object(facts) = facts {
            self.facts = facts;
        }
        self
    }

    /// Sets the delay before a retry, in milliseconds.
    pub fn retry_after(mut self, milliseconds: u64) -> Self {
        self.retry_after_ms = Some(milliseconds);
        self
    }

    /// Problem of a request: a failure of the store is [`ProblemType::OutcomeUnknown`] unless `repeatable` is true.
    pub fn of_request(self, repeatable: bool) -> Self {
        let unknown = !repeatable && self.kind == ProblemType::StoreUnavailable;
        if unknown { Self::outcome_unknown(self.detail) } else { self }
    }

    /// Problem of a request that may have been carried out, and whose repetition could do something twice.
    pub fn outcome_unknown(detail: impl Into<String>) -> Self {
        Self::new(ProblemType::OutcomeUnknown, detail).with(json!({ "outcome": "unknown" }))
    }

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

threadline_engine::from_operation_errors!(Problem);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, wait) = (self.kind.status(), self.retry_after_ms.map(|wait| wait.div_ceil(1_000).max(1)));
        let body = serde_json::to_vec(&self.document()).unwrap_or_default();
        let mut response = (status, body).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
