//! Wait of a command for a queued turn: until its run begins, or it is gone.

use std::{future::Future, io::Write, pin::Pin};

use threadline_client::{Client, RunOrTurn, TailItem, TailOptions};
use threadline_core::limits::TURN_LOOK_RETRY;
use tokio::time::sleep;

use super::{
    error::CliError,
    following::{Next, next},
    output::note,
};

/// End of the wait.
pub(super) enum Begun {
    /// The run has begun.
    Run,
    /// The user has interrupted the wait; the turn is still queued.
    Interrupted,
}

/// Waits until the run of a queued turn has begun. Fails with [`CliError::TurnGone`] if the turn leaves the queue without a run.
pub(super) async fn begun(
    client: &Client,
    thread: &str,
    run: &str,
    out: &mut impl Write,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
) -> Result<Begun, CliError> {
    let now = client.thread(thread).await?;
    // Only the news of the queue count, so the log is followed from its end.
    let mut tail = client.tail(thread, TailOptions { after: now.tail, epoch: Some(now.epoch), run: None });
    let mut place = None;
    loop {
        match next(&mut tail, out, interrupted.as_mut()).await? {
            Next::Interrupted => return Ok(Begun::Interrupted),
            // The turn may have left the queue before the connection, or while it was lost.
            Next::Item(Ok(TailItem::CaughtUp(_) | TailItem::Queue(_))) => {
                let found = tokio::select! {
                    found = look(client, thread, run) => found?,
                    () = interrupted.as_mut() => return Ok(Begun::Interrupted),
                };
                match found {
                    RunOrTurn::Run(_) => return Ok(Begun::Run),
                    RunOrTurn::Queued(placed) => {
                        if place.is_some_and(|place| place != placed.place) {
                            note(&format!("the message is number {} of the queue now", placed.place));
                        }
                        place = Some(placed.place);
                    }
                }
            }
            Next::Item(Ok(TailItem::Reconnecting { error, .. })) => note(&format!("{error}. Reconnecting")),
            Next::End | Next::Item(Ok(TailItem::Ended { .. })) => return Err(CliError::TurnGone(run.to_owned())),
            Next::Item(Ok(_)) => {}
            Next::Item(Err(error)) => return Err(error.into()),
        }
    }
}

/// Reads the turn or its run, until the server answers.
async fn look(client: &Client, thread: &str, run: &str) -> Result<RunOrTurn, CliError> {
    loop {
        match client.run_or_turn(thread, run).await {
            Ok(found) => return Ok(found),
            Err(error) if error.problem("run-not-found").is_some() => return Err(CliError::TurnGone(run.to_owned())),
            Err(error) if error.is_retryable() => sleep(error.retry_after().unwrap_or(TURN_LOOK_RETRY)).await,
            Err(error) => return Err(error.into()),
        }
    }
}
