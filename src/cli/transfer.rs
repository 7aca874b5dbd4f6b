//! `threadline export` and `threadline import`: threads from one store to another.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use threadline_core::{ThreadId, UserId};
use threadline_secrets::Keyring;
use threadline_store::SecretAccess;

use super::{connect::ConnectArgs, error::CliError, output::note};
use crate::{
    app::{CommandStore, MissingData, StoreChoice},
    config::{StoreUrl, secret_keys, store_url},
    progress::Progress,
    transfer::{self, ExportedSecrets, Selection, Transferred},
};

/// The store that a command opens directly, without a server.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
    /// The data directory; an import creates it if it does not exist
    #[arg(long, env = "THREADLINE_DATA", default_value = "./data", value_name = "DIR")]
    pub data: PathBuf,
    /// A Postgres database instead of the directory: postgres://user:password@host/database
    #[arg(long, env = "THREADLINE_STORE", value_name = "URL", value_parser = StoreUrl)]
    pub store: Option<String>,
    /// File that holds the URL of the database, in place of --store
    #[arg(long, env = "THREADLINE_STORE_FILE", value_name = "FILE")]
    pub store_file: Option<PathBuf>,
}

/// The keys of a command that uses the secrets of a store.
#[derive(Debug, Clone, Args)]
pub struct SecretKeyArgs {
    /// File with the keys that seal the secrets of the store; not needed for a data directory that has a secret.key
    #[arg(long, env = "THREADLINE_SECRET_KEY_FILE", value_name = "FILE")]
    pub secret_key_file: Option<PathBuf>,
}

impl SecretKeyArgs {
    /// Reads the keys, if a file is named.
    pub fn keys(&self) -> Result<Option<Arc<Keyring>>, CliError> {
        Ok(self.secret_key_file.as_deref().map(secret_keys).transpose()?)
    }
}

impl PlaceArgs {
    /// Selects the database if one is named, else the data directory.
    pub fn choice(&self) -> Result<StoreChoice, CliError> {
        Ok(match store_url(self.store.as_deref(), self.store_file.as_deref())? {
            Some(url) => StoreChoice::Postgres(url),
            None => StoreChoice::Sqlite(self.data.clone()),
        })
    }
}

/// Source, destination and selection of an export.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The export contains all threads with their runs and events, feeds, the settings of projects, and the digests of API keys. Events
are copied byte for byte, and every cursor stays valid. With --with-secrets it also contains, in clear text, the agents created
over the API with their keys, and the secrets that sign the tokens of projects. Without it, the importing store makes new secrets:
tokens of users end, and the agents have to be created again.
Run an interrupted export again to continue it; run a complete one again to export the changes since.
Stop the server of a data directory first. Nodes over a database may keep running, but events appended during the export may
be missing.

Examples:
  threadline export moved/
  threadline export --with-secrets moved/
  threadline export --data /var/lib/threadline moved/
  threadline export --thread my-thread --thread another one-or-two/
  threadline export --user alice alice/

The format of the files: proto/export.md")]
pub struct ExportArgs {
    /// The directory to write to; created if it does not exist
    #[arg(value_name = "DIR")]
    pub to: PathBuf,
    /// Store to read the threads from.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Only this thread; may be given several times
    #[arg(long = "thread", value_name = "ID", value_parser = thread_id)]
    pub threads: Vec<ThreadId>,
    /// Also export the secrets of projects and the agents created over the API, in clear text
    #[arg(long)]
    pub with_secrets: bool,
    /// Keys of the store.
    #[command(flatten)]
    pub keys: SecretKeyArgs,
}

/// Source, selection and destination of an import.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Each thread is imported completely or not at all. A thread that exists with the same events is skipped. One that differs, or
whose file is damaged, is rejected; the others are imported. Run an interrupted import again to continue it. An active run is
imported with an expired lease: the server ends it when it starts.

Examples:
  threadline import moved/
  threadline import --store postgres://threadline:secret@db/threadline moved/

The format of the files: proto/export.md")]
pub struct ImportArgs {
    /// The directory of the export
    #[arg(value_name = "DIR")]
    pub from: PathBuf,
    /// Store to write the threads to.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Only this thread; may be given several times
    #[arg(long = "thread", value_name = "ID", value_parser = thread_id)]
    pub threads: Vec<ThreadId>,
    /// Keys of the store.
    #[command(flatten)]
    pub keys: SecretKeyArgs,
}

fn thread_id(text: &str) -> Result<ThreadId, String> {
    ThreadId::new(text).map_err(|error| error.to_string())
}

fn selection(connect: &ConnectArgs, threads: &[ThreadId]) -> Result<Selection, CliError> {
    let user = connect.user.as_ref().map(UserId::new).transpose();
    let user = user.map_err(|error| CliError::Transfer(format!("invalid user: {error}")))?;
    let selection = Selection { threads: threads.to_vec(), user };
    if !selection.is_all() {
        // The user may come from the environment, so that a partial export would pass for a complete one without this
        // note.
        note(&format!("only {selection}"));
    }
    Ok(selection)
}

pub async fn export(connect: &ConnectArgs, args: &ExportArgs) -> Result<(), CliError> {
    let selection = selection(connect, &args.threads)?;
    if args.with_secrets && !selection.is_all() {
        let only = format!("--with-secrets is for an export of everything, and this one is of {selection}");
        return Err(CliError::Transfer(only));
    }
    let (secrets, access) = match args.with_secrets {
        true => (ExportedSecrets::Written, SecretAccess::Keys(args.keys.keys()?)),
        false => (ExportedSecrets::LeftOut, SecretAccess::None),
    };
    let opened = CommandStore::open(&args.place.choice()?, MissingData::Refuse, access).await.map_err(told)?;
    let progress = Progress::default();
    let now = opened.store().clock().now();
    let moved = transfer::export(opened.store(), &args.to, &selection, secrets, now, &progress).await;
    progress.clear();
    opened.close().await;
    say("exported", &moved.map_err(told)?, "to", &args.to)?;
    if selection.is_all() && !args.with_secrets {
        note("without the secrets of projects and the agents created over the API: to export them, add --with-secrets");
    }
    Ok(())
}

pub async fn import(connect: &ConnectArgs, args: &ImportArgs) -> Result<(), CliError> {
    let selection = selection(connect, &args.threads)?;
    let access = SecretAccess::Keys(args.keys.keys()?);
    let opened = CommandStore::open(&args.place.choice()?, MissingData::Create, access).await.map_err(told)?;
    let progress = Progress::default();
    let refused = |refusal: &transfer::Refusal| note(&format!("rejected: {refusal}"));
    let moved = transfer::import(opened.store(), &args.from, &selection, &progress, refused).await;
    progress.clear();
    opened.close().await;
    let moved = moved.map_err(told)?;
    say("imported", &moved, "from", &args.from)?;
    match moved.refused {
        0 => Ok(()),
        refused => Err(CliError::Transfer(format!("{refused} rejected, see above; everything else is imported"))),
    }
}

fn told(error: impl std::fmt::Display) -> CliError {
    CliError::Transfer(error.to_string())
}

fn say(verb: &str, moved: &Transferred, way: &str, path: &Path) -> Result<(), CliError> {
    let Transferred { threads, events, present, .. } = moved;
    let mut out = io::stdout().lock();
    let counted = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (threads, events) = (counted(*threads, "thread"), counted(*events, "event"));
    write!(out, "{verb} {threads} with {events} {way} {}", path.display())?;
    if *present > 0 {
        write!(out, "; {present} existed already")?;
    }
    writeln!(out)?;
    Ok(())
}
