//! Requests made up from the OpenAPI document.

use std::time::Duration;

use super::passes;
use crate::harness::{Backend, Options, Server, run};

const KEY: &str = "secret";

async fn examined(backend: Backend, examples: &str, limit: Duration) {
    run(Options::new(backend).with_key(KEY), async |server: &Server| {
        let url = format!("http://{}", server.addr);
        let said = passes("openapi.py", &[&url, KEY, examples], limit).await;
        let summary = said.lines().filter(|line| line.contains("generated") || line.starts_with("Seed"));
        println!("{}", summary.collect::<Vec<_>>().join(", "));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_as_documented_embedded() {
    examined(Backend::Sqlite, "10", Duration::from_secs(300)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_as_documented_in_production() {
    examined(Backend::Production, "5", Duration::from_secs(300)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long: make test-full"]
async fn answers_are_as_documented_for_long() {
    examined(Backend::Production, "400", Duration::from_secs(1_800)).await;
}
