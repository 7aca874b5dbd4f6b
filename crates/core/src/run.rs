//! Runs: executions of an agent inside a thread.

use serde::{Deserialize, Serialize};

use super::{AgentId, Author, Fence, RunId, Timestamp, limits::STOP_GRACE};
use crate::seq::Seq;

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// The producer may append.
    Running,
    /// The lock was released before the terminal event: the producer may append until that event or the next start.
    Finishing,
    /// The run ended with RUN_FINISHED.
    Finished,
    /// The run ended with RUN_ERROR.
    Error,
    /// The run ended with RUN_FINISHED after a stop was requested.
    Stopped,
    /// The run ended without a single event; the log shows nothing of it.
    Abandoned,
}

impl RunStatus {
    /// All states, in the order of their stored numbers from 0.
    pub const ALL: [Self; 6] =
        [Self::Running, Self::Finishing, Self::Finished, Self::Error, Self::Stopped, Self::Abandoned];

    /// True if the run is the thread's active run.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Finishing)
    }

    /// True if the run ended without an answer: with RUN_ERROR, or without an event.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Error | Self::Abandoned)
    }

    /// Number that the store keeps for this state.
    pub fn to_i64(self) -> i64 {
        self as i64
    }

    /// State with this stored number; `None` if there is none.
    pub fn from_i64(number: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// Record of a run. Kept as long as its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Id of the run, unique in its thread for ever.
    pub id: RunId,
    /// Number that grows with every run of the thread.
    pub fence: Fence,
    /// Agent that the run belongs to, if one was named.
    pub agent: Option<AgentId>,
    /// True for a run that the server drives: only the driver appends to it and ends it. Never changes.
    pub driven: bool,
    /// Author of the run; `None` for a run that began before authors were stored.
    pub author: Option<Author>,
    /// Caller that asked for the run, in the same form.
    pub asked_by: Option<Author>,
    /// Number of the run's present attempt, from 1: a run gets a new one with each driver, or with each process that takes
    /// the run of a producer up.
    pub attempt: u64,
    /// State of the run.
    pub status: RunStatus,
    /// `code` of the run's RUN_ERROR, if it has one.
    pub error_code: Option<String>,
    /// `message` of the run's RUN_ERROR, if it has one.
    pub error_message: Option<String>,
    /// `usage` of the run's terminal event, a JSON array: what the run has used, by provider and model.
    pub usage: Option<String>,
    /// Seq of the event with producer_seq 1: `seq = first_seq + producer_seq - 1`.
    pub first_seq: Seq,
    /// Newest stored producer_seq, 0 if none.
    pub producer_seq: u64,
    /// Time at which the run began.
    pub started_at: Timestamp,
    /// Time at which the run ended; `None` while it is active.
    pub ended_at: Option<Timestamp>,
    /// End of the lease while the run is active: until then the producer may send nothing.
    pub lease_until: Option<Timestamp>,
    /// Time of the first stop request; `None` if there was none.
    pub stop_requested_at: Option<Timestamp>,
}

impl Run {
    /// True if a process has taken the run up from the producer that began it.
    pub fn is_taken_up(&self) -> bool {
        !self.driven && self.attempt != self.fence.first_attempt()
    }

    /// Seq of the run's newest event; `first_seq - 1` if it has none.
    pub fn last_seq(&self) -> Seq {
        self.first_seq + self.producer_seq - 1
    }

    /// Run as it was after the event `at`; `None` if it had no event by then.
    pub fn as_of(&self, at: Seq) -> Option<Self> {
        if self.first_seq > at {
            return None;
        }
        if self.last_seq() <= at {
            return Some(self.clone());
        }
        Some(Self {
            status: RunStatus::Running,
            error_code: None,
            error_message: None,
            usage: None,
            producer_seq: at - self.first_seq + 1,
            ended_at: None,
            lease_until: None,
            stop_requested_at: None,
            ..self.clone()
        })
    }

    /// True once the producer has used up its time to end the run after a stop request ([`STOP_GRACE`]): from then on
    /// it can append nothing.
    pub fn stop_overdue(&self, now: Timestamp) -> bool {
        self.stop_requested_at.is_some_and(|asked| asked.plus(STOP_GRACE) <= now)
    }
}

/// State of a thread's newest run, active or not, as the thread's row has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRun {
    /// Id of the run.
    pub id: RunId,
    /// State of the run.
    pub status: RunStatus,
    /// `code` of the run's RUN_ERROR, if it has one.
    pub error_code: Option<String>,
    /// Time at which the run ended; `None` while it is active.
    pub ended_at: Option<Timestamp>,
}

impl From<&Run> for LastRun {
    fn from(run: &Run) -> Self {
        let Run { id, status, error_code, ended_at, .. } = run;
        Self { id: id.clone(), status: *status, error_code: error_code.clone(), ended_at: *ended_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_the_past_knows_nothing_of_its_end() {
        let run = Run {
            id: RunId::new("r").expect("id"),
            fence: Fence(1),
            agent: None,
            driven: false,
            author: None,
            asked_by: None,
            attempt: 1,
            status: RunStatus::Error,
            error_code: Some("c".into()),
            error_message: Some("m".into()),
            usage: Some("[]".into()),
            first_seq: 4,
            producer_seq: 3,
            started_at: Timestamp(1),
            ended_at: Some(Timestamp(2)),
            lease_until: None,
            stop_requested_at: None,
        };
        assert_eq!(run.as_of(3), None);
        let then = run.as_of(5).expect("it had begun");
        assert_eq!((then.status, then.producer_seq, then.last_seq()), (RunStatus::Running, 2, 5));
        assert_eq!((then.error_code, then.usage, then.ended_at), (None, None, None));
        assert_eq!(run.as_of(6), Some(run.clone()));
    }
}
