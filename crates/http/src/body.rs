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
    limits::{BODY_FREE_BYTES, BODY_ROOM_WAIT, QUOTA_RETRY},
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

/// Principal of a request, and the time of its authentication.
#[derive(Debug, Clone)]
pub(crate) struct Presented {
    pub principal: Principal,
    pub at: Instant,
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
        let mut whole = BytesMut::new();
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
mod tests {
    use std::{
        io,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
    };

    use axum::body::Body;

    use super::*;
    use threadline_core::{Credential, Principal, ProjectId, Timestamp, UserId, limits::MAX_BATCH_BYTES};

    const KIB: usize = 1_024;

    fn bodies(room: usize) -> BodyReader {
        let limits = Limits { body_memory: room, ..Limits::default() };
        BodyReader::new(Quota::new(limits), MemoryBudget::new(limits.memory, room))
    }

    /// Bytes of bodies that are held.
    fn held_by(bodies: &BodyReader) -> usize {
        bodies.memory.held()[MemoryKind::Body as usize].1
    }

    /// A body of 8 KiB pieces that then stalls, or ends; and the number of bytes read from it.
    fn pieces(count: usize, ends: bool) -> (Request, Arc<AtomicUsize>) {
        let read = Arc::new(AtomicUsize::new(0));
        let counted = read.clone();
        let pieces = stream::iter(0..count).map(move |_| {
            counted.fetch_add(8 * KIB, SeqCst);
            Ok::<_, io::Error>(Bytes::from_static(&[b' '; 8 * KIB]))
        });
        let rest = if ends { stream::empty().left_stream() } else { stream::pending().right_stream() };
        (Request::new(Body::from_stream(pieces.chain(rest))), read)
    }

    #[tokio::test(start_paused = true)]
    async fn half_sent_bodies_cost_no_more_than_the_room() {
        let bodies = bodies(1_024 * KIB);
        let mut reads = Vec::new();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..60 {
            let (body, read) = pieces(120, false);
            reads.push(read);
            let bodies = bodies.clone();
            tasks.spawn(async move {
                bodies.read(body, 1_024 * KIB, Charge::Refuses).await.map_err(|problem| problem.kind)
            });
        }
        time::sleep(Duration::from_secs(1)).await;
        let held: usize = reads.iter().map(|read| read.load(SeqCst)).sum();
        // Besides the budget, each body holds its free bytes, and one piece that waits for memory.
        let most = 1_024 * KIB + 60 * (BODY_FREE_BYTES + 8 * KIB);
        assert!(held <= most && held > 1_024 * KIB, "{held} of {most}");
        // A small body passes all the same.
        let (small, _) = pieces(2, true);
        assert_eq!(bodies.read(small, 64 * KIB, Charge::Refuses).await.map(|whole| whole.len()).ok(), Some(16 * KIB));
        let mut ends = Vec::new();
        while let Some(end) = tasks.join_next().await {
            ends.push(end.expect("no panic").expect_err("none is whole"));
        }
        assert!(ends.contains(&ProblemType::Busy) && ends.contains(&ProblemType::BodyTimeout), "{ends:?}");
        assert_eq!(held_by(&bodies), 0, "all of it came back");
    }

    #[tokio::test(start_paused = true)]
    async fn partial_bodies_of_one_client_block_no_other() {
        let bodies = bodies(4 * MAX_BATCH_BYTES);
        let large = |user: &str, ends: bool| {
            let (mut request, _) = pieces(1_536, ends);
            let user = Principal::user(ProjectId::new("p").expect("an id"), UserId::new(user).expect("an id"));
            let token = Principal {
                credential: Credential::Token {
                    expires_at: Timestamp(i64::MAX),
                    signer: None,
                    by: None,
                    issued_at: None,
                },
                ..user
            };
            request.extensions_mut().insert(BudgetOwner::of(&token));
            let bodies = bodies.clone();
            async move {
                bodies.read(request, MAX_BATCH_BYTES, Charge::Refuses).await.map(|_| ()).map_err(|problem| problem.kind)
            }
        };
        let half_sent: Vec<_> = (0..3).map(|_| tokio::spawn(large("ann", false))).collect();
        time::sleep(Duration::from_secs(1)).await;
        let begun = Instant::now();
        assert_eq!(large("bob", true).await, Ok(()));
        assert_eq!(begun.elapsed(), Duration::ZERO, "it did not wait");
        assert_eq!(large("ann", true).await, Err(ProblemType::Busy));
        half_sent.iter().for_each(tokio::task::JoinHandle::abort);
        for task in half_sent {
            let _ = task.await;
        }
        assert_eq!(held_by(&bodies), 0, "all of it came back");
    }

    #[tokio::test(start_paused = true)]
    async fn of_lines_only_what_is_not_complete_is_held() {
        let bodies = bodies(64 * KIB);
        let free = |bodies: &BodyReader| 64 - held_by(bodies) / KIB;
        let piece = |ends: &'static str| [vec![b' '; 32 * KIB], ends.into()].concat();
        let pieces = [piece(""), piece(""), piece("\n"), piece(""), piece(""), piece("")];
        let mut data = Body::from_stream(stream::iter(pieces.map(Ok::<_, io::Error>))).into_data_stream();
        let refused = OnceLock::new();
        let mut place = bodies.memory.place(MemoryKind::Body, &BudgetOwner::default());
        let mut lines = std::pin::pin!(bodies.lines(&mut place, &mut data, &refused));
        let mut left = Vec::new();
        while let Some(Ok(_)) = lines.next().await {
            left.push(free(&bodies));
        }
        // 32, then 64 of which 16 are free; the line ends; again, and the third piece finds no memory.
        assert_eq!(left, [48, 16, 64, 48, 16]);
        assert_eq!(refused.get().map(|problem| problem.kind), Some(ProblemType::Busy));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_continues_as_soon_as_there_is_room() {
        let bodies = bodies(64 * KIB);
        let (first, _) = pieces(8, true);
        let held = bodies.read(first, 64 * KIB, Charge::Refuses).await.expect("whole");
        let (second, _) = pieces(8, true);
        let waiting = tokio::spawn({
            let bodies = bodies.clone();
            async move { bodies.read(second, 64 * KIB, Charge::Refuses).await.map(|whole| whole.len()).ok() }
        });
        time::sleep(Duration::from_secs(5)).await;
        assert!(!waiting.is_finished());
        drop(held);
        assert_eq!(waiting.await.expect("no panic"), Some(64 * KIB));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_are_charged_whatever_becomes_of_the_body() {
        let principal = Principal::user(ProjectId::new("p").expect("an id"), UserId::new("ann").expect("an id"));
        let reads = |limit: usize, charge: Charge, count: usize, ends: bool| {
            let mut limits = Limits::default();
            limits.project.append_bytes_per_second = 8 * KIB as u64;
            let bodies = BodyReader::new(Quota::new(limits), MemoryBudget::new(limits.memory, limits.body_memory));
            let principal = principal.clone();
            async move {
                let mut results = Vec::new();
                for _ in 0..2 {
                    let (mut request, _) = pieces(count, ends);
                    request.extensions_mut().insert(Presented { principal: principal.clone(), at: Instant::now() });
                    let read = time::timeout(Duration::from_millis(1), bodies.read(request, limit, charge)).await;
                    results.push(read.map(|read| read.map(|whole| whole.len()).map_err(|problem| problem.kind)).ok());
                }
                let (mut small, _) = pieces(1, true);
                small.extensions_mut().insert(Presented { principal, at: Instant::now() });
                let last = bodies.read(small, 64 * KIB, Charge::Refuses).await.map_err(|problem| problem.kind);
                (results, last.map(|whole| whole.len()))
            }
        };
        let refused = Err(ProblemType::RateLimited);
        for (limit, charge, count, ends, expected) in [
            (64 * KIB, Charge::Refuses, 4, true, [Some(Ok(32 * KIB)), Some(Err(ProblemType::RateLimited))]),
            (64 * KIB, Charge::Passes, 4, true, [Some(Ok(32 * KIB)), Some(Ok(32 * KIB))]),
            (16 * KIB, Charge::Refuses, 4, true, [Some(Err(ProblemType::TooLarge)), Some(Err(ProblemType::TooLarge))]),
            // The client goes away.
            (64 * KIB, Charge::Refuses, 4, false, [None, None]),
        ] {
            assert_eq!(
                reads(limit, charge, count, ends).await,
                (expected.to_vec(), refused),
                "{limit} {charge:?} {ends}"
            );
        }
        assert_eq!(reads(64 * KIB, Charge::Refuses, 0, true).await.1, Ok(8 * KIB));
    }
}
