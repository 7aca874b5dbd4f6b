//! The command line: what can be said, and what the commands do beside `serve`.
//!
//! Exit codes: 0 done, 1 an error (told on stderr, with what to do about it), 2 the command line is wrong.

pub mod backup;
pub mod config;
mod following;
pub mod health;
pub mod identity;
pub mod moving;
mod output;
mod render;
pub mod run;
pub mod tail;
pub mod threads;

use std::{io, process::ExitCode};

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::{
    bench::BenchArgs,
    client::{Client, ClientConfig, ClientError},
    config::{ConfigError, StoreUrl, tidy},
};

pub use crate::config::{API_KEY_VARIABLE, ListenAddress, ServeArgs};
pub use backup::BackupArgs;
pub use config::ConfigArgs;
pub use health::HealthArgs;
pub use moving::{ExportArgs, ImportArgs, RestoredArgs};
pub use run::RunArgs;
pub use tail::TailArgs;
pub use threads::ThreadsArgs;

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
More settings of `serve`, each with a variable: `threadline serve --help`; how they are set now: `threadline config`

Exit codes: 0 done, 1 error, 2 wrong usage";

const SERVE_HELP: &str = "\
Examples:
  threadline serve
  threadline serve --listen 127.0.0.1:8080 --data /var/lib/threadline
  threadline serve --agent trips=http://127.0.0.1:8000/
  threadline serve --store postgres://threadline:secret@db/threadline --redis redis://cache/

Everything is in the data directory: `threadline backup` copies it while the server goes on.
With --store and --redis any number of nodes share one database; put a load balancer in front of them.
Stop the server with Ctrl-C or SIGTERM: requests under way are ended first, readers are told to reconnect.\n
Every setting is described in docs/configuration.md; `--help` shows the limits as well, `-h` does not.";

/// The whole command line, as it is to be parsed.
pub fn command() -> clap::Command {
    tidy(Cli::command())
}

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
    /// Project to act in, with the operator's key [default: the key's own]
    #[arg(long, global = true, env = "THREADLINE_PROJECT", value_name = "ID", help_heading = "Server to talk to")]
    pub project: Option<String>,
}

impl ConnectArgs {
    /// A client for that server, with the API key of the environment.
    pub fn client(&self) -> Result<Client, ClientError> {
        let mut config = ClientConfig::new(&self.url);
        config.user.clone_from(&self.user);
        config.project.clone_from(&self.project);
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
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Show the effective configuration of the server, or only check it
    Config(ConfigArgs),
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
    /// Make, list and revoke API keys
    Keys(identity::KeysArgs),
    /// Make a token with which a browser acts as one user
    Token(identity::TokenArgs),
    /// Make projects, and change their settings
    Projects(identity::ProjectsArgs),
    /// Erase users
    Users(identity::UsersArgs),
    /// Show what was done in a project's own affairs
    Audit(identity::AuditArgs),
    /// Measure Threadline beside a bare program on this machine
    Bench(BenchArgs),
    /// Print the OpenAPI document of the HTTP interface
    Openapi,
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
    #[arg(long, env = "THREADLINE_STORE", value_name = "URL", value_parser = StoreUrl)]
    pub store: String,
}

/// Exit code of a program that was given what it cannot work with: arguments, variables or a file.
pub const MISUSED: u8 = 2;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The server could not be asked, or refused.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// The run ended in RUN_ERROR.
    #[error("the run failed: {0}")]
    Run(String),
    /// The configuration is wrong.
    #[error("{0}")]
    Config(#[from] ConfigError),
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
            if matches!(error, CliError::Config(_)) { ExitCode::from(MISUSED) } else { ExitCode::FAILURE }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn help_is_short_and_shows_no_values() {
        let help = |flag: &str| {
            let error = command().try_get_matches_from(["threadline", "serve", flag]).expect_err("help");
            error.to_string()
        };
        let (short, long) = (help("-h"), help("--help"));
        assert!(!short.contains("--limit-") && long.contains("--limit-user-requests-per-second"), "{short}");
        assert!(short.contains("[env: THREADLINE_STORE]"), "{short}");
        let shown = |text: &str| text.contains("[env: THREADLINE_") && text.contains("=]");
        assert!(!shown(&short) && !shown(&long));
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
