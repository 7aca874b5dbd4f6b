//! `threadline tail`: a thread's events, as they arrive.

use std::{
    io::{self, BufWriter, Write},
    pin::pin,
};

use clap::Args;
use threadline_client::{Client, ClientError, EndReason, Envelope, TailItem, TailOptions};
use threadline_core::Seq;

use super::{
    connect::ConnectArgs,
    error::CliError,
    following::{Next, ctrl_c, next},
    output::note,
    render,
};

/// Events to show, and the format of the output.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Each line is one event: seq, time of day (UTC), run, type and content.
If the connection is lost, the command reconnects and continues after the last event: no event is skipped or shown twice.
Messages about the connection go to stderr. Ctrl-C ends the command.

Examples:
  threadline tail my-thread                        All events, then new ones
  threadline tail my-thread --after 1200 --epoch 0123456789abcdef    Only events after seq 1200
  threadline tail my-thread --run my-run           One run; ends with it
  threadline tail my-thread --until-caught-up      All current events, then exit
  threadline tail my-thread --json >> thread.ndjson
  threadline tail my-thread --raw | jq -rj 'select(.type == \"TEXT_MESSAGE_CONTENT\").delta'")]
pub struct TailArgs {
    /// The thread to follow
    #[arg(value_name = "THREAD")]
    pub thread: String,
    /// Start after this seq of the log with the epoch of --epoch
    #[arg(long, value_name = "SEQ", requires = "epoch")]
    pub after: Option<Seq>,
    /// The epoch of the log in which --after is a seq: that of the thread when it was read
    #[arg(long, value_name = "EPOCH")]
    pub epoch: Option<String>,
    /// Only the events of this run; exit when it ends
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Print each event with seq, run and time as one line of JSON
    #[arg(long, conflicts_with = "raw")]
    pub json: bool,
    /// Print only the JSON of each event, one per line
    #[arg(long)]
    pub raw: bool,
    /// Exit after the newest event
    #[arg(long)]
    pub until_caught_up: bool,
}

/// Follows the thread on stdout until its end, or Ctrl-C.
pub async fn run(connect: &ConnectArgs, args: &TailArgs) -> Result<(), CliError> {
    let mut out = BufWriter::new(io::stdout().lock());
    follow(&connect.client()?, args, &mut out, ctrl_c()).await
}

/// Does the work of [`run`] with the client, the output and the interruption as parameters, for tests.
pub async fn follow(
    client: &Client,
    args: &TailArgs,
    out: &mut impl Write,
    interrupted: impl Future<Output = ()>,
) -> Result<(), CliError> {
    let options = TailOptions { after: args.after.unwrap_or(0), epoch: args.epoch.clone(), run: args.run.clone() };
    let mut tail = client.tail(&args.thread, options);
    let mut interrupted = pin!(interrupted);
    let mut screen = Screen { args, connected: false, trouble: false, date: String::new() };
    loop {
        let Next::Item(item) = next(&mut tail, out, interrupted.as_mut()).await? else { break };
        if screen.show(item?, out)? {
            break;
        }
    }
    out.flush()?;
    Ok(())
}

struct Screen<'a> {
    args: &'a TailArgs,
    connected: bool,
    trouble: bool,
    date: String,
}

impl Screen<'_> {
    /// Shows an item. Returns true after the last one.
    fn show(&mut self, item: TailItem, out: &mut impl Write) -> Result<bool, CliError> {
        match item {
            TailItem::Hello { tail, epoch } => {
                if self.trouble {
                    note("reconnected");
                } else if !self.connected {
                    note(&format!("following {}, which has {tail} events in epoch {epoch}", self.args.thread));
                }
                (self.connected, self.trouble) = (true, false);
            }
            TailItem::Event { seq, run_id, at, event } => {
                if self.args.raw {
                    writeln!(out, "{}", event.get())?;
                } else if self.args.json {
                    let envelope = Envelope { seq, run_id, at, event };
                    serde_json::to_writer(&mut *out, &envelope).map_err(io::Error::from)?;
                    out.write_all(b"\n")?;
                } else {
                    self.new_day(&at, out)?;
                    writeln!(out, "{}", render::event(seq, &run_id, &at, event.get()))?;
                }
            }
            TailItem::CaughtUp(_) => return Ok(self.args.until_caught_up),
            TailItem::FellBehind(seq) => note(&format!("fell behind at seq {seq}; catching up")),
            TailItem::Queue(queue) => note(&render::queue(queue)),
            TailItem::Rebased { .. } => {
                note("the server has lost events, but none of those shown; continuing");
            }
            // A server that was never reached is more likely a wrong address than a restart.
            TailItem::Reconnecting { error: error @ ClientError::Unreachable { .. }, .. } if !self.connected => {
                return Err(error.into());
            }
            TailItem::Reconnecting { after, error, .. } => {
                if !self.trouble {
                    note(&format!("{error}. Reconnecting, to continue after seq {after}"));
                }
                self.trouble = true;
            }
            TailItem::Ended { reason } => {
                note(match reason {
                    EndReason::RunEnded => "the run has ended",
                    EndReason::ThreadDeleted => "the thread was deleted",
                    EndReason::LogReplaced => "the server has lost some of the events shown",
                    EndReason::LogDamaged => "the next events are damaged on the server",
                    EndReason::Unsubscribed | EndReason::Other => "the server ended the subscription",
                });
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Prints the date when it changes: lines show the time of day only.
    fn new_day(&mut self, at: &str, out: &mut impl Write) -> io::Result<()> {
        let date = render::date(at);
        if date != self.date {
            date.clone_into(&mut self.date);
            // The note must appear in order with the lines if both go to the same terminal.
            out.flush()?;
            note(&format!("-- {date} (UTC)"));
        }
        Ok(())
    }
}
