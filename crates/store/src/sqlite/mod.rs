//! The embedded back-end: one SQLite file in WAL mode, written by one connection of one process.
//!
//! Every write is a short `BEGIN IMMEDIATE … COMMIT` in a task of its own, so that a caller that is dropped cannot
//! leave a transaction open. `synchronous=FULL` makes each commit durable before it is answered. The write-ahead log is
//! written back next to the commits. Reads are single statements on a few read-only connections, fetched completely.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sqlx::{
    AssertSqlSafe, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use threadline_core::{
    Clock,
    limits::{PAGE_ROWS, SQLITE_CACHE_KIB, SQLITE_READERS, WAL_LIMIT_BYTES, WAL_RESTART_PAGES, WAL_TIMEOUT},
};

pub use self::backup::{BackupError, backup};
pub use self::open_error::OpenError;
use self::{checkpoint::Checkpoints, soundness::Soundness, writer::Writer};
use super::{
    LineageFence, SecretAccess, SecretStore, StoreClock, StoreResult, private,
    sql::{corrupt, secrets::Secrets},
};

/// Hot statements, which the benchmark runs directly.
#[cfg(feature = "testing")]
pub mod statements {
    pub use super::append::{GROUP, WRITE_COMMIT};
}

mod append;
mod attempts;
mod backup;
mod begin;
mod checkpoint;
mod checkpoints;
mod feed;
mod fetch;
mod history;
mod items;
mod kv;
mod leases;
mod lineage;
mod log;
mod migrate;
mod nodes;
mod open_error;
mod queue;
mod rows;
mod runs;
mod seal;
mod secrets;
mod soundness;
mod staging;
mod status;
mod streams;
mod tables;
#[cfg(test)]
mod tests;
mod threads;
mod transfer;
mod turns;
mod witness;
mod writer;

/// The oldest SQLite without the WAL-reset bug (two connections write and checkpoint at once).
const OLDEST_SQLITE: [u32; 3] = [3, 51, 3];

/// A store in one SQLite file. Cheap to clone; the clones share one open store.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: StoreClock,
    writer: Arc<Writer>,
    checkpoints: Checkpoints,
    readers: SqlitePool,
    fence: LineageFence,
    secrets: Secrets,
    soundness: Soundness,
    file: PathBuf,
    wal: PathBuf,
    lock: File,
}

/// Timeout for a lock that another process holds; Threadline's own processes hold none for long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts to cut the write-ahead log, and the pause between two of them.
const CUTS: usize = 50;
const CUT_PAUSE: Duration = Duration::from_millis(20);

/// File name of the database in its directory.
const FILE: &str = "threadline.db";
/// Files that SQLite creates next to the database, with its mode.
const WAL: &str = "threadline.db-wal";
const SHARED_MEMORY: &str = "threadline.db-shm";

impl SqliteStore {
    /// True if `dir` contains a store.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(FILE).is_file()
    }

    /// Opens (or creates) the store in `dir`, which judges leases by `clock`, with the keys in its file `secret.key`. No other
    /// process can open it until this one closes it or ends.
    pub async fn open(dir: &Path, clock: Clock) -> Result<Self, OpenError> {
        Self::open_with(dir, clock, SecretAccess::default()).await
    }

    /// [`SqliteStore::open`] with this use of its secrets.
    pub async fn open_with(dir: &Path, clock: Clock, access: SecretAccess) -> Result<Self, OpenError> {
        let (lock, clock) = (lock(dir)?, StoreClock::new(clock));
        let file = dir.join(FILE);
        for name in [FILE, WAL, SHARED_MEMORY] {
            private::close_to_others(&dir.join(name))?;
        }
        private::open(&file).map_err(|source| OpenError::Directory { path: file.clone(), source })?;
        let writer = Arc::new(Writer::open(write_options(&file)).await?);
        let (lineage, secrets) = {
            let mut connection = writer.connection().await;
            let Some(connection) = connection.as_mut() else { return Err(sqlx::Error::PoolClosed.into()) };
            check_version(connection).await?;
            migrate::run(connection, &file).await?;
            let secrets = secrets::of(connection, dir, access).await?;
            let lineage = history::at_open(connection, &file, clock.now()).await.map_err(|failure| failure.error)?;
            leases::renew_all(connection, clock.now()).await.map_err(|failure| failure.error)?;
            (lineage, secrets)
        };
        let checkpoints = Checkpoints::start(&write_options(&file), writer.clone()).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(SQLITE_READERS)
            .min_connections(1)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .acquire_timeout(Duration::from_secs(10))
            .connect_with(read_options(&file))
            .await?;
        let wal = dir.join(WAL);
        let fence = LineageFence::new(lineage);
        let soundness = Soundness::default();
        let inner = Inner { clock, writer, checkpoints, readers, fence, secrets, soundness, file, wal, lock };
        let store = Self { inner: Arc::new(inner) };
        store.seal_all().await?;
        Ok(store)
    }

    /// Closes the store cleanly: all data is in the one file, and the lock is free. Later calls fail with
    /// [`super::StoreError::Unavailable`].
    pub async fn close(&self) {
        self.inner.checkpoints.close().await;
        self.inner.readers.close().await;
        self.inner.writer.close().await;
        if let Err(error) = self.inner.lock.unlock() {
            tracing::warn!(%error, "cannot release the lock of the data directory");
        }
    }

    /// Keeps the write-ahead log bounded: writes it back and truncates it once it has grown beyond
    /// [`WAL_LIMIT_BYTES`]. True if it tried. [`super::StatusStore::maintain`] calls this.
    pub async fn maintain(&self) -> StoreResult<bool> {
        let large = tokio::fs::metadata(&self.inner.wal).await.is_ok_and(|wal| wal.len() > WAL_LIMIT_BYTES);
        if large {
            // A truncation that is not possible yet is no error, and is tried again at the next sweep.
            self.cut_log().await?;
        }
        Ok(large)
    }

    /// Writes the write-ahead log back and truncates it. False if others are using it.
    async fn cut_log(&self) -> StoreResult<bool> {
        self.write(|connection| {
            Box::pin(async move {
                wait_for_others(connection, WAL_TIMEOUT).await?;
                let cut = fetch::row(connection, sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")).await;
                wait_for_others(connection, BUSY_TIMEOUT).await?;
                // The first column tells whether the log was in use.
                Ok(cut?.is_none_or(|row| rows::Columns::new(&row).int().is_ok_and(|busy| busy == 0)))
            })
        })
        .await
    }

    /// Seals what is not sealed with the key that seals now, as an older release or another first key has left it, and removes
    /// the former texts from the files.
    async fn seal_all(&self) -> StoreResult<()> {
        if !self.inner.secrets.seals() || !self.secret_forms().await?.iter().any(|(_, form)| form.is_to_be_sealed()) {
            return Ok(());
        }
        let pragma = async |text: &'static str| {
            self.write(move |connection| Box::pin(fetch::run(connection, sqlx::query(text)))).await
        };
        // Freed space is overwritten.
        pragma("PRAGMA secure_delete = ON").await?;
        let sealed = self.reseal().await;
        pragma("PRAGMA secure_delete = OFF").await?;
        tracing::info!(sealed = sealed?, key = self.inner.secrets.sealing_key(), "sealed stored secrets");
        // The log has the former pages. Another checkpoint may be under way.
        for _ in 0..CUTS {
            if self.cut_log().await? {
                return Ok(());
            }
            tokio::time::sleep(CUT_PAUSE).await;
        }
        tracing::warn!("the write-ahead log is in use, and has unsealed secrets until it is written back");
        Ok(())
    }
}

/// Sets how long a connection waits for locks of others.
async fn wait_for_others(connection: &mut SqliteConnection, time: Duration) -> fetch::Work<()> {
    let pragma = format!("PRAGMA busy_timeout = {}", time.as_millis());
    fetch::run(connection, sqlx::query(AssertSqlSafe(pragma))).await
}

/// Creates the directory, or restricts its mode, and takes its lock, which the process holds until the file is closed.
fn lock(dir: &Path) -> Result<File, OpenError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::Directory { path, source }
    };
    if private::make_directory(dir).map_err(fail(dir))? {
        // The new directory's own entry must survive a power cut as well.
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent).and_then(|parent| parent.sync_all()).map_err(fail(parent))?;
        }
    }
    private::close_to_others(dir)?;
    let path = dir.join("lock");
    private::close_to_others(&path)?;
    let file = private::open(&path).map_err(fail(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path }),
        Err(TryLockError::Error(source)) => Err(OpenError::Directory { path, source }),
    }
}

fn options(file: &Path) -> SqliteConnectOptions {
    use sqlx::ConnectOptions;
    SqliteConnectOptions::new()
        .filename(file)
        .foreign_keys(false)
        .busy_timeout(BUSY_TIMEOUT)
        .pragma("temp_store", "memory")
        .pragma("cache_size", format!("-{SQLITE_CACHE_KIB}"))
        // A complete page fits, so that the worker never waits for its reader.
        .row_buffer_size(PAGE_ROWS + 8)
        .disable_statement_logging()
}

fn write_options(file: &Path) -> SqliteConnectOptions {
    options(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("wal_autocheckpoint", WAL_RESTART_PAGES.to_string())
        .pragma("journal_size_limit", WAL_LIMIT_BYTES.to_string())
}

fn read_options(file: &Path) -> SqliteConnectOptions {
    options(file).read_only(true)
}

async fn check_version(connection: &mut sqlx::SqliteConnection) -> Result<(), OpenError> {
    let found: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(connection).await?;
    let mut parts = found.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version: [u32; 3] = std::array::from_fn(|_| parts.next().unwrap_or(0));
    if version < OLDEST_SQLITE { Err(OpenError::OldSqlite { found }) } else { Ok(()) }
}
