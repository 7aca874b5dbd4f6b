//! Tests of Postgres and Redis: started, killed, stopped, restarted, and with a full disk.

use std::{
    net::TcpStream,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use sqlx::{Connection, Executor, PgConnection, query_scalar};

use threadline_backing::{Postgres, Redis, postgres::SmallDisk};

async fn count(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    query_scalar("SELECT count(*) FROM kept").fetch_one(&mut connection).await.expect("counted")
}

/// Commits rows one by one until an error. Returns the number of committed rows.
async fn insert(url: &str, most: usize) -> usize {
    let Ok(mut connection) = PgConnection::connect(url).await else { return 0 };
    for done in 0..most {
        if connection.execute("INSERT INTO kept VALUES (repeat('x', 4000))").await.is_err() {
            return done;
        }
    }
    most
}

async fn table(postgres: &Postgres) -> String {
    let url = postgres.fresh_database();
    let mut connection = PgConnection::connect(&url).await.expect("a connection");
    // The column is not compressed, so that it fills a disk.
    let sql = "CREATE TABLE kept (pad text); ALTER TABLE kept ALTER COLUMN pad SET STORAGE EXTERNAL";
    connection.execute(sql).await.expect("a table");
    url
}

#[tokio::test]
async fn postgres_keeps_what_it_acknowledged_when_it_is_killed() {
    let began = Instant::now();
    let postgres = Postgres::start(&[("max_connections", "20")]);
    println!("ready after {:?}", began.elapsed());
    assert_eq!(postgres.psql("postgres", "SHOW max_connections"), "20");
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(postgres.psql("postgres", &format!("SHOW {setting}")), "on");
    }
    let url = table(&postgres).await;
    for round in 1..=3 {
        assert_eq!(insert(&url, 10).await, 10);
        let (before, began) = (postgres.pid(), Instant::now());
        postgres.kill();
        assert!(!postgres.is_running() && PgConnection::connect(&url).await.is_err());
        postgres.restart();
        println!("killed and ready again after {:?}", began.elapsed());
        assert_ne!(postgres.pid(), before);
        assert_eq!(count(&url).await, 10 * round);
    }
    assert_ne!(table(&postgres).await, url, "each test has a database of its own");
}

#[tokio::test]
async fn postgres_that_is_stopped_answers_nothing_until_it_continues() {
    let postgres = Postgres::start(&[]);
    let url = table(&postgres).await;
    let mut connection = PgConnection::connect(&url).await.expect("a connection");
    postgres.stop_signal();
    let mut answer = Box::pin(connection.execute("INSERT INTO kept VALUES ('')"));
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut answer).await.is_err());
    postgres.cont();
    answer.await.expect("an answer");
    // A kill also ends stopped processes.
    postgres.stop_signal();
    postgres.kill();
    postgres.restart();
    assert_eq!(count(&url).await, 1);
}

#[tokio::test]
async fn a_full_disk_of_tables_refuses_and_continues() {
    let postgres = Postgres::on_small_disk(SmallDisk::Tables(96), &[]);
    let url = table(&postgres).await;
    let mut kept = insert(&url, 50).await;
    for _ in 0..2 {
        postgres.fill_disk();
        let more = insert(&url, 100_000).await;
        assert!(more < 10_000, "inserts still succeed on a full disk");
        kept += more;
        assert!(postgres.is_running());
        postgres.free_disk();
        kept += insert(&url, 50).await;
    }
    postgres.kill();
    postgres.restart();
    assert_eq!(count(&url).await, kept as i64);
}

#[tokio::test]
async fn a_full_disk_of_everything_ends_the_server_and_loses_nothing() {
    // The write-ahead log cannot recycle old files, so it needs new ones.
    let options = [("min_wal_size", "32MB"), ("max_wal_size", "1GB"), ("wal_recycle", "off")];
    let postgres = Postgres::on_small_disk(SmallDisk::Everything(192), &options);
    let url = table(&postgres).await;
    let mut kept = insert(&url, 50).await;
    postgres.fill_disk();
    // Some rows fit into allocated space; after that, the tables or the log cannot grow.
    for _ in 0..50 {
        kept += insert(&url, 100_000).await;
        if !postgres.is_running() {
            break;
        }
    }
    postgres.free_disk();
    postgres.restart();
    assert_eq!(count(&url).await, kept as i64);
    assert_eq!(insert(&url, 50).await, 50);
}

#[test]
fn redis_is_empty_after_a_kill_unless_it_keeps_a_file() {
    for (options, after) in [(&[][..], "(nil)"), (&[("appendonly", "yes"), ("appendfsync", "always")], "value")] {
        let redis = Redis::start(options);
        assert_eq!(redis.command(&["SET", "key", "value", "NX", "PX", "30000"]), "OK");
        assert_eq!(redis.command(&["SET", "key", "other", "NX"]), "(nil)");
        assert_eq!(redis.command(&["GET", "key"]), "value");
        redis.command(&["RPUSH", "list", "a", "b"]);
        assert_eq!(redis.command(&["LRANGE", "list", "0", "-1"]), "a\nb");
        let heard = thread::scope(|scope| {
            let listener = scope.spawn(|| redis.overhear(Duration::from_millis(300)));
            while redis.command(&["PUBLISH", "channel", "1 2 3"]) == "0" {}
            listener.join().expect("no panic")
        });
        assert!(heard.contains(&("channel".to_owned(), "1 2 3".to_owned())), "{heard:?}");
        assert!(redis.try_command(&["NONSENSE"]).is_err_and(|error| error.to_string().contains("unknown command")));
        redis.kill();
        assert!(!redis.is_running() && redis.try_command(&["PING"]).is_err());
        redis.restart();
        assert_eq!(redis.command(&["GET", "key"]), after);
        redis.stop_signal();
        let stream = TcpStream::connect(("127.0.0.1", redis.port()));
        assert!(stream.is_ok(), "the kernel accepts connections of a stopped server");
        redis.cont();
        assert_eq!(redis.command(&["PING"]), "PONG");
    }
}

#[test]
fn redis_serves_tls_with_a_certificate_of_its_own_authority() {
    let redis = Redis::with_tls(&[]);
    let address = redis.tls_url().replace("rediss://", "").trim_end_matches('/').to_owned();
    let verified = |more: &[&str]| {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &address, "-verify_return_error", "-verify_hostname", "localhost"]);
        command.args(more).stdin(std::process::Stdio::null()).output().expect("openssl runs").status.success()
    };
    assert!(verified(&["-CAfile", &redis.authority().to_string_lossy()]));
    assert!(!verified(&[]), "the authority is private");
    assert_eq!(redis.command(&["PING"]), "PONG");
}
