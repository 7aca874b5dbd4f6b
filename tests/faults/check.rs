//! The check at the end: everything that the clients know against everything that the server has.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;

use crate::{
    api::Api,
    judge::Found,
    record::{Lane, Tally},
};

/// Compares what the clients know with what the server has. Nothing may be under way.
pub async fn check(api: &Api, lanes: &[Arc<Lane>], tally: &Tally) -> Found {
    let mut found = Found::default();
    for lane in lanes {
        let (epoch, text) = api.log(&lane.thread).await;
        let thread = api.get(&format!("/v1/threads/{}", lane.thread)).await.done();
        let runs = all_runs(api, &lane.thread).await;
        found.judge(lane, &epoch, &text, &thread, &runs, tally);
    }
    found
}

async fn all_runs(api: &Api, thread: &str) -> HashMap<String, Value> {
    let mut runs = HashMap::new();
    let mut cursor = String::new();
    loop {
        let page = api.get(&format!("/v1/threads/{thread}/runs?limit=500{cursor}")).await.done();
        for run in page["runs"].as_array().expect("a list") {
            let id = run["runId"].as_str().expect("an id").to_owned();
            assert!(runs.insert(id, run.clone()).is_none(), "a run is listed twice: {run}");
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return runs,
        }
    }
}
