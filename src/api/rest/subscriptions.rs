//! REST route of the subscriptions to a thread.

use axum::{Json as Answer, extract::State};
use serde::Serialize;
use threadline_core::{Principal, Timestamp};
use threadline_engine::{
    NodeFollowers,
    subscription::{FollowMethod, Follower},
};
use threadline_http::{
    extract::{Caller, InThread},
    problem::{Problem, ProblemDocument},
};
use utoipa::ToSchema;

use crate::api::ApiState;

/// A subscription to a thread's log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionView {
    /// The node that serves it.
    node_id: String,
    /// `socket`, `sse`, `long-poll` (while it waits), `ndjson`, `ag-ui`, `ai-sdk`, `openai`, `durable-streams` or `copilotkit`.
    #[schema(value_type = String, example = "socket")]
    transport: FollowMethod,
    /// The end user; null if it is a key without a user.
    #[schema(required)]
    user_id: Option<String>,
    /// Credential of the subscription: `development`, `operator`, `key:<keyId>`, `lent` (a page that acts with a key's
    /// rights) or `user`. End users do not see the key ID.
    credential: String,
    /// The run to which the subscription is limited.
    #[schema(required)]
    run_id: Option<String>,
    /// Seq of the last event delivered to it.
    cursor: u64,
    #[schema(value_type = String)]
    since: Timestamp,
}

impl SubscriptionView {
    fn new(node: &str, follower: Follower, asking: &Principal) -> Self {
        let Follower { reader, cursor } = follower;
        let credential = match reader.credential.split_once(':') {
            Some((kind, _)) if asking.is_untrusted() => kind.to_owned(),
            _ => reader.credential,
        };
        Self {
            node_id: node.to_owned(),
            transport: reader.via,
            user_id: reader.user.map(|user| user.to_string()),
            credential,
            run_id: reader.run.map(|run| run.to_string()),
            cursor,
            since: reader.since,
        }
    }
}

/// The subscriptions to a thread.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionsView {
    /// The number of nodes that have responded, including this one. A node that is unreachable or has just started is
    /// missing.
    nodes: usize,
    /// The number of subscriptions on these nodes.
    count: usize,
    /// The first 200 of each node, in the order of their start.
    subscriptions: Vec<SubscriptionView>,
}

/// Lists the current subscriptions to a thread, on all nodes, with their cursors.
///
/// For diagnosis: with several nodes it takes up to 300 ms.
#[utoipa::path(get, path = "/v1/threads/{threadId}/subscriptions", tag = "threads",
    params(("threadId" = String, Path)), responses(
    (status = 200, description = "The subscriptions", body = SubscriptionsView),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
) -> Result<Answer<SubscriptionsView>, Problem> {
    let nodes = state.service.followers.list(&principal, &thread).await?;
    let count = nodes.iter().map(|node| node.count).sum();
    let view = |NodeFollowers { node, followers, .. }: NodeFollowers| {
        let (node, principal) = (node.to_string(), &principal);
        followers.into_iter().map(move |follower| SubscriptionView::new(&node, follower, principal)).collect::<Vec<_>>()
    };
    Ok(Answer(SubscriptionsView {
        nodes: nodes.len(),
        count,
        subscriptions: nodes.into_iter().flat_map(view).collect(),
    }))
}
