//! `threadline verify`: looks for contradictions in a store.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use threadline_core::{ProjectId, Timestamp};
use threadline_store::SecretAccess;

use super::{
    connect::ConnectArgs,
    error::{CliError, MISUSED},
    output::note,
};
use crate::{
    app::{CommandStore, MissingData, StoreChoice},
    config::store_url,
    progress::Progress,
    transfer::{Finding, Scope, verify},
};

/// Store to verify, and the part of it.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Every thread is read to its end, and these rules are checked: the seqs of a log have no gap, and its times do not go back;
the head ends where the log ends; the events of a run are consecutive, and a run that is over has one terminal event, its
last; the table turns has exactly the active runs; a feed names exactly the threads of its user; no row belongs to a thread
that does not exist; stored data has the checksum with which it was written; SQLite finds no damage in its file. Data that
cannot be read is reported, and the rest is verified. No thread is changed. But the store is opened as a server opens it: the schema of an older release is migrated,
a backup gets a generation of its own, and the leases of active runs in a data directory are renewed.
Each contradiction is a line of JSON on the standard output; the last line counts what was read.
Exit codes: 0 no contradiction, 1 contradictions, 2 the store could not be read.
Stop the server of a data directory first, or verify a backup of it. Nodes over a database may keep running.

Examples:
  threadline verify                                    The data directory ./data
  threadline verify backups/2026-11-21                 A backup
  threadline verify postgres://threadline@db.internal/threadline --rate 20
  threadline verify --project shop                     Only threads of this project
  threadline verify --since 2026-11-20T00:00:00Z       Only threads used since")]
pub struct VerifyArgs {
    /// A data directory, a backup of one, or a Postgres database
    #[arg(value_name = "DIR|URL", env = "THREADLINE_STORE")]
    pub place: Option<String>,
    /// File that holds the URL of a Postgres database, if no place is named
    #[arg(long, env = "THREADLINE_STORE_FILE", value_name = "FILE")]
    pub store_file: Option<PathBuf>,
    /// The data directory, if neither DIR|URL nor --store-file is given
    #[arg(long, env = "THREADLINE_DATA", default_value = "./data", value_name = "DIR")]
    pub data: PathBuf,
    /// Verify only threads that were used at this time (RFC 3339) or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<Timestamp>,
    /// Read at most this many MiB of events per second
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::from_rfc3339(text).ok_or_else(|| "not a time like 2026-11-20T00:00:00Z".to_owned())
}

impl VerifyArgs {
    /// Selects the place if one is named: the variable with the file may be that of the node on this machine.
    fn choice(&self) -> Result<StoreChoice, CliError> {
        Ok(match &self.place {
            Some(place) if place.contains("://") => StoreChoice::Postgres(place.clone()),
            Some(place) => StoreChoice::Sqlite(place.into()),
            None => match store_url(None, self.store_file.as_deref())? {
                Some(url) => StoreChoice::Postgres(url),
                None => StoreChoice::Sqlite(self.data.clone()),
            },
        })
    }
}

/// Verifies, and prints each contradiction as a line of JSON.
pub async fn run(connect: &ConnectArgs, args: &VerifyArgs) -> ExitCode {
    match scope(connect, args).and_then(|scope| Ok((args.choice()?, scope))) {
        Ok((choice, scope)) => exit(of(&choice, &scope).await),
        Err(error) => exit(Err(error)),
    }
}

/// Part of the store that is asked for.
fn scope(connect: &ConnectArgs, args: &VerifyArgs) -> Result<Scope, CliError> {
    let project = connect.project.as_ref().map(ProjectId::new).transpose();
    let project = project.map_err(|error| CliError::Transfer(format!("invalid project: {error}")))?;
    if let Some(project) = &project {
        // The project may come from the environment, so that a part would pass for the whole store without this note.
        note(&format!("only threads of the project {project}"));
    }
    Ok(Scope { project, since: args.since, rate: args.rate.map(|mib| u64::from(mib) << 20) })
}

/// Verifies a store completely, for `threadline backup --verify`.
pub(super) async fn whole(data: PathBuf) -> ExitCode {
    exit(of(&StoreChoice::Sqlite(data), &Scope::default()).await)
}

fn exit(clean: Result<bool, CliError>) -> ExitCode {
    match clean {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            note(&format!("error: {error}"));
            ExitCode::from(MISUSED)
        }
    }
}

/// True if no contradiction was found.
async fn of(choice: &StoreChoice, scope: &Scope) -> Result<bool, CliError> {
    let told = |error: &dyn std::fmt::Display| CliError::Transfer(error.to_string());
    let opened =
        CommandStore::open(choice, MissingData::Refuse, SecretAccess::None).await.map_err(|error| told(&error))?;
    let progress = Progress::default();
    let mut output = Ok(());
    let mut print = |line: String| {
        if output.is_ok() {
            output = writeln!(io::stdout(), "{line}");
        }
    };
    let done = verify(opened.tables(), scope, &progress, |finding: &Finding| print(finding.line().to_string())).await;
    progress.clear();
    opened.close().await;
    let done = done.map_err(|error| told(&error))?;
    print(done.line().to_string());
    output?;
    Ok(done.findings == 0)
}
