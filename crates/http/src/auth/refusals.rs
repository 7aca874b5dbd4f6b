//! Refused requests, as the audit counts them.

use threadline_core::{DEFAULT_PROJECT, Principal, ProjectId};
use threadline_engine::credentials::Refused;

use super::{Auth, AuthError, Shown, secret::digest};

impl Auth {
    /// Notes in the trail that a request was refused: of the principal, if it was authenticated, else of the known key that it
    /// has shown, else of its address. Without a known project the entry is in the audit of the project `default`.
    pub(crate) fn note_refusal(&self, shown: Shown<'_>, principal: Option<&Principal>, error: &AuthError) {
        let Some(reason) = error.reason() else { return };
        let Ok(default) = ProjectId::new(DEFAULT_PROJECT) else { return };
        let by_address = Refused::at(shown.address);
        let (project, who) = match (principal, shown.secret) {
            (Some(principal), _) => {
                let key = principal.key().filter(|_| principal.has_key());
                (principal.project.clone(), key.map_or(by_address, |key| Refused::Key(key.clone())))
            }
            (None, Some(secret)) => match self.shared.keys.remembered(&digest(secret)) {
                Some(key) => (key.project, Refused::Key(key.id)),
                // A token names its project, which can act on the refusal.
                None => (self.shared.projects.named_by(secret).unwrap_or(default), by_address),
            },
            (None, None) => (default, by_address),
        };
        self.shared.trail.refused(&project, reason, who);
    }
}
