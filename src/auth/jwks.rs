//! The public keys of issuers of tokens: JWK Sets (RFC 7517), fetched when needed and kept for a while.

use std::{sync::Arc, time::Duration};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, JwkSet, KeyAlgorithm, PublicKeyUse},
};
use moka::sync::Cache;
use reqwest::Method;
use tokio::{
    sync::Mutex,
    time::{self, Instant},
};

use super::AuthError;
use crate::{
    domain::limits::{JWKS_BYTES, JWKS_FRESH, JWKS_MISS_PAUSE, JWKS_TIMEOUT, MAX_ISSUERS},
    egress::Outbound,
};

/// A key, and the one algorithm it is for.
#[derive(Clone)]
struct IssuerKey {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

#[derive(Default)]
struct Known {
    keys: Vec<IssuerKey>,
    /// When they were fetched, or last tried to be.
    tried: Option<Instant>,
}

/// The keys of all issuers. Cheap to clone.
#[derive(Clone)]
pub(super) struct Issuers {
    outbound: Outbound,
    sets: Cache<String, Arc<Mutex<Known>>>,
}

impl Issuers {
    /// Nothing known yet. `outbound` decides what addresses may be asked.
    pub(super) fn new(outbound: Outbound) -> Self {
        Self { outbound, sets: Cache::new(MAX_ISSUERS) }
    }

    /// The key with which an issuer has signed: of this id, or, where a token names none, its only one of this algorithm.
    pub(super) async fn key(
        &self,
        url: &str,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, AuthError> {
        let set = self.sets.get_with_by_ref(url, Arc::default);
        // One request at a time for each issuer; the others wait for its answer.
        let mut known = set.lock().await;
        let age = known.tried.map_or(Duration::MAX, |tried| tried.elapsed());
        let mut found = pick(&known.keys, id, algorithm);
        // A key that is not there may be new, but strangers must not make us ask for each of theirs.
        if age > JWKS_FRESH || (found.is_none() && age > JWKS_MISS_PAUSE) {
            known.tried = Some(Instant::now());
            match time::timeout(JWKS_TIMEOUT, self.fetch(url)).await {
                Ok(Ok(keys)) => known.keys = keys,
                // What was known goes on being so: an issuer that is away must not lock everybody out.
                Ok(Err(reason)) => tracing::warn!(url, reason, "the keys of an issuer cannot be fetched"),
                Err(_) => tracing::warn!(url, "the keys of an issuer did not come in time"),
            }
            found = pick(&known.keys, id, algorithm);
        }
        if known.keys.is_empty() {
            return Err(AuthError::NoIssuer);
        }
        found.ok_or(AuthError::WrongToken("its issuer has no such key"))
    }

    async fn fetch(&self, url: &str) -> Result<Vec<IssuerKey>, String> {
        let text = |error: reqwest::Error| error.without_url().to_string();
        let request = self.outbound.request(Method::GET, url).map_err(|refused| refused.to_string())?;
        let mut response = request.send().await.and_then(|it| it.error_for_status()).map_err(text)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(text)? {
            if body.len() + chunk.len() > JWKS_BYTES {
                return Err(format!("they have more than {JWKS_BYTES} bytes"));
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

/// The keys that can be used, of a JWK Set. The others are left out, as RFC 7517 asks (section 5).
fn read(body: &[u8]) -> Result<Vec<IssuerKey>, String> {
    let set: JwkSet = serde_json::from_slice(body).map_err(|error| format!("they are not a JWK Set: {error}"))?;
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
