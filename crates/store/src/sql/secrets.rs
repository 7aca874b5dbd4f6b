//! Secrets of an open database: every one passes here on its way into a table and back.

use std::sync::Arc;

use threadline_secrets::{DigestKey, Keyring, Place, Unopened};

use crate::{SecretForm, SecretsError, StoreError, StoreResult};

/// Place of the root of digests.
pub(crate) const ROOT: Place<'static> = Place { table: "secrets", project: "", row: "digests", column: "value" };

/// Place of a project's secrets.
pub(crate) fn of_project(project: &str) -> Place<'_> {
    Place { table: "projects", project, row: "", column: "secrets" }
}

/// Place of the input of a driven run.
pub(crate) fn of_turn(turn: &str) -> Place<'_> {
    Place { table: "turns", project: "", row: turn, column: "input" }
}

/// Place of an agent's definition.
pub(crate) fn of_agent<'a>(project: &'a str, agent: &'a str) -> Place<'a> {
    Place { table: "agents", project, row: agent, column: "definition" }
}

/// Keys of a process, and the root of digests.
#[derive(Debug)]
pub(crate) struct Secrets {
    keys: Keys,
    root: Option<String>,
}

#[derive(Debug)]
enum Keys {
    Sealing(Arc<Keyring>),
    Unsealed,
    /// The process uses no secrets.
    Shut,
}

impl Secrets {
    /// Secrets of a process that uses none.
    pub(crate) fn shut() -> Self {
        Self { keys: Keys::Shut, root: None }
    }

    /// Secrets with these keys, of a store whose root is stored as this text. If another text has to take its place, it is
    /// the second value.
    pub(crate) fn of(
        keys: Option<Arc<Keyring>>,
        renewal: bool,
        stored: Option<&str>,
    ) -> Result<(Self, Option<String>), SecretsError> {
        let sealed_with = stored.and_then(threadline_secrets::key_of);
        let Some(keys) = keys else {
            if let Some(key) = sealed_with {
                return Err(SecretsError::NoKeyFile(key.to_owned()));
            }
            let made = if stored.is_none() { Some(threadline_secrets::generate()?) } else { None };
            let root = made.as_deref().or(stored).map(str::to_owned);
            return Ok((Self { keys: Keys::Unsealed, root }, made));
        };
        let root = match stored {
            Some(sealed) if sealed_with.is_some() => match keys.open(ROOT, sealed) {
                Ok(root) => return Ok((Self { keys: Keys::Sealing(keys), root: Some(root) }, None)),
                Err(_) if renewal => threadline_secrets::generate()?,
                Err(error) => return Err(error.into()),
            },
            Some(root) => root.to_owned(),
            None => threadline_secrets::generate()?,
        };
        let sealed = keys.seal(ROOT, &root)?;
        Ok((Self { keys: Keys::Sealing(keys), root: Some(root) }, Some(sealed)))
    }

    /// Text that is stored in place of a secret.
    pub(crate) fn seal(&self, place: Place<'_>, secret: &str) -> StoreResult<String> {
        match &self.keys {
            Keys::Sealing(keys) => keys.seal(place, secret).map_err(|error| StoreError::Unavailable(error.to_string())),
            Keys::Unsealed => Ok(secret.to_owned()),
            Keys::Shut => Err(Self::not_used()),
        }
    }

    /// Secret of which this text is stored.
    pub(crate) fn open(&self, place: Place<'_>, stored: &str) -> StoreResult<String> {
        let unopened = |error: Unopened| StoreError::Corrupt(format!("a secret of the table {}: {error}", place.table));
        match (threadline_secrets::key_of(stored), &self.keys) {
            (_, Keys::Shut) => Err(Self::not_used()),
            (None, _) => Ok(stored.to_owned()),
            (Some(_), Keys::Sealing(keys)) => keys.open(place, stored).map_err(unopened),
            (Some(key), Keys::Unsealed) => Err(unopened(Unopened::NoKey(key.to_owned()))),
        }
    }

    fn not_used() -> StoreError {
        StoreError::Unavailable("the secrets of this store were not opened".to_owned())
    }

    /// Form of a stored text.
    pub(crate) fn form(&self, place: Place<'_>, stored: &str) -> SecretForm {
        match (threadline_secrets::key_of(stored), &self.keys) {
            (None, _) => SecretForm::Unsealed,
            (Some(_), _) if self.open(place, stored).is_err() => SecretForm::Unopened,
            (Some(key), Keys::Sealing(keys)) if key == keys.id() => SecretForm::Sealed,
            (Some(_), _) => SecretForm::OtherKey,
        }
    }

    /// True if the process has keys.
    pub(crate) fn seals(&self) -> bool {
        matches!(self.keys, Keys::Sealing(_))
    }

    pub(crate) fn sealing_key(&self) -> Option<String> {
        if let Keys::Sealing(keys) = &self.keys { Some(keys.id().to_owned()) } else { None }
    }

    pub(crate) fn digest_key(&self, purpose: &str) -> StoreResult<DigestKey> {
        self.root.as_deref().map(|root| DigestKey::derive(root, purpose)).ok_or_else(Self::not_used)
    }
}

/// True if a stored text is sealed.
pub(crate) fn is_sealed(stored: &str) -> bool {
    threadline_secrets::key_of(stored).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(id: &str) -> Arc<Keyring> {
        let line = Keyring::new_line().expect("random");
        let (_, key) = line.split_once(':').expect("a line");
        Arc::new(format!("{id}:{key}").parse().expect("keys"))
    }

    #[test]
    fn the_root_is_made_sealed_and_asked_for() {
        let keys = ring("k");
        // Without keys it is stored as it is, and stays.
        let (unsealed, made) = Secrets::of(None, false, None).expect("made");
        let plain = made.expect("a root");
        assert!(!is_sealed(&plain) && !unsealed.seals());
        let (again, made) = Secrets::of(None, false, Some(&plain)).expect("opens");
        let digest = |secrets: &Secrets| secrets.digest_key("p").expect("a root").digest(&["x"]);
        assert_eq!((made, digest(&again)), (None, digest(&unsealed)));
        // The first process with keys seals it, and its digests stay the same.
        let (sealing, made) = Secrets::of(Some(keys.clone()), false, Some(&plain)).expect("opens");
        let sealed = made.expect("another text");
        assert!(is_sealed(&sealed) && digest(&sealing) == digest(&unsealed));
        let (again, made) = Secrets::of(Some(keys), false, Some(&sealed)).expect("opens");
        assert_eq!((made, digest(&again)), (None, digest(&unsealed)));
        // From then on the keys are required.
        assert!(matches!(Secrets::of(None, false, Some(&sealed)), Err(SecretsError::NoKeyFile(key)) if key == "k"));
        assert!(matches!(Secrets::of(None, true, Some(&sealed)), Err(SecretsError::NoKeyFile(_))));
        let missing = Secrets::of(Some(ring("other")), false, Some(&sealed));
        assert!(matches!(missing, Err(SecretsError::Unopened(Unopened::NoKey(key))) if key == "k"));
        let wrong = Secrets::of(Some(ring("k")), false, Some(&sealed));
        assert!(matches!(wrong, Err(SecretsError::Unopened(Unopened::WrongKey(_)))));
        let (renewed, made) = Secrets::of(Some(ring("k")), true, Some(&sealed)).expect("renewed");
        assert!(is_sealed(&made.expect("another root")) && digest(&renewed) != digest(&unsealed));
    }

    #[test]
    fn forms_of_secrets() {
        let keys = ring("k");
        let place = of_project("p");
        let (sealing, _) = Secrets::of(Some(keys.clone()), false, None).expect("opens");
        let sealed = sealing.seal(place, "[]").expect("sealed");
        assert_eq!(sealing.form(place, &sealed), SecretForm::Sealed);
        assert_eq!(sealing.form(of_project("q"), &sealed), SecretForm::Unopened);
        assert_eq!(
            (sealing.form(place, "[]"), sealing.open(place, "[]").expect("as it is")),
            (SecretForm::Unsealed, "[]".to_owned())
        );
        let line =
            |id: &str| format!("{id}:{}", Keyring::new_line().expect("random").split_once(':').expect("a line").1);
        let (old, new) = (line("old"), line("new"));
        let both =
            |lines: String| Secrets::of(Some(Arc::new(lines.parse().expect("keys"))), false, None).expect("opens").0;
        let before = both(old.clone()).seal(place, "[]").expect("sealed");
        assert_eq!(both(format!("{new}{old}")).form(place, &before), SecretForm::OtherKey);
        let other = ring("other").seal(place, "[]").expect("sealed");
        assert_eq!(sealing.form(place, &other), SecretForm::Unopened);
        let (unsealed, _) = Secrets::of(None, false, None).expect("opens");
        assert!(unsealed.form(place, &sealed) == SecretForm::Unopened && unsealed.open(place, &sealed).is_err());
        assert_eq!(unsealed.seal(place, "[]").expect("as it is"), "[]");
        let shut = Secrets::shut();
        assert!(shut.seal(place, "[]").is_err() && shut.open(place, "[]").is_err() && shut.digest_key("p").is_err());
    }
}
