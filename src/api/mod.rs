//! APIs of the server. Each API translates between its wire format and the service, and is never the source of truth.

pub mod agui;
mod answers;
pub mod body;
mod console;
pub mod conversations;
pub mod copilotkit;
pub mod doors;
pub mod extract;
mod forwarded;
pub mod front;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub mod guard;
pub mod native;
pub mod observe;
mod parameters;
pub mod problem;
pub mod sse;
pub mod websocket;

use std::{sync::Arc, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    agents::Agents,
    auth::{Auth, AuthError},
    domain::{
        AllowedOrigins, Principal,
        limits::{CLOSE_TIMEOUT, HEARTBEAT_INTERVAL},
    },
    quota::Quota,
    service::Service,
};
use answers::Answers;
use body::Bodies;
use problem::Problem;

/// State that all handlers share.
#[derive(Clone)]
pub struct ApiState {
    pub service: Service,
    /// Agents that can be called to produce a run.
    pub agents: Agents,
    /// Authentication of keys, tokens and tickets.
    pub auth: Auth,
    /// Cancelled once the node is shutting down.
    pub draining: CancellationToken,
    /// Counts connections and sockets, so that the end of the last one can be waited for.
    pub connections: TaskTracker,
    /// Time between the heartbeats of sockets and event streams.
    pub heartbeat: Duration,
    pub bodies: Bodies,
    /// Memory budget of large responses.
    pub answers: Answers,
    /// Limits of users, of projects and of the node.
    pub quota: Quota,
    /// Time that a client has to answer when its socket is closed.
    pub close: Duration,
    /// State that the CopilotKit API keeps on this node between requests.
    pub copilotkit: copilotkit::Node,
    /// Pages that may call from a browser.
    pub origins: Arc<AllowedOrigins>,
    /// Pages that were refused.
    pub refused_origins: Arc<guard::RefusedOrigins>,
}

/// Completes a task, even if the client that requested it disconnects meanwhile.
async fn detached<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, problem::Problem> {
    tokio::spawn(work).await.map_err(|error| {
        tracing::error!(%error, "internal error in a request");
        problem::Problem::new(problem::ProblemType::Internal, "see the server's log")
    })
}

impl ApiState {
    /// Reads a page for a principal. A request that waits is a stream with one response: it holds a stream permit, and
    /// fails once the principal's credential is no longer valid.
    async fn waiting<T>(
        &self,
        principal: &Principal,
        wait: Option<Duration>,
        page: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        if wait.is_none() {
            return page.await;
        }
        let _place = self.quota.open(principal)?;
        let mut credential = self.auth.watch(principal);
        tokio::select! {
            page = page => page,
            () = credential.over() => Err(AuthError::Over.into()),
        }
    }

    /// State with the default heartbeat and close timeout.
    pub fn new(service: Service, agents: Agents, auth: Auth) -> Self {
        Self {
            draining: service.draining(),
            bodies: Bodies::new(service.quota.clone()),
            answers: Answers::new(service.quota.clone()),
            quota: service.quota.clone(),
            service,
            agents,
            auth,
            connections: TaskTracker::new(),
            heartbeat: HEARTBEAT_INTERVAL,
            close: CLOSE_TIMEOUT,
            copilotkit: copilotkit::Node::default(),
            origins: Arc::default(),
            refused_origins: Arc::default(),
        }
    }
}
