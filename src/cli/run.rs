//! `threadline run`: a message to an agent, and its answer as it arrives.

use std::{
    io::{self, BufWriter, Write},
    pin::pin,
};

use clap::{Args, ValueEnum};
use serde_json::json;
use threadline_client::{Busy, Client, CreateThread, RunAnswer, StartRun, StartedRun, TailItem, TailOptions};
use threadline_core::{RunId, json as peek};

use super::{
    connect::ConnectArgs,
    error::CliError,
    following::{Next, ctrl_c, next},
    output::note,
    waiting::{self, Begun},
};

/// Message to send, and the agent that responds to it.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The agent's text goes to stdout, everything else (tools, errors) to stderr. The thread is created if it does not exist.
The run belongs to the server: Ctrl-C ends this command, not the run. While another run of the thread is active, the message is
refused, unless --busy or the agent chooses otherwise: it then waits in the queue, and this command until the run has ended.

Examples:
  threadline run my-thread \"Hello there\"
  threadline run my-thread \"Plan a day in Ghent\" --agent trips
  threadline run my-thread \"And in French?\" --busy enqueue
  threadline tail my-thread          Every event of the thread, as stored in the log")]
pub struct RunArgs {
    /// The thread that receives the message
    #[arg(value_name = "THREAD")]
    pub thread: String,
    /// The message
    #[arg(value_name = "MESSAGE")]
    pub message: String,
    /// The agent that responds
    #[arg(long, value_name = "AGENT", default_value = "demo")]
    pub agent: String,
    /// While another run is active: refuse the message, queue it behind all others, or queue it before all others and stop the
    /// active run [default: what the agent prefers]
    #[arg(long, value_name = "CHOICE")]
    pub busy: Option<BusyChoice>,
}

/// Fate of a message while another run of the thread is active.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum BusyChoice {
    Reject,
    Enqueue,
    Interrupt,
}

impl From<BusyChoice> for Busy {
    fn from(choice: BusyChoice) -> Self {
        match choice {
            BusyChoice::Reject => Self::Reject,
            BusyChoice::Enqueue => Self::Enqueue,
            BusyChoice::Interrupt => Self::Interrupt,
        }
    }
}

/// Sends the message, and shows the answer on stdout until the run has ended.
pub async fn run(connect: &ConnectArgs, args: &RunArgs) -> Result<(), CliError> {
    let mut out = BufWriter::new(io::stdout().lock());
    say(&connect.client()?, args, &mut out, ctrl_c()).await
}

/// Does the work of [`run`] with the client, the output and the interruption as parameters, for tests.
pub async fn say(
    client: &Client,
    args: &RunArgs,
    out: &mut impl Write,
    interrupted: impl Future<Output = ()>,
) -> Result<(), CliError> {
    if let Err(error) = client.thread(&args.thread).await {
        if error.problem("thread-not-found").is_none() {
            return Err(error.into());
        }
        let thread = CreateThread { thread_id: Some(args.thread.clone()), ..CreateThread::default() };
        client.create_thread(&thread).await?;
    }
    let mut interrupted = pin!(interrupted);
    let id = RunId::generate().to_string();
    let start = StartRun {
        run_id: Some(id.clone()),
        agent_id: Some(args.agent.clone()),
        input: Some(json!({ "messages": [{ "role": "user", "content": args.message }] })),
        ..StartRun::default()
    };
    let options = match client.start_or_queue(&args.thread, &start, args.busy.map(Into::into)).await? {
        RunAnswer::Started(started) => of_run(*started, id),
        RunAnswer::Queued(placed) => {
            note(&format!("the message waits as number {} of the queue, for the run {id}", placed.place));
            match waiting::begun(client, &args.thread, &id, out, interrupted.as_mut()).await? {
                Begun::Run => TailOptions { run: Some(id), ..TailOptions::default() },
                Begun::Interrupted => {
                    note(&format!(
                        "the message still waits; `threadline queue remove {} {id}` removes it",
                        args.thread
                    ));
                    return Ok(());
                }
            }
        }
    };
    follow(client, &args.thread, options, out, interrupted).await
}

/// Selection of the events of a run that was started.
pub(super) fn of_run(started: StartedRun, id: String) -> TailOptions {
    TailOptions { after: started.cursor, epoch: Some(started.epoch), run: Some(id) }
}

/// Shows a run that was started until it has ended.
pub(super) async fn follow(
    client: &Client,
    thread: &str,
    options: TailOptions,
    out: &mut impl Write,
    interrupted: impl Future<Output = ()>,
) -> Result<(), CliError> {
    let mut tail = client.tail(thread, options);
    let mut interrupted = pin!(interrupted);
    let mut failed = None;
    loop {
        match next(&mut tail, out, interrupted.as_mut()).await? {
            Next::Interrupted => {
                note("the run continues; `threadline tail` shows it");
                break;
            }
            Next::End | Next::Item(Ok(TailItem::Ended { .. })) => break,
            Next::Item(Ok(TailItem::Event { event, .. })) => {
                if let Some(error) = show(event.get(), out)? {
                    failed = Some(error);
                }
            }
            Next::Item(Ok(TailItem::Reconnecting { error, .. })) => note(&format!("{error}. Reconnecting")),
            Next::Item(Ok(_)) => {}
            Next::Item(Err(error)) => return Err(error.into()),
        }
    }
    out.flush()?;
    failed.map_or(Ok(()), |error| Err(CliError::Run(error)))
}

/// Shows an event. Returns the error of a RUN_ERROR.
fn show(event: &str, out: &mut impl Write) -> io::Result<Option<String>> {
    let text = |name: &str| peek::string_member(event, name).unwrap_or_default();
    match text("type").as_str() {
        "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_CHUNK" => out.write_all(plain(&text("delta")).as_bytes())?,
        "TEXT_MESSAGE_END" => writeln!(out)?,
        "TOOL_CALL_START" => note(&format!("[{}]", text("toolCallName"))),
        "RUN_FINISHED" if peek::member(event, "outcome").is_some_and(|outcome| outcome.contains("\"interrupt\"")) => {
            note("the agent waits for an answer (give it with `threadline answer THREAD`)");
        }
        "RUN_ERROR" => return Ok(Some(format!("{}: {}", text("code"), text("message")))),
        _ => {}
    }
    Ok(None)
}

/// Text over several lines, without control characters.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_and_errors_are_reported() {
        let mut out = Vec::new();
        let mut see = |event: &str| show(event, &mut out).expect("written");
        assert_eq!(see(r#"{"type":"TEXT_MESSAGE_CONTENT","delta":"a\n\u001b[31mb"}"#), None);
        assert_eq!(see(r#"{"type":"TEXT_MESSAGE_END"}"#), None);
        assert_eq!(see(r#"{"type":"STATE_SNAPSHOT","snapshot":{"delta":"no"}}"#), None);
        let error = see(r#"{"type":"RUN_ERROR","code":"agent-silent","message":"gone"}"#);
        assert_eq!(error.as_deref(), Some("agent-silent: gone"));
        assert_eq!(out, b"a\n[31mb\n");
    }
}
