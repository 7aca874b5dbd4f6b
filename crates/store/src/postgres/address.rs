//! Address of the database, and settings of its sessions.

use std::{str::FromStr, time::Duration};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, SqlSafeStr, SqlStr,
    postgres::{PgArguments, PgConnectOptions},
};
use threadline_core::limits::{PG_CONNECT_TIMEOUT, PG_LOCK_TIMEOUT, PG_STATEMENT_TIMEOUT, PG_WORK_MEM_KIB};

use super::{fetch::Rows, open_error::OpenError};

/// A parsed URL. `pooler=transaction` in it means a pooler that gives each transaction another session: no statement is
/// prepared then, no setting is made for a session, and every statement has a transaction of its own.
#[derive(Debug)]
pub(super) struct Address {
    options: PgConnectOptions,
    /// Text that begins a transaction, if each statement needs one.
    begin: Option<String>,
}

/// Every statement goes by index from one row to the next, whatever the statistics of the planner: plans made for small
/// tables are still right for large ones. Therefore a plan can be made once, for all arguments.
const PLANS: [(&str, &str); 7] = [
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_bitmapscan", "off"),
    // Rows that are read and not used get a high cost, so that even a table of two rows is not scanned.
    ("cpu_tuple_cost", "1"),
    ("jit", "off"),
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
        let options = PgConnectOptions::from_str(&url)?.disable_statement_logging();
        let named = options.get_application_name().is_some();
        let options = if named { options } else { options.application_name("threadline") };
        if pooled {
            let set: String = settings().map(|(name, value)| format!("; SET LOCAL {name} = {value}")).collect();
            let options = options.extra_float_digits(None).statement_cache_capacity(0);
            return Ok(Self { options, begin: Some(format!("BEGIN{set}")) });
        }
        Ok(Self { options: options.options(settings()).options(KEEPALIVE), begin: None })
    }

    /// The same server, with commits that wait for the disk although the server is set otherwise.
    pub(super) fn durable(self) -> Self {
        const ON: [(&str, &str); 1] = [("synchronous_commit", "on")];
        match self.begin {
            Some(begin) => Self { begin: Some(begin + "; SET LOCAL synchronous_commit = on"), ..self },
            None => Self { options: self.options.options(ON), begin: None },
        }
    }

    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let connecting = tokio::time::timeout(PG_CONNECT_TIMEOUT, self.options.connect());
        connecting.await.unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()))
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
        let options = own.options.get_options().expect("options");
        assert!(options.contains("statement_timeout=") && options.contains("enable_seqscan=off"), "{options}");
        assert!(own.begin.is_none());
        let own = own.durable();
        assert!(own.options.get_options().is_some_and(|options| options.contains("synchronous_commit=on")));
        let pooled = Address::parse("postgres://u@h/d?pooler=transaction").expect("parses").durable();
        assert_eq!(pooled.options.get_options(), None);
        let begin = pooled.begin.expect("a transaction for each statement");
        assert!(begin.starts_with("BEGIN; ") && begin.contains("SET LOCAL statement_timeout = "), "{begin}");
        assert!(begin.ends_with("SET LOCAL synchronous_commit = on"), "{begin}");
    }
}
