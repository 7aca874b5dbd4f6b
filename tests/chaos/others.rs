//! Clients that are neither producers nor readers: agents, and clients that stop runs.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use threadline_client::StartRun;
use tokio::time::{Instant, sleep};

use crate::{
    history::{Class, What},
    world::{Answer, Caller, World},
};

/// Longest time of an agent's run: its events, and its end by another node if its own dies.
const AGENT_STORE_TIMEOUT: Duration = Duration::from_secs(60);

/// Has an agent do one run after the other on a thread.
pub async fn agent(world: Arc<World>, agent: &'static str, thread: String, name: String, stream: u64) {
    let mut caller = Caller::new(world, &format!("agent-{name}"), stream);
    let mut number = 0;
    while caller.world.is_running() {
        let run = format!("{name}-{number}");
        number += 1;
        caller.world.begins(&thread, &run);
        if ask(&mut caller, agent, &thread, &run).await {
            ends(&mut caller, &thread, &run).await;
        }
        caller.world.has_ended(&run);
    }
    caller.history.flush();
}

/// Starts the run; false if it was abandoned.
async fn ask(caller: &mut Caller, agent: &str, thread: &str, run: &str) -> bool {
    let words = ["Hello", "Tell me something long", "Reason about error handling", "help"];
    let said = words[caller.rng.between(0, words.len() as u64 - 1) as usize];
    let input = json!({ "messages": [{ "id": format!("m-{run}"), "role": "user", "content": said }] });
    let start = StartRun {
        run_id: Some(run.to_owned()),
        agent_id: Some(agent.to_owned()),
        lease_seconds: None,
        input: Some(input),
        ..StartRun::default()
    };
    let began = Instant::now();
    loop {
        let client = caller.client();
        let request = client.start_run(thread, &start);
        match caller.ask(thread, run, What::Agent, request, |_| (0, false, None)).await {
            Answer::Done(_) => return true,
            Answer::Refused(slug) if slug == "run-active" => {}
            Answer::Refused(slug) => {
                caller.world.wrong(Class::Lost, format!("the start of {run} by an agent was refused: {slug}"));
                return false;
            }
            Answer::Unknown | Answer::Dropped => {}
        }
        if !caller.again(began).await {
            return false;
        }
    }
}

/// Looks until the run has ended.
async fn ends(caller: &mut Caller, thread: &str, run: &str) {
    let began = Instant::now();
    let mut stopped = false;
    while began.elapsed() < AGENT_STORE_TIMEOUT {
        sleep(Duration::from_millis(300)).await;
        if !caller.world.is_running() && !stopped {
            caller.hop();
            let client = caller.client();
            let request = client.stop(thread, run);
            let answer = caller.ask(thread, run, What::Stop, request, |run| (0, run.ended_at.is_some(), None)).await;
            stopped = matches!(answer, Answer::Done(_));
        }
        match tokio::time::timeout(crate::world::PATIENCE, caller.client().run_record(thread, run)).await {
            Ok(Ok(record)) if !record.status.is_active() => return,
            Ok(Ok(_)) => {}
            // The start of the run was lost.
            Ok(Err(error)) if error.problem("run-not-found").is_some() => return,
            _ => caller.hop(),
        }
    }
}

/// Stops a run now and then, by another node than its producer's.
pub async fn stopper(world: Arc<World>, stream: u64) {
    let mut caller = Caller::new(world, "stopper", stream);
    while caller.world.is_running() {
        caller.breathe(3_000).await;
        caller.hop();
        let world = caller.world.clone();
        let Some((thread, run)) = world.any_run(&mut caller.rng) else { continue };
        let client = caller.client();
        // Not there (yet), ended long ago: all of that is an answer.
        let request = client.stop(&thread, &run);
        caller.ask(&thread, &run, What::Stop, request, |run| (0, run.ended_at.is_some(), None)).await;
    }
    caller.history.flush();
}
