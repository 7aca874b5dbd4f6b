//! Starts of runs, those of agents that may wait in the queue of their thread, and the routes of the queue.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use threadline_core::agent::Busy;

use super::{Client, ClientError, PlacedTurn, Queue, Run, RunFork, StartedRun, rest::put};

/// Request to start a run.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartRun {
    /// Id of the run; the server makes one if absent. With an id the request may safely be repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Id of the agent that the run belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Lease in seconds: the server ends a run whose producer sends nothing for this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u64>,
    /// AG-UI's RunAgentInput, or a part of it. With an input the server has the agent carry out the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Fork of the thread in which the run begins; only with an input, which may be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork: Option<RunFork>,
    /// Epoch of the log that was read: the start fails with `log-replaced` if the log has another one.
    #[serde(skip)]
    pub epoch: Option<String>,
}

/// Outcome of a request for a run of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum RunAnswer {
    /// The run has begun, now or before.
    Started(Box<StartedRun>),
    /// The turn waits in the queue. Its run has the same id.
    Queued(PlacedTurn),
}

/// Run as it is now, or the turn that becomes it.
#[derive(Debug, Clone, PartialEq)]
pub enum RunOrTurn {
    /// The run has begun.
    Run(Box<Run>),
    /// The turn waits in the queue.
    Queued(PlacedTurn),
}

/// Place that a queued turn is moved to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnPlace {
    /// Immediately before the queued turn with this id.
    Before(String),
    /// Behind all other turns.
    Last,
}

/// Change of a queued turn; `None` leaves what it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EditTurn {
    /// Another RunAgentInput. Its messages replace those of the turn.
    pub input: Option<Value>,
    /// Another place in the queue.
    pub place: Option<TurnPlace>,
    /// Version that the queue must have: the change fails with `queue-changed` if it has another one.
    pub version: Option<u64>,
}

impl EditTurn {
    fn body(&self) -> Map<String, Value> {
        let before = self.place.as_ref().map(|place| match place {
            TurnPlace::Before(run) => json!(run),
            TurnPlace::Last => Value::Null,
        });
        let members = [("input", self.input.clone()), ("before", before), ("version", self.version.map(Value::from))];
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// Answer to a request for a run.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answered {
    Queued { queued: PlacedTurn },
    Started(Box<StartedRun>),
}

/// Answer to a read of a run. A queued turn has a place, and no run has one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Shown {
    Queued(PlacedTurn),
    Run(Box<Run>),
}

impl Client {
    /// Has an agent carry out a run: `run` names the agent and has its input. `busy` chooses what becomes of the request while
    /// another run is active; `None` leaves it to the agent, and is [`Busy::Reject`] for most. With an id the request may safely
    /// be repeated: it finds the turn in the queue, or the run.
    ///
    /// Fails with `run-active` if it may not wait, and with `queue-full` if no further turn can be queued.
    pub async fn start_or_queue(
        &self,
        thread: &str,
        run: &StartRun,
        busy: Option<Busy>,
    ) -> Result<RunAnswer, ClientError> {
        Ok(match self.ask(thread, run, busy).await? {
            Answered::Started(started) => RunAnswer::Started(started),
            Answered::Queued { queued } => RunAnswer::Queued(queued),
        })
    }

    /// Starts a run with this one request; see [`Client::run`] for a producer that also retries and keeps the lease. Fails
    /// with `run-active` while another run is active, whatever the agent prefers; [`Client::start_or_queue`] can have the
    /// request wait.
    pub async fn start_run(&self, thread: &str, run: &StartRun) -> Result<StartedRun, ClientError> {
        let busy = run.input.is_some().then_some(Busy::Reject);
        match self.ask(thread, run, busy).await? {
            Answered::Started(started) => Ok(*started),
            // The turn was queued by an earlier request with this id.
            Answered::Queued { queued } => Err(ClientError::Queued(queued)),
        }
    }

    async fn ask(&self, thread: &str, run: &StartRun, busy: Option<Busy>) -> Result<Answered, ClientError> {
        #[derive(Serialize)]
        struct Body<'a> {
            #[serde(flatten)]
            run: &'a StartRun,
            #[serde(skip_serializing_if = "Option::is_none")]
            busy: Option<Busy>,
        }
        let mut url = self.url(&["threads", thread, "runs"])?;
        put(&mut url, "epoch", run.epoch.as_deref());
        self.json(self.request(Method::POST, url).json(&Body { run, busy })).await
    }

    /// Reads a run, or the queued turn that becomes it. Fails with `run-not-found` if there is neither: a turn that was
    /// removed leaves no run.
    pub async fn run_or_turn(&self, thread: &str, run: &str) -> Result<RunOrTurn, ClientError> {
        let url = self.url(&["threads", thread, "runs", run])?;
        Ok(match self.json(self.request(Method::GET, url)).await? {
            Shown::Run(run) => RunOrTurn::Run(run),
            Shown::Queued(placed) => RunOrTurn::Queued(placed),
        })
    }

    /// Reads a run as it is now. Fails with `run-not-found` if there is none, and with [`ClientError::Queued`] while its turn
    /// waits in the queue; [`Client::run_or_turn`] reads both.
    pub async fn run_record(&self, thread: &str, run: &str) -> Result<Run, ClientError> {
        match self.run_or_turn(thread, run).await? {
            RunOrTurn::Run(run) => Ok(*run),
            RunOrTurn::Queued(placed) => Err(ClientError::Queued(placed)),
        }
    }

    /// Reads the queue of a thread.
    pub async fn queue(&self, thread: &str) -> Result<Queue, ClientError> {
        self.json(self.request(Method::GET, self.url(&["threads", thread, "queue"])?)).await
    }

    /// Changes what a queued turn asks, or its place, and returns the queue as it is then. Fails with `turn-begun` if the
    /// turn is a run by now, whose id [`Problem::run_id`](crate::Problem::run_id) returns. With the `epoch` of the queue that was read, fails with
    /// `log-replaced` if another thread has the id now, as do the other changes of a queue.
    pub async fn edit_turn(
        &self,
        thread: &str,
        run: &str,
        edit: &EditTurn,
        epoch: Option<&str>,
    ) -> Result<Queue, ClientError> {
        let mut url = self.url(&["threads", thread, "queue", run])?;
        put(&mut url, "epoch", epoch);
        self.json(self.request(Method::PATCH, url).json(&edit.body())).await
    }

    /// Removes a turn from the queue. It leaves no run. May safely be repeated; fails with `turn-begun` if the turn is a run
    /// by now.
    pub async fn remove_turn(&self, thread: &str, run: &str, epoch: Option<&str>) -> Result<(), ClientError> {
        let mut url = self.url(&["threads", thread, "queue", run])?;
        put(&mut url, "epoch", epoch);
        self.send(self.request(Method::DELETE, url)).await.map(drop)
    }

    /// Holds a queue: no turn begins until it is released. The active run continues.
    pub async fn hold_queue(&self, thread: &str, epoch: Option<&str>) -> Result<Queue, ClientError> {
        self.change_queue(&["threads", thread, "queue", "hold"], epoch).await
    }

    /// Releases a queue, whatever holds it. If no run is active, the next turn begins.
    pub async fn release_queue(&self, thread: &str, epoch: Option<&str>) -> Result<Queue, ClientError> {
        self.change_queue(&["threads", thread, "queue", "release"], epoch).await
    }

    /// Begins a queued turn as soon as possible: it comes first, the queue is released, and the active run is stopped.
    pub async fn start_turn(&self, thread: &str, run: &str, epoch: Option<&str>) -> Result<Queue, ClientError> {
        self.change_queue(&["threads", thread, "queue", run, "start"], epoch).await
    }

    async fn change_queue(&self, segments: &[&str], epoch: Option<&str>) -> Result<Queue, ClientError> {
        let mut url = self.url(segments)?;
        put(&mut url, "epoch", epoch);
        self.json(self.request(Method::POST, url)).await
    }
}
