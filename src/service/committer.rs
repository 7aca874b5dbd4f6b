//! Group commit: everything that arrives while one commit is under way shares the next one. No timer.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, atomic::Ordering},
};

use tokio::{sync::mpsc, time::Instant};

use super::{ServiceError, context::Context, directory::ThreadRef, resolve, submit::Reply};
use crate::{
    domain::{
        Epoch, Fence, LogSlice, NewEvents, RunId, RunStatus, Seq, Terminal, ThreadKey, Timestamp,
        limits::{COMMIT_MAX_BYTES, COMMIT_MAX_REQUESTS, COMMIT_QUEUE, MAX_BATCH_BYTES, MAX_BATCH_EVENTS},
    },
    store::{Append, Appended, Head},
};

/// The answer to an append. The same request sent again gets the same seqs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The incarnation of the log.
    pub epoch: Epoch,
    /// Seq of its first event.
    pub first_seq: Seq,
    /// Seq of its last event.
    pub last_seq: Seq,
    /// producer_seq of its last event.
    pub producer_seq: u64,
    /// Whether the run was asked to stop.
    pub stop_requested: bool,
    /// Until when the run may be silent; `None` if it has ended.
    pub lease_until: Option<Timestamp>,
}

impl Receipt {
    /// Of `count` events that were just committed, with the head after them.
    pub(super) fn committed(thread: &ThreadRef, head: &Head, first_seq: Seq, count: u64, producer_seq: u64) -> Self {
        let active = head.active.as_ref();
        Self {
            epoch: thread.epoch,
            first_seq,
            last_seq: first_seq + count - 1,
            producer_seq,
            stop_requested: active.is_some_and(|active| active.stop_requested_at.is_some()),
            lease_until: active.map(|active| active.lease_until),
        }
    }
}

/// One producer's append on its way.
#[derive(Debug)]
pub(super) struct Request {
    pub thread: Arc<ThreadRef>,
    pub run: RunId,
    pub fence: Fence,
    pub producer_seq: Option<u64>,
    pub events: NewEvents,
    pub reply: Reply,
}

/// Where appends are handed in. Each thread has its place in one of the pipelines, which commit side by side, so that
/// the order of its appends is kept.
#[derive(Debug, Clone)]
pub(super) struct Committer {
    pipelines: Vec<mpsc::Sender<Request>>,
}

impl Committer {
    /// The hand-in, and what each of the loops behind it takes in. A loop ends when all hand-ins are gone or the
    /// context is shut down, after what was handed in is committed.
    pub fn new(pipelines: usize) -> (Self, Vec<mpsc::Receiver<Request>>) {
        let (pipelines, receivers) = (0..pipelines.max(1)).map(|_| mpsc::channel(COMMIT_QUEUE)).unzip();
        (Self { pipelines }, receivers)
    }

    /// How many appends wait to be gathered.
    pub fn waiting(&self) -> usize {
        self.pipelines.iter().map(|pipeline| pipeline.max_capacity() - pipeline.capacity()).sum()
    }

    /// Hands in an append; waits while the queue is full. Appends of one run are committed in the order handed in.
    pub async fn submit(&self, request: Request) -> Result<(), ServiceError> {
        let place = request.thread.key.0.unsigned_abs() % self.pipelines.len() as u64;
        let pipeline = self.pipelines.get(place as usize).ok_or(ServiceError::Draining)?;
        pipeline.send(request).await.map_err(|_| ServiceError::Draining)
    }
}

/// Consecutive appends of one run that are stored as one row.
pub(super) struct Entry {
    pub(super) requests: Vec<Request>,
    count: usize,
    bytes: usize,
}

impl Entry {
    fn new(request: Request) -> Self {
        Self { count: request.events.count(), bytes: request.events.body().len(), requests: vec![request] }
    }

    /// Whether this append goes on exactly where the entry ends.
    fn takes(&self, request: &Request) -> bool {
        let Some(last) = self.requests.last() else { return false };
        let follows = match (last.producer_seq, request.producer_seq) {
            (Some(last_seq), Some(next)) => last_seq + last.events.count() as u64 == next,
            (None, None) => true,
            _ => false,
        };
        follows
            && last.fence == request.fence
            && last.events.terminal().is_none()
            && self.count + request.events.count() <= MAX_BATCH_EVENTS
            && self.bytes + request.events.body().len() < MAX_BATCH_BYTES
    }

    fn push(&mut self, request: Request) {
        self.count += request.events.count();
        self.bytes += request.events.body().len() + 1;
        self.requests.push(request);
    }

    fn append(&self) -> Option<Append> {
        let first = self.requests.first()?;
        let events = NewEvents::concat(self.requests.iter().map(|request| request.events.clone()).collect())?;
        Some(Append { key: first.thread.key, fence: first.fence, producer_seq: first.producer_seq, events })
    }
}

/// Threads with an append that is looked at aside, and what was handed in for them meanwhile: it waits, so that no
/// append overtakes the one that it follows. Bounded by what producers may have under way.
struct Aside {
    parked: HashMap<ThreadKey, VecDeque<Request>>,
    done: mpsc::UnboundedSender<ThreadKey>,
}

/// Says that a thread's appends are answered, even if answering them panicked.
struct Answered(ThreadKey, mpsc::UnboundedSender<ThreadKey>);

impl Drop for Answered {
    fn drop(&mut self) {
        // Nobody is left to be told at the end of the node.
        let _ = self.1.send(self.0);
    }
}

impl Aside {
    /// Works out what to answer; nobody but this thread's producers waits for it.
    fn resolve(&mut self, context: &Context, key: ThreadKey, requests: Vec<Request>) {
        self.parked.insert(key, VecDeque::new());
        let (answered, context) = (Answered(key, self.done.clone()), context.clone());
        context.clone().spawn(async move {
            resolve::resolve(context, requests).await;
            drop(answered);
        });
    }

    /// What waited goes in front: it was handed in before everything of its thread that is still carried.
    fn answered(&mut self, key: ThreadKey, carried: &mut VecDeque<Request>) {
        if let Some(mut waited) = self.parked.remove(&key) {
            waited.append(carried);
            *carried = waited;
        }
    }
}

/// The commit loop.
pub(super) async fn run(context: Context, mut requests: mpsc::Receiver<Request>) {
    let (done, mut answered) = mpsc::unbounded_channel();
    let mut aside = Aside { parked: HashMap::new(), done };
    let mut carried = VecDeque::new();
    let (mut stopping, mut closed) = (false, false);
    loop {
        while carried.is_empty() {
            if closed && aside.parked.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                Some(key) = answered.recv() => aside.answered(key, &mut carried),
                request = requests.recv(), if !closed => match request {
                    Some(request) => carried.push_back(request),
                    None => closed = true,
                },
                () = context.stopped(), if !stopping => {
                    // Nothing new is taken in; what was handed in is still committed.
                    requests.close();
                    stopping = true;
                }
            }
        }
        while let Ok(key) = answered.try_recv() {
            aside.answered(key, &mut carried);
        }
        let entries = gather(&mut carried, &mut requests, &mut aside.parked);
        if !entries.is_empty() {
            commit(&context, entries, &mut aside).await;
        }
    }
}

/// One entry per thread from what waits. What does not fit its thread's entry is carried over to the next commit,
/// and everything of that thread after it, so that order is kept.
fn gather(
    carried: &mut VecDeque<Request>,
    requests: &mut mpsc::Receiver<Request>,
    parked: &mut HashMap<ThreadKey, VecDeque<Request>>,
) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut places: HashMap<ThreadKey, usize> = HashMap::new();
    let mut held_back: HashSet<ThreadKey> = HashSet::new();
    let mut later = VecDeque::new();
    let (mut count, mut bytes) = (0, 0);
    while count < COMMIT_MAX_REQUESTS && bytes < COMMIT_MAX_BYTES {
        let Some(request) = carried.pop_front().or_else(|| requests.try_recv().ok()) else { break };
        count += 1;
        let key = request.thread.key;
        if let Some(waiting) = parked.get_mut(&key) {
            waiting.push_back(request);
            continue;
        }
        let size = request.events.body().len();
        match places.get(&key) {
            _ if held_back.contains(&key) => later.push_back(request),
            None => {
                places.insert(key, entries.len());
                entries.push(Entry::new(request));
                bytes += size;
            }
            Some(place) if entries[*place].takes(&request) => {
                entries[*place].push(request);
                bytes += size;
            }
            Some(_) => {
                held_back.insert(key);
                later.push_back(request);
            }
        }
    }
    later.append(carried);
    *carried = later;
    entries
}

async fn commit(context: &Context, entries: Vec<Entry>, aside: &mut Aside) {
    let batch: Vec<Append> = entries.iter().filter_map(Entry::append).collect();
    #[cfg(feature = "planted")]
    let entries = super::early::acknowledge(context, entries).await;
    context.commits.fetch_add(1, Ordering::Relaxed);
    let (commits, appends) = (&context.metrics.commits, &context.metrics.appends);
    let count = entries.iter().map(|entry| entry.requests.len()).sum();
    let begun = Instant::now();
    let answers = context.store.append(&batch).await;
    commits.size.size(count);
    commits.duration.time(begun.elapsed());
    let answers = match answers {
        Ok(answers) => answers,
        Err(error) => {
            commits.failed.inc();
            appends.failed.inc_by(count as u64);
            for request in entries.into_iter().flat_map(|entry| entry.requests) {
                request.reply.send(Err(error.clone().into()));
            }
            return;
        }
    };
    for ((entry, append), answer) in entries.into_iter().zip(batch).zip(answers) {
        match answer {
            Some(appended) => {
                appends.committed.inc_by(entry.requests.len() as u64);
                answer_entry(context, entry, &append, &appended);
            }
            // It did not match its head. Why, and what to answer, is worked out aside.
            None => aside.resolve(context, append.key, entry.requests),
        }
    }
}

fn answer_entry(context: &Context, entry: Entry, append: &Append, appended: &Appended) {
    let Some(first) = entry.requests.first() else { return };
    publish(context, &first.thread, append, appended);
    let mut first_seq = appended.first_seq;
    let mut producer_seq = appended.producer_seq - append.events.count() as u64;
    for request in entry.requests {
        let count = request.events.count() as u64;
        producer_seq += count;
        let receipt = Receipt::committed(&request.thread, &appended.head, first_seq, count, producer_seq);
        first_seq += count;
        request.reply.send(Ok(receipt));
    }
}

/// After the commit, never before: followers see the events, and lists learn of a run that ended.
pub(super) fn publish(context: &Context, thread: &ThreadRef, append: &Append, appended: &Appended) {
    let slice = LogSlice::of(&append.events, appended.first_seq, &appended.run, appended.at);
    let terminal = append.events.terminal();
    context.published(thread, &appended.head, &slice, terminal.is_some());
    match terminal {
        Some(Terminal::Finished { .. }) => context.run_ended(RunStatus::Finished),
        Some(Terminal::Error { .. }) => context.run_ended(RunStatus::Error),
        None => {}
    }
}
