//! Loop shared by the commands that follow a thread: the next item, with all output flushed before the wait.

use std::{
    future::Future,
    io::{self, Write},
    pin::Pin,
};

use futures_util::{FutureExt, StreamExt};
use threadline_client::{ClientError, Tail, TailItem};

/// Outcome of one wait.
pub(super) enum Next {
    /// An item, or the error that ends the stream.
    Item(Result<TailItem, ClientError>),
    /// End of the stream.
    End,
    /// Interruption by the user, with Ctrl-C.
    Interrupted,
}

/// Completes when the user presses Ctrl-C.
pub(super) async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the default of the signal stays in force, which ends the process.
        std::future::pending::<()>().await;
    }
}

/// Waits for the next item, or for the interruption.
pub(super) async fn next(
    tail: &mut Tail,
    out: &mut impl Write,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
) -> io::Result<Next> {
    // Available events are collected without a flush; before a wait, all output is flushed.
    let item = match tail.next().now_or_never() {
        Some(item) => item,
        None => {
            out.flush()?;
            tokio::select! {
                item = tail.next() => item,
                () = interrupted.as_mut() => return Ok(Next::Interrupted),
            }
        }
    };
    // An interruption must also end a stream that never waits.
    if interrupted.now_or_never().is_some() {
        return Ok(Next::Interrupted);
    }
    Ok(item.map_or(Next::End, Next::Item))
}
