//! `threadline lineage`: the generations of a store's history.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use threadline_core::limits::MAX_PAGE;
use threadline_store::{LineageCause, LineageStore, SecretAccess};

use super::{error::CliError, transfer::PlaceArgs};
use crate::app::{CommandStore, MissingData};

/// Operation on the history of a store.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A generation begins whenever commits may have been lost: a standby was promoted, a backup was restored, a data directory
was copied. Servers notice this and judge each cursor: readers that have seen lost events get 410 log-replaced, all others
continue. Run `new` after a return to older data that servers cannot notice: pg_restore into the same cluster, or a
snapshot of the disk or the virtual machine under Postgres.

Examples:
  threadline lineage list --data /var/lib/threadline
  THREADLINE_STORE=postgres://… threadline lineage new")]
pub struct LineageArgs {
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Debug, Clone, Subcommand)]
enum Operation {
    /// Lists the generations, the newest first
    List(PlaceArgs),
    /// Opens a generation, because commits may have been lost; on Postgres also while servers run
    New(PlaceArgs),
}

/// Runs `threadline lineage list` or `threadline lineage new`.
pub async fn run(args: &LineageArgs) -> Result<(), CliError> {
    let place = match &args.operation {
        Operation::List(place) | Operation::New(place) => place,
    };
    let opened = CommandStore::open(&place.choice()?, MissingData::Refuse, SecretAccess::None).await.map_err(told)?;
    let store = opened.store();
    let done = match args.operation {
        Operation::List(_) => list(store.as_ref()).await,
        Operation::New(_) => match store.adopt(LineageCause::Ordered).await {
            Ok(lineage) => {
                writeln!(io::stdout(), "generation {}: readers that saw lost events get 410", lineage.generation)
                    .map_err(CliError::from)
            }
            Err(error) => Err(told(error)),
        },
    };
    opened.close().await;
    done
}

async fn list(store: &(impl LineageStore + ?Sized)) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    for record in store.generations(MAX_PAGE).await.map_err(told)? {
        writeln!(out, "{}\t{}\t{}", record.generation, record.at, record.cause)?;
    }
    Ok(())
}

fn told(error: impl std::fmt::Display) -> CliError {
    CliError::Transfer(error.to_string())
}
