//! Tasks that drive started runs.

use std::time::Duration;

use threadline_core::{Principal, agent::Agent, projection::conversation::Conversation};
use threadline_engine::{
    DriveRight, Projected, ProjectionError, Resent, ServiceError, StartedRun, WritePolicy, metrics::GaugeGuard,
};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

use super::{Agents, drive::Drive, input::Prepared, span::agent_span};

/// A started run, before its driver.
pub(super) struct Work {
    pub agents: Agents,
    pub principal: Principal,
    pub right: DriveRight,
    pub agent: Agent,
    pub started: StartedRun,
    pub beat: Duration,
    /// Permit of the run, released at its end.
    #[allow(dead_code)]
    pub place: Option<OwnedSemaphorePermit>,
}

impl Work {
    /// Drives the run to its end. Log lines within carry the run's span.
    pub(super) async fn run(self, before: Projected, prepared: Prepared) {
        let span = agent_span(&self.agent, &self.principal.project, self.right.thread(), &self.started.run.id);
        self.drive(before, prepared).instrument(span).await;
    }

    async fn drive(self, before: Projected, prepared: Prepared) {
        let service = &self.agents.shared.service;
        let _present = GaugeGuard::new(&service.metrics().agent_runs);
        let (thread, run) = (self.right.thread(), &self.started.run);
        let result = async {
            let conversation = self.conversation(before).await?;
            // A concurrent run may have started in between: two clients that answer the same interrupt.
            if let Err(breach) = prepared.answered.check(&conversation) {
                return Ok(Err(breach));
            }
            let input = prepared.complete(thread, &run.id, &conversation);
            let (topic, fence) = service.events.watch_run(&self.principal, thread, &run.id).await?;
            Ok::<_, ServiceError>(Ok((input, topic, fence)))
        };
        // If this fails as well, the run's lease expires.
        let fail = async |code: &str, message: String| {
            let _ = self.right.fail(code.to_owned(), message).await;
        };
        match result.await {
            Ok(Ok((input, topic, fence))) => {
                let stream = self.agents.source(&self.agent, &input);
                drop(input);
                let drive = Drive {
                    right: self.right.clone(),
                    fence,
                    next: run.producer_seq + 1,
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
            Ok(Err(breach)) => fail(breach.code(), breach.to_string()).await,
            Err(error) => {
                tracing::warn!(%error, "cannot start a run of an agent");
                fail("agent-not-started", "The server could not read the conversation.".to_owned()).await;
            }
        }
    }

    /// Conversation before the run: the one read before the start, unless other events were appended in between.
    async fn conversation(&self, before: Projected) -> Result<Conversation, ProjectionError> {
        let StartedRun { cursor, epoch, .. } = &self.started;
        if before.epoch == *epoch && before.seq == *cursor {
            return Ok(before.conversation);
        }
        let projections = &self.agents.shared.service.projections;
        Ok(projections.at(&self.principal, self.right.thread(), Some(*cursor), Some(*epoch)).await?.conversation)
    }
}
