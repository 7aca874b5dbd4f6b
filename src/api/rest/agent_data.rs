//! What the REST routes of agent data share.

use axum::extract::Request;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, de::Error as _};
use threadline_core::{Principal, limits::MAX_AGENT_DATA_BYTES};
use threadline_http::{extract::parse_json, problem::Problem};

use crate::api::ApiState;

/// Problem of a part of a request that is refused.
pub(super) fn invalid(error: impl std::fmt::Display) -> Problem {
    Problem::invalid(error.to_string())
}

/// Reads a body of agent data.
pub(super) async fn body<T: DeserializeOwned + Default>(
    state: &ApiState,
    principal: &Principal,
    request: Request,
) -> Result<T, Problem> {
    let body = state.http.body(request, MAX_AGENT_DATA_BYTES).await?;
    state.service.queue.process(principal, body.len(), || parse_json(&body)).await?
}

/// Bytes, in Base64 on the wire.
#[derive(Debug, Default)]
pub struct Bytes64(pub Vec<u8>);

impl<'de> Deserialize<'de> for Bytes64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let refused = |error| D::Error::custom(format_args!("data is not Base64 with padding: {error}"));
        BASE64_STANDARD.decode(text.as_bytes()).map(Self).map_err(refused)
    }
}

impl Serialize for Bytes64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}
