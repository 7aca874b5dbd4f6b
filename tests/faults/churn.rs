//! Threads that are deleted, with runs under way, and made again under the same id.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use reqwest::Method;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    api::{JSON, Reply},
    producers::Producer,
    record::{Fate, Lane},
};

/// Makes, fills and deletes one thread again and again until `goes` is false. The incarnation that is left.
pub async fn churn(mut producer: Producer, goes: impl Fn() -> bool) -> Arc<Lane> {
    let mut deleted: Vec<String> = Vec::new();
    for life in 0.. {
        // What is sent to one incarnation must never show in another.
        producer.lane = Lane::new(producer.lane.thread.clone());
        let thread = producer.lane.thread.clone();
        let path = format!("/v1/threads/{thread}");
        let create = json!({ "threadId": thread }).to_string();
        let (made, _) = producer.api.insist(Method::POST, "/v1/threads", JSON, &create).await;
        let epoch = match made {
            Reply::Done(_, made) => made["epoch"].as_str().unwrap_or_default().to_owned(),
            other => return fail(producer, format!("create of {thread}: {other:?}")),
        };
        if deleted.contains(&epoch) {
            return fail(producer, format!("{thread} came back with the epoch {epoch} of a deleted log"));
        }
        for number in 0..producer.rng.between(1, 3) {
            producer.run(life * 10 + number).await;
        }
        // One more, under way while the thread goes.
        let last = format!("{}-{life}-last", producer.name);
        let active = producer.start(&last).await;
        if !goes() {
            return producer.lane;
        }
        let (batch, body, _) = producer.prepare(&last, false);
        let append = format!("{path}/runs/{last}/events?producerSeq=1");
        if let (Reply::Done(_, receipt), _) = producer.api.insist(Method::POST, &append, JSON, &body).await {
            producer.settle(&last, batch, Fate::Acked(receipt["firstSeq"].as_u64().unwrap_or(0)), &receipt);
        }
        producer.tally.deleting.notify_one();
        match producer.api.insist(Method::DELETE, &path, JSON, "").await {
            (Reply::Done(..), unclear) => producer.tally.retried(unclear),
            // The first attempt did it.
            (Reply::Refused(slug, _), 1..) if slug == "thread-not-found" => {}
            (other, unclear) => return fail(producer, format!("delete of {thread} ({unclear} retries): {other:?}")),
        }
        deleted.push(epoch);
        producer.tally.deletes.fetch_add(1, Ordering::Relaxed);
        for _ in 0..producer.rng.between(1, 10) {
            let (found, _) = producer.api.insist(Method::GET, &path, JSON, "").await;
            if !matches!(&found, Reply::Refused(slug, _) if slug == "thread-not-found") {
                return fail(producer, format!("{thread} is deleted, but: {found:?}"));
            }
            sleep(Duration::from_millis(20)).await;
        }
        let (late, _) = producer.api.insist(Method::POST, &append, JSON, &body).await;
        if active && !matches!(&late, Reply::Refused(slug, _) if slug == "thread-not-found") {
            return fail(producer, format!("append to the deleted {thread}: {late:?}"));
        }
        producer.tally.recreated.fetch_add(1, Ordering::Relaxed);
    }
    producer.lane
}

fn fail(producer: Producer, what: String) -> Arc<Lane> {
    producer.tally.violation(what);
    producer.lane
}
