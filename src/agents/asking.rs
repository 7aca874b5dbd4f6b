//! Requests to agents outside of any thread: nothing of them is stored.

use futures_util::{StreamExt, stream};
use threadline_core::{Principal, RunId, ThreadId, agent::Agent, projection::conversation::Conversation};
use threadline_engine::{ProjectionError, ServiceError};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    AgentError, Agents, ClientInput, Origin, RUN_LIMIT, agent_span,
    client_input::room_for,
    input::{self, Rules, fold_into_one},
    source::{EventStream, RunInput, ThreadMark, Trust},
    source_over,
    starting::{check_approval, check_context},
};

impl Agents {
    /// Sends a request to an agent outside of any thread; nothing is stored.
    pub async fn ask(
        &self,
        principal: &Principal,
        agent: &Agent,
        mut client: ClientInput,
    ) -> Result<Asked, AgentError> {
        if self.shared.resting.is_cancelled() {
            return Err(ServiceError::Draining.into());
        }
        check_approval(principal, agent, &client)?;
        let rules = Rules::of(agent, Trust::of(principal));
        let thread = client.thread_id.take().unwrap_or_else(ThreadId::generate);
        let run = client.run_id.take().unwrap_or_else(RunId::generate);
        let bytes = client.bytes();
        // Until the request to the agent is made.
        let _room = match client.room.take() {
            Some(room) => room,
            None => {
                let room = room_for(&self.shared.service.projections, principal, bytes).await;
                room.map_err(ProjectionError::from)?
            }
        };
        let prepare = || {
            if rules.trust == Trust::Client {
                client.messages = fold_into_one(std::mem::take(&mut client.messages));
            }
            outside(&thread, &run, &client, rules)
        };
        let mut input = self.process(principal, bytes, prepare).await??;
        check_context(agent, &input)?;
        input.thread_mark = principal.user.as_ref().map(|user| ThreadMark::of(&principal.project, user, &thread));
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.shared.service.metrics().limited(RUN_LIMIT);
            return Err(AgentError::Busy);
        };
        let span = agent_span(agent, &principal.project, &thread, &run);
        let mut events = span.in_scope(|| self.source(agent, &input));
        let events = stream::poll_fn(move |context| span.in_scope(|| events.poll_next_unpin(context))).boxed();
        Ok(Asked { events, thread, run, _place: place })
    }

    /// Sends a request to an agent on behalf of the server itself: nothing is stored, and it takes no permit of a run.
    /// `origin` is the place where the agent is defined: agents of the configuration may have any address. Dropping the
    /// stream ends the request.
    pub fn consult(&self, agent: &Agent, origin: Origin, client: ClientInput) -> Result<EventStream, AgentError> {
        let mut input = outside(&ThreadId::generate(), &RunId::generate(), &client, Rules::believed())?;
        // The server's own request may speak in the server's name.
        if let Some(own) = &client.forwarded_props {
            own.get().clone_into(&mut input.forwarded_props);
        }
        let outbound = if origin == Origin::Configuration { &self.shared.open } else { &self.guarded };
        Ok(source_over(outbound, agent, &input))
    }
}

/// Input of an agent outside of any thread, with an empty history.
fn outside(thread: &ThreadId, run: &RunId, client: &ClientInput, rules: Rules<'_>) -> Result<RunInput, AgentError> {
    let nothing = Conversation::default();
    let (input, _) = input::prepare(client, rules, &nothing)?.complete(thread, run, &nothing);
    Ok(input)
}

/// Answer of an agent outside of any thread. Dropping it ends the request.
pub struct Asked {
    /// Thread id that the agent received.
    pub thread: ThreadId,
    /// Run id that the agent received.
    pub run: RunId,
    /// Events of the answer.
    pub events: EventStream,
    _place: OwnedSemaphorePermit,
}
