//! The keys, and the form of a sealed secret.

use std::{fmt, str::FromStr};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey},
    rand,
};
use base64::{Engine, engine::general_purpose::STANDARD};

use crate::NoRandomness;

/// First part of a sealed secret, with the version of the form.
const SEALED: &str = "sealed:1:";
/// Length of a key, in bytes.
const KEY_BYTES: usize = 32;
/// Longest id of a key.
const MAX_KEY_ID: usize = 32;

/// Reason why a text holds no usable keys. Never shows the text, which may be a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// The text has no key.
    #[error("no key: write a line like k1:<base64 of 32 bytes> (openssl rand -base64 32)")]
    Empty,
    /// A line is not of the form.
    #[error("line {0} is not an id, a colon and the base64 of 32 bytes (openssl rand -base64 32)")]
    Line(usize),
    /// The id of a key cannot be used.
    #[error("line {0}: the id of a key has 1 to {MAX_KEY_ID} characters, letters, digits, - and _")]
    Id(usize),
    /// Two keys have one id.
    #[error("line {0}: an earlier line has the same id")]
    Twice(usize),
}

/// Reason why a sealed secret cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unopened {
    /// The keyring has no key of this id.
    #[error("it is sealed with the key {0:?}, which is missing")]
    NoKey(String),
    /// The key of this id does not open the secret.
    #[error("the key {0:?} does not open it: it is another key of this id, or the secret was changed or moved")]
    WrongKey(String),
    /// The text is not of the form.
    #[error("it is not of the form of a sealed secret")]
    Malformed,
}

/// Column of a row of a table, in a project. A secret that was sealed for one place does not open in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Name of the table.
    pub table: &'a str,
    /// Project of the row; empty for a row of no project.
    pub project: &'a str,
    /// Key of the row, within the project.
    pub row: &'a str,
    /// Name of the column.
    pub column: &'a str,
}

impl Place<'_> {
    /// Bytes that stand for this place and for no other. Ids may contain any separator, so each part has its length.
    fn authenticated(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in [self.table, self.project, self.row, self.column] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part.as_bytes());
        }
        bytes
    }
}

/// A key and its id.
struct SecretKey {
    id: String,
    cipher: RandomizedNonceKey,
}

/// Keys by their ids: the first seals, and all open. Its [`fmt::Debug`] form shows the ids only.
pub struct Keyring {
    first: SecretKey,
    others: Vec<SecretKey>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys().map(|key| &key.id)).finish()
    }
}

/// Lines `id:base64 of 32 bytes`; blank ones and those that begin with # are skipped.
impl FromStr for Keyring {
    type Err = KeyringError;

    fn from_str(text: &str) -> Result<Self, KeyringError> {
        let mut keys: Vec<SecretKey> = Vec::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (id, key) = line.split_once(':').ok_or(KeyringError::Line(number))?;
            if !is_id(id) {
                return Err(KeyringError::Id(number));
            }
            if keys.iter().any(|other| other.id == id) {
                return Err(KeyringError::Twice(number));
            }
            let key = STANDARD.decode(key.trim()).ok().filter(|key| key.len() == KEY_BYTES);
            let cipher = key.and_then(|key| RandomizedNonceKey::new(&AES_256_GCM, &key).ok());
            keys.push(SecretKey { id: id.to_owned(), cipher: cipher.ok_or(KeyringError::Line(number))? });
        }
        let mut keys = keys.into_iter();
        Ok(Self { first: keys.next().ok_or(KeyringError::Empty)?, others: keys.collect() })
    }
}

fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_KEY_ID).contains(&text.len()) && text.bytes().all(fits)
}

impl Keyring {
    /// Makes a key with a random id, as the line of a file.
    pub fn new_line() -> Result<String, NoRandomness> {
        let (mut id, mut key) = ([0; 4], [0; KEY_BYTES]);
        rand::fill(&mut id).and_then(|()| rand::fill(&mut key)).map_err(|_| NoRandomness)?;
        Ok(format!("{:08x}:{}\n", u32::from_be_bytes(id), STANDARD.encode(key)))
    }

    fn keys(&self) -> impl Iterator<Item = &SecretKey> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Id of the key that seals.
    pub fn id(&self) -> &str {
        &self.first.id
    }

    /// Seals a secret for one place.
    pub fn seal(&self, place: Place<'_>, secret: &str) -> Result<String, NoRandomness> {
        let mut sealed = secret.as_bytes().to_vec();
        let place = Aad::from(place.authenticated());
        let nonce = self.first.cipher.seal_in_place_append_tag(place, &mut sealed).map_err(|_| NoRandomness)?;
        let bytes = [nonce.as_ref().as_slice(), &sealed].concat();
        Ok(format!("{SEALED}{}:{}", self.first.id, STANDARD.encode(bytes)))
    }

    /// Opens a secret that was sealed for this place.
    pub fn open(&self, place: Place<'_>, sealed: &str) -> Result<String, Unopened> {
        let (id, text) = parts(sealed).ok_or(Unopened::Malformed)?;
        let key = self.keys().find(|key| key.id == id).ok_or_else(|| Unopened::NoKey(id.to_owned()))?;
        let mut bytes = STANDARD.decode(text).map_err(|_| Unopened::Malformed)?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN).ok_or(Unopened::Malformed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Unopened::Malformed)?;
        let opened = key.cipher.open_in_place(nonce, Aad::from(place.authenticated()), sealed);
        let opened = opened.map_err(|_| Unopened::WrongKey(id.to_owned()))?;
        // Only texts are sealed, and the tag says that it is unchanged.
        str::from_utf8(opened).map(str::to_owned).map_err(|_| Unopened::Malformed)
    }
}

/// Id of the key, and base64 of the rest.
fn parts(sealed: &str) -> Option<(&str, &str)> {
    sealed.strip_prefix(SEALED)?.split_once(':')
}

/// Id of the key with which a stored text is sealed; `None` if it is not sealed.
pub fn key_of(stored: &str) -> Option<&str> {
    let sealed = stored.strip_prefix(SEALED)?;
    Some(sealed.split_once(':').map_or(sealed, |(id, _)| id))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'static> = Place { table: "agents", project: "p", row: "a", column: "definition" };

    fn ring(text: &str) -> Keyring {
        text.parse().expect("keys")
    }

    fn line(id: &str, byte: u8) -> String {
        format!("{id}:{}\n", STANDARD.encode([byte; 32]))
    }

    #[test]
    fn the_first_key_seals_and_all_keys_open() {
        let (old, new) = (line("old", 1), line("new", 2));
        let before = ring(&old).seal(PLACE, "a secret é").expect("random");
        assert!(before.starts_with("sealed:1:old:") && !before.contains("secret é"), "{before}");
        let both = ring(&format!("# the keys\n\n{new}  {old}"));
        assert_eq!((both.id(), format!("{both:?}").as_str()), ("new", "[\"new\", \"old\"]"));
        assert_eq!(both.open(PLACE, &before).as_deref(), Ok("a secret é"));
        let after = both.seal(PLACE, "").expect("random");
        assert_eq!((key_of(&after), key_of(&before), key_of("{}")), (Some("new"), Some("old"), None));
        assert_eq!(both.open(PLACE, &after).as_deref(), Ok(""));
        assert_eq!(ring(&old).open(PLACE, &after), Err(Unopened::NoKey("new".to_owned())));
        assert_eq!(ring(&line("old", 3)).open(PLACE, &before), Err(Unopened::WrongKey("old".to_owned())));
        assert_ne!(ring(&old).seal(PLACE, "x"), ring(&old).seal(PLACE, "x"), "the nonce is random");
    }

    #[test]
    fn a_sealed_secret_opens_only_in_its_place_and_unchanged() {
        let ring = ring(&line("k", 1));
        let sealed = ring.seal(PLACE, "secret").expect("random");
        let others = [
            Place { table: "projects", ..PLACE },
            Place { project: "q", ..PLACE },
            Place { row: "b", ..PLACE },
            Place { column: "secrets", ..PLACE },
            Place { project: "", row: "pa", ..PLACE },
            Place { project: "pa", row: "", ..PLACE },
        ];
        for place in others {
            assert_eq!(ring.open(place, &sealed), Err(Unopened::WrongKey("k".to_owned())), "{place:?}");
        }
        let (form, text) = sealed.rsplit_once(':').expect("parts");
        let bytes = STANDARD.decode(text).expect("base64");
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            let changed = format!("{form}:{}", STANDARD.encode(&bytes));
            assert_eq!(ring.open(PLACE, &changed), Err(Unopened::WrongKey("k".to_owned())), "{at}");
        }
        for broken in ["", "secret", "sealed:1:k", "sealed:1:k:", "sealed:1:k:AAAA", "sealed:1:k:?", "sealed:2:k:AAAA"]
        {
            assert_eq!(ring.open(PLACE, broken), Err(Unopened::Malformed), "{broken}");
        }
    }

    #[test]
    fn a_file_of_keys_is_refused_without_being_shown() {
        let good = line("k", 1);
        let cases = [
            (String::new(), KeyringError::Empty),
            ("# none\n".to_owned(), KeyringError::Empty),
            (format!("{good}secret"), KeyringError::Line(2)),
            (format!("{good}x:secret"), KeyringError::Line(2)),
            (format!("x:{}", STANDARD.encode([1; 31])), KeyringError::Line(1)),
            (format!("{good}{good}"), KeyringError::Twice(2)),
            (line("", 1), KeyringError::Id(1)),
            (line("a b", 1), KeyringError::Id(1)),
            (line(&"x".repeat(33), 1), KeyringError::Id(1)),
        ];
        for (text, error) in cases {
            assert!(!error.to_string().contains("secret"));
            assert_eq!(text.parse::<Keyring>().err(), Some(error), "{text}");
        }
        let (one, other) = (Keyring::new_line().expect("random"), Keyring::new_line().expect("random"));
        assert_ne!(one, other);
        let sealed = ring(&one).seal(PLACE, "s").expect("random");
        assert_eq!(ring(&format!("{other}{one}")).open(PLACE, &sealed).as_deref(), Ok("s"));
    }
}
