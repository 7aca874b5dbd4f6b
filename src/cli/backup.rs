//! `threadline backup`: a copy of a data directory, while a server is at work there.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use clap::Args;

use super::CliError;
use crate::app;

/// What to copy, and where to.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The copy is as of one moment, and a data directory of its own. The server goes on meanwhile; its write-ahead log grows until
the copy is there. Keys and header values of agents are in it: it is for its owner alone (0700, files 0600).
A Postgres database is backed up by its own tools: OPERATIONS.md says how, and how a backup is put back.

Examples:
  threadline backup backups/2026-11-21
  threadline backup --data /var/lib/threadline /mnt/backups/2026-11-21")]
pub struct BackupArgs {
    /// The new directory for the copy
    #[arg(value_name = "DIR")]
    pub to: PathBuf,
    /// The data directory to copy
    #[arg(long, env = "THREADLINE_DATA", default_value = "./data", value_name = "DIR")]
    pub data: PathBuf,
}

/// Copies it.
pub async fn run(args: &BackupArgs) -> Result<(), CliError> {
    let bytes = app::backup(&args.data, &args.to).await.map_err(|error| CliError::Moving(error.to_string()))?;
    writeln!(io::stdout(), "backed up {} to {}: {bytes} bytes", args.data.display(), args.to.display())?;
    Ok(())
}
