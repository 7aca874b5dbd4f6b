//! Public keys of token issuers: JWK Sets (RFC 7517), fetched when needed and cached.

use std::{sync::Arc, time::Duration};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, JwkSet, KeyAlgorithm, PublicKeyUse},
};
use moka::sync::Cache;
use reqwest::Method;
use threadline_core::limits::{JWKS_BYTES, JWKS_FRESH, JWKS_MISS_PAUSE, JWKS_TIMEOUT, MAX_ISSUERS};
use tokio::{
    sync::Mutex,
    time::{self, Instant},
};

use super::AuthError;
use crate::egress::EgressClient;

/// A key, and the one algorithm it is for.
#[derive(Clone)]
struct IssuerKey {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

#[derive(Default)]
struct CachedKeys {
    keys: Vec<IssuerKey>,
    /// Time of the last fetch, or of the last attempt.
    tried: Option<Instant>,
}

/// The keys of all issuers. Cheap to clone.
#[derive(Clone)]
pub(super) struct Issuers {
    outbound: EgressClient,
    sets: Cache<String, Arc<Mutex<CachedKeys>>>,
}

impl Issuers {
    /// Starts with an empty cache. `outbound` decides which addresses may be requested.
    pub(super) fn new(outbound: EgressClient) -> Self {
        Self { outbound, sets: Cache::new(MAX_ISSUERS) }
    }

    /// Looks up an issuer's key: the one with this id or, if the token names none, the only one for this algorithm.
    pub(super) async fn key(
        &self,
        url: &str,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, AuthError> {
        let set = self.sets.get_with_by_ref(url, Arc::default);
        // One request at a time for each issuer; concurrent callers wait for its answer.
        let mut known = set.lock().await;
        let age = known.tried.map_or(Duration::MAX, |tried| tried.elapsed());
        let mut found = pick(&known.keys, id, algorithm);
        // A missing key may be new, but an untrusted client must not cause one request per token it invents.
        if age > JWKS_FRESH || (found.is_none() && age > JWKS_MISS_PAUSE) {
            known.tried = Some(Instant::now());
            match time::timeout(JWKS_TIMEOUT, self.fetch(url)).await {
                Ok(Ok(keys)) => known.keys = keys,
                // The cached keys stay in use: an issuer that is unavailable must not lock out its users.
                Ok(Err(reason)) => tracing::warn!(url, reason, "cannot fetch the keys of an issuer"),
                Err(_) => tracing::warn!(url, "timeout while fetching the keys of an issuer"),
            }
            found = pick(&known.keys, id, algorithm);
        }
        if known.keys.is_empty() {
            return Err(AuthError::NoIssuer);
        }
        found.ok_or(AuthError::WrongToken("its issuer has no key with its kid"))
    }

    async fn fetch(&self, url: &str) -> Result<Vec<IssuerKey>, String> {
        let text = |error: reqwest::Error| error.without_url().to_string();
        let request = self.outbound.request(Method::GET, url).map_err(|refused| refused.to_string())?;
        let mut response = request.send().await.and_then(|it| it.error_for_status()).map_err(text)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(text)? {
            if body.len() + chunk.len() > JWKS_BYTES {
                return Err(format!("the response exceeds {JWKS_BYTES} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        read(&body)
    }
}

fn pick(keys: &[IssuerKey], id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
    let mut fitting = keys.iter().filter(|key| key.algorithm == algorithm);
    match id {
        Some(id) => fitting.find(|key| key.id.as_deref() == Some(id)),
        None => fitting.next().filter(|_| fitting.next().is_none()),
    }
    .map(|key| key.key.clone())
}

/// Parses a JWK Set. Keys that cannot be used are skipped, as RFC 7517 requires (section 5).
fn read(body: &[u8]) -> Result<Vec<IssuerKey>, String> {
    let set: JwkSet =
        serde_json::from_slice(body).map_err(|error| format!("the response is not a JWK Set: {error}"))?;
    let usable = set.keys.into_iter().filter_map(|jwk| {
        let common = &jwk.common;
        if common.public_key_use.as_ref().is_some_and(|used| *used != PublicKeyUse::Signature) {
            return None;
        }
        let algorithm = match (&jwk.algorithm, &common.key_algorithm) {
            (AlgorithmParameters::RSA(_), None | Some(KeyAlgorithm::RS256)) => Algorithm::RS256,
            (AlgorithmParameters::EllipticCurve(curve), None | Some(KeyAlgorithm::ES256))
                if curve.curve == EllipticCurve::P256 =>
            {
                Algorithm::ES256
            }
            _ => return None,
        };
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        Some(IssuerKey { id: common.key_id.clone(), algorithm, key })
    });
    Ok(usable.collect())
}
