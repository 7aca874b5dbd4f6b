//! Tokens of end users: JSON Web Tokens (RFC 7519), verified by the best practices of RFC 8725.
//!
//! A token is signed either with its project's own secret (HS256), `iss` being the project, or by an issuer that the
//! project names in its settings (RS256, ES256). The lookup by `iss` and `aud`, before any verification, selects one of
//! the two and with it the algorithm: the algorithm in the token must agree.

use std::{collections::BTreeMap, fmt, time::Duration};

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::Value;
use threadline_core::{
    Born, FeedCursor, KeyId, ProjectId, Scopes, Timestamp, UserId,
    limits::{ISSUED_AHEAD, MAX_TOKEN_BYTES},
};

use super::AuthError;

/// `aud` of tokens that are signed with a project's secret.
pub const AUDIENCE: &str = "threadline";

/// Bytes of an unknown scope that its refusal repeats, at most.
const SCOPE_WORD_BYTES: usize = 64;

/// `aud` of tokens that allow their bearer to follow a user's feed, and nothing else.
pub(super) const FEED_AUDIENCE: &str = "threadline-feed";

/// Content of a token to be signed.
pub(super) struct NewToken<'a> {
    pub(super) audience: &'a str,
    pub(super) project: &'a ProjectId,
    pub(super) user: &'a UserId,
    pub(super) scopes: Scopes,
    pub(super) issued_at: Option<Timestamp>,
    pub(super) until: Timestamp,
    pub(super) born: Born,
    pub(super) feed: Option<FeedCursor>,
    /// Maker of the token: see [`Maker`].
    pub(super) by: Option<&'a str>,
}

/// Credential that made a token, as the claim `by` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Maker {
    /// `key:<id>`: an API key of the project.
    Key(KeyId),
    /// `op:<16 hex digits>`: the operator's key of this mark.
    Operator(String),
}

impl Maker {
    /// Maker that a claim names.
    pub(super) fn parse(claim: &str) -> Option<Self> {
        let (kind, name) = claim.split_once(':')?;
        match kind {
            "key" => KeyId::new(name).ok().map(Self::Key),
            "op" => Some(Self::Operator(name.to_owned())),
            _ => None,
        }
    }

    /// The key, if the maker is one.
    pub(super) fn key(self) -> Option<KeyId> {
        match self {
            Self::Key(id) => Some(id),
            Self::Operator(_) => None,
        }
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "key:{id}"),
            Self::Operator(mark) => write!(f, "op:{mark}"),
        }
    }
}

/// Content of a token whose signature has not been verified.
#[derive(Debug, Deserialize)]
pub(super) struct Unverified {
    #[serde(skip)]
    pub(super) algorithm: Algorithm,
    #[serde(skip)]
    pub(super) key_id: Option<String>,
    pub(super) iss: Option<String>,
    #[serde(default)]
    pub(super) aud: Audiences,
}

/// Claim `aud`: one audience or several.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "OneOrMany")]
pub(super) struct Audiences(pub(super) Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Audiences {
    fn from(found: OneOrMany) -> Self {
        match found {
            OneOrMany::One(one) => Self(vec![one]),
            OneOrMany::Many(many) => Self(many),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Claims {
    sub: Option<String>,
    exp: Option<f64>,
    nbf: Option<f64>,
    iat: Option<f64>,
    scope: Option<Value>,
    scopes: Option<IgnoredAny>,
    scp: Option<Value>,
    feed: Option<FeedCursor>,
    by: Option<Value>,
    dev: Option<Value>,
}

#[derive(Serialize)]
struct NewClaims<'a> {
    iss: &'a str,
    aud: &'a str,
    sub: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    iat: Option<f64>,
    exp: i64,
    scope: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    feed: Option<FeedCursor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dev: Option<bool>,
}

/// Content of a verified token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verified {
    pub(super) user: UserId,
    pub(super) scopes: Scopes,
    pub(super) expires_at: Timestamp,
    /// Time of issue; `None` if the token does not tell.
    pub(super) issued_at: Option<Timestamp>,
    /// Position from which the feed is followed; only in a feed's token.
    pub(super) feed: Option<FeedCursor>,
    /// Maker of the token; `None` if it names none, and always in an external issuer's token.
    pub(super) by: Option<Maker>,
    /// Mode of the server that made the token; of an external issuer's token always the default.
    pub(super) born: Born,
}

/// True if a secret has the form of a token.
pub(super) fn is_token(text: &str) -> bool {
    text.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// Decodes the parts of a token that decide how it is verified.
pub(super) fn look(token: &str) -> Result<Unverified, AuthError> {
    let not_one = AuthError::WrongToken("it is not a JSON Web Token");
    if token.len() > MAX_TOKEN_BYTES {
        return Err(AuthError::WrongToken("it is too long"));
    }
    let Ok(header) = jsonwebtoken::decode_header(token) else { return Err(not_one) };
    // Extensions that a reader must understand (RFC 7515, section 4.1.11) are not supported.
    if header.crit.as_ref().is_some_and(|crit| !crit.is_empty()) {
        return Err(AuthError::WrongToken("it requires unsupported extensions (crit)"));
    }
    let Ok(mut found) = jsonwebtoken::dangerous::insecure_decode_claims::<Unverified>(token) else {
        return Err(not_one);
    };
    (found.algorithm, found.key_id) = (header.alg, header.kid);
    Ok(found)
}

/// Refusal after which another secret of the project may still verify the token.
pub(super) const NOT_SIGNED: &str = "its signature, algorithm or audience is invalid";
/// Refusal of a token that a server in development mode made.
pub(super) const BORN_IN_DEVELOPMENT: &str =
    "it was created in development mode, where every caller can create tokens: create it on this server";
const ISSUED_LATER: &str = "its iat is in the future: set the clock of its issuer";
const NO_MAKER: &str = "its claim `by` names no key";
/// Refusal of a token whose maker is no longer valid.
pub(super) const MAKER_OVER: &str = "the key that created it was revoked or has expired";
/// Refusal of a token that was issued before a sign-out.
pub(super) const SIGNED_OUT: &str = "its user was signed out after it was issued";
const SCOPE_NOT_TEXT: &str = "its `scope` is not a string: name the scopes in one string, separated by spaces";
const NOT_MAPPED: &str = "the settings of the project (issuer.scopes) map none of its scopes";
const SCOPES_ELSEWHERE: &str = "it has a claim `scopes` or `scp`: name the scopes in `scope`, separated by spaces";

/// Meaning of the claim `scope` in the tokens of a project.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScopeRule<'a> {
    /// Scopes of a token that names none.
    pub(super) default: Scopes,
    pub(super) words: ScopeWords<'a>,
}

/// Origin of the words in the claim `scope`.
#[derive(Debug, Clone, Copy)]
pub(super) enum ScopeWords<'a> {
    /// Threadline's: the project's secret signed them, so each must be a scope that a user can have.
    Ours,
    /// An external issuer's. Only words that the project maps to scopes count; without a mapping none does.
    Foreign(Option<&'a BTreeMap<String, Scopes>>),
}

/// Time by which a token is judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenTime {
    /// The store's time.
    pub(super) now: Timestamp,
    /// Largest difference between the clock of the token's issuer and the store's.
    pub(super) leeway: Duration,
    /// Longest life of a token.
    pub(super) longest: Duration,
}

/// Verifies signature, algorithm, audience, times and scopes.
pub(super) fn verify(
    token: &str,
    key: &DecodingKey,
    algorithm: Algorithm,
    audience: &str,
    rule: ScopeRule<'_>,
    time: TokenTime,
) -> Result<Verified, AuthError> {
    let mut rules = Validation::new(algorithm);
    // Times are compared below, with the store's clock.
    (rules.validate_exp, rules.validate_nbf) = (false, false);
    rules.set_required_spec_claims(&["aud"]);
    rules.set_audience(&[audience]);
    let claims =
        jsonwebtoken::decode::<Claims>(token, key, &rules).map_err(|_| AuthError::WrongToken(NOT_SIGNED))?.claims;
    // The nearest millisecond: most fractions of a second have no exact binary form.
    let moment = |seconds: f64| Timestamp((seconds * 1_000.0).round() as i64);
    let expires_at = moment(claims.exp.ok_or(AuthError::WrongToken("it has no exp claim"))?);
    let issued_at = claims.iat.map(moment);
    // A token from the future would outlive a sign-out.
    if issued_at.is_some_and(|at| at > time.now.plus(ISSUED_AHEAD)) {
        return Err(AuthError::WrongToken(ISSUED_LATER));
    }
    let longest_end = issued_at.unwrap_or(time.now.plus(time.leeway)).plus(time.longest);
    if expires_at > longest_end {
        return Err(AuthError::LongToken(time.longest.as_secs()));
    }
    let expires_at = expires_at.plus(time.leeway);
    if time.now >= expires_at {
        return Err(AuthError::WrongToken("it has expired"));
    }
    if claims.nbf.is_some_and(|from| moment(from).minus(time.leeway) > time.now) {
        return Err(AuthError::WrongToken("it is not valid yet"));
    }
    let user = claims.sub.and_then(|sub| UserId::new(sub).ok());
    let user = user.ok_or(AuthError::WrongToken("its sub is not a user ID"))?;
    // Claims that were meant to narrow the token must not be ignored.
    if matches!(rule.words, ScopeWords::Ours) && (claims.scopes.is_some() || claims.scp.is_some()) {
        return Err(AuthError::WrongToken(SCOPES_ELSEWHERE));
    }
    let scopes = match (claims.scope, rule.words) {
        (None, ScopeWords::Ours) | (_, ScopeWords::Foreign(None)) => rule.default,
        (Some(Value::String(named)), ScopeWords::Ours) => user_scopes(&named)?,
        (Some(_), ScopeWords::Ours) => return Err(AuthError::WrongToken(SCOPE_NOT_TEXT)),
        (named, ScopeWords::Foreign(Some(mapped))) => {
            let words = scope_words(named.or(claims.scp).unwrap_or_default());
            let granted = words.split_ascii_whitespace().filter_map(|word| mapped.get(word));
            let granted = granted.fold(Scopes::default(), |all, scopes| all.or(*scopes));
            if granted.is_empty() {
                return Err(AuthError::WrongToken(NOT_MAPPED));
            }
            granted
        }
    };
    // The claim of an external issuer may mean anything.
    let tried = matches!(rule.words, ScopeWords::Ours) && claims.dev == Some(Value::Bool(true));
    let born = if tried { Born::Development } else { Born::Authenticated };
    let by = match (claims.by, rule.words) {
        (Some(Value::String(by)), ScopeWords::Ours) => Some(Maker::parse(&by).ok_or(AuthError::WrongToken(NO_MAKER))?),
        (Some(_), ScopeWords::Ours) => return Err(AuthError::WrongToken(NO_MAKER)),
        _ => None,
    };
    Ok(Verified { user, scopes, expires_at, issued_at, feed: claims.feed, by, born })
}

/// The claim `scope` of an external issuer as one text: most write a string (RFC 8693, section 4.2), some an array.
fn scope_words(claim: Value) -> String {
    match claim {
        Value::String(words) => words,
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}

/// Parses scope names. A misspelt name, or none at all, is refused: it must not grant every scope.
fn user_scopes(names: &str) -> Result<Scopes, AuthError> {
    let beginning = |word: &str| word[..word.floor_char_boundary(SCOPE_WORD_BYTES)].to_owned();
    let scopes = Scopes::parse(names).map_err(|word| AuthError::WrongScope(Some(beginning(word))))?;
    if let Some(scope) = scopes.first_beyond(Scopes::TOKEN) {
        return Err(AuthError::WrongScope(Some(scope.to_string())));
    }
    if scopes.is_empty() { Err(AuthError::WrongScope(None)) } else { Ok(scopes) }
}

/// Signs a token with the project's secret.
pub(super) fn sign(secret: &str, new: &NewToken<'_>) -> Result<String, AuthError> {
    let scope = new.scopes.to_string();
    let claims = NewClaims {
        iss: new.project.as_str(),
        aud: new.audience,
        sub: new.user.as_str(),
        // Milliseconds distinguish the token from one that was issued before a sign-out in the same second.
        iat: new.issued_at.map(|at| at.0 as f64 / 1_000.0),
        exp: new.until.0.div_euclid(1_000),
        scope: &scope,
        feed: new.feed,
        by: new.by,
        dev: (new.born == Born::Development).then_some(true),
    };
    let key = EncodingKey::from_secret(secret.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)
        .map_err(|error| AuthError::Invalid(format!("cannot create the token: {error}")))
}
