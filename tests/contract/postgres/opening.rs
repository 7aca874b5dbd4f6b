//! Migrations, servers that are refused or warned of, and what is there again after the process.

use threadline_core::{CreatedThread, Fence, ThreadPatch};
use threadline_store::{
    AttemptStore, LogStore, RunStore, StartOutcome, ThreadStore,
    postgres::{Migrated, OpenError},
};

use super::*;

#[tokio::test]
async fn nodes_that_start_at_once_migrate_once() {
    let url = Postgres::shared().fresh_database();
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let url = url.clone();
        opening.spawn(async move { PgStore::open(&url, clock()).await.expect("opens").installation().to_owned() });
    }
    let ids = opening.join_all().await;
    assert!(ids[0].len() > 30 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(ask(&url, "SELECT count(*) FROM threadline_schema").await, 1);
    assert_eq!(PgStore::migrate(&url).await.expect("nothing to do"), Migrated { from: 21, to: 21 });

    let other = Postgres::shared().fresh_database();
    assert_eq!(PgStore::migrate(&other).await.expect("migrates"), Migrated { from: 0, to: 21 });
    let store = PgStore::open(&other, clock()).await.expect("opens");
    assert_ne!(store.installation(), ids[0]);
}

#[tokio::test]
async fn first_attempts_of_later_generations_are_renumbered() {
    let url = Postgres::shared().fresh_database();
    let store = PgStore::open(&url, clock()).await.expect("opens");
    let created = store.create_thread(new_thread("t", "ann")).await.expect("created");
    let key = created.thread.key;
    let outcome = store.start(start_run(key, "r")).await.expect("starts");
    let StartOutcome::Started(started) = outcome else { panic!("not started: {outcome:?}") };
    store.close().await;
    // The data as an earlier program has left it, with a run that began in the second generation; then the step.
    for text in [
        "UPDATE runs SET fence = fence + 4294967296",
        "UPDATE heads SET fence = fence + 4294967296",
        "ALTER TABLE turns DROP COLUMN displaced",
        include_str!("../../../migrations/postgres/0018_displaced_attempts.sql"),
    ] {
        execute(&mut session(&url).await, text).await;
    }
    let store = PgStore::open(&url, clock()).await.expect("opens");
    let fence = Fence(started.run.fence.0 + (1 << 32));
    let found = store.run(key, &started.run.id).await.expect("reads").expect("a run");
    assert_eq!((found.fence, found.attempt, found.is_taken_up()), (fence, 1_000_001, false));
    assert!(store.append(&[append(key, fence, None, events([1]))]).await.expect("appends")[0].is_some());
    let turn = store.producer_turn(key, &started.run.id).await.expect("reads").expect("a turn");
    assert_eq!(turn.attempt, found.attempt);
    store.close().await;
}

#[tokio::test]
async fn the_command_line_migrates_and_reports_it() {
    let url = Postgres::shared().fresh_database();
    let migrate = async |url: &str| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_threadline"));
        let output = command.args(["migrate", "--store", url]).output().await.expect("runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    assert_eq!(migrate(&url).await, (Some(0), "The schema was created: version 21.\n".into(), String::new()));
    assert_eq!(migrate(&url).await, (Some(0), "The schema is up to date: version 21.\n".into(), String::new()));
    let (code, _, error) = migrate("postgres://127.0.0.1:1/none").await;
    assert_eq!(code, Some(1));
    assert!(error.contains("cannot open the database"), "{error}");
}

#[tokio::test]
async fn only_databases_of_this_program_and_version_are_opened() {
    let url = Postgres::shared().fresh_database();
    PgStore::migrate(&url).await.expect("migrates");
    execute(&mut session(&url).await, "UPDATE threadline_schema SET version = 99, min_reader = 22").await;
    let newer = PgStore::open(&url, clock()).await;
    assert!(matches!(newer, Err(OpenError::Newer { found: 99, min_reader: 22, known: 21 })), "{newer:?}");
    assert!(newer.expect_err("refused").to_string().contains("run a newer release"));
    // A newer database may allow older programs.
    execute(&mut session(&url).await, "UPDATE threadline_schema SET min_reader = 9").await;
    let store = PgStore::open(&url, clock()).await.expect("opens");
    store.create_thread(new_thread("t", "ann")).await.expect("created");
    store.close().await;
    assert_eq!(ask(&url, "SELECT version FROM threadline_schema").await, 99, "left as it was");

    let url = Postgres::shared().fresh_database();
    execute(&mut session(&url).await, "CREATE TABLE threads (subject text)").await;
    let foreign = PgStore::open(&url, clock()).await;
    assert!(matches!(foreign, Err(OpenError::Foreign)), "{foreign:?}");
    assert_eq!(ask(&url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").await, 1, "left as it was");

    let url = Postgres::shared().fresh_database();
    execute(&mut session(&url).await, "CREATE TABLE projects (subject text)").await;
    let foreign = PgStore::open(&url, clock()).await;
    assert!(matches!(foreign, Err(OpenError::Foreign)), "tables of later steps are known as well: {foreign:?}");

    let mut server = session(&url).await;
    execute(&mut server, "DROP DATABASE IF EXISTS ascii").await;
    execute(&mut server, "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0").await;
    let ascii = format!("{}/ascii", url.rsplit_once('/').expect("a path").0);
    let refused = PgStore::open(&ascii, clock()).await;
    assert!(matches!(&refused, Err(OpenError::Encoding { found }) if found == "SQL_ASCII"), "{refused:?}");

    let refused = PgStore::open("postgres://127.0.0.1:1/none", clock()).await;
    assert!(matches!(refused, Err(OpenError::Database(_))), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_may_lose_acknowledged_data_is_reported() {
    let safe_server = Postgres::start(&[]);
    let (_, store) = node(&safe_server.fresh_database(), &clock()).await;
    assert_eq!(store.findings(), []);
    let options = [("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "off")];
    let unsafe_server = Postgres::start(&options);
    let (env, store) = node(&unsafe_server.fresh_database(), &clock()).await;
    let found: Vec<_> = store.findings().iter().map(|finding| (finding.setting, finding.value.as_str())).collect();
    assert_eq!(found, [("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "off")]);
    // It works nevertheless.
    env.running("t", "r").await;
    store.close().await;
}

#[tokio::test]
async fn all_data_is_there_for_the_next_process() {
    let (url, clock) = (Postgres::shared().fresh_database(), clock());
    let (env, first) = node(&url, &clock).await;
    let (key, fence) = env.running("t", "r").await;
    env.put(key, fence, 0..300).await;
    assert!(env.store.seal(key).await.expect("seals"));
    env.put(key, fence, 300..310).await;
    env.store.request_stop(key, &run_id("r"), None, true).await.expect("stop");
    let deleted = env.create("deleted").await;
    env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    env.store.delete_thread(deleted.key, None).await.expect("deletes");
    let seen = async |env: &Env| {
        let feed = env.store.feed(&project(), &user("u"), 0, 10).await.expect("feed");
        let runs = env.store.runs(key, None, 10).await.expect("runs");
        (env.log(key).await, env.get("t").await, env.get("deleted").await, env.head(key).await, feed.entries, runs)
    };
    let before = seen(&env).await;
    first.close().await;
    assert!(env.store.heads(&[key]).await.is_err(), "closed for all clones");
    assert!(env.store.append(&[append(key, fence, None, events([1]))]).await.is_err());
    let (env, second) = node(&url, &clock).await;
    assert_eq!(seen(&env).await, before);
    assert_eq!(second.installation(), first.installation());
    assert_eq!(env.put(key, fence, [310]).await.first_seq, 311);
    assert!(env.create("next").await.key > deleted.key);
    assert_eq!(env.store.dirty_feeds(10).await.expect("dirty").len(), 1);
}

#[tokio::test]
async fn texts_that_postgres_cannot_keep_are_changed_and_not_refused() {
    let env = Env::postgres().await;
    let mut new = new_thread("t", "u");
    new.name = Some("a\0b".into());
    let CreatedThread { thread, .. } = env.store.create_thread(new).await.expect("creates");
    assert_eq!(thread.name.as_deref(), Some("a\u{fffd}b"));
    assert_eq!(env.get("t").await.as_ref(), Some(&thread), "it reads as it was answered");
    let name = Some(Some(("\0".to_owned(), threadline_core::NameSource::Auto)));
    let patch = ThreadPatch { name, metadata: None, archived: None };
    let edited =
        env.store.edit_thread(thread.key, thread.version, patch, None).await.expect("edits").expect("its version");
    assert_eq!(edited.name.as_deref(), Some("\u{fffd}"));

    let broken = "{\"type\":\"RUN_ERROR\",\"message\":\"\\u0000!\",\"code\":\"\\u0000?\"}";
    let fence = env.start(thread.key, "r").await.fence;
    env.append(append(thread.key, fence, None, ndjson(broken))).await.expect("ends");
    let whole = threadline_store::StartRun { events: Some(ndjson(broken)), ..start_run(thread.key, "whole") };
    let started = env.started(whole).await.run;
    for run in env.store.runs(thread.key, None, 10).await.expect("runs") {
        assert_eq!(run.error_message.as_deref(), Some("\u{fffd}!"));
        assert_eq!(run.error_code.as_deref(), Some("\u{fffd}?"));
    }
    assert_eq!(started.error_message.as_deref(), Some("\u{fffd}!"));
    assert_eq!(env.texts(thread.key).await, [broken, broken], "events are bytes");
}
