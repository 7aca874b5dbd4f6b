//! One typed method per route. One call is one request: nothing is tried twice here.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::TryStream;
use reqwest::{Body, Method, Url, header::CONTENT_TYPE};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    Appended, Client, ClientError, CreateThread, EventBody, EventPage, FeedPage, Messages, PatchThread, Readiness, Run,
    RunPage, StartedRun, Thread, ThreadPage, ThreadState,
};
use threadline_core::Seq;

/// Which threads to list.
#[derive(Debug, Clone, Default)]
pub struct ThreadQuery {
    /// Archived ones, too.
    pub include_archived: bool,
    /// Only those of an agent.
    pub agent_id: Option<String>,
    /// Only those of a user, where the principal is a whole project.
    pub user_id: Option<String>,
    /// Only those whose name has this text in it, whatever the case and the accents of its letters. Then a page may be short, or
    /// empty, and have another one behind it.
    pub search: Option<String>,
    /// In which order.
    pub order: ThreadOrder,
    /// Most threads in the page.
    pub limit: Option<usize>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// The order of a list of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThreadOrder {
    /// The one used last comes first.
    #[default]
    Recent,
    /// The newest comes first.
    Created,
}

/// Which events to read.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Those behind this cursor …
    pub after: Option<Seq>,
    /// … or the last ones before this seq.
    pub before: Option<Seq>,
    /// Most events in the page.
    pub limit: Option<usize>,
    /// The epoch that the cursor belongs to.
    pub epoch: Option<String>,
    /// Only this run.
    pub run_id: Option<String>,
    /// How long the server may wait for an event if there is none (in whole seconds).
    pub wait: Option<Duration>,
}

/// Which changes of the thread list to read.
#[derive(Debug, Clone, Default)]
pub struct FeedQuery {
    /// Those behind this cursor.
    pub after: u64,
    /// Most entries in the page.
    pub limit: Option<usize>,
    /// How long the server may wait for a change if there is none (in whole seconds).
    pub wait: Option<Duration>,
    /// Whose list, where the principal is a whole project.
    pub user_id: Option<String>,
}

/// How to begin a run.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartRun {
    /// Its id; the server makes one if there is none. With an id the request may safely be repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The agent it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// How long it may be silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u64>,
    /// AG-UI's RunAgentInput, or a part of it: then the server has the agent do the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

/// How to begin a streamed run.
#[derive(Debug, Clone, Default)]
pub struct StreamRun {
    /// Its id; with one, a broken stream can be taken up again.
    pub run_id: Option<String>,
    /// The agent it belongs to.
    pub agent_id: Option<String>,
    /// How long it may be silent once its stream is broken, in whole seconds; 20 s if not given.
    pub lease: Option<Duration>,
    /// Number of the stream's first event; 1 if none is given.
    pub producer_seq: Option<u64>,
}

impl Client {
    /// Whether requests are to be sent to this server, and what it stands on: an error if it cannot be reached, is
    /// shutting down, or has no store.
    pub async fn ready(&self) -> Result<Readiness, ClientError> {
        self.json(self.request(Method::GET, self.at_root("readyz")?)).await
    }

    /// Whether the server is alive, and no more: an error if it cannot be reached.
    pub async fn health(&self) -> Result<(), ClientError> {
        let request = self.request(Method::GET, self.at_root("healthz")?);
        self.send(request).await.map(drop)
    }

    /// Makes a thread. The same request again answers with the same thread.
    pub async fn create_thread(&self, thread: &CreateThread) -> Result<Thread, ClientError> {
        self.json(self.request(Method::POST, self.url(&["threads"])?).json(thread)).await
    }

    /// A thread as it is now.
    pub async fn thread(&self, thread: &str) -> Result<Thread, ClientError> {
        self.json(self.request(Method::GET, self.url(&["threads", thread])?)).await
    }

    /// A page of the user's threads.
    pub async fn list_threads(&self, query: &ThreadQuery) -> Result<ThreadPage, ClientError> {
        let mut url = self.url(&["threads"])?;
        let order = match query.order {
            ThreadOrder::Recent => "recent",
            ThreadOrder::Created => "created",
        };
        put(&mut url, "order", Some(order));
        put(&mut url, "includeArchived", query.include_archived.then_some("true"));
        put(&mut url, "agentId", query.agent_id.as_deref());
        put(&mut url, "userId", query.user_id.as_deref());
        put(&mut url, "search", query.search.as_deref());
        put(&mut url, "limit", query.limit.map(|n| n.to_string()).as_deref());
        put(&mut url, "cursor", query.cursor.as_deref());
        self.json(self.request(Method::GET, url)).await
    }

    /// Changes a thread.
    pub async fn patch_thread(&self, thread: &str, patch: &PatchThread) -> Result<Thread, ClientError> {
        self.json(self.request(Method::PATCH, self.url(&["threads", thread])?).json(patch)).await
    }

    /// Moves the mark of up to where a thread was read ([`Thread::read_seq`]) forward to `seq`, never back. May safely be
    /// repeated; beyond the tail it is `cursor-ahead`.
    pub async fn mark_read(&self, thread: &str, seq: Seq) -> Result<Thread, ClientError> {
        let request = self.request(Method::PUT, self.url(&["threads", thread, "read"])?);
        self.json(request.json(&json!({ "seq": seq }))).await
    }

    /// Deletes a thread with its log. A second time it is `thread-not-found`.
    pub async fn delete_thread(&self, thread: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, self.url(&["threads", thread])?)).await.map(drop)
    }

    /// Begins a run; see [`Client::run`] for more than this one request.
    pub async fn start_run(&self, thread: &str, run: &StartRun) -> Result<StartedRun, ClientError> {
        self.json(self.request(Method::POST, self.url(&["threads", thread, "runs"])?).json(run)).await
    }

    /// The messages of a thread, after the event `at` or the newest one.
    pub async fn messages(&self, thread: &str, at: Option<Seq>) -> Result<Messages, ClientError> {
        let mut url = self.url(&["threads", thread, "messages"])?;
        put(&mut url, "at", at.map(|seq| seq.to_string()).as_deref());
        self.json(self.request(Method::GET, url)).await
    }

    /// The state of a thread, after the event `at` or the newest one.
    pub async fn state(&self, thread: &str, at: Option<Seq>) -> Result<ThreadState, ClientError> {
        let mut url = self.url(&["threads", thread, "state"])?;
        put(&mut url, "at", at.map(|seq| seq.to_string()).as_deref());
        self.json(self.request(Method::GET, url)).await
    }

    /// A run as it is now.
    pub async fn run_record(&self, thread: &str, run: &str) -> Result<Run, ClientError> {
        self.json(self.request(Method::GET, self.url(&["threads", thread, "runs", run])?)).await
    }

    /// A page of a thread's runs, newest first.
    pub async fn list_runs(
        &self,
        thread: &str,
        limit: Option<usize>,
        cursor: Option<i64>,
    ) -> Result<RunPage, ClientError> {
        let mut url = self.url(&["threads", thread, "runs"])?;
        put(&mut url, "limit", limit.map(|n| n.to_string()).as_deref());
        put(&mut url, "cursor", cursor.map(|n| n.to_string()).as_deref());
        self.json(self.request(Method::GET, url)).await
    }

    /// Appends events to a run. `producer_seq` is the number of the first one, counted from 1 within the run;
    /// with it the request may safely be repeated. Without it the events go to the end, and a repetition
    /// after a lost answer appends them twice.
    pub async fn append(
        &self,
        thread: &str,
        run: &str,
        producer_seq: Option<u64>,
        events: EventBody,
    ) -> Result<Appended, ClientError> {
        let mut url = self.url(&["threads", thread, "runs", run, "events"])?;
        put(&mut url, "producerSeq", producer_seq.map(|n| n.to_string()).as_deref());
        self.json(with_events(self.request(Method::POST, url), events)).await
    }

    /// Stores a finished run, whole: all of it or nothing. May safely be repeated.
    pub async fn append_whole(
        &self,
        thread: &str,
        run: &str,
        agent: Option<&str>,
        events: EventBody,
    ) -> Result<StartedRun, ClientError> {
        let mut url = self.url(&["threads", thread, "runs", run])?;
        put(&mut url, "agentId", agent);
        self.json(with_events(self.request(Method::PUT, url), events)).await
    }

    /// A whole run in one streamed request: begins it, appends what the body brings (events one a line),
    /// keeps its lease and finishes it when the body ends.
    ///
    /// If the body breaks, send the same `run_id` again, from the beginning or from any `producer_seq`.
    /// If somebody asks the run to stop, the answer comes before the body has ended, with the status `stopped`.
    pub async fn stream_run<S>(&self, thread: &str, run: &StreamRun, lines: S) -> Result<StartedRun, ClientError>
    where
        S: TryStream<Ok = Bytes> + Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut url = self.url(&["threads", thread, "runs"])?;
        put(&mut url, "runId", run.run_id.as_deref());
        put(&mut url, "agentId", run.agent_id.as_deref());
        put(&mut url, "leaseSeconds", run.lease.map(|lease| lease.as_secs().to_string()).as_deref());
        put(&mut url, "producerSeq", run.producer_seq.map(|n| n.to_string()).as_deref());
        let request = self.open_request(Method::POST, url).header(CONTENT_TYPE, "application/x-ndjson");
        self.json(request.body(Body::wrap_stream(lines))).await
    }

    /// Extends the lease of a run, by its own length or by another one.
    pub async fn heartbeat(&self, thread: &str, run: &str, lease: Option<Duration>) -> Result<Run, ClientError> {
        let lease = lease.map(|lease| ("leaseSeconds".to_owned(), json!(lease.as_secs())));
        self.act(thread, run, "heartbeat", lease.into_iter().collect()).await
    }

    /// Ends a run well: what is open is closed, and RUN_FINISHED appended.
    pub async fn finish(&self, thread: &str, run: &str) -> Result<Run, ClientError> {
        self.act(thread, run, "finish", Map::new()).await
    }

    /// Ends a run badly: what is open is closed, and RUN_ERROR appended.
    pub async fn fail(
        &self,
        thread: &str,
        run: &str,
        code: Option<&str>,
        message: Option<&str>,
    ) -> Result<Run, ClientError> {
        let facts = [("code", code), ("message", message)];
        let facts = facts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?))));
        self.act(thread, run, "fail", facts.collect()).await
    }

    /// Asks a run to stop. It ends within seconds, whatever its producer does.
    pub async fn stop(&self, thread: &str, run: &str) -> Result<Run, ClientError> {
        self.act(thread, run, "stop", Map::new()).await
    }

    /// Gives the thread free while the last events of the run are still to come.
    pub async fn release(&self, thread: &str, run: &str) -> Result<Run, ClientError> {
        self.act(thread, run, "release", Map::new()).await
    }

    /// A page of a thread's log.
    pub async fn events(&self, thread: &str, query: &EventQuery) -> Result<EventPage, ClientError> {
        let mut url = self.url(&["threads", thread, "events"])?;
        put(&mut url, "after", query.after.map(|n| n.to_string()).as_deref());
        put(&mut url, "before", query.before.map(|n| n.to_string()).as_deref());
        put(&mut url, "limit", query.limit.map(|n| n.to_string()).as_deref());
        put(&mut url, "epoch", query.epoch.as_deref());
        put(&mut url, "runId", query.run_id.as_deref());
        self.poll(url, query.wait).await
    }

    /// A page of changes in the user's list of threads.
    pub async fn feed(&self, query: &FeedQuery) -> Result<FeedPage, ClientError> {
        let mut url = self.url(&["feed"])?;
        put(&mut url, "after", Some(&query.after.to_string()));
        put(&mut url, "limit", query.limit.map(|n| n.to_string()).as_deref());
        put(&mut url, "userId", query.user_id.as_deref());
        self.poll(url, query.wait).await
    }

    async fn act(
        &self,
        thread: &str,
        run: &str,
        verb: &str,
        facts: Map<String, serde_json::Value>,
    ) -> Result<Run, ClientError> {
        self.json(self.request(Method::POST, self.url(&["threads", thread, "runs", run, verb])?).json(&facts)).await
    }

    async fn poll<T: serde::de::DeserializeOwned>(
        &self,
        mut url: Url,
        wait: Option<Duration>,
    ) -> Result<T, ClientError> {
        put(&mut url, "wait", wait.map(|wait| wait.as_secs().to_string()).as_deref());
        let limit = self.config().request_timeout + wait.unwrap_or_default();
        self.json(self.request(Method::GET, url).timeout(limit)).await
    }
}

fn with_events(request: reqwest::RequestBuilder, events: EventBody) -> reqwest::RequestBuilder {
    request.header(CONTENT_TYPE, events.content_type()).body(events.into_bytes())
}

pub(super) fn put(url: &mut Url, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        url.query_pairs_mut().append_pair(name, value);
    }
}
