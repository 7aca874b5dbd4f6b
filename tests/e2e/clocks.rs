//! A node whose clock is wrong, over a store whose clock is right.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use threadline_core::{Clock, ProjectId, Timestamp, UserId};
use threadline_store::{
    DynStore, JobKind, JobStore, JobSubject, StatusStore, TrashStore, memory::MemoryStore, postgres::PgStore,
};

use crate::{
    backing::Postgres,
    harness::{Backend, Client, Options, Server, eventually},
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
    let entry = audit["entries"].as_array().expect("entries").iter().find(|it| it["action"] == "retention.trashes");
    assert_eq!(entry.expect("audited")["at"], json!(of_store.now().to_string()), "as of the store's clock");
    server.stop().await;
}

#[tokio::test]
async fn nothing_is_trashed_or_purged_after_a_step_of_the_clock() {
    let started = Timestamp(1_795_255_875_120);
    let (of_store, of_node) = (Clock::manual(started), Clock::manual(started));
    let store = Arc::new(MemoryStore::new(of_store.clone()));
    let server = Server::over(store.clone(), at(&of_node)).await;
    fill(&server).await;
    let pass = |time: Duration| {
        of_store.advance(time);
        of_node.advance(time);
    };
    // Both clocks are set, and the node expects another time.
    let step = |time: Duration| {
        let clock = store.clock();
        clock.anchor(clock.now(), clock.steady());
        pass(time);
        clock.anchor(clock.now().minus(time), clock.steady());
    };
    let in_trash = async || {
        let page = server.project().get("/v1/trash").await.ok(200);
        page["threads"].as_array().expect("threads").len()
    };
    let noticed = async || {
        eventually("the step is noticed", async || {
            let left = store.job_due(JobKind::ClockStep, &JobSubject::Store).await.expect("asks");
            left.filter(|left| *left > Duration::from_secs(23 * 3_600))
        })
        .await;
    };
    eventually("a first beat", async || (server.client().get("/readyz").await.status == 200).then_some(())).await;
    let (day, year) = (Duration::from_secs(DAY), Duration::from_secs(400 * DAY));
    step(year);
    // The guard holds before a beat has noticed the step, and afterwards.
    server.retain().await;
    noticed().await;
    server.retain().await;
    pass(day - Duration::from_secs(60));
    server.retain().await;
    assert_eq!((threads(&server).await, in_trash().await), (1, 0));
    assert!(Figures::of(&server).await.get(REFUSED) >= 3.0, "also by the job of the project, if there is one already");
    // A day later people have had their time.
    pass(Duration::from_secs(60));
    server.retain().await;
    assert_eq!((threads(&server).await, in_trash().await), (0, 1));
    // The purge is due at once, and waits.
    step(year);
    let key = store.trash_of(&ProjectId::new("default").expect("an id"), &UserId::new("ann").expect("an id"), 1).await;
    let key = JobSubject::Thread(key.expect("finds")[0]);
    let left = async || store.job_due(JobKind::Purge, &key).await.expect("asks");
    eventually("the purge was tried", async || {
        (left().await.is_some_and(|left| left > Duration::from_secs(60))).then_some(())
    })
    .await;
    noticed().await;
    pass(Duration::from_secs(3_600));
    eventually("it was tried again", async || {
        (left().await.is_some_and(|left| left > Duration::from_secs(60))).then_some(())
    })
    .await;
    assert_eq!(in_trash().await, 1);
    server.project().post("/v1/trash/t/restore", json!({})).await.ok(200);
    assert_eq!(threads(&server).await, 1);
    server.stop().await;
}

#[tokio::test]
async fn a_store_that_no_node_has_used_for_long_is_left_alone_for_a_day() {
    let started = Timestamp(1_795_255_875_120);
    let clock = Clock::manual(started);
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let first = Server::over(store.clone(), at(&clock)).await;
    fill(&first).await;
    eventually("a first beat", async || (first.client().get("/readyz").await.status == 200).then_some(())).await;
    first.stop().await;
    for (hours, waits) in [(49, true), (24, true), (24, false)] {
        clock.advance(Duration::from_secs(hours * 3_600) - Duration::from_secs(u64::from(hours == 24 && waits)));
        let server = Server::over(store.clone(), at(&clock)).await;
        server.retain().await;
        assert_eq!(threads(&server).await, usize::from(waits), "after {hours} h");
        eventually("a first beat", async || (server.client().get("/readyz").await.status == 200).then_some(())).await;
        server.stop().await;
    }
}

#[tokio::test]
async fn a_minority_of_wrong_clocks_does_not_stop_retention() {
    let store: DynStore = Arc::new(MemoryStore::new(Clock::system()));
    let wrong = Server::over(store.clone(), at(&ahead(Duration::from_secs(400 * DAY)))).await;
    fill(&wrong).await;
    let mut right = Vec::new();
    for _ in 0..2 {
        right.push(Server::over(store.clone(), at(&Clock::system())).await);
    }
    eventually("three nodes that know their skew", async || {
        let nodes = wrong.project().get("/v1/nodes").await.ok(200);
        let known = nodes["nodes"].as_array().expect("nodes").iter().filter(|node| node["skewMs"].is_i64());
        (known.count() == 3).then_some(())
    })
    .await;
    let refused = async |server: &Server| {
        server.retain().await;
        Figures::of(server).await.get(REFUSED)
    };
    assert_eq!((refused(&wrong).await, refused(&right[0]).await), (0.0, 0.0), "two of three agree with the store");
    right.pop().expect("a server").stop().await;
    assert_eq!(refused(&right[0]).await, 1.0, "one of two is no majority");
    right.pop().expect("a server").stop().await;
    wrong.stop().await;
}

#[tokio::test]
async fn a_step_of_the_store_is_noticed_recorded_and_ends_no_run() {
    let store = Arc::new(MemoryStore::new(Clock::system()));
    let server = Server::over(store.clone(), Options::memory().with_key("secret")).await;
    let ann = server.user("ann");
    ann.thread("t").await;
    ann.post("/v1/threads/t/runs", json!({ "runId": "r", "leaseSeconds": 60 })).await.ok(201);
    let steps = async || Figures::of(&server).await.get("threadline_clock_steps_total");
    eventually("a first beat", async || (server.client().get("/readyz").await.status == 200).then_some(())).await;
    assert_eq!(steps().await, 0.0);
    // The node expects another time than the store will show.
    let (clock, hour) = (store.clock(), Duration::from_secs(3_600));
    clock.anchor(clock.now().minus(hour), clock.steady());
    eventually("the step is noticed", async || (steps().await == 1.0).then_some(())).await;
    let audit = server.project().get("/v1/audit").await.ok(200);
    let entry = audit["entries"].as_array().expect("entries").iter().find(|it| it["action"] == "clock.set");
    let entry = entry.expect("recorded");
    assert_eq!(
        (&entry["actor"], entry["facts"]["stepMs"].as_i64().map(|ms| (ms + 30_000) / 60_000)),
        (&json!("clock"), Some(60))
    );
    assert!(store.clock().now().0.abs_diff(Clock::system().now().0) < 60_000, "the new time is believed");
    assert_eq!(ann.get("/v1/threads/t/runs/r").await.ok(200)["status"], "running");
    server.stop().await;
}

#[tokio::test]
async fn what_a_node_with_a_wrong_clock_issues_is_good_on_the_others() {
    let store: DynStore = Arc::new(MemoryStore::new(Clock::system()));
    let wrong = Server::over(store.clone(), at(&ahead(Duration::from_secs(400 * DAY)))).await;
    let right = Server::over(store, at(&Clock::system())).await;
    for (from, to) in [(&wrong, &right), (&right, &wrong)] {
        let body = json!({ "userId": "ann", "expiresInSeconds": 60 });
        let token = from.project().post("/v1/tokens", body).await.ok(201);
        let bearer = Client { key: token["token"].as_str().map(ToOwned::to_owned), user: None, ..to.client() };
        bearer.get("/v1/threads").await.ok(200);
        let key = from.project().post("/v1/keys", json!({ "expiresInSeconds": 60 })).await.ok(201);
        Client { key: key["key"].as_str().map(ToOwned::to_owned), ..to.user("ann") }.get("/v1/threads").await.ok(200);
    }
    let found = eventually("the skew is a finding", async || {
        let ready = wrong.client().get("/readyz").await.ok(200);
        (ready["findings"] == json!(["clock-skew"])).then_some(ready)
    });
    assert_eq!(found.await["status"], "degraded");
    right.stop().await;
    wrong.stop().await;
}

#[tokio::test]
async fn a_node_over_postgres_measures_its_clock_too() {
    let server = Server::start(Options::new(Backend::Production)).await;
    assert!(Figures::of(&server).await.get("threadline_clock_skew_seconds").abs() < 60.0);
    server.stop().await;
}
