//! Servers of Redis, as a URL names them: one server, or the master that sentinels name.

use std::sync::Arc;

use redis::{
    Client, IntoConnectionInfo, RedisError,
    aio::{MultiplexedConnection, PubSub},
};
use tokio::sync::watch;

use super::{
    redis_error::RedisConnectionError,
    redis_sentinels::{AddressProblem, Sentinels},
};

/// The address of Redis is invalid.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The URL does not name a server.
    #[error(
        "invalid Redis URL: {0}\n\
         Write it like redis://:password@host:6379/0, or rediss://… for TLS; with sentinels like \
         redis+sentinel://:password@host1:26379,host2:26379/name."
    )]
    Server(RedisError),
    /// The URL does not name sentinels and a master.
    #[error(
        "invalid Redis URL: {0}\n\
         Write it like redis+sentinel://:password@host1:26379,host2:26379/name/0, or rediss+sentinel://… for TLS."
    )]
    Sentinels(#[from] AddressProblem),
}

/// The servers of a URL. The clones share what is known about the master.
#[derive(Clone)]
pub struct RedisServers(Arc<Inner>);

struct Inner {
    place: Place,
    /// Number of the newest master: another number is another server.
    newest: watch::Sender<u64>,
}

enum Place {
    Server(Client),
    Sentinels(Sentinels),
}

impl RedisServers {
    /// Reads a URL, without a connection.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let place = match Sentinels::parse(url) {
            Some(sentinels) => Place::Sentinels(sentinels?),
            None => {
                let server = url.into_connection_info().and_then(Client::open);
                Place::Server(server.map_err(AddressError::Server)?)
            }
        };
        Ok(Self(Arc::new(Inner { place, newest: watch::Sender::default() })))
    }

    /// Number of the newest master that was found. A connection to a master with another number is out of date.
    pub(super) fn newest(&self) -> watch::Receiver<u64> {
        self.0.newest.subscribe()
    }

    /// Connects to the server that accepts writes. Returns its number as well.
    pub(super) async fn connect(&self) -> Result<(MultiplexedConnection, u64), RedisConnectionError> {
        match &self.0.place {
            Place::Server(client) => Ok((client.get_multiplexed_async_connection().await?, 0)),
            Place::Sentinels(sentinels) => {
                let master = sentinels.find().await?;
                Ok((master.connection, self.note(master.is_new)))
            }
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
            ("redis+sentinel:///main", "\"\" is no address of a sentinel"),
            ("redis+sentinel://h1,,h2/main", "\"\" is no address of a sentinel"),
            ("redis+sentinel://h1:x/main", "\"h1:x\" is no address of a sentinel"),
            ("redis+sentinel://h1/main/x", "\"x\" is no number of a database"),
            ("redis+sentinel://h1:/main", "\"h1:\" is no address of a sentinel"),
            ("redis+sentinel://:p/w@h1/main", "not percent-encoded"),
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
    fn sentinels_are_named_with_their_master() {
        for url in [
            "redis+sentinel://h1/main",
            "redis+sentinel://h1:26379,h2,[::1]:26380,[::1]/main-1.a_b",
            "rediss+sentinel://user:p%40ss@h1,h2/main/3",
            "redis+sentinel://:p@ss@h1,h2/main",
        ] {
            assert!(RedisServers::parse(url).is_ok(), "{url}");
        }
    }
}
