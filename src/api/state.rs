//! State that the handlers of all APIs share.

use axum::extract::Request;
use serde::de::DeserializeOwned;
use threadline_core::{Principal, limits::MAX_BATCH_BYTES};
use threadline_engine::{Service, limits::BudgetPermit};
use threadline_http::{
    HttpState,
    auth::Auth,
    body::Whole,
    extract::parse_json,
    negotiation::Representation,
    problem::{Problem, ProblemType},
};
use tokio::runtime::Handle;

use crate::{
    agents::{Agents, ClientInput, client_input::room_for},
    api::copilotkit::node::Node,
};

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
    /// Parses a body that has an input of an agent, in its turn, with memory for the input and for what is built from it.
    pub async fn parse_input<T>(&self, principal: &Principal, body: &[u8]) -> Result<(T, BudgetPermit), Problem>
    where
        T: DeserializeOwned + Default,
    {
        let room = room_for(&self.service.projections, principal, body.len()).await?;
        let parsed = self.service.queue.process(principal, body.len(), || parse_json(body)).await??;
        Ok((parsed, room))
    }

    /// Parses a body into values that an API translates, in its turn, with memory for their trees. JSON of many small values takes a
    /// hundred times its bytes as a tree: a body whose trees take more than the principal may have at once is refused.
    async fn parse_values<T>(&self, principal: &Principal, body: &[u8]) -> Result<(T, BudgetPermit), Problem>
    where
        T: DeserializeOwned + Default,
    {
        let room = self.service.projections.room_for_trees(principal, body).await?;
        let room = room.ok_or_else(|| {
            let bytes = body.len();
            let detail = format!(
                "the values in the body of {bytes} bytes take more memory than one client may have: send fewer"
            );
            Problem::new(ProblemType::TooLarge, detail)
        })?;
        let parsed = self.service.queue.process(principal, body.len(), || parse_json(body)).await??;
        Ok((parsed, room))
    }

    /// Reads a body whose values an API translates. A content type other than JSON is refused.
    pub async fn read_values<T>(&self, principal: &Principal, request: Request) -> Result<(T, BudgetPermit), Problem>
    where
        T: DeserializeOwned + Default,
    {
        let bytes = self.json_body(request, "the body of this route must be application/json").await?;
        self.parse_values(principal, &bytes).await
    }

    /// Reads a body that has an input of an agent. A content type other than JSON is refused with `expected` as the detail.
    pub async fn read_input<T>(
        &self,
        principal: &Principal,
        request: Request,
        expected: &str,
    ) -> Result<(T, BudgetPermit), Problem>
    where
        T: DeserializeOwned + Default,
    {
        let bytes = self.json_body(request, expected).await?;
        self.parse_input(principal, &bytes).await
    }

    async fn json_body(&self, request: Request, expected: &str) -> Result<Whole, Problem> {
        if Representation::of(request.headers())? != Representation::Json {
            return Err(Problem::new(ProblemType::UnsupportedMediaType, expected));
        }
        self.http.body(request, MAX_BATCH_BYTES).await
    }

    /// Reads a RunAgentInput, which keeps the memory that it is charged for.
    pub async fn read_run_input(&self, principal: &Principal, request: Request) -> Result<ClientInput, Problem> {
        let (mut input, room): (ClientInput, _) =
            self.read_input(principal, request, "send a RunAgentInput as application/json").await?;
        input.room = Some(room);
        Ok(input)
    }

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use threadline_core::{
        Clock, Limits, Principal, ProjectId, Timestamp, UserId,
        limits::{BODY_ROOM_WAIT, INPUT_COPIES, LONG_INPUT_BYTES, TREE_COPIES},
    };
    use threadline_engine::{Ports, limits::MemoryKind};
    use threadline_http::{
        egress::{EgressClient, EgressPolicy},
        problem::ProblemType,
    };
    use threadline_store::memory::MemoryStore;
    use tokio::time::Instant;

    use super::*;
    use crate::agents::ClientInput;

    fn state(limits: Limits) -> ApiState {
        let clock = Clock::manual(Timestamp(0));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let service = Service::start(Ports { limits, ..Ports::alone(store.clone(), clock) });
        let outbound = EgressClient::new(EgressPolicy::Anywhere);
        let auth = Auth::new(None, store, outbound, &service);
        ApiState::new(service.clone(), Agents::new(service, Vec::new()).expect("agents"), auth)
    }

    #[tokio::test(start_paused = true)]
    async fn values_to_translate_take_the_memory_of_their_trees() {
        let limits = Limits { memory: 64 << 20, ..Limits::default() };
        let state = state(limits);
        let client = Principal::user(ProjectId::new("p").expect("an id"), UserId::new("ann").expect("an id"));
        let many = |count: usize| format!("{{\"list\":[{}0]}}", "{\"a\":0},".repeat(count));
        let text = many(10_000);
        let (value, room): (serde_json::Value, _) = state.parse_values(&client, text.as_bytes()).await.expect("parsed");
        assert!(room.bytes() >= TREE_COPIES * threadline_core::json::memory(&value), "{}", room.bytes());
        assert!(room.bytes() > 50 * text.len(), "{}", room.bytes());
        drop(room);
        // Refused before the parse, however it looks.
        for text in [many(200_000), many(200_000).replace(']', "")] {
            let refused = state.parse_values::<serde_json::Value>(&client, text.as_bytes()).await;
            assert_eq!(refused.err().map(|problem| problem.kind), Some(ProblemType::TooLarge));
        }
        // Brackets in a text are no values.
        let words = format!("{{\"said\":\"{}\"}}", "{[,:".repeat(200_000));
        assert!(state.parse_values::<serde_json::Value>(&client, words.as_bytes()).await.is_ok());
        assert_eq!(state.service.memory.held()[MemoryKind::Fold as usize].1, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_input_is_parsed_once_it_has_memory_and_others_parse_meanwhile() {
        let state = state(Limits { memory: 24 * LONG_INPUT_BYTES, ..Limits::default() });
        let client = |project: &str| {
            let project = ProjectId::new(project).expect("an id");
            Principal::user(project, UserId::new("ann").expect("an id"))
        };
        let (hog, victim) = (client("p"), client("q"));
        let input = |bytes: usize| format!("{{\"state\":\"{}\"}}", "x".repeat(bytes));
        let large = input(2 * LONG_INPUT_BYTES);
        let parse = async |who: &Principal, text: &str| {
            let parsed = state.parse_input::<ClientInput>(who, text.as_bytes()).await;
            parsed.map(|(_, room)| room).map_err(|problem| problem.kind)
        };
        let taken = || state.service.memory.held()[MemoryKind::Fold as usize].1;
        let held = parse(&hog, &large).await.expect("parsed");
        assert_eq!((held.bytes(), taken()), (large.len() * INPUT_COPIES, large.len() * INPUT_COPIES));
        let begun = Instant::now();
        assert_eq!(parse(&hog, &large).await.err(), Some(ProblemType::Busy));
        assert_eq!(begun.elapsed(), BODY_ROOM_WAIT);
        // A small input takes none, and another project's client has its share.
        let begun = Instant::now();
        assert_eq!(parse(&hog, &input(LONG_INPUT_BYTES / 2)).await.expect("parsed").bytes(), 0);
        assert!(parse(&victim, &input(LONG_INPUT_BYTES / 2)).await.is_ok());
        assert_eq!(begun.elapsed().as_secs(), 0);
        drop(held);
        assert!(parse(&hog, &large).await.is_ok());
        assert_eq!(taken(), 0);
    }
}
