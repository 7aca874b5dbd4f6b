//! Every API that streams a run: the latency from an event of the agent to its receipt at a fixed rate, and the speed of one
//! stream, compared with the native socket. All APIs follow a run of the same agent, one API at a time.

mod agent;
mod reader;

use std::{net::SocketAddr, time::Duration};

use serde_json::json;

use self::{
    agent::{Agent, Work},
    reader::Reader,
};
use super::{
    BenchError, Plan,
    measure::{Pairs, percentile_us},
    report::{Budget, Report},
    socket::Http,
};

/// Time between two events of the agent: those of four fast models.
const PACE: Duration = Duration::from_millis(5);
/// Least events of a measurement of latency.
const LEAST: u32 = 20;
/// Least ratio of every API to the native socket.
const GOAL: f64 = 0.8;

/// API through which a client follows a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    Socket,
    Sse,
    AgUi,
    AiSdk,
    OpenAi,
    LangGraph,
    DurableStreams,
}

/// The texts of an API in the report.
struct Texts {
    api: Api,
    key: &'static str,
    latency: &'static str,
    latest: &'static str,
    speed: &'static str,
}

/// Defines the texts of the APIs that are compared with the socket.
macro_rules! texts {
    ($($api:ident, $key:literal, $name:literal;)*) => {
        [$(Texts {
            api: Api::$api,
            key: $key,
            latency: concat!($name, ", an agent's event: p50 (bare: socket)"),
            latest: concat!($name, ", an agent's event: p99 (bare: socket)"),
            speed: concat!($name, ", one stream (bare: socket)"),
        }),*]
    };
}

const COMPARED: [Texts; 6] = texts! {
    Sse, "sse", "native SSE";
    AgUi, "agui", "AG-UI";
    AiSdk, "ai_sdk", "AI SDK";
    OpenAi, "openai", "OpenAI";
    LangGraph, "langgraph", "LangGraph";
    DurableStreams, "durable_streams", "Durable Streams";
};

/// Measurements of one API, each next to one of the socket.
#[derive(Default)]
struct Rounds {
    p50: Pairs,
    p99: Pairs,
    speed: Pairs,
}

/// Measures each API in turn with the socket, in every round.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    let place = plan.ground.place().await?;
    let server = place.serve()?;
    let agent = Agent::start().await?;
    agent.register(server.address()).await?;
    // The first run of a server takes longer than the next ones.
    follow(server.address(), &agent, Api::Socket, Work { count: LEAST, pace: None }).await?;
    let mut all: Vec<_> = COMPARED.iter().map(|texts| (texts, Rounds::default())).collect();
    for round in 0..plan.pairs {
        report.progress(&format!("APIs, round {} of {}", round + 1, plan.pairs));
        for (texts, rounds) in &mut all {
            let bare = one(server.address(), &agent, Api::Socket, plan).await?;
            let ours = one(server.address(), &agent, texts.api, plan).await?;
            rounds.p50.push(ours.p50_ms, bare.p50_ms);
            rounds.p99.push(ours.p99_ms, bare.p99_ms);
            rounds.speed.push(ours.events_per_s, bare.events_per_s);
        }
    }
    for (number, (texts, rounds)) in all.iter().enumerate() {
        if number == 0 {
            report.key("doors.socket.p50_ms", rounds.p50.bare());
            report.key("doors.socket.p99_ms", rounds.p99.bare());
            report.key("doors.socket.events_per_s", rounds.speed.bare());
        }
        print(texts, rounds, report);
    }
    Ok(())
}

fn print(texts: &Texts, rounds: &Rounds, report: &mut Report) {
    let key = |what: &str| format!("doors.{}.{what}", texts.key);
    // The quicker, the greater.
    let ratio = |pairs: &Pairs| 1.0 / pairs.ratio();
    report.key(&key("p50_ms"), rounds.p50.ours());
    report.key(&key("p50_ratio"), ratio(&rounds.p50));
    report.key(&key("p99_ms"), rounds.p99.ours());
    report.key(&key("events_per_s"), rounds.speed.ours());
    report.key(&key("events_ratio"), rounds.speed.ratio());
    let goal = Budget::RatioAtLeast(GOAL);
    for (what, pairs, budget) in [(texts.latency, &rounds.p50, goal), (texts.latest, &rounds.p99, Budget::None)] {
        report.row(what, "ms", pairs.ours(), Some(pairs.bare()), Some(ratio(pairs)), budget);
    }
    let speed = &rounds.speed;
    report.row(texts.speed, "events/s", speed.ours(), Some(speed.bare()), Some(speed.ratio()), goal);
}

/// Measurement of one API.
struct Measured {
    p50_ms: f64,
    p99_ms: f64,
    events_per_s: f64,
}

async fn one(server: SocketAddr, agent: &Agent, api: Api, plan: &Plan) -> Result<Measured, BenchError> {
    // Half of the time of other workloads: there are twelve measurements in a round.
    let count = (plan.span.as_millis() / PACE.as_millis() / 2) as u32;
    let mut ages = follow(server, agent, api, Work { count: count.max(LEAST), pace: Some(PACE) }).await?.ages;
    let count = u32::try_from(plan.events / 5).unwrap_or(u32::MAX);
    let fast = follow(server, agent, api, Work { count, pace: None }).await?;
    Ok(Measured {
        p50_ms: percentile_us(&mut ages, 0.5) / 1e3,
        p99_ms: percentile_us(&mut ages, 0.99) / 1e3,
        events_per_s: f64::from(count) / fast.took.as_secs_f64(),
    })
}

/// Ages of the events at their receipt, and the time from the first event to the receipt of the last.
struct Followed {
    ages: Vec<Duration>,
    took: Duration,
}

/// Starts a run of the agent, and follows it. The agent waits after its first event until the client has received it.
async fn follow(server: SocketAddr, agent: &Agent, api: Api, work: Work) -> Result<Followed, BenchError> {
    agent.takes(work);
    let thread = Http::new(server).create().await?;
    let run = uuid::Uuid::now_v7().to_string();
    let messages = json!([{ "id": format!("u-{run}"), "role": "user", "content": "hi" }]);
    let start = json!({ "runId": run, "agentId": agent::NAME, "input": { "messages": messages } });
    let url = format!("http://{server}/v1/threads/{thread}/runs");
    reqwest::Client::new().post(url).json(&start).send().await?.error_for_status()?;
    let mut reader = Reader::open(server, api, &thread, &run, &messages).await?;
    reader.reads(agent, 1).await?;
    reader.forget();
    let zero = agent.now();
    agent.goes_on();
    reader.reads(agent, work.count).await?;
    Ok(Followed { took: agent.now() - zero, ages: reader.ages })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_api_but_the_socket_is_compared_once() {
        let mut keys: Vec<_> = COMPARED.iter().map(|texts| texts.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), COMPARED.len());
        assert!(COMPARED.iter().all(|texts| texts.api != Api::Socket));
    }
}
