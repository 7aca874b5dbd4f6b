//! Queue of a thread: turns that wait for the active run to end, and runs of agents that may wait in it.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use threadline_core::agent::Busy;

use crate::{Client, ClientError, Run, StartRun, StartedRun, rest::put};

/// Reason why the queue of a thread rests until it is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// A run was stopped while others were queued.
    Stop,
    /// A run failed while others were queued.
    Error,
    /// A person holds the queue.
    Hand,
    /// A reason that this client does not know.
    #[serde(other)]
    Unknown,
}

impl Hold {
    /// Name of the reason on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Error => "error",
            Self::Hand => "hand",
            Self::Unknown => "unknown",
        }
    }
}

/// Queue of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// Id of the thread.
    pub thread_id: String,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Number that grows with every change of the queue.
    pub version: u64,
    /// Reason why the queue rests; `None` if it moves. It also rests while interrupts of the thread are open.
    pub held: Option<Hold>,
    /// Turns, the next one first.
    pub items: Vec<QueuedTurn>,
}

/// Turn that waits in a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedTurn {
    /// Id of the run that it becomes.
    pub run_id: String,
    /// Id of the agent that is asked.
    pub agent_id: String,
    /// Caller that asked, such as `user:ann`.
    pub asked_by: Option<String>,
    /// Time at which it was asked.
    pub at: String,
    /// Messages that the caller has sent, each with an id.
    pub messages: Vec<Value>,
}

/// Place of a turn in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedTurn {
    /// Id of the run that the turn becomes.
    pub run_id: String,
    /// Place from 1, the next one.
    pub place: usize,
    /// Version of the queue.
    pub version: u64,
}

/// State of a queue, as followers of its thread are told of it. [`Client::queue`] reads the turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct QueueState {
    /// Number that grows with every change of the queue.
    pub version: u64,
    /// Number of queued turns.
    pub queued: u64,
    /// Reason why the queue rests; `None` if it moves.
    pub held: Option<Hold>,
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
    /// Behind all others.
    Last,
}

/// Change of a queued turn; `None` leaves what it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EditTurn {
    /// Another RunAgentInput. Its messages replace those of the turn.
    pub input: Option<Value>,
    /// Another place.
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

    /// [`Client::start_run`]: a run that has an input and meets an active one is refused, whatever its agent prefers.
    pub(super) async fn start_at_once(&self, thread: &str, run: &StartRun) -> Result<StartedRun, ClientError> {
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

    /// Reads the queue of a thread.
    pub async fn queue(&self, thread: &str) -> Result<Queue, ClientError> {
        self.json(self.request(Method::GET, self.url(&["threads", thread, "queue"])?)).await
    }

    /// Changes what a queued turn asks, or its place, and returns the queue as it is then. Fails with `turn-begun` if the
    /// turn is a run by now, which [`Problem::run`](crate::Problem::run) returns. With the `epoch` of the queue that was read, fails with
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
