//! Work without a client, of which the answer of each statement that writes is lost in turn, after Postgres has executed it:
//! jobs of nodes, and imports. Tried again, it is done once.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::block_in_place;

use crate::{
    backing::{AnswerProxy, Postgres},
    backups::{PROGRAM, run},
    cluster::*,
    server::Server,
};

const KEY: &str = "the-operators-key-of-this-test";
/// More statements than any of this work needs.
const MOST: usize = 60;
/// Time in which a node looks for jobs and carries one out.
const RETRY: Duration = Duration::from_secs(2);
/// Parts of the statements that carry out jobs and end them.
const JOBS: [&str; 9] = [
    "WITH quiet",
    "SET due_at = c.now + $5",
    "INTO sealing",
    "WITH wanted",
    "WITH doomed",
    "WITH empty",
    "SET deleted = 4",
    "SET deleted = 1 FROM gone",
    "INTO audit",
];

/// Has the thread unused for long.
const UNUSED: &str = "UPDATE threads SET sort_at = 1, created_at = 1, last_run_at = 1 WHERE key = KEY;
    UPDATE runs SET started_at = 1, ended_at = 1 WHERE key = KEY";
/// Makes a job due that was claimed or put back.
const DUE_AGAIN: &str = "UPDATE jobs SET due_at = 0 WHERE kind = 'KIND' AND ref IN ('KEY', 'ID')";

/// A kind of job. Each attempt has a thread of its own; the thread, its user and its project have the same id.
struct Work {
    kind: &'static str,
    /// SQL that makes the job due; the thread has been unused for long.
    due: &'static str,
    /// SQL for what the job leaves, as one text.
    left: &'static str,
    /// Text of `left` after a job that was done once.
    done: &'static str,
}

/// Rows of the log: each compressed or not.
const LOG: &str =
    "SELECT string_agg(concat(first_seq, '-', last_seq, CASE WHEN octet_length(body) < raw THEN ' compressed' END), ' '
    ORDER BY first_seq) FROM log WHERE key = KEY";
const WORK: [Work; 4] = [
    Work {
        kind: "seal",
        due: "INSERT INTO jobs VALUES ('seal', 'KEY', 0) ON CONFLICT (kind, ref) DO UPDATE SET due_at = 0",
        left: LOG,
        done: "1-302 compressed",
    },
    Work {
        kind: "pack",
        due: "INSERT INTO jobs VALUES ('pack', 'KEY', 0) ON CONFLICT (kind, ref) DO UPDATE SET due_at = 0",
        left: LOG,
        done: "1-302 compressed",
    },
    Work {
        kind: "purge",
        // The thread is deleted.
        due: "",
        left: "SELECT concat((SELECT count(*) FROM log WHERE key = KEY), (SELECT count(*) FROM runs WHERE key = KEY),
            (SELECT count(*) FROM heads WHERE abs(key) = KEY))",
        done: "000",
    },
    Work {
        kind: "retention",
        due: "INSERT INTO jobs VALUES ('retention', 'ID', 0)",
        left: "SELECT concat(t.deleted, ' ', (SELECT count(*) FROM jobs WHERE ref = 'KEY' AND kind = 'purge'), ' ',
            (SELECT count(DISTINCT facts) FROM audit WHERE project = 'ID' AND action = 'retention.trashes'))
            FROM threads t WHERE key = KEY",
        done: "4 1 1",
    },
];

/// Thread, user and project of an attempt.
struct Attempt<'a> {
    id: String,
    key: i64,
    work: &'a Work,
}

impl Attempt<'_> {
    fn text(&self, sql: &str) -> AssertSqlSafe<String> {
        let text = sql.replace("KEY", &self.key.to_string()).replace("KIND", self.work.kind);
        AssertSqlSafe(text.replace("ID", &self.id))
    }

    async fn run(&self, sql: &mut PgConnection, text: &str) {
        sqlx::raw_sql(self.text(text)).execute(sql).await.expect("SQL");
    }

    async fn left(&self, sql: &mut PgConnection) -> Option<String> {
        let text = format!("SELECT ({})::text", self.work.left);
        sqlx::query_scalar(self.text(&text)).fetch_one(sql).await.expect("SQL")
    }

    /// True once no node has the job to do: it is gone, or due in an hour.
    async fn is_done(&self, sql: &mut PgConnection) -> bool {
        let text = "SELECT NOT EXISTS (SELECT 1 FROM jobs WHERE kind = 'KIND' AND ref IN ('KEY', 'ID')
            AND due_at < extract(epoch FROM clock_timestamp()) * 1000 + 1800000)";
        sqlx::query_scalar(self.text(text)).fetch_one(sql).await.expect("SQL")
    }
}

fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().expect("a client")
}

fn of_user(id: &str, request: RequestBuilder) -> RequestBuilder {
    request.header("threadline-project", id).header("threadline-user", id)
}

async fn sent(request: RequestBuilder) {
    let answer = request.bearer_auth(KEY).send().await.expect("an answer");
    assert!(answer.status().is_success(), "{}", answer.text().await.expect("a text"));
}

/// A project with retention, and in it a thread with a complete run that is long enough for a segment.
async fn fill(node: &Server, id: &str) {
    let http = http();
    let put = |path: &str, body: Value| http.request(Method::PUT, format!("{}{path}", node.url)).json(&body);
    let settings = json!({ "generateThreadNames": false, "retention": { "deleteAfterDays": 30 } });
    sent(put(&format!("/v1/projects/{id}"), settings)).await;
    sent(of_user(id, http.post(format!("{}/v1/threads", node.url))).json(&json!({ "threadId": id }))).await;
    let mut events = vec![json!({ "type": "RUN_STARTED" })];
    events.extend((0..300).map(|n| json!({ "type": "CUSTOM", "name": "n", "value": n })));
    events.push(json!({ "type": "RUN_FINISHED" }));
    sent(of_user(id, put(&format!("/v1/threads/{id}/runs/r"), events.into()))).await;
}

/// The database of a cluster, through a proxy.
fn through(proxy: &AnswerProxy, postgres: &Postgres, database: &str) -> String {
    let name = database.rsplit('/').next().expect("a name");
    postgres.url_by(&proxy.address().to_string(), name)
}

async fn tried_again(work: &Work) {
    let kind = work.kind;
    let (postgres, cluster) = block_in_place(|| (Postgres::shared(), Cluster::start(0)));
    let proxy = AnswerProxy::start(postgres.port(), |text| JOBS.iter().any(|part| text.contains(part)));
    let store = through(&proxy, postgres, &cluster.database);
    let command = with_key(cluster.command(&store, &cluster.redis.url()), KEY);
    let node = block_in_place(|| Server::start(command));
    let mut sql = PgConnection::connect(&cluster.database).await.expect("connects");
    let (mut attempts, mut lost) = (Vec::new(), Vec::new());
    for number in 0..MOST {
        let id = format!("{kind}-{number}");
        fill(&node, &id).await;
        let key = sqlx::query_scalar("SELECT key FROM threads WHERE id = $1");
        let key = key.bind(&id).fetch_one(&mut sql).await.expect("SQL");
        let attempt = Attempt { id, key, work };
        attempt.run(&mut sql, UNUSED).await;
        // The first attempt loses nothing.
        if let Some(nth) = number.checked_sub(1) {
            proxy.lose_after(nth);
        }
        if work.due.is_empty() {
            sent(of_user(&attempt.id, http().delete(format!("{}/v1/threads/{}", node.url, attempt.id)))).await;
        }
        attempt.run(&mut sql, work.due).await;
        let mut due_at = Instant::now();
        eventually(kind, async || {
            if due_at.elapsed() > RETRY {
                // A claim ends in a minute, and so does the pause after a failure. Also without a lost answer: what another
                // job has locked is left for the next time.
                attempt.run(&mut sql, UNUSED).await;
                attempt.run(&mut sql, DUE_AGAIN).await;
                due_at = Instant::now();
            }
            let left = attempt.left(&mut sql).await;
            (left.as_deref() == Some(work.done) && attempt.is_done(&mut sql).await).then_some(())
        })
        .await;
        let statement = proxy.heal();
        attempts.push(attempt);
        match statement {
            Some(statement) => lost.push(statement),
            None if number > 0 => break,
            None => {}
        }
    }
    assert!((2..MOST - 1).contains(&lost.len()), "{kind}: {lost:?}");
    // Retries since then have changed nothing.
    for attempt in attempts {
        assert_eq!(attempt.left(&mut sql).await.as_deref(), Some(work.done), "{}", attempt.id);
    }
    verified(&cluster.database).await;
}

async fn verified(database: &str) {
    let said = block_in_place(|| program(&["verify", database]));
    assert!(said.0, "{}", said.1);
}

fn program(words: &[&str]) -> (bool, String) {
    run(Command::new(PROGRAM).args(words))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_statement_is_not_answered_is_done_once_when_it_is_tried_again() {
    let [seal, pack, purge, retention] = &WORK;
    tokio::join!(tried_again(seal), tried_again(pack), tried_again(purge), tried_again(retention));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_whose_statement_is_not_answered_can_be_repeated() {
    let (postgres, cluster) = block_in_place(|| (Postgres::shared(), Cluster::start(0)));
    let home = tempfile::tempdir().expect("a directory");
    let files = |name: &str| home.path().join(name).display().to_string();
    let command = with_key(cluster.command(&cluster.database, &cluster.redis.url()), KEY);
    let node = block_in_place(|| Server::start(command));
    for id in ["a", "b"] {
        fill(&node, id).await;
    }
    drop(node);
    let done = |words: &[&str]| {
        let (well, said) = block_in_place(|| program(words));
        assert!(well, "{words:?}: {said}");
    };
    done(&["export", "--store", &cluster.database, &files("moved")]);
    let expected = contents(Path::new(&files("moved")));
    assert!(expected.len() > 2, "{expected:?}");
    // The statements that open the store are not those of an import.
    let empty = block_in_place(|| postgres.fresh_database());
    done(&["migrate", "--store", &empty]);
    let template = empty.rsplit('/').next().expect("a name").to_owned();
    let writes = ["INSERT INTO", "UPDATE ", "DELETE FROM"];
    let mut lost = Vec::new();
    for nth in 0..MOST {
        let name = format!("{template}_{nth}");
        block_in_place(|| postgres.psql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}")));
        let proxy = AnswerProxy::start(postgres.port(), move |text| writes.iter().any(|part| text.contains(part)));
        proxy.lose_after(nth);
        let by_proxy = postgres.url_by(&proxy.address().to_string(), &name);
        let (well, said) = block_in_place(|| program(&["import", "--store", &by_proxy, &files("moved")]));
        let Some(statement) = proxy.heal() else {
            assert!(well, "{said}");
            break;
        };
        done(&["import", "--store", &by_proxy, &files("moved")]);
        let again = format!("again-{nth}");
        done(&["export", "--store", &by_proxy, &files(&again)]);
        assert_eq!(contents(Path::new(&files(&again))), expected, "{statement}: {said}");
        lost.push(statement);
    }
    assert!((2..MOST).contains(&lost.len()), "{lost:?}");
}

/// The files of an export and their bytes; not the manifest, which names the moment.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in std::fs::read_dir(next).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if !path.ends_with("manifest.ndjson") {
                let name = path.strip_prefix(directory).expect("below").display().to_string();
                found.push((name, std::fs::read(&path).expect("a file")));
            }
        }
    }
    found.sort();
    found
}
