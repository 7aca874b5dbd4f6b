//! Request bodies: bounded in size, in the time that they may take, and in the memory that all of them together hold.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use axum::{
    body::{BodyDataStream, HttpBody},
    extract::Request,
};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt, stream};
use http_body_util::BodyExt;
use threadline_core::{
    Limits, Principal,
    limits::{BODY_FREE_BYTES, BODY_ROOM_WAIT, MAX_SMALL_PIECES, QUOTA_RETRY, SMALL_PIECE_BYTES},
};
use threadline_engine::limits::{BudgetExceeded, BudgetOwner, BudgetPermit, Limited, MemoryBudget, MemoryKind, Quota};
use tokio::time::{self, Duration, Instant};

use crate::problem::{Problem, ProblemType};

/// Time for which the rest of a body is read after its request was answered, so that a client that writes everything
/// before it reads still receives the response.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Reads bodies for a node.
#[derive(Debug, Clone)]
pub struct BodyReader {
    /// Read timeout: the longest time without data inside a body.
    pub read_timeout: Duration,
    /// Timeout of a body that waits for memory.
    pub memory_timeout: Duration,
    limits: Limits,
    quota: Quota,
    memory: MemoryBudget,
}

/// Principal of a request, as of its authentication.
#[derive(Debug, Clone)]
pub(crate) struct Presented {
    pub principal: Principal,
    /// Value of [`Auth::changes`](crate::auth::Auth::changes) before the authentication.
    pub as_of: u64,
}

/// A complete body, with its share of the memory budget of all bodies. The handler must hold it until the request is
/// answered. Clones share the memory and the permit.
#[derive(Debug, Clone)]
pub struct Whole {
    bytes: Bytes,
    held: Arc<BudgetPermit>,
}

impl Whole {
    fn new(bytes: Bytes, held: BudgetPermit) -> Self {
        Self { bytes, held: Arc::new(held) }
    }

    /// The body of an inner request: a part of this body, so it stands for the same permit.
    pub fn inner(&self, part: Bytes) -> Self {
        Self { bytes: part, held: self.held.clone() }
    }
}

/// Effect of a quota of bytes that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// The body is refused.
    Refuses,
    /// The body passes: a heartbeat or a stop is small, and must not wait for what its user has appended.
    Passes,
}

/// Bytes of a body that have arrived. They are charged whatever becomes of the request: also if the body is too large, stays
/// incomplete or holds nothing that the route takes.
struct Received<'r> {
    quota: &'r Quota,
    /// Principal that pays; `None` if nobody is charged, or once the bytes were charged.
    payer: Option<Principal>,
    bytes: usize,
}

impl Received<'_> {
    /// Charges a complete body, or refuses it.
    fn charge(mut self) -> Result<(), Limited> {
        self.payer.take().map_or(Ok(()), |payer| self.quota.append(&payer, self.bytes))
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        if let Some(payer) = self.payer.take() {
            self.quota.note_bytes(&payer, self.bytes);
        }
    }
}

/// Pieces in which a body arrives. Each costs time, whatever its size.
#[derive(Debug, Default)]
struct Pieces {
    count: usize,
    bytes: usize,
}

impl Pieces {
    /// Counts a piece. Refuses a body of very many very small ones.
    fn add(&mut self, bytes: usize) -> Result<(), Problem> {
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
        if self.count <= MAX_SMALL_PIECES || self.bytes / self.count >= SMALL_PIECE_BYTES {
            return Ok(());
        }
        let (count, bytes) = (self.count, self.bytes);
        Err(Problem::invalid(format!(
            "the body has {bytes} bytes in {count} chunks: chunks of more than {MAX_SMALL_PIECES} must have \
             {SMALL_PIECE_BYTES} bytes on average"
        )))
    }
}

/// The rest of a body cannot be read, or was refused.
#[derive(Debug)]
pub struct BrokenOff;

impl Deref for Whole {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BodyReader {
    /// Reads within the limits of this node.
    pub fn new(quota: Quota, memory: MemoryBudget) -> Self {
        let limits = *quota.limits();
        Self { read_timeout: limits.body_idle, memory_timeout: BODY_ROOM_WAIT, limits, quota, memory }
    }

    /// Memory permit for the body of this request, charged to the request's budget owner.
    pub fn place(&self, request: &Request) -> BudgetPermit {
        // Inserted by the extractor that authenticates the request.
        self.memory.place(MemoryKind::Body, &request.extensions().get().cloned().unwrap_or_default())
    }

    /// Memory permit for the messages of a socket.
    pub fn of_socket(&self, owner: &BudgetOwner) -> BudgetPermit {
        self.memory.place(MemoryKind::Frame, owner)
    }

    /// Reads the complete body, of at most `limit` bytes, and charges it to the request's principal. Both the read timeout and
    /// the timeout of the complete body end the request. While no memory is available, the body is read no further.
    pub async fn read(&self, mut request: Request, limit: usize, charge: Charge) -> Result<Whole, Problem> {
        // An inner request comes with its body, which was charged.
        if let Some(whole) = request.extensions_mut().remove::<Whole>() {
            return if whole.len() > limit { Err(too_large(limit)) } else { Ok(whole) };
        }
        let payer = request.extensions().get().map(|Presented { principal, .. }| principal.clone());
        let mut received = Received { quota: &self.quota, payer, bytes: 0 };
        let whole = self.receive(request, limit, &mut received.bytes).await?;
        match charge {
            Charge::Refuses => received.charge()?,
            Charge::Passes => drop(received),
        }
        Ok(whole)
    }

    async fn receive(&self, request: Request, limit: usize, received: &mut usize) -> Result<Whole, Problem> {
        let (mut whole, mut pieces) = (BytesMut::new(), Pieces::default());
        let mut held = self.place(&request);
        let mut body = request.into_body();
        let deadline = Instant::now() + self.limits.body;
        // Time for which the body may still wait for memory, over all of its waits.
        let mut patience = self.memory_timeout;
        loop {
            let memory_timeout = deadline.min(Instant::now() + self.read_timeout);
            let frame = time::timeout_at(memory_timeout, body.frame()).await.map_err(|_| {
                Problem::new(ProblemType::BodyTimeout, "the rest of the body did not arrive before the timeout")
            })?;
            let Some(frame) = frame else { return Ok(Whole::new(whole.freeze(), held)) };
            let frame = frame.map_err(|error| Problem::invalid(format!("the body was cut off: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            *received += data.len();
            // The rest is not read: each piece of it costs as much as those before.
            pieces.add(data.len())?;
            let size = whole.len() + data.len();
            if size > limit {
                discard(body.into_data_stream());
                return Err(too_large(limit));
            }
            let begun = Instant::now();
            if let Err(problem) = self.make_room(&mut held, size, deadline.min(begun + patience)).await {
                discard(body.into_data_stream());
                return Err(problem);
            }
            patience = patience.saturating_sub(begun.elapsed());
            if whole.is_empty() && body.is_end_stream() {
                // One piece: nothing to copy.
                return Ok(Whole::new(data, held));
            }
            whole.extend_from_slice(&data);
        }
    }

    /// Chunks of a body that is processed line by line. Memory is held only for the incomplete line. If no memory is
    /// available, the chunks end with an error, and `refused` holds the reason.
    pub fn lines<'b>(
        &'b self,
        place: &'b mut BudgetPermit,
        data: &'b mut BodyDataStream,
        refused: &'b OnceLock<Problem>,
    ) -> impl Stream<Item = Result<Bytes, BrokenOff>> + 'b {
        stream::unfold((data, place, 0), async move |(data, place, mut held)| {
            let Ok(chunk) = data.next().await? else { return Some((Err(BrokenOff), (data, place, held))) };
            held += chunk.len();
            if let Some(end) = memchr::memrchr(b'\n', &chunk) {
                place.release();
                held = chunk.len() - end - 1;
            }
            let made = self.make_room(place, held, Instant::now() + self.memory_timeout).await;
            let chunk = made.map(|()| chunk).map_err(|problem| {
                // No other code sets it.
                let _ = refused.set(problem);
                BrokenOff
            });
            Some((chunk, (data, place, held)))
        })
    }

    /// Takes memory for a body that has reached this size, in bytes, and waits for it until then.
    async fn make_room(&self, held: &mut BudgetPermit, size: usize, until: Instant) -> Result<(), Problem> {
        let wanted = size.saturating_sub(BODY_FREE_BYTES).saturating_sub(held.bytes());
        if wanted == 0 {
            return Ok(());
        }
        let taken = held.take(wanted, until).await;
        Ok(taken.map_err(|BudgetExceeded { limit, value }| self.quota.refuse(limit, value as u64, QUOTA_RETRY))?)
    }
}

fn too_large(limit: usize) -> Problem {
    Problem::new(ProblemType::TooLarge, format!("the body exceeds the limit of {limit} bytes"))
}

/// Reads the rest of a body without storing it, for a short time, while the response is sent.
pub fn discard(mut body: BodyDataStream) {
    tokio::spawn(async move {
        let rest = async { while let Some(Ok(_)) = body.next().await {} };
        // On timeout the connection closes while the client still writes; no other step is left.
        let _ = time::timeout(DISCARD_TIME, rest).await;
    });
}

#[cfg(test)]
mod tests;
