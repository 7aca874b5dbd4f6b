//! Every hot statement is an index access, and appends rewrite heads where they stand.

use std::ops::RangeInclusive;

use serde_json::Value;
use sqlx::Row;
use threadline_core::limits::{PACK_FIRST_LOOK, PACK_IDLE};
use threadline_store::{JobEnd, JobKind, Packing, postgres::PgStore};

use super::*;

/// Relations that are read, with how, in a plan.
fn scans(node: &Value, found: &mut Vec<(String, String, String, bool)>) {
    let text = |name: &str| node[name].as_str().unwrap_or_default().to_owned();
    if node["Relation Name"].is_string() && node["Node Type"] != "ModifyTable" {
        let condition = node["Index Cond"].is_string();
        found.push((text("Relation Name"), text("Node Type"), text("Index Name"), condition));
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        scans(child, found);
    }
}

fn joins(node: &Value, found: &mut Vec<String>) {
    found.extend(node["Node Type"].as_str().map(str::to_owned));
    for child in node["Plans"].as_array().into_iter().flatten() {
        joins(child, found);
    }
}

/// Changes of several threads at once, which may walk over a table that has only a few rows. As it grows, Postgres looks again.
const GROUPS: [&str; 10] = [
    "append a group",
    "append a group with ends",
    "heartbeat",
    "heartbeat, waiting",
    "pump",
    "claim of due runs",
    "take jobs",
    "trash",
    "sums added",
    "claim of turns",
];
/// Statements whose tables have no rows here, so that any of their indexes is as near.
const EMPTY: [&str; 2] = ["claim of a tool call", "write of a plain stream"];
/// Statements whose table has rows in the large database only.
const LATE: [&str; 3] = ["expired key-value entries", "purge of key-value entries", "items that are over"];

async fn check(url: &str, when: &str) {
    let plans = PgStore::plans(url).await.expect("plans");
    let (mut seen, mut wrong) = (0, Vec::new());
    for (name, plan) in &plans {
        if std::env::var("SHOW").is_ok_and(|show| show == *name) {
            println!("{when} {plan}");
        }
        let plan: Value = serde_json::from_str(plan).expect("JSON");
        let (mut found, mut nodes) = (Vec::new(), Vec::new());
        scans(&plan[0]["Plan"], &mut found);
        joins(&plan[0]["Plan"], &mut nodes);
        for (relation, kind, index, condition) in found {
            seen += 1;
            // Sweeps walk over partial indexes that hold only what is to be swept.
            let swept = ["threads_dirty", "threads_deleted"].contains(&index.as_str());
            // A row whose place an index gave before is as near.
            let indexed = kind.starts_with("Index") && (condition || swept) || kind == "Tid Scan";
            let near = EMPTY.contains(name) || when != "large" && LATE.contains(name);
            if !indexed && !near && (when != "one thread" || !GROUPS.contains(name)) {
                wrong.push(format!("{name}: {kind} {index} on {relation}"));
            }
        }
        let joined = nodes.iter().filter(|node| node.starts_with("Hash") || node.starts_with("Merge"));
        wrong.extend(joined.map(|node| format!("{name}: {node}")));
    }
    assert!(wrong.is_empty(), "{when}: {wrong:#?}");
    assert!(plans.len() > 30 && seen > 110, "{} plans with {seen} scans", plans.len());
}

#[tokio::test]
async fn hot_statements_use_an_index() {
    let url = Postgres::shared().fresh_database();
    let (env, _) = node(&url, &clock()).await;
    let mut own = session(&url).await;
    check(&url, "empty").await;
    env.running("one", "r").await;
    execute(&mut own, "VACUUM ANALYZE").await;
    check(&url, "one thread").await;
    for n in 0..40 {
        let (key, fence) = env.running(&format!("t{n}"), "r").await;
        env.put(key, fence, 0..3).await;
        env.append(append(key, fence, None, finished())).await.expect("appended");
        env.start(key, "next").await;
    }
    execute(&mut own, "VACUUM ANALYZE").await;
    check(&url, "small").await;
    // As many rows as make the planner think again.
    let many = "INSERT INTO threads (project, id, user_id, created_at, updated_at, sort_at, created_with, metadata)
          SELECT 'p', 'x' || n, 'u' || n % 100, n, n, n, '', '{}' FROM generate_series(1, 20000) n;
        INSERT INTO heads (key, epoch, tail, fence, active) SELECT key, 1, 3, 1, key % 100 = 0 FROM threads
          ON CONFLICT DO NOTHING;
        INSERT INTO runs (key, fence, id, status, first_seq, producer_seq, started_at)
          SELECT key, 1, 'r', 2, 1, 3, 0 FROM threads ON CONFLICT DO NOTHING;
        INSERT INTO turns SELECT key, 'r', project, user_id, NULL, 0, NULL, key FROM threads WHERE key % 100 = 0
          ON CONFLICT DO NOTHING;
        INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body) SELECT key, n * 2 + 1, n * 2 + 2, 1, 0, 2, '' FROM threads, generate_series(0, 1) n
          ON CONFLICT DO NOTHING;
        INSERT INTO jobs SELECT 'pack', key::text, key FROM threads ON CONFLICT DO NOTHING;
        INSERT INTO annotations SELECT key, n, 'a' || n, '', NULL, 0, '1' FROM threads, generate_series(1, 2) n;
        INSERT INTO annotated SELECT key, 2 FROM threads;
        INSERT INTO projects SELECT 'p' || n, 1, '{}', '[]' FROM generate_series(1, 2000) n;
        INSERT INTO api_keys SELECT sha256(n::text::bytea), 'p' || n % 100, 'k' || n, '', 0 FROM generate_series(1, 2000) n;
        INSERT INTO socket_tickets SELECT sha256(n::text::bytea), '', n FROM generate_series(1, 20000) n;
        INSERT INTO audit (project, at, actor, action, facts) SELECT 'p' || n % 100, n, '', '', '{}' FROM generate_series(1, 20000) n;
        INSERT INTO item_lists SELECT key, 'l', 't', 2, 3 FROM threads;
        INSERT INTO items SELECT key, 'l', n, 1, '1', CASE WHEN key % 50 = 0 THEN key END, 't' FROM threads, generate_series(1, 2) n;
        INSERT INTO item_ops SELECT key, 'l', 'o', '', '', key FROM threads;
        INSERT INTO agent_data SELECT key, 2 FROM threads;
        INSERT INTO checkpoints SELECT key, 'n', 'i' || n, 'p', 'u' || key % 100, NULL, CASE WHEN key % 50 = 0 THEN 'r' || key END, '', '', '{}', '[[1,1]]', 2, 0
          FROM threads, generate_series(1, 2) n;
        INSERT INTO checkpoint_blobs SELECT key, 'n', 'c', n, '', '', 1 FROM threads, generate_series(1, 2) n;
        INSERT INTO loose_blobs SELECT key, 'n', 'c', n, key FROM threads, generate_series(1, 2) n;
        INSERT INTO checkpoint_writes SELECT key, 'n', 'i1', 't', n, '', 'c', '', '', 1 FROM threads, generate_series(1, 2) n;
        INSERT INTO kv SELECT 'p', 'u' || n % 10, 'n' || n % 100 || chr(31), 'k' || n, '1', 1, 't', n, n, n, n FROM generate_series(1, 20000) n;
        INSERT INTO usage SELECT 'p' || n % 10, 'u' || n, n, 1, n FROM generate_series(1, 20000) n;
        INSERT INTO feed_entries SELECT 'p', user_id, id, key, key FROM threads ON CONFLICT DO NOTHING;
        VACUUM ANALYZE";
    for statement in many.split(';') {
        execute(&mut own, statement).await;
    }
    check(&url, "large").await;
}

#[tokio::test]
async fn appends_rewrite_heads_in_place() {
    let url = Postgres::shared().fresh_database();
    let (env, store) = node(&url, &clock()).await;
    let mut running = Vec::new();
    for n in 0..50 {
        running.push(env.running(&format!("t{n}"), "r").await);
    }
    let mut appends = 0;
    for round in 0..40 {
        let batch: Vec<_> = running.iter().map(|(key, fence)| append(*key, *fence, None, events([round]))).collect();
        appends += env.store.append(&batch).await.expect("appends").iter().flatten().count() as i64;
        let (key, fence) = running[round as usize % 50];
        env.put(key, fence, [round]).await;
        appends += 1;
    }
    assert_eq!(appends, 40 * 51);
    // Sessions report what they did when they end.
    store.close().await;
    let count = |what: &str| format!("SELECT {what} FROM pg_stat_user_tables WHERE relname = 'heads'");
    within(30, async {
        while ask(&url, &count("n_tup_upd")).await < appends + 50 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(ask(&url, &count("n_tup_upd")).await, appends + 50);
    let hot = ask(&url, &count("n_tup_hot_upd")).await;
    // Most of them: a transaction that looks at the table meanwhile (a vacuum) keeps old rows in their place. With a
    // column of an index changed it would be none.
    assert!(hot * 100 >= appends * 25, "{hot} of {appends}");
}

/// Rows of tables that a plan has visited.
fn visited(node: &Value) -> u64 {
    let count = |name: &str| node[name].as_f64().unwrap_or_default();
    let own = match node["Relation Name"].is_string() && node["Node Type"] != "ModifyTable" {
        true => (count("Actual Rows") + count("Rows Removed by Filter")) * count("Actual Loops"),
        false => 0.0,
    };
    own as u64 + node["Plans"].as_array().into_iter().flatten().map(visited).sum::<u64>()
}

/// Executes the statement of a file, and checks how many rows it visits.
async fn check_visited(own: &mut PgConnection, name: &str, arguments: &str, wanted: RangeInclusive<u64>) {
    let file = format!("{}/crates/store/queries/postgres/{name}.sql", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(file).expect("a statement");
    execute(own, &format!("DEALLOCATE ALL; PREPARE measured AS {text}")).await;
    // Often enough for the plan that holds for any argument.
    for _ in 0..6 {
        execute(own, &format!("BEGIN; EXECUTE measured ({arguments}); ROLLBACK")).await;
    }
    let explain = AssertSqlSafe(format!("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE measured ({arguments})"));
    execute(own, "BEGIN").await;
    let row = sqlx::raw_sql(explain).fetch_one(&mut *own).await.expect("a plan");
    let plan: String = row.try_get_unchecked(0).expect("a text");
    execute(own, "ROLLBACK").await;
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    let rows = visited(&plan[0]["Plan"]);
    assert!(wanted.contains(&rows), "{name} ({arguments}) visited {rows} rows: {plan:#}");
}

#[tokio::test]
async fn background_work_visits_no_jobs_of_others() {
    background_work_beside(100_000).await;
}

#[tokio::test]
#[ignore = "takes minutes: make test-full"]
async fn background_work_visits_no_jobs_of_a_million_threads() {
    background_work_beside(1_000_000).await;
}

/// Checks the rows that background work for five threads visits beside those of so many others.
async fn background_work_beside(others: i64) {
    let url = Postgres::shared().fresh_database();
    let (env, store) = node(&url, &clock()).await;
    for n in 0..5 {
        let (key, fence) = env.running(&format!("t{n}"), "r").await;
        env.put(key, fence, 0..20).await;
        env.append(append(key, fence, None, finished())).await.expect("ends");
    }
    let key = env.get("t0").await.expect("there").key.0;
    let mut own = store.connection().await.expect("connects");
    execute(&mut own, "SET statement_timeout = 0").await;
    env.clock.advance(PACK_FIRST_LOOK);
    let now = env.clock.now().0;
    // Jobs of this kind that are due later, and jobs of another kind that are due, for as many threads.
    let rows = format!(
        "INSERT INTO threads (project, id, user_id, created_at, updated_at, sort_at, created_with, metadata)
          SELECT 'other', 'x' || n, 'u' || n % 1000, n, n, n, '', '{{}}' FROM generate_series(1, {others}) n;
        INSERT INTO heads (key, epoch, tail, fence) SELECT key, 1, 0, 1 FROM threads WHERE project = 'other';
        INSERT INTO jobs (kind, ref, due_at) SELECT 'pack', key::text, {now} + 1 + key FROM threads WHERE project = 'other';
        INSERT INTO jobs (kind, ref, due_at) SELECT 'seal', key::text, {now} - key FROM threads WHERE project = 'other';
        ANALYZE"
    );
    for statement in rows.split(';') {
        execute(&mut own, statement).await;
    }
    // Jobs that were claimed at once have the same time.
    let due = now;
    for (name, arguments, wanted) in [
        ("take_jobs", format!("{now}, 'pack', 60000, 32"), 5..=20),
        ("take_jobs", format!("{now}, 'seal', 60000, 32"), 32..=100),
        ("take_jobs", format!("{now}, 'purge', 60000, 32"), 0..=1),
        ("end_job", format!("'pack', '{key}', {due}, {key}, 21"), 1..=40),
        ("delay_job", format!("{now}, 'pack', '{key}', {due}, 1000, 0"), 1..=40),
        ("job_levels", format!("{now}, 'pack', 1000"), 1..=3),
        ("idle_since", format!("{now}, {key}"), 2..=2),
        ("idle", format!("'p', {}, {}, 0, 500", i64::MAX, i64::MIN), 5..=30),
        ("count_idle", format!("'p', {}, 1000000", i64::MAX), 5..=30),
        ("tombstone", format!("{now}, {key}"), 1..=1),
    ] {
        check_visited(&mut own, name, &arguments, wanted).await;
    }
    let jobs = env.store.take_jobs(JobKind::Pack, 32).await.expect("takes");
    assert_eq!(jobs.len(), 5);
    for job in jobs {
        assert_eq!(
            env.store.pack(job.subject.thread().expect("a thread"), PACK_IDLE).await.expect("packs"),
            Packing::More
        );
        assert_eq!(
            ask(&url, &format!("SELECT count(*) FROM log WHERE key = {}", job.subject.thread().expect("a thread").0))
                .await,
            1
        );
        let end = JobEnd::DoneAt(env.head(job.subject.thread().expect("a thread")).await.tail);
        env.store.end_job(&job, end).await.expect("ends");
    }
    assert_eq!(ask(&url, "SELECT count(*) FROM jobs WHERE kind = 'pack'").await, others);
}

#[tokio::test]
async fn quota_and_reaper_visit_no_runs_of_others() {
    quota_and_reaper_beside(100_000).await;
}

#[tokio::test]
#[ignore = "takes minutes: make test-full"]
async fn quota_and_reaper_visit_no_runs_of_a_million_threads() {
    quota_and_reaper_beside(1_000_000).await;
}

/// Checks the rows that the quota and the reaper visit for five active runs beside so many others.
async fn quota_and_reaper_beside(others: i64) {
    let url = Postgres::shared().fresh_database();
    let (env, store) = node(&url, &clock()).await;
    for n in 0..5 {
        env.running(&format!("t{n}"), "r").await;
    }
    let mut own = store.connection().await.expect("connects");
    execute(&mut own, "SET statement_timeout = 0").await;
    let rows = format!(
        "INSERT INTO threads (project, id, user_id, created_at, updated_at, sort_at, created_with, metadata)
          SELECT 'other', 'x' || n, 'u' || n % 1000, n, n, n, '', '{{}}' FROM generate_series(1, {others}) n;
        INSERT INTO heads (key, epoch, tail, fence, active, run, lease_until)
          SELECT key, 1, 0, 1, TRUE, 'r', {now} + 60000 FROM threads WHERE project = 'other';
        INSERT INTO runs (key, fence, id, status, first_seq, producer_seq, started_at)
          SELECT key, 1, 'r', 0, 1, 0, 0 FROM threads WHERE project = 'other';
        INSERT INTO turns (key, run, project, user_id, at, check_at)
          SELECT key, 'r', project, user_id, 0, {now} + 60000 FROM threads WHERE project = 'other';
        ANALYZE",
        now = env.clock.now().0
    );
    for statement in rows.split(';') {
        execute(&mut own, statement).await;
    }
    env.clock.advance(LEASE);
    let now = env.clock.now().0;
    let statements = [
        ("active_runs", "'p', 'u', 10, 10".to_owned()),
        ("active_runs", "'other', 'u7', 20, 5".to_owned()),
        ("claim_due", format!("{now}, 10000, 2000, 500, {now}")),
    ];
    for (name, arguments) in statements {
        check_visited(&mut own, name, &arguments, 5..=30).await;
    }
    assert_eq!(ask(&url, "SELECT count(*) FROM turns WHERE check_at > 0").await, others + 5);
}

#[tokio::test]
async fn lists_by_status_visit_no_threads_in_another_state() {
    lists_by_status_beside(50_000).await;
}

#[tokio::test]
#[ignore = "takes minutes: make test-full"]
async fn lists_by_status_visit_none_of_a_million_threads_in_another_state() {
    lists_by_status_beside(1_000_000).await;
}

/// Checks the rows that lists of five running and of thirty failed threads visit beside so many idle threads of the same
/// user. A list of idle threads visits its page, and what it leaves out on the way.
async fn lists_by_status_beside(others: i64) {
    let url = Postgres::shared().fresh_database();
    let (env, store) = node(&url, &clock()).await;
    let mut own = store.connection().await.expect("connects");
    execute(&mut own, "SET statement_timeout = 0").await;
    // The newest, or the oldest, of which no list is to go through the others.
    let now = env.clock.now().0;
    let rows = format!(
        "INSERT INTO threads (project, id, user_id, created_at, updated_at, sort_at, created_with, metadata, last_status, last_run)
          SELECT 'p', 'x' || n, 'u', {now} + n, {now} + n, {now} + n, '', '{{}}', 2, 'r' FROM generate_series(1, {others}) n;
        INSERT INTO heads (key, epoch, tail, fence) SELECT key, 1, 0, 1 FROM threads;
        INSERT INTO runs (key, fence, id, status, first_seq, producer_seq, started_at, ended_at)
          SELECT key, 1, 'r', 2, 1, 0, 0, 0 FROM threads"
    );
    for statement in rows.split(';') {
        execute(&mut own, statement).await;
    }
    for n in 0..35 {
        let (key, fence) = env.running(&format!("t{n}"), "r").await;
        if n < 30 {
            env.append(append(key, fence, None, run_error())).await.expect("ends");
        }
    }
    execute(&mut own, "VACUUM ANALYZE threads, heads, runs, turns").await;
    let (first, last) = (i64::MAX, i64::MIN);
    for (name, arguments, wanted) in [
        ("list_running", format!("'p', 'u', FALSE, NULL, {first}, '', 10, TRUE"), 15..=40),
        ("list_running", format!("'p', 'u', FALSE, NULL, {last}, '', 10, FALSE"), 15..=40),
        ("list_recent_failed", format!("'p', 'u', FALSE, NULL, {first}, '', 10"), 20..=40),
        ("list_created_failed", format!("'p', 'u', FALSE, NULL, {last}, '', 10"), 20..=40),
        ("list_recent", format!("'p', 'u', FALSE, NULL, {first}, '', 10, TRUE"), 20..=40),
        ("list_created", format!("'p', 'u', FALSE, NULL, {last}, '', 10, TRUE"), 20..=80),
        ("list_recent", format!("'p', 'u', FALSE, NULL, {first}, '', 10, FALSE"), 20..=40),
    ] {
        check_visited(&mut own, name, &arguments, wanted).await;
    }
}
