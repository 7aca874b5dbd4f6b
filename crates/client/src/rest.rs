//! One typed method per route. One call is one request: no request is retried here.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::TryStream;
use reqwest::{Body, Method, Url, header::CONTENT_TYPE};
use serde_json::{Map, json};

use super::{
    Appended, Client, ClientError, CreateThread, EventBody, EventPage, FeedPage, Messages, PatchThread, Readiness, Run,
    RunPage, StartedRun, Thread, ThreadPage, ThreadState,
};
use threadline_core::Seq;

/// Selection of threads for a list.
#[derive(Debug, Clone, Default)]
pub struct ThreadQuery {
    /// True includes archived threads.
    pub include_archived: bool,
    /// Id of an agent: only threads of this agent; `None` for all.
    pub agent_id: Option<String>,
    /// State of the threads; `None` for all.
    pub status: Option<ThreadStatus>,
    /// Id of a user: only threads of this user. For a principal that is a complete project; `None` for all.
    pub user_id: Option<String>,
    /// Text that a thread's name must contain, regardless of the case and the accents of its letters. A page of a
    /// search may then be short, or empty, and still have another one behind it.
    pub search: Option<String>,
    /// Order of the threads.
    pub order: ThreadOrder,
    /// Most threads in the page; `None` for the server's default.
    pub limit: Option<usize>,
    /// End of the previous page ([`ThreadPage::next_cursor`]); `None` for the first page.
    pub cursor: Option<String>,
}

/// State of a thread, by its newest run and its open interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadStatus {
    /// A run is active.
    Running,
    /// No run is active, and an interrupt is open.
    Waiting,
    /// Neither, and the last run ended with an error, or without an event.
    Failed,
    /// None of these: the last run finished or was stopped, or there was none.
    Idle,
}

impl ThreadStatus {
    /// Name of the state on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Idle => "idle",
        }
    }
}

/// Order of a list of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThreadOrder {
    /// Most recently used thread first.
    #[default]
    Recent,
    /// Most recently made thread first.
    Created,
}

/// Selection of events of a thread.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Only events behind this seq; above 0 only with `epoch`, and not together with `before`.
    pub after: Option<Seq>,
    /// Seq before which the last events are read; only with `epoch`.
    pub before: Option<Seq>,
    /// End of the previous page ([`EventPage::next_cursor`]), in place of `after` or `before` and `epoch`.
    pub cursor: Option<String>,
    /// Most events in the page; `None` for the server's default.
    pub limit: Option<usize>,
    /// Epoch that `after` or `before` belongs to: the server refuses it if the log was replaced.
    pub epoch: Option<String>,
    /// Id of a run: only events of this run.
    pub run_id: Option<String>,
    /// Longest wait of the server for an event if there is none (sent in whole seconds).
    pub wait: Option<Duration>,
}

/// Selection of changes of the thread list.
#[derive(Debug, Clone, Default)]
pub struct FeedQuery {
    /// Epoch of `after`: `feed_epoch` of a list, or `epoch` of a page. Required above 0.
    pub epoch: Option<String>,
    /// Only changes behind this feed position; 0 for all.
    pub after: u64,
    /// End of the previous page ([`FeedPage::next_cursor`]), in place of `after` and `epoch`.
    pub cursor: Option<String>,
    /// Most entries in the page; `None` for the server's default.
    pub limit: Option<usize>,
    /// Longest wait of the server for a change if there is none (sent in whole seconds).
    pub wait: Option<Duration>,
    /// Id of the user whose list is read, if the principal is a complete project.
    pub user_id: Option<String>,
}

/// Request to start a streamed run.
#[derive(Debug, Clone, Default)]
pub struct StreamRun {
    /// Id of the run; with one, a broken stream can be resumed.
    pub run_id: Option<String>,
    /// Id of the agent that the run belongs to.
    pub agent_id: Option<String>,
    /// Lease for which the run may be without events once its stream is broken, in whole seconds; 20 s if not given.
    pub lease: Option<Duration>,
    /// Number of the stream's first event; 1 if not given.
    pub producer_seq: Option<u64>,
}

impl Client {
    /// Reads whether the server accepts requests, and the state of its dependencies. Fails if it cannot be reached, is
    /// shutting down, or has no store.
    pub async fn ready(&self) -> Result<Readiness, ClientError> {
        self.json(self.request(Method::GET, self.at_root("readyz")?)).await
    }

    /// Checks that the server is alive, and no more. Fails if it cannot be reached.
    pub async fn health(&self) -> Result<(), ClientError> {
        let request = self.request(Method::GET, self.at_root("livez")?);
        self.send(request).await.map(drop)
    }

    /// Makes a thread. The same request again answers with the same thread.
    pub async fn create_thread(&self, thread: &CreateThread) -> Result<Thread, ClientError> {
        self.json(self.request(Method::POST, self.url(&["threads"])?).json(thread)).await
    }

    /// Reads a thread as it is now. Fails with `thread-not-found` if there is none.
    pub async fn thread(&self, thread: &str) -> Result<Thread, ClientError> {
        self.json(self.request(Method::GET, self.url(&["threads", thread])?)).await
    }

    /// Reads a page of the user's threads.
    pub async fn list_threads(&self, query: &ThreadQuery) -> Result<ThreadPage, ClientError> {
        let mut url = self.url(&["threads"])?;
        let order = match query.order {
            ThreadOrder::Recent => "recent",
            ThreadOrder::Created => "created",
        };
        put(&mut url, "order", Some(order));
        put(&mut url, "includeArchived", query.include_archived.then_some("true"));
        put(&mut url, "agentId", query.agent_id.as_deref());
        put(&mut url, "status", query.status.map(ThreadStatus::as_str));
        put(&mut url, "userId", query.user_id.as_deref());
        put(&mut url, "search", query.search.as_deref());
        put(&mut url, "limit", query.limit.map(|n| n.to_string()).as_deref());
        put(&mut url, "cursor", query.cursor.as_deref());
        self.json(self.request(Method::GET, url)).await
    }

    /// Changes some fields of a thread, and returns it as it is then. With the `epoch` of the thread that was read
    /// ([`Thread::epoch`]), fails with `log-replaced` if another thread has the id now.
    pub async fn patch_thread(
        &self,
        thread: &str,
        patch: &PatchThread,
        epoch: Option<&str>,
    ) -> Result<Thread, ClientError> {
        let mut url = self.url(&["threads", thread])?;
        put(&mut url, "epoch", epoch);
        self.json(self.request(Method::PATCH, url).json(patch)).await
    }

    /// Moves the read mark of a thread ([`Thread::read_seq`]) forward to `seq`, never back. May safely be repeated; a
    /// seq beyond the tail fails with `cursor-ahead`. With the `epoch` that the seq belongs to, fails with
    /// `log-replaced` if the log has another one.
    pub async fn mark_read(&self, thread: &str, seq: Seq, epoch: Option<&str>) -> Result<Thread, ClientError> {
        let mut url = self.url(&["threads", thread, "read"])?;
        put(&mut url, "epoch", epoch);
        self.json(self.request(Method::PUT, url).json(&json!({ "seq": seq }))).await
    }

    /// Deletes a thread with its log. A second time it fails with `thread-not-found`. With the `epoch` of the thread
    /// that was read, a thread that was created under this id since stays: the one that is meant is gone already.
    pub async fn delete_thread(&self, thread: &str, epoch: Option<&str>) -> Result<(), ClientError> {
        let mut url = self.url(&["threads", thread])?;
        put(&mut url, "epoch", epoch);
        match self.send(self.request(Method::DELETE, url)).await {
            Err(error) if error.problem("log-replaced").is_some() => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    /// Reads the messages of a thread as of the event `at`, or of the newest one.
    pub async fn messages(&self, thread: &str, at: Option<Seq>) -> Result<Messages, ClientError> {
        let mut url = self.url(&["threads", thread, "messages"])?;
        put(&mut url, "at", at.map(|seq| seq.to_string()).as_deref());
        self.json(self.request(Method::GET, url)).await
    }

    /// Reads the state of a thread as of the event `at`, or of the newest one.
    pub async fn state(&self, thread: &str, at: Option<Seq>) -> Result<ThreadState, ClientError> {
        let mut url = self.url(&["threads", thread, "state"])?;
        put(&mut url, "at", at.map(|seq| seq.to_string()).as_deref());
        self.json(self.request(Method::GET, url)).await
    }

    /// Reads a page of a thread's runs, newest first.
    pub async fn list_runs(
        &self,
        thread: &str,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<RunPage, ClientError> {
        let mut url = self.url(&["threads", thread, "runs"])?;
        put(&mut url, "limit", limit.map(|n| n.to_string()).as_deref());
        put(&mut url, "cursor", cursor);
        self.json(self.request(Method::GET, url)).await
    }

    /// Appends events to a run. `producer_seq` is the number of the first one, counted from 1 within the run; with it
    /// the request may safely be repeated. Without it the events go to the end, and a repetition after a lost answer
    /// appends them twice.
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

    /// Stores a complete, finished run: all of it or no part. May safely be repeated.
    pub async fn append_complete_run(
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

    /// Carries out a complete run in one streamed request: starts it, appends the events of the body (one a line),
    /// keeps its lease and finishes it when the body ends.
    ///
    /// If the body breaks, send the same `run_id` again, from the beginning or from any `producer_seq`. If a client
    /// requests the run to stop, the answer arrives before the body has ended, with the status `stopped`.
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

    /// Extends the lease of a run, by its own length or by another one (in whole seconds).
    pub async fn heartbeat(&self, thread: &str, run: &str, lease: Option<Duration>) -> Result<Run, ClientError> {
        let lease = lease.map(|lease| ("leaseSeconds".to_owned(), json!(lease.as_secs())));
        self.act(thread, run, "heartbeat", lease.into_iter().collect()).await
    }

    /// Ends a run successfully: its open parts are closed, and RUN_FINISHED is appended.
    pub async fn finish(&self, thread: &str, run: &str) -> Result<Run, ClientError> {
        self.act(thread, run, "finish", Map::new()).await
    }

    /// [`Client::finish`] for a producer that knows the run's events up to a number to be stored. Fails with
    /// `producer-seq-gap` if the server has lost some of them.
    pub(super) async fn finish_after(&self, thread: &str, run: &str, producer_seq: u64) -> Result<Run, ClientError> {
        let mut url = self.url(&["threads", thread, "runs", run, "finish"])?;
        put(&mut url, "producerSeq", Some(&producer_seq.to_string()));
        self.json(self.request(Method::POST, url)).await
    }

    /// Ends a run with an error: its open parts are closed, and RUN_ERROR is appended.
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

    /// Requests a run to stop. The run ends within seconds, even if its producer does not react.
    pub async fn stop(&self, thread: &str, run: &str) -> Result<Run, ClientError> {
        self.act(thread, run, "stop", Map::new()).await
    }

    /// Releases the thread for the next run while the last events of this one are still to come.
    pub async fn release(&self, thread: &str, run: &str) -> Result<Run, ClientError> {
        self.act(thread, run, "release", Map::new()).await
    }

    /// Reads a page of a thread's log.
    pub async fn events(&self, thread: &str, query: &EventQuery) -> Result<EventPage, ClientError> {
        let mut url = self.url(&["threads", thread, "events"])?;
        put(&mut url, "after", query.after.map(|n| n.to_string()).as_deref());
        put(&mut url, "before", query.before.map(|n| n.to_string()).as_deref());
        put(&mut url, "cursor", query.cursor.as_deref());
        put(&mut url, "limit", query.limit.map(|n| n.to_string()).as_deref());
        put(&mut url, "epoch", query.epoch.as_deref());
        put(&mut url, "runId", query.run_id.as_deref());
        self.poll(url, query.wait).await
    }

    /// Reads a page of changes in the user's list of threads.
    pub async fn feed(&self, query: &FeedQuery) -> Result<FeedPage, ClientError> {
        let mut url = self.url(&["feed"])?;
        put(&mut url, "after", query.cursor.is_none().then(|| query.after.to_string()).as_deref());
        put(&mut url, "cursor", query.cursor.as_deref());
        put(&mut url, "epoch", query.epoch.as_deref());
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
