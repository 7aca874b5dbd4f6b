//! Who is asking, and what they may do.

use std::fmt;

use super::{Digest, KeyId, ProjectId, Thread, Timestamp, UserId};

/// Something that a principal may do. A key or token carries a set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Read, list and follow.
    Read,
    /// Create, edit and delete threads; run, append and stop.
    Write,
    /// Make, change and forget agents.
    Agents,
    /// Make tokens for end users.
    Tokens,
    /// The project's own affairs: keys, settings, the audit, erasing a user.
    Admin,
    /// Read the server's metrics.
    Metrics,
}

impl Scope {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Read, Self::Write, Self::Agents, Self::Tokens, Self::Admin, Self::Metrics];

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Agents => "agents",
            Self::Tokens => "tokens",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
        }
    }

    /// The scope of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.as_str() == name)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Every scope.
    pub const ALL: Self = Self::of(Scope::ALL);
    /// What an end user has whose token names no scopes.
    pub const USER: Self = Self::of(&[Scope::Read, Scope::Write]);
    /// What an API key has if none are named: what the backend of an application needs.
    pub const BACKEND: Self = Self::of(&[Scope::Read, Scope::Write, Scope::Agents, Scope::Tokens]);

    /// These scopes.
    pub const fn of(scopes: &[Scope]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < scopes.len() {
            bits |= 1 << scopes[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// Whether this scope is among them.
    pub fn contains(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    /// Those that are in both sets.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those of these names, separated by spaces; or the first name that is none.
    pub fn parse(names: &str) -> Result<Self, &str> {
        names.split_ascii_whitespace().try_fold(Self::default(), |set, name| {
            Scope::named(name).map(|scope| Self(set.0 | Self::of(&[scope]).0)).ok_or(name)
        })
    }

    /// Those of these names that are known, whatever else is named.
    pub fn known(names: &str) -> Self {
        names
            .split_ascii_whitespace()
            .filter_map(Scope::named)
            .fold(Self::default(), |set, scope| Self(set.0 | Self::of(&[scope]).0))
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.iter().copied().filter(move |scope| self.contains(*scope))
    }
}

impl fmt::Display for Scopes {
    /// The names, separated by spaces (as in OAuth 2.0, RFC 6749 section 3.3).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.iter().enumerate() {
            write!(f, "{}{scope}", if index > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// What a principal has shown to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// Nothing: everybody on a developer's machine.
    Development,
    /// The operator's key of the configuration, which may act in every project.
    Operator,
    /// A project's API key.
    Key {
        /// Which.
        id: KeyId,
        /// What is kept of it.
        digest: Digest,
        /// When it ceases to be valid.
        expires_at: Option<Timestamp>,
    },
    /// What the holder of a key has lent to a page of its: good as long as the key, and the page is a stranger.
    Lent {
        /// Which key; `None` is the operator's.
        key: Option<(KeyId, Digest)>,
        /// When the key ceases to be valid.
        expires_at: Option<Timestamp>,
    },
    /// An end user's token: whoever sends it is a stranger, and the limits of users hold.
    Token {
        /// When it ceases to be valid.
        expires_at: Timestamp,
        /// Of the project's secret that it was signed with; `None` if an issuer has signed it.
        signer: Option<Digest>,
    },
}

impl Credential {
    /// What it is called where people read who did something: `development`, `operator`, `key:<id>`, `lent` or `user`.
    pub fn label(&self) -> String {
        match self {
            Self::Development => "development".to_owned(),
            Self::Operator => "operator".to_owned(),
            Self::Key { id, .. } => format!("key:{id}"),
            Self::Lent { .. } => "lent".to_owned(),
            Self::Token { .. } => "user".to_owned(),
        }
    }

    /// What a page is given that is to act on behalf of whoever has shown this.
    pub fn lent(&self) -> Self {
        match self {
            Self::Operator => Self::Lent { key: None, expires_at: None },
            Self::Key { id, digest, expires_at } => {
                Self::Lent { key: Some((id.clone(), *digest)), expires_at: *expires_at }
            }
            // On a developer's machine nobody is a stranger; what a page has itself it keeps.
            Self::Development | Self::Lent { .. } | Self::Token { .. } => self.clone(),
        }
    }
}

/// Who is asking. Every method of the service takes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The tenant.
    pub project: ProjectId,
    /// The end user; `None` is the project itself (an API key without a user), which may act on any thread of it.
    pub user: Option<UserId>,
    /// What it may do.
    pub scopes: Scopes,
    /// How it was let in.
    pub credential: Credential,
}

impl Principal {
    /// An end user of a project, of whom nothing was asked: for development, tests and the program itself.
    pub fn user(project: ProjectId, user: UserId) -> Self {
        Self { user: Some(user), ..Self::project(project) }
    }

    /// A whole project, of whom nothing was asked.
    pub fn project(project: ProjectId) -> Self {
        Self { project, user: None, scopes: Scopes::ALL, credential: Credential::Development }
    }

    /// Whether this principal may see and change what belongs to `owner` in `project`.
    pub fn may_access(&self, project: &ProjectId, owner: &UserId) -> bool {
        self.project == *project && self.user.as_ref().is_none_or(|user| user == owner)
    }

    /// [`Principal::may_access`] for a thread.
    pub fn may_access_thread(&self, thread: &Thread) -> bool {
        self.may_access(&thread.project, &thread.user)
    }

    /// Whether it stands for the whole installation.
    pub fn is_operator(&self) -> bool {
        matches!(self.credential, Credential::Development | Credential::Operator)
    }

    /// Whether it came with an end user's token, or with what a page was lent: such a one is not trusted to be modest.
    pub fn is_stranger(&self) -> bool {
        matches!(self.credential, Credential::Token { .. } | Credential::Lent { .. })
    }

    /// True for a caller with a key, whose word is the application's. Always false in development mode, where a page stands for
    /// the page of a user.
    pub fn has_key(&self) -> bool {
        matches!(self.credential, Credential::Operator | Credential::Key { .. })
    }

    /// When it ceases to be valid.
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
    fn scopes_have_one_text_form() {
        assert_eq!(Scopes::parse("write  read"), Ok(Scopes::USER));
        assert_eq!(Scopes::USER.to_string(), "read write");
        assert_eq!(Scopes::parse("read fly"), Err("fly"));
        assert_eq!(Scopes::parse(""), Ok(Scopes::default()));
        assert_eq!(Scopes::parse(&Scopes::ALL.to_string()), Ok(Scopes::ALL));
        assert!(!Scopes::BACKEND.contains(Scope::Admin) && !Scopes::BACKEND.contains(Scope::Metrics));
    }
}
