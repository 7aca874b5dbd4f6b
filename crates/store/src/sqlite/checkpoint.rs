//! Checkpoints the write-ahead log next to the commits, on a connection of its own, so that no append waits for it.
//!
//! While appends continue the log is never written back completely, and so would never restart from its beginning.
//! Therefore, once almost no pages are missing, the writing connection does the last step itself, for few pages.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use sqlx::{ConnectOptions, Connection, SqliteConnection, query, sqlite::SqliteConnectOptions};
use threadline_core::limits::{WAL_CHECKPOINT_PAGES, WAL_LOOK_COMMITS, WAL_REST_PAGES};
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{fetch, rows::Columns, writer::Writer};

/// Greatest number of write-backs of the pages that commits leave behind, before the writer takes the last step.
const TRIES: usize = 4;

const WRITE_BACK: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// Handle of the task that writes the log back; the task ends with it.
#[derive(Debug)]
pub(super) struct Checkpoints {
    commits: AtomicU64,
    wake: Arc<Notify>,
    stop: DropGuard,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Checkpoints {
    pub(super) async fn start(options: &SqliteConnectOptions, writer: Arc<Writer>) -> Result<Self, sqlx::Error> {
        let connection = options.connect().await?;
        let (wake, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        let task = tokio::spawn(run(connection, writer, wake.clone(), stop.clone()));
        let task = tokio::sync::Mutex::new(Some(task));
        Ok(Self { commits: AtomicU64::new(0), wake, stop: stop.drop_guard(), task })
    }

    /// Counts a commit; wakes the task after every [`WAL_LOOK_COMMITS`] of them.
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
            tracing::warn!(%error, "the checkpoint task of the write-ahead log failed");
        }
    }
}

async fn run(mut connection: SqliteConnection, writer: Arc<Writer>, wake: Arc<Notify>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = wake.notified() => {}
            () = stop.cancelled() => break,
        }
        if let Err(failure) = write_back(&mut connection, &writer).await {
            // A failure is not fatal: the commits write the log back themselves, only later.
            tracing::warn!(error = %failure.error, "cannot checkpoint the write-ahead log");
        }
    }
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "a connection of the database did not close cleanly");
    }
}

async fn write_back(connection: &mut SqliteConnection, writer: &Writer) -> fetch::Work<()> {
    if missing(connection).await? < WAL_CHECKPOINT_PAGES {
        return Ok(());
    }
    for _ in 0..TRIES {
        fetch::run(connection, query(WRITE_BACK)).await?;
        if missing(connection).await? <= WAL_REST_PAGES {
            break;
        }
    }
    writer.run(|connection| Box::pin(fetch::run(connection, query(WRITE_BACK)))).await
}

/// Number of pages of the log that are not written back.
async fn missing(connection: &mut SqliteConnection) -> fetch::Work<i64> {
    let Some(row) = fetch::row(connection, query("PRAGMA wal_checkpoint(NOOP)")).await? else { return Ok(0) };
    let mut columns = Columns::new(&row).skip(1);
    Ok(columns.int()? - columns.int()?)
}
