//! A few connections, used by one statement at a time.
//!
//! Not sqlx's pool: sqlx pings the server whenever a connection is returned, which is a second round trip for every
//! commit, and finds broken connections only one by one.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sqlx::{Execute, PgConnection, SqlStr, postgres::PgArguments};
use threadline_core::limits::PG_ACQUIRE_TIMEOUT;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

use super::{
    address::Address,
    fetch::{Failure, Kind, Rows, Statement, Work},
    lineage::{self, LastBeat},
};
use crate::{LineageCause, LineageFence, StoreError};

/// A bounded number of connections, opened on demand. A connection is returned only after a clean end. A broken
/// connection makes the pool drop all idle ones: the server was restarted, or the network has changed, and the next
/// caller gets a fresh connection.
#[derive(Debug)]
pub(super) struct Pool {
    address: Arc<Address>,
    fence: Arc<LineageFence>,
    last_beat: Arc<LastBeat>,
    places: Semaphore,
    idle: Mutex<Idle>,
    patience: Duration,
}

#[derive(Debug, Default)]
struct Idle {
    connections: Vec<PgConnection>,
    /// Grows when idle connections are dropped: connections that were in use at that time do not return to the pool.
    age: u64,
}

impl Pool {
    /// A pool of at most `size` connections, whose statements must be answered within `patience`.
    pub(super) fn new(
        address: Arc<Address>,
        fence: Arc<LineageFence>,
        last_beat: Arc<LastBeat>,
        size: usize,
        patience: Duration,
    ) -> Self {
        let (places, idle) = (Semaphore::new(size), Mutex::default());
        Self { address, fence, last_beat, places, idle, patience }
    }

    /// A connection outside of the pool.
    #[cfg(feature = "testing")]
    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        self.address.connect().await
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self) {
        let mut idle = self.idle();
        idle.age += 1;
        idle.connections.clear();
    }

    async fn take(&self) -> Work<(PgConnection, u64)> {
        let (found, age) = {
            let mut idle = self.idle();
            (idle.connections.pop(), idle.age)
        };
        match found {
            Some(connection) => Ok((connection, age)),
            None => Ok((self.connect_known().await?, age)),
        }
    }

    /// A connection to a server whose history is the known one. Another history closes the fence.
    async fn connect_known(&self) -> Work<PgConnection> {
        let known = self.fence.pass()?;
        let mut connection = self.address.connect().await?;
        // Taken before the server is asked, which may have a newer one then.
        let beat = self.last_beat.get();
        let comparing = lineage::compare(&self.address, &mut connection, beat.map(|beat| beat.node));
        let seen = timeout(self.patience, comparing).await;
        let seen = seen.map_err(|_| Failure::broken("the database does not answer"))??;
        match seen.differs_from(known, beat) {
            None => Ok(connection),
            Some(cause) => {
                self.fence.close(cause);
                Err(Failure::fenced(cause))
            }
        }
    }

    /// Drops the idle connections: the next statement opens one, and compares the server's history.
    pub(super) fn renew(&self) {
        self.forget();
    }

    fn put(&self, connection: PgConnection, age: u64) {
        let mut idle = self.idle();
        if idle.age == age && !self.places.is_closed() {
            idle.connections.push(connection);
        }
    }

    /// Runs one statement. Must not be cancelled: see [`run`].
    async fn carry_out(&self, text: SqlStr, arguments: PgArguments) -> Work<Rows> {
        let _place = match timeout(PG_ACQUIRE_TIMEOUT, self.places.acquire()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(Failure::busy("the store is closed")),
            Err(_) => return Err(Failure::busy("all connections to the database are busy")),
        };
        let known = self.fence.pass()?;
        let (mut connection, age) = self.take().await?;
        let answer = timeout_at(Instant::now() + self.patience, self.address.run(&mut connection, text, arguments));
        match answer.await {
            // The answer of a history that was given up meanwhile is worth nothing, and its connection neither.
            Ok(Ok(rows)) => match self.fence.pass() {
                Ok(passed) if passed == known => {
                    self.put(connection, age);
                    Ok(rows)
                }
                Ok(_) | Err(_) => Err(Failure::broken("the history of the database has changed meanwhile")),
            },
            Ok(Err(error)) => {
                let failure = Failure::from(error);
                if matches!(failure.error, StoreError::Fenced(_)) {
                    self.fence.close(LineageCause::Timeline);
                }
                if failure.kind == Kind::Broken {
                    self.forget();
                } else {
                    self.put(connection, age);
                }
                Err(failure)
            }
            // Dropped and not closed: the server does not answer a close handshake.
            Err(_) => {
                self.forget();
                Err(Failure::broken("the database does not answer"))
            }
        }
    }

    /// Refuses new statements; running ones end.
    pub(super) async fn close(&self) {
        self.places.close();
        let connections = std::mem::take(&mut self.idle().connections);
        for connection in connections {
            Address::close(connection).await;
        }
    }
}

fn unpack(mut statement: Statement<'_>) -> Work<(SqlStr, PgArguments)> {
    let arguments = statement.take_arguments().map_err(sqlx::Error::Encode)?.unwrap_or_default();
    Ok((statement.sql(), arguments))
}

async fn finish(task: tokio::task::JoinHandle<Work<Rows>>) -> Work<Rows> {
    task.await.map_err(|error| Failure::broken(format_args!("a statement was cut short: {error}")))?
}

/// The rows of one statement, which a task of its own runs: a cancelled caller cannot leave a connection in the middle
/// of a statement, and a caller that is not polled for long (the body of a response whose client reads nothing) holds
/// neither a connection nor a permit for one.
pub(super) async fn run(pool: &Arc<Pool>, statement: Statement<'_>) -> Work<Rows> {
    let (text, arguments) = unpack(statement)?;
    let pool = pool.clone();
    finish(tokio::spawn(async move { pool.carry_out(text, arguments).await })).await
}

/// [`run`] for statements that only read: a connection that broke while it was idle is noticed by its next user, so the
/// statement is retried once on a fresh connection.
pub(super) async fn read(pool: &Arc<Pool>, statement: Statement<'_>) -> Work<Rows> {
    let (text, arguments) = unpack(statement)?;
    let pool = pool.clone();
    let task = tokio::spawn(async move {
        match pool.carry_out(text.clone(), arguments.clone()).await {
            Err(failure) if failure.kind == Kind::Broken => pool.carry_out(text, arguments).await,
            done => done,
        }
    });
    finish(task).await
}
