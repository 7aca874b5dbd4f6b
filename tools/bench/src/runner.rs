//! Runs that CopilotKit's runtimes stream: a lock over REST, then a separate socket for each run, over which its events
//! arrive in pushes of at most 32, one in flight, numbered and named by the runner. Measured at the speed of the
//! acknowledgements, compared with the same load over the native socket, and at the pace of language models, with
//! pushes of the events that were generated during the previous push.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::Client;
use serde_json::json;
use tokio::{task::JoinSet, time};

use super::{
    BenchError, Plan,
    append::{self, Pumped, Work},
    generate::Events,
    measure::{Pairs, median, percentile_us},
    process,
    report::{Budget, Report},
    socket::{self, Producer, Socket},
};

/// Most events in a push.
const BATCH: usize = 32;
/// Number of different events.
const EVENTS: usize = 4_096;
/// Different pushes of one run, over the native socket.
const BODIES: usize = 8;
/// Time after which a runner sends its buffered events.
const FLUSH: Duration = Duration::from_millis(5);
/// Time between two tokens of a model.
const TOKEN: Duration = Duration::from_millis(20);
/// Runs that are started concurrently.
const STARTERS: usize = 16;

/// Measures both sides in pairs.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    process::raise_file_limit();
    let place = plan.ground.place().await?;
    let server = place.serve()?;
    report.progress(&format!("starting {} runs", plan.streams));
    let mut runners = start(server.address(), plan.streams).await?;
    let mut native = native(server.address(), plan.streams).await?;
    let (mut pairs, mut p50, mut p99) = (Pairs::default(), Vec::new(), Vec::new());
    let (mut work, mut paces) = (None, Vec::new());
    for pair in 0..plan.pairs {
        report.progress(&format!("runs of runtimes, pair {} of {}", pair + 1, plan.pairs));
        let mut begun = Work::begin(&server);
        let (pumped, mut times) = all(&mut runners, plan.span, Pace::AsFastAsCanBe).await?;
        begun.events = pumped.events;
        work = begun.us_per_event(&server).or(work);
        pairs.push(pumped.rate(), append::pump(&mut native, 1, plan.span).await?.rate());
        p50.push(percentile_us(&mut times, 0.5) / 1e3);
        p99.push(percentile_us(&mut times, 0.99) / 1e3);
    }
    for round in 0..plan.pairs {
        report.progress(&format!("runs at the pace of models, round {} of {}", round + 1, plan.pairs));
        let (pumped, mut times) = all(&mut runners, plan.span, Pace::Tokens).await?;
        let size = pumped.events as f64 / times.len() as f64;
        paces.push([pumped.rate(), percentile_us(&mut times, 0.5) / 1e3, percentile_us(&mut times, 0.99) / 1e3, size]);
    }
    finish(server.address(), &mut runners).await?;
    let [rate, pace_p50, pace_p99, size] = [0, 1, 2, 3].map(|what| median(paces.iter().map(|round| round[what])));
    report.key("runner.runs", plan.streams as f64);
    report.key("runner.events_per_s", pairs.ours());
    report.key("runner.native_events_per_s", pairs.bare());
    report.key("runner.ratio_to_native", pairs.ratio());
    report.key("runner.ack_p50_ms", median(p50));
    report.key("runner.ack_p99_ms", median(p99.clone()));
    report.key("runner.paced_events_per_s", rate);
    report.key("runner.paced_events_per_push", size);
    report.key("runner.paced_ack_p50_ms", pace_p50);
    report.key("runner.paced_ack_p99_ms", pace_p99);
    if let Some(spent) = work {
        report.key("runner.cpu_us_per_event", spent);
    }
    let what = "500 runs of runtimes (bare: native socket)";
    report.row(what, "events/s", pairs.ours(), Some(pairs.bare()), Some(pairs.ratio()), Budget::None);
    report.row("500 runs of runtimes, pushes of 32: ack p99", "ms", median(p99), None, None, Budget::None);
    report.row("500 runs of runtimes, 50 tokens/s each", "events/s", rate, None, None, Budget::None);
    report.row("500 runs of runtimes, 50 tokens/s each: ack p99", "ms", pace_p99, None, None, Budget::None);
    Ok(())
}

/// Pace of the events.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// Pushes that are always full.
    AsFastAsCanBe,
    /// One event every [`TOKEN`].
    Tokens,
}

/// One run, from the view of its runner.
struct Runner {
    socket: Socket,
    thread: String,
    run: String,
    user: String,
    /// Number of the next frame.
    reference: u64,
    /// Events sent so far.
    sent: u64,
    events: Arc<Vec<String>>,
}

impl Runner {
    /// Takes the lock of a new thread, and joins the topic of the run.
    async fn start(server: SocketAddr, http: &Client, events: Arc<Vec<String>>) -> Result<Self, BenchError> {
        let id = || uuid::Uuid::new_v4().to_string();
        // One user per run, because the active runs of one user are limited.
        let (thread, run, user) = (id(), id(), id());
        let create = json!({ "threadId": thread, "userId": user, "agentId": "bench" });
        let threads = format!("http://{server}/api/threads");
        http.post(&threads).json(&create).send().await?.error_for_status()?;
        let lock = json!({ "runId": run, "userId": user, "agentId": "bench", "ttlSeconds": 3_600 });
        http.post(format!("{threads}/{thread}/lock")).json(&lock).send().await?.error_for_status()?;
        let socket = Socket::of_a_runtime(server).await?;
        let mut runner = Self { socket, thread, run, user, reference: 1, sent: 0, events };
        let params = json!({ "thread_id": runner.thread, "run_id": runner.run });
        let joined = runner.ask("phx_join", &params.to_string()).await?;
        if joined.contains("runner_event_batch_v1") { Ok(runner) } else { Err(BenchError::Unexpected(joined)) }
    }

    /// Sends a frame and waits for the reply.
    async fn ask(&mut self, event: &str, payload: &str) -> Result<String, BenchError> {
        let (run, reference) = (&self.run, self.reference);
        self.reference += 1;
        let frame = format!("[\"1\",\"{reference}\",\"ingestion:{run}\",\"{event}\",{payload}]");
        self.socket.send(frame).await?;
        let reply = self.socket.next().await?;
        let expected = format!("[\"1\",\"{reference}\",\"ingestion:{run}\",\"phx_reply\",{{\"status\":\"ok\"");
        if reply.starts_with(&expected) {
            Ok(reply.to_string())
        } else {
            Err(BenchError::Unexpected(reply.to_string()))
        }
    }

    /// Pushes the next events. Returns the time until their acknowledgement.
    async fn push(&mut self, count: usize) -> Result<Duration, BenchError> {
        let mut payload = String::from("{\"events\":[");
        for at in 0..count {
            if at > 0 {
                payload.push(',');
            }
            let event = &self.events[(self.sent as usize + at) % self.events.len()];
            write(event, &self.thread, &self.run, self.sent + at as u64 + 1, &mut payload);
        }
        payload.push_str("]}");
        let start = Instant::now();
        self.ask("events", &payload).await?;
        self.sent += count as u64;
        Ok(start.elapsed())
    }

    /// Pushes until `end`. Returns the time of each push.
    async fn pump(&mut self, pace: Pace, begin: Instant, end: Instant) -> Result<Vec<Duration>, BenchError> {
        let (mut times, first) = (Vec::new(), self.sent);
        loop {
            let count = match pace {
                Pace::AsFastAsCanBe => BATCH,
                Pace::Tokens => {
                    let made = (begin.elapsed().as_nanos() / TOKEN.as_nanos()) as u64;
                    let waiting = made.saturating_sub(self.sent - first) as usize;
                    if waiting == 0 && Instant::now() < end {
                        let next = begin + TOKEN * u32::try_from(made + 1).unwrap_or(u32::MAX);
                        time::sleep_until((next + FLUSH).into()).await;
                        continue;
                    }
                    waiting.clamp(1, BATCH)
                }
            };
            times.push(self.push(count).await?);
            if Instant::now() >= end {
                return Ok(times);
            }
        }
    }
}

/// Writes an event with the members that a runner adds.
fn write(event: &str, thread: &str, run: &str, seq: u64, out: &mut String) {
    let id = uuid::Uuid::new_v4();
    out.push_str(event.strip_suffix('}').unwrap_or(event));
    out.push_str(&format!(
        ",\"threadId\":\"{thread}\",\"runId\":\"{run}\",\"thread_id\":\"{thread}\",\"run_id\":\"{run}\",\
         \"metadata\":{{\"cpki_event_id\":\"{id}\",\"cpki_event_seq\":{seq}}}}}"
    ));
}

/// Starts runs, several concurrently.
async fn start(server: SocketAddr, count: usize) -> Result<Vec<Runner>, BenchError> {
    let (http, events) = (Client::new(), Arc::new(Events::new(61).take(EVENTS).collect::<Vec<_>>()));
    let (mut tasks, mut runners) = (JoinSet::new(), Vec::with_capacity(count));
    for _ in 0..count {
        if tasks.len() >= STARTERS
            && let Some(task) = tasks.join_next().await
        {
            runners.push(task??);
        }
        let (http, events) = (http.clone(), events.clone());
        tasks.spawn(async move { Runner::start(server, &http, events).await });
    }
    while let Some(task) = tasks.join_next().await {
        runners.push(task??);
    }
    Ok(runners)
}

/// Starts as many runs over the native socket, each over a separate one.
async fn native(server: SocketAddr, count: usize) -> Result<Vec<Producer>, BenchError> {
    let mut producers = Vec::with_capacity(count);
    for run in socket::start_runs(server, count).await? {
        // The same events, with all members that a runner adds.
        let (mut bodies, mut events, mut seq) = (Vec::new(), Events::new(62), 0);
        for _ in 0..BODIES {
            let mut body = String::new();
            for event in events.by_ref().take(BATCH) {
                seq += 1;
                body.push_str(if body.is_empty() { "" } else { "," });
                write(&event, &run.thread, &run.run, seq, &mut body);
            }
            bodies.push(body);
        }
        producers.push(Producer::new(Socket::open(server).await?, vec![run], BATCH, bodies));
    }
    Ok(producers)
}

/// Drives all runs at once, with staggered starts. Returns the acknowledged events, and the time of each push.
async fn all(runners: &mut Vec<Runner>, span: Duration, pace: Pace) -> Result<(Pumped, Vec<Duration>), BenchError> {
    let before: u64 = runners.iter().map(|runner| runner.sent).sum();
    let (start, apart) = (Instant::now(), TOKEN / u32::try_from(runners.len()).unwrap_or(u32::MAX).max(1));
    let mut tasks = JoinSet::new();
    for (number, mut runner) in (0u32..).zip(runners.drain(..)) {
        tasks.spawn(async move {
            let times = runner.pump(pace, start + apart * number, start + span).await?;
            Ok::<_, BenchError>((runner, times))
        });
    }
    let mut times = Vec::new();
    while let Some(task) = tasks.join_next().await {
        let (runner, taken) = task??;
        runners.push(runner);
        times.extend(taken);
    }
    let seconds = start.elapsed().as_secs_f64();
    let after: u64 = runners.iter().map(|runner| runner.sent).sum();
    Ok((Pumped { events: after - before, seconds }, times))
}

/// Ends the runs, and checks that the acknowledged events are stored, and no others.
async fn finish(server: SocketAddr, runners: &mut [Runner]) -> Result<(), BenchError> {
    let http = Client::new();
    for runner in runners {
        let mut last = String::new();
        write("{\"type\":\"RUN_FINISHED\"}", &runner.thread, &runner.run, runner.sent + 1, &mut last);
        runner.ask("events", &format!("{{\"events\":[{last}]}}")).await?;
        let seen =
            http.get(format!("http://{server}/v1/threads/{}", runner.thread)).header("threadline-user", &runner.user);
        let seen: serde_json::Value = seen.send().await?.error_for_status()?.json().await?;
        let tail = seen["tail"].as_u64().unwrap_or_default();
        if tail != runner.sent + 1 {
            let reason = format!("thread {} has {tail} events, {} were acknowledged", runner.thread, runner.sent + 1);
            return Err(BenchError::Unexpected(reason));
        }
    }
    Ok(())
}
