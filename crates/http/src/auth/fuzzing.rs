//! Fuzz targets for the code that reads credentials: see `crate::fuzzing`.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use serde_json::Value;
use std::time::Duration;
use threadline_core::{ProjectSettings, Scopes, Timestamp, limits::TOKEN_LEEWAY};

use super::tokens::{self, ScopeRule, ScopeWords, TokenTime};

const SECRET: &[u8] = b"a secret of the fuzzer";
const NOW: Timestamp = Timestamp(1_795_255_875_120);
const RULE: ScopeRule<'_> = ScopeRule { default: Scopes::USER, words: ScopeWords::Ours };
const TIME: TokenTime = TokenTime { now: NOW, leeway: TOKEN_LEEWAY, longest: Duration::MAX };

/// A token is accepted only if it is signed, names Threadline's audience and has not expired; its scopes are never more
/// than a user's.
pub fn tokens(data: &[u8]) {
    let key = DecodingKey::from_secret(SECRET);
    let check = |token: &str| {
        let _ = tokens::is_token(token);
        if tokens::look(token).is_err() {
            return;
        }
        if let Ok(found) = tokens::verify(token, &key, Algorithm::HS256, tokens::AUDIENCE, RULE, TIME) {
            assert!(found.expires_at > NOW && Scopes::TOKEN.contains_all(found.scopes));
        }
    };
    if let Ok(text) = std::str::from_utf8(data) {
        check(text);
    }
    let Ok(claims) = serde_json::from_slice::<Value>(data) else { return };
    let Ok(token) = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(SECRET))
    else {
        return;
    };
    check(&token);
    let verified = tokens::verify(&token, &key, Algorithm::HS256, tokens::AUDIENCE, RULE, TIME);
    let ends =
        claims["exp"].as_f64().is_some_and(|end| end * 1_000.0 + TOKEN_LEEWAY.as_millis() as f64 > NOW.0 as f64 - 1.0);
    assert!(verified.is_err() || (ends && claims["sub"].is_string() && claims.get("aud").is_some()), "{claims}");
    // Settings survive a round trip through their JSON.
    if let Ok(settings) = serde_json::from_value::<ProjectSettings>(claims) {
        let text = serde_json::to_string(&settings).unwrap_or_default();
        assert_eq!(serde_json::from_str::<ProjectSettings>(&text).ok(), Some(settings));
    }
}
