//! A store with a clock that the test moves, and short words for what the tests do.

use std::{path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;
use threadline_core::{
    AgentId, Author, Clock, CreatedThread, Fence, ListOrder, NewEvents, NewThread, NodeId, ProjectId, ReadFrom, Run,
    RunId, RunStatus, Seq, Thread, ThreadId, ThreadKey, Timestamp, UserId,
};
use threadline_store::{
    Append, Appended, CloseOutcome, CloseWhen, Closing, Committed, Head, JobEnd, JobKind, ListThreads, NewTurn,
    Purging, StartOutcome, StartRun, TransferStore, memory::MemoryStore, postgres::PgStore, sqlite::SqliteStore,
};

use crate::backing::{migrated_directory, postgres::Postgres};

pub const LEASE: Duration = Duration::from_secs(20);

/// A back-end under test.
pub struct Env {
    pub store: Arc<dyn TransferStore>,
    pub clock: Clock,
    /// Goes with the store.
    #[allow(dead_code)]
    pub dir: Option<TempDir>,
}

pub fn clock() -> Clock {
    Clock::manual(Timestamp(1_795_000_000_000))
}

pub fn project() -> ProjectId {
    ProjectId::new("p").expect("id")
}

pub fn user(name: &str) -> UserId {
    UserId::new(name).expect("id")
}

pub fn thread_id(name: &str) -> ThreadId {
    ThreadId::new(name).expect("id")
}

pub fn run_id(name: &str) -> RunId {
    RunId::new(name).expect("id")
}

pub fn agent(name: &str) -> AgentId {
    AgentId::new(name).expect("id")
}

pub fn new_thread(id: &str, owner: &str) -> NewThread {
    NewThread {
        project: project(),
        id: thread_id(id),
        user: user(owner),
        agent: None,
        name: None,
        metadata: "{}".into(),
        created_with: "digest".into(),
        request: None,
        claimed: true,
    }
}

/// Events that carry their own numbers.
pub fn events(numbers: impl IntoIterator<Item = u64>) -> NewEvents {
    let lines: Vec<String> = numbers.into_iter().map(|n| format!("{{\"type\":\"X\",\"n\":{n}}}")).collect();
    ndjson(&lines.join("\n"))
}

pub fn ndjson(text: &str) -> NewEvents {
    NewEvents::from_ndjson(text.as_bytes()).expect("events")
}

pub fn finished() -> NewEvents {
    ndjson("{\"type\":\"RUN_FINISHED\"}")
}

pub fn append(key: ThreadKey, fence: Fence, producer_seq: impl Into<Option<u64>>, events: NewEvents) -> Append {
    Append { key, fence: fence.into(), epoch: None, producer_seq: producer_seq.into(), events }
}

pub fn start_run(key: ThreadKey, run: &str) -> StartRun {
    StartRun {
        key,
        run: run_id(run),
        agent: None,
        turn: None,
        attempt_id: None,
        author: Some(Author::stored("agent:a")),
        asked_by: Some(Author::stored("user:u")),
        lease: LEASE,
        closing: None,
        events: None,
        at: None,
        epoch: None,
        past_queue: false,
    }
}

/// Turn of a run that node 1 drives.
pub fn turn() -> NewTurn {
    NewTurn { driver: NodeId(1), input: Some("input".to_owned()) }
}

pub fn closing(head: &Head, events: Option<NewEvents>) -> Closing {
    Closing {
        fence: head.write_fence(),
        tail: head.tail,
        epoch: None,
        status: if events.is_some() { RunStatus::Error } else { RunStatus::Abandoned },
        error_code: events.as_ref().map(|_| "producer-failed".into()),
        error_message: events.as_ref().map(|_| "it went away".into()),
        events,
    }
}

pub fn run_error() -> NewEvents {
    ndjson("{\"type\":\"RUN_ERROR\",\"message\":\"it went away\",\"code\":\"producer-failed\"}")
}

impl Env {
    pub fn memory() -> Self {
        let clock = clock();
        Self { store: Arc::new(MemoryStore::new(clock.clone())), clock, dir: None }
    }

    pub async fn sqlite() -> Self {
        let migrate = async |dir: &Path| SqliteStore::open(dir, Clock::system()).await.expect("opens").close().await;
        let (clock, dir) = (clock(), migrated_directory(migrate).await);
        let store = SqliteStore::open(dir.path(), clock.clone()).await.expect("opens");
        Self { store: Arc::new(store), clock, dir: Some(dir) }
    }

    /// A database of its own, on the server that all tests of this process share.
    pub async fn postgres() -> Self {
        let migrate = async |url: &str| {
            PgStore::migrate(url).await.expect("migrates");
        };
        let (clock, url) = (clock(), Postgres::shared().migrated_database(migrate).await);
        let store = PgStore::open(&url, clock.clone()).await.expect("opens");
        Self { store: Arc::new(store), clock, dir: None }
    }

    pub async fn create(&self, id: &str) -> Thread {
        self.create_for("u", id).await
    }

    pub async fn create_for(&self, owner: &str, id: &str) -> Thread {
        let CreatedThread { thread, created: made } =
            self.store.create_thread(new_thread(id, owner)).await.expect("creates");
        assert!(made, "{id} was there");
        thread
    }

    pub async fn get(&self, id: &str) -> Option<Thread> {
        self.get_of(&project(), id).await
    }

    /// [`Env::get`] in another project.
    pub async fn get_of(&self, project: &ProjectId, id: &str) -> Option<Thread> {
        self.store.thread_named(project, &thread_id(id)).await.expect("looks").thread()
    }

    /// A new thread with an active run.
    pub async fn running(&self, id: &str, run: &str) -> (ThreadKey, Fence) {
        let thread = self.create(id).await;
        (thread.key, self.start(thread.key, run).await.fence)
    }

    pub async fn start(&self, key: ThreadKey, run: &str) -> Run {
        self.started(start_run(key, run)).await.run
    }

    pub async fn started(&self, start: StartRun) -> Committed {
        match self.store.start(start).await.expect("starts") {
            StartOutcome::Started(committed) => committed,
            other => panic!("not started: {other:?}"),
        }
    }

    pub async fn append(&self, append: Append) -> Option<Appended> {
        self.store.append(&[append]).await.expect("appends").pop().expect("one answer")
    }

    pub async fn put(&self, key: ThreadKey, fence: Fence, numbers: impl IntoIterator<Item = u64>) -> Appended {
        self.append(append(key, fence, None, events(numbers))).await.expect("appended")
    }

    pub async fn close(&self, key: ThreadKey, closing: Closing) -> Committed {
        match self.store.close(key, closing, CloseWhen::Always).await.expect("closes") {
            CloseOutcome::Closed(committed) => *committed,
            other => panic!("not closed: {other:?}"),
        }
    }

    /// A step of the oldest purge that is due, as a node carries it out; false if none is.
    pub async fn purge(&self, rows: usize) -> bool {
        let jobs = self.store.take_jobs(JobKind::Purge, 1).await.expect("takes");
        let Some(job) = jobs.first() else { return false };
        let end = match self.store.purge(job.subject.thread().expect("a thread"), rows).await.expect("purges") {
            Purging::More => JobEnd::Later(Duration::ZERO),
            Purging::Done => JobEnd::Done,
            Purging::Staged(left) => JobEnd::Later(left),
            Purging::Trashed(left) => {
                let discarded =
                    self.store.discard(job.subject.thread().expect("a thread"), false).await.expect("discards");
                assert_eq!(discarded, left.is_zero(), "not before its time");
                JobEnd::Later(left)
            }
        };
        self.store.end_job(job, end).await.expect("ends");
        true
    }

    pub async fn head(&self, key: ThreadKey) -> Head {
        self.store.heads(&[key]).await.expect("heads").pop().expect("a head")
    }

    /// The whole log, page by page: (seq, run, time, event).
    pub async fn log(&self, key: ThreadKey) -> Vec<(Seq, String, i64, String)> {
        let (mut log, mut after) = (Vec::new(), 0);
        loop {
            let page = self.store.read(key, ReadFrom::After(after), 100_000).await.expect("reads").expect("is there");
            let Some(last) = page.slice.last_seq() else {
                assert_eq!(page.head.tail, after, "the pages end at the tail");
                return log;
            };
            for (seq, event, batch) in page.slice.events() {
                after += 1;
                assert_eq!(seq, after, "dense");
                let event = String::from_utf8(event.to_vec()).expect("text");
                log.push((seq, batch.run.to_string(), batch.at.0, event));
            }
            assert_eq!(last, after);
        }
    }

    pub async fn texts(&self, key: ThreadKey) -> Vec<String> {
        self.log(key).await.into_iter().map(|event| event.3).collect()
    }

    /// Ids on a page, and the whole page.
    pub async fn list(&self, order: ListOrder, limit: usize) -> Vec<String> {
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let list = ListThreads { order, after, ..list(limit) };
            let page = self.store.list_threads(list).await.expect("lists");
            assert!(page.threads.len() <= limit);
            ids.extend(page.threads.iter().map(|thread| thread.id.to_string()));
            after = page.next;
            if after.is_none() {
                return ids;
            }
            assert_eq!(page.threads.len(), limit, "only the last page is short");
        }
    }
}

pub fn list(limit: usize) -> ListThreads {
    ListThreads {
        project: project(),
        user: user("u"),
        include_archived: false,
        agent: None,
        status: None,
        order: ListOrder::Recent,
        after: None,
        limit,
    }
}
