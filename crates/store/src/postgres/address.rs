//! Address of the database, and settings of its sessions.

use std::{
    hash::{BuildHasher, RandomState},
    str::FromStr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, Row, SqlSafeStr, SqlStr,
    postgres::{PgArguments, PgConnectOptions},
};
use threadline_core::limits::{
    PG_CONNECT_TIMEOUT, PG_HOST_TIMEOUT, PG_LOCK_TIMEOUT, PG_STATEMENT_TIMEOUT, PG_WORK_MEM_KIB,
};

use super::{
    fetch::Rows,
    hosts::{self, Target},
    open_error::{self, OpenError},
};

/// A parsed URL. `pooler=transaction` in it means a pooler that gives each transaction another session: no statement is
/// prepared then, no setting is made for a session, and every statement has a transaction of its own.
#[derive(Debug)]
pub(super) struct Address {
    /// Servers, at least one.
    servers: Vec<PgConnectOptions>,
    /// Number of the server to which the last connection was made.
    last: AtomicUsize,
    target: Target,
    /// Text that begins a transaction, if each statement needs one.
    begin: Option<String>,
}

/// Every statement goes by index from one row to the next, whatever the statistics of the planner: plans made for small
/// tables are still right for large ones. Therefore a plan can be made once, for all arguments.
const PLANS: [(&str, &str); 8] = [
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_bitmapscan", "off"),
    // Rows that are read and not used get a high cost, so that even a table of two rows is not scanned.
    ("cpu_tuple_cost", "1"),
    ("jit", "off"),
    // The cost of a row would have a few rows read by several processes.
    ("max_parallel_workers_per_gather", "0"),
    ("plan_cache_mode", "force_generic_plan"),
];

fn settings() -> impl Iterator<Item = (&'static str, String)> {
    let milliseconds = |length: std::time::Duration| length.as_millis().to_string();
    PLANS.into_iter().map(|(name, value)| (name, value.to_owned())).chain([
        ("work_mem", PG_WORK_MEM_KIB.to_string()),
        ("lock_timeout", milliseconds(PG_LOCK_TIMEOUT)),
        ("statement_timeout", milliseconds(PG_STATEMENT_TIMEOUT)),
        ("idle_in_transaction_session_timeout", milliseconds(PG_STATEMENT_TIMEOUT)),
    ])
}

/// The server checks its end of the connection as well: the locks of a node that vanished are free after half a minute.
const KEEPALIVE: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "10"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "4")];

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        let (url, pooled) = without_pooler(url)?;
        let (urls, target) = hosts::split(&url)?;
        let server = |url: String| {
            let options = PgConnectOptions::from_str(&url)?.disable_statement_logging();
            let named = options.get_application_name().is_some();
            let options = if named { options } else { options.application_name("threadline") };
            Ok(match pooled {
                true => options.extra_float_digits(None).statement_cache_capacity(0),
                false => options.options(settings()).options(KEEPALIVE),
            })
        };
        let servers = urls.into_iter().map(server).collect::<Result<Vec<_>, sqlx::Error>>()?;
        let set = || settings().map(|(name, value)| format!("; SET LOCAL {name} = {value}")).collect::<String>();
        let last = AtomicUsize::new(usize::try_from(chance()).unwrap_or(0) % servers.len().max(1));
        Ok(Self { servers, last, target, begin: pooled.then(|| format!("BEGIN{}", set())) })
    }

    /// The same servers, with commits that wait for the disk although they are set otherwise.
    pub(super) fn durable(self) -> Self {
        const ON: [(&str, &str); 1] = [("synchronous_commit", "on")];
        match self.begin {
            Some(begin) => Self { begin: Some(begin + "; SET LOCAL synchronous_commit = on"), ..self },
            None => Self { servers: self.servers.into_iter().map(|server| server.options(ON)).collect(), ..self },
        }
    }

    /// Connects to the server of the last connection, else to the others in random order. A server of the wrong kind is
    /// skipped.
    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let timeout = if self.servers.len() > 1 { PG_HOST_TIMEOUT } else { PG_CONNECT_TIMEOUT };
        let mut failure: Option<sqlx::Error> = None;
        for number in self.order() {
            let connecting = tokio::time::timeout(timeout, self.connect_to(number));
            let timed_out = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            match connecting.await.unwrap_or_else(timed_out) {
                Ok(connection) => {
                    self.last.store(number, Ordering::Relaxed);
                    return Ok(connection);
                }
                // A failure that may pass says more about all servers together than a permanent one of some server.
                Err(error) if failure.as_ref().is_none_or(|first| !open_error::passes(first)) => failure = Some(error),
                Err(_) => {}
            }
        }
        Err(failure.unwrap_or(sqlx::Error::PoolClosed))
    }

    /// Numbers of the servers in the order in which they are tried.
    fn order(&self) -> Vec<usize> {
        let last = self.last.load(Ordering::Relaxed);
        let mut order: Vec<_> = (0..self.servers.len()).collect();
        order.sort_by_cached_key(|number| (*number != last, chance()));
        order
    }

    async fn connect_to(&self, number: usize) -> Result<PgConnection, sqlx::Error> {
        let server = self.servers.get(number).ok_or(sqlx::Error::PoolClosed)?;
        let mut connection = server.connect().await?;
        if self.target == Target::Any {
            return Ok(connection);
        }
        let rows = self.ask(&mut connection, "SELECT current_setting('transaction_read_only')::boolean").await?;
        let read_only: bool = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
        if read_only {
            Self::close(connection).await;
            let why = format!("{}:{} accepts no writes", server.get_host(), server.get_port());
            return Err(std::io::Error::new(std::io::ErrorKind::ReadOnlyFilesystem, why).into());
        }
        Ok(connection)
    }

    /// Runs one statement, which is its own transaction.
    pub(super) async fn run(
        &self,
        connection: &mut PgConnection,
        text: SqlStr,
        arguments: PgArguments,
    ) -> Result<Rows, sqlx::Error> {
        let Some(begin) = &self.begin else {
            return sqlx::query_with(text, arguments).fetch_all(connection).await;
        };
        connection.execute(AssertSqlSafe(begin.clone())).await?;
        match sqlx::query_with(text, arguments).persistent(false).fetch_all(&mut *connection).await {
            Ok(rows) => {
                connection.execute("COMMIT").await?;
                Ok(rows)
            }
            Err(error) => {
                connection.execute("ROLLBACK").await?;
                Err(error)
            }
        }
    }

    /// [`Address::run`] for a text without arguments.
    pub(super) async fn ask(&self, connection: &mut PgConnection, text: &'static str) -> Result<Rows, sqlx::Error> {
        self.run(connection, text.into_sql_str(), PgArguments::default()).await
    }

    /// Begins a transaction of several statements, which waits this long for locks of others.
    pub(super) async fn begin_alone(&self, connection: &mut PgConnection, wait: Duration) -> Result<(), sqlx::Error> {
        let wait = wait.as_millis();
        let text = format!("BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = {wait}");
        connection.execute(AssertSqlSafe(text)).await.map(drop)
    }

    pub(super) async fn close(connection: PgConnection) {
        if let Err(error) = connection.close().await {
            tracing::debug!(%error, "a connection to the database did not close cleanly");
        }
    }
}

/// A random number, for orders that need no more than that.
fn chance() -> u64 {
    RandomState::new().hash_one(())
}

/// Removes the `pooler` parameter from a URL, because only Threadline knows it.
fn without_pooler(url: &str) -> Result<(String, bool), OpenError> {
    let Some((base, query)) = url.split_once('?') else { return Ok((url.to_owned(), false)) };
    let (mut rest, mut pooled) = (Vec::new(), false);
    for parameter in query.split('&') {
        match parameter.split_once('=') {
            Some(("pooler", "transaction")) => pooled = true,
            Some(("pooler", "session")) => {}
            Some(("pooler", other)) => return Err(OpenError::Pooler { found: other.to_owned() }),
            _ => rest.push(parameter),
        }
    }
    let url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    Ok((url, pooled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pooler_is_named_in_the_url() {
        let parse = |url: &str| without_pooler(url).map_err(|error| error.to_string());
        assert_eq!(parse("postgres://h/d"), Ok(("postgres://h/d".into(), false)));
        assert_eq!(parse("postgres://h/d?pooler=transaction"), Ok(("postgres://h/d".into(), true)));
        assert_eq!(
            parse("postgres://h/d?sslmode=require&pooler=transaction&user=u"),
            Ok(("postgres://h/d?sslmode=require&user=u".into(), true))
        );
        assert_eq!(parse("postgres://h/d?pooler=session&user=u"), Ok(("postgres://h/d?user=u".into(), false)));
        assert!(parse("postgres://h/d?pooler=statement").is_err());
    }

    #[test]
    fn sessions_are_set_only_where_they_are_ours() {
        let own = Address::parse("postgres://u@h/d").expect("parses");
        let options = own.servers[0].get_options().expect("options");
        assert!(options.contains("statement_timeout=") && options.contains("enable_seqscan=off"), "{options}");
        assert!(own.begin.is_none());
        let own = own.durable();
        assert!(own.servers[0].get_options().is_some_and(|options| options.contains("synchronous_commit=on")));
        let pooled = Address::parse("postgres://u@h/d?pooler=transaction").expect("parses").durable();
        assert_eq!(pooled.servers[0].get_options(), None);
        let begin = pooled.begin.expect("a transaction for each statement");
        assert!(begin.starts_with("BEGIN; ") && begin.contains("SET LOCAL statement_timeout = "), "{begin}");
        assert!(begin.ends_with("SET LOCAL synchronous_commit = on"), "{begin}");
    }
}
