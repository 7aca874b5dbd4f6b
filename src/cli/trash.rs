//! `threadline trash`: threads that retention has put in the trash.

use std::io::Write;

use clap::{Args, Subcommand, builder::RangedU64ValueParser};
use serde_json::Value;
use threadline_core::limits::{DEFAULT_PAGE, MAX_PAGE};

use super::{
    connect::ConnectArgs,
    error::CliError,
    output::{note, shown},
};

/// Administration of a project's trash.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Retention puts unused threads in the trash, and removes them for good after the number of days in `graceDays`.

Examples:
  threadline trash list                      The last ones first, with the time of their removal
  threadline trash restore my-thread         With all events; cursors of readers stay good
  threadline --project acme trash list       In another project, with the operator's key")]
pub struct TrashArgs {
    #[command(subcommand)]
    command: TrashCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum TrashCommand {
    /// List the threads in the trash
    List {
        /// Maximum number of threads, the last ones first
        #[arg(long, value_name = "N", default_value_t = DEFAULT_PAGE, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
        limit: usize,
    },
    /// Restore a thread, unless its ID is in use
    Restore {
        /// ID of the thread
        thread_id: String,
    },
}

/// Runs `threadline trash`: a list page by page, or a restoration.
pub async fn run(connect: &ConnectArgs, args: &TrashArgs, out: &mut impl Write) -> Result<(), CliError> {
    let client = connect.client()?;
    match &args.command {
        TrashCommand::List { limit } => {
            let (mut left, mut cursor) = (*limit, None);
            loop {
                let page = client.trash(left.min(MAX_PAGE), cursor.as_deref()).await?;
                let threads = page["threads"].as_array().map(Vec::as_slice).unwrap_or_default();
                for trashed in threads {
                    let (thread, user) = (&trashed["thread"]["threadId"], &trashed["thread"]["userId"]);
                    let [thread, user, at, purge_at] =
                        [thread, user, &trashed["trashedAt"], &trashed["purgeAt"]].map(text);
                    writeln!(out, "{thread}  {user}  trashed {at}  removed {purge_at}")?;
                }
                left = left.saturating_sub(threads.len());
                cursor = page["nextCursor"].as_str().map(ToOwned::to_owned);
                if left == 0 || cursor.is_none() {
                    return Ok(());
                }
            }
        }
        TrashCommand::Restore { thread_id } => {
            let thread = client.restore_thread(thread_id).await?;
            writeln!(out, "{}", text(&thread["threadId"]))?;
            note(&format!("restored, with {} events", thread["tail"]));
            Ok(())
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map(|text| shown(text, usize::MAX)).unwrap_or_default()
}
