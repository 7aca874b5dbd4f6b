//! `threadline backup`: a copy of a data directory, while a server is running on it.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;

use super::{
    error::{CliError, report},
    output::note,
};
use crate::app;

/// Source and destination of a backup.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The backup is a consistent data directory. The server continues meanwhile; its write-ahead log grows until the backup is
complete. Only its owner can read it (0700, files 0600). The secrets in it are sealed, and the key is not in it: without a copy of
the key file (secret.key in the data directory, or that of --secret-key-file) no server starts on the backup.
Back up a Postgres database with its own tools: see OPERATIONS.md, also for restoring a backup.

Examples:
  threadline backup backups/2026-11-21
  threadline backup --data /var/lib/threadline /mnt/backups/2026-11-21")]
pub struct BackupArgs {
    /// The new directory of the backup
    #[arg(value_name = "DIR")]
    pub to: PathBuf,
    /// The data directory to back up
    #[arg(long, env = "THREADLINE_DATA", default_value = "./data", value_name = "DIR")]
    pub data: PathBuf,
    /// Verify the copy, as `threadline verify` does
    #[arg(long)]
    pub verify: bool,
}

/// Copies the data directory, prints the size of the copy, and verifies it if asked to.
pub async fn run(args: &BackupArgs) -> ExitCode {
    match copy(args).await {
        Ok(()) if args.verify => super::verify::whole(args.to.clone()).await,
        done => report(done),
    }
}

async fn copy(args: &BackupArgs) -> Result<(), CliError> {
    let bytes = app::backup(&args.data, &args.to).await.map_err(|error| CliError::Transfer(error.to_string()))?;
    writeln!(io::stdout(), "backed up {} to {}: {bytes} bytes", args.data.display(), args.to.display())?;
    note("the key file that opens its secrets is not in the backup: keep a copy of it in another place");
    Ok(())
}
