//! Secrets that Threadline makes: 256 random bits, recognisable by their prefix, and stored only as SHA-256.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use threadline_core::Digest;

/// Prefix of an API key.
pub const KEY_PREFIX: &str = "tl_";
/// Prefix of a socket ticket.
pub const TICKET_PREFIX: &str = "tlt_";

/// Prefix of a token with which a socket joins a thread.
pub const JOIN_PREFIX: &str = "tlj_";

/// The machine gives no random numbers, so that no secret can be made.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the operating system provides no random numbers")]
pub struct NoRandomness;

/// Makes 256 random bits as text, behind a prefix by which people and scanners recognise the kind.
pub fn generate(prefix: &str) -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// SHA-256 of a secret, the only form in which it is stored.
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
