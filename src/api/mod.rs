//! The front doors. Each one translates between its wire and the service, and holds no truth of its own.

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

/// What the doors stand on.
#[derive(Clone)]
pub struct ApiState {
    /// The use cases.
    pub service: Service,
    /// The agents that runs can be handed to.
    pub agents: Agents,
    /// Who is let in.
    pub auth: Auth,
    /// Cancelled once the node is shutting down.
    pub draining: CancellationToken,
    /// Counts connections and sockets, so that the end of the last one can be waited for.
    pub connections: TaskTracker,
    /// Time between the heartbeats of sockets and event streams.
    pub heartbeat: Duration,
    /// Reads request bodies.
    pub bodies: Bodies,
    /// Gives large answers their room.
    pub answers: Answers,
    /// How much everybody may use.
    pub quota: Quota,
    /// Time that a client has to answer when its socket is closed.
    pub close: Duration,
    /// What the doors of CopilotKit's clients remember.
    pub copilotkit: copilotkit::Node,
    /// Pages that may call from a browser.
    pub origins: Arc<AllowedOrigins>,
    /// Pages that were refused.
    pub refused_origins: Arc<guard::RefusedOrigins>,
}

/// Carries something through to its end even if whoever asked for it goes away in the middle.
async fn detached<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, problem::Problem> {
    tokio::spawn(work).await.map_err(|error| {
        tracing::error!(%error, "a request failed inside");
        problem::Problem::new(problem::ProblemType::Internal, "the server's log says more")
    })
}

impl ApiState {
    /// A page for a principal. One that waits is a stream that gives one answer: it takes a place, and ends when what the
    /// principal has shown ceases to be valid.
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

    /// Doors over this service.
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
