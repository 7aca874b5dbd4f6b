//! Fields of a thread that clients set: their bounds, the text of metadata, and merge patches.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use threadline_core::{
    AgentId, hex,
    limits::{MAX_METADATA_BYTES, MAX_NAME_BYTES},
};
use threadline_store::StoreError;

use crate::{EditThreadError, InvalidRequestError};

pub(super) fn check_name(name: &str) -> Result<(), InvalidRequestError> {
    // Postgres stores no text with U+0000; all back-ends follow the same rule.
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Err(InvalidRequestError::InvalidRequest(format!(
            "name must have 1 to {MAX_NAME_BYTES} bytes and no U+0000"
        )));
    }
    Ok(())
}

pub(super) fn check_metadata(metadata: &str) -> Result<(), InvalidRequestError> {
    if metadata.len() > MAX_METADATA_BYTES {
        return Err(InvalidRequestError::InvalidRequest(format!(
            "metadata exceeds {MAX_METADATA_BYTES} bytes of JSON"
        )));
    }
    Ok(())
}

/// Digest of a create request, which tells its repetition from another request with the same id.
pub(super) fn fingerprint(agent: Option<&AgentId>, name: Option<&str>, metadata: &str) -> String {
    let asked = serde_json::json!([agent, name, metadata]).to_string();
    hex(&Sha256::digest(asked.as_bytes())[..16])
}

pub(super) fn merged(metadata: &str, patch: &Map<String, Value>) -> Result<String, EditThreadError> {
    let mut value = serde_json::from_str(metadata)
        .map_err(|error| StoreError::Corrupt(format!("metadata is not JSON: {error}")))?;
    merge(&mut value, patch);
    let text = canonical(value);
    check_metadata(&text)?;
    Ok(text)
}

/// Text of metadata, independent of the order of members, so that a repeated request is recognized.
pub(super) fn canonical(mut metadata: Value) -> String {
    metadata.sort_all_objects();
    metadata.to_string()
}

/// RFC 7396: members of the patch replace or, if null, remove; objects are merged.
fn merge(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.shift_remove(name);
            }
            Value::Object(inner) => merge(target.entry(name.clone()).or_insert(Value::Null), inner),
            other => {
                target.insert(name.clone(), other.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patch_follows_rfc_7396() {
        let cases = [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":"foo"}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
        ];
        for (mut target, patch, want) in cases {
            merge(&mut target, patch.as_object().expect("object"));
            assert_eq!(target, want);
        }
    }
}
