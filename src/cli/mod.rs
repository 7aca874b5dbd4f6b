//! The command line: what can be said, and what the commands do beside `serve`.
//!
//! Exit codes: 0 done, 1 an error (told on stderr, with what to do about it), 2 the command line is wrong.

pub mod backup;
mod following;
pub mod health;
pub mod moving;
mod output;
mod render;
pub mod run;
pub mod tail;
pub mod threads;

use std::{ffi::OsStr, fmt, io, net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, builder::TypedValueParser, error::ErrorKind, value_parser};

use crate::{
    bench::BenchArgs,
    client::{Client, ClientConfig, ClientError},
    domain::limits::{DEFAULT_LEASE, DEFAULT_LOCK_KEY_PREFIX, LOCK_HEARTBEAT, MAX_LEASE, MAX_LOCK_HEARTBEAT},
};

pub use backup::BackupArgs;
pub use health::HealthArgs;
pub use moving::{ExportArgs, ImportArgs, RestoredArgs};
pub use run::RunArgs;
pub use tail::TailArgs;
pub use threads::ThreadsArgs;

/// Where the API key is read from. Never from the arguments, which other users of the machine can see.
pub const API_KEY_VARIABLE: &str = "THREADLINE_API_KEY";

/// A self-hosted, realtime, event-sourced thread platform for AI agents.
#[derive(Debug, Parser)]
#[command(name = "threadline", version, arg_required_else_help = true, after_help = HELP)]
pub struct Cli {
    /// Which server to talk to.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const HELP: &str = "\
Examples:
  threadline serve                          Serve on 127.0.0.1:7420, keep everything in ./data
  threadline run my-thread \"Hello\"         Say something to the built-in demo agent
  threadline threads                        List threads, the one used last first
  threadline tail my-thread                 Show a thread's events from the first on, then live
  threadline tail my-thread --json | jq .   The same for programs
  threadline export moved/                  Write everything to files, for `threadline import`
  threadline backup copy/                   Copy the data directory while the server goes on

Environment:
  THREADLINE_URL      The server that the other commands talk to
  THREADLINE_API_KEY  The API key: `serve` then lets in only those who send it, and the other commands send it
  THREADLINE_USER     The user to act as
  THREADLINE_LISTEN   Where `serve` listens
  THREADLINE_DATA     Where `serve` keeps its data; what `export` reads and `import` writes
  THREADLINE_STORE    The Postgres database that `serve` keeps its data in instead
  THREADLINE_REDIS    The Redis that several nodes share
  THREADLINE_CONFIG   The configuration file of `serve`
  THREADLINE_LOG      What `serve` logs: error, warn, info (default), debug; THREADLINE_LOG_FORMAT=json for machines

Exit codes: 0 done, 1 error, 2 wrong usage";

/// Which server to talk to, and as whom.
#[derive(Debug, Clone, Args)]
pub struct ConnectArgs {
    /// Address of the server to talk to
    #[arg(
        long,
        global = true,
        env = "THREADLINE_URL",
        default_value = "http://127.0.0.1:7420",
        value_name = "URL",
        help_heading = "Server to talk to"
    )]
    pub url: String,
    /// User to act as [default: the server's default user; with an API key: the whole project]
    #[arg(long, global = true, env = "THREADLINE_USER", value_name = "ID", help_heading = "Server to talk to")]
    pub user: Option<String>,
}

impl ConnectArgs {
    /// A client for that server, with the API key of the environment.
    pub fn client(&self) -> Result<Client, ClientError> {
        let mut config = ClientConfig::new(&self.url);
        config.user.clone_from(&self.user);
        config.api_key = match std::env::var(API_KEY_VARIABLE) {
            // A file read into the variable often ends in a newline.
            Ok(key) => Some(key.trim().to_owned()).filter(|key| !key.is_empty()),
            Err(std::env::VarError::NotPresent) => None,
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(ClientError::Config(format!("{API_KEY_VARIABLE} is not text")));
            }
        };
        Client::new(config)
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server
    Serve(ServeArgs),
    /// Say something to an agent, and show its answer
    Run(RunArgs),
    /// Show the events of a thread, as they come
    Tail(TailArgs),
    /// List threads
    Threads(ThreadsArgs),
    /// Ask the server whether it is well, and what it stands on; exit code 1 if it takes no requests
    Health(HealthArgs),
    /// Write threads to files, to move them or to keep them
    Export(ExportArgs),
    /// Read threads from the files of an export
    Import(ImportArgs),
    /// Copy a data directory while a server is at work there
    Backup(BackupArgs),
    /// Say that a backup was put back: cursors from before are refused from now on
    Restored(RestoredArgs),
    /// Bring the schema of a PostgreSQL database up to date
    Migrate(MigrateArgs),
    /// Measure Threadline beside a bare program on this machine
    Bench(BenchArgs),
    /// Print the OpenAPI document of the HTTP interface
    Openapi,
}

/// How to run the server.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  threadline serve
  threadline serve --listen 127.0.0.1:8080 --data /var/lib/threadline
  threadline serve --agent trips=http://127.0.0.1:8000/
  threadline serve --store postgres://threadline:secret@db/threadline --redis redis://cache/

Everything is in the data directory: `threadline backup` copies it while the server goes on.
With --store and --redis any number of nodes share one database; put a load balancer in front of them.
Stop the server with Ctrl-C or SIGTERM: requests under way are ended first, readers are told to reconnect.")]
pub struct ServeArgs {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, env = "THREADLINE_LISTEN", default_value = "127.0.0.1:7420", value_name = "HOST:PORT")]
    pub listen: ListenAddress,
    /// Directory to keep everything in; made if it is not there
    #[arg(long, env = "THREADLINE_DATA", default_value = "./data", value_name = "DIR")]
    pub data: PathBuf,
    /// Postgres database to keep everything in, instead of the directory: postgres://user:password@host/database
    #[arg(long, env = "THREADLINE_STORE", hide_env_values = true, value_name = "URL", value_parser = StoreUrl)]
    pub store: Option<String>,
    /// Redis that the nodes share: redis://:password@host:6379/0, or rediss://… for TLS
    #[arg(long, env = "THREADLINE_REDIS", hide_env_values = true, value_name = "URL")]
    pub redis: Option<String>,
    /// How long a run may be silent before it is ended, if its producer asks for no other time
    #[arg(
        long,
        env = "THREADLINE_LOCK_TTL_SECONDS",
        default_value_t = DEFAULT_LEASE.as_secs(),
        value_parser = value_parser!(u64).range(1..=MAX_LEASE.as_secs()),
        value_name = "SECONDS"
    )]
    pub lock_ttl_seconds: u64,
    /// How often the lock of an active run is renewed in Redis
    #[arg(
        long,
        env = "THREADLINE_LOCK_HEARTBEAT_INTERVAL_SECONDS",
        default_value_t = LOCK_HEARTBEAT.as_secs(),
        value_parser = value_parser!(u64).range(1..=MAX_LOCK_HEARTBEAT.as_secs()),
        value_name = "SECONDS"
    )]
    pub lock_heartbeat_interval_seconds: u64,
    /// Begins the keys of locks in Redis: for several applications that share one
    #[arg(long, env = "THREADLINE_LOCK_KEY_PREFIX", default_value = DEFAULT_LOCK_KEY_PREFIX, value_name = "TEXT")]
    pub lock_key_prefix: String,
    /// Configuration file (TOML): the agents that runs can be handed to
    #[arg(long, env = "THREADLINE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// An AG-UI endpoint that runs can be handed to; may be given several times
    #[arg(long = "agent", value_name = "NAME=URL", value_parser = named_agent)]
    pub agents: Vec<(String, String)>,
}

/// Takes the address of a database. clap's own refusal would show what was given, and with it the password.
#[derive(Debug, Clone)]
pub struct StoreUrl;

impl TypedValueParser for StoreUrl {
    type Value = String;

    fn parse_ref(&self, command: &clap::Command, _: Option<&clap::Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(text.to_owned());
        }
        let what = "the address of the database (--store or THREADLINE_STORE) is not understood: write it like \
                    postgres://user:password@host/database; without it everything is kept in --data\n";
        Err(clap::Error::raw(ErrorKind::ValueValidation, what).with_cmd(command))
    }
}

/// Which database to migrate.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  threadline migrate --store postgres://threadline@db.internal/threadline
  THREADLINE_STORE=postgres://… threadline migrate     Passwords do not belong into arguments, which others can see

The server does the same when it starts; this is for those who want to do it before. It may be run at any time and as often
as you like, beside running servers of the release before.")]
pub struct MigrateArgs {
    /// The database; with ?pooler=transaction behind a pooler like pgbouncer
    #[arg(long, env = "THREADLINE_STORE", hide_env_values = true, value_name = "URL", value_parser = StoreUrl)]
    pub store: String,
}

fn named_agent(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, url)) if !name.is_empty() && !url.is_empty() => Ok((name.to_owned(), url.to_owned())),
        _ => Err("write it like trips=http://127.0.0.1:8000/".into()),
    }
}

/// `HOST:PORT`, the host being a name or an address. Names are resolved when the server starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// A name or an address, without brackets.
    pub host: String,
    /// 0 is any free port.
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

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The server could not be asked, or refused.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// The run ended in RUN_ERROR.
    #[error("the run failed: {0}")]
    Run(String),
    /// Threads could not be moved, or not all of them.
    #[error("{0}")]
    Moving(String),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Tells how a command ended. An output that nobody reads any more (`| head`) is a good end.
pub fn report(result: Result<(), CliError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(CliError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

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

    #[test]
    fn usage_errors_and_global_options() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        let code = |line: &str| parse(line).map_err(|error| error.exit_code()).err();
        assert_eq!(code("threadline tail"), Some(2));
        assert_eq!(code("threadline tail t --json --raw"), Some(2));
        assert_eq!(code("threadline threads --limit 0"), Some(2));
        assert_eq!(code("threadline threads --api-key k"), Some(2));
        assert_eq!(code("threadline --help"), Some(0));
        let cli = parse("threadline tail t --url http://h:1 --user alice").expect("a command line");
        assert_eq!((cli.connect.url.as_str(), cli.connect.user.as_deref()), ("http://h:1", Some("alice")));
    }

    #[test]
    fn a_password_is_not_repeated_by_a_refusal() {
        for url in ["mysql://u:secret@db/t", " postgres://u:secret@db/t", "u:secret@db"] {
            for command in ["serve", "migrate", "export", "import"] {
                let line = ["threadline", command, "--store", url, "to"];
                let end = if matches!(command, "export" | "import") { 5 } else { 4 };
                let error = Cli::try_parse_from(&line[..end]).expect_err("refused");
                assert_eq!(error.exit_code(), 2);
                let text = error.to_string();
                assert!(text.contains("postgres://user:password@host/database") && !text.contains("secret"), "{text}");
            }
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_a_good_end() {
        let gone = CliError::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!(report(Err(gone)), ExitCode::SUCCESS);
        assert_eq!(report(Err(CliError::Output(io::ErrorKind::StorageFull.into()))), ExitCode::FAILURE);
    }
}
