//! Producer: the writing side of a run.

mod healing;
mod sent;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::sent::Sent;
use super::{
    Appended, Client, ClientError, Decision, EventBody, Retry, Run, StartRun, StartedRun, backoff::chance, body::encode,
};
use threadline_core::{NewEvents, RunId, Seq, limits::DEFAULT_LEASE};

/// Longest pause before a failed heartbeat is repeated, in place of the heartbeat interval.
const FAILED_BEAT: Duration = Duration::from_secs(1);

/// Shortest heartbeat interval, regardless of the options.
const FASTEST_BEAT: Duration = Duration::from_millis(1);

/// Options with which a run is started.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Id of the run; made by the client if absent.
    pub run_id: Option<String>,
    /// Id of the agent that the run belongs to.
    pub agent_id: Option<String>,
    /// Lease, in whole seconds: the server ends a run whose producer sends nothing for this long; 20 s if not given.
    pub lease: Option<Duration>,
    /// Heartbeat interval of the producer; a third of the lease if not given.
    pub heartbeat: Option<Duration>,
    /// Number of the first event to be appended, for a run that exists already. If not given, the producer continues
    /// behind the stored events. A producer that makes the same events again may start from 1: stored events are then
    /// compared and not stored twice.
    pub producer_seq: Option<u64>,
}

impl Client {
    /// Starts a run and keeps its lease.
    ///
    /// Errors: a problem `run-active` (with the facts of the active run) at once; lost answers and a server that is not
    /// ready are retried for [`super::ClientConfig::retry_for`].
    pub async fn run(&self, thread: &str, options: RunOptions) -> Result<Producer, ClientError> {
        let lease = options.lease.unwrap_or(DEFAULT_LEASE).max(Duration::from_secs(1));
        // An id made by the client makes the start repeatable.
        let run_id = options.run_id.unwrap_or_else(|| RunId::generate().to_string());
        let start = StartRun {
            run_id: Some(run_id),
            agent_id: options.agent_id,
            lease_seconds: Some(lease.as_secs()),
            ..StartRun::default()
        };
        let started = self.begin(thread, &start).await?;
        let target = Arc::new(Target {
            client: self.clone(),
            thread: thread.to_owned(),
            run: started.run.run_id.clone(),
            lease,
            stop: CancellationToken::new(),
            heard: Mutex::new(Instant::now()),
        });
        if started.run.stop_requested || !started.run.status.is_active() {
            target.stop.cancel();
        }
        let every = options.heartbeat.unwrap_or(lease / 3).max(FASTEST_BEAT);
        let heartbeat = AbortOnDropHandle::new(tokio::spawn(beat(target.clone(), every)));
        let next = options.producer_seq.unwrap_or(started.run.producer_seq + 1);
        Ok(Producer {
            target,
            start,
            acknowledged: started.run.producer_seq,
            started,
            next,
            pending: None,
            sent: Sent::default(),
            lost_from: None,
            terminal: false,
            _heartbeat: heartbeat,
        })
    }

    /// Starts a run that the caller will produce.
    async fn begin(&self, thread: &str, start: &StartRun) -> Result<StartedRun, ClientError> {
        self.retrying(|| async move {
            match self.start_run(thread, start).await {
                // The caller must decide whether to wait for the end of another run.
                Err(error) if error.problem("run-active").is_some() => Ok(Err(error)),
                other => other.map(Ok),
            }
        })
        .await?
    }

    /// Repeats a request that may be repeated, until it succeeds, cannot succeed, or the time has expired.
    ///
    /// Not an `AsyncFnMut`, whose future no `tokio::spawn` can take yet.
    async fn retrying<T, F>(&self, mut request: impl FnMut() -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut retry = Retry::new(self.config().backoff);
        let deadline = Instant::now() + self.config().retry_for;
        loop {
            let error = match request().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match retry.failed(&error, chance()) {
                Decision::RetryAfter(wait) if Instant::now() + wait <= deadline => sleep(wait).await,
                Decision::RetryAfter(_) | Decision::GiveUp => return Err(error),
            }
        }
    }
}

/// Active run: numbers its events, appends them exactly once, and keeps its lease.
///
/// Dropping a producer without [`Producer::finish`] or [`Producer::fail`] stops the heartbeat only: the run's lease
/// expires, and the server ends the run with RUN_ERROR. Another producer may resume the run before that, under its run
/// id.
///
/// A producer keeps its newest acknowledged events, up to 4 MiB. If the server loses some of them, in a failover or a
/// restore, the next append, flush or finish sends them again; a run that is lost as a whole is started again under its
/// id.
#[derive(Debug)]
pub struct Producer {
    target: Arc<Target>,
    /// Request that started the run.
    start: StartRun,
    started: StartedRun,
    /// Number of the first event that was never acknowledged.
    next: u64,
    /// Highest number that the server has reported as stored, and has not lost as far as is known.
    acknowledged: u64,
    sent: Sent,
    /// Number of the first acknowledged event that the server has lost; `None` if none is lost.
    lost_from: Option<u64>,
    pending: Option<Pending>,
    terminal: bool,
    _heartbeat: AbortOnDropHandle<()>,
}

/// Batch in progress. Kept until its answer has arrived, so that it is sent again with the same number and bytes.
#[derive(Debug)]
struct Pending {
    events: NewEvents,
    from: u64,
}

#[derive(Debug)]
struct Target {
    client: Client,
    thread: String,
    run: String,
    lease: Duration,
    stop: CancellationToken,
    /// Time of the last request that the server has answered.
    heard: Mutex<Instant>,
}

impl Target {
    fn heard(&self) -> Instant {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn was_heard(&self, at: Instant) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        *heard = at.max(*heard);
    }
}

impl Producer {
    /// Id of the thread that the run is in.
    pub fn thread_id(&self) -> &str {
        &self.target.thread
    }

    /// Id of the run, made by the client if the options named none.
    pub fn run_id(&self) -> &str {
        &self.target.run
    }

    /// Incarnation of the thread's log.
    pub fn epoch(&self) -> &str {
        &self.started.epoch
    }

    /// Cursor before the run: a reader that starts from here sees this run and no event before it.
    pub fn cursor(&self) -> Seq {
        self.started.cursor
    }

    /// Number of the next event, counted from 1 within the run.
    pub fn next_producer_seq(&self) -> u64 {
        self.next + self.pending.as_ref().map_or(0, |pending| pending.events.count() as u64)
    }

    /// Token that is cancelled as soon as the server reports that the run must not continue: a client requested it to
    /// stop, or the server has ended it. The report arrives with the answer to a heartbeat or an append. Finish the run
    /// then; otherwise the server does so after some seconds.
    pub fn stop_token(&self) -> CancellationToken {
        self.target.stop.clone()
    }

    /// Appends events; they are durable once this method returns.
    ///
    /// A lost answer, or a server that is not ready, causes a retry with the same number and bytes. If the retries take
    /// longer than [`super::ClientConfig::retry_for`] the error [is retryable](ClientError::is_retryable), and the
    /// batch stays in the producer: do not append it again, call [`Producer::flush`]. Until that succeeds an append
    /// fails with [`ClientError::Unanswered`], and takes no event. The same holds if this future is dropped before it
    /// is ready.
    ///
    /// After a problem that is not retryable no event of the batch was stored: `invalid-event`, `too-large`, or
    /// `run-fenced` and `run-not-found` (the run has ended). [`ClientError::EventsLost`] means that the server has lost
    /// events which this producer does not keep any more.
    pub async fn append(&mut self, events: NewEvents) -> Result<Appended, ClientError> {
        if self.pending.is_some() {
            return Err(ClientError::Unanswered);
        }
        self.pending = Some(Pending { events, from: self.next });
        // The pending batch is the last one to be sent.
        self.send_all().await?.ok_or(ClientError::Unanswered)
    }

    /// [`Producer::append`] for anything that serialises to objects with a `type`.
    pub async fn append_values<T: Serialize>(&mut self, events: &[T]) -> Result<Appended, ClientError> {
        self.append(encode(events)?).await
    }

    /// Sends the batch that an earlier append could not deliver; `None` if there is none.
    pub async fn flush(&mut self) -> Result<Option<Appended>, ClientError> {
        self.send_all().await
    }

    /// Sends what the server has lost, then the batch in progress.
    async fn send_all(&mut self) -> Result<Option<Appended>, ClientError> {
        loop {
            let (events, from) = match (self.lost_from, &self.pending) {
                (Some(from), _) => (self.sent.from(from).ok_or_else(|| self.cannot_heal(from))?, from),
                (None, Some(Pending { events, from })) => (events.clone(), *from),
                (None, None) => return Ok(None),
            };
            match self.send(EventBody::from(&events), from).await {
                Ok(appended) => {
                    self.acknowledged = self.acknowledged.max(appended.producer_seq);
                    self.started.epoch.clone_from(&appended.epoch);
                    let end = from + events.count() as u64;
                    if self.lost_from.is_some() {
                        self.lost_from = (end < self.next).then_some(end);
                        continue;
                    }
                    self.pending = None;
                    self.next = end;
                    self.terminal |= events.terminal().is_some();
                    self.sent.add(from, events);
                    return Ok(Some(appended));
                }
                Err(error) => {
                    let error = match self.heal(&error).await {
                        Ok(true) => continue,
                        Ok(false) => error,
                        Err(failure) => failure,
                    };
                    self.refused(&error);
                    return Err(error);
                }
            }
        }
    }

    /// Takes note of a refusal, which is final: no event was stored.
    fn refused(&mut self, error: &ClientError) {
        match error {
            ClientError::Problem(problem) if !problem.retryable => {
                self.pending = None;
                if has_ended(&problem.slug) {
                    self.target.stop.cancel();
                }
            }
            ClientError::EventsLost { .. } => {
                self.pending = None;
                self.target.stop.cancel();
            }
            _ => {}
        }
    }

    async fn send(&self, body: EventBody, from: u64) -> Result<Appended, ClientError> {
        let target = self.target.clone();
        let target = &*target;
        let Target { client, thread, run, .. } = target;
        let answer = client
            .retrying(|| {
                let (sent, body) = (Instant::now(), body.clone());
                async move {
                    let appended = client.append(thread, run, Some(from), body).await?;
                    // The time counts from the sending: the lease was extended at some moment after it.
                    target.was_heard(sent);
                    Ok(appended)
                }
            })
            .await?;
        if answer.stop_requested {
            self.target.stop.cancel();
        }
        Ok(answer)
    }

    /// Ends the run successfully: its open parts are closed, and RUN_FINISHED is appended, unless the run's own events
    /// did so.
    ///
    /// If the answer does not arrive, no event is lost: [`Client::finish`] with the same ids may be called later.
    pub async fn finish(mut self) -> Result<Run, ClientError> {
        let target = self.target.clone();
        let Target { client, thread, run, .. } = &*target;
        loop {
            self.flush().await?;
            let acknowledged = self.acknowledged;
            let ended = match self.terminal {
                true => client.retrying(|| client.run_record(thread, run)).await,
                false => client.retrying(|| client.finish_after(thread, run, acknowledged)).await,
            };
            match ended {
                Ok(run) if run.status.is_active() && run.producer_seq < acknowledged => {
                    self.rewind(run.producer_seq + 1)?;
                }
                Ok(run) => return Ok(run),
                Err(error) => {
                    if !self.heal(&error).await? {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Ends the run with an error: its open parts are closed, and RUN_ERROR is appended. A batch that was never
    /// answered is not sent again.
    pub async fn fail(self, code: Option<&str>, message: Option<&str>) -> Result<Run, ClientError> {
        let Target { client, thread, run, .. } = &*self.target;
        client.retrying(|| client.fail(thread, run, code, message)).await
    }
}

/// True if a refusal means that the run cannot continue.
fn has_ended(slug: &str) -> bool {
    matches!(slug, "run-fenced" | "run-not-found" | "thread-not-found")
}

/// Keeps the lease: sends a heartbeat after each interval without any other answered request.
async fn beat(target: Arc<Target>, every: Duration) {
    let mut due = target.heard() + every;
    loop {
        sleep_until(due).await;
        let sent = Instant::now();
        if target.heard() + every > sent {
            // An append has extended the lease since this heartbeat was scheduled.
            due = target.heard() + every;
            continue;
        }
        // A heartbeat without an answer must not outlast the lease.
        let request = target.client.heartbeat(&target.thread, &target.run, Some(target.lease));
        let Ok(answer) = timeout(target.lease / 3, request).await else {
            due = Instant::now();
            continue;
        };
        match answer {
            Ok(run) => {
                target.was_heard(sent);
                if run.stop_requested {
                    target.stop.cancel();
                }
                if !run.status.is_active() {
                    target.stop.cancel();
                    return;
                }
                due = sent + every;
            }
            // A run that is lost as a whole is started again by the next append.
            Err(error) if error.problem("run-not-found").is_some() => due = Instant::now() + every,
            Err(error) if error.is_retryable() => due = Instant::now() + every.min(FAILED_BEAT),
            Err(_) => {
                target.stop.cancel();
                return;
            }
        }
    }
}
