//! Secrets that Threadline makes: long, random, recognisable, and kept as their SHA-256 only.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::domain::Digest;

/// Begins an API key.
pub const KEY_PREFIX: &str = "tl_";
/// Begins a socket ticket.
pub const TICKET_PREFIX: &str = "tlt_";

/// Begins a token that lets a socket join a thread.
pub const JOIN_PREFIX: &str = "tlj_";

/// The machine gives no randomness; nothing can be made secret then.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the machine gives no random numbers")]
pub struct NoRandomness;

/// 256 random bits as text, behind a prefix by which people and scanners know what it is.
pub fn generate(prefix: &str) -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// What is kept of a secret.
pub fn digest(secret: &str) -> Digest {
    Digest(Sha256::digest(secret.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_say_what_they_are() {
        let (one, other) = (generate(KEY_PREFIX).expect("random"), generate(KEY_PREFIX).expect("random"));
        assert!(one.starts_with("tl_") && one.len() == 3 + 43 && one != other);
        assert_ne!(digest(&one), digest(&other));
    }
}
