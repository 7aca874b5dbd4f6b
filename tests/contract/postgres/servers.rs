//! A URL with several servers: the one that accepts writes is found, and found again after a failover.

use std::time::Duration;

use threadline_backing::{Standby, ports::free_port};
use threadline_store::{LineageStore, StatusStore, ThreadStore, postgres::OpenError};
use tokio::time;

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_that_accepts_writes_is_found_and_found_again_after_a_failover() {
    let primary = Postgres::start(&[]);
    let standby = Standby::of(&primary);
    let servers = [standby.port(), free_port(), primary.port()].map(|port| format!("127.0.0.1:{port}"));
    let url = format!("postgres://postgres@{}/postgres?target_session_attrs=read-write", servers.join(","));
    // Whatever the random order is.
    for _ in 0..4 {
        let store = PgStore::open(&url, clock()).await.expect("opens");
        assert!(!store.status().await.expect("a status").read_only);
        store.close().await;
    }
    let store = PgStore::open(&url, clock()).await.expect("opens");
    store.create_thread(new_thread("before", "ann")).await.expect("created");
    standby.catch_up(&primary);
    primary.kill();
    // The standby alone accepts no writes: the server has to wait, which may help.
    let refused = PgStore::open(&url, clock()).await.expect_err("no server accepts writes");
    assert!(refused.may_pass(), "{refused}");
    standby.promote();
    let mut tick = time::interval(Duration::from_millis(100));
    let failed_over = async {
        while store.create_thread(new_thread("after", "ann")).await.is_err() {
            // The engine of a node does so: a promoted server has another history.
            if let Some(cause) = store.lineage().state().cause()
                && let Ok(adopted) = store.adopt(cause).await
            {
                store.lineage().open(adopted);
            }
            tick.tick().await;
        }
    };
    time::timeout(PATIENCE, failed_over).await.expect("the promoted server is found");
    assert!(!store.status().await.expect("a status").read_only);
    assert_eq!(standby.psql("postgres", "SELECT count(*) FROM threads"), "2");
    store.close().await;
}

#[tokio::test]
async fn a_wrong_url_of_several_servers_is_refused() {
    let refused = PgStore::open("postgres://h1,h2/d?target_session_attrs=standby", clock()).await;
    assert!(matches!(&refused, Err(OpenError::Target { found }) if found == "standby"), "{refused:?}");
    // A server that refuses for good, and one that may come back: waiting may help.
    let unknown =
        format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/nowhere", Postgres::shared().port(), free_port());
    let refused = PgStore::open(&unknown, clock()).await.expect_err("refused");
    assert!(refused.may_pass(), "{refused}");
    let unknown =
        format!("postgres://postgres@127.0.0.1:{port},127.0.0.1:{port}/nowhere", port = Postgres::shared().port());
    let refused = PgStore::open(&unknown, clock()).await.expect_err("refused");
    assert!(!refused.may_pass(), "{refused}");
}
