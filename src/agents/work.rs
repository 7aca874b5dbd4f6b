//! Tasks that drive runs.

use std::collections::HashSet;

use threadline_core::{
    Principal,
    agent::{Agent, Recovery},
    limits::DRIVEN_BEAT,
    projection::superseding::BegunSubagents,
};
use threadline_engine::{DriveRight, Resent, WritePolicy, metrics::GaugeGuard};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

use super::{Agents, drive::Drive, repetition, source::RunInput, span::agent_span};

/// An attempt of a run, before its driver.
pub(super) struct Work {
    pub agents: Agents,
    pub principal: Principal,
    pub right: DriveRight,
    pub agent: Agent,
    /// Ids of messages of users and of results of tools, under which the agent must not write.
    pub client_messages: HashSet<String>,
    /// Subagents of the attempts before.
    pub begun: BegunSubagents,
    /// producer_seq of the agent's first event.
    pub next: u64,
    /// True if the run answers an interrupt.
    pub answers: bool,
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
                    tracing::warn!(%error, "cannot follow a run of an agent");
                    return;
                }
            };
        if repetition::second_call(&self.agent, self.answers).is_some() {
            match self.right.mark_called().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot note the call of an agent");
                    return;
                }
            }
        }
        let stream = self.agents.source(&self.agent, &input);
        drop(input);
        let drive = Drive {
            fence,
            next: self.next,
            client_messages: self.client_messages,
            begun: self.begun,
            policy: WritePolicy {
                heartbeat: DRIVEN_BEAT,
                lease: None,
                silence: None,
                store_timeout: self.agents.store_timeout,
                resent: Resent::Never,
                leaving: self.agents.shared.leaving.clone(),
            },
            hands_over: self.agent.recovery != Recovery::None,
            right: self.right,
        };
        drive.run(stream, topic).await;
    }
}
