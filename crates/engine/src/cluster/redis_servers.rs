//! Servers of Redis, as a URL names them: one server, or the master that sentinels name.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use redis::{
    Client, Cmd, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError, RedisResult,
    aio::{ConnectionLike, MultiplexedConnection, PubSub},
    cluster_async::ClusterConnection,
    from_redis_value, pipe,
};
use tokio::sync::watch;

use super::{
    redis_address::AddressProblem, redis_cluster::Cluster, redis_error::RedisConnectionError,
    redis_sentinels::Sentinels,
};

/// The address of Redis is invalid.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The URL does not name a server.
    #[error(
        "invalid Redis URL: {0}\n\
         Write it like redis://:password@host:6379/0, or rediss://… for TLS; with sentinels like \
         redis+sentinel://:password@host1:26379,host2:26379/name; a cluster like redis+cluster://:password@host1,host2."
    )]
    Server(RedisError),
    /// The URL does not name sentinels and a master.
    #[error(
        "invalid Redis URL: {0}\n\
         Write it like redis+sentinel://:password@host1:26379,host2:26379/name/0, or rediss+sentinel://… for TLS."
    )]
    Sentinels(AddressProblem),
    /// The URL does not name servers of a cluster.
    #[error(
        "invalid Redis URL: {0}\n\
         Write it like redis+cluster://:password@host1:6379,host2:6379, or rediss+cluster://… for TLS."
    )]
    Cluster(AddressProblem),
}

/// The servers of a URL. The clones share what is known about the master.
#[derive(Clone)]
pub struct RedisServers(Arc<Inner>);

struct Inner {
    place: Place,
    /// Number of the newest master: another number is another server.
    newest: watch::Sender<u64>,
    /// Number of connections for messages that were tried.
    tries: AtomicUsize,
}

enum Place {
    Server(Client),
    Sentinels(Sentinels),
    Cluster(Box<Cluster>),
}

/// Connection to the server that accepts writes, or to all servers of a cluster. The clones share it.
#[derive(Clone)]
pub(super) enum Connection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    /// Runs commands of one key, or of none, in one round trip.
    pub async fn ask<T: FromRedisValue>(self, commands: &Pipeline) -> RedisResult<T> {
        match self {
            Self::Server(mut connection) => commands.query_async(&mut connection).await,
            Self::Cluster(mut connection) => commands.query_async(&mut connection).await,
        }
    }

    /// Runs commands of one key each, all at once. The answers are in the order of the commands.
    pub async fn ask_each<T: FromRedisValue>(self, commands: &[Cmd]) -> RedisResult<Vec<T>> {
        match self {
            Self::Server(mut connection) => {
                let mut all = pipe();
                for command in commands {
                    all.add_command(command.clone());
                }
                all.query_async(&mut connection).await
            }
            // The keys are on different servers.
            Self::Cluster(connection) => {
                let ask = async |command: &Cmd| {
                    let answer = connection.clone().req_packed_command(command).await?.extract_error()?;
                    Ok(from_redis_value(answer)?)
                };
                futures_util::future::try_join_all(commands.iter().map(ask)).await
            }
        }
    }
}

impl RedisServers {
    /// Reads a URL, without a connection.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let place = if let Some(sentinels) = Sentinels::parse(url) {
            Place::Sentinels(sentinels.map_err(AddressError::Sentinels)?)
        } else if let Some(cluster) = Cluster::parse(url) {
            Place::Cluster(Box::new(cluster.map_err(AddressError::Cluster)?))
        } else {
            let server = url.into_connection_info().and_then(Client::open);
            Place::Server(server.map_err(AddressError::Server)?)
        };
        Ok(Self(Arc::new(Inner { place, newest: watch::Sender::default(), tries: AtomicUsize::new(0) })))
    }

    /// Number of the newest master that was found. A connection to a master with another number is out of date.
    pub(super) fn newest(&self) -> watch::Receiver<u64> {
        self.0.newest.subscribe()
    }

    /// True if the servers share the keys, so that there is no one master.
    pub(super) fn share_keys(&self) -> bool {
        matches!(self.0.place, Place::Cluster(_))
    }

    /// Connects to the server that accepts writes. Returns its number as well.
    pub(super) async fn connect(&self) -> Result<(Connection, u64), RedisConnectionError> {
        match &self.0.place {
            Place::Server(client) => Ok((Connection::Server(client.get_multiplexed_async_connection().await?), 0)),
            Place::Sentinels(sentinels) => {
                let master = sentinels.find().await?;
                Ok((Connection::Server(master.connection), self.note(master.is_new)))
            }
            Place::Cluster(cluster) => Ok((Connection::Cluster(cluster.connect().await?), 0)),
        }
    }

    /// Connects to the same server for messages of channels.
    pub(super) async fn listen(&self) -> Result<(PubSub, u64), RedisConnectionError> {
        match &self.0.place {
            Place::Server(client) => Ok((client.get_async_pubsub().await?, 0)),
            Place::Sentinels(sentinels) => {
                let master = sentinels.find().await?;
                let number = self.note(master.is_new);
                Ok((master.client.get_async_pubsub().await?, number))
            }
            Place::Cluster(cluster) => {
                let tries = self.0.tries.fetch_add(1, Ordering::Relaxed);
                Ok((cluster.listen(tries).await?, 0))
            }
        }
    }

    fn note(&self, is_new: bool) -> u64 {
        self.0.newest.send_if_modified(|number| {
            *number += u64::from(is_new);
            is_new
        });
        *self.0.newest.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_makes_no_sense_is_refused_with_an_example() {
        for (url, says) in [
            ("http://localhost", "redis://"),
            ("redis://h/x", "Invalid database number"),
            ("redis+sentinel://h1,h2", "no name of a master"),
            ("redis+sentinel://h1/", "no name of a master"),
            ("redis+sentinel:///main", "\"\" is no address of a server"),
            ("redis+sentinel://h1,,h2/main", "\"\" is no address of a server"),
            ("redis+sentinel://h1:x/main", "\"h1:x\" is no address of a server"),
            ("redis+sentinel://h1/main/x", "\"x\" is no number of a database"),
            ("redis+sentinel://h1:/main", "\"h1:\" is no address of a server"),
            ("redis+sentinel://:p/w@h1/main", "not percent-encoded"),
            ("redis+cluster://h1,h2/0", "\"0\" after the servers of a cluster"),
            ("redis+cluster://h1,:1", "\":1\" is no address of a server"),
            ("redis+other://h1", "did not parse"),
            ("redis+sentinel://h1/main?db=1", "\"main?db=1\" is no name of a master"),
        ] {
            let error = RedisServers::parse(url).err().unwrap_or_else(|| panic!("{url} was taken")).to_string();
            assert!(error.contains(says) && error.contains("Write it like redis"), "{url}: {error}");
        }
    }

    #[test]
    fn an_invalid_url_does_not_show_its_password() {
        for url in ["redis+sentinel://u:s3cret@h1:x/main", "redis+sentinel://:s3cret@h1", "redis://:s3cret@h:x/"] {
            let error = RedisServers::parse(url).err().expect("invalid");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn several_servers_are_named_in_a_url() {
        for url in [
            "redis+cluster://h1,h2:6380",
            "rediss+cluster://user:p%40ss@h1/",
            "redis+sentinel://h1/main",
            "redis+sentinel://h1:26379,h2,[::1]:26380,[::1]/main-1.a_b",
            "rediss+sentinel://user:p%40ss@h1,h2/main/3",
            "redis+sentinel://:p@ss@h1,h2/main",
        ] {
            assert!(RedisServers::parse(url).is_ok(), "{url}");
        }
    }
}
