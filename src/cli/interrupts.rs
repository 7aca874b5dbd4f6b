//! `threadline interrupts` and `threadline answer`: what waits for an answer over all threads, and the answer.

use std::{
    collections::BTreeSet,
    io::{self, BufWriter, Write},
};

use clap::{Args, builder::RangedU64ValueParser};
use serde_json::{Value, json};
use threadline_client::{Client, ClientError, InboxQuery, OpenInterrupt, RunAnswer, StartRun};
use threadline_core::{
    RunId,
    limits::{DEFAULT_PAGE, MAX_INBOX_PAGE},
};

use super::{
    connect::ConnectArgs,
    error::CliError,
    following::ctrl_c,
    output::{note, shown},
    run,
};

/// Widest text of an interrupt in the list, in characters.
const TEXT_WIDTH: usize = 60;

/// Interrupts to list, and the format of the output.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The thread whose run ended last comes first. Archived threads and threads with an active run are left out.

Examples:
  threadline interrupts
  threadline interrupts --agent support --json | jq -r .threadId")]
pub struct InterruptsArgs {
    /// Only the threads of this agent
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Print each interrupt as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Maximum number of threads
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PAGE,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub limit: usize,
}

/// Thread that waits, and the answer.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
All open interrupts of the thread get the same answer, in one run of the agent that asked. To answer them differently, start the
run yourself: POST /v1/threads/{threadId}/runs with `resume` in its input.

Examples:
  threadline answer my-thread
  threadline answer my-thread --payload '{\"approved\":true}'
  threadline answer my-thread --cancel")]
pub struct AnswerArgs {
    /// The thread that waits
    #[arg(value_name = "THREAD")]
    pub thread: String,
    /// The answer, as JSON in the form that the agent expects
    #[arg(long, value_name = "JSON", conflicts_with = "cancel", value_parser = payload)]
    pub payload: Option<Value>,
    /// Cancel the interrupts instead of resolving them
    #[arg(long)]
    pub cancel: bool,
}

fn payload(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Lists interrupts on stdout.
pub async fn run(connect: &ConnectArgs, args: &InterruptsArgs) -> Result<(), CliError> {
    list(&connect.client()?, args, &mut BufWriter::new(io::stdout().lock())).await
}

/// Does the work of [`run()`] with the client and the output as parameters, for tests.
pub async fn list(client: &Client, args: &InterruptsArgs, out: &mut impl Write) -> Result<(), CliError> {
    let mut query = InboxQuery { agent_id: args.agent.clone(), ..InboxQuery::default() };
    let (mut threads, mut seen) = (0, None);
    loop {
        query.limit = Some((args.limit - threads).min(MAX_INBOX_PAGE));
        let page = client.list_interrupts(&query).await?;
        for open in page.interrupts {
            if seen.as_ref() != Some(&open.thread_id) {
                threads += 1;
                seen = Some(open.thread_id.clone());
            }
            if args.json {
                serde_json::to_writer(&mut *out, &open).map_err(io::Error::from)?;
                out.write_all(b"\n")?;
            } else {
                writeln!(out, "{}", line(&open))?;
            }
        }
        query.cursor = page.next_cursor;
        if threads >= args.limit || query.cursor.is_none() {
            break;
        }
    }
    out.flush()?;
    if threads == 0 && !args.json {
        note("nothing waits for an answer");
    } else if query.cursor.is_some() {
        note("more threads wait: raise --limit");
    }
    Ok(())
}

/// Thread, agent, time, and what is asked. Ids are complete, so that they can be copied.
fn line(open: &OpenInterrupt) -> String {
    let text = |name: &str| open.interrupt[name].as_str().filter(|text| !text.is_empty());
    let asked = text("message").or_else(|| text("reason")).or_else(|| text("id")).unwrap_or("-");
    let time = open.opened_at.replace('T', " ");
    let cells = [
        shown(&open.thread_id, usize::MAX),
        shown(open.agent_id.as_deref().unwrap_or("-"), 24),
        shown(time.split('.').next().unwrap_or_default(), 24),
        shown(asked, TEXT_WIDTH),
    ];
    cells.join("  ")
}

/// Answers on behalf of the user, and shows the response of the agent on stdout until the run has ended.
pub async fn answer(connect: &ConnectArgs, args: &AnswerArgs) -> Result<(), CliError> {
    let mut out = BufWriter::new(io::stdout().lock());
    settle(&connect.client()?, args, &mut out, ctrl_c()).await
}

/// Does the work of [`answer()`] with the client, the output and the interruption as parameters, for tests.
pub async fn settle(
    client: &Client,
    args: &AnswerArgs,
    out: &mut impl Write,
    interrupted: impl Future<Output = ()>,
) -> Result<(), CliError> {
    let open = of_thread(client, &args.thread).await?;
    let agents: BTreeSet<&str> = open.iter().filter_map(|open| open.agent_id.as_deref()).collect();
    let Some(agent) = agents.first().map(|agent| (*agent).to_owned()) else {
        return Err(CliError::NothingWaits(args.thread.clone()));
    };
    if agents.len() > 1 {
        return Err(CliError::SeveralAgents(args.thread.clone()));
    }
    let status = if args.cancel { "cancelled" } else { "resolved" };
    let resume = open.iter().map(|open| {
        let mut entry = json!({ "interruptId": open.interrupt["id"], "status": status });
        if let Some(payload) = &args.payload {
            entry["payload"] = payload.clone();
        }
        entry
    });
    let id = RunId::generate().to_string();
    let start = StartRun {
        run_id: Some(id.clone()),
        agent_id: Some(agent),
        input: Some(json!({ "resume": resume.collect::<Vec<_>>() })),
        ..StartRun::default()
    };
    // An answer never waits.
    let started = match client.start_or_queue(&args.thread, &start, None).await? {
        RunAnswer::Started(started) => *started,
        RunAnswer::Queued(placed) => return Err(ClientError::Queued(placed).into()),
    };
    run::follow(client, &args.thread, run::of_run(started, id), out, interrupted).await
}

/// Open interrupts of a thread.
async fn of_thread(client: &Client, thread: &str) -> Result<Vec<OpenInterrupt>, CliError> {
    let mut query = InboxQuery { limit: Some(MAX_INBOX_PAGE), ..InboxQuery::default() };
    loop {
        let page = client.list_interrupts(&query).await?;
        let open: Vec<_> = page.interrupts.into_iter().filter(|open| open.thread_id == thread).collect();
        query.cursor = page.next_cursor;
        if !open.is_empty() || query.cursor.is_none() {
            return Ok(open);
        }
    }
}
