//! Entity tags (RFC 9110, section 8.8.3), and the conditions that name them.

use axum::http::{HeaderMap, HeaderName};
use threadline_core::{Version, limits::MAX_CONDITION_TAGS};

use crate::problem::Problem;

/// A version as an entity tag, with its quotes.
pub fn etag(version: Version) -> String {
    format!("\"{}-{}\"", version.epoch, version.seq)
}

/// Entity tags of a condition's header, from all of its lines.
#[derive(Debug, PartialEq, Eq)]
pub enum Tags {
    /// The tag `*`, which stands for every version.
    Any,
    /// Tags with their quotes, and `W/` before those of weak validators.
    These(Vec<String>),
}

impl Tags {
    /// True if one of them is this tag, by the weak comparison that `If-None-Match` has.
    pub fn have(&self, tag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::These(tags) => tags.iter().any(|each| each.strip_prefix("W/").unwrap_or(each) == tag),
        }
    }
}

/// Parses the entity tags of a condition; `None` without the header.
pub fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    let mut tags = Vec::new();
    for line in headers.get_all(name) {
        let line = line.to_str().map_err(|_| Problem::invalid(format!("{name} is not a list of entity tags")))?;
        tags.extend(line.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned));
    }
    let is_tag = |tag: &String| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"')
    };
    match tags.as_slice() {
        [] if headers.contains_key(name) => Err(Problem::invalid(format!("{name} is empty"))),
        [] => Ok(None),
        [any] if any == "*" => Ok(Some(Tags::Any)),
        some if some.len() > MAX_CONDITION_TAGS => {
            Err(Problem::invalid(format!("{name} has more than {MAX_CONDITION_TAGS} entity tags")))
        }
        some if some.iter().all(is_tag) => Ok(Some(Tags::These(tags))),
        _ => Err(Problem::invalid(format!("{name} must be *, or a list of entity tags, each in quotes"))),
    }
}
