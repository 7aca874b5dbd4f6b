//! Administration of a project: its keys, its settings, its audit.

use std::time::Duration;

use serde_json::json;
use threadline_core::{
    ApiKey, AuditEntry, KeyId, Principal, ProjectId, ProjectSettings, Retention, Scope, Scopes, UserId,
    limits::{
        MAX_KEY_LIFETIME, MAX_KEYS, MAX_PAGE, MAX_RETENTION_DAYS, MAX_TOKEN_LIFETIME, MAX_TRASH_DAYS, TOKEN_LIFETIME,
    },
};
use threadline_engine::Removal;

use super::{
    Auth, AuthError, ChangedProject, Project,
    projects::Missing,
    secret::{KEY_PREFIX, digest, generate},
    within,
};

/// Parameters of a new key.
#[derive(Debug, Default)]
pub struct NewKey {
    /// Name of the key in its project; generated if absent.
    pub id: Option<KeyId>,
    /// Scopes of the key; [`Scopes::BACKEND`] if absent.
    pub scopes: Option<Scopes>,
    /// Validity of the key; unlimited if absent.
    pub lifetime: Option<Duration>,
}

/// A token that was made for a user.
#[derive(Debug)]
pub struct NewToken {
    pub text: String,
    /// End of its validity.
    pub expires_at: threadline_core::Timestamp,
}

impl Auth {
    /// Makes a key of the principal's project. The text of the key is returned here and never again. A principal cannot
    /// grant scopes that it does not have.
    pub async fn create_key(&self, principal: &Principal, new: NewKey) -> Result<(ApiKey, String), AuthError> {
        let scopes = new.scopes.unwrap_or(Scopes::BACKEND.and(principal.scopes));
        within(scopes, principal.scopes)?;
        if scopes.is_empty() {
            let reason = format!("scopes must not be empty: the available scopes are {}", principal.scopes);
            return Err(AuthError::Invalid(reason));
        }
        if new.lifetime.is_some_and(|lifetime| lifetime.is_zero() || lifetime > MAX_KEY_LIFETIME) {
            return Err(AuthError::Invalid(format!(
                "expiresInSeconds must be from 1 to {}",
                MAX_KEY_LIFETIME.as_secs()
            )));
        }
        if self.shared.store.keys(&principal.project).await?.len() >= MAX_KEYS {
            return Err(AuthError::Invalid(format!(
                "the project has {MAX_KEYS} keys, revoked ones included, which is the maximum"
            )));
        }
        // The project must exist, so that its operator can find it and its users' tokens have a secret.
        self.shared.projects.ensured(&principal.project).await?;
        let text = generate(KEY_PREFIX)?;
        let now = self.shared.clock.now();
        let key = ApiKey {
            id: new.id.unwrap_or_else(KeyId::generate),
            project: principal.project.clone(),
            scopes,
            created_at: now,
            // A key that was made with another key must not outlive it.
            expires_at: new.lifetime.map(|lifetime| now.plus(lifetime)).into_iter().chain(principal.expires_at()).min(),
            revoked_at: None,
            born: self.born(),
        };
        let facts = json!({ "keyId": key.id.as_str(), "scopes": scopes.to_string() });
        let entry = AuditEntry::by(principal, &principal.project, now, "key.created", &facts);
        if !self.shared.store.put_key(&key, &digest(&text), Some(&entry)).await? {
            return Err(AuthError::KeyExists);
        }
        Ok((key, text))
    }

    /// Lists all keys of the principal's project, without their texts.
    pub async fn keys(&self, principal: &Principal) -> Result<Vec<ApiKey>, AuthError> {
        Ok(self.shared.store.keys(&principal.project).await?)
    }

    /// Revokes a key: at once on this node, within [`KEY_MEMORY`](threadline_core::limits::KEY_MEMORY) on others.
    /// Idempotent.
    pub async fn revoke_key(&self, principal: &Principal, id: &KeyId) -> Result<ApiKey, AuthError> {
        let (project, now) = (&principal.project, self.shared.clock.now());
        let entry = AuditEntry::by(principal, project, now, "key.revoked", &json!({ "keyId": id.as_str() }));
        let revoked = self.shared.store.revoke_key(project, id, now, Some(&entry)).await;
        let key = revoked?.ok_or(AuthError::NoKey)?;
        self.shared.keys.invalidate_all();
        // A repetition too: the answer of the first revocation may have been lost.
        self.shared.removals.note(Removal::Key(project.clone(), id.clone(), key.revoked_at.unwrap_or(now)));
        Ok(key)
    }

    /// Makes a token for a user of the principal's project.
    pub async fn create_token(
        &self,
        principal: &Principal,
        user: &UserId,
        scopes: Option<Scopes>,
        lifetime: Option<Duration>,
    ) -> Result<NewToken, AuthError> {
        let project = self.shared.projects.ensured(&principal.project).await?;
        let scopes = scopes.unwrap_or(project.settings.default_scopes().and(principal.scopes));
        within(scopes, Scopes::TOKEN.and(principal.scopes))?;
        if scopes.is_empty() {
            let reason = "a token needs a scope, and the credential of the request has none of `read`, `chat`, `approve` and `produce`";
            return Err(AuthError::Invalid(reason.into()));
        }
        let lifetime = lifetime.unwrap_or(TOKEN_LIFETIME);
        if lifetime.is_zero() || lifetime > MAX_TOKEN_LIFETIME {
            return Err(AuthError::Invalid(format!(
                "expiresInSeconds must be from 1 to {}",
                MAX_TOKEN_LIFETIME.as_secs()
            )));
        }
        let expires_at = self.shared.clock.now().plus(lifetime);
        let expires_at = self.expiry(principal).map_or(expires_at, |ends| ends.min(expires_at));
        let text = self.token(&principal.project, user, scopes, expires_at).await?;
        Ok(NewToken { text, expires_at })
    }

    /// Creates a project or replaces its settings. A project that has these settings stays as it is.
    pub async fn put_project(
        &self,
        principal: &Principal,
        id: &ProjectId,
        settings: ProjectSettings,
    ) -> Result<ChangedProject, AuthError> {
        check(&settings)?;
        if let Some(issuer) = &settings.issuer
            && self.shared.projects.is_project(&issuer.issuer).await?
        {
            let reason = format!("issuer.issuer is {:?}, which is the ID of a project", issuer.issuer);
            return Err(AuthError::Invalid(reason));
        }
        let facts = json!({ "settings": serde_json::to_value(&settings).unwrap_or_default() });
        let entry = |created| {
            let action = if created { "project.created" } else { "project.changed" };
            Some(AuditEntry::by(principal, id, self.shared.clock.now(), action, &facts))
        };
        let change = |project: &mut Project| {
            project.settings = settings.clone();
            Ok(())
        };
        self.shared.projects.change(id, Missing::Create, change, entry).await
    }

    /// Looks up a project that the principal may administer: its own, or any project for the operator.
    pub async fn project(&self, principal: &Principal, id: &ProjectId) -> Result<Project, AuthError> {
        if !principal.is_operator() && principal.project != *id {
            return Err(AuthError::NoProject);
        }
        if id.as_str() == super::DEFAULT_PROJECT {
            return self.shared.projects.ensured(id).await;
        }
        self.shared.projects.get(id).await?.ok_or(AuthError::NoProject)
    }

    /// Replaces the secret for a project's user tokens, and returns the new one; it is not shown again. Tokens signed
    /// with the previous secret stay valid until the next renewal.
    pub async fn renew_secret(&self, principal: &Principal, id: &ProjectId) -> Result<String, AuthError> {
        // The secret can act as any user of the project.
        within(Scopes::TOKEN.with(Scope::Tokens), principal.scopes)?;
        let project = self.project(principal, id).await?;
        let entry = AuditEntry::by(principal, id, self.shared.clock.now(), "project.secret-renewed", &json!({}));
        self.shared.projects.renew_secret(&project.id, &entry).await
    }

    /// Reads a page of the audit of the principal's project, newest first.
    pub async fn audit(
        &self,
        principal: &Principal,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<(i64, AuditEntry)>, AuthError> {
        Ok(self.shared.store.audit(&principal.project, before, limit.clamp(1, MAX_PAGE)).await?)
    }
}

/// Refuses scopes in the settings that no user's token can have, and an empty list.
fn check_token_scopes(name: &str, scopes: Scopes) -> Result<(), AuthError> {
    match scopes.first_beyond(Scopes::TOKEN) {
        Some(scope) => Err(AuthError::Invalid(format!("{name} has {scope}, which a user's token cannot have"))),
        None if scopes.is_empty() => Err(AuthError::Invalid(format!("{name} must not be empty"))),
        None => Ok(()),
    }
}

fn check(settings: &ProjectSettings) -> Result<(), AuthError> {
    let Retention { archive_after_days, delete_after_days, grace_days } = settings.retention;
    for days in [archive_after_days, delete_after_days].into_iter().flatten() {
        if days == 0 || days > MAX_RETENTION_DAYS {
            return Err(AuthError::Invalid(format!("the days of retention must be from 1 to {MAX_RETENTION_DAYS}")));
        }
    }
    if let Some(days) = grace_days.filter(|days| !(1..=MAX_TRASH_DAYS).contains(days)) {
        let reason = format!("retention.graceDays is {days}, but must be from 1 to {MAX_TRASH_DAYS}");
        return Err(AuthError::Invalid(reason));
    }
    if let Some(scopes) = settings.token_scopes {
        check_token_scopes("tokenScopes", scopes)?;
    }
    if let Some(issuer) = &settings.issuer {
        for (word, scopes) in issuer.scopes.iter().flatten() {
            check_token_scopes(&format!("issuer.scopes[{word:?}]"), *scopes)?;
        }
        if issuer.issuer.is_empty() || issuer.audience.is_empty() {
            return Err(AuthError::Invalid("issuer.issuer and issuer.audience must not be empty".into()));
        }
        let url = reqwest::Url::parse(&issuer.jwks_url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if url.is_none() {
            return Err(AuthError::Invalid("jwksUrl must be a URL that begins with https:// or http://".into()));
        }
    }
    Ok(())
}
