//! Fan-out under load: many followers of one thread, compared with a naive server that receives the same events.
//!
//! One producer sends event after event, in frames of one, and is at most [`AHEAD`] events ahead of the followers, so
//! that neither server can postpone delivery. Every event is delivered to every follower, which is checked. Server and
//! followers share the machine: the followers are one thread that only reads and counts, so that on two cores the
//! figure is the work of the server on little more than one of them.

use std::time::{Duration, Instant};

use tokio::time;

use super::{
    BenchError, Plan,
    followers::{Followers, Source},
    generate::Events,
    measure::Pairs,
    process::{self, Process},
    report::{Budget, Report},
    socket::{self, Run, Socket},
};

/// Most events that the producer may be ahead of its acknowledgements, and of the mean follower.
const AHEAD: u64 = 256;
/// Number of different events.
const BODIES: usize = 4_096;

/// Server with its followers, and the producer that feeds it.
struct Side {
    followers: Followers,
    producer: Socket,
    /// Run that receives the events; none for the naive server, which receives the bare events.
    run: Option<Run>,
    sent: u64,
}

/// Measures both sides in pairs.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    process::raise_file_limit();
    report.progress("connecting followers");
    let place = plan.ground.place().await?;
    let (server, naive) = (place.serve()?, Process::start("naive")?);
    let run = socket::start_runs(server.address(), 1).await?.remove(0);
    let mut ours = Side {
        followers: Followers::open(server.address(), Source::Thread(run.thread.clone()), plan.followers).await?,
        producer: Socket::open(server.address()).await?,
        run: Some(run),
        sent: 0,
    };
    let mut theirs = Side {
        followers: Followers::open(naive.address(), Source::Everything, plan.followers).await?,
        producer: Socket::echo(naive.address(), "/publish").await?,
        run: None,
        sent: 0,
    };
    let events: Vec<String> = Events::new(31).take(BODIES).collect();
    let mut pairs = Pairs::default();
    for pair in 0..plan.pairs {
        report.progress(&format!("fan-out to {} followers, pair {} of {}", plan.followers, pair + 1, plan.pairs));
        let (mine, others);
        if pair % 2 == 0 {
            mine = ours.pump(&events, plan.span).await?;
            others = theirs.pump(&events, plan.span).await?;
        } else {
            others = theirs.pump(&events, plan.span).await?;
            mine = ours.pump(&events, plan.span).await?;
        }
        pairs.push(mine, others);
    }
    report.key("fanout.deliveries_per_s", pairs.ours());
    report.key("fanout.naive_deliveries_per_s", pairs.bare());
    report.key("fanout.ratio_to_naive", pairs.ratio());
    report.key("fanout.followers", plan.followers as f64);
    report.row(
        "fan-out to 1,000 followers (bare: a naive server)",
        "events/s",
        pairs.ours(),
        Some(pairs.bare()),
        Some(pairs.ratio()),
        Budget::RatioAtLeast(10.0),
    );
    Ok(())
}

impl Side {
    /// Sends for `span`. Returns the deliveries per second, after all events were delivered.
    async fn pump(&mut self, events: &[String], span: Duration) -> Result<f64, BenchError> {
        let (start, before) = (Instant::now(), self.followers.delivered());
        let mut under_way = 0;
        while start.elapsed() < span || self.followers.delivered() == before {
            let received = self.followers.delivered() / self.followers.count();
            while under_way < AHEAD && self.sent < received + AHEAD {
                self.feed(&events[self.sent as usize % events.len()]).await?;
                under_way += 1;
            }
            self.producer.flush().await?;
            // Waits for an answer, or until the followers have received more.
            if let Ok(answer) = time::timeout(Duration::from_millis(1), self.producer.next()).await {
                under_way -= self.answers(answer?)?;
            }
        }
        let rate = (self.followers.delivered() - before) as f64 / start.elapsed().as_secs_f64();
        while under_way > 0 {
            let answer = self.producer.next().await?;
            under_way -= self.answers(answer)?;
        }
        self.followers.have(self.sent).await?;
        Ok(rate)
    }

    async fn feed(&mut self, event: &str) -> Result<(), BenchError> {
        self.sent += 1;
        let frame = self.run.as_mut().map_or_else(|| event.to_owned(), |run| run.append(1, event));
        self.producer.feed(frame).await
    }

    /// Counts the available answers, including this one.
    fn answers(&mut self, first: tokio_tungstenite::tungstenite::Utf8Bytes) -> Result<u64, BenchError> {
        let (mut answer, mut count) = (Some(first), 0);
        while let Some(text) = answer {
            socket::acknowledged(&text)?;
            count += 1;
            answer = self.producer.ready()?;
        }
        Ok(count)
    }
}
