//! Secrets at rest: a keyring seals them before they are stored, and opens them afterwards. The crate knows no store: the
//! stores call it.
//!
//! ```text
//!   sealed : 1 : <id of the key> : <base64 of nonce (12), ciphertext, tag (16)>       AES-256-GCM
//! ```

#![warn(missing_docs)]

mod digest;
mod keyring;

pub use digest::DigestKey;
pub use keyring::{Keyring, KeyringError, Place, Unopened, key_of};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// The machine gives no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system provides no random numbers")]
pub struct NoRandomness;

/// Makes a secret of 256 random bits, as text.
pub fn generate() -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
