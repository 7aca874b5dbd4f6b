//! The auditor: once the logs no longer change, it reads everything over the wire and compares it with the records.

use std::{collections::HashMap, sync::atomic::Ordering::SeqCst};

use http_body_util::BodyExt;
use hyper::Method;
use serde_json::{Value, json};

use crate::{client::Client, judge::Found, network, reader::how_it_is, reply::Reply};

/// Waits for the end of all runs, and checks the logs, runs and leases.
pub async fn audit(mut client: Client) {
    let world = client.world.clone();
    while !world.is_calm() || world.producing.load(SeqCst) > 0 || !world.active().is_empty() {
        client.pause(100, 100).await;
    }
    let (mut found, mut at_rest) = (Found::default(), std::collections::BTreeMap::new());
    for lane in &world.lanes {
        let path = format!("/v1/threads/{}", lane.thread);
        // Every thread accepts a new run.
        lane.with("last", |run| run.started = true);
        let start = json!({ "runId": "last" }).to_string();
        for (path, body) in [(format!("{path}/runs"), start), (format!("{path}/runs/last/finish"), "{}".into())] {
            let answer = client.insist(Method::POST, &path, &body).await;
            if !matches!(answer, Reply::Done(..)) {
                world.tally.violation(format!("{} is locked: {answer:?}", lane.thread));
            }
        }
        let thread = client.insist(Method::GET, &path, "").await.done();
        let runs = runs(&mut client, &path).await;
        let (epoch, text) = log(&mut client, &format!("{path}/events")).await;
        found.judge(lane, &epoch, &text, &thread, &runs, &world.tally);
        check_held(&client, &lane.thread, &runs);
        check_leases(&client, &runs);
        at_rest.insert(lane.thread.clone(), how_it_is(&thread));
    }
    client.note(&found);
    let _ = world.at_rest.set(at_rest);
    let _ = world.logs.set(found.logs);
}

async fn runs(client: &mut Client, path: &str) -> HashMap<String, Value> {
    let page = client.insist(Method::GET, &format!("{path}/runs?limit=500"), "").await.done();
    assert!(page["nextCursor"].is_null(), "more runs than fit a page");
    let runs = page["runs"].as_array().expect("a list").iter();
    runs.map(|run| (run["runId"].as_str().expect("an id").to_owned(), run.clone())).collect()
}

/// Reads the whole log as NDJSON, and its epoch.
async fn log(client: &mut Client, path: &str) -> (String, String) {
    loop {
        let node = client.node();
        if let Some(answer) = network::open(&node, Method::GET, path, "application/x-ndjson", "").await
            && answer.status() == 200
        {
            let epoch = answer.headers()["threadline-epoch"].to_str().expect("text").to_owned();
            if let Ok(body) = answer.into_body().collect().await {
                return (epoch, String::from_utf8(body.to_bytes().to_vec()).expect("UTF-8"));
            }
        }
        client.move_on().await;
    }
}

/// Checks that no run was ended for its silence before the end of its promised lease.
fn check_leases(client: &Client, runs: &HashMap<String, Value>) {
    let leases = client.world.leases.lock().expect("lock");
    for (id, run) in runs.iter().filter(|(_, run)| run["errorCode"] == "lease-expired") {
        if run["endedAt"].as_str() < leases.get(id).map(String::as_str) {
            client.world.tally.violation(format!("its lease was promised until {:?}, but: {run}", leases.get(id)));
        }
    }
}

/// Checks each 409: the run that it names was active at some time between the request and its answer.
fn check_held(client: &Client, thread: &str, runs: &HashMap<String, Value>) {
    for held in client.world.held.lock().expect("lock").iter().filter(|held| held.thread == thread) {
        let (asked, answered) = (held.asked.to_string(), held.answered.to_string());
        let was = runs.get(&held.by).is_some_and(|run| {
            run["startedAt"].as_str().is_some_and(|at| at <= answered.as_str())
                && run["endedAt"].as_str().is_none_or(|at| at >= asked.as_str())
        });
        if !was {
            let run = runs.get(&held.by);
            client.world.tally.violation(format!("409 because of {} between {asked} and {answered}: {run:?}", held.by));
        }
    }
}
