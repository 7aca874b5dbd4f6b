//! Facts of a response that its run does not have: the members of the request that the response repeats, and whether it was deleted.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{
    Principal, Run, ThreadId,
    limits::MAX_REMOVED_ITEMS,
    projection::response::{Echo, Header},
};
use threadline_engine::{Placing, RecordName, RunLookupError};
use threadline_http::problem::{Problem, ProblemType};

use super::ids::{ResponseId, conversation_id, no_response};
use crate::api::ApiState;

/// Label of the records of this API.
pub const API: &str = "threadline.openai";

/// Record of a response. A run of another API has no record, and is a response with the defaults.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub background: bool,
    /// True for a response that is deleted after its run.
    #[serde(skip_serializing_if = "is_false")]
    pub unstored: bool,
    /// True for a response that was deleted.
    #[serde(skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// Members of the request, as [`Echo::to_json`] gives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo: Option<Box<RawValue>>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A response that exists for the caller.
pub struct Found {
    pub id: ResponseId,
    pub run: Run,
    pub record: Record,
}

fn name(id: &ResponseId) -> RecordName<'_> {
    RecordName { api: API, kind: "response", id: id.run.as_str() }
}

impl Record {
    /// Record of a response; the defaults if there is none.
    pub async fn read(state: &ApiState, principal: &Principal, id: &ResponseId) -> Result<Self, Problem> {
        let found = state.service.api_records.read(principal, &id.thread, &[name(id)]).await?.pop().flatten();
        Ok(found.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// Stores the record of a run that has begun. A record of an earlier attempt of the request stays as it is.
    pub async fn begin(&self, state: &ApiState, principal: &Principal, id: &ResponseId) -> Result<(), Problem> {
        self.write(state, principal, id, Placing::IfAbsent).await
    }

    /// Notes that the response was deleted.
    pub async fn hide(mut self, state: &ApiState, principal: &Principal, id: &ResponseId) -> Result<(), Problem> {
        self.hidden = true;
        self.write(state, principal, id, Placing::Mark).await
    }

    async fn write(
        &self,
        state: &ApiState,
        principal: &Principal,
        id: &ResponseId,
        placing: Placing,
    ) -> Result<(), Problem> {
        // Serialization fails only for keys that are not strings.
        let text = serde_json::to_string(self).unwrap_or_default();
        Ok(state.service.api_records.write(principal, &id.thread, name(id), text, placing).await?)
    }

    /// Members of the response that its run does not change.
    pub fn header(&self, id: &ResponseId, run: &Run) -> Header {
        let echo = self.echo.as_ref().and_then(|echo| Echo::read(echo.get()).ok());
        let agent = || run.agent.as_ref().map_or_else(String::new, ToString::to_string);
        Header {
            id: id.to_string(),
            model: self.model.clone().unwrap_or_else(agent),
            created_at: run.started_at,
            conversation: (!self.unstored).then(|| conversation_id(&id.thread)),
            previous_response_id: self.previous.clone(),
            background: self.background,
            store: !self.unstored,
            echo: echo.unwrap_or_default(),
        }
    }
}

/// Finds a response. One that was deleted, or that is not stored, is not found.
pub async fn find(state: &ApiState, principal: &Principal, id: &str) -> Result<Found, Problem> {
    let named = ResponseId::read(id)?;
    let run = match state.service.runs.get(principal, &named.thread, &named.run).await {
        Err(RunLookupError::ThreadNotFound | RunLookupError::RunNotFound) => return Err(no_response(id)),
        run => run?,
    };
    let record = match Record::read(state, principal, &named).await {
        // The thread was deleted since.
        Err(problem) if problem.kind == ProblemType::ThreadNotFound => return Err(no_response(id)),
        record => record?,
    };
    if record.hidden || record.unstored {
        return Err(no_response(id));
    }
    Ok(Found { id: named, run, record })
}

/// Metadata of a conversation: a JSON object.
pub async fn metadata_of(state: &ApiState, principal: &Principal, thread: &ThreadId) -> Result<Box<RawValue>, Problem> {
    let found = state.service.api_records.read(principal, thread, &[METADATA]).await?.pop().flatten();
    let found = found.and_then(|text| RawValue::from_string(text).ok());
    Ok(found.unwrap_or_else(|| RawValue::from_string("{}".to_owned()).unwrap_or_default()))
}

/// Replaces the metadata of a conversation.
pub async fn set_metadata(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
    metadata: &RawValue,
) -> Result<(), Problem> {
    let text = metadata.get().replace(['\r', '\n'], " ");
    Ok(state.service.api_records.write(principal, thread, METADATA, text, Placing::Replace).await?)
}

/// Notes that an item was removed from a conversation: forks at an older response leave it out as well.
pub async fn note_removed(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
    item: &str,
) -> Result<(), Problem> {
    let name = RecordName { api: API, kind: REMOVED, id: item };
    Ok(state.service.api_records.write(principal, thread, name, "true".to_owned(), Placing::Mark).await?)
}

/// Items that were removed from a conversation.
pub async fn removed_of(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
) -> Result<HashSet<String>, Problem> {
    let ids = state.service.api_records.ids(principal, thread, (API, REMOVED), MAX_REMOVED_ITEMS).await?;
    Ok(ids.into_iter().collect())
}

/// Kind of the records of removed items.
const REMOVED: &str = "removed";
const METADATA: RecordName<'static> = RecordName { api: API, kind: "conversation", id: "metadata" };
