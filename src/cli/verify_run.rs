//! `threadline verify-run`: compares what an agent was given in a run with the log.

use std::{io::Write, process::ExitCode};

use clap::Args;
use threadline_client::{Client, Envelope, EventQuery};
use threadline_core::{Seq, limits::MAX_PAGE, projection::conversation::Conversation};

use super::{
    connect::ConnectArgs,
    error::{CliError, FAILED, report},
};
use crate::agents::input::{Attempts, MAX_OPENING_EVENTS, Verdict, Verdicts, evidence, verify};

/// Thread and run to verify.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Folds the log up to the run, or up to the checkpoint at which it began, builds the agent's input again, and compares the digests with those that the server stored with
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
            Ok(()) if is_different(&found) => ExitCode::from(FAILED),
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
    // Later attempts have evidence of their own, if they continue others.
    let needed = if record.attempt > 1 { usize::MAX } else { MAX_OPENING_EVENTS };
    let mut own: Vec<Envelope> = Vec::new();
    loop {
        let page = client.events(&args.thread, &query).await?;
        let mut is_past = false;
        for envelope in page.events {
            if envelope.seq < record.first_seq {
                before.observe(envelope.event.get().as_bytes());
            } else if *envelope.run_id == *args.run && own.len() < needed {
                own.push(envelope);
            } else {
                is_past = true;
            }
        }
        if !page.has_more || is_past || own.len() == needed {
            break;
        }
        query = EventQuery { cursor: Some(page.next_cursor), limit: query.limit, ..EventQuery::default() };
    }
    let first: Vec<&str> = own.iter().take(MAX_OPENING_EVENTS).map(|envelope| envelope.event.get()).collect();
    let Some(found) = evidence(&first) else { return Ok(None) };
    if let Some(base) = found.base {
        before = conversation_at(client, &args.thread, base.seq).await?;
    }
    let mut attempts = Attempts::new(&found, &before, &first);
    own.iter().for_each(|envelope| attempts.observe(envelope.seq, envelope.event.get()));
    Ok(Some(Verdicts { attempts: attempts.found, ..verify(found, &before, &first) }))
}

/// Conversation after the event with this seq.
async fn conversation_at(client: &Client, thread: &str, seq: Seq) -> Result<Conversation, CliError> {
    let mut conversation = Conversation::default();
    let mut query = EventQuery { limit: Some(MAX_PAGE), ..EventQuery::default() };
    loop {
        let page = client.events(thread, &query).await?;
        for envelope in page.events {
            if envelope.seq > seq {
                return Ok(conversation);
            }
            conversation.observe(envelope.event.get().as_bytes());
        }
        if !page.has_more {
            return Ok(conversation);
        }
        query = EventQuery { cursor: Some(page.next_cursor), limit: query.limit, ..EventQuery::default() };
    }
}

fn is_different(found: &Verdicts) -> bool {
    let of_attempts = found.attempts.iter().flat_map(|attempt| &attempt.parts);
    found.parts.iter().chain(of_attempts).any(|(_, verdict)| *verdict == Verdict::Different)
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
    for attempt in &found.attempts {
        let parts = attempt.parts.iter().map(|(part, verdict)| format!("{part} {verdict}")).collect::<Vec<_>>();
        writeln!(out, "attempt {}, which continued the one before: {}", attempt.attempt, parts.join(", "))?;
    }
    out.flush()
}
