//! REST route of key-value entries.

pub(super) mod operations;

use axum::{
    extract::{Request, State},
    response::Response,
};
use serde::Serialize;
use serde_json::value::RawValue;
use threadline_core::{
    Timestamp,
    kv::{KvEntry, KvNamespace},
    limits::MAX_AGENT_DATA_BYTES,
};
use threadline_engine::{FoundEntries, KvDone, KvOp};
use threadline_http::{
    cursor::{write_namespace, write_place},
    extract::{Caller, parse_json},
    problem::{Problem, ProblemDocument},
};
use utoipa::ToSchema;

use self::operations::KvBody;
use crate::api::ApiState;

/// A key-value entry as stored.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryView {
    ns: Vec<String>,
    key: String,
    /// The value, byte for byte.
    #[schema(value_type = serde_json::Value)]
    value: Box<RawValue>,
    tag: String,
    #[schema(value_type = String, example = "2026-11-21T10:11:15.123Z")]
    created_at: Timestamp,
    #[schema(value_type = String, example = "2026-11-21T10:11:15.123Z")]
    updated_at: Timestamp,
    /// The time from which the entry is gone; absent if it does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    expires_at: Option<Timestamp>,
    /// The share of the words of `query` that the texts of the value contain; absent without `query`.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
}

impl EntryView {
    fn of(entry: KvEntry, score: Option<f64>) -> Self {
        Self {
            ns: labels(&entry.place.ns),
            key: entry.place.key.as_str().to_owned(),
            // The store holds a value that was JSON on arrival.
            value: RawValue::from_string(entry.value).unwrap_or_default(),
            tag: entry.tag.as_str().to_owned(),
            created_at: entry.created_at,
            updated_at: entry.updated_at,
            expires_at: entry.expires_at,
            score,
        }
    }
}

fn labels(ns: &KvNamespace) -> Vec<String> {
    ns.labels().into_iter().map(str::to_owned).collect()
}

/// Result of an operation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ResultView {
    /// Result of `get`: the entry, or null.
    Got {
        #[schema(required)]
        item: Option<EntryView>,
    },
    /// Result of `put`: the tag that the entry has now.
    Put { tag: String },
    /// Result of `delete`: true if there was an entry.
    Deleted { deleted: bool },
    /// Result of `touch`: true if there was an entry.
    Touched { touched: bool },
    /// Result of `search`: the entries that were found.
    Found {
        items: Vec<EntryView>,
        /// The number of entries that were looked at.
        scanned: usize,
        /// The cursor with which the search goes on; null if all entries were looked at.
        #[schema(required)]
        cursor: Option<String>,
    },
    /// Result of `namespaces`: the namespaces that have entries.
    Namespaces {
        namespaces: Vec<Vec<String>>,
        /// The number of namespaces that were looked at.
        scanned: usize,
        /// The cursor with which the list goes on; null if all namespaces were looked at.
        #[schema(required)]
        cursor: Option<String>,
    },
}

impl From<KvDone> for ResultView {
    fn from(done: KvDone) -> Self {
        match done {
            KvDone::Got(entry) => Self::Got { item: entry.map(|entry| EntryView::of(entry, None)) },
            KvDone::Put(tag) => Self::Put { tag: tag.as_str().to_owned() },
            KvDone::Deleted(deleted) => Self::Deleted { deleted },
            KvDone::Touched(touched) => Self::Touched { touched },
            KvDone::Found(FoundEntries { entries, scanned, next }) => Self::Found {
                items: entries.into_iter().map(|(entry, score)| EntryView::of(entry, score)).collect(),
                scanned,
                cursor: next.map(|(place, left)| write_place(&place, left)),
            },
            KvDone::Namespaces { namespaces, scanned, next } => Self::Namespaces {
                namespaces: namespaces.iter().map(labels).collect(),
                scanned,
                cursor: next.map(|(ns, left)| write_namespace(&ns, left)),
            },
        }
    }
}

/// Results of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub struct KvView {
    /// One result for each operation, in order.
    results: Vec<ResultView>,
}

/// Reads and writes key-value entries: what agents keep beside all threads. For API keys with the scope `produce`.
///
/// The entries are those of the user that the header `Threadline-User` names, or without it those of the project itself. First all
/// reads of the batch are carried out, then all writes in one commit, or none of them.
#[utoipa::path(post, path = "/v1/kv", tag = "agent data", request_body = KvBody, responses(
    (status = 200, description = "The results", body = KvView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 409, description = "Threads of several users have this ID", body = ProblemDocument),
    (status = 412, description = "Entry changed: `index` is the operation whose `ifTag` does not hold", body = ProblemDocument),
    (status = 413, description = "Request body or answer too large", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn run(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    request: Request,
) -> Result<Response, Problem> {
    let body = state.http.body(request, MAX_AGENT_DATA_BYTES).await?;
    let read = || parse_json::<KvBody>(&body)?.operations();
    let ops = state.service.queue.process(&principal, body.len(), read).await??;
    let run = async || {
        let results = state.service.kv.run(&principal, &ops).await?;
        let results = results.into_iter().map(ResultView::from).collect();
        // Serialization fails only for keys that are not strings, and no view has such keys.
        Ok::<_, Problem>(serde_json::to_vec(&KvView { results }).unwrap_or_default())
    };
    // An answer that finds no memory is made again, but writes are carried out once.
    let writes = ops.iter().any(|op| matches!(op, KvOp::Write(_)));
    let written = if writes { Some(run().await?) } else { None };
    let make = async || match &written {
        Some(written) => Ok(written.clone()),
        None => run().await,
    };
    state.http.responses.json(&principal, make).await
}
