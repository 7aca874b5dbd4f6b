//! Administration of a project: its keys, its settings, its audit.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::json;
use threadline_core::{
    ApiKey, AuditEntry, KeyId, Principal, ProjectId, ProjectSettings, Retention, Scope, Scopes, Timestamp, UserId,
    limits::{
        AUDIT_SETTLED, MAX_AGENT_ORIGINS, MAX_AUDIT_DAYS, MAX_KEY_LIFETIME, MAX_KEYS, MAX_PAGE, MAX_RETENTION_DAYS,
        MAX_TOKEN_SECONDS, MAX_TRASH_DAYS, TOKEN_LIFETIME,
    },
};
use threadline_engine::{
    Removal,
    credentials::{Holder, MadeToken, Subject},
};
use threadline_store::StoreResult;

use super::{
    Auth, AuthError, ChangedProject, Project,
    projects::Missing,
    secret::{KEY_PREFIX, digest, generate},
    tokens, within,
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

/// Treatment of the keys that were made with a revoked key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// The keys stay valid.
    Stay,
    /// The keys are revoked as well.
    Go,
}

/// A revoked key, and those that were made with it.
#[derive(Debug)]
pub struct RevokedKey {
    pub key: ApiKey,
    /// Keys that were made with it, directly or not, and were revoked with it.
    pub also_revoked: Vec<KeyId>,
    /// Keys that were made with it, directly or not, and are valid.
    pub still_valid: Vec<KeyId>,
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
            made_by: principal.key().cloned(),
            last_used: None,
        };
        let facts = json!({ "keyId": key.id.as_str(), "scopes": scopes.to_string() });
        let entry = AuditEntry::by(principal, &principal.project, now, "key.created", &facts);
        if !self.shared.store.put_key(&key, &digest(&text), Some(&entry)).await? {
            return Err(AuthError::KeyExists);
        }
        // The key of the request may have been revoked meanwhile, with all that it had made: this one came too late for that.
        if let Some(maker) = &key.made_by
            && !self.shared.store.key_named(&key.project, maker).await?.is_some_and(|maker| maker.is_valid(now))
        {
            self.revoke_key(principal, &key.id, Made::Stay).await?;
            return Err(AuthError::Over);
        }
        Ok((key, text))
    }

    /// Lists all keys of the principal's project, without their texts.
    pub async fn keys(&self, principal: &Principal) -> Result<Vec<ApiKey>, AuthError> {
        Ok(self.shared.store.keys(&principal.project).await?)
    }

    /// Revokes a key, and with it all tokens that it has made: at once on this node, within
    /// [`KEY_MEMORY`](threadline_core::limits::KEY_MEMORY) on others. Idempotent.
    pub async fn revoke_key(&self, principal: &Principal, id: &KeyId, made: Made) -> Result<RevokedKey, AuthError> {
        let key = self.revoke(principal, id, None).await?;
        let mut also_revoked = Vec::new();
        // Another node may have made a key with one of these a moment ago, so the loop ends only once it finds none.
        loop {
            let found = self.made_by(principal, id).await?;
            if made == Made::Stay || found.is_empty() {
                return Ok(RevokedKey { key, also_revoked, still_valid: found });
            }
            for made in found {
                self.revoke(principal, &made, Some(id)).await?;
                also_revoked.push(made);
            }
        }
    }

    async fn revoke(&self, principal: &Principal, id: &KeyId, with: Option<&KeyId>) -> Result<ApiKey, AuthError> {
        let (project, now) = (&principal.project, self.shared.clock.now());
        let mut facts = json!({ "keyId": id.as_str() });
        if let Some(with) = with {
            facts["with"] = json!(with.as_str());
        }
        let entry = AuditEntry::by(principal, project, now, "key.revoked", &facts);
        let revoked = self.shared.store.revoke_key(project, id, now, Some(&entry)).await;
        let key = revoked?.ok_or(AuthError::NoKey)?;
        self.shared.keys.forget();
        // A repetition too: the answer of the first revocation may have been lost.
        self.shared.removals.note(Removal::Key(project.clone(), id.clone(), key.revoked_at.unwrap_or(now)));
        Ok(key)
    }

    /// Valid keys that were made with a key, or with one of those, by id.
    async fn made_by(&self, principal: &Principal, id: &KeyId) -> Result<Vec<KeyId>, AuthError> {
        let (keys, now) = (self.shared.store.keys(&principal.project).await?, self.shared.clock.now());
        let mut of: BTreeMap<&KeyId, Vec<&ApiKey>> = BTreeMap::new();
        for key in &keys {
            if let Some(maker) = &key.made_by {
                of.entry(maker).or_default().push(key);
            }
        }
        let (mut found, mut open, mut seen) = (Vec::new(), vec![id], BTreeSet::from([id]));
        while let Some(maker) = open.pop() {
            for key in of.get(maker).into_iter().flatten().filter(|key| seen.insert(&key.id)) {
                open.push(&key.id);
                found.extend(key.is_valid(now).then(|| key.id.clone()));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Ends all tokens and sockets of a user, of all users of a project, or those that a key has made. Returns the time from
    /// which tokens are valid again.
    pub async fn sign_out(&self, principal: &Principal, subject: Subject<'_>) -> Result<Timestamp, AuthError> {
        if let Subject::Key(key) = subject
            && self.shared.store.key_named(&principal.project, key).await?.is_none()
        {
            return Err(AuthError::NoKey);
        }
        Ok(self.shared.cutoffs.sign_out(principal, &principal.project, subject).await?)
    }

    /// Ends all tokens and sockets of all users of a project that the principal may administer.
    pub async fn sign_out_project(&self, principal: &Principal, id: &ProjectId) -> Result<Timestamp, AuthError> {
        let project = self.project(principal, id).await?;
        Ok(self.shared.cutoffs.sign_out(principal, &project.id, Subject::Project).await?)
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
        let longest = project.settings.longest_token();
        let lifetime = lifetime.unwrap_or(TOKEN_LIFETIME.min(longest));
        if lifetime.is_zero() || lifetime > longest {
            let reason =
                format!("expiresInSeconds must be from 1 to {}, the project's maxTokenSeconds", longest.as_secs());
            return Err(AuthError::Invalid(reason));
        }
        let holder = Holder { project: &project.id, user: Some(user), key: principal.key() };
        self.shared.cutoffs.ready().await?;
        let issued_at = self.shared.cutoffs.issue_time(holder)?;
        let expires_at = self.shared.clock.now().plus(lifetime).min(issued_at.plus(longest));
        let expires_at = self.expiry(principal).map_or(expires_at, |ends| ends.min(expires_at));
        let secret = project.secrets.first().ok_or(AuthError::NoProject)?;
        let by = self.maker(principal)?.map(|by| by.to_string());
        let new = tokens::NewToken {
            audience: tokens::AUDIENCE,
            project: &project.id,
            user,
            scopes,
            issued_at: Some(issued_at),
            until: expires_at,
            born: self.born(),
            feed: None,
            by: by.as_deref(),
        };
        let text = tokens::sign(secret, &new)?;
        self.shared.trail.made(principal, MadeToken { user, scopes, expires_at })?;
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
        let shown = |settings: &ProjectSettings| serde_json::to_value(settings).unwrap_or_default();
        let entry = |before: Option<&Project>| {
            let (action, facts) = match before {
                None => ("project.created", json!({ "after": shown(&settings) })),
                Some(before) => {
                    ("project.changed", json!({ "before": shown(&before.settings), "after": shown(&settings) }))
                }
            };
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

    /// Reads a page of the audit of the principal's project, oldest first, of entries with a number above `after`. It ends
    /// before the first entry that is younger than [`AUDIT_SETTLED`]: one with a smaller number may still appear.
    pub async fn audit_after(
        &self,
        principal: &Principal,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<(i64, AuditEntry)>> {
        let mut page = self.shared.store.audit_after(&principal.project, after, limit.clamp(1, MAX_PAGE)).await?;
        let now = self.shared.clock.now();
        // An entry from a clock that was ahead, and was set back since, is not waited for.
        let young = |at: Timestamp| at.0.abs_diff(now.0) < AUDIT_SETTLED.as_millis() as u64;
        let settled = page.iter().take_while(|(_, entry)| !young(entry.at)).count();
        page.truncate(settled);
        Ok(page)
    }

    /// Number of the newest entry in the audit of the principal's project; 0 if there is none.
    pub async fn newest_audit(&self, principal: &Principal) -> Result<i64, AuthError> {
        let newest = self.shared.store.audit(&principal.project, None, 1).await?;
        Ok(newest.first().map_or(0, |(number, _)| *number))
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
    if let Some(seconds) = settings.max_token_seconds.filter(|seconds| !(1..=MAX_TOKEN_SECONDS).contains(seconds)) {
        let reason = format!("maxTokenSeconds is {seconds}, but must be from 1 to {MAX_TOKEN_SECONDS}");
        return Err(AuthError::Invalid(reason));
    }
    if let Some(days) = settings.audit_days.filter(|days| !(1..=MAX_AUDIT_DAYS).contains(days)) {
        return Err(AuthError::Invalid(format!("auditDays is {days}, but must be from 1 to {MAX_AUDIT_DAYS}")));
    }
    if settings.agent_origins.len() > MAX_AGENT_ORIGINS {
        return Err(AuthError::Invalid(format!("agentOrigins has more than {MAX_AGENT_ORIGINS} origins")));
    }
    for origin in &settings.agent_origins {
        let parsed = reqwest::Url::parse(origin).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if parsed.is_none_or(|url| url.origin().ascii_serialization() != *origin) {
            let reason = format!("agentOrigins has {origin:?}, which is no origin like https://agents.example");
            return Err(AuthError::Invalid(reason));
        }
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
