//! `threadline verify-run`: compares what an agent was given in a run with the log.

use std::{io::Write, process::ExitCode};

use clap::Args;
use threadline_client::{Client, Envelope, EventQuery};
use threadline_core::{limits::MAX_PAGE, projection::conversation::Conversation};

use super::{
    connect::ConnectArgs,
    error::{CliError, FAILED, report},
};
use crate::agents::input::{Verdict, Verdicts, evidence, verify};

/// Number of a run's first events that the server writes: RUN_STARTED and STATE_SNAPSHOT.
const FIRST_EVENTS: usize = 2;

/// Thread and run to verify.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Folds the log up to the run, builds the agent's input again, and compares the digests with those that the server stored with
the run's start.

  same        The agent was given what the log holds
  different   The agent was given something else
  not kept    The log does not hold this part: the messages of a client with a key that sent its own history; tools and context
              unless the agent's `record` is `full`
  other fold  The program that started the run folds logs differently

Examples:
  threadline verify-run my-thread my-run

Exit codes: 0 no part is different, 1 a part is different or the run has no evidence")]
pub struct VerifyRunArgs {
    /// The thread of the run
    #[arg(value_name = "THREAD")]
    pub thread: String,
    /// The run to verify
    #[arg(value_name = "RUN")]
    pub run: String,
}

/// Prints a line per part of the input.
pub async fn run(connect: &ConnectArgs, args: &VerifyRunArgs, out: &mut impl Write) -> ExitCode {
    let compared = async { compare(&connect.client()?, args).await };
    match compared.await {
        Ok(Some(found)) => match print(&found, out) {
            Ok(()) if found.parts.iter().any(|(_, verdict)| *verdict == Verdict::Different) => ExitCode::from(FAILED),
            printed => report(printed.map_err(CliError::from)),
        },
        Ok(None) => report(Err(CliError::NoEvidence(format!(
            "run {:?} has no evidence: only runs that the server drives have it",
            args.run
        )))),
        Err(error) => report(Err(error)),
    }
}

/// Reads the log up to the run, and compares. `None` if the run has no evidence.
pub async fn compare(client: &Client, args: &VerifyRunArgs) -> Result<Option<Verdicts>, CliError> {
    let record = client.run_record(&args.thread, &args.run).await?;
    let mut before = Conversation::default();
    let mut query = EventQuery { limit: Some(MAX_PAGE), ..EventQuery::default() };
    let mut first: Vec<Envelope> = Vec::new();
    loop {
        let page = client.events(&args.thread, &query).await?;
        for envelope in page.events {
            if envelope.seq < record.first_seq {
                before.observe(envelope.event.get().as_bytes());
            } else if *envelope.run_id == *args.run && first.len() < FIRST_EVENTS {
                first.push(envelope);
            }
        }
        if !page.has_more || first.len() == FIRST_EVENTS {
            break;
        }
        query = EventQuery { cursor: Some(page.next_cursor), limit: query.limit, ..EventQuery::default() };
    }
    let first: Vec<&str> = first.iter().map(|envelope| envelope.event.get()).collect();
    Ok(evidence(&first).map(|found| verify(found, &before, &first)))
}

fn print(found: &Verdicts, out: &mut impl Write) -> std::io::Result<()> {
    for (part, verdict) in &found.parts {
        writeln!(out, "{part:<9}  {verdict}")?;
    }
    let evidence = &found.evidence;
    let source = match &evidence.messages.log {
        Some(_) => "the log",
        None => "the client",
    };
    writeln!(out, "{} messages from {source}, {} context entries", evidence.messages.count, evidence.context)?;
    if evidence.moved > 0 {
        writeln!(out, "{} messages of the client became context", evidence.moved)?;
    }
    for (kind, number) in &evidence.ignored {
        writeln!(out, "ignored: {kind}={number}")?;
    }
    out.flush()
}
