//! Large responses: the memory that all of them hold together is bounded, until the clients have read them.

use std::sync::Arc;

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use threadline_core::{
    Principal,
    limits::{ANSWER_FREE_BYTES, BODY_ROOM_WAIT, PAGES_BEYOND_MEMORY, QUOTA_RETRY},
};
use threadline_engine::limits::{BudgetOwner, BudgetPermit, MemoryBudget, MemoryKind, Quota};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Duration, Instant},
};

use crate::problem::Problem;

/// Memory budget for the responses of a node.
#[derive(Debug, Clone)]
pub struct ResponseBudget {
    /// Timeout of a response that waits for memory.
    pub memory_timeout: Duration,
    quota: Quota,
    memory: MemoryBudget,
    /// Permits of those that make a page while their share of the memory has no room for a large one.
    beyond: Arc<Semaphore>,
}

/// Bytes of a response, with their memory permit. Both are released once the connection has dropped them.
struct Owned {
    bytes: Vec<u8>,
    _held: BudgetPermit,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl ResponseBudget {
    /// Responses within the memory of a node.
    pub fn new(quota: Quota, memory: MemoryBudget) -> Self {
        Self { memory_timeout: BODY_ROOM_WAIT, quota, memory, beyond: Arc::new(Semaphore::new(PAGES_BEYOND_MEMORY)) }
    }

    /// Makes a JSON document, and responds with it once memory is available. See [`Self::chunk`].
    pub async fn json<F>(&self, principal: &Principal, make: impl Fn() -> F) -> Result<Response, Problem>
    where
        F: Future<Output = Result<Vec<u8>, Problem>>,
    {
        let make = &make;
        let (bytes, ()) = self.chunk(principal, || async move { Ok((make().await?, ())) }).await?;
        Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
    }

    /// Makes a JSON page of at most about `most` bytes, like [`Self::page_chunk`].
    pub async fn page<F>(&self, principal: &Principal, most: usize, make: impl Fn() -> F) -> Result<Response, Problem>
    where
        F: Future<Output = Result<Vec<u8>, Problem>>,
    {
        let make = &make;
        let (bytes, ()) = self.page_chunk(principal, most, || async move { Ok((make().await?, ())) }).await?;
        Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
    }

    /// Makes a page of at most about `most` bytes, with a value that belongs to it. The memory is taken before the page is read, since
    /// pages that are read at the same time would exceed it together. If the share has no room for the largest page, few
    /// are read at once: most pages are small.
    pub async fn page_chunk<T, F>(
        &self,
        principal: &Principal,
        most: usize,
        make: impl Fn() -> F,
    ) -> Result<(Bytes, T), Problem>
    where
        F: Future<Output = Result<(Vec<u8>, T), Problem>>,
    {
        let mut held = self.place(principal);
        let has_room = held.take(most.min(held.most()), Instant::now()).await.is_ok();
        // The semaphore is never closed.
        let beyond = if has_room { None } else { self.beyond.acquire().await.ok() };
        self.chunk_in(held, beyond, make).await
    }

    fn place(&self, principal: &Principal) -> BudgetPermit {
        self.memory.place(MemoryKind::Answer, &BudgetOwner::of(principal))
    }

    /// Makes a part of a response, charged to the principal's share of the budget, with a value that belongs to it. A
    /// part that finds no memory is dropped, so that a waiting request holds none, and made again once memory is
    /// available. Fails with `busy` after `memory_timeout`; the time that making takes does not count until the first
    /// wait.
    pub async fn chunk<T, F>(&self, principal: &Principal, make: impl Fn() -> F) -> Result<(Bytes, T), Problem>
    where
        F: Future<Output = Result<(Vec<u8>, T), Problem>>,
    {
        self.chunk_in(self.place(principal), None, make).await
    }

    /// [`Self::chunk`] with the memory that is held already. `beyond` is held while the part is made without memory: one that is
    /// made again has it.
    async fn chunk_in<T, F>(
        &self,
        mut held: BudgetPermit,
        mut beyond: Option<SemaphorePermit<'_>>,
        make: impl Fn() -> F,
    ) -> Result<(Bytes, T), Problem>
    where
        F: Future<Output = Result<(Vec<u8>, T), Problem>>,
    {
        let mut deadline = None;
        loop {
            let (bytes, value) = make().await?;
            drop(beyond.take());
            // A part larger than its owner's share takes the complete share.
            let size = if bytes.len() < ANSWER_FREE_BYTES { 0 } else { bytes.len().min(held.most()) };
            held.shrink(size);
            let wanted = size - held.bytes();
            // First attempt, without a wait.
            if wanted == 0 || held.take(wanted, Instant::now()).await.is_ok() {
                return Ok((Bytes::from_owner(Owned { bytes, _held: held }), value));
            }
            drop((bytes, value));
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.memory_timeout);
            let taken = held.take(wanted, deadline).await;
            taken.map_err(|full| self.quota.refuse(full.limit, full.value as u64, QUOTA_RETRY))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use http_body_util::BodyExt;

    use super::*;
    use crate::problem::ProblemType;
    use threadline_core::{Credential, Limits, ProjectId, Timestamp, UserId, limits::MEMORY_FREE_BYTES};

    const SIZE: usize = 256 * 1_024 * 1_024;
    /// Most memory of one untrusted client.
    const PART: usize = SIZE / 2;

    fn stranger(name: &str) -> Principal {
        let user = Principal::user(ProjectId::new("p").expect("an id"), UserId::new(name).expect("an id"));
        Principal {
            credential: Credential::Token { expires_at: Timestamp(i64::MAX), signer: None, by: None, issued_at: None },
            ..user
        }
    }

    async fn respond(budget: &ResponseBudget, to: &Principal, size: usize) -> Result<(Response, usize), ProblemType> {
        let made = AtomicUsize::new(0);
        let make = || async {
            made.fetch_add(1, Relaxed);
            Ok(vec![b' '; size])
        };
        let response = budget.json(to, make).await.map_err(|problem| problem.kind)?;
        Ok((response, made.into_inner()))
    }

    #[tokio::test(start_paused = true)]
    async fn responses_that_no_client_reads_delay_their_reader_alone() {
        let budget = ResponseBudget::new(Quota::new(Limits::default()), MemoryBudget::new(SIZE, SIZE));
        let (ann, bob) = (stranger("ann"), stranger("bob"));
        // A response larger than its owner's share is accepted if it is the owner's only one.
        let (stuck, _) = respond(&budget, &ann, PART + 1).await.expect("room");
        assert_eq!(budget.memory.free(), SIZE - PART + MEMORY_FREE_BYTES);
        let begun = Instant::now();
        assert_eq!(respond(&budget, &ann, 2 * ANSWER_FREE_BYTES).await.err(), Some(ProblemType::Busy));
        assert_eq!(begun.elapsed().as_secs(), BODY_ROOM_WAIT.as_secs());
        for (who, size) in [(&ann, ANSWER_FREE_BYTES - 1), (&bob, ANSWER_FREE_BYTES)] {
            assert!(respond(&budget, who, size).await.is_ok());
        }
        // A waiting request is answered once memory is available.
        let waiting = tokio::spawn({
            let (budget, ann) = (budget.clone(), ann.clone());
            async move { respond(&budget, &ann, 2 * ANSWER_FREE_BYTES).await.map(|(_, made)| made) }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        // The memory is released with the bytes, not with the response.
        let bytes = stuck.into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(bytes.len(), PART + 1);
        assert!(!waiting.is_finished());
        drop(bytes);
        assert_eq!(waiting.await.expect("no panic"), Ok(2));
        assert_eq!(budget.memory.free(), SIZE);
    }

    #[tokio::test(start_paused = true)]
    async fn pages_that_are_read_at_once_are_bounded_by_the_memory() {
        const PAGE: usize = 4 * 1_024 * 1_024;
        let budget = ResponseBudget::new(Quota::new(Limits::default()), MemoryBudget::new(SIZE, SIZE));
        let (reading, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (ann, bob) = (stranger("ann"), stranger("bob"));
        let page = async |to: &Principal, size: usize| {
            let make = || async {
                most.fetch_max(reading.fetch_add(1, Relaxed) + 1, Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
                reading.fetch_sub(1, Relaxed);
                Ok(vec![b' '; size])
            };
            budget.page(to, PAGE, make).await
        };
        let all = futures_util::future::join_all((0..200).map(|_| page(&ann, PAGE))).await;
        let made = all.iter().filter(|page| page.is_ok()).count();
        assert!((1..=PART / PAGE).contains(&made), "{made}");
        let bound = PART / PAGE + PAGES_BEYOND_MEMORY;
        assert!(most.load(Relaxed) <= bound, "{} at once, at most {bound}", most.load(Relaxed));
        // Small pages pass, and so do those of others.
        let small = futures_util::future::join_all((0..50).map(|_| page(&ann, ANSWER_FREE_BYTES - 1))).await;
        assert!(small.iter().all(Result::is_ok));
        assert!(page(&bob, PAGE).await.is_ok());
        drop((all, small));
        assert_eq!(budget.memory.free(), SIZE);
    }
}
