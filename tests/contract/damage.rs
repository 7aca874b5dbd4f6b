//! Data that the disk has changed is noticed when it is read, and never passed on.

use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use threadline_core::{ReadFrom, ThreadKey};
use threadline_store::{
    NodeStore, Snapshot, StoreError, ThreadStore, TransferStore, damaged_rows, postgres::PgStore, sqlite::SqliteStore,
};

use crate::{backing::postgres::Postgres, damaged_page::damage_index, nodes::beat, support::*};

const BODY: &str = "UPDATE log SET body = 'x' || substr(body, 2) WHERE first_seq = 2";
const SNAPSHOT: &str = "UPDATE snapshots SET body = 'x' || substr(body, 2)";

async fn seqs(store: &dyn TransferStore, key: ThreadKey, from: ReadFrom) -> Result<Vec<u64>, StoreError> {
    let page = store.read(key, from, 100).await?.expect("is there");
    Ok(page.slice.events().map(|(seq, ..)| seq).collect())
}

/// Damages what `damage` is called with, between a healthy look and one at the damage.
async fn check(env: Env, damage: impl AsyncFn(&str)) {
    let store = env.store.as_ref();
    let (key, fence) = env.running("t", "r").await;
    for n in 1..=3 {
        env.put(key, fence, [n]).await;
    }
    let snapshot = Snapshot { seq: 2, version: 1, body: "folded".into() };
    store.put_snapshot(key, snapshot, &[]).await.expect("puts");
    assert!(store.snapshot(key, 3, 1).await.expect("reads").is_some());
    assert_eq!(seqs(store, key, ReadFrom::After(0)).await.expect("reads"), [1, 2, 3]);
    let before = damaged_rows();
    damage(BODY).await;
    damage(SNAPSHOT).await;
    assert_eq!(seqs(store, key, ReadFrom::After(0)).await.expect("up to the damage"), [1]);
    assert_eq!(seqs(store, key, ReadFrom::After(2)).await.expect("behind the damage"), [3]);
    assert_eq!(seqs(store, key, ReadFrom::Before(4)).await.expect("back to the damage"), [3]);
    for from in [ReadFrom::After(1), ReadFrom::Before(3)] {
        let read = seqs(store, key, from).await;
        let damaged = |error: &StoreError| matches!(error, StoreError::Damaged { key: thread, first_seq: 2, last_seq: 2 } if *thread == key);
        assert!(read.as_ref().is_err_and(damaged), "{read:?}");
    }
    assert!(store.snapshot(key, 3, 1).await.expect("reads").is_none(), "folded from the log again");
    assert!(damaged_rows() >= before + 5);
    // The thread goes on, and sealing packs nothing that is damaged.
    env.put(key, fence, 4..1_000).await;
    env.append(append(key, fence, None, finished())).await.expect("ends");
    while store.seal(key).await.expect("seals") {}
    assert!(seqs(store, key, ReadFrom::After(1)).await.is_err());
}

#[tokio::test]
async fn a_changed_byte_is_noticed_on_sqlite() {
    let env = Env::sqlite().await;
    let path = env.dir.as_ref().expect("a directory").path().join("threadline.db");
    check(env, async |text: &str| {
        let url = format!("sqlite://{}", path.display());
        let mut own = SqliteConnection::connect(&url).await.expect("connects");
        let text = text.replace("'x' || substr(body, 2)", "CAST(x'78' || substr(body, 2) AS BLOB)");
        let done = sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut own).await.expect("changes");
        assert!(done.rows_affected() > 0);
    })
    .await;
}

#[tokio::test]
async fn a_changed_byte_is_noticed_on_postgres() {
    let url = Postgres::shared().fresh_database();
    let store = PgStore::open(&url, clock()).await.expect("opens");
    let env = Env { store: std::sync::Arc::new(store), clock: clock(), dir: None };
    check(env, async |text: &str| {
        let mut own = PgConnection::connect(&url).await.expect("connects");
        let text = text.replace("'x' || substr(body, 2)", "set_byte(body, 0, get_byte(body, 0) # 1)");
        let done = sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut own).await.expect("changes");
        assert!(done.rows_affected() > 0);
    })
    .await;
}

#[tokio::test]
async fn a_read_that_meets_a_damaged_page_ends_the_beats() {
    let env = Env::sqlite().await;
    env.create("t").await;
    let dir = env.dir.as_ref().expect("a directory").path().to_owned();
    env.store.shut_down().await;
    let file = dir.join("threadline.db");
    damage_index(&file, "threads_of_user").await;

    let store = SqliteStore::open(&dir, clock()).await.expect("opens");
    store.put_beat(&beat(1)).await.expect("no damage is known");
    let id = threadline_core::ThreadId::new("t").expect("id");
    let read = store.thread_of(&project(), &user("u"), &id).await;
    assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
    for _ in 0..2 {
        assert!(
            matches!(store.put_beat(&beat(1)).await, Err(StoreError::Corrupt(_))),
            "the node is not ready for good"
        );
    }
    store.close().await;
}
