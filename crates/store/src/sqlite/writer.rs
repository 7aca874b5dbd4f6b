//! Ownership of the one connection that writes.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use sqlx::{ConnectOptions, Connection, Execute, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{Mutex, MutexGuard};

use super::{
    SqliteStore,
    fetch::{self, Failure, Work},
};
use crate::{StoreError, StoreResult};

/// Owns the writing connection. A piece of work takes it out, and returns it only after a clean end: any failure in
/// between (an error that cannot be rolled back, a panic) closes it, which rolls back, and the next piece of work opens
/// a new one.
#[derive(Debug)]
pub(super) struct Writer {
    options: SqliteConnectOptions,
    connection: Mutex<Option<SqliteConnection>>,
    closed: AtomicBool,
}

impl Writer {
    pub(super) async fn open(options: SqliteConnectOptions) -> Result<Self, sqlx::Error> {
        let connection = options.connect().await?;
        Ok(Self { options, connection: Mutex::new(Some(connection)), closed: AtomicBool::new(false) })
    }

    pub(super) async fn connection(&self) -> MutexGuard<'_, Option<SqliteConnection>> {
        self.connection.lock().await
    }

    /// Waits for the work in progress, then closes for good.
    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Some(connection) = self.connection.lock().await.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the database did not close cleanly");
        }
    }

    pub(super) async fn run<T, F>(&self, work: F) -> Work<T>
    where
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Work<T>>,
    {
        let mut place = self.connection.lock().await;
        if self.closed.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("the store is closed".to_owned()).into());
        }
        let mut connection = match place.take() {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(Failure::from)?,
        };
        match work(&mut connection).await {
            Ok(done) => {
                *place = Some(connection);
                Ok(done)
            }
            Err(failure) => {
                if rolled_back(&mut connection).await && !failure.broken {
                    *place = Some(connection);
                }
                Err(failure)
            }
        }
    }
}

/// Ends a transaction that may still be open. False if the connection must not be used any more.
async fn rolled_back(connection: &mut SqliteConnection) -> bool {
    match sqlx::query("ROLLBACK").execute(connection).await {
        Ok(_) => true,
        // After some errors (a full disk) SQLite has rolled back already.
        Err(error) => error.to_string().contains("no transaction is active"),
    }
}

impl SqliteStore {
    /// Runs work that begins and commits its own transaction, on the writing connection, in a task that no caller can
    /// cancel. After an error no part of it is stored.
    pub(super) async fn write<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Work<T>> + Send + 'static,
    {
        let inner = self.inner.clone();
        let task = tokio::spawn(async move {
            let done = inner.writer.run(work).await;
            inner.checkpoints.note();
            Ok(inner.soundness.seen(done)?)
        });
        task.await.map_err(|error| StoreError::Unavailable(format!("a write was cut short: {error}")))?
    }

    /// Does the same as [`SqliteStore::write`], inside one transaction.
    pub(super) async fn transact<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Work<T>> + Send + 'static,
    {
        self.write(move |connection| {
            Box::pin(async move {
                fetch::run(connection, sqlx::query("BEGIN IMMEDIATE")).await?;
                let done = work(connection).await?;
                fetch::run(connection, sqlx::query("COMMIT")).await?;
                Ok(done)
            })
        })
        .await
    }

    /// Reads the rows of one statement, on a reading connection that is free again when this returns.
    ///
    /// The statement runs in a task of its own. The caller may not be polled for long (the body of a response whose
    /// client reads nothing), and must not hold a connection meanwhile, nor a position in the queue for one.
    pub(super) async fn read_rows(&self, mut statement: fetch::Statement<'_>) -> Work<Vec<sqlx::sqlite::SqliteRow>> {
        let arguments = statement.take_arguments().map_err(sqlx::Error::Encode)?.unwrap_or_default();
        let (text, readers) = (statement.sql(), self.inner.readers.clone());
        let read = tokio::spawn(async move { sqlx::query_with(text, arguments).fetch_all(&readers).await });
        let rows = read.await.map_err(|error| StoreError::Unavailable(format!("a read was cut short: {error}")))?;
        self.inner.soundness.seen(rows.map_err(Failure::from))
    }
}
