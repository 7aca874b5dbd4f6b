//! First request of a page: the agents, and the supported operations on threads.

use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use threadline_http::{extract::Caller, problem::Problem};

use super::single::SingleEndpoint;
use crate::api::ApiState;

/// Describes the server: agents, routes, and the address of the socket that keeps thread lists live.
///
/// Runs are streamed over HTTP (`mode` is `sse`). The server has no licence and claims none.
#[utoipa::path(get, path = "/copilotkit/info", tag = "copilotkit", responses(
    (status = 200, description = "Agents, routes and the address of the socket", body = serde_json::Value)))]
pub async fn info(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    single: Option<Extension<SingleEndpoint>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let agents = state.agents.list(&principal).await?;
    let agents: Map<String, Value> = agents
        .into_iter()
        .map(|(agent, _)| {
            let name = agent.id.to_string();
            (name.clone(), json!({ "name": name, "description": "", "className": "ThreadlineAgent" }))
        })
        .collect();
    let socket = socket(&headers);
    let threads = json!({ "list": true, "inspect": true, "mutations": true, "realtimeMetadata": socket.is_some() });
    let mut told = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "agents": agents,
        "mode": "sse",
        "threadEndpoints": threads,
        "suggestions": true,
        "audioFileTranscriptionEnabled": false,
        "a2uiEnabled": false,
        "openGenerativeUIEnabled": false,
        "telemetryDisabled": true,
    });
    if let Some(socket) = socket {
        told["intelligence"] = json!({ "wsUrl": socket });
    }
    if single.is_some() {
        // Clients of the single endpoint read this member; without it they would not send requests about threads in the
        // envelope.
        told["singleRoute"] = json!({ "resourceOperations": true, "threadEndpoints": threads });
    }
    Ok(axum::Json(told).into_response())
}

/// Address of the client's socket: the host that received the request, according to the request and the proxies in
/// between. `None` if no valid host is named.
fn socket(headers: &HeaderMap) -> Option<String> {
    let said = |name: &str| {
        let value = headers.get(name)?.to_str().ok()?;
        // The first value is the one that the client requested.
        Some(value.split(',').next().unwrap_or_default().trim()).filter(|value| !value.is_empty())
    };
    let secure = said("x-forwarded-proto").is_some_and(|scheme| matches!(scheme, "https" | "wss"));
    let host = said("x-forwarded-host").or_else(|| said("host"))?;
    host.parse::<axum::http::uri::Authority>().ok()?;
    let prefix = said("x-forwarded-prefix").unwrap_or_default().trim_end_matches('/');
    let prefix = Some(prefix).filter(|prefix| prefix.starts_with('/')).unwrap_or_default();
    Some(format!("{}://{host}{prefix}/client", if secure { "wss" } else { "ws" }))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn the_socket_is_where_the_request_came_to() {
        for (headers, want) in [
            (&[("host", "localhost:7420")][..], Some("ws://localhost:7420/client")),
            (&[("host", "10.0.0.1"), ("x-forwarded-proto", "https, http")], Some("wss://10.0.0.1/client")),
            (
                &[
                    ("host", "node-1"),
                    ("x-forwarded-host", "chat.example, node-1"),
                    ("x-forwarded-prefix", "/threads/"),
                ],
                Some("ws://chat.example/threads/client"),
            ),
            (&[("host", "a b")], None),
            (&[], None),
        ] {
            let map =
                headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a value")));
            assert_eq!(socket(&map.collect()).as_deref(), want, "{headers:?}");
        }
    }
}
