//! `threadline queue`: the turns that wait in a thread, and changes of them.

use std::io::{self, BufWriter, Write};

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Value, json};
use threadline_client::{Client, EditTurn, Queue, QueueState, QueuedTurn, TurnPlace};

use super::{
    connect::ConnectArgs,
    error::CliError,
    output::{note, shown},
    render,
};

/// Widest text of a turn in the list, in characters.
const TEXT_WIDTH: usize = 60;

/// Queue to show, or the change of it.
#[derive(Debug, Clone, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = "\
The next turn comes first. A turn is named by the ID of the run that it becomes. When a run is stopped or fails, what is
queued rests until it is released. A change prints the queue as it is then.

Examples:
  threadline queue my-thread
  threadline queue my-thread --json | jq -r '.items[].runId'
  threadline queue edit my-thread r2 \"And in German?\"
  threadline queue move my-thread r3 --before r2
  threadline queue move my-thread r2 --last
  threadline queue remove my-thread r2
  threadline queue hold my-thread
  threadline queue release my-thread
  threadline queue start my-thread r3       Stops the active run, and begins this turn
  threadline queue -- hold                  The queue of a thread that is named like a command"
)]
pub struct QueueArgs {
    /// The thread whose queue is shown
    #[arg(value_name = "THREAD")]
    pub thread: Option<String>,
    /// Print the queue as one line of JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    command: Option<QueueCommand>,
}

/// Thread, and one of its queued turns.
#[derive(Debug, Clone, Args)]
struct TurnArgs {
    /// The thread in which the turn waits
    #[arg(value_name = "THREAD")]
    thread: String,
    /// The turn: the ID of the run that it becomes
    #[arg(value_name = "RUN")]
    run: String,
}

#[derive(Debug, Clone, Subcommand)]
enum QueueCommand {
    /// Replace the message of a turn
    Edit {
        #[command(flatten)]
        turn: TurnArgs,
        /// The message that replaces it
        #[arg(value_name = "MESSAGE")]
        message: String,
        /// Fail if the queue has another version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
    },
    /// Move a turn to another place
    #[command(group(ArgGroup::new("place").args(["before", "last"]).required(true)))]
    Move {
        #[command(flatten)]
        turn: TurnArgs,
        /// Immediately before this turn
        #[arg(long, value_name = "RUN")]
        before: Option<String>,
        /// Behind all other turns
        #[arg(long)]
        last: bool,
        /// Fail if the queue has another version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
    },
    /// Remove a turn; it leaves no run
    Remove {
        #[command(flatten)]
        turn: TurnArgs,
    },
    /// Hold the queue: no turn begins until it is released
    Hold {
        /// The thread of the queue
        #[arg(value_name = "THREAD")]
        thread: String,
    },
    /// Release the queue, whatever holds it
    Release {
        /// The thread of the queue
        #[arg(value_name = "THREAD")]
        thread: String,
    },
    /// Begin a turn as soon as possible: it comes first, the queue is released, and the active run is stopped
    Start {
        #[command(flatten)]
        turn: TurnArgs,
    },
}

/// Shows or changes a queue, on stdout.
pub async fn run(connect: &ConnectArgs, args: &QueueArgs) -> Result<(), CliError> {
    carry_out(&connect.client()?, args, &mut BufWriter::new(io::stdout().lock())).await
}

/// Does the work of [`run`] with the client and the output as parameters, for tests.
pub async fn carry_out(client: &Client, args: &QueueArgs, out: &mut impl Write) -> Result<(), CliError> {
    let queue = match &args.command {
        // The parser requires the thread or a command.
        None => client.queue(args.thread.as_deref().unwrap_or_default()).await?,
        Some(QueueCommand::Edit { turn, message, if_version }) => {
            let input = json!({ "messages": [{ "role": "user", "content": message }] });
            let edit = EditTurn { input: Some(input), place: None, version: *if_version };
            client.edit_turn(&turn.thread, &turn.run, &edit, None).await?
        }
        Some(QueueCommand::Move { turn, before, last: _, if_version }) => {
            let place = before.clone().map_or(TurnPlace::Last, TurnPlace::Before);
            let edit = EditTurn { input: None, place: Some(place), version: *if_version };
            client.edit_turn(&turn.thread, &turn.run, &edit, None).await?
        }
        Some(QueueCommand::Remove { turn }) => {
            client.remove_turn(&turn.thread, &turn.run, None).await?;
            client.queue(&turn.thread).await?
        }
        Some(QueueCommand::Hold { thread }) => client.hold_queue(thread, None).await?,
        Some(QueueCommand::Release { thread }) => client.release_queue(thread, None).await?,
        Some(QueueCommand::Start { turn }) => client.start_turn(&turn.thread, &turn.run, None).await?,
    };
    if args.json {
        serde_json::to_writer(&mut *out, &queue).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    } else {
        print(&queue, out)?;
    }
    out.flush()?;
    Ok(())
}

fn print(queue: &Queue, out: &mut impl Write) -> io::Result<()> {
    for turn in &queue.items {
        writeln!(out, "{}", line(turn))?;
    }
    out.flush()?;
    let Queue { version, held, .. } = *queue;
    let state = QueueState { version, queued: queue.items.len() as u64, held };
    if state.queued == 0 || held.is_some() {
        note(&render::queue(state));
    }
    if held.is_some() {
        note(&format!("`threadline queue release {}` releases it", queue.thread_id));
    }
    Ok(())
}

/// Run, agent, caller, time, and what is said. Ids are complete, so that they can be copied.
fn line(turn: &QueuedTurn) -> String {
    let time = turn.at.replace('T', " ");
    let cells = [
        shown(&turn.run_id, usize::MAX),
        shown(&turn.agent_id, 24),
        shown(turn.asked_by.as_deref().unwrap_or("-"), 24),
        shown(time.split('.').next().unwrap_or_default(), 24),
        shown(turn.messages.iter().rev().find_map(said).unwrap_or("-"), TEXT_WIDTH),
    ];
    cells.join("  ")
}

/// Text of a message: its content, or the first text of its parts.
fn said(message: &Value) -> Option<&str> {
    let content = &message["content"];
    let of_part = || content.as_array()?.iter().find_map(|part| part["text"].as_str());
    content.as_str().or_else(of_part).filter(|text| !text.is_empty())
}
