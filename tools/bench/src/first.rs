//! First event of an agent's run: its additional delay through Threadline, compared with the agent itself.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    BenchError, Plan,
    measure::median,
    process::Process,
    report::{Budget, Report},
};

/// First event of the agent itself; RUN_STARTED is in the log before the agent is called.
const FIRST: &[u8] = b"TEXT_MESSAGE_START";

/// Measures the agent directly and through `/agui`, in turn, each run in a separate thread.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    report.progress("the first event of an agent");
    let place = plan.ground.place().await?;
    let (server, agent) = (place.serve()?, Process::start("naive")?);
    let client = reqwest::Client::new();
    let direct = format!("http://{}/agent", agent.address());
    let definition = json!({ "url": direct });
    let put = client.put(format!("http://{}/v1/agents/first", server.address())).json(&definition);
    put.send().await?.error_for_status()?;
    let through = format!("http://{}/agui/first", server.address());
    let (mut alone, mut ours) = (Vec::new(), Vec::new());
    for trip in 0..plan.trips.div_ceil(5) {
        let input = json!({
            "threadId": format!("first-{trip}"), "runId": "r", "messages": [{ "id": "u", "role": "user", "content": "hi" }]
        });
        alone.push(first(&client, &direct, &input).await?.as_secs_f64() * 1e3);
        ours.push(first(&client, &through, &input).await?.as_secs_f64() * 1e3);
    }
    let (alone, ours) = (median(alone), median(ours));
    let over = (ours - alone).max(0.001);
    report.key("live.first_event_ms", over);
    report.row("first event of an agent, over its own time: p50", "ms", over, Some(alone), None, Budget::Below(10.0));
    Ok(())
}

/// Time until the answer holds the agent's first event. The rest of the answer is read and ignored.
async fn first(client: &reqwest::Client, url: &str, input: &serde_json::Value) -> Result<Duration, BenchError> {
    let start = Instant::now();
    let mut response = client.post(url).json(input).send().await?.error_for_status()?;
    let (mut seen, mut time) = (Vec::new(), None);
    while let Some(chunk) = response.chunk().await? {
        seen.extend_from_slice(&chunk);
        if time.is_none() && memchr::memmem::find(&seen, FIRST).is_some() {
            time = Some(start.elapsed());
        }
    }
    time.ok_or_else(|| BenchError::Unexpected(String::from_utf8_lossy(&seen).into_owned()))
}
