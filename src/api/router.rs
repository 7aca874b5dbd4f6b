//! All APIs together: one router, one description, one list.

use std::sync::LazyLock;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use threadline_core::{AllowedOrigins, limits::PREFLIGHT_AGE};
use threadline_http::{
    envelope, fallback,
    observe::{self, REQUEST_ID_HEADER},
    origins::{self, OriginCheck},
    protection,
    routes::{Access, Registered, RouteEntry, Routes},
    ws::close::CloseCode,
};
use tokio_util::sync::CancellationToken;
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowHeaders, AllowOrigin, CorsLayer},
};
use utoipa::openapi::OpenApi;
use utoipa_axum::routes;

use super::{
    ApiState, agui, ai, console, conversations, copilotkit, langgraph, openai, rest, run_agent, socket, streams,
};

/// Routes of every server of this process. Each handler describes itself with all its schemas when it is registered, which
/// is most of the work of starting a server.
static ROUTES: LazyLock<Registered<ApiState>> = LazyLock::new(|| routes().register());

/// Routes of every admin listener of this process.
static MONITORING: LazyLock<Registered<ApiState>> = LazyLock::new(|| rest::monitoring(Routes::default()).register());

fn routes() -> Routes<ApiState> {
    let native = socket::routes(rest::routes(Routes::default().route(Access::Public, routes!(described))));
    let apis = langgraph::routes(openai::routes(streams::routes(ai::routes(agui::routes(native)))));
    console::routes(copilotkit::routes(conversations::routes(apis)))
}

/// OpenAPI document of all routes of this server.
#[utoipa::path(get, path = "/v1/openapi.json", operation_id = "openapi", tag = "server", responses(
    (status = 200, description = "An OpenAPI document", body = Value)))]
async fn described() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi_text()).into_response()
}

/// Router of all APIs, with all middleware.
pub fn router(state: ApiState) -> Router {
    let metrics = state.service.metrics();
    metrics.know_socket_closes(CloseCode::ALL.map(CloseCode::reason));
    metrics.http.know(ROUTES.entries().iter().map(|entry| entry.path.clone()));
    layered(&ROUTES, state)
}

/// Router of the admin listener, with all middleware.
pub fn monitoring(state: ApiState) -> Router {
    layered(&MONITORING, state)
}

fn layered(routes: &Registered<ApiState>, state: ApiState) -> Router {
    let metrics = state.service.metrics().clone();
    let check = OriginCheck { http: state.http.clone(), socket: (socket::PATH, socket::PROTOCOL) };
    let router = routes
        .serve(state.clone())
        .fallback(fallback::not_found)
        .method_not_allowed_fallback(fallback::method_not_allowed)
        .layer(middleware::from_fn_with_state(check, origins::origins))
        .layer(CatchPanicLayer::custom(fallback::panicked))
        .layer(middleware::from_fn(openai::errors::in_openai_form));
    let router = router.layer(match pages(&state) {
        // A permission for every page never includes the cookies of a proxy in front of this server.
        None => cors(AllowOrigin::any()),
        // Some pages send cookies with their requests.
        Some(pages) => cors(pages).allow_credentials(true),
    });
    let router = router.layer(middleware::from_fn_with_state(state.service.leaving(), close_while_leaving));
    let router = router.layer(middleware::map_response(protection::protect));
    // Outermost, so that every response is counted.
    router.layer(middleware::from_fn_with_state(metrics, observe::observe))
}

/// Closes connections of a node that is leaving, so that clients reconnect and a balancer can route them elsewhere.
async fn close_while_leaving(State(leaving): State<CancellationToken>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    // A response that switches protocols has `upgrade` in this header.
    if leaving.is_cancelled() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The OpenAPI description of all APIs.
pub fn openapi() -> OpenApi {
    let mut document = routes().describe_all();
    openai::errors::describe(&mut document);
    for (path, item) in &mut document.paths.paths {
        let operations = [
            ("get", &mut item.get),
            ("put", &mut item.put),
            ("post", &mut item.post),
            ("patch", &mut item.patch),
            ("delete", &mut item.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                operation.operation_id = Some(operation_id(method, path));
            }
        }
    }
    document
}

/// Id of an operation, of which OpenAPI demands that no other has it: the method, and the words of the path.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_alphanumeric()).filter(|word| !matches!(*word, "" | "v1"));
    let mut id = method.to_owned();
    for word in words {
        let mut chars = word.chars();
        id.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        id.push_str(chars.as_str());
    }
    id
}

/// [`openapi`] as it is published.
pub fn openapi_text() -> String {
    openapi().to_pretty_json().unwrap_or_default()
}

pub fn entries() -> Vec<RouteEntry> {
    ROUTES.entries().to_vec()
}

/// Pages of other origins that may send requests: in development mode pages of this machine, from any port; else the
/// pages that the operator has listed, or all (`None`).
fn pages(state: &ApiState) -> Option<AllowOrigin> {
    let listed = |allows: fn(&AllowedOrigins, &str) -> bool| {
        let origins = state.http.origins.clone();
        AllowOrigin::predicate(move |origin, _| origin.to_str().is_ok_and(|origin| allows(&origins, origin)))
    };
    match &state.http.origins {
        _ if state.http.auth.is_development() => Some(listed(|_, origin| origins::is_loopback_origin(origin))),
        origins if origins.is_any() || origins.is_empty() => None,
        _ => Some(listed(AllowedOrigins::contains)),
    }
}

fn cors(pages: AllowOrigin) -> CorsLayer {
    CorsLayer::new()
        .max_age(PREFLIGHT_AGE)
        .allow_origin(pages)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        // Applications send headers of their own. The credential decides what a request may do, not the headers.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([
            header::ETAG,
            header::RETRY_AFTER,
            header::CONTENT_LOCATION,
            HeaderName::from_static(langgraph::NEXT_HEADER),
            HeaderName::from_static(REQUEST_ID_HEADER),
            HeaderName::from_static(envelope::EPOCH_HEADER),
            HeaderName::from_static(envelope::TAIL_HEADER),
            HeaderName::from_static(run_agent::THREAD_HEADER),
            HeaderName::from_static(run_agent::RUN_HEADER),
            HeaderName::from_static(run_agent::IGNORED_HEADER),
            openai::errors::SHOULD_RETRY,
            streams::NEXT_OFFSET,
            streams::UP_TO_DATE,
            streams::CLOSED,
            streams::CURSOR,
            streams::DATA_ENCODING,
            streams::EXPECTED_SEQ,
            streams::EXPIRES_AT,
            streams::PRODUCER_EPOCH,
            streams::PRODUCER_SEQ,
            streams::RECEIVED_SEQ,
            streams::TTL,
            header::LOCATION,
        ])
}
