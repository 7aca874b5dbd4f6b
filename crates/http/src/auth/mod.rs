//! Authentication: an API key, an end user's token, or a socket ticket; in development mode, no credential at all.

mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod joins;
mod jwks;
mod key_memory;
mod keys;
mod problem;
mod projects;
mod refusals;
pub mod secret;
pub(crate) mod standing;
mod tickets;
pub mod tokens;
pub mod watch;

use std::{net::IpAddr, sync::Arc, time::Duration};

use jsonwebtoken::{Algorithm, DecodingKey};
use subtle::ConstantTimeEq;

pub use error::AuthError;
pub(crate) use error::within;
pub use joins::{FeedPass, ThreadPass};
pub use keys::{Made, NewKey, NewToken, RevokedKey};
use projects::IssuedBy;
pub use projects::{ChangedProject, Project, Projects};
pub use tickets::Ticket;

use jwks::Issuers;
use key_memory::KeyMemory;
use secret::{KEY_PREFIX, digest};
use threadline_core::{
    ApiKey, Born, Credential, DEFAULT_PROJECT, Digest, Principal, ProjectId, Scopes, Timestamp, UserId,
    limits::{CREDENTIAL_CHECK, TOKEN_LEEWAY},
};
use threadline_engine::{
    Removals, Service,
    credentials::{Cutoffs, Trail},
};
use threadline_store::{DynStore, StoreClock};
use tokens::{ScopeRule, ScopeWords, TokenTime};

use crate::egress::EgressClient;

/// User in development mode if the request names none.
pub const DEVELOPMENT_USER: &str = "dev";

/// Credentials and names that a request carries.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown<'a> {
    /// API key or token.
    pub secret: Option<&'a str>,
    pub ticket: Option<&'a str>,
    /// User id from the header Threadline-User.
    pub user: Option<&'a str>,
    /// Project id from the header Threadline-Project.
    pub project: Option<&'a str>,
    /// Address of the caller; `None` if it is not known.
    pub address: Option<IpAddr>,
}

/// Authenticates requests. Cheap to clone.
#[derive(Clone)]
pub struct Auth {
    shared: Arc<Shared>,
    issuers: Issuers,
    /// Interval between two checks of whether a credential is still valid.
    check: Duration,
    /// Largest difference between the clocks of token issuers and the store's.
    leeway: Duration,
}

struct Shared {
    /// Digest of the operator's key; without one, every client that reaches this server (on loopback only) is
    /// authenticated.
    operator: Option<Digest>,
    store: DynStore,
    clock: StoreClock,
    keys: KeyMemory,
    projects: Projects,
    removals: Arc<Removals>,
    cutoffs: Arc<Cutoffs>,
    trail: Arc<Trail>,
}

impl Auth {
    /// Starts with the operator's key, if there is one. `outbound` fetches the keys of issuers, and decides at which
    /// addresses they may be. The service over the same store knows the sign-outs, and repeats removals.
    pub fn new(operator_key: Option<&str>, store: DynStore, outbound: EgressClient, service: &Service) -> Self {
        let removals = service.removals().clone();
        let shared = Shared {
            operator: operator_key.map(digest),
            projects: Projects::new(store.clone(), removals.clone()),
            keys: KeyMemory::new(store.clone()),
            store,
            clock: service.clock().clone(),
            removals,
            cutoffs: service.cutoffs().clone(),
            trail: service.trail().clone(),
        };
        Self {
            shared: Arc::new(shared),
            issuers: Issuers::new(outbound),
            check: CREDENTIAL_CHECK,
            leeway: TOKEN_LEEWAY,
        }
    }

    /// Replaces [`CREDENTIAL_CHECK`], the interval between two checks of the credentials of sockets and streams.
    pub fn with_check(self, check: Duration) -> Self {
        Self { check, ..self }
    }

    /// Expiry of a token that a principal receives: that of its own credential, without the leeway, which the new token gets
    /// again.
    fn expiry(&self, principal: &Principal) -> Option<Timestamp> {
        let leeway = match principal.credential {
            Credential::Token { .. } => self.leeway,
            Credential::Development | Credential::Operator | Credential::Key { .. } | Credential::Lent { .. } => {
                Duration::ZERO
            }
        };
        principal.expires_at().map(|until| until.minus(leeway))
    }

    /// Replaces [`TOKEN_LEEWAY`].
    pub fn with_leeway(self, leeway: Duration) -> Self {
        Self { leeway, ..self }
    }

    /// Time by which a token of a project with this longest life is judged now.
    fn token_time(&self, longest: Duration) -> TokenTime {
        TokenTime { now: self.shared.clock.now(), leeway: self.leeway, longest }
    }

    /// True if requests without a credential are authenticated.
    pub fn is_development(&self) -> bool {
        self.shared.operator.is_none()
    }

    /// Mode of this server, which its keys and tokens carry.
    fn born(&self) -> Born {
        if self.is_development() { Born::Development } else { Born::Authenticated }
    }

    /// True if this server accepts keys and tokens that a server in this mode made.
    fn accepts(&self, born: Born) -> bool {
        born == Born::Authenticated || self.is_development()
    }

    pub fn projects(&self) -> &Projects {
        &self.shared.projects
    }

    /// Authenticates a request by its credential.
    pub async fn authenticate(&self, shown: Shown<'_>) -> Result<Principal, AuthError> {
        let principal = self.identify(shown).await?;
        // The limits of the project must be known. If the store is unavailable, the last known limits apply.
        self.shared.projects.look().await;
        Ok(principal)
    }

    async fn identify(&self, shown: Shown<'_>) -> Result<Principal, AuthError> {
        let user = shown.user.map(UserId::new).transpose().map_err(AuthError::BadUser)?;
        let project = shown.project.map(ProjectId::new).transpose().map_err(AuthError::BadProject)?;
        if let Some(ticket) = shown.ticket {
            return tickets::redeem(self, ticket).await;
        }
        match shown.secret {
            Some(secret) if self.is_operator(secret) => self.as_operator(Credential::Operator, project, user).await,
            Some(secret) if secret.starts_with(KEY_PREFIX) => {
                let principal = self.by_key(secret, project, user).await?;
                if let Some(key) = principal.key() {
                    self.shared.trail.used(&principal.project, key, shown.address);
                }
                Ok(principal)
            }
            Some(token) if tokens::is_token(token) => self.by_token(token, project, user).await,
            // Clients are often written with some key in them; in development mode any key is accepted.
            _ if self.is_development() => {
                let user = user.map_or_else(|| UserId::new(DEVELOPMENT_USER), Ok).map_err(AuthError::BadUser)?;
                self.as_operator(Credential::Development, project, Some(user)).await
            }
            Some(_) => Err(AuthError::WrongKey),
            None => Err(AuthError::Missing),
        }
    }

    fn is_operator(&self, secret: &str) -> bool {
        self.shared.operator.is_some_and(|operator| digest(secret).0.ct_eq(&operator.0).into())
    }

    async fn as_operator(
        &self,
        credential: Credential,
        project: Option<ProjectId>,
        user: Option<UserId>,
    ) -> Result<Principal, AuthError> {
        let project = match project {
            Some(project) if project.as_str() == DEFAULT_PROJECT => project,
            Some(project) => {
                self.shared.projects.get(&project).await?.map(|found| found.id).ok_or(AuthError::NoProject)?
            }
            None => ProjectId::new(DEFAULT_PROJECT).map_err(AuthError::BadProject)?,
        };
        Ok(Principal { project, user, scopes: Scopes::ALL, credential, ticket: None })
    }

    async fn by_key(
        &self,
        secret: &str,
        project: Option<ProjectId>,
        user: Option<UserId>,
    ) -> Result<Principal, AuthError> {
        let digest = digest(secret);
        let key = self.valid_key(&digest).await?.ok_or(AuthError::WrongKey)?;
        if !self.accepts(key.born) {
            return Err(AuthError::BornInDevelopment);
        }
        if project.is_some_and(|project| project != key.project) {
            return Err(AuthError::OtherProject);
        }
        let credential = Credential::Key { id: key.id, digest, expires_at: key.expires_at };
        Ok(Principal { project: key.project, user, scopes: key.scopes, credential, ticket: None })
    }

    /// Looks up the key of this digest, if it is valid now.
    async fn valid_key(&self, digest: &Digest) -> Result<Option<ApiKey>, AuthError> {
        let found = self.shared.keys.by_digest(*digest).await?;
        let now = self.shared.clock.now();
        Ok(found.filter(|key| key.is_valid(now)))
    }

    async fn by_token(
        &self,
        token: &str,
        project: Option<ProjectId>,
        user: Option<UserId>,
    ) -> Result<Principal, AuthError> {
        let (owner, verified, signer) = self.verify(token).await?;
        if project.is_some_and(|project| project != owner) {
            return Err(AuthError::OtherProject);
        }
        if user.is_some_and(|user| user != verified.user) {
            return Err(AuthError::OtherUser);
        }
        self.bearer(owner, verified, signer).await
    }

    /// Verifies a token. Returns its project, its content, and which of the project's secrets has signed it.
    async fn verify(&self, token: &str) -> Result<(ProjectId, tokens::Verified, Option<Digest>), AuthError> {
        let said = tokens::look(token)?;
        let algorithm = said.algorithm;
        if let Some(issuer) = &said.iss
            && let Some(found) = self.shared.projects.of_issuer(issuer, &said.aud.0).await?
        {
            if !matches!(algorithm, Algorithm::RS256 | Algorithm::ES256) {
                return Err(AuthError::WrongToken("its algorithm is not RS256 or ES256"));
            }
            let IssuedBy { project, issuer, default_scopes: default, longest } = found;
            let key = self.issuers.key(&issuer.jwks_url, said.key_id.as_deref(), algorithm).await?;
            let rule = ScopeRule { default, words: ScopeWords::Foreign(issuer.scopes.as_ref()) };
            return tokens::verify(token, &key, algorithm, &issuer.audience, rule, self.token_time(longest))
                .map(|verified| (project, verified, None));
        }
        self.verify_ours(token, &said, tokens::AUDIENCE).await
    }

    /// Does the same for a token that a project's own secret must have signed.
    async fn verify_ours(
        &self,
        token: &str,
        said: &tokens::Unverified,
        audience: &str,
    ) -> Result<(ProjectId, tokens::Verified, Option<Digest>), AuthError> {
        let foreign = AuthError::WrongToken("no project has its issuer and audience");
        let project = ProjectId::new(said.iss.as_deref().unwrap_or(DEFAULT_PROJECT)).map_err(|_| foreign.clone())?;
        let Some(project) = self.shared.projects.get(&project).await? else { return Err(foreign) };
        if said.algorithm != Algorithm::HS256 {
            return Err(AuthError::WrongToken("its algorithm is not HS256"));
        }
        let time = self.token_time(project.settings.longest_token());
        let rule = ScopeRule { default: project.settings.default_scopes(), words: ScopeWords::Ours };
        let sound = |verified: tokens::Verified| {
            let accepted = self.accepts(verified.born);
            if accepted { Ok(verified) } else { Err(AuthError::WrongToken(tokens::BORN_IN_DEVELOPMENT)) }
        };
        let mut refused = AuthError::WrongToken("the project has no secret");
        let mut signed = |secrets: &[String]| {
            // The newest secret is tried first; the previous one stays valid until the next renewal.
            for secret in secrets {
                let key = DecodingKey::from_secret(secret.as_bytes());
                match tokens::verify(token, &key, Algorithm::HS256, audience, rule, time) {
                    Ok(verified) => return Ok(Some((sound(verified)?, digest(secret)))),
                    Err(error @ AuthError::WrongToken(tokens::NOT_SIGNED)) => refused = error,
                    // The token is signed with this secret, so another secret cannot change the refusal.
                    Err(error) => return Err(error),
                }
            }
            Ok(None)
        };
        let mut found = signed(&project.secrets)?;
        if found.is_none() {
            // Another node may have renewed the secret.
            let now = self.shared.projects.now(&project.id).await?;
            if let Some(now) = now.filter(|now| now.secrets != project.secrets) {
                found = signed(&now.secrets)?;
            }
        }
        let (verified, secret) = found.ok_or(refused)?;
        Ok((project.id, verified, Some(secret)))
    }

    /// Makes a ticket with which the principal opens one socket; it expires after a short time.
    pub async fn ticket(&self, principal: &Principal) -> Result<Ticket, AuthError> {
        tickets::issue(self, principal).await
    }
}
