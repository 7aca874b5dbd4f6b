//! State of the HTTP layer, a part of the state of every API.

use std::{sync::Arc, time::Duration};

use axum::extract::Request;
use threadline_core::{
    AllowedOrigins, Principal,
    limits::{CLOSE_TIMEOUT, HEARTBEAT_INTERVAL},
};
use threadline_engine::{Service, close_schedule::CloseSchedule, limits::Quota, metrics::Metrics};
use threadline_store::StoreClock;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    auth::{Auth, AuthError},
    body::{BodyReader, Charge, Presented, Whole},
    origins::RefusedOrigins,
    problem::Problem,
    response::ResponseBudget,
};

/// State that extractors, streams and sockets share. An API's own state hands it out by `AsRef`, without a copy.
#[derive(Clone)]
pub struct HttpState {
    /// Authentication of keys, tokens and tickets.
    pub auth: Auth,
    /// Limits of users, of projects and of the node.
    pub quota: Quota,
    pub bodies: BodyReader,
    /// Memory budget of large responses.
    pub responses: ResponseBudget,
    /// Cancelled once the node is shutting down.
    pub draining: CancellationToken,
    /// Turns of sockets and streams to be closed.
    pub closing: CloseSchedule,
    /// Counts connections and sockets, so that the end of the last one can be waited for.
    pub connections: TaskTracker,
    /// Time between the heartbeats of sockets and event streams.
    pub heartbeat: Duration,
    /// Time that a client has to answer when its socket is closed.
    pub close: Duration,
    /// Pages that may call from a browser.
    pub origins: Arc<AllowedOrigins>,
    /// Pages that were refused.
    pub refused_origins: Arc<RefusedOrigins>,
    pub metrics: Metrics,
    pub clock: StoreClock,
}

impl AsRef<Self> for HttpState {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl HttpState {
    /// State with the default heartbeat and close timeout.
    pub fn new(service: &Service, auth: Auth) -> Self {
        Self {
            auth,
            quota: service.quota.clone(),
            bodies: BodyReader::new(service.quota.clone(), service.memory.clone()),
            responses: ResponseBudget::new(service.quota.clone(), service.memory.clone()),
            draining: service.draining(),
            closing: service.closing(),
            connections: TaskTracker::new(),
            heartbeat: HEARTBEAT_INTERVAL,
            close: CLOSE_TIMEOUT,
            origins: Arc::default(),
            refused_origins: Arc::default(),
            metrics: service.metrics().clone(),
            clock: service.clock().clone(),
        }
    }

    /// Reads a complete body of at most `limit` bytes, which are charged to the request's principal.
    pub async fn body(&self, request: Request, limit: usize) -> Result<Whole, Problem> {
        self.read_body(request, limit, Charge::Refuses).await
    }

    /// Reads a complete body. Fails if the credential of the request has ended meanwhile: a body that arrives slowly would
    /// carry a request beyond a revocation.
    pub(crate) async fn read_body(&self, request: Request, limit: usize, charge: Charge) -> Result<Whole, Problem> {
        let presented = request.extensions().get::<Presented>().cloned();
        let whole = self.bodies.read(request, limit, charge).await?;
        match presented {
            Some(Presented { principal, as_of }) if !self.auth.holds_since(&principal, as_of).await? => {
                Err(AuthError::Over.into())
            }
            _ => Ok(whole),
        }
    }

    /// Reads a page for a principal. A request that waits is a stream with one response: it holds a stream permit, and
    /// fails once the principal's credential is no longer valid.
    pub async fn waiting<T>(
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
            () = credential.expired() => Err(AuthError::Over.into()),
        }
    }
}

/// Completes a task, even if the client that requested it disconnects meanwhile.
pub async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    tokio::spawn(work).await.map_err(|error| {
        tracing::error!(%error, "internal error in a request");
        Problem::new(crate::problem::ProblemType::Internal, "see the server's log")
    })
}
