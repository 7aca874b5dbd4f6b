//! Settings of a server that is not running yet.

use std::{sync::Arc, time::Duration};

use threadline_core::AllowedOrigins;
use threadline_http::{
    egress::{EgressClient, EgressPolicy, Network},
    listener::{Listener, Timeouts},
};

use super::App;
use crate::titles::TitleSettings;

impl<L: Listener> App<L> {
    /// Allows these networks for agents that were made over the API; in development mode also this machine.
    pub fn with_agent_networks(self, mut networks: Vec<Network>) -> Self {
        if self.is_development() {
            networks.push(Network::Loopback);
        }
        self.with_outbound(EgressClient::new(EgressPolicy::Public(networks)))
    }

    /// Replaces the HTTP client for agents that were made over the API.
    pub fn with_outbound(mut self, outbound: EgressClient) -> Self {
        self.state.agents = self.state.agents.clone().with_outbound(outbound);
        self
    }

    /// Replaces the limit of concurrent runs of agents.
    pub fn with_agent_runs(mut self, places: usize) -> Self {
        self.state.agents = self.state.agents.clone().with_places(places);
        self
    }

    /// Replaces the largest difference between the clocks of token issuers and the store's.
    pub fn with_token_leeway(mut self, leeway: Duration) -> Self {
        self.state.http.auth = self.state.http.auth.clone().with_leeway(leeway);
        self
    }

    /// Replaces the timeouts of the server.
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.state.http.heartbeat = timeouts.heartbeat;
        self.state.agents = self.state.agents.clone().with_store_timeout(timeouts.agents);
        self.state.http.auth = self.state.http.auth.clone().with_check(timeouts.credentials);
        self.state.http.bodies.read_timeout = timeouts.body;
        self.state.http.bodies.memory_timeout = timeouts.room;
        self.state.http.responses.memory_timeout = timeouts.room;
        self.state.http.close = timeouts.close;
        Self { timeouts, ..self }
    }

    /// Allows web pages of these origins to send requests from browsers, if there are API keys.
    pub fn with_origins(mut self, origins: AllowedOrigins) -> Self {
        self.state.http.origins = Arc::new(origins);
        self
    }

    /// Turns on the naming of threads that have no name.
    pub fn with_names(self, naming: TitleSettings) -> Self {
        Self { naming: Some(naming), ..self }
    }
}
