//! Bytes that are Base64 in JSON.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Bytes that are Base64 with padding in JSON.
#[derive(Debug, Default)]
pub struct Bytes64(pub Vec<u8>);

impl<'de> Deserialize<'de> for Bytes64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let refused = |error| D::Error::custom(format_args!("data is not Base64 with padding: {error}"));
        BASE64_STANDARD.decode(text.as_bytes()).map(Self).map_err(refused)
    }
}

impl Serialize for Bytes64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}
