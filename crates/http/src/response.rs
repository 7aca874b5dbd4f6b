//! Large responses: the memory that all of them hold together is bounded, until the clients have read them.

use std::ops::ControlFlow;

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use threadline_core::{
    Limit, Principal,
    limits::{ANSWER_FREE_BYTES, ANSWER_MEMORY_BYTES, BODY_ROOM_WAIT, QUOTA_RETRY},
};
use threadline_engine::limits::{BudgetOwner, BudgetPermit, MemoryBudget, Quota};
use tokio::time::{Duration, Instant};

use crate::problem::Problem;

/// Memory budget for the responses of a node.
#[derive(Debug, Clone)]
pub struct Answers {
    /// Timeout of a response that waits for memory.
    pub memory_timeout: Duration,
    quota: Quota,
    room: MemoryBudget,
}

/// Response that is not complete, with its share of the memory budget.
#[derive(Debug)]
pub struct Answer<'a> {
    answers: &'a Answers,
    held: BudgetPermit,
    /// Deadline of the wait for memory, set when the response is made for the first time. Earlier waits do not count.
    until: Option<Instant>,
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

impl Answers {
    /// Budget of `ANSWER_MEMORY_BYTES`, all of it free.
    pub fn new(quota: Quota) -> Self {
        Self { memory_timeout: BODY_ROOM_WAIT, quota, room: MemoryBudget::new(ANSWER_MEMORY_BYTES, 0) }
    }

    /// Response to this principal, charged to the principal's share of the budget.
    pub fn to(&self, principal: &Principal) -> Answer<'_> {
        let held = self.room.place(&BudgetOwner::of(principal));
        Answer { answers: self, held, until: None }
    }
}

impl Answer<'_> {
    /// Responds with this document if memory is available. Otherwise the document is dropped, so that a waiting request
    /// holds no memory. Once memory is available, the document must be made again.
    pub async fn json(self, bytes: Vec<u8>) -> Result<ControlFlow<Response, Self>, Problem> {
        Ok(match self.bytes(bytes).await? {
            ControlFlow::Break(bytes) => {
                ControlFlow::Break(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
            }
            ControlFlow::Continue(again) => ControlFlow::Continue(again),
        })
    }

    /// Like `json`, for a part of a response.
    pub async fn bytes(mut self, bytes: Vec<u8>) -> Result<ControlFlow<Bytes, Self>, Problem> {
        // A response larger than its owner's share takes the complete share.
        let size = if bytes.len() < ANSWER_FREE_BYTES { 0 } else { bytes.len().min(self.held.most()) };
        let wanted = size.saturating_sub(self.held.bytes());
        // First attempt, without a wait.
        if wanted == 0 || self.held.take(wanted, Instant::now()).await.is_ok() {
            return Ok(ControlFlow::Break(Bytes::from_owner(Owned { bytes, _held: self.held })));
        }
        drop(bytes);
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.answers.memory_timeout);
        let taken = self.held.take(wanted, until).await;
        taken.map_err(|full| self.answers.quota.refuse(Limit::AnswerMemory, full.0 as u64, QUOTA_RETRY))?;
        Ok(ControlFlow::Continue(self))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::problem::ProblemType;
    use threadline_core::{Credential, Limits, ProjectId, Timestamp, UserId};

    const PART: usize = ANSWER_MEMORY_BYTES / threadline_core::limits::UNTRUSTED_SHARE;

    fn stranger(name: &str) -> Principal {
        let user = Principal::user(ProjectId::new("p").expect("an id"), UserId::new(name).expect("an id"));
        Principal { credential: Credential::Token { expires_at: Timestamp(i64::MAX), signer: None }, ..user }
    }

    async fn answer(answers: &Answers, to: &Principal, size: usize) -> Result<(Response, usize), ProblemType> {
        let mut answer = answers.to(to);
        for made in 1.. {
            match answer.json(vec![b' '; size]).await.map_err(|problem| problem.kind)? {
                ControlFlow::Break(response) => return Ok((response, made)),
                ControlFlow::Continue(again) => answer = again,
            }
        }
        unreachable!("it answers at some time")
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_nobody_reads_are_in_the_way_of_their_reader_alone() {
        let answers = Answers::new(Quota::new(Limits::default()));
        let (ann, bob) = (stranger("ann"), stranger("bob"));
        // A response larger than its owner's share is accepted if it is the owner's only one.
        let (stuck, _) = answer(&answers, &ann, PART + 1).await.expect("room");
        assert_eq!(answers.room.free(), ANSWER_MEMORY_BYTES - PART);
        let begun = Instant::now();
        assert_eq!(answer(&answers, &ann, ANSWER_FREE_BYTES).await.err(), Some(ProblemType::Busy));
        assert_eq!(begun.elapsed().as_secs(), BODY_ROOM_WAIT.as_secs());
        for (who, size) in [(&ann, ANSWER_FREE_BYTES - 1), (&bob, ANSWER_FREE_BYTES)] {
            assert!(answer(&answers, who, size).await.is_ok());
        }
        // A waiting request is answered once memory is available.
        let waiting = tokio::spawn({
            let (answers, ann) = (answers.clone(), ann.clone());
            async move { answer(&answers, &ann, ANSWER_FREE_BYTES).await.map(|(_, made)| made) }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        // The memory is released with the bytes, not with the response.
        let bytes = stuck.into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(bytes.len(), PART + 1);
        assert!(!waiting.is_finished());
        drop(bytes);
        assert_eq!(waiting.await.expect("no panic"), Ok(2));
        assert_eq!(answers.room.free(), ANSWER_MEMORY_BYTES);
    }
}
