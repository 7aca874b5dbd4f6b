//! Servers of a Redis Cluster. Keys are spread over its masters; a message reaches the listeners of all its servers.

use redis::{
    Client, RedisResult,
    aio::PubSub,
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
};
use threadline_core::limits::REDIS_TIMEOUT;

use super::redis_address::{AddressProblem, ServerList};

/// Port of a server that is named without one.
const PORT: u16 = 6_379;
/// Times that a command is sent again, to the server that an answer names or after a pause.
const RETRIES: u32 = 3;
/// Shortest and longest pause before that, in milliseconds.
const PAUSES: (u64, u64) = (20, 100);

/// A cluster, as a URL names it.
pub(super) struct Cluster {
    client: ClusterClient,
    /// The servers of the URL: any of them passes messages on.
    servers: Vec<Client>,
}

impl Cluster {
    /// Reads a URL, `None` if it does not name a cluster.
    pub fn parse(url: &str) -> Option<Result<Self, AddressProblem>> {
        ServerList::parse(url, "cluster", PORT).map(|list| Self::new(&list?))
    }

    fn new(list: &ServerList) -> Result<Self, AddressProblem> {
        if let Some(path) = list.path.as_ref().filter(|path| !path.is_empty()) {
            return Err(AddressProblem::Path(path.clone()));
        }
        let urls: Vec<_> = list.servers.iter().map(|server| list.url(server, "")).collect();
        // Each URL was read before, with these credentials.
        let invalid = |_| AddressProblem::Credentials;
        let client = ClusterClientBuilder::new(urls.iter().map(String::as_str))
            .retries(RETRIES)
            .min_retry_wait(PAUSES.0)
            .max_retry_wait(PAUSES.1)
            // A server that does not answer is waited for twice, as one of the URL and as one of the cluster. That leaves time
            // to use the others.
            .connection_timeout(REDIS_TIMEOUT / 3)
            .response_timeout(REDIS_TIMEOUT)
            .build()
            .map_err(invalid)?;
        let servers = urls.into_iter().map(Client::open).collect::<RedisResult<_>>().map_err(invalid)?;
        Ok(Self { client, servers })
    }

    /// Connects to all servers.
    pub async fn connect(&self) -> RedisResult<ClusterConnection> {
        self.client.get_async_connection().await
    }

    /// Connects to one server for messages of channels: another one at each try.
    pub async fn listen(&self, tries: usize) -> RedisResult<PubSub> {
        let server = self.servers.get(tries % self.servers.len().max(1));
        server.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))?.get_async_pubsub().await
    }
}
