//! The master that sentinels name. Every new connection asks them again, so that it follows a failover.

use std::sync::{Mutex, PoisonError};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{Client, RedisError, RedisResult, Value, aio::MultiplexedConnection, cmd, from_redis_value};

use super::redis_address::{AddressProblem, ServerList};

/// Port of a sentinel that is named without one.
const PORT: u16 = 26_379;
/// Role that a Redis which takes writes reports.
pub(super) const MASTER: &str = "master";

/// Reason why no master was found. The order is that of what they say: a later reason is closer to the master.
#[derive(Debug, thiserror::Error)]
pub enum SentinelError {
    /// No connection to the sentinel.
    #[error(
        "no sentinel can be reached, the last one at {sentinel}: {error}. Check the addresses, and that a sentinel runs there"
    )]
    Unreachable {
        /// Address of the sentinel.
        sentinel: String,
        /// Error of the connection.
        error: RedisError,
    },
    /// The server is no sentinel, or requires other credentials.
    #[error(
        "the server at {sentinel} does not answer as a sentinel: {error}. Name sentinels, not servers, before the name of the master"
    )]
    Refused {
        /// Address of the sentinel.
        sentinel: String,
        /// Answer of the server.
        error: RedisError,
    },
    /// The sentinel has no master of this name.
    #[error("the sentinel at {sentinel} knows no master {name:?}. Use a name of its `sentinel monitor` lines")]
    UnknownName {
        /// Address of the sentinel.
        sentinel: String,
        /// Name in the URL.
        name: String,
    },
    /// The server that the sentinel named cannot be reached.
    #[error("the master {name:?} cannot be reached at {address}, which the sentinel at {sentinel} names: {error}")]
    MasterUnreachable {
        /// Address of the sentinel.
        sentinel: String,
        /// Name in the URL.
        name: String,
        /// Address of the server.
        address: String,
        /// Error of the connection.
        error: RedisError,
    },
    /// The server that the sentinel named is not a master: it was one before a failover.
    #[error(
        "the server at {address} calls itself {role:?}, although the sentinel at {sentinel} names it as master {name:?}"
    )]
    NoMaster {
        /// Address of the sentinel.
        sentinel: String,
        /// Name in the URL.
        name: String,
        /// Address of the server.
        address: String,
        /// Role that the server reports.
        role: String,
    },
}

impl SentinelError {
    fn rank(&self) -> u8 {
        match self {
            Self::Unreachable { .. } => 0,
            Self::Refused { .. } => 1,
            Self::UnknownName { .. } => 2,
            Self::MasterUnreachable { .. } => 3,
            Self::NoMaster { .. } => 4,
        }
    }
}

/// Sentinels that watch the same master.
pub(super) struct Sentinels {
    /// The sentinels, with the credentials of the servers. Sentinels that require credentials get the same ones.
    list: ServerList,
    name: String,
    /// Number of the database, as text; empty for the first one.
    database: String,
    /// Address of the master that was found last.
    known: Mutex<String>,
}

/// The master, and a connection to it on which it has called itself master.
pub(super) struct Master {
    pub client: Client,
    pub connection: MultiplexedConnection,
    /// True if another server was the master before, or none was known.
    pub is_new: bool,
}

impl Sentinels {
    /// Reads a URL, `None` if it does not name sentinels.
    pub fn parse(url: &str) -> Option<Result<Self, AddressProblem>> {
        ServerList::parse(url, "sentinel", PORT).map(|list| Self::new(list?))
    }

    fn new(list: ServerList) -> Result<Self, AddressProblem> {
        let path = list.path.as_deref().unwrap_or_default();
        let (name, database) = path.split_once('/').unwrap_or((path, ""));
        if name.is_empty() {
            return Err(AddressProblem::NoName);
        }
        if !name.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-_".contains(letter)) {
            return Err(AddressProblem::Name(name.to_owned()));
        }
        if !database.is_empty() && database.parse::<u32>().is_err() {
            return Err(AddressProblem::Database(database.to_owned()));
        }
        let (name, database) = (name.to_owned(), database.to_owned());
        Ok(Self { list, name, database, known: Mutex::default() })
    }

    /// Asks all sentinels at once. The first one decides that names a server which calls itself master.
    pub async fn find(&self) -> Result<Master, SentinelError> {
        let mut asked: FuturesUnordered<_> =
            self.list.servers.iter().map(|sentinel| self.find_through(sentinel)).collect();
        let mut failure: Option<SentinelError> = None;
        while let Some(found) = asked.next().await {
            match found {
                Ok((address, client, connection)) => {
                    let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                    let is_new = *known != address;
                    if is_new {
                        tracing::info!(%address, name = self.name, "the sentinels name this master of Redis");
                        *known = address;
                    }
                    return Ok(Master { client, connection, is_new });
                }
                Err(error) if failure.as_ref().is_none_or(|worse| worse.rank() < error.rank()) => failure = Some(error),
                Err(_) => {}
            }
        }
        Err(failure.unwrap_or_else(|| SentinelError::UnknownName { sentinel: String::new(), name: self.name.clone() }))
    }

    async fn find_through(&self, sentinel: &str) -> Result<(String, Client, MultiplexedConnection), SentinelError> {
        let named = self.ask(sentinel).await.map_err(|error| match error.code() {
            Some(_) => SentinelError::Refused { sentinel: sentinel.to_owned(), error },
            None => SentinelError::Unreachable { sentinel: sentinel.to_owned(), error },
        })?;
        let unknown = || SentinelError::UnknownName { sentinel: sentinel.to_owned(), name: self.name.clone() };
        let (host, port) = named.ok_or_else(unknown)?;
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let (sentinel, name) = (sentinel.to_owned(), self.name.clone());
        match self.connect(&address).await {
            Ok((client, connection, role)) if role == MASTER => Ok((address, client, connection)),
            Ok((_, _, role)) => Err(SentinelError::NoMaster { sentinel, name, address, role }),
            Err(error) => Err(SentinelError::MasterUnreachable { sentinel, name, address, error }),
        }
    }

    async fn ask(&self, sentinel: &str) -> RedisResult<Option<(String, u16)>> {
        let ask = async |credentials: &str| {
            let client = Client::open(format!("{}://{credentials}{sentinel}/", self.list.scheme))?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            let mut question = cmd("SENTINEL");
            question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name).query_async(&mut connection).await
        };
        // A sentinel refuses credentials that it does not require.
        match ask("").await {
            Err(error) if error.code() == Some("NOAUTH") && !self.list.credentials.is_empty() => {
                ask(&self.list.credentials).await
            }
            answered => answered,
        }
    }

    /// Connects to a server and asks for its role.
    async fn connect(&self, address: &str) -> RedisResult<(Client, MultiplexedConnection, String)> {
        let client = Client::open(self.list.url(address, &self.database))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let role = match cmd("ROLE").query_async::<Vec<Value>>(&mut connection).await {
            Ok(answer) => answer.into_iter().next().map(from_redis_value::<String>).transpose()?.unwrap_or_default(),
            // A user without permission for ROLE may still take locks.
            Err(error) if error.code() == Some("NOPERM") => MASTER.to_owned(),
            Err(error) => return Err(error),
        };
        Ok((client, connection, role))
    }
}
