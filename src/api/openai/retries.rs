//! Repeated requests: if the answer to a request is lost, OpenAI's clients send the request again, and mean the same run.
//!
//! With an `Idempotency-Key`, the ids derive from the key. OpenAI's clients send no key, but count their attempts: the first attempt
//! stores its ids under the digest of the request, and a later attempt looks them up.

use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use threadline_core::{Principal, RunId, ThreadId, hex, limits::OPENAI_RETRY_LIFE};
use threadline_engine::RecordName;
use threadline_http::{idempotency::IdempotencyKey, problem::Problem};

use super::record::DOOR;
use crate::api::ApiState;

/// Header with the number of earlier attempts, which OpenAI's clients send with every request.
const RETRIES: &str = "x-stainless-retry-count";

/// Ids of a request and its repetitions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Identity {
    pub run: RunId,
    /// Thread of a new conversation.
    pub thread: ThreadId,
}

impl Identity {
    fn generate() -> Self {
        Self { run: RunId::generate(), thread: ThreadId::generate() }
    }

    /// Ids of a request to this path with this body.
    pub async fn of(
        state: &ApiState,
        principal: &Principal,
        key: &IdempotencyKey,
        headers: &HeaderMap,
        (path, body): (&str, &[u8]),
    ) -> Result<Self, Problem> {
        if let (Some(run), Some(thread)) = (key.run(principal), key.thread(principal, None)) {
            return Ok(Self { run, thread });
        }
        let Some(count) = headers.get(RETRIES).and_then(|count| count.to_str().ok()?.parse::<u32>().ok()) else {
            return Ok(Self::generate());
        };
        let digest = hex(&Sha256::new().chain_update(path).chain_update([0]).chain_update(body).finalize());
        let (records, name) = (&state.service.door_records, RecordName { door: DOOR, kind: "retry", id: &digest });
        if count > 0
            && let Some(noted) = records.remembered(principal, name).await?
            && let Ok(noted) = serde_json::from_str(&noted)
        {
            return Ok(noted);
        }
        let identity = Self::generate();
        let text = serde_json::to_string(&identity).unwrap_or_default();
        records.remember(principal, name, text, OPENAI_RETRY_LIFE).await?;
        Ok(identity)
    }
}
