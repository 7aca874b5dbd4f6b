//! Group commit: all appends that arrive while one commit runs share the next commit. No timer.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, atomic::Ordering},
};

use threadline_core::{
    NewEvents, ThreadKey,
    limits::{COMMIT_MAX_BYTES, COMMIT_MAX_REQUESTS, COMMIT_QUEUE, MAX_BATCH_BYTES, MAX_BATCH_EVENTS},
};
use threadline_store::{Append, Appended};
use tokio::{sync::mpsc, time::Instant};

use crate::{
    DrainingError,
    commit::{
        pipeline::Pipeline,
        receipt::AppendReceipt,
        requests::{Request, unconfirmed},
        resolve,
    },
};

/// Queues of appends. Each thread belongs to one of the pipelines, which commit concurrently, so that the order of a
/// thread's appends is kept.
#[derive(Debug, Clone)]
pub(crate) struct Committer {
    pipelines: Vec<mpsc::Sender<Request>>,
}

impl Committer {
    /// Makes the queues and the receivers of their loops. A loop ends when all senders are dropped or the node is
    /// stopping, after the queued appends are committed.
    pub fn new(pipelines: usize) -> (Self, Vec<mpsc::Receiver<Request>>) {
        let (pipelines, receivers) = (0..pipelines.max(1)).map(|_| mpsc::channel(COMMIT_QUEUE)).unzip();
        (Self { pipelines }, receivers)
    }

    /// Number of appends that wait in the queues.
    pub fn waiting(&self) -> usize {
        self.pipelines.iter().map(|pipeline| pipeline.max_capacity() - pipeline.capacity()).sum()
    }

    /// Queues an append; waits while the queue is full. Appends of one run are committed in the order of the calls.
    pub async fn submit(&self, request: Request) -> Result<(), DrainingError> {
        let place = request.thread.key.0.unsigned_abs() % self.pipelines.len() as u64;
        let pipeline = self.pipelines.get(place as usize).ok_or(DrainingError::Draining)?;
        pipeline.send(request).await.map_err(|_| DrainingError::Draining)
    }
}

/// Consecutive appends of one run that are stored as one row.
pub(crate) struct Entry {
    pub(crate) requests: Vec<Request>,
    count: usize,
    bytes: usize,
}

impl Entry {
    fn new(request: Request) -> Self {
        Self { count: request.events.count(), bytes: request.events.body().len(), requests: vec![request] }
    }

    /// True if this append continues directly at the end of the entry.
    fn takes(&self, request: &Request) -> bool {
        let Some(last) = self.requests.last() else { return false };
        let follows = match (last.producer_seq, request.producer_seq) {
            (Some(last_seq), Some(next)) => last_seq + last.events.count() as u64 == next,
            (None, None) => true,
            _ => false,
        };
        follows
            && last.fence == request.fence
            && last.epoch == request.epoch
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
        let Request { fence, epoch, producer_seq, .. } = *first;
        Some(Append { key: first.thread.key, fence, epoch, producer_seq, events })
    }
}

/// Threads with an append that is being resolved, with the appends queued for them meanwhile: these wait, so that no
/// append overtakes its predecessor. Bounded by the appends that producers may have in flight.
struct Aside {
    parked: HashMap<ThreadKey, VecDeque<Request>>,
    done: mpsc::UnboundedSender<ThreadKey>,
}

/// Guard that reports a thread's appends as answered, even if answering them panicked.
struct Answered(ThreadKey, mpsc::UnboundedSender<ThreadKey>);

impl Drop for Answered {
    fn drop(&mut self) {
        // At the end of the node the loop has no receiver any more.
        let _ = self.1.send(self.0);
    }
}

impl Aside {
    /// Resolves appends in a separate task: only this thread's producers wait for it.
    fn resolve(&mut self, pipeline: &Arc<Pipeline>, key: ThreadKey, requests: Vec<Request>) {
        self.parked.insert(key, VecDeque::new());
        let (answered, pipeline) = (Answered(key, self.done.clone()), pipeline.clone());
        pipeline.lifecycle.clone().spawn(async move {
            resolve::resolve(&pipeline, requests).await;
            drop(answered);
        });
    }

    /// Parked appends go first: they were queued before all carried appends of their thread.
    fn answered(&mut self, key: ThreadKey, carried: &mut VecDeque<Request>) {
        if let Some(mut waited) = self.parked.remove(&key) {
            waited.append(carried);
            *carried = waited;
        }
    }
}

/// Loop of one pipeline: gathers appends and commits them.
pub(crate) async fn run(pipeline: Arc<Pipeline>, mut requests: mpsc::Receiver<Request>) {
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
                () = pipeline.lifecycle.stopped(), if !stopping => {
                    // No new appends are accepted; queued ones are still committed.
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
            commit(&pipeline, entries, &mut aside).await;
        }
    }
}

/// Gathers one entry per thread from the waiting appends. An append that does not fit its thread's entry is carried
/// over to the next commit, with all later appends of that thread, so that order is kept.
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

async fn commit(pipeline: &Arc<Pipeline>, mut entries: Vec<Entry>, aside: &mut Aside) {
    let batch: Vec<Append> = entries.iter().filter_map(Entry::append).collect();
    pipeline.commits.fetch_add(1, Ordering::Relaxed);
    let (commits, appends) = (&pipeline.metrics.commits, &pipeline.metrics.appends);
    let count = entries.iter().map(|entry| entry.requests.len()).sum();
    entries.iter_mut().flat_map(|entry| &mut entry.requests).for_each(Request::hand_over);
    let begun = Instant::now();
    let answers = pipeline.store.append(&batch).await;
    commits.size.size(count);
    commits.duration.time(begun.elapsed());
    let answers = match answers {
        Ok(answers) => answers,
        Err(error) => {
            commits.failed.inc();
            appends.failed.inc_by(count as u64);
            for request in entries.into_iter().flat_map(|entry| entry.requests) {
                let answer = unconfirmed(request.producer_seq, error.clone());
                request.reply.send(Err(answer));
            }
            return;
        }
    };
    for ((entry, append), answer) in entries.into_iter().zip(batch).zip(answers) {
        match answer {
            Some(appended) => {
                appends.committed.inc_by(entry.requests.len() as u64);
                answer_entry(pipeline, entry, &append, &appended);
            }
            // The append did not match its head. A separate task finds the reason and the answer.
            None => aside.resolve(pipeline, append.key, entry.requests),
        }
    }
}

fn answer_entry(pipeline: &Pipeline, entry: Entry, append: &Append, appended: &Appended) {
    let Some(first) = entry.requests.first() else { return };
    pipeline.publish(&first.thread, append, appended);
    let mut first_seq = appended.first_seq;
    let mut producer_seq = appended.producer_seq - append.events.count() as u64;
    for request in entry.requests {
        let count = request.events.count() as u64;
        producer_seq += count;
        let receipt = AppendReceipt::committed(&appended.head, first_seq, count, producer_seq);
        first_seq += count;
        request.reply.send(Ok(receipt));
    }
}
