//! What commands that follow a thread share: the next item, with everything shown before it is waited for.

use std::{
    future::Future,
    io::{self, Write},
    pin::Pin,
};

use futures_util::{FutureExt, StreamExt};

use crate::client::{ClientError, Tail, TailItem};

/// What comes next.
pub(super) enum Next {
    /// An item, or why there are no more.
    Item(Result<TailItem, ClientError>),
    /// Nothing more.
    End,
    /// The person wants no more.
    Interrupted,
}

/// Completes on Ctrl-C.
pub(super) async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        // No signal can be caught here; the default, which ends the process, stays in force.
        std::future::pending::<()>().await;
    }
}

/// Waits for what comes next.
pub(super) async fn next(
    tail: &mut Tail,
    out: &mut impl Write,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
) -> io::Result<Next> {
    // While events are at hand they are gathered; before waiting, all that was written is shown.
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
    // Also while events keep coming and nothing ever waits.
    if interrupted.now_or_never().is_some() {
        return Ok(Next::Interrupted);
    }
    Ok(item.map_or(Next::End, Next::Item))
}
