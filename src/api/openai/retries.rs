//! Repeated requests: if the answer to a request is lost, OpenAI's clients send the request again, and mean the same run.
//!
//! With an `Idempotency-Key`, the ids derive from the key. OpenAI's clients send no key, but count their attempts: the first attempt
//! stores its ids under the digest of the request, and a later attempt looks them up.

use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use threadline_core::{
    Principal, RunId, ThreadId, hex,
    limits::{OPENAI_RETRY_LIFE, OPENAI_UNSTORED_LIFE},
};
use threadline_engine::{Placing, RecordName};
use threadline_http::{idempotency::IdempotencyKey, problem::Problem};

use super::record::API;
use crate::api::ApiState;

/// Header with the number of earlier attempts, which OpenAI's clients send with every request.
const RETRIES: &str = "x-stainless-retry-count";

/// Ids of a request and its repetitions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Identity {
    pub run: RunId,
    /// Thread of a new conversation.
    pub thread: ThreadId,
    /// Text that names the request and its repetitions; `None` if no repetition can be recognized.
    #[serde(skip)]
    pub request: Option<String>,
}

impl Identity {
    fn generate() -> Self {
        Self { run: RunId::generate(), thread: ThreadId::generate(), request: None }
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
            return Ok(Self { run, thread, request: key.0.clone() });
        }
        let Some(count) = headers.get(RETRIES).and_then(|count| count.to_str().ok()?.parse::<u32>().ok()) else {
            return Ok(Self::generate());
        };
        let digest = hex(&Sha256::new().chain_update(path).chain_update([0]).chain_update(body).finalize());
        let records = &state.service.api_records;
        let name = RecordName { api: API, kind: "retry", id: &digest };
        let noted = async || -> Result<Option<Self>, Problem> {
            let text = records.remembered(principal, name).await?;
            Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
        };
        let generated = Self::generate();
        let remember = async |placing| {
            let text = serde_json::to_string(&generated).unwrap_or_default();
            records.remember(principal, name, text, OPENAI_RETRY_LIFE, placing).await
        };
        if count == 0 {
            remember(Placing::Replace).await?;
            return Ok(Self { request: Some(digest), ..generated });
        }
        if let Some(noted) = noted().await? {
            return Ok(Self { request: Some(digest), ..noted });
        }
        // The first of several retries at the same time names the run of all.
        remember(Placing::IfAbsent).await?;
        let first = noted().await?.unwrap_or(generated);
        Ok(Self { request: Some(digest), ..first })
    }

    /// Thread in which the response to this request has begun, if the response is not stored: its thread may be deleted by now.
    pub async fn unstored(&self, state: &ApiState, principal: &Principal) -> Result<Option<ThreadId>, Problem> {
        if self.request.is_none() {
            return Ok(None);
        }
        let found = state.service.api_records.remembered(principal, self.unstored_name()).await?;
        Ok(found.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Remembers the thread in which a response that is not stored has begun: no repetition runs the agent again.
    pub async fn remember_unstored(
        &self,
        state: &ApiState,
        principal: &Principal,
        thread: &ThreadId,
    ) -> Result<(), Problem> {
        if self.request.is_none() {
            return Ok(());
        }
        let text = serde_json::to_string(thread).unwrap_or_default();
        let records = &state.service.api_records;
        let (name, life) = (self.unstored_name(), OPENAI_UNSTORED_LIFE);
        Ok(records.remember(principal, name, text, life, Placing::Replace).await?)
    }

    fn unstored_name(&self) -> RecordName<'_> {
        RecordName { api: API, kind: "unstored", id: self.run.as_str() }
    }
}
