//! Media in the content of messages: parts of AG-UI that are no text.

use serde_json::{Value, json};

/// Medium of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Media {
    pub media_type: String,
    /// URL; a `data:` URL for a part that has the data itself.
    pub url: String,
    pub filename: Option<String>,
}

impl Media {
    /// Reads a part; `None` for a text, and for a part without URL and data.
    pub fn read(part: &Value) -> Option<Self> {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let kind = text(part, "type").filter(|kind| kind != "text")?;
        // `binary` is the form before AG-UI 1.0, in which the part itself has the data.
        let source = part.get("source").unwrap_or(part);
        let media_type = text(source, "mimeType").or_else(|| text(part, "mimeType"));
        let media_type = media_type
            .unwrap_or_else(|| if kind == "image" { "image/*" } else { "application/octet-stream" }.to_owned());
        let value = text(source, "value");
        let url = match text(source, "type").as_deref() {
            Some("data") => format!("data:{media_type};base64,{}", value?),
            Some("url") => value?,
            _ => {
                let inline = || Some(format!("data:{media_type};base64,{}", text(source, "data")?));
                text(source, "url").or_else(inline)?
            }
        };
        let filename = text(part, "filename").or_else(|| text(part.get("metadata")?, "filename"));
        Some(Self { media_type, url, filename })
    }
}

/// Kind of the part for a medium of this type.
pub(super) fn kind_of(media_type: &str) -> &'static str {
    let named = |kind: &&str| media_type.strip_prefix(*kind).is_some_and(|rest| rest.starts_with('/'));
    ["image", "audio", "video"].into_iter().find(named).unwrap_or("document")
}

/// Type and data of a `data:` URL in base64; `None` for any other URL.
pub(super) fn inline(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}

/// Source of a part with this URL. A type of the caller comes before that of a `data:` URL.
pub(super) fn source(url: &str, media_type: Option<&str>) -> Value {
    match (inline(url), media_type) {
        (Some((named, data)), given) => json!({ "type": "data", "value": data, "mimeType": given.unwrap_or(named) }),
        (None, Some(given)) => json!({ "type": "url", "value": url, "mimeType": given }),
        (None, None) => json!({ "type": "url", "value": url }),
    }
}
