//! Request bodies: bounded in size, and in the time that they may be silent.

use axum::body::{Body, BodyDataStream, HttpBody};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http_body_util::BodyExt;
use tokio::time;

use super::problem::{Problem, ProblemType};
use crate::domain::limits::BODY_DEADLINE;

/// A body may be read to its end for this long after its request was answered, so that a client that writes
/// everything before it reads still finds the answer.
const DISCARD_TIME: time::Duration = time::Duration::from_secs(5);

/// The whole body. A silence inside it that is longer than `silence` ends the request, and so does a body that trickles
/// for more than [`BODY_DEADLINE`].
pub async fn read(mut body: Body, limit: usize, silence: time::Duration) -> Result<Bytes, Problem> {
    let too_large = || Problem::new(ProblemType::TooLarge, format!("the body has at most {limit} bytes"));
    let mut whole = BytesMut::new();
    let deadline = time::Instant::now() + BODY_DEADLINE;
    loop {
        let patience = deadline.min(time::Instant::now() + silence);
        let frame = time::timeout_at(patience, body.frame())
            .await
            .map_err(|_| Problem::new(ProblemType::BodyTimeout, "no more of the body came for too long"))?;
        let Some(frame) = frame else { return Ok(whole.freeze()) };
        let frame = frame.map_err(|error| Problem::invalid(format!("the body broke off: {error}")))?;
        if let Ok(data) = frame.into_data() {
            if whole.len() + data.len() > limit {
                discard(body.into_data_stream());
                return Err(too_large());
            }
            if whole.is_empty() && body.is_end_stream() {
                // One piece: nothing to copy.
                return Ok(data);
            }
            whole.extend_from_slice(&data);
        }
    }
}

/// Reads on without keeping anything, for a moment, beside the answer.
pub fn discard(mut body: BodyDataStream) {
    tokio::spawn(async move {
        let rest = async { while let Some(Ok(_)) = body.next().await {} };
        // Out of time: the connection closes on the client, which is all that is left to do.
        let _ = time::timeout(DISCARD_TIME, rest).await;
    });
}
