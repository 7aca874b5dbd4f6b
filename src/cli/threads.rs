//! `threadline threads`: a list of threads.

use std::io::{self, BufWriter, Write};

use clap::{
    Args, ValueEnum,
    builder::{NonEmptyStringValueParser, RangedU64ValueParser},
};
use threadline_client::{Client, Thread, ThreadQuery, ThreadStatus};
use threadline_core::limits::{DEFAULT_PAGE, MAX_PAGE};

use super::{
    connect::ConnectArgs,
    error::CliError,
    output::{note, shown},
    render,
};

/// Widest name in the table, in characters.
const NAME_WIDTH: usize = 40;

/// Threads to list, and the format of the output.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The last used thread comes first.

Examples:
  threadline threads
  threadline threads --all --limit 1000
  threadline threads --search lisbon
  threadline threads --status failed
  threadline threads --agent support --json | jq -r .threadId")]
pub struct ThreadsArgs {
    /// Include archived threads
    #[arg(long)]
    pub all: bool,
    /// Only the threads of this agent
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Only threads in this state: a run is active, an interrupt is open, the last run failed, or none of these
    #[arg(long, value_name = "STATE")]
    pub status: Option<Status>,
    /// Only threads whose name contains this text, ignoring case and accents
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub search: Option<String>,
    /// Print each thread as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Maximum number of threads
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PAGE,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub limit: usize,
}

/// State of the threads to list.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Status {
    Running,
    Waiting,
    Failed,
    Idle,
}

impl From<Status> for ThreadStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Running => Self::Running,
            Status::Waiting => Self::Waiting,
            Status::Failed => Self::Failed,
            Status::Idle => Self::Idle,
        }
    }
}

/// Lists threads on stdout.
pub async fn run(connect: &ConnectArgs, args: &ThreadsArgs) -> Result<(), CliError> {
    list(&connect.client()?, args, &mut BufWriter::new(io::stdout().lock())).await
}

/// Does the work of [`run`] with the client and the output as parameters, for tests.
pub async fn list(client: &Client, args: &ThreadsArgs, out: &mut impl Write) -> Result<(), CliError> {
    let mut query = ThreadQuery {
        include_archived: args.all,
        agent_id: args.agent.clone(),
        status: args.status.map(Into::into),
        search: args.search.clone(),
        ..ThreadQuery::default()
    };
    let mut left = args.limit;
    let mut table = Vec::new();
    loop {
        query.limit = Some(left.min(MAX_PAGE));
        let page = client.list_threads(&query).await?;
        left = left.saturating_sub(page.threads.len());
        for thread in page.threads {
            if args.json {
                serde_json::to_writer(&mut *out, &thread).map_err(io::Error::from)?;
                out.write_all(b"\n")?;
            } else {
                table.push(row(&thread));
            }
        }
        query.cursor = page.next_cursor;
        if left == 0 || query.cursor.is_none() {
            break;
        }
    }
    if !args.json {
        print(&table, out)?;
    }
    out.flush()?;
    if table.is_empty() && !args.json {
        let found = if args.search.is_some() { "no thread has this text in its name" } else { "no threads" };
        note(&format!("{found}{}", if args.all { "" } else { " (--all includes archived threads)" }));
    } else if query.cursor.is_some() {
        note("more threads exist: raise --limit");
    }
    Ok(())
}

type Row = [String; 6];

fn row(thread: &Thread) -> Row {
    let time = thread.last_run_at.as_deref().unwrap_or(&thread.updated_at);
    [
        // Ids are complete, so that they can be copied.
        shown(&thread.thread_id, usize::MAX),
        thread.name.as_deref().map_or_else(|| "-".to_owned(), |name| shown(name, NAME_WIDTH)),
        thread.agent_id.as_deref().map_or_else(|| "-".to_owned(), |agent| shown(agent, 24)),
        thread.tail.to_string(),
        render::state(thread),
        shown(time.replace('T', " ").split('.').next().unwrap_or_default(), 24),
    ]
}

fn print(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let head = ["THREAD", "NAME", "AGENT", "EVENTS", "RUN", "LAST USED (UTC)"].map(str::to_owned);
    let mut widths = [0; 6];
    for row in std::iter::once(&head).chain(rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Numbers are aligned to the right of their column.
            let padded = if at == 3 { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            line.push_str(&padded);
            line.push_str("  ");
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
