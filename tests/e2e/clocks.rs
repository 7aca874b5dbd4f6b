//! A node whose clock is wrong, over a store whose clock is right.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use threadline_core::{Clock, Timestamp};
use threadline_store::{DynStore, memory::MemoryStore, postgres::PgStore};

use crate::{
    backing::Postgres,
    harness::{Backend, Options, Server},
    metrics::Figures,
};

const DAY: u64 = 24 * 3_600;
const REFUSED: &str = "threadline_retention_refused_total";

/// A node that believes this clock.
fn at(clock: &Clock) -> Options {
    Options { clock: clock.clone(), ..Options::memory().with_key("secret") }
}

fn ahead(by: Duration) -> Clock {
    Clock::manual(Clock::system().now().plus(by))
}

async fn threads(server: &Server) -> usize {
    server.user("ann").get("/v1/threads").await.ok(200)["threads"].as_array().expect("threads").len()
}

/// A thread, and retention that deletes threads unused for a day.
async fn fill(server: &Server) {
    server.project().put("/v1/projects/default", json!({ "retention": { "deleteAfterDays": 1 } })).await.ok(201);
    server.user("ann").thread("t").await;
}

#[tokio::test]
async fn a_node_that_is_days_ahead_deletes_nothing() {
    let database = Postgres::shared().fresh_database();
    let postgres = PgStore::open(&database, Clock::system()).await.expect("the store opens");
    let stores: [DynStore; 2] = [Arc::new(MemoryStore::new(Clock::system())), Arc::new(postgres.clone())];
    for store in stores {
        let wrong = ahead(Duration::from_secs(400 * DAY));
        let server = Server::over(store.clone(), at(&wrong)).await;
        fill(&server).await;
        server.retain().await;
        assert_eq!(threads(&server).await, 1);
        let figures = Figures::of(&server).await;
        assert_eq!(figures.get(REFUSED), 1.0);
        let skew = figures.get("threadline_clock_skew_seconds");
        let days = skew / DAY as f64;
        assert!((-400.1..-399.9).contains(&days), "the store's clock is {skew} s ahead of the node's");
        server.stop().await;
        // Nor does a node whose clock is far behind: no node knows which clock is right.
        let behind =
            Server::over(store.clone(), at(&Clock::manual(Clock::system().now().minus(Duration::from_secs(301)))))
                .await;
        behind.retain().await;
        assert_eq!(Figures::of(&behind).await.get(REFUSED), 1.0);
        behind.stop().await;
        // One that is right does its work.
        let right = Server::over(store, at(&Clock::system())).await;
        right.retain().await;
        let figures = Figures::of(&right).await;
        assert_eq!((figures.get(REFUSED), threads(&right).await), (0.0, 1));
        assert!(figures.get("threadline_clock_skew_seconds").abs() < 60.0);
        right.stop().await;
    }
    postgres.close().await;
}

#[tokio::test]
async fn age_is_measured_by_the_clock_of_the_store() {
    let started = Timestamp(1_795_255_875_120);
    let minute = Duration::from_secs(60);
    // Within the five minutes that a node may be off.
    let (of_store, of_node) = (Clock::manual(started), Clock::manual(started.plus(4 * minute)));
    let server = Server::over(Arc::new(MemoryStore::new(of_store.clone())), at(&of_node)).await;
    fill(&server).await;
    let later = Duration::from_secs(DAY) - 2 * minute;
    of_store.advance(later);
    of_node.advance(later);
    server.retain().await;
    assert_eq!(threads(&server).await, 1, "by the store's clock it was used less than a day ago");
    of_store.advance(3 * minute);
    server.retain().await;
    assert_eq!(threads(&server).await, 0);
    let audit = server.project().get("/v1/audit").await.ok(200);
    let entry = audit["entries"].as_array().expect("entries").iter().find(|it| it["action"] == "retention.deletes");
    assert_eq!(entry.expect("audited")["at"], json!(of_store.now().to_string()), "as of the store's clock");
    server.stop().await;
}

#[tokio::test]
async fn a_node_over_postgres_measures_its_clock_too() {
    let server = Server::start(Options::new(Backend::Production)).await;
    assert!(Figures::of(&server).await.get("threadline_clock_skew_seconds").abs() < 60.0);
    server.stop().await;
}
