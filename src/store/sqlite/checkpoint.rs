//! Writes the write-ahead log back beside the commits, on a connection of its own, so that no append waits for it.
//!
//! While appends go on the log is never written back completely, hence never starts anew. That is left to SQLite: at
//! [`WAL_RESTART_PAGES`] a commit writes back the little that is still missing.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use sqlx::{ConnectOptions, Connection, SqliteConnection, query, sqlite::SqliteConnectOptions};
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{fetch, rows::Columns};
use crate::domain::limits::{WAL_CHECKPOINT_PAGES, WAL_LOOK_COMMITS};

/// The task that writes the log back, which ends with this.
#[derive(Debug)]
pub(super) struct Checkpoints {
    commits: AtomicU64,
    wake: Arc<Notify>,
    stop: DropGuard,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Checkpoints {
    pub(super) async fn start(options: &SqliteConnectOptions) -> Result<Self, sqlx::Error> {
        let connection = options.connect().await?;
        let (wake, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        let task = tokio::spawn(run(connection, wake.clone(), stop.clone()));
        let task = tokio::sync::Mutex::new(Some(task));
        Ok(Self { commits: AtomicU64::new(0), wake, stop: stop.drop_guard(), task })
    }

    /// A commit was made.
    pub(super) fn note(&self) {
        if self.commits.fetch_add(1, Ordering::Relaxed) % WAL_LOOK_COMMITS == WAL_LOOK_COMMITS - 1 {
            self.wake.notify_one();
        }
    }

    /// Ends the task and closes its connection.
    pub(super) async fn close(&self) {
        self.stop.token().cancel();
        if let Some(task) = self.task.lock().await.take()
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "the task that writes back the write-ahead log failed");
        }
    }
}

async fn run(mut connection: SqliteConnection, wake: Arc<Notify>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = wake.notified() => {}
            () = stop.cancelled() => break,
        }
        if let Err(failure) = write_back(&mut connection).await {
            // The commits do it themselves, only later.
            tracing::warn!(error = %failure.error, "cannot write back the write-ahead log");
        }
    }
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "a connection of the database did not close cleanly");
    }
}

async fn write_back(connection: &mut SqliteConnection) -> fetch::Work<()> {
    let Some(row) = fetch::row(connection, query("PRAGMA wal_checkpoint(NOOP)")).await? else { return Ok(()) };
    let mut columns = Columns::new(&row).skip(1);
    let (pages, written_back) = (columns.int()?, columns.int()?);
    if pages - written_back >= WAL_CHECKPOINT_PAGES {
        fetch::run(connection, query("PRAGMA wal_checkpoint(PASSIVE)")).await?;
    }
    Ok(())
}
