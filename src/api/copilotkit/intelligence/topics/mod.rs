//! Topics of this API, and the two kinds of sockets on which clients join them.

mod feed;
mod ingestion;
mod thread;

use async_trait::async_trait;
use serde_json::{Value, json, value::RawValue};

pub use ingestion::RunnerPlane;
pub use thread::CLIENT_PUSHES;

use feed::FeedPlane;
use thread::ThreadPlane;
use threadline_core::Principal;
use threadline_engine::ServiceError;
use threadline_http::{auth::AuthError, ws::protocol::HandOver};

use crate::api::{
    ApiState,
    copilotkit::phoenix::channel::{Joined, SocketKind},
};

/// Socket of a page, for a thread or for the user's feed, according to its token.
pub enum ClientPlane {
    Thread(Box<ThreadPlane>),
    Feed(Box<FeedPlane>),
}

impl ClientPlane {
    /// Authenticates a page by its token, and makes its plane. A thread's token is used up by this call.
    pub async fn open(state: &ApiState, token: &str) -> Result<(Principal, Self), AuthError> {
        if token.starts_with(threadline_http::auth::secret::JOIN_PREFIX) {
            let pass = state.http.auth.take_thread_token(token).await?;
            let principal = pass.principal.clone();
            return Ok((principal, Self::Thread(Box::new(ThreadPlane::new(state.clone(), pass)))));
        }
        let pass = state.http.auth.verify_feed_token(token).await?;
        let principal = pass.principal.clone();
        Ok((principal, Self::Feed(Box::new(FeedPlane::new(state.clone(), pass)))))
    }
}

#[async_trait]
impl SocketKind for ClientPlane {
    async fn join(&mut self, topic: &str, params: &RawValue) -> Result<Joined, Value> {
        match self {
            Self::Thread(plane) => plane.join(topic, params).await,
            Self::Feed(plane) => plane.join(topic, params).await,
        }
    }

    async fn closed(&mut self, hand_over: HandOver) {
        match self {
            Self::Thread(plane) => plane.closed(hand_over).await,
            Self::Feed(plane) => plane.closed(hand_over).await,
        }
    }
}

fn refused(reason: &str) -> Value {
    json!({ "reason": reason })
}

/// Reason for which a join or a push is refused.
enum Refusal {
    Unauthorized,
    Malformed(String),
    Invalid(String),
    /// The server has ended the run.
    Evicted,
    LegacyRunner,
    /// The server itself drives the run, so no runner may append to it.
    Driven,
    /// The store is unavailable, or did not answer before the timeout.
    Unavailable,
    Draining,
    Gone,
    NoRun,
    Limited(String),
    Other(String),
}

threadline_engine::from_operation_errors!(Refusal);

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::ThreadNotFound => Self::Gone,
            ServiceError::RunNotFound => Self::NoRun,
            ServiceError::RunFenced(_) => Self::Evicted,
            ServiceError::RunDriven { .. } => Self::Driven,
            ServiceError::Forbidden(_) | ServiceError::RunNotYours | ServiceError::InterruptNotYours => {
                Self::Unauthorized
            }
            ServiceError::Store(error) => {
                tracing::warn!(%error, "store unavailable; the client retries");
                Self::Unavailable
            }
            ServiceError::Draining => Self::Draining,
            ServiceError::InvalidEvent(error) => Self::Invalid(error.to_string()),
            ServiceError::Limited(limited) => Self::Limited(limited.to_string()),
            error @ (ServiceError::ThreadAmbiguous
            | ServiceError::ThreadExists
            | ServiceError::ThreadDeleted
            | ServiceError::RetentionNotHeld
            | ServiceError::ConversationTooLarge
            | ServiceError::ConversationChanged { .. }
            | ServiceError::ConversationDiverged { .. }
            | ServiceError::ReplacementTooLarge
            | ServiceError::InvalidMessage(_)
            | ServiceError::ToolCallClaimed { .. }
            | ServiceError::ToolCallNotPending(_)
            | ServiceError::MessageExists(_)
            | ServiceError::KvChanged { .. }
            | ServiceError::AnswerTooLarge
            | ServiceError::ItemsConflict
            | ServiceError::ItemsChanged
            | ServiceError::DataFull(_)
            | ServiceError::BlobMissing { .. }
            | ServiceError::CheckpointNotFound(_)
            | ServiceError::RunActive(_)
            | ServiceError::TurnQueued(_)
            | ServiceError::RecoveryUnsafe { .. }
            | ServiceError::RecoveryTooLarge(_)
            | ServiceError::QueueFull(_)
            | ServiceError::QueueChanged { .. }
            | ServiceError::TurnBegun(_)
            | ServiceError::TurnNotFound
            | ServiceError::TooManyBranches
            | ServiceError::BranchNotFound(_)
            | ServiceError::MessageNotFound(_)
            | ServiceError::ProducerSeqGap { .. }
            | ServiceError::ProducerSeqConflict { .. }
            | ServiceError::LogReplaced(_)
            | ServiceError::CursorAhead { .. }
            | ServiceError::OutcomeUnknown
            | ServiceError::InvalidRequest(_)) => Self::Other(error.to_string()),
        }
    }
}

impl From<AuthError> for Refusal {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Store(error) => ServiceError::Store(error).into(),
            _ => Self::Unauthorized,
        }
    }
}

impl Refusal {
    /// Formats the refusal for a runner. After `retryable: false` the runner ends its run; after any other refusal it
    /// retries.
    fn for_runner(self) -> Value {
        let last = |reason: &str| json!({ "reason": reason, "retryable": false });
        let again = |reason: &str| json!({ "reason": reason, "retryable": true });
        match self {
            Self::Unauthorized => last("unauthorized"),
            Self::Malformed(detail) => json!({ "reason": "malformed", "detail": detail, "retryable": false }),
            Self::Invalid(detail) => json!({ "reason": "invalid_event_batch", "detail": detail, "retryable": false }),
            Self::Evicted => last("runner_evicted"),
            Self::LegacyRunner => last("legacy_runner_rejoin"),
            Self::Driven => last("run_driven"),
            Self::Gone => last("thread_deleted"),
            Self::NoRun => last("run_not_found"),
            Self::Unavailable => again("store_unavailable"),
            Self::Draining => again("gateway_draining"),
            Self::Limited(detail) => json!({ "reason": "rate_limited", "detail": detail, "retryable": true }),
            Self::Other(detail) => json!({ "reason": "refused", "detail": detail, "retryable": false }),
        }
    }

    /// Formats the refusal for a page.
    fn for_reader(self) -> Value {
        match self {
            Self::Unauthorized | Self::Evicted | Self::LegacyRunner | Self::Driven => refused("unauthorized"),
            Self::Malformed(detail) | Self::Invalid(detail) => json!({ "reason": "malformed", "detail": detail }),
            Self::Gone => refused("thread_not_found"),
            Self::NoRun => refused("run_not_found"),
            Self::Unavailable => refused("store_unavailable"),
            Self::Draining => refused("draining"),
            Self::Limited(detail) => json!({ "reason": "rate_limited", "detail": detail }),
            Self::Other(detail) => json!({ "reason": "refused", "detail": detail }),
        }
    }
}
