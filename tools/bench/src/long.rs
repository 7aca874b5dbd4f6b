//! Long threads compared with empty ones: starting a run, appending and reading the end must not depend on the length.
//!
//! Round trips to both alternate.

use std::time::{Duration, Instant};

use super::{
    BenchError, Plan, ack,
    generate::Events,
    measure::{Pairs, percentile_us},
    report::{Budget, Report},
    seeded,
    socket::{Http, Run, Socket},
};

/// Events that are read at the end of a thread.
const TAIL: u64 = 10;

/// Measures both sides in pairs.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    report.progress("writing long threads");
    let place = plan.ground.place().await?;
    let mut events = seeded::thread(&place, Events::new(41).take(plan.events as usize)).await?;
    let mut messages = seeded::thread(&place, messages(plan.messages)).await?;
    let server = place.serve()?;
    let mut site = Site {
        http: Http::new(server.address()),
        socket: Socket::open(server.address()).await?,
        bodies: Events::new(42).take(plan.trips).collect(),
    };
    let (mut of_events, mut of_messages, mut tails) = (Pairs::default(), Pairs::default(), Pairs::default());
    for pair in 0..plan.pairs {
        report.progress(&format!("long threads beside empty ones, pair {} of {}", pair + 1, plan.pairs));
        site.appends(&mut events.run, &mut of_events).await?;
        site.appends(&mut messages.run, &mut of_messages).await?;
        site.tails(&events.run, &mut tails).await?;
    }
    let mut starts = Pairs::default();
    site.end(&mut events.run).await?;
    for pair in 0..plan.pairs {
        report.progress(&format!("starts on long threads, pair {} of {}", pair + 1, plan.pairs));
        site.starts(&events.run.thread, plan.trips / 5, &mut starts).await?;
    }
    report.key("append.ratio_100k_to_empty", of_events.ratio());
    report.key("append.ratio_5000_messages_to_empty", of_messages.ratio());
    report.key("tail.ratio_100k_to_empty", tails.ratio());
    report.key("start.ratio_100k_to_empty", starts.ratio());
    for (what, pairs) in [
        ("append, 100,000 events there (bare: none)", of_events),
        ("append, 5,000 messages there (bare: none)", of_messages),
        ("the newest 10 of 100,000 events (bare: of 10)", tails),
        ("start and first append, 100,000 events there", starts),
    ] {
        let (ours, bare, ratio) = (pairs.ours(), pairs.bare(), pairs.ratio());
        report.row(what, "µs", ours, Some(bare), Some(ratio), Budget::RatioAtMost(1.5));
    }
    Ok(())
}

/// Generates this many short messages.
fn messages(count: usize) -> impl Iterator<Item = String> {
    let (mut contents, mut ended) = (0, 0);
    Events::new(43)
        .filter(move |event| {
            let of = |kind: &str| event.starts_with(&format!("{{\"type\":\"TEXT_MESSAGE_{kind}"));
            contents = if of("CONTENT") { contents + 1 } else { 0 };
            contents <= 5 && event.starts_with("{\"type\":\"TEXT_MESSAGE_")
        })
        .take_while(move |event| {
            let before = ended;
            ended += usize::from(event.starts_with("{\"type\":\"TEXT_MESSAGE_END"));
            before < count
        })
}

struct Site {
    http: Http,
    socket: Socket,
    bodies: Vec<String>,
}

impl Site {
    /// Appends event after event to both threads.
    async fn appends(&mut self, long: &mut Run, pairs: &mut Pairs) -> Result<(), BenchError> {
        let thread = self.http.create().await?;
        let mut empty = self.http.start(&thread).await?;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for body in &self.bodies {
            ours.push(ack::trip(&mut self.socket, long, body).await?);
            bare.push(ack::trip(&mut self.socket, &mut empty, body).await?);
        }
        push(pairs, ours, bare);
        Ok(())
    }

    /// Starts a run with its first append, on the long thread and on a new empty one each time. The end of the run is
    /// not measured.
    async fn starts(&mut self, long: &str, trips: usize, pairs: &mut Pairs) -> Result<(), BenchError> {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..trips {
            let empty = self.http.create().await?;
            ours.push(self.start(long).await?);
            bare.push(self.start(&empty).await?);
        }
        push(pairs, ours, bare);
        Ok(())
    }

    async fn start(&mut self, thread: &str) -> Result<Duration, BenchError> {
        let start = Instant::now();
        let mut run = self.http.start(thread).await?;
        let input = "{\"type\":\"RUN_STARTED\"}";
        ack::trip(&mut self.socket, &mut run, input).await?;
        let taken = start.elapsed();
        self.end(&mut run).await?;
        Ok(taken)
    }

    async fn end(&mut self, run: &mut Run) -> Result<(), BenchError> {
        ack::trip(&mut self.socket, run, "{\"type\":\"RUN_FINISHED\"}").await?;
        Ok(())
    }

    /// Subscribes near the end of the long thread, and to a thread that has only as many events.
    async fn tails(&mut self, long: &Run, pairs: &mut Pairs) -> Result<(), BenchError> {
        let thread = self.http.create().await?;
        let mut short = self.http.start(&thread).await?;
        for body in self.bodies.iter().cycle().take(TAIL as usize) {
            ack::trip(&mut self.socket, &mut short, body).await?;
        }
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..self.bodies.len() {
            ours.push(self.tail(long).await?);
            bare.push(self.tail(&short).await?);
        }
        push(pairs, ours, bare);
        Ok(())
    }

    async fn tail(&mut self, run: &Run) -> Result<Duration, BenchError> {
        let epoch = self.http.epoch(&run.thread).await?;
        let start = Instant::now();
        self.socket.follow_after(&run.thread, run.next - 1 - TAIL, Some(&epoch)).await?;
        let taken = start.elapsed();
        self.socket.leave(&run.thread).await?;
        Ok(taken)
    }
}

fn push(pairs: &mut Pairs, mut ours: Vec<Duration>, mut bare: Vec<Duration>) {
    pairs.push(percentile_us(&mut ours, 0.5), percentile_us(&mut bare, 0.5));
}
