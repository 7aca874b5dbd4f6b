//! Keyed digests: they name a user, or whatever else must not be stored, and nobody without the key can find out whom.

use std::fmt;

use aws_lc_rs::hmac::{self, HMAC_SHA256, Key};

/// Salt of the derivation: keys of other programs from the same bytes are other keys.
const SALT: &[u8] = b"threadline digest 1";

/// Key of digests for one purpose, derived from a secret root by HKDF-SHA-256 (RFC 5869). Its [`fmt::Debug`] form is empty.
#[derive(Clone)]
pub struct DigestKey(Key);

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(digest key)")
    }
}

impl DigestKey {
    /// Derives the key of a purpose, such as `erasure`. Digests of two purposes have nothing in common.
    pub fn derive(root: &str, purpose: &str) -> Self {
        let extracted = hmac::sign(&Key::new(HMAC_SHA256, SALT), root.as_bytes());
        // The key is as long as a block of the expansion, so there is one block, the first.
        let block = hmac::sign(&Key::new(HMAC_SHA256, extracted.as_ref()), &[purpose.as_bytes(), &[1]].concat());
        Self(Key::new(HMAC_SHA256, block.as_ref()))
    }

    /// Digest (HMAC-SHA-256) of the parts, in their order and with their borders.
    pub fn digest(&self, parts: &[&str]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut digest = [0; 32];
        // The tag of HMAC-SHA-256 has 32 bytes.
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};

    use super::*;

    #[test]
    fn the_derivation_is_hkdf() {
        let root = crate::generate().expect("random");
        let extracted = Salt::new(HKDF_SHA256, SALT).extract(root.as_bytes());
        let expected = Key::from(extracted.expand(&[b"erasure"], HMAC_SHA256).expect("short enough"));
        assert_eq!(DigestKey::derive(&root, "erasure").digest(&["p"]), DigestKey(expected).digest(&["p"]));
    }

    #[test]
    fn digests_tell_roots_purposes_and_borders_apart() {
        let of = |root, purpose, parts: &[&str]| DigestKey::derive(root, purpose).digest(parts);
        let digest = of("one", "erasure", &["p", "ann"]);
        assert_eq!(digest, of("one", "erasure", &["p", "ann"]));
        for other in [
            of("two", "erasure", &["p", "ann"]),
            of("one", "cutoffs", &["p", "ann"]),
            of("one", "erasure", &["pa", "nn"]),
            of("one", "erasure", &["ann", "p"]),
            of("one", "erasure", &["pann"]),
        ] {
            assert_ne!(digest, other);
        }
    }
}
