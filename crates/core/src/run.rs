//! Runs: one agent execution inside a thread.

use serde::{Deserialize, Serialize};

use super::{AgentId, Fence, RunId, Seq, Timestamp, limits::STOP_GRACE};

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Its producer may append.
    Running,
    /// Its lock was released before its terminal event: it may still append until that event or the next start.
    Finishing,
    /// Ended by RUN_FINISHED.
    Finished,
    /// Ended by RUN_ERROR.
    Error,
    /// Ended by RUN_FINISHED after a stop was asked.
    Stopped,
    /// Ended without a single event; the log shows nothing of it.
    Abandoned,
}

impl RunStatus {
    /// All of them, in the order of their stored numbers.
    pub const ALL: [Self; 6] =
        [Self::Running, Self::Finishing, Self::Finished, Self::Error, Self::Stopped, Self::Abandoned];

    /// Whether the run is the thread's active run.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Finishing)
    }

    /// The stored number.
    pub fn to_i64(self) -> i64 {
        self as i64
    }

    /// From the stored number.
    pub fn from_i64(number: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// The record of a run. Kept as long as its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Unique in its thread for ever.
    pub id: RunId,
    /// Grows with every run of the thread.
    pub fence: Fence,
    /// The agent it belongs to, if named.
    pub agent: Option<AgentId>,
    /// True for a run that the server drives: only the driver appends to it and ends it. Never changes.
    pub driven: bool,
    /// Where it stands.
    pub status: RunStatus,
    /// `code` of its RUN_ERROR.
    pub error_code: Option<String>,
    /// `message` of its RUN_ERROR.
    pub error_message: Option<String>,
    /// `usage` of its terminal event, a JSON array: what it has used, by provider and model.
    pub usage: Option<String>,
    /// The seq of the event with producer_seq 1: `seq = first_seq + producer_seq - 1`.
    pub first_seq: Seq,
    /// The newest stored producer_seq, 0 if none.
    pub producer_seq: u64,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Until when it may be silent, while it is active.
    pub lease_until: Option<Timestamp>,
    /// When a stop was asked first.
    pub stop_requested_at: Option<Timestamp>,
}

impl Run {
    /// Seq of its newest event; `first_seq - 1` if it has none.
    pub fn last_seq(&self) -> Seq {
        self.first_seq + self.producer_seq - 1
    }

    /// The run as it was after the event `at`; `None` if it had none by then.
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

    /// Whether its producer had its time to end it after a stop was asked: from then on it can append nothing.
    pub fn stop_overdue(&self, now: Timestamp) -> bool {
        self.stop_requested_at.is_some_and(|asked| asked.plus(STOP_GRACE) <= now)
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
