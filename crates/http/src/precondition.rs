//! Condition of a write: the epoch that the thread's log must have, from the query or from `If-Match`.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, Uri, header, request::Parts},
};
use threadline_core::Epoch;
use utoipa::{
    IntoParams,
    openapi::{
        ObjectBuilder,
        path::{Parameter, ParameterIn},
    },
};

use crate::{
    parameters::{optional, pairs},
    problem::Problem,
};

/// Name of the query parameter.
const EPOCH: &str = "epoch";

/// Epoch that the thread's log must have for this write; `None` if the request names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precondition(pub Option<Epoch>);

impl<S: Send + Sync> FromRequestParts<S> for Precondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(&parts.uri, &parts.headers)
    }
}

impl Precondition {
    fn of(uri: &Uri, headers: &HeaderMap) -> Result<Self, Problem> {
        match (in_query(uri)?, in_header(headers)?) {
            (Some(query), Some(header)) if query != header => {
                let detail = format!("epoch is {query}, but If-Match names {header}: send one of them");
                Err(Problem::invalid(detail))
            }
            (query, header) => Ok(Self(query.or(header))),
        }
    }
}

fn in_query(uri: &Uri) -> Result<Option<Epoch>, Problem> {
    let pairs = pairs(uri).ok_or_else(|| Problem::invalid("the query string is malformed"))?;
    let mut named = pairs.iter().filter(|(name, _)| name == EPOCH).map(|(_, value)| value);
    let (Some(text), others) = (named.next(), named.count()) else { return Ok(None) };
    let epoch = Epoch::parse(text).filter(|_| others == 0);
    let invalid = || Problem::invalid(format!("epoch is {text:?}: send the epoch of the thread once and unchanged"));
    epoch.map(Some).ok_or_else(invalid)
}

fn in_header(headers: &HeaderMap) -> Result<Option<Epoch>, Problem> {
    let mut lines = headers.get_all(header::IF_MATCH).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    let text = String::from_utf8_lossy(line.as_bytes());
    let quoted = text.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let epoch = quoted.and_then(Epoch::parse).filter(|_| lines.next().is_none());
    let invalid = || Problem::invalid(format!("If-Match is {text}: send the epoch of the thread, once and in quotes"));
    epoch.map(Some).ok_or_else(invalid)
}

impl IntoParams for Precondition {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let text = ObjectBuilder::new;
        vec![
            optional(
                EPOCH,
                ParameterIn::Query,
                "The epoch that the log must have: else 410, and nothing is written.",
                text(),
            ),
            optional("If-Match", ParameterIn::Header, "`\"<epoch>\"`: the same as `epoch`.", text()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_one_epoch_wherever_it_stands() {
        let (one, other) = (Epoch::generate(), Epoch::generate());
        let read = |query: &str, lines: &[String]| {
            let uri = format!("/v1/threads/t?{query}").parse().expect("a URI");
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::IF_MATCH, line.parse().expect("a value"));
            }
            Precondition::of(&uri, &headers).map(|precondition| precondition.0).map_err(|problem| problem.detail)
        };
        let tag = |epoch: Epoch| format!("\"{epoch}\"");
        assert_eq!(read("", &[]), Ok(None));
        assert_eq!(read(&format!("a=1&epoch={one}"), &[]), Ok(Some(one)));
        assert_eq!(read("", &[tag(one)]), Ok(Some(one)));
        assert_eq!(read(&format!("epoch={one}"), &[format!(" {} ", tag(one))]), Ok(Some(one)));
        assert!(read(&format!("epoch={one}"), &[tag(other)]).is_err());
        let twice = format!("epoch={one}&epoch={one}");
        for bad in ["epoch=", "epoch=1", "epoch=zzzzzzzzzzzzzzzz", twice.as_str()] {
            assert!(read(bad, &[]).is_err_and(|detail| detail.starts_with("epoch is ")), "{bad}");
        }
        let bad = [one.to_string(), format!("W/{}", tag(one)), "*".into(), String::new(), format!("\"{one}-7\"")];
        for bad in bad {
            assert!(read("", std::slice::from_ref(&bad)).is_err_and(|detail| detail.starts_with("If-Match")), "{bad}");
        }
        assert!(read("", &[tag(one), tag(one)]).is_err());
        assert!(read("", &[format!("{}, {}", tag(one), tag(other))]).is_err());
    }
}
