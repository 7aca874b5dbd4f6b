//! Identifiers: opaque strings of 1–256 bytes without control characters (not `.` or `..`), made by clients or by
//! Threadline (UUIDv7).

use std::{
    borrow::{Borrow, Cow},
    fmt,
    sync::Arc,
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

use super::limits::MAX_ID_BYTES;

/// Reason for which a text cannot be an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty.
    #[error("an ID must not be empty")]
    Empty,
    /// The text is longer than [`MAX_ID_BYTES`].
    #[error("an ID must not exceed {MAX_ID_BYTES} bytes")]
    TooLong,
    /// The text holds a control character.
    #[error("an ID must not contain control characters")]
    ControlCharacter,
    /// The text is `.` or `..`, which no URL can carry as a path segment (RFC 3986, section 5.2.4).
    #[error("an ID must not be \".\" or \"..\"")]
    DotSegment,
}

/// True if all bytes are printable ASCII. Looks at every byte, without a branch for each.
fn is_printable_ascii(text: &str) -> bool {
    text.bytes().fold(true, |so_far, byte| so_far & matches!(byte, b' '..=b'~'))
}

fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        Err(IdError::Empty)
    } else if text.len() > MAX_ID_BYTES {
        Err(IdError::TooLong)
    } else if !is_printable_ascii(text) && text.chars().any(char::is_control) {
        Err(IdError::ControlCharacter)
    } else if matches!(text, "." | "..") {
        Err(IdError::DotSegment)
    } else {
        Ok(())
    }
}

/// Visitor that reads an id without an intermediate copy of its text.
struct IdVisitor<F>(F);

impl<T, F: FnOnce(&str) -> Result<T, IdError>> Visitor<'_> for IdVisitor<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

/// Text of an identifier, checked but not copied yet.
#[derive(Debug)]
pub struct IdText<'a>(Cow<'a, str>);

impl IdText<'_> {
    /// Checked text of the identifier, 1 to 256 bytes.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for IdText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(IdTextVisitor)
    }
}

struct IdTextVisitor;

impl<'de> Visitor<'de> for IdTextVisitor {
    type Value = IdText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<IdText<'de>, E> {
        check(text).map_err(E::custom)?;
        Ok(IdText(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<IdText<'de>, E> {
        check(text).map_err(E::custom)?;
        Ok(IdText(Cow::Owned(text.to_owned())))
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses an identifier. Fails with an [`IdError`] if the text is empty, too long, a dot segment, or holds
            /// a control character.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                check(text.as_ref())?;
                Ok(Self(Arc::from(text.as_ref())))
            }

            /// Makes a fresh, time-ordered identifier (UUIDv7).
            pub fn generate() -> Self {
                Self(Arc::from(uuid::Uuid::now_v7().to_string()))
            }

            /// Text of the identifier, 1 to 256 bytes.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(IdVisitor(|text: &str| Self::new(text)))
            }
        }

        impl From<&IdText<'_>> for $name {
            fn from(text: &IdText<'_>) -> Self {
                Self(Arc::from(text.as_str()))
            }
        }

        // `Borrow` requires that an id hashes and compares as its text does.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }
    };
}

text_id!(
    /// Id of a project: the tenant that owns threads, users, keys and agents.
    ProjectId
);
text_id!(
    /// Id of the end user that a thread belongs to.
    UserId
);
text_id!(
    /// Id of a thread, unique within its project.
    ThreadId
);
text_id!(
    /// Id of a run, unique within its thread for ever.
    RunId
);
text_id!(
    /// Id of an attempt at a producer's run: one for each process that produces it.
    AttemptId
);
text_id!(
    /// Id of an agent, which is its name.
    AgentId
);
text_id!(
    /// Id of an annotation, unique within its thread.
    AnnotationId
);
text_id!(
    /// Id of a tool call, as the event that began the call names it.
    ToolCallId
);
text_id!(
    /// Id that a client gives itself, to be known by the claims that it holds.
    ClientId
);
text_id!(
    /// Id of an API key, by which people and the audit log name it; not the key itself.
    KeyId
);

/// Number that the store gives to one incarnation of a thread. Never used twice, so a write that was meant for a
/// deleted thread cannot touch the thread made later under the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey(pub i64);

/// Number that grows with every run of a thread (and with its deletion). The store refuses a writer that carries an old
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(pub i64);

/// Number that a driver of a run gets, above those of the run's earlier drivers. The store refuses a driver that carries
/// an old one. The attempts of a producer's run have the numbers from 0 downwards, which no driver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DriverFence(pub i64);

impl DriverFence {
    /// The number of attempt 1 at a run that the server does not drive.
    pub const NONE: Self = Self(0);

    /// The number of an attempt at a producer's run; attempts count from 1.
    pub fn of_attempt(attempt: u64) -> Self {
        Self(1_i64.saturating_sub_unsigned(attempt))
    }
}

/// Fences that a write carries: those of its run, and of the run's driver. A write is refused if either is not that of the
/// active run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteFence {
    /// Fence of the run.
    pub run: Fence,
    /// Fence of the run's driver.
    pub driver: DriverFence,
}

impl From<Fence> for WriteFence {
    /// A write of the first attempt at a run that the server does not drive.
    fn from(run: Fence) -> Self {
        Self { run, driver: DriverFence::of_attempt(run.first_attempt()) }
    }
}

/// One incarnation of a thread's log. Opaque to clients: epochs may be compared for equality only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(i64);

impl Epoch {
    /// Epoch of a feed that has no entry yet. No log has it.
    pub const NONE: Self = Self(0);

    /// Makes a fresh epoch that no other log has.
    pub fn generate() -> Self {
        // Random part of a v4 UUID, shifted so that the number is positive in the stores' signed column.
        Self((uuid::Uuid::new_v4().as_u64_pair().1 >> 2) as i64)
    }

    /// Number that the store keeps for this epoch.
    pub fn to_i64(self) -> i64 {
        self.0
    }

    /// Epoch of a number that the store has kept.
    pub fn from_i64(number: i64) -> Self {
        Self(number)
    }

    /// Epoch that a client names. A text that is no epoch of Threadline's becomes an epoch that no log has.
    pub fn named(text: &str) -> Self {
        Self::parse(text).unwrap_or(Self(-1))
    }

    /// Reads the form that [`fmt::Display`] writes: 16 hexadecimal digits. `None` for any other text, which is no epoch
    /// of Threadline's.
    pub fn parse(text: &str) -> Option<Self> {
        // The number's own parser would accept a sign.
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        digits.then(|| i64::from_str_radix(text, 16).ok().map(Self))?
    }
}

impl Serialize for Epoch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = IdText::deserialize(deserializer)?;
        let epoch = Self::parse(text.as_str()).filter(|epoch| epoch.to_string() == text.as_str());
        epoch.ok_or_else(|| de::Error::custom("not an epoch"))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked_at_the_edge() {
        assert_eq!(ThreadId::new(""), Err(IdError::Empty));
        assert_eq!(ThreadId::new(".."), Err(IdError::DotSegment));
        assert_eq!(ThreadId::new("a\nb"), Err(IdError::ControlCharacter));
        assert_eq!(ThreadId::new("é".repeat(128)).map(|id| id.as_str().len()), Ok(256));
        assert_eq!(ThreadId::new("a".repeat(257)), Err(IdError::TooLong));
    }

    #[test]
    fn an_epoch_survives_its_text_form() {
        let epoch = Epoch::generate();
        assert_eq!(Epoch::parse(&epoch.to_string()), Some(epoch));
        assert_eq!(Epoch::named(&epoch.to_string()), epoch);
        assert_ne!(Epoch::named("short"), Epoch::generate());
        assert_eq!(Epoch::parse("short"), None);
        assert_eq!(Epoch::parse("zzzzzzzzzzzzzzzz"), None);
        assert_eq!(Epoch::parse("-206120615618428"), None);
        assert_eq!(Epoch::parse("+000000000000001"), None);
    }
}
