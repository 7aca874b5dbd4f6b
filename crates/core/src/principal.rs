//! Principals: callers, and what they may do.

use std::fmt;

use super::{Author, Digest, KeyId, ProjectId, Thread, Timestamp, UserId};

/// Permission of a principal. A key or token carries a set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Read, list and follow threads.
    Read,
    /// Make, change and delete threads; say something as the user, have an agent run, stop a run.
    Chat,
    /// Answer an interrupt of a run.
    Approve,
    /// Write events of any role: push runs, append to them and end them, replace conversations, annotate.
    Produce,
    /// Make, change and remove agents.
    Agents,
    /// Make tokens for end users.
    Tokens,
    /// Administration of the project: keys, settings, the audit log, erasing a user.
    Admin,
    /// Read the server's metrics.
    Metrics,
}

impl Scope {
    /// Every scope, in the order of the text form.
    pub const ALL: &'static [Self] =
        &[Self::Read, Self::Chat, Self::Approve, Self::Produce, Self::Agents, Self::Tokens, Self::Admin, Self::Metrics];

    /// Name of the scope on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Chat => "chat",
            Self::Approve => "approve",
            Self::Produce => "produce",
            Self::Agents => "agents",
            Self::Tokens => "tokens",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
        }
    }

    /// Scope of this name; `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.as_str() == name)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Set of scopes, as a key or a token carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Set that holds every scope.
    pub const ALL: Self = Self::of(Scope::ALL);
    /// Scopes of an end user whose token names none, unless the project's settings say otherwise.
    pub const USER: Self = Self::of(&[Scope::Read, Scope::Chat, Scope::Approve]);
    /// Scopes that an end user's token can have.
    pub const TOKEN: Self = Self::of(&[Scope::Read, Scope::Chat, Scope::Approve, Scope::Produce]);
    /// Scopes that the holder of a credential can lend to a web page.
    pub const LENT: Self = Self::of(&[Scope::Read, Scope::Chat]);
    /// Scopes of an API key for which none are named: those that the backend of an application needs.
    pub const BACKEND: Self =
        Self::of(&[Scope::Read, Scope::Chat, Scope::Approve, Scope::Produce, Scope::Agents, Scope::Tokens]);

    /// Set that holds exactly these scopes.
    pub const fn of(scopes: &[Scope]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < scopes.len() {
            bits |= 1 << scopes[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// True if the set holds this scope.
    pub fn contains(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    /// True if the set holds all scopes of the other.
    pub fn contains_all(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set with one scope more.
    pub fn with(self, scope: Scope) -> Self {
        self.or(Self::of(&[scope]))
    }

    /// True if the set holds no scope.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Scopes that are in one of the two sets.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Scopes of this set that the other lacks.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// First scope of this set that the other lacks; `None` if the other has all.
    pub fn first_beyond(self, other: Self) -> Option<Scope> {
        self.without(other).iter().next()
    }

    /// Scopes that are in both sets.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Parses names separated by spaces. Fails with the first name that is no scope.
    pub fn parse(names: &str) -> Result<Self, &str> {
        names
            .split_ascii_whitespace()
            .try_fold(Self::default(), |set, name| Scope::named(name).map(|scope| set.with(scope)).ok_or(name))
    }

    /// Scopes of the set, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.iter().copied().filter(move |scope| self.contains(*scope))
    }
}

impl fmt::Display for Scopes {
    /// Writes the names, separated by spaces (as in OAuth 2.0, RFC 6749 section 3.3).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.iter().enumerate() {
            write!(f, "{}{scope}", if index > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// Credential that made a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenMaker {
    /// API key of the project.
    Key(KeyId),
    /// Operator's key of the present configuration.
    Operator,
}

/// Credential with which a principal was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// No credential: every caller in development mode.
    Development,
    /// The operator's key of the configuration, which may act in every project.
    Operator,
    /// API key of a project.
    Key {
        /// Id of the key, unique within its project.
        id: KeyId,
        /// Digest of the key, which is all that is kept of it.
        digest: Digest,
        /// Time from which the key is no longer valid; `None` if it does not expire.
        expires_at: Option<Timestamp>,
    },
    /// Access that the holder of a key has lent to a web page. Valid as long as the key; the page is an untrusted
    /// client.
    Lent {
        /// Id of the key; `None` is the operator's.
        key: Option<KeyId>,
        /// Time at which the access was lent: a later sign-out ends it.
        since: Timestamp,
        /// Time from which the key is no longer valid; `None` if it does not expire.
        expires_at: Option<Timestamp>,
    },
    /// Token of an end user. The sender is an untrusted client, and the limits of users hold.
    Token {
        /// Time from which the token is no longer valid.
        expires_at: Timestamp,
        /// Digest of the project's secret that the token was signed with; `None` if an issuer has signed it.
        signer: Option<Digest>,
        /// Credential that made the token, with which it ends; `None` if the token names none.
        by: Option<TokenMaker>,
        /// Time at which the token was issued; `None` if the token does not tell.
        issued_at: Option<Timestamp>,
    },
}

impl Credential {
    /// Name of the credential where people read who took an action: `development`, `operator`, `key:<id>`, `lent` or
    /// `user`.
    pub fn label(&self) -> String {
        match self {
            Self::Development => "development".to_owned(),
            Self::Operator => "operator".to_owned(),
            Self::Key { id, .. } => format!("key:{id}"),
            Self::Lent { .. } => "lent".to_owned(),
            Self::Token { .. } => "user".to_owned(),
        }
    }

    /// Credential for a page that is to act from now on on behalf of this credential's holder.
    pub fn lent(&self, since: Timestamp) -> Self {
        match self {
            Self::Operator => Self::Lent { key: None, since, expires_at: None },
            Self::Key { id, expires_at, .. } => Self::Lent { key: Some(id.clone()), since, expires_at: *expires_at },
            // Development mode has no authentication, and a page with a credential keeps it.
            Self::Development | Self::Lent { .. } | Self::Token { .. } => self.clone(),
        }
    }
}

/// Caller with its permissions. Every method of the service takes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Project (tenant) in which the principal acts.
    pub project: ProjectId,
    /// End user; `None` is the project itself (an API key without a user), which may act on any thread of it.
    pub user: Option<UserId>,
    /// Scopes that the principal has.
    pub scopes: Scopes,
    /// Credential with which the principal was authenticated.
    pub credential: Credential,
    /// Time at which the ticket was made that the caller has shown in place of the credential; `None` if it has shown the
    /// credential.
    pub ticket: Option<Timestamp>,
}

impl Principal {
    /// End user of a project, without authentication: for development, tests and the program itself.
    pub fn user(project: ProjectId, user: UserId) -> Self {
        Self { user: Some(user), ..Self::project(project) }
    }

    /// Principal of a complete project, without authentication.
    pub fn project(project: ProjectId) -> Self {
        Self { project, user: None, scopes: Scopes::ALL, credential: Credential::Development, ticket: None }
    }

    /// True if this principal may see and change data that belongs to `owner` in `project`.
    pub fn may_access(&self, project: &ProjectId, owner: &UserId) -> bool {
        self.project == *project && self.user.as_ref().is_none_or(|user| user == owner)
    }

    /// [`Principal::may_access`] for a thread.
    pub fn may_access_thread(&self, thread: &Thread) -> bool {
        self.may_access(&thread.project, &thread.user)
    }

    /// True if the principal acts for the project and not for one of its users. Development mode has no other way to do
    /// so than as a user.
    pub fn acts_for_project(&self) -> bool {
        self.user.is_none() || self.credential == Credential::Development
    }

    /// True if the principal stands for the complete installation.
    pub fn is_operator(&self) -> bool {
        matches!(self.credential, Credential::Development | Credential::Operator)
    }

    /// True for an untrusted client: a principal with an end user's token, or a page with lent access. Such a client is
    /// not trusted to use resources sparingly.
    pub fn is_untrusted(&self) -> bool {
        matches!(self.credential, Credential::Token { .. } | Credential::Lent { .. })
    }

    /// The principal, limited to one user.
    #[must_use]
    pub fn for_user(self, user: UserId) -> Self {
        Self { user: Some(user), ..self }
    }

    /// True for a caller with a key, who speaks for the application. Always false in development mode, where a page
    /// stands for the page of a user.
    pub fn has_key(&self) -> bool {
        matches!(self.credential, Credential::Operator | Credential::Key { .. })
    }

    /// Author of what this principal writes: an untrusted client writes as its user, everybody else as the credential.
    pub fn author(&self) -> Author {
        match &self.user {
            Some(user) if self.is_untrusted() => Author::user(user),
            _ => Author::stored(&self.credential.label()),
        }
    }

    /// Key behind the credential: the one that was shown, or that made what was shown.
    pub fn key(&self) -> Option<&KeyId> {
        match &self.credential {
            Credential::Key { id, .. } => Some(id),
            Credential::Token { by: Some(TokenMaker::Key(id)), .. } => Some(id),
            Credential::Lent { key, .. } => key.as_ref(),
            Credential::Token { .. } | Credential::Development | Credential::Operator => None,
        }
    }

    /// Time from which the principal is no longer valid; `None` if it does not expire.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match &self.credential {
            Credential::Development | Credential::Operator => None,
            Credential::Key { expires_at, .. } | Credential::Lent { expires_at, .. } => *expires_at,
            Credential::Token { expires_at, .. } => Some(*expires_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untrusted_client_writes_as_its_user_and_a_backend_as_its_key() {
        let user = Principal::user(ProjectId::new("p").expect("id"), UserId::new("ann").expect("id"));
        let with = |credential| Principal { credential, ..user.clone() }.author().to_string();
        let (id, digest) = (KeyId::new("k").expect("id"), Digest([0; 32]));
        let token = Credential::Token { expires_at: Timestamp(1), signer: None, by: None, issued_at: None };
        assert_eq!(with(token), "user:ann");
        assert_eq!(with(Credential::Lent { key: None, since: Timestamp(1), expires_at: None }), "user:ann");
        assert_eq!(with(Credential::Key { id, digest, expires_at: None }), "key:k");
        assert_eq!(
            (with(Credential::Operator), with(Credential::Development)),
            ("operator".into(), "development".into())
        );
    }

    #[test]
    fn scopes_have_one_text_form() {
        assert_eq!(Scopes::parse("chat  approve read"), Ok(Scopes::USER));
        assert_eq!(Scopes::USER.to_string(), "read chat approve");
        assert_eq!(Scopes::parse("read fly"), Err("fly"));
        assert_eq!(Scopes::parse(""), Ok(Scopes::default()));
        assert_eq!(Scopes::parse(&Scopes::ALL.to_string()), Ok(Scopes::ALL));
        assert!(!Scopes::BACKEND.contains(Scope::Admin) && !Scopes::BACKEND.contains(Scope::Metrics));
    }
}
