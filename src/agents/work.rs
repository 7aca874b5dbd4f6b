//! Tasks that drive started runs.

use std::{collections::HashSet, time::Duration};

use threadline_core::{Principal, agent::Agent};
use threadline_engine::{DriveRight, Resent, WritePolicy, metrics::GaugeGuard};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

use super::{Agents, drive::Drive, source::RunInput, span::agent_span};

/// A started run, before its driver.
pub(super) struct Work {
    pub agents: Agents,
    pub principal: Principal,
    pub right: DriveRight,
    pub agent: Agent,
    /// Ids of messages of users and of results of tools, under which the agent must not write.
    pub client_messages: HashSet<String>,
    /// producer_seq of the agent's first event.
    pub next: u64,
    pub beat: Duration,
    /// Permit of the run, released at its end.
    #[allow(dead_code)]
    pub place: Option<OwnedSemaphorePermit>,
}

impl Work {
    /// Drives the run to its end. Log lines within carry the run's span.
    pub(super) async fn run(self, input: RunInput) {
        let span = agent_span(&self.agent, &self.principal.project, self.right.thread(), self.right.run());
        self.drive(input).instrument(span).await;
    }

    async fn drive(self, input: RunInput) {
        let service = &self.agents.shared.service;
        let _present = GaugeGuard::new(&service.metrics().agent_runs);
        let (topic, fence) =
            match service.events.watch_run(&self.principal, self.right.thread(), self.right.run()).await {
                Ok(watched) => watched,
                Err(error) => {
                    tracing::warn!(%error, "cannot start a run of an agent");
                    // If this fails as well, the run's lease expires.
                    let message = "The server could not read the thread.".to_owned();
                    let _ = self.right.fail("agent-not-started".to_owned(), message).await;
                    return;
                }
            };
        let stream = self.agents.source(&self.agent, &input);
        drop(input);
        let drive = Drive {
            right: self.right.clone(),
            fence,
            next: self.next,
            client_messages: self.client_messages,
            policy: WritePolicy {
                heartbeat: self.beat,
                lease: None,
                silence: None,
                store_timeout: self.agents.store_timeout,
                resent: Resent::Never,
                leaving: self.agents.shared.leaving.clone(),
            },
        };
        drive.run(stream, topic).await;
    }
}
