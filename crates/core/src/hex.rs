//! Hexadecimal text of digests and other bytes.

/// Hexadecimal digits of bytes, in lower case, two for each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
