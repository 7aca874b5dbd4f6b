//! `threadline export` and `threadline import`: threads from one store to another. `threadline restored`: a store that is
//! older than its clients.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::Args;

use super::{CliError, ConnectArgs, output::note};
use crate::{
    app::{CommandStore, StoreChoice},
    config::StoreUrl,
    domain::{Clock, ThreadId, UserId},
    moving::{self, Moved, Selection},
    progress::Progress,
};

/// The store that a command works on by itself.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
    /// The data directory; an import makes it if it is not there
    #[arg(long, env = "THREADLINE_DATA", default_value = "./data", value_name = "DIR")]
    pub data: PathBuf,
    /// A Postgres database instead of the directory: postgres://user:password@host/database
    #[arg(long, env = "THREADLINE_STORE", value_name = "URL", value_parser = StoreUrl)]
    pub store: Option<String>,
}

impl PlaceArgs {
    /// The database if one is named, else the directory.
    pub fn choice(&self) -> StoreChoice {
        match &self.store {
            Some(url) => StoreChoice::Postgres(url.clone()),
            None => StoreChoice::Sqlite(self.data.clone()),
        }
    }
}

/// What to export, and where to.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Everything is written: all threads with their runs and events, feeds, the agents that were made over the API with their
keys, projects with the secrets of their tokens, and the digests of API keys: keep the directory to yourself. Events are kept byte for byte, and every cursor stays good.
An export that was broken off goes on where it was when it is given again; given again later it writes what has changed.
The server that uses a data directory must be stopped meanwhile; nodes over a database may go on, and what they append
during the export may be left out.

Examples:
  threadline export moved/
  threadline export --data /var/lib/threadline moved/
  threadline export --thread my-thread --thread another one-or-two/
  threadline export --user alice alice/

The form of the files: proto/export.md")]
pub struct ExportArgs {
    /// The directory to write to; made if it is not there
    #[arg(value_name = "DIR")]
    pub to: PathBuf,
    /// Which store.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Only this thread; may be given several times
    #[arg(long = "thread", value_name = "ID", value_parser = thread_id)]
    pub threads: Vec<ThreadId>,
}

/// What to import, and where to.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A thread is there whole or not at all. One that is there already with the same events is passed over, one that differs is
refused, and so is one whose file was damaged; the rest is imported. An import that was broken off goes on when it is given
again. A run that was under way comes with its lease over: the server ends it when it starts.

Examples:
  threadline import moved/
  threadline import --store postgres://threadline:secret@db/threadline moved/

The form of the files: proto/export.md")]
pub struct ImportArgs {
    /// The directory of the export
    #[arg(value_name = "DIR")]
    pub from: PathBuf,
    /// Which store.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Only this thread; may be given several times
    #[arg(long = "thread", value_name = "ID", value_parser = thread_id)]
    pub threads: Vec<ThreadId>,
}

/// Where a backup was put back.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
After a backup was put back, before anything is started on it: clients hold cursors into events that are lost, and would be
given other events under the same numbers. From now on such a cursor is answered 410 log-replaced, clients read from the
beginning, and every list of threads is told of all of its threads once more. Nothing else is changed.
Not after `threadline import`, and not after a copy that no server was started on since it was made: there all cursors
are good. All nodes must be stopped.

Examples:
  threadline restored --data /var/lib/threadline
  THREADLINE_STORE=postgres://… threadline restored")]
pub struct RestoredArgs {
    /// Which store.
    #[command(flatten)]
    pub place: PlaceArgs,
}

fn thread_id(text: &str) -> Result<ThreadId, String> {
    ThreadId::new(text).map_err(|error| error.to_string())
}

fn selection(connect: &ConnectArgs, threads: &[ThreadId]) -> Result<Selection, CliError> {
    let user = connect.user.as_ref().map(UserId::new).transpose();
    let user = user.map_err(|error| CliError::Moving(format!("the user: {error}")))?;
    let selection = Selection { threads: threads.to_vec(), user };
    if !selection.is_all() {
        // The user may come from the environment, and a part be taken for the whole.
        note(&format!("only {selection}"));
    }
    Ok(selection)
}

/// Exports from a store.
pub async fn export(connect: &ConnectArgs, args: &ExportArgs) -> Result<(), CliError> {
    let selection = selection(connect, &args.threads)?;
    let opened = CommandStore::open(&args.place.choice(), false).await.map_err(told)?;
    let progress = Progress::default();
    let moved = moving::export(opened.store(), &args.to, &selection, Clock::system().now(), &progress).await;
    progress.clear();
    opened.close().await;
    say("exported", &moved.map_err(told)?, "to", &args.to)
}

/// Imports into a store.
pub async fn import(connect: &ConnectArgs, args: &ImportArgs) -> Result<(), CliError> {
    let selection = selection(connect, &args.threads)?;
    let opened = CommandStore::open(&args.place.choice(), true).await.map_err(told)?;
    let progress = Progress::default();
    let refused = |refusal: &moving::Refusal| note(&format!("refused: {refusal}"));
    let moved = moving::import(opened.store(), &args.from, &selection, &progress, refused).await;
    progress.clear();
    opened.close().await;
    let moved = moved.map_err(told)?;
    say("imported", &moved, "from", &args.from)?;
    match moved.refused {
        0 => Ok(()),
        refused => Err(CliError::Moving(format!("{refused} refused, as told above; everything else is there"))),
    }
}

/// Makes all cursors into a store worthless.
pub async fn restored(args: &RestoredArgs) -> Result<(), CliError> {
    let opened = CommandStore::open(&args.place.choice(), false).await.map_err(told)?;
    let progress = Progress::default();
    let threads = moving::restored(opened.store().as_ref(), &progress).await;
    progress.clear();
    opened.close().await;
    let threads = threads.map_err(|error| CliError::Moving(format!("{error}\nGive the same command again.")))?;
    let counted = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    writeln!(io::stdout(), "{counted}: cursors from before are refused from now on")?;
    Ok(())
}

fn told(error: impl std::fmt::Display) -> CliError {
    CliError::Moving(error.to_string())
}

fn say(verb: &str, moved: &Moved, way: &str, path: &Path) -> Result<(), CliError> {
    let Moved { threads, events, present, .. } = moved;
    let mut out = io::stdout().lock();
    let counted = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (threads, events) = (counted(*threads, "thread"), counted(*events, "event"));
    write!(out, "{verb} {threads} with {events} {way} {}", path.display())?;
    if *present > 0 {
        let were = if *present == 1 { "was" } else { "were" };
        write!(out, "; {present} {were} there already")?;
    }
    writeln!(out)?;
    Ok(())
}
