//! Header fields of requests on plain streams.

use axum::{
    extract::{FromRequestParts, Request},
    http::{HeaderMap, HeaderName, Uri, header, request::Parts},
};
use percent_encoding::percent_decode_str;
use threadline_core::{
    Timestamp,
    limits::{MAX_STREAM_NAME_BYTES, MAX_STREAM_TTL},
    streams::{ContentType, Life, PathError, Producer, StreamPath},
};
use threadline_engine::NewFork;
use threadline_http::{
    extract::InPath,
    problem::{Problem, ProblemType},
};

use super::answers::{EXPIRES_AT, PRODUCER_EPOCH, PRODUCER_SEQ, TTL};
use crate::api::streams::{headers::CLOSED, offset::From};

const SEQ: HeaderName = HeaderName::from_static("stream-seq");
const FORKED_FROM: HeaderName = HeaderName::from_static("stream-forked-from");
const FORK_OFFSET: HeaderName = HeaderName::from_static("stream-fork-offset");
const FORK_SUB_OFFSET: HeaderName = HeaderName::from_static("stream-fork-sub-offset");
const PRODUCER_ID: HeaderName = HeaderName::from_static("producer-id");
/// Largest number of a producer, 2^53 − 1: clients in JavaScript have no larger ones.
const MAX_NUMBER: u64 = 9_007_199_254_740_991;
/// Prefixes that the path of a source may have: that of this server, and that of the protocol's own server.
const PREFIXES: [&str; 2] = ["/streams/v1/stream/", "/v1/stream/"];

/// The stream named in the path.
#[derive(Debug)]
pub struct InStream(pub StreamPath);

impl<S: Send + Sync> FromRequestParts<S> for InStream {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let InPath(path) = InPath::from_request_parts(parts, state).await?;
        stream_path(&path).map(Self)
    }
}

/// Header fields of a request that creates a stream.
#[derive(Debug)]
pub struct Creation {
    pub kind: Option<ContentType>,
    pub life: Option<Life>,
    pub fork: Option<NewFork>,
    pub closed: bool,
    /// URL of the stream.
    pub location: String,
}

impl Creation {
    pub fn of(request: &Request) -> Result<Self, Problem> {
        let headers = request.headers();
        Ok(Self {
            kind: content_type(headers)?,
            life: life(headers)?,
            fork: fork(headers)?,
            closed: closes(headers)?,
            location: location(headers, request.uri()),
        })
    }
}

/// Header fields of an append.
#[derive(Debug)]
pub struct Append {
    pub kind: Option<ContentType>,
    pub seq: Option<String>,
    pub producer: Option<Producer>,
    pub closes: bool,
}

impl Append {
    pub fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let (kind, seq) = (content_type(headers)?, seq(headers)?);
        Ok(Self { kind, seq, producer: producer(headers)?, closes: closes(headers)? })
    }
}

/// Reads the path of a stream, which is decoded.
fn stream_path(text: &str) -> Result<StreamPath, Problem> {
    StreamPath::new(text).map_err(|error| match error {
        // A reserved segment serves other routes, or none.
        PathError::Reserved => Problem::new(ProblemType::NotFound, error.to_string()),
        error => Problem::invalid(format!("invalid path {text:?}: {error}")),
    })
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(Problem::invalid(format!("the header {name} is sent more than once")));
    }
    let text = value.map(|value| value.to_str().map(str::trim));
    text.transpose().map_err(|_| Problem::invalid(format!("the header {name} must be visible ASCII")))
}

/// A number in decimal digits, in its one form.
fn number(name: &HeaderName, text: &str, most: u64) -> Result<u64, Problem> {
    let number = text.parse().ok().filter(|number: &u64| number.to_string() == text && *number <= most);
    number.ok_or_else(|| {
        Problem::invalid(format!("{name} is {text:?}, but must be an integer from 0 to {most} in decimal digits"))
    })
}

/// Media type that a request names; `None` if it names none.
fn content_type(headers: &HeaderMap) -> Result<Option<ContentType>, Problem> {
    match text(headers, &header::CONTENT_TYPE)? {
        None | Some("") => Ok(None),
        Some(named) => {
            let parsed = ContentType::parse(named);
            parsed.map(Some).ok_or_else(|| Problem::invalid(format!("Content-Type is {named:?}: not a media type")))
        }
    }
}

/// True if the request closes the stream.
fn closes(headers: &HeaderMap) -> Result<bool, Problem> {
    Ok(text(headers, &CLOSED)?.is_some_and(|value| value.eq_ignore_ascii_case("true")))
}

/// Life of a stream that is created.
fn life(headers: &HeaderMap) -> Result<Option<Life>, Problem> {
    match (text(headers, &TTL)?, text(headers, &EXPIRES_AT)?) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Problem::invalid("a request has Stream-TTL or Stream-Expires-At, not both")),
        (Some(seconds), None) => number(&TTL, seconds, MAX_STREAM_TTL).map(|seconds| Some(Life::Idle(seconds))),
        (None, Some(at)) => {
            let parsed = Timestamp::from_rfc3339(at).map(|at| Some(Life::Until(at.0)));
            parsed.ok_or_else(|| Problem::invalid(format!("Stream-Expires-At is {at:?}: not a time of RFC 3339")))
        }
    }
}

/// Origin of a stream that is created.
fn fork(headers: &HeaderMap) -> Result<Option<NewFork>, Problem> {
    let (offset, sub) = (text(headers, &FORK_OFFSET)?, text(headers, &FORK_SUB_OFFSET)?);
    let Some(source) = text(headers, &FORKED_FROM)? else {
        return match offset.or(sub) {
            Some(_) => Err(Problem::invalid("an offset of a fork requires Stream-Forked-From")),
            None => Ok(None),
        };
    };
    let at = match offset.map(From::parse).transpose()? {
        None => None,
        Some(From::After(offset)) => Some((offset.seq, offset.epoch)),
        Some(From::Beginning | From::Now) => {
            return Err(Problem::invalid("Stream-Fork-Offset must be a Stream-Next-Offset of the source"));
        }
    };
    let sub = sub.map(|sub| number(&FORK_SUB_OFFSET, sub, MAX_NUMBER)).transpose()?.unwrap_or(0);
    Ok(Some(NewFork { path: source_path(source)?, at, sub }))
}

/// Path of the source of a fork: that of its URL on this server.
fn source_path(text: &str) -> Result<StreamPath, Problem> {
    let refused = || Problem::invalid(format!("Stream-Forked-From is {text:?}: not the path of a stream's URL"));
    let rest = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)).ok_or_else(refused)?;
    let decoded = percent_decode_str(rest).decode_utf8().map_err(|_| refused())?;
    StreamPath::new(&decoded).map_err(|_| refused())
}

/// `Stream-Seq` of an append.
fn seq(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    text(headers, &SEQ)?.map(|seq| named(&SEQ, seq)).transpose()
}

fn named(name: &HeaderName, text: &str) -> Result<String, Problem> {
    if text.len() <= MAX_STREAM_NAME_BYTES {
        return Ok(text.to_owned());
    }
    Err(Problem::invalid(format!("{name} has {} bytes, but at most {MAX_STREAM_NAME_BYTES} are allowed", text.len())))
}

/// Producer of an append.
fn producer(headers: &HeaderMap) -> Result<Option<Producer>, Problem> {
    let fields = [&PRODUCER_ID, &PRODUCER_EPOCH, &PRODUCER_SEQ].map(|name| text(headers, name));
    let [id, epoch, seq] = fields;
    match (id?, epoch?, seq?) {
        (None, None, None) => Ok(None),
        (Some(""), Some(_), Some(_)) => Err(Problem::invalid("Producer-Id must not be empty")),
        (Some(id), Some(epoch), Some(seq)) => Ok(Some(Producer {
            id: named(&PRODUCER_ID, id)?,
            epoch: number(&PRODUCER_EPOCH, epoch, MAX_NUMBER)?,
            seq: number(&PRODUCER_SEQ, seq, MAX_NUMBER)?,
        })),
        _ => Err(Problem::invalid("a producer sends Producer-Id, Producer-Epoch and Producer-Seq together")),
    }
}

/// URL of a stream that was created, as the client has named it.
fn location(headers: &HeaderMap, uri: &Uri) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).or_else(|| uri.host());
    let scheme = headers.get("x-forwarded-proto").and_then(|scheme| scheme.to_str().ok());
    match host {
        // Behind a proxy that says nothing of the scheme, the client's own base completes a path.
        Some(host) => format!("{}://{host}{}", if scheme == Some("https") { "https" } else { "http" }, uri.path()),
        None => uri.path().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a value"))).collect()
    }

    #[test]
    fn a_life_has_one_form() {
        let ttl = |text: &str| life(&headers(&[("stream-ttl", text)])).ok();
        assert_eq!(ttl("3600"), Some(Some(Life::Idle(3_600))));
        for bad in ["", "+1", "01", "1.0", "1e3", "-1", "9999999999999999999", "1s"] {
            assert_eq!(ttl(bad), None, "{bad:?}");
        }
        let until = |text: &str| life(&headers(&[("stream-expires-at", text)])).ok();
        assert_eq!(until("1970-01-01T01:00:01+01:00"), Some(Some(Life::Until(1_000))));
        assert_eq!((until("tomorrow"), until("2026-01-01")), (None, None));
        assert!(life(&headers(&[("stream-ttl", "1"), ("stream-expires-at", "2030-01-01T00:00:00Z")])).is_err());
    }

    #[test]
    fn a_producer_is_complete_or_absent() {
        let of = |id: &str, epoch: &str, seq: &str| {
            producer(&headers(&[("producer-id", id), ("producer-epoch", epoch), ("producer-seq", seq)])).ok()
        };
        assert_eq!(of("p", "0", "7"), Some(Some(Producer { id: "p".to_owned(), epoch: 0, seq: 7 })));
        assert_eq!(producer(&HeaderMap::new()).ok(), Some(None));
        let long = "x".repeat(MAX_STREAM_NAME_BYTES + 1);
        for (id, epoch, seq) in
            [("", "0", "0"), ("p", "1abc", "0"), ("p", "0", "9007199254740992"), ("p", "-1", "0"), (&*long, "0", "0")]
        {
            assert_eq!(of(id, epoch, seq), None, "{id:?} {epoch:?} {seq:?}");
        }
        assert!(producer(&headers(&[("producer-id", "p"), ("producer-seq", "0")])).is_err());
    }

    #[test]
    fn the_source_of_a_fork_is_a_path_of_this_server() {
        let from = |text: &str| fork(&headers(&[("stream-forked-from", text)])).ok().flatten().map(|fork| fork.path);
        for text in ["/streams/v1/stream/a/b%20c", "/v1/stream/a/b%20c"] {
            assert_eq!(from(text).as_ref().map(StreamPath::as_str), Some("a/b c"), "{text}");
        }
        for bad in ["a", "/streams/v1/stream/", "/v1/stream/threads/t", "/v1/stream/a%FF", "https://x/v1/stream/a"] {
            assert_eq!(from(bad), None, "{bad:?}");
        }
        assert!(fork(&headers(&[("stream-fork-sub-offset", "0")])).is_err());
    }
}
