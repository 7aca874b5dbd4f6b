//! Every hot statement is an index access, and appends rewrite heads where they stand.

use serde_json::Value;
use threadline_store::postgres::PgStore;

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
const GROUPS: [&str; 5] = ["append a group", "append a group with ends", "heartbeat", "heartbeat, waiting", "pump"];

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
            let swept =
                ["threads_dirty", "threads_deleted"].contains(&index.as_str()) || ["due", "active runs"].contains(name);
            let indexed = kind.starts_with("Index") && (condition || swept);
            if !indexed && (when != "one thread" || !GROUPS.contains(name)) {
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
        INSERT INTO log SELECT key, n * 2 + 1, n * 2 + 2, 1, 0, 2, '' FROM threads, generate_series(0, 1) n
          ON CONFLICT DO NOTHING;
        INSERT INTO annotations SELECT key, n, 'a' || n, '', NULL, 0, '1' FROM threads, generate_series(1, 2) n;
        INSERT INTO annotated SELECT key, 2 FROM threads;
        INSERT INTO projects SELECT 'p' || n, 1, '{}', '[]' FROM generate_series(1, 2000) n;
        INSERT INTO api_keys SELECT sha256(n::text::bytea), 'p' || n % 100, 'k' || n, '', 0 FROM generate_series(1, 2000) n;
        INSERT INTO socket_tickets SELECT sha256(n::text::bytea), '', n FROM generate_series(1, 20000) n;
        INSERT INTO audit (project, at, actor, action, facts) SELECT 'p' || n % 100, n, '', '', '{}' FROM generate_series(1, 20000) n;
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
    // The 50 starts made their runs active, which is in an index.
    assert_eq!(ask(&url, &count("n_tup_upd")).await, appends + 50);
    let hot = ask(&url, &count("n_tup_hot_upd")).await;
    // Most of them: a transaction that looks at the table meanwhile (a vacuum) keeps old rows in their place. With a
    // column of an index changed it would be none.
    assert!(hot * 100 >= appends * 25, "{hot} of {appends}");
}
