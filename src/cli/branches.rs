//! `threadline fork` and `threadline branches`: copies of threads, and the branches of a conversation.

use std::io::{self, BufWriter, Write};

use clap::Args;
use threadline_client::{Client, ForkThread, Thread};
use threadline_core::Seq;

use super::{
    connect::ConnectArgs,
    error::CliError,
    output::{note, shown},
};

/// Widest name of a thread in the list, in characters.
const NAME_WIDTH: usize = 40;

/// Thread to fork, and the place.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The fork has the events of the thread up to a seq, with the same seqs, and goes on by itself. Lists then show the fork, and not the
thread, unless it is separate. Prints the ID of the fork.

Examples:
  threadline fork my-thread
  threadline fork my-thread --at 12 --id my-fork
  threadline fork my-thread --separate
  threadline run $(threadline fork my-thread --at 12) \"In French, please\"")]
pub struct ForkArgs {
    /// The thread to fork
    #[arg(value_name = "THREAD")]
    pub thread: String,
    /// The last event that the fork has too; the newest one if absent
    #[arg(long, value_name = "SEQ")]
    pub at: Option<Seq>,
    /// The ID of the fork
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Make a conversation of its own, and no branch of this one
    #[arg(long)]
    pub separate: bool,
}

/// Conversation whose branches are listed, or the branch to list.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The oldest branch comes first. Lists and feeds show the one that is marked with *.

Examples:
  threadline branches my-thread
  threadline branches my-thread --list my-fork
  threadline branches my-thread --json | jq -r 'select(.listed).threadId'")]
pub struct BranchesArgs {
    /// A thread of the conversation
    #[arg(value_name = "THREAD")]
    pub thread: String,
    /// Have lists and feeds show this branch
    #[arg(long, value_name = "THREAD")]
    pub list: Option<String>,
    /// Print each branch as one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Forks a thread, and prints the ID of the fork on stdout.
pub async fn fork(connect: &ConnectArgs, args: &ForkArgs) -> Result<(), CliError> {
    fork_with(&connect.client()?, args, &mut io::stdout().lock()).await
}

/// Does the work of [`fork`] with the client and the output as parameters, for tests.
pub async fn fork_with(client: &Client, args: &ForkArgs, out: &mut impl Write) -> Result<(), CliError> {
    let fork = ForkThread { thread_id: args.id.clone(), at: args.at, separate: args.separate };
    let thread = client.fork(&args.thread, &fork, None).await?;
    writeln!(out, "{}", thread.thread_id)?;
    Ok(())
}

/// Lists the branches of a conversation on stdout.
pub async fn run(connect: &ConnectArgs, args: &BranchesArgs) -> Result<(), CliError> {
    carry_out(&connect.client()?, args, &mut BufWriter::new(io::stdout().lock())).await
}

/// Does the work of [`run`] with the client and the output as parameters, for tests.
pub async fn carry_out(client: &Client, args: &BranchesArgs, out: &mut impl Write) -> Result<(), CliError> {
    if let Some(chosen) = &args.list {
        client.list_branch(&args.thread, chosen).await?;
    }
    let branches = client.branches(&args.thread).await?;
    for branch in &branches {
        if args.json {
            serde_json::to_writer(&mut *out, branch).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        } else {
            writeln!(out, "{}", line(branch))?;
        }
    }
    out.flush()?;
    if branches.len() == 1 && !args.json {
        note("no other branches: `threadline fork` makes one");
    }
    Ok(())
}

/// Mark of the listed one, id, origin, number of events, time, and name. Ids are complete, so that they can be copied.
fn line(branch: &Thread) -> String {
    let origin = branch.forked_from.as_ref();
    let origin = origin.map_or_else(|| "-".to_owned(), |from| format!("{} at {}", from.thread_id, from.seq));
    let time = branch.last_run_at.as_deref().unwrap_or(&branch.updated_at).replace('T', " ");
    let cells = [
        if branch.listed { "*" } else { " " }.to_owned(),
        shown(&branch.thread_id, usize::MAX),
        shown(&origin, usize::MAX),
        branch.tail.to_string(),
        shown(time.split('.').next().unwrap_or_default(), 24),
        shown(branch.name.as_deref().unwrap_or("-"), NAME_WIDTH),
    ];
    cells.join("  ")
}
