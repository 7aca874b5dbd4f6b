//! State that the handlers of all APIs share.

use threadline_engine::Service;
use threadline_http::{HttpState, auth::Auth};
use tokio::runtime::Handle;

use crate::{agents::Agents, api::copilotkit::node::Node};

/// State of all handlers.
#[derive(Clone)]
pub struct ApiState {
    pub http: HttpState,
    pub service: Service,
    /// Agents that can be called to produce a run.
    pub agents: Agents,
    /// State that the CopilotKit API keeps on this node between requests.
    pub copilotkit: Node,
    /// Runtime of the service.
    pub runtime: Handle,
}

impl AsRef<HttpState> for ApiState {
    fn as_ref(&self) -> &HttpState {
        &self.http
    }
}

impl ApiState {
    /// State with the default heartbeat and close timeout. Must be called inside the runtime of the service.
    pub fn new(service: Service, agents: Agents, auth: Auth) -> Self {
        Self {
            http: HttpState::new(&service, auth),
            service,
            agents,
            copilotkit: Node::default(),
            runtime: Handle::current(),
        }
    }
}
