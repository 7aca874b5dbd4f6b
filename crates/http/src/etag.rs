//! Entity tags (RFC 9110, section 8.8.3) of conversations.

use threadline_core::Version;

/// A version as an entity tag, with its quotes.
pub fn etag(version: Version) -> String {
    format!("\"{}-{}\"", version.epoch, version.seq)
}
