//! Command line: its grammar, and the commands other than `serve`.
//!
//! Exit codes: 0 success, 1 an error (on stderr, with advice), 2 the command line is wrong.

pub mod backup;
pub mod bench;
pub mod branches;
pub mod config;
mod connect;
mod error;
mod following;
pub mod health;
pub mod identity;
pub mod interrupts;
pub mod lineage;
pub mod nodes;
mod output;
pub mod queue;
mod render;
pub mod run;
pub mod secrets;
pub mod tail;
pub mod threads;
pub mod transfer;
pub mod trash;
pub mod verify;
pub mod verify_run;
pub mod version;
mod waiting;

use std::path::PathBuf;

use clap::{ArgGroup, Args, CommandFactory, Parser, Subcommand};

use crate::config::{ConfigError, StoreUrl, store_url, tidy};

pub use crate::config::{API_KEY_VARIABLE, ListenAddress, ServeArgs};
pub use backup::BackupArgs;
pub use bench::BenchArgs;
pub use branches::{BranchesArgs, ForkArgs};
pub use config::ConfigArgs;
pub use connect::ConnectArgs;
pub use error::{CliError, FAILED, MISUSED, report};
pub use health::HealthArgs;
pub use interrupts::{AnswerArgs, InterruptsArgs};
pub use lineage::LineageArgs;
pub use queue::QueueArgs;
pub use run::RunArgs;
pub use secrets::SecretsArgs;
pub use tail::TailArgs;
pub use threads::ThreadsArgs;
pub use transfer::{ExportArgs, ImportArgs};
pub use trash::TrashArgs;
pub use verify::VerifyArgs;
pub use verify_run::VerifyRunArgs;
pub use version::VersionArgs;

/// A self-hosted, realtime, event-sourced thread platform for AI agents.
#[derive(Debug, Parser)]
#[command(name = "threadline", version, arg_required_else_help = true, after_help = HELP)]
pub struct Cli {
    /// Connection to the server, for all client commands.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Command to run, with its arguments.
    #[command(subcommand)]
    pub command: Command,
}

const HELP: &str = "\
Examples:
  threadline dev                            Serve this machine on 127.0.0.1:7420, with the data in ./data
  threadline run my-thread \"Hello\"         Send a message to the built-in demo agent
  threadline threads                        List threads, the last used first
  threadline tail my-thread                 Show all events of a thread, then follow new ones
  threadline tail my-thread --json | jq .   The same as JSON
  threadline export moved/                  Export all threads, for `threadline import`
  threadline backup copy/                   Back up the data directory of a running server

Environment:
  THREADLINE_URL      The server that the other commands talk to
  THREADLINE_API_KEY  The API key: `serve` requires it from clients, and the other commands send it
  THREADLINE_USER     The user to act as
  THREADLINE_LISTEN   The address that `serve` listens on
  THREADLINE_DATA     The data directory of `serve`; what `export` reads and `import` writes
  THREADLINE_STORE    The Postgres database of `serve`, in place of the data directory
  THREADLINE_REDIS    The Redis that several nodes share; files with both URLs: THREADLINE_STORE_FILE, THREADLINE_REDIS_FILE
  THREADLINE_CONFIG   The configuration file of `serve`
  THREADLINE_LOG      The log level of `serve`: error, warn, info (default), debug; THREADLINE_LOG_FORMAT=json for machines
All settings of `serve`, each with a variable: `threadline serve --help`; their effective values: `threadline config`

Exit codes: 0 success, 1 error, 2 invalid usage";

const SERVE_HELP: &str = "\
Examples:
  export THREADLINE_API_KEY=$(openssl rand -hex 32)
  threadline serve
  threadline serve --listen 0.0.0.0:8080 --data /var/lib/threadline
  threadline serve --store postgres://threadline:secret@db/threadline --redis redis://cache/

Clients need the API key, or a key or token that it created. `threadline dev` is for development: without a key, and for this
machine only.
All data is in the data directory: `threadline backup` copies it while the server is running.
With --store and --redis any number of nodes share one database; put a load balancer in front of them.
Stop the server with Ctrl-C or SIGTERM: it completes active requests first, and tells readers to reconnect.\n
Every setting is described in docs/configuration.md; `--help` shows the limits as well, `-h` does not.";

const DEV_HELP: &str = "\
Examples:
  threadline dev
  threadline dev --listen 127.0.0.1:8080 --data /tmp/threadline
  threadline dev --agent trips=http://127.0.0.1:8000/

The same as `threadline serve --development`: every request from this machine is accepted, and acts as the user `dev` unless the
header Threadline-User names another.
Requests from other machines are rejected. Keys and tokens that are created here are valid here only.";

/// Complete grammar of the command line, ready for parsing.
pub fn command() -> clap::Command {
    tidy(Cli::command())
}

/// Commands of the program, with their arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Run the server in development mode: no authentication, for this machine only
    #[command(after_help = DEV_HELP)]
    Dev(ServeArgs),
    /// Show the effective configuration of the server, or only check it
    Config(ConfigArgs),
    /// Send a message to an agent, and print its response
    Run(RunArgs),
    /// Show the events of a thread, and follow new ones
    Tail(TailArgs),
    /// List threads
    Threads(ThreadsArgs),
    /// List the queued turns of a thread, or change them
    Queue(QueueArgs),
    /// Copy the beginning of a thread into a new one
    Fork(ForkArgs),
    /// List the branches of a conversation, or choose the one that lists show
    Branches(BranchesArgs),
    /// List the open interrupts of all threads
    Interrupts(InterruptsArgs),
    /// Answer the open interrupts of a thread, and print the agent's response
    Answer(AnswerArgs),
    /// Check server health (exit code 1 when not ready)
    Health(HealthArgs),
    /// Export threads to files
    Export(ExportArgs),
    /// Import threads from an export
    Import(ImportArgs),
    /// Back up a data directory, also while a server is running
    Backup(BackupArgs),
    /// List the generations of a store's history, or open one
    Lineage(LineageArgs),
    /// Seal stored secrets with another key, or replace those whose key is lost
    Secrets(SecretsArgs),
    /// Look for contradictions in stored data (exit code 1 if there are any)
    Verify(VerifyArgs),
    /// Compare what an agent was given in a run with the log (exit code 1 if they differ)
    VerifyRun(VerifyRunArgs),
    /// Migrate the schema of a PostgreSQL database
    Migrate(MigrateArgs),
    /// Create, list and revoke API keys
    Keys(identity::KeysArgs),
    /// Create a token with which a browser acts as one user
    Token(identity::TokenArgs),
    /// Create projects, and change their settings
    Projects(identity::ProjectsArgs),
    /// Sign out and erase users
    Users(identity::UsersArgs),
    /// List and restore threads that retention has put in the trash
    Trash(TrashArgs),
    /// Show or follow the audit log of a project
    Audit(identity::AuditArgs),
    /// List the nodes of an installation
    Nodes,
    /// Benchmark Threadline against a baseline on this machine (starts threadline-bench)
    Bench(BenchArgs),
    /// Print the OpenAPI document of the HTTP interface
    Openapi,
    /// Print the version, or the list of everything that this program was built from
    Version(VersionArgs),
}

/// Database whose schema is migrated.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("database").args(["store", "store_file"]).required(true).multiple(true)), after_help = "\
Examples:
  threadline migrate --store postgres://threadline@db.internal/threadline
  threadline migrate --store-file /etc/threadline/store-url     Other users can see arguments: pass passwords in a file

The server runs the same migration when it starts; this command runs it in advance. It is idempotent, and safe while servers of
the previous release are running.")]
pub struct MigrateArgs {
    /// The database; with ?pooler=transaction behind a pooler like pgbouncer
    #[arg(long, env = "THREADLINE_STORE", value_name = "URL", value_parser = StoreUrl)]
    pub store: Option<String>,
    /// File that holds the URL of the database
    #[arg(long, env = "THREADLINE_STORE_FILE", value_name = "FILE")]
    pub store_file: Option<PathBuf>,
}

impl MigrateArgs {
    /// URL of the database, from the argument or from the file.
    pub fn url(&self) -> Result<String, ConfigError> {
        // The parser requires one of them, and an empty one is not parsed.
        Ok(store_url(self.store.as_deref(), self.store_file.as_deref())?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    /// clap notices neither at compile time nor in `debug_assert`, but panics when the command reads its value.
    #[test]
    fn no_command_defines_a_global_option_again() {
        fn check(command: &clap::Command, global: &[&str]) {
            for own in command.get_subcommands() {
                for argument in own.get_arguments() {
                    let id = argument.get_id().as_str();
                    assert!(!global.contains(&id), "{} defines --{id}", own.get_name());
                }
                check(own, global);
            }
        }
        let root = Cli::command();
        let global: Vec<_> = root
            .get_arguments()
            .filter(|argument| argument.is_global_set())
            .map(|argument| argument.get_id().as_str())
            .collect();
        assert!(global.contains(&"project"), "{global:?}");
        check(&root, &global);
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
}
