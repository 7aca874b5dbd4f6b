//! REST route of the audit log: pages, and following as SSE.

use axum::{
    Json as Answer,
    body::Bytes,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{
    AuditEntry, Principal,
    limits::{AUDIT_POLL, DEFAULT_PAGE, MAX_PAGE},
};
use threadline_engine::StoreError;
use threadline_http::{
    auth::{Auth, AuthError},
    cursor::{read_audit, write_audit},
    extract::{Caller, Params},
    problem::{Problem, ProblemDocument},
    sse::{self, EventSource},
};
use tokio::time;
use utoipa::{IntoParams, ToSchema};

use crate::api::ApiState;

/// Part of the audit log that a request reads.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditParams {
    /// 1 to 500. Default 50.
    limit: Option<usize>,
    /// `nextCursor` of the page before. Not together with `after`.
    cursor: Option<String>,
    /// Only entries with a greater `number`, the oldest first. Entries of the last 5 seconds are left out: several nodes write
    /// the log, and an entry with a smaller number may still appear.
    after: Option<i64>,
    /// With `true` the response is a live stream (SSE) of the entries after `after`; without `after`, of new entries.
    #[serde(default)]
    follow: bool,
}

/// An administrative action in the project, or a sum of refused requests.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditView {
    /// Grows from entry to entry, with gaps.
    number: i64,
    #[schema(format = DateTime)]
    at: String,
    /// `operator`, `development`, `key:<keyId>`, `user`, `retention`, `clock`, `store` or `node`.
    actor: String,
    #[schema(example = "key.revoked")]
    action: String,
    #[schema(value_type = Object)]
    facts: Box<RawValue>,
}

impl AuditView {
    fn new(number: i64, entry: AuditEntry) -> Self {
        Self {
            number,
            at: entry.at.to_string(),
            actor: entry.actor,
            action: entry.action,
            facts: RawValue::from_string(entry.facts).unwrap_or_default(),
        }
    }
}

/// A page of the audit log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditPage {
    entries: Vec<AuditView>,
    /// Cursor of the next page; always null with `after`, where the `number` of the last entry is the next `after`.
    next_cursor: Option<String>,
}

/// Reads the audit log of the project, newest first, or follows it: keys, tokens, sign-outs, agents, settings, secrets,
/// erased users, retention, and refused requests. Scope `admin`.
///
/// Beyond 10 tokens of one key in a minute, one entry sums the others. One entry sums the refused requests of a node in a minute.
#[utoipa::path(get, path = "/v1/audit", tag = "identity",
    params(AuditParams,
        ("Last-Event-ID" = Option<String>, Header, description = "With `follow`: the `number` of the last entry seen")),
    responses(
    (status = 200, description = "Entries", content((AuditPage = "application/json"), (String = "text/event-stream"))),
    (status = 400, description = "Invalid request", body = ProblemDocument)))]
pub async fn audit(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<AuditParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let auth = &state.http.auth;
    if params.cursor.is_some() && (params.after.is_some() || params.follow) {
        return Err(Problem::invalid("cursor and after (or follow) exclude each other"));
    }
    if params.follow {
        let after = match last_seen(&headers)?.or(params.after) {
            Some(after) => after,
            None => auth.newest_audit(&principal).await?,
        };
        let place = state.http.quota.open(&principal)?;
        let followed = Followed { auth: auth.clone(), principal: principal.clone(), after };
        return Ok(sse::response(followed, None, place, &state.http, &principal));
    }
    let limit = params.limit.unwrap_or(DEFAULT_PAGE);
    let (found, next_cursor) = match params.after {
        Some(after) => (auth.audit_after(&principal, after, limit).await.map_err(AuthError::from)?, None),
        None => {
            let before = params.cursor.as_deref().map(read_audit).transpose()?;
            let found = auth.audit(&principal, before, limit).await?;
            let next = found.last().filter(|_| found.len() >= limit).map(|(number, _)| write_audit(*number));
            (found, next)
        }
    };
    let entries = found.into_iter().map(|(number, entry)| AuditView::new(number, entry)).collect();
    Ok(Answer(AuditPage { entries, next_cursor }).into_response())
}

fn last_seen(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| Problem::invalid("Last-Event-ID is not the number of an entry"))
}

/// The audit log of a project, from a number on.
struct Followed {
    auth: Auth,
    principal: Principal,
    after: i64,
}

impl EventSource for Followed {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        loop {
            let page = self.auth.audit_after(&self.principal, self.after, MAX_PAGE).await?;
            if let Some((newest, _)) = page.last() {
                self.after = *newest;
                let event = |(number, entry)| {
                    let view = serde_json::to_string(&AuditView::new(number, entry)).unwrap_or_default();
                    format!("id: {number}\ndata: {view}\n\n")
                };
                return Ok(Some(page.into_iter().map(event).collect::<String>().into()));
            }
            time::sleep(AUDIT_POLL).await;
        }
    }

    fn tail(&self) -> u64 {
        self.after.unsigned_abs()
    }
}
