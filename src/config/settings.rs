//! Every setting of the server, once: its flag, its variable, its default and its description. The file, `threadline
//! config` and the reference are derived from these definitions.

use std::{ffi::OsStr, fmt, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum, builder::TypedValueParser, error::ErrorKind, value_parser};
use threadline_core::{
    AllowedOrigins,
    limits::{
        DEFAULT_LEASE, DEFAULT_LOCK_KEY_PREFIX, DRAIN_DELAY, DRAIN_RUNS, DRAIN_SPREAD, LOCK_HEARTBEAT, MAX_DRAIN_DELAY,
        MAX_LEASE, MAX_LOCK_HEARTBEAT, MAX_TOKEN_LEEWAY, TOKEN_LEEWAY,
    },
};
use threadline_http::egress::Network;

use super::limits::LimitArgs;
use crate::telemetry;

/// Settings of the server.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Address and port to listen on; port 0 chooses a free port
    #[arg(long, env = "THREADLINE_LISTEN", default_value = "127.0.0.1:7420", value_name = "HOST:PORT")]
    pub listen: ListenAddress,
    /// Address and port of a second listener for monitoring only (/livez, /readyz, /metrics, /v1/nodes), which answers
    /// even if the main listener has reached its limit of connections. Requests there require the same keys
    #[arg(long, env = "THREADLINE_ADMIN_LISTEN", value_name = "HOST:PORT")]
    pub admin_listen: Option<ListenAddress>,
    /// Data directory; created if it does not exist
    #[arg(long, env = "THREADLINE_DATA", default_value = "./data", value_name = "DIR")]
    pub data: PathBuf,
    /// Postgres database, in place of the data directory: postgres://user:password@host/database; separate the hosts of
    /// several servers of it, of which one accepts writes, by commas
    #[arg(long, env = "THREADLINE_STORE", value_name = "URL", value_parser = StoreUrl)]
    pub store: Option<String>,
    /// File that holds the URL of the Postgres database, in place of --store: other users of the machine can see flags, and
    /// variables are inherited
    #[arg(long, env = "THREADLINE_STORE_FILE", value_name = "FILE")]
    pub store_file: Option<PathBuf>,
    /// Redis shared by the nodes: redis://:password@host:6379/0, or rediss://… for TLS; the master that sentinels name:
    /// redis+sentinel://:password@host1:26379,host2:26379/name/0, or rediss+sentinel://…; a Redis Cluster:
    /// redis+cluster://:password@host1,host2, or rediss+cluster://…
    #[arg(long, env = "THREADLINE_REDIS", value_name = "URL")]
    pub redis: Option<String>,
    /// File that holds the URL of Redis, in place of --redis
    #[arg(long, env = "THREADLINE_REDIS_FILE", value_name = "FILE")]
    pub redis_file: Option<PathBuf>,
    /// Development mode: no authentication, for this machine only. The command `threadline dev` is short for it; an API key
    /// excludes it
    #[arg(
        long,
        env = "THREADLINE_DEVELOPMENT",
        default_value_t = false,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub development: bool,
    /// File that holds the API key, if THREADLINE_API_KEY is not set; there is no flag for the key itself, since other users
    /// of the machine can see flags
    #[arg(long, env = "THREADLINE_API_KEY_FILE", value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// File with the keys under which the secrets in the store are sealed: lines id:base64 of 32 bytes, of which the first seals
    /// and all open. Default: secret.key in the data directory, which the server makes; with --store, secrets are not sealed
    #[arg(long, env = "THREADLINE_SECRET_KEY_FILE", value_name = "FILE")]
    pub secret_key_file: Option<PathBuf>,
    /// Allowed origin of web pages, as scheme://host or scheme://host:port; may be given several times, and in the variable
    /// separated by commas. Pages of this server's own host are always allowed. Without this setting, or with *, pages of all
    /// origins are, since each needs a key, token or ticket; in development mode only pages of this machine are
    #[arg(
        long = "allowed-origins",
        env = "THREADLINE_ALLOWED_ORIGINS",
        value_name = "ORIGIN",
        value_delimiter = ',',
        value_parser = origin
    )]
    pub allowed_origins: Vec<String>,
    /// Default lease of a run, which ends if its producer sends nothing for this long: 1 to 3600
    #[arg(
        long,
        env = "THREADLINE_LOCK_TTL_SECONDS",
        default_value_t = DEFAULT_LEASE.as_secs(),
        value_parser = value_parser!(u64).range(1..=MAX_LEASE.as_secs()),
        value_name = "SECONDS"
    )]
    pub lock_ttl_seconds: u64,
    /// Interval at which the lock of an active run is renewed in Redis: 1 to 3000
    #[arg(
        long,
        env = "THREADLINE_LOCK_HEARTBEAT_INTERVAL_SECONDS",
        default_value_t = LOCK_HEARTBEAT.as_secs(),
        value_parser = value_parser!(u64).range(1..=MAX_LOCK_HEARTBEAT.as_secs()),
        value_name = "SECONDS"
    )]
    pub lock_heartbeat_interval_seconds: u64,
    /// Prefix of the keys of locks in Redis, for a Redis shared by several applications
    #[arg(long, env = "THREADLINE_LOCK_KEY_PREFIX", default_value = DEFAULT_LOCK_KEY_PREFIX, value_name = "TEXT")]
    pub lock_key_prefix: String,
    /// Time after SIGTERM in which the server still accepts all requests, while /readyz returns 503 so that load balancers stop
    /// sending traffic: 0 to 600. A second signal ends the delay, and Ctrl-C skips it. Default: 5 with --store, 0 with a data
    /// directory
    #[arg(
        long,
        env = "THREADLINE_DRAIN_DELAY",
        value_parser = value_parser!(u64).range(0..=MAX_DRAIN_DELAY.as_secs()),
        value_name = "SECONDS"
    )]
    pub drain_delay: Option<u64>,
    /// Time after the drain delay over which sockets and event streams are closed, one after another, so that their clients
    /// do not reach the other servers at once: 0 to 600. Default: 10 with --store, 0 with a data directory
    #[arg(
        long,
        env = "THREADLINE_DRAIN_SPREAD",
        value_parser = value_parser!(u64).range(0..=MAX_DRAIN_DELAY.as_secs()),
        value_name = "SECONDS"
    )]
    pub drain_spread: Option<u64>,
    /// Time after the drain delay in which active runs of agents may end by themselves; no further run is started, and runs
    /// that are still active afterwards end with the code server-stopped: 0 to 600
    #[arg(
        long,
        env = "THREADLINE_DRAIN_RUNS",
        default_value_t = DRAIN_RUNS.as_secs(),
        value_parser = value_parser!(u64).range(0..=MAX_DRAIN_DELAY.as_secs()),
        value_name = "SECONDS"
    )]
    pub drain_runs: u64,
    /// Largest accepted difference between the clock of a token's issuer and the store's clock, which decides whether a
    /// token is valid: 0 to 600
    #[arg(
        long,
        env = "THREADLINE_TOKEN_LEEWAY_SECONDS",
        default_value_t = TOKEN_LEEWAY.as_secs(),
        value_parser = value_parser!(u64).range(0..=MAX_TOKEN_LEEWAY.as_secs()),
        value_name = "SECONDS"
    )]
    pub token_leeway_seconds: u64,
    /// Log level: error, warn, info, debug, or directives like info,threadline=debug
    #[arg(long, env = "THREADLINE_LOG", default_value = "info", value_name = "FILTER", value_parser = telemetry::filter)]
    pub log: String,
    /// Log format: text for people, json for machines
    #[arg(long, env = "THREADLINE_LOG_FORMAT", default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Configuration file (TOML) with settings and agents
    #[arg(long, env = "THREADLINE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// An agent with an AG-UI endpoint; may be given several times
    #[arg(long = "agent", value_name = "NAME=URL", value_parser = named_agent)]
    pub agents: Vec<(String, String)>,
    /// Networks allowed for agents created over the API, besides the public internet: private, loopback, or like 10.1.0.0/16,
    /// separated by commas
    #[arg(long, env = "THREADLINE_ALLOW_AGENT_NETWORKS", value_name = "NETWORKS", value_delimiter = ',')]
    pub allow_agent_networks: Vec<Network>,
    /// Proxies and load balancers in front of the server, as networks: private, or like 10.1.0.0/16, separated by commas. They
    /// connect for many clients, so the limits of an address and of unauthenticated connections do not apply to them
    #[arg(long, env = "THREADLINE_TRUSTED_PROXIES", value_name = "NETWORKS", value_delimiter = ',')]
    pub trusted_proxies: Vec<Network>,
    /// Generate names for threads without one: true or false. A project can disable it in its settings
    #[arg(
        long,
        env = "THREADLINE_GENERATE_THREAD_NAMES",
        default_value_t = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub generate_thread_names: bool,
    /// OpenAI-compatible endpoint that generates thread names: its URL up to /chat/completions. Without it threads are named by
    /// their agents if these are configured to, else by their users' first words
    #[arg(long, env = "THREADLINE_NAMING_BASE_URL", value_name = "URL")]
    pub naming_base_url: Option<String>,
    /// Model that generates thread names
    #[arg(long, env = "THREADLINE_NAMING_MODEL", value_name = "MODEL")]
    pub naming_model: Option<String>,
    /// File that holds the key of that endpoint, if it requires one and THREADLINE_NAMING_API_KEY is not set
    #[arg(long, env = "THREADLINE_NAMING_API_KEY_FILE", value_name = "FILE")]
    pub naming_api_key_file: Option<PathBuf>,
    /// Limits of requests, threads and users that an operator may change.
    #[command(flatten)]
    pub limits: LimitArgs,
}

impl ServeArgs {
    /// Times of the steps after SIGTERM. A server with a data directory is alone, so its clients have nowhere to go.
    pub fn drain_times(&self) -> DrainTimes {
        let usual = |time| if self.store.is_some() { time } else { Duration::ZERO };
        DrainTimes {
            delay: self.drain_delay.map_or(usual(DRAIN_DELAY), Duration::from_secs),
            spread: self.drain_spread.map_or(usual(DRAIN_SPREAD), Duration::from_secs),
            runs: Duration::from_secs(self.drain_runs),
        }
    }
}

/// Times of the steps in which a node departs. Each is zero by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrainTimes {
    /// Time for which the node is not ready, and still serves all requests.
    pub delay: Duration,
    /// Time over which sockets and streams are closed.
    pub spread: Duration,
    /// Time that the active runs of agents have to end by themselves.
    pub runs: Duration,
}

/// Format of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text per record, for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// True if a text begins like the URL of a Postgres database.
pub(super) fn is_database(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// Parses the address of a database. The refusal of clap itself would show the address, and with it the password.
#[derive(Debug, Clone)]
pub struct StoreUrl;

impl TypedValueParser for StoreUrl {
    type Value = String;

    fn parse_ref(&self, command: &clap::Command, _: Option<&clap::Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        if is_database(text) {
            return Ok(text.to_owned());
        }
        let what = "the URL of the database (--store or THREADLINE_STORE) is invalid: write it like \
                    postgres://user:password@host/database, or omit it to store the data in --data\n";
        Err(clap::Error::raw(ErrorKind::ValueValidation, what).with_cmd(command))
    }
}

fn named_agent(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, url)) if !name.is_empty() && !url.is_empty() => Ok((name.to_owned(), url.to_owned())),
        _ => Err("write it like trips=http://127.0.0.1:8000/".into()),
    }
}

fn origin(text: &str) -> Result<String, String> {
    AllowedOrigins::parse([text]).map(|_| text.to_owned())
}

/// `HOST:PORT`, the host being a name or an address. Names are resolved at the start of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// Name or address, without brackets.
    pub host: String,
    /// Port number; 0 selects any free port.
    pub port: u16,
}

impl std::str::FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: address.ip().to_string(), port: address.port() });
        }
        let wrong = || "write it like 127.0.0.1:7420, [::1]:7420 or localhost:7420".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() || host.contains([':', '/', '[', ']']) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_listen_on() {
        for (text, shown) in [
            ("127.0.0.1:7420", "127.0.0.1:7420"),
            ("localhost:0", "localhost:0"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:1", "0.0.0.0:1"),
        ] {
            assert_eq!(text.parse::<ListenAddress>().map(|address| address.to_string()), Ok(shown.to_owned()));
        }
        for text in ["", "7420", ":7420", "http://h:1", "::1:80", "h:70000", "h:"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
