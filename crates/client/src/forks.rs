//! Forks of threads, and the branches of conversations.

use reqwest::Method;
use serde::{Deserialize, Serialize, ser::SerializeMap};
use threadline_core::Seq;

use super::{Client, ClientError, Thread, rest::put};

/// Origin of the first events of a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkedFrom {
    /// Id of the thread that was forked. It may have been deleted since.
    pub thread_id: String,
    /// Epoch of its log at that time.
    pub epoch: String,
    /// Seq of the last event that both have.
    pub seq: Seq,
}

/// Request to fork a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkThread {
    /// Id of the fork; the server makes one if absent. With an id the request may safely be repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Seq of the last event that the fork has too; the newest one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Seq>,
    /// True for a copy that is no branch of the conversation.
    pub separate: bool,
}

/// Place at which a conversation is forked for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkPoint {
    /// After the event with this seq.
    At(Seq),
    /// Before the message with this id: the messages of the input replace it and everything after it.
    Before(String),
    /// Before the run that made the message with this id: the new run answers the same messages.
    Regenerate(String),
}

/// Fork in which a run begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFork {
    /// Place of the fork.
    pub point: ForkPoint,
    /// Id of the fork; if absent the server makes one, from the id of the run if that is given.
    pub thread_id: Option<String>,
    /// True to stop the active run of the thread, once the run of the fork has begun.
    pub stop: bool,
}

impl Serialize for RunFork {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.point {
            ForkPoint::At(seq) => map.serialize_entry("at", seq)?,
            ForkPoint::Before(message) => map.serialize_entry("before", message)?,
            ForkPoint::Regenerate(message) => map.serialize_entry("regenerate", message)?,
        }
        if let Some(thread) = &self.thread_id {
            map.serialize_entry("threadId", thread)?;
        }
        map.serialize_entry("stop", &self.stop)?;
        map.end()
    }
}

/// Branches of a conversation, as the server lists them.
#[derive(Deserialize)]
struct Branches {
    branches: Vec<Thread>,
}

impl Client {
    /// Forks a thread: the fork has its events up to a seq, with the same seqs, and an epoch of its own. Lists then show the fork,
    /// unless it is separate. With the `epoch` of the log that was read, fails with `log-replaced` if the log has another one.
    pub async fn fork(&self, thread: &str, fork: &ForkThread, epoch: Option<&str>) -> Result<Thread, ClientError> {
        let mut url = self.url(&["threads", thread, "forks"])?;
        put(&mut url, "epoch", epoch);
        self.json(self.request(Method::POST, url).json(fork)).await
    }

    /// Reads the branches of the conversation that a thread belongs to, itself included, oldest first.
    pub async fn branches(&self, thread: &str) -> Result<Vec<Thread>, ClientError> {
        let url = self.url(&["threads", thread, "branches"])?;
        Ok(self.json::<Branches>(self.request(Method::GET, url)).await?.branches)
    }

    /// Has lists and feeds show the branch `chosen` of the conversation that a thread belongs to. Fails with `branch-not-found` if
    /// that is no branch of it.
    pub async fn list_branch(&self, thread: &str, chosen: &str) -> Result<Thread, ClientError> {
        let url = self.url(&["threads", thread, "branches", "listed"])?;
        self.json(self.request(Method::PUT, url).json(&serde_json::json!({ "threadId": chosen }))).await
    }

    /// Deletes all branches of the conversation that a thread belongs to. A second time it fails with `thread-not-found`.
    pub async fn delete_branches(&self, thread: &str) -> Result<(), ClientError> {
        let mut url = self.url(&["threads", thread])?;
        put(&mut url, "branches", Some("true"));
        self.send(self.request(Method::DELETE, url)).await.map(drop)
    }
}
