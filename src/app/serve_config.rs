//! Configuration of a server.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use threadline_core::{
    AllowedOrigins, Limits,
    agent::Agent,
    limits::{DEFAULT_LOCK_KEY_PREFIX, TOKEN_LEEWAY},
};
use threadline_engine::LockTiming;
use threadline_http::egress::Network;
use threadline_secrets::Keyring;

use crate::{config::Authentication, titles::TitleSettings};

/// Configuration of `threadline serve`.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// Address and port of the admin listener; `None` for none.
    pub admin_listen: Option<SocketAddr>,
    /// Store that holds all data.
    pub store: StoreChoice,
    /// URL of the Redis that several nodes share, `redis://…`, `redis+sentinel://…` or `redis+cluster://…`; with TLS `rediss…`.
    pub redis: Option<String>,
    /// Leases and heartbeats of runs.
    pub timing: LockTiming,
    /// Prefix of the keys of locks in Redis.
    pub lock_key_prefix: String,
    /// Authentication of clients, chosen by the operator.
    pub authentication: Authentication,
    /// Keys under which stored secrets are sealed. Without them, a data directory has its own ones, and a database keeps its
    /// secrets unsealed.
    pub secret_keys: Option<Arc<Keyring>>,
    /// Largest difference between the clocks of token issuers and the store's.
    pub token_leeway: Duration,
    /// Agents of the configuration.
    pub agents: Vec<Agent>,
    /// Networks, in addition to the public internet, that agents made over the API may be in.
    pub agent_networks: Vec<Network>,
    /// Proxies whose connections are those of many clients.
    pub trusted_proxies: Vec<Network>,
    /// Limits of the node, of users and of projects.
    pub limits: Limits,
    /// Origins of web pages that may send requests from browsers.
    pub origins: AllowedOrigins,
    /// Settings for the titles of threads without a name; `None` if threads get no titles.
    pub naming: Option<TitleSettings>,
}

/// Place of all data.
#[derive(Debug, Clone)]
pub enum StoreChoice {
    /// Data directory, used by one node.
    Sqlite(PathBuf),
    /// Postgres database, `postgres://…`, shared by any number of nodes.
    Postgres(String),
}

impl ServeConfig {
    /// Configuration of a single node over its own data directory, in development mode.
    pub fn embedded(listen: SocketAddr, data: PathBuf) -> Self {
        Self {
            listen,
            admin_listen: None,
            store: StoreChoice::Sqlite(data),
            redis: None,
            timing: LockTiming::default(),
            lock_key_prefix: DEFAULT_LOCK_KEY_PREFIX.to_owned(),
            authentication: Authentication::Development,
            secret_keys: None,
            token_leeway: TOKEN_LEEWAY,
            agents: Vec::new(),
            agent_networks: Vec::new(),
            trusted_proxies: Vec::new(),
            limits: Limits::default(),
            origins: AllowedOrigins::default(),
            naming: Some(TitleSettings::default()),
        }
    }
}
