//! Extractors of handlers: parts of a request, with errors as problem documents.

use std::{borrow::Cow, ops::RangeInclusive, time::Duration};

use axum::{
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, HeaderValue, Uri, header, request::Parts},
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use serde::de::DeserializeOwned;
use threadline_core::{
    AgentId, AnnotationId, IdError, KeyId, Principal, ProjectId, RunId, ThreadId, ToolCallId, UserId, json,
    limits::{LONG_INPUT_BYTES, MAX_JSON_DEPTH, MAX_LEASE, MAX_REQUEST_BYTES, MIN_LEASE},
};
use threadline_engine::limits::{BudgetOwner, ConnectionMark, in_place};

use crate::{
    HttpState,
    auth::{AuthError, Shown},
    body::{Charge, Presented},
    listener::PeerAddress,
    problem::Problem,
    routes::Access,
};

/// Names the project that the operator acts in.
pub const PROJECT_HEADER: &str = "threadline-project";
/// Names the user on whose behalf a request is made.
pub const USER_HEADER: &str = "threadline-user";
/// Header with the key of a Phoenix client that long-polls.
const CHANNEL_AUTH_HEADER: &str = "x-phoenix-authtoken";
/// Header with the key of LangGraph's clients, which set no other.
const LANGGRAPH_KEY_HEADER: &str = "x-api-key";
/// Prefix of the paths of LangGraph's API, where alone this header counts: elsewhere, proxies and their own clients use it.
const LANGGRAPH_PATH: &str = "/langgraph/";
/// Prefix of the subprotocol that holds the key of a Phoenix client that opens a socket.
const CHANNEL_BEARER: &str = "base64url.bearer.phx.";

/// Authenticated principal, with the permission that the route requires.
#[derive(Debug, Clone)]
pub struct Caller(pub Principal);

/// Principal of an inner request, authenticated and counted with the request that it came in. An extension of the
/// request, so no client can set it.
#[derive(Debug, Clone)]
pub struct Authenticated(pub Principal);

impl<S: AsRef<HttpState> + Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let state = state.as_ref();
        // Every registered route states its access. A route that does not accepts only the operator.
        let access = parts.extensions.get().copied().unwrap_or(Access::Operator);
        if let Some(Authenticated(principal)) = parts.extensions.get().cloned() {
            access.check(&principal)?;
            return Ok(Self(principal));
        }
        let ticket = matches!(access, Access::TicketOrKey(_)).then(|| ticket(parts.uri.query())).flatten();
        let carried = carried(parts.uri.path(), &parts.headers);
        let shown = Shown {
            secret: bearer(&parts.headers).or(carried.as_deref()),
            ticket: ticket.as_deref(),
            user: id_header(&parts.headers, USER_HEADER).map_err(AuthError::BadUser)?,
            project: id_header(&parts.headers, PROJECT_HEADER).map_err(AuthError::BadProject)?,
            address: parts.extensions.get().map(|PeerAddress(address)| *address),
        };
        let as_of = state.auth.changes();
        let principal = match state.auth.authenticate(shown).await {
            Ok(principal) => principal,
            Err(error) => {
                state.auth.note_refusal(shown, None, &error);
                return Err(error.into());
            }
        };
        if let Some(connection) = parts.extensions.get::<ConnectionMark>() {
            connection.is_known();
        }
        access.check(&principal).inspect_err(|error| state.auth.note_refusal(shown, Some(&principal), error))?;
        state.quota.admit(&principal)?;
        // The reader of the body takes these from here.
        parts.extensions.insert(Presented { principal: principal.clone(), as_of });
        parts.extensions.insert(BudgetOwner::of(&principal));
        Ok(Self(principal))
    }
}

/// Ids are UTF-8, and so are these headers, although headers may hold other bytes.
fn id_header<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, IdError> {
    let text = |value: &'h HeaderValue| std::str::from_utf8(value.as_bytes()).map_err(|_| IdError::ControlCharacter);
    headers.get(name).map(text).transpose()
}

/// Socket ticket in a query string.
fn ticket(query: Option<&str>) -> Option<String> {
    let pairs = query.unwrap_or_default().split('&');
    pairs.filter_map(|pair| pair.strip_prefix("ticket=")).next().map(str::to_owned)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// Key of a client that cannot set `Authorization`, or whose library sets another header.
fn carried<'h>(path: &str, headers: &'h HeaderMap) -> Option<Cow<'h, str>> {
    let in_header = |name: &str| headers.get(name)?.to_str().ok().map(Cow::Borrowed);
    let api_key = || path.starts_with(LANGGRAPH_PATH).then(|| in_header(LANGGRAPH_KEY_HEADER)).flatten();
    socket_bearer(headers).or_else(|| in_header(CHANNEL_AUTH_HEADER)).or_else(api_key)
}

/// Browsers cannot set headers on a socket, but can name a subprotocol `bearer.<key>`. Phoenix's clients name a
/// subprotocol that holds the key in Base64.
fn socket_bearer(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    protocols.flat_map(|list| list.split(',')).map(str::trim).find_map(|name| match name.strip_prefix("bearer.") {
        Some(key) => Some(Cow::Borrowed(key)),
        None => in_base64(name.strip_prefix(CHANNEL_BEARER)?).map(Cow::Owned),
    })
}

/// Browsers write the standard alphabet, although the name says Base64url: both alphabets are read.
fn in_base64(text: &str) -> Option<String> {
    let text = text.trim_end_matches('=');
    let bytes = STANDARD_NO_PAD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text)).ok()?;
    String::from_utf8(bytes).ok()
}

/// JSON body of a Threadline route (not events): bounded, shallow, without unknown members.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Default, S: AsRef<HttpState> + Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = state.as_ref().read_body(request, MAX_REQUEST_BYTES, Charge::Passes).await?;
        parse_json(&bytes).map(Self)
    }
}

/// Parses a JSON text; an empty text is the default.
pub fn parse_json<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    if json::depth(bytes, MAX_JSON_DEPTH) > MAX_JSON_DEPTH {
        return Err(Problem::invalid(format!("the body is nested deeper than {MAX_JSON_DEPTH} levels")));
    }
    // Serde would also accept an array, with its items as the members in order.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::invalid("the body is not a JSON object"));
    }
    let parse = || serde_json::from_slice(bytes).map_err(|error| Problem::invalid(format!("invalid body: {error}")));
    if bytes.len() < LONG_INPUT_BYTES { parse() } else { in_place(parse) }
}

/// Parameters of the query string.
#[derive(Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        query(&parts.uri).map(Self)
    }
}

/// Parses a query string; invalid values are refused.
pub fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    match Query::<T>::try_from_uri(uri) {
        Ok(Query(params)) => Ok(params),
        Err(error) => Err(Problem::invalid(format!("invalid query string: {}", error.body_text()))),
    }
}

/// Lease that a request names: whole seconds, or fractions where clients send them. `name` is the request's name for
/// the lease.
pub fn lease(name: &str, seconds: Option<f64>) -> Result<Option<Duration>, Problem> {
    lease_between(name, seconds, MIN_LEASE..=MAX_LEASE)
}

/// [`lease`] within other bounds.
pub fn lease_between(
    name: &str,
    seconds: Option<f64>,
    bounds: RangeInclusive<Duration>,
) -> Result<Option<Duration>, Problem> {
    let Some(seconds) = seconds else { return Ok(None) };
    let lease = Duration::try_from_secs_f64(seconds).ok();
    let lease = lease.filter(|lease| bounds.contains(lease)).ok_or_else(|| {
        let (least, most) = (bounds.start().as_secs(), bounds.end().as_secs());
        Problem::invalid(format!("{name} is {seconds}, but must be from {least} to {most} seconds"))
    })?;
    Ok(Some(lease))
}

/// Lease that `leaseSeconds` names, in whole seconds.
pub fn lease_seconds(seconds: Option<u64>) -> Result<Option<Duration>, Problem> {
    // Exact for every valid lease.
    lease("leaseSeconds", seconds.map(|seconds| seconds as f64))
}

/// The thread named in the path.
#[derive(Debug)]
pub struct InThread(pub ThreadId);

/// The thread and the run named in the path.
#[derive(Debug)]
pub struct InRun(pub ThreadId, pub RunId);

/// The thread and the item list named in the path.
#[derive(Debug)]
pub struct InList(pub ThreadId, pub String);

/// The thread and the checkpoint named in the path.
#[derive(Debug)]
pub struct InCheckpoint(pub ThreadId, pub String);

/// The thread and the tool call named in the path.
#[derive(Debug)]
pub struct InToolCall(pub ThreadId, pub ToolCallId);

/// The conversation and the item named in the path, as OpenAI's API names them.
#[derive(Debug)]
pub struct InConversationItem(pub String, pub String);

/// The agent and the thread named in the path.
#[derive(Debug)]
pub struct InAgentThread(pub AgentId, pub ThreadId);

/// The agent named in the path.
#[derive(Debug)]
pub struct InAgent(pub AgentId);

/// The annotation named in the path.
#[derive(Debug)]
pub struct InAnnotation(pub AnnotationId);

/// The API key named in the path.
#[derive(Debug)]
pub struct InKey(pub KeyId);

/// The project named in the path.
#[derive(Debug)]
pub struct InProject(pub ProjectId);

/// The user named in the path.
#[derive(Debug)]
pub struct InUser(pub UserId);

/// A path parameter that is text, not an id.
#[derive(Debug)]
pub struct InPath(pub String);

async fn path<T: DeserializeOwned + Send>(parts: &mut Parts) -> Result<T, Problem> {
    match Path::<T>::from_request_parts(parts, &()).await {
        Ok(Path(values)) => Ok(values),
        Err(error) => Err(Problem::invalid(format!("invalid path: {}", error.body_text()))),
    }
}

/// Takes the one parameter of a path.
macro_rules! in_path {
    ($($name:ident)+) => {
        $(impl<S: Send + Sync> FromRequestParts<S> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
                path(parts).await.map(Self)
            }
        })+
    };
}
in_path!(InAgent InAnnotation InKey InPath InProject InThread InUser);

/// Takes both parameters of a path.
macro_rules! in_path_of_two {
    ($($name:ident)+) => {
        $(impl<S: Send + Sync> FromRequestParts<S> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
                let (outer, inner) = path(parts).await?;
                Ok(Self(outer, inner))
            }
        })+
    };
}
in_path_of_two!(InAgentThread InCheckpoint InConversationItem InList InRun InToolCall);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_carried_in_a_subprotocol_or_a_header_of_its_own() {
        let shown = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a value"));
            carried("/v1/threads", &headers).map(Cow::into_owned)
        };
        let protocol = |value: &str| shown("sec-websocket-protocol", value);
        assert_eq!(protocol("threadline.v1, bearer.tl_x").as_deref(), Some("tl_x"));
        assert_eq!(protocol("phoenix,base64url.bearer.phx.Y3BrX3Rlc3Rfa2V5").as_deref(), Some("cpk_test_key"));
        // `???>` in both alphabets, and with the padding that some clients send.
        for text in ["Pz8/Pg", "Pz8_Pg", "Pz8_Pg=="] {
            assert_eq!(protocol(&format!("base64url.bearer.phx.{text}")).as_deref(), Some("???>"), "{text}");
        }
        for bad in ["phoenix", "base64url.bearer.phx.%%%", "base64url.bearer.phx._w", "base64url.bearer.phx"] {
            assert_eq!(protocol(bad), None, "{bad}");
        }
        assert_eq!(shown("x-phoenix-authtoken", "tl_y").as_deref(), Some("tl_y"));
    }

    #[test]
    fn a_key_of_langgraph_counts_on_its_paths_and_behind_every_other_credential() {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", "tl_x".parse().expect("a value"));
        let on = |path: &str, headers: &HeaderMap| carried(path, headers).map(Cow::into_owned);
        assert_eq!(on("/langgraph/threads", &headers).as_deref(), Some("tl_x"));
        for path in
            ["/v1/threads", "/langgraph", "/langgraphs/threads", "/x/langgraph/threads", "/", "/agui/langgraph/"]
        {
            assert_eq!(on(path, &headers), None, "{path}");
        }
        headers.insert("x-phoenix-authtoken", "tl_y".parse().expect("a value"));
        assert_eq!(on("/langgraph/threads", &headers).as_deref(), Some("tl_y"));
        headers.insert(header::AUTHORIZATION, "Bearer tl_z".parse().expect("a value"));
        assert_eq!(bearer(&headers), Some("tl_z"), "read before what is carried");
    }
}
