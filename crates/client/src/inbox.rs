//! Inbox: the interrupts that wait for an answer, over all threads of a user.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use threadline_core::Seq;

use crate::{Client, ClientError, rest::put};

/// Filter and page of an inbox.
#[derive(Debug, Clone, Default)]
pub struct InboxQuery {
    /// Only threads of this agent.
    pub agent_id: Option<String>,
    /// User whose interrupts are listed, if the client acts for a whole project.
    pub user_id: Option<String>,
    /// Most threads in the page; `None` for the server's default.
    pub limit: Option<usize>,
    /// End of the previous page ([`InboxPage::next_cursor`]); `None` for the first page.
    pub cursor: Option<String>,
}

/// Interrupt that waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenInterrupt {
    /// Id of the thread that waits.
    pub thread_id: String,
    /// Name of the thread; `None` if it has none.
    pub thread_name: Option<String>,
    /// User who owns the thread.
    pub user_id: String,
    /// Agent to which a run with the answer goes; `None` if neither run nor thread have one.
    pub agent_id: Option<String>,
    /// Run that ended with the request.
    pub run_id: String,
    /// Author of that run.
    pub author: Option<String>,
    /// Seq of the RUN_FINISHED with the request.
    pub seq: Seq,
    /// Epoch of the log, to which `seq` belongs.
    pub epoch: String,
    /// Time of the request.
    pub opened_at: String,
    /// AG-UI's Interrupt; a large one is cut, and has `truncated`.
    pub interrupt: Value,
}

/// Page of an inbox.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InboxPage {
    /// Interrupts of the thread whose run ended last come first; those of one thread are oldest first.
    pub interrupts: Vec<OpenInterrupt>,
    /// Cursor of the next page; `None` on the last one.
    pub next_cursor: Option<String>,
    /// Position from which to read the feed, so that inbox and feed together miss no change.
    pub feed_cursor: u64,
    /// Epoch of the feed in which `feed_cursor` is a position.
    pub feed_epoch: String,
}

impl Client {
    /// Reads a page of the interrupts that wait for an answer, over all of the user's threads.
    pub async fn list_interrupts(&self, query: &InboxQuery) -> Result<InboxPage, ClientError> {
        let mut url = self.url(&["interrupts"])?;
        put(&mut url, "agentId", query.agent_id.as_deref());
        put(&mut url, "userId", query.user_id.as_deref());
        put(&mut url, "limit", query.limit.map(|n| n.to_string()).as_deref());
        put(&mut url, "cursor", query.cursor.as_deref());
        self.json(self.request(Method::GET, url)).await
    }
}
