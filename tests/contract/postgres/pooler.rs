//! The store through a pooler that gives each transaction another session: the real pgbouncer.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::chown, process::CommandExt},
    process::{Child, Command, Stdio},
};

use nix::unistd::{Uid, User};
use tempfile::TempDir;

use super::*;

/// A pooler in front of a server, with fewer sessions than a store has connections.
pub(super) struct Pooler {
    process: Child,
    pub(super) port: u16,
    _dir: TempDir,
}

impl Pooler {
    pub(super) async fn start(server: &str) -> Self {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"];
        let program = program.iter().find(|path| fs::exists(path).is_ok_and(|there| there));
        let program = program.expect("pgbouncer is missing: apt-get install pgbouncer, or run scripts/setup.sh test");
        let dir = tempfile::tempdir().expect("temp dir");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let server_port = server.rsplit_once('/').and_then(|(server, _)| server.rsplit_once(':')).expect("a port").1;
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={server_port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 5\n\
             server_reset_query_always = 1\n"
        );
        let file = dir.path().join("pgbouncer.ini");
        fs::write(&file, settings).expect("writes");
        let mut command = Command::new(program);
        command.arg("-q").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if Uid::effective().is_root() {
            let user = ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten());
            let user = user.expect("an unprivileged user");
            chown(dir.path(), Some(user.uid.as_raw()), None).expect("gives the directory away");
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        let process = command.spawn().expect("pgbouncer starts");
        within(20, async {
            while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        Self { process, port, _dir: dir }
    }

    async fn env(&self) -> (Env, String) {
        let url = Postgres::shared().fresh_database();
        let database = url.rsplit('/').next().expect("a name");
        let pooled = format!("postgres://postgres@127.0.0.1:{}/{database}?pooler=transaction", self.port);
        (node(&pooled, &clock()).await.0, url)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_works_through_a_pooler() {
    let pooler = Pooler::start(&Postgres::shared().url("postgres")).await;
    crate::differential::history(1, 200, pooler.env().await.0).await;
    crate::concurrent::closes_race_appends(pooler.env().await.0).await;
    crate::concurrent::readers_see_a_growing_log_without_a_seam(pooler.env().await.0).await;
    crate::concurrent::creates_race_for_one_id(pooler.env().await.0).await;
    crate::concurrent::pumps_race_each_other(pooler.env().await.0).await;
    let (env, url) = pooler.env().await;
    crate::concurrent::cancelled_callers_leave_no_partial_write(env).await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    within(10, async {
        while ask(&url, open).await > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_statement_through_a_pooler_has_its_timeouts() {
    let pooler = Pooler::start(&Postgres::shared().url("postgres")).await;
    let (env, url) = pooler.env().await;
    let (key, fence) = env.running("t", "r").await;
    let mut other = session(&url).await;
    execute(&mut other, &format!("BEGIN; SELECT FROM heads WHERE key = {} FOR UPDATE", key.0)).await;
    let answer = within(9, env.store.append(&[append(key, fence, None, events([1]))])).await;
    let error = format!("{:?}", answer.expect_err("it is locked"));
    assert!(error.contains("lock timeout"), "{error}");
    execute(&mut other, "ROLLBACK").await;
    env.put(key, fence, [1]).await;
}
