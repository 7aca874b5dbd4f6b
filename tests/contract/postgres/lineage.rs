//! Another history of the server: a standby that lags is promoted, a dump is loaded elsewhere, older data is put back.

use std::{fs, path::Path};

use sqlx::Executor;
use threadline_core::{Epoch, Fence, Judgement, Seq, ThreadKey, Timestamp};
use threadline_store::{
    GenerationRecord, Lineage, LineageCause, LineageState, LineageStore, LogStore, NodeStore, StoreError, StoreResult,
};

use super::{pooler::Pooler, *};
use crate::{
    backing::{Cut, Proxy, Standby},
    nodes::beat,
};

/// A primary behind an address, and its standby.
struct Pair {
    primary: Postgres,
    standby: Standby,
    proxy: Proxy,
    database: String,
    /// The database at the address.
    url: String,
}

impl Pair {
    fn start() -> Self {
        let primary = Postgres::start(&[]);
        let own = primary.fresh_database();
        let database = own.rsplit('/').next().expect("a name").to_owned();
        let proxy = Proxy::start(primary.port());
        let url = primary.url_by(&proxy.address().to_string(), &database);
        let standby = Standby::of(&primary);
        Self { primary, standby, proxy, database, url }
    }

    /// From now on the standby lags.
    fn lag(&self) {
        self.standby.catch_up(&self.primary);
        self.standby.disconnect();
    }

    /// The standby takes the primary's place and address.
    fn fail_over(&self) {
        self.primary.kill();
        self.standby.promote();
        self.proxy.retarget(self.standby.port());
        self.proxy.cut(Cut::Reset);
    }

    /// The database on the standby.
    fn promoted(&self) -> String {
        self.standby.url(&self.database)
    }
}

/// What was there before the failover: a thread with five events, of which three more were lost.
struct Before {
    key: ThreadKey,
    fence: Fence,
    epoch: Epoch,
    lost_key: ThreadKey,
    lost_fence: Fence,
    idle: ThreadKey,
}

/// Writes a history whose end only the primary has.
async fn lose_the_end(env: &Env, pair: &Pair) -> Before {
    let (key, fence) = env.running("t", "r").await;
    env.put(key, fence, 0..5).await;
    let idle = env.create("idle").await.key;
    env.store.put_ticket(&crate::identity::digest(1), "bearer", Timestamp(i64::MAX), Timestamp(0)).await.expect("puts");
    pair.lag();
    assert_eq!(env.put(key, fence, 5..8).await.head.tail, 8);
    let lost_key = env.create("lost").await.key;
    let lost_fence = env.start(idle, "lost").await.fence;
    Before { key, fence, epoch: env.head(key).await.epoch, lost_key, lost_fence, idle }
}

fn is_fenced<T: std::fmt::Debug>(answer: StoreResult<T>, cause: LineageCause) {
    assert!(matches!(answer, Err(StoreError::Fenced(name)) if name == cause.name()), "{cause:?}: {answer:?}");
}

async fn tail(url: &str, key: ThreadKey) -> Seq {
    ask(url, &format!("SELECT tail FROM heads WHERE key = {}", key.0)).await.unsigned_abs()
}

fn causes(records: &[GenerationRecord]) -> Vec<(i64, &str)> {
    records.iter().map(|record| (record.generation.0, record.cause.as_str())).collect()
}

fn known(store: &PgStore) -> Lineage {
    store.lineage().pass().expect("open")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_that_lags_is_adopted_once_before_it_takes_a_write() {
    let (pair, clock) = (Pair::start(), clock());
    let (env, a) = node(&pair.url, &clock).await;
    let (_, b) = node(&pair.url, &clock).await;
    let first = known(&a);
    let before = lose_the_end(&env, &pair).await;
    pair.fail_over();

    // A connection that was there before the server changed, as behind a pooler: the statement itself refuses.
    let append = fs::read_to_string(queries().join("append_one.sql")).expect("a file");
    let mut session = session(&pair.promoted()).await;
    execute(&mut session, &format!("PREPARE append AS {append}")).await;
    let again = format!(
        "EXECUTE append (NULL, {}, {}, NULL, 1, 10000, '\\x7b7d', NULL, NULL, 0)",
        before.key.0, before.fence.0
    );
    let refused = session.execute(AssertSqlSafe(again.clone())).await.expect_err("refused");
    assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some("TL001"), "{refused}");

    // A new connection compares the servers first. Nothing is read or written from then on.
    let append = append_of(&before);
    within(20, async {
        // The first statements may only find that their connections are broken.
        while !matches!(env.store.append(std::slice::from_ref(&append)).await, Err(StoreError::Fenced("timeline"))) {}
    })
    .await;
    is_fenced(env.store.append(&[append]).await, LineageCause::Timeline);
    is_fenced(env.store.heads(&[before.key]).await, LineageCause::Timeline);
    assert_eq!(a.lineage().state(), LineageState::Fenced { known: first, cause: LineageCause::Timeline });
    assert_eq!(tail(&pair.promoted(), before.key).await, 5);

    // Three adopt at once.
    let (one, two, third) =
        tokio::join!(a.adopt(LineageCause::Timeline), b.adopt(LineageCause::Timeline), PgStore::open(&pair.url, clock));
    let (one, third) = (one.expect("adopts"), third.expect("opens"));
    assert_eq!((one, two.expect("adopts")), (known(&third), one));
    assert_eq!(causes(&third.generations(10).await.expect("a list")), [(2, "timeline"), (1, "created")]);
    a.lineage().open(one);
    b.lineage().open(one);
    judged_and_given_once(&env, &before, one).await;
    assert_eq!(ask(&pair.promoted(), "SELECT count(*) FROM socket_tickets").await, 0, "tickets may have been used");
    execute(&mut session, &again).await;
    assert_eq!(tail(&pair.promoted(), before.key).await, 7, "an adopted history takes writes");
}

fn append_of(before: &Before) -> threadline_store::Append {
    append(before.key, before.fence, None, events(100..101))
}

/// Checks that each cursor is judged right and that nothing is given a second time.
async fn judged_and_given_once(env: &Env, before: &Before, adopted: Lineage) {
    let generation = adopted.generation;
    let head = env.head(before.key).await;
    let judge =
        |head: &threadline_store::Head, seq| head.history().judge(head.tail, Some(before.epoch), seq, generation);
    let lost = Judgement::Replaced { common_up_to: Some(5) };
    assert_eq!((head.tail, judge(&head, 5), judge(&head, 6), judge(&head, 8)), (5, Judgement::Continues, lost, lost));
    let head = env.append(append_of(before)).await.expect("the run continues").head;
    assert_eq!((head.tail, judge(&head, 5), judge(&head, 6)), (6, Judgement::Rebased, lost));
    assert_ne!(head.epoch, before.epoch);

    let key = env.create("after").await.key;
    assert!(key != before.lost_key && key.0 > generation.key_floor(), "{key:?}");
    let fence = env.start(before.idle, "after").await.fence;
    assert!(fence != before.lost_fence && fence.0 == generation.fence_floor() + 1, "{fence:?}");
}

/// The statement of a group moves only heads of the present generation: an append alone takes a log into it.
#[tokio::test]
async fn a_group_leaves_logs_of_another_generation_to_single_appends() {
    let url = Postgres::shared().fresh_database();
    let (env, _) = node(&url, &clock()).await;
    let runs = [env.running("a", "r").await, env.running("b", "r").await];
    let mut first = Vec::new();
    for (key, fence) in runs {
        first.push(env.put(key, fence, 0..1).await.head);
    }
    let opened = "INSERT INTO lineage SELECT generation + 1, 5, system_id, timeline, lsn, at, cause FROM lineage";
    execute(&mut session(&url).await, opened).await;

    let (env, _) = node(&url, &clock()).await;
    let [a, b] = runs.map(|(key, fence)| append(key, fence, None, events(1..3)));
    let alone = env.append(a.clone()).await.expect("appended").head;
    assert_eq!((alone.tail, alone.generation.0), (3, 2));
    assert_eq!(alone.prior.expect("an epoch before").epoch, first[0].epoch);

    let group = env.store.append(&[a.clone(), b.clone()]).await.expect("answers");
    let tails: Vec<_> = group.iter().map(|answer| answer.as_ref().map(|answer| answer.head.tail)).collect();
    assert_eq!((tails, env.head(b.key).await), (vec![Some(5), None], first[1].clone()));

    env.append(b.clone()).await.expect("appended");
    let group = env.store.append(&[a, b]).await.expect("answers");
    let heads: Vec<_> = group.into_iter().map(|answer| answer.expect("appended").head).collect();
    let seen: Vec<_> = heads.iter().map(|head| (head.tail, head.generation.0)).collect();
    assert_eq!((seen, heads[0].epoch), (vec![(7, 2), (5, 2)], alone.epoch));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_changes_servers_under_a_connection_hides_no_failover() {
    let pair = Pair::start();
    let pooler = Pooler::start(&pair.url).await;
    let pooled = format!("postgres://postgres@127.0.0.1:{}/{}?pooler=transaction", pooler.port, pair.database);
    let (env, store) = node(&pooled, &clock()).await;
    let before = lose_the_end(&env, &pair).await;
    pair.fail_over();
    within(20, async {
        // The pooler gives the old connection a new session.
        while !matches!(env.store.append(&[append_of(&before)]).await, Err(StoreError::Fenced("timeline"))) {}
    })
    .await;
    assert_eq!(tail(&pair.promoted(), before.key).await, 5);
    let adopted = store.adopt(LineageCause::Timeline).await.expect("adopts");
    store.lineage().open(adopted);
    judged_and_given_once(&env, &before, adopted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_that_is_loaded_into_another_cluster_opens_a_generation() {
    let (clock, url) = (clock(), Postgres::shared().fresh_database());
    let (env, store) = node(&url, &clock).await;
    let key = env.create("t").await.key;
    let dump = Postgres::shared().dump(&url);
    let elsewhere = Postgres::start_apart(&[]);
    let copy = elsewhere.fresh_database();
    elsewhere.load(&copy, &dump);
    let (env, copied) = node(&copy, &clock).await;
    assert_eq!(causes(&copied.generations(10).await.expect("a list")), [(2, "system"), (1, "created")]);
    assert!(env.create("u").await.key.0 > known(&copied).generation.key_floor() && env.head(key).await.tail == 0);
    assert_eq!(causes(&store.generations(10).await.expect("a list")), [(1, "created")]);
    // A restart of the node, and of the server, is no change.
    copied.close().await;
    elsewhere.restart();
    assert_eq!(known(&node(&copy, &clock).await.1), known(&copied));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_not_served_from_until_it_is_promoted() {
    let (pair, clock) = (Pair::start(), clock());
    let (env, primary) = node(&pair.url, &clock).await;
    let key = env.create("t").await.key;
    pair.standby.catch_up(&pair.primary);
    let (env, store) = node(&pair.promoted(), &clock).await;
    assert_eq!(store.lineage().state(), LineageState::Fenced { known: known(&primary), cause: LineageCause::Standby });
    is_fenced(env.store.heads(&[key]).await, LineageCause::Standby);
    assert!(store.adopt(LineageCause::Standby).await.is_err(), "it has no history of its own");
    pair.fail_over();
    let adopted = store.adopt(LineageCause::Standby).await.expect("adopts");
    store.lineage().open(adopted);
    assert_eq!(causes(&store.generations(1).await.expect("a list")), [(2, "timeline")]);
    assert_eq!(env.head(key).await.tail, 0);

    // A server that becomes a standby is not served from either, and is the same history if it comes back as it was.
    pair.standby.restart_as_standby();
    within(20, async { while !matches!(store.heads(&[key]).await, Err(StoreError::Fenced("standby"))) {} }).await;
    fs::remove_file(pair.standby.home().join("data/standby.signal")).expect("removed");
    pair.standby.restart();
    assert_eq!(store.adopt(LineageCause::Standby).await.expect("compares"), adopted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_data_under_the_same_timeline_is_found_before_the_first_statement() {
    let postgres = Postgres::start(&[]);
    let (url, clock) = (postgres.fresh_database(), clock());
    let (env, store) = node(&url, &clock).await;
    let (key, fence) = env.running("t", "r").await;
    env.put(key, fence, 0..5).await;
    assert_eq!(store.put_beat(&beat(1)).await.expect("commits").number, 1);
    postgres.keep();
    within(20, async { while store.put_beat(&beat(1)).await.is_err() {} }).await;
    let acknowledged = within(20, async {
        loop {
            match store.append(&[append(key, fence, None, events(5..8))]).await {
                Ok(mut answers) => break answers.pop().flatten().expect("appended"),
                Err(error) => assert!(!matches!(error, StoreError::Fenced(_)), "no loss: {error}"),
            }
        }
    })
    .await;
    assert_eq!(acknowledged.head.tail, 8);
    postgres.put_back();
    let again = append(key, fence, None, events(50..51));
    within(20, async {
        loop {
            match store.append(std::slice::from_ref(&again)).await {
                Ok(answer) => panic!("seq 6 is given to a second event: {answer:?}"),
                Err(StoreError::Fenced("rolled-back")) => break,
                Err(_) => {}
            }
        }
    })
    .await;
    let adopted = store.adopt(LineageCause::RolledBack).await.expect("adopts");
    store.lineage().open(adopted);
    assert_eq!(causes(&store.generations(1).await.expect("a list")), [(2, "rolled-back")]);
    // The present history is known now, also to new connections.
    let head = env.append(again).await.expect("the run continues").head;
    let judged = head.history().judge(head.tail, Some(acknowledged.head.epoch), 8, adopted.generation);
    assert_eq!(judged, Judgement::Replaced { common_up_to: Some(5) });
}

fn queries() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/store/queries/postgres")
}

/// Statements that insert into the log and do not ask for the generation.
const UNFENCED: [(&str, &str); 3] = [
    ("seal_swap", "replaces rows by their own content, and only if they are there: a log stays what it is"),
    ("stage", "fills a thread that is not visible; `publish` asks when the thread becomes visible"),
    ("stage_more", "as `stage`"),
];

/// A history that is not adopted takes no write to a log, from whatever connection.
#[test]
fn every_statement_that_changes_a_log_asks_for_the_generation() {
    let mut found = 0;
    for entry in fs::read_dir(queries()).expect("queries") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a text");
        let code: String =
            text.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join(" ");
        let has = |fragment: &str| text.contains(&format!("-- <fragment {fragment}>"));
        // A statement that leaves out the logs of other generations has none to move.
        let stays = code.contains("AND h.generation = c.generation");
        let updates = code.contains("UPDATE heads");
        let inserts = code.contains("INSERT INTO heads") || code.contains("INSERT INTO log");
        if UNFENCED.iter().any(|(unfenced, _)| *unfenced == name) {
            assert!(inserts && !updates && !has("clock"), "{name} is no exception any more");
            continue;
        }
        found += usize::from(updates || inserts);
        assert!(!(updates || inserts) || has("clock"), "{name} writes to a log of any history");
        assert!(!updates || has("generation") || stays, "{name} changes a head and does not enter the generation");
    }
    assert!(found >= 12, "only {found} statements write to a log");
}
