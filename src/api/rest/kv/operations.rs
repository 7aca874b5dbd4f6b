//! Operations on key-value entries, as a request has them.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use threadline_core::{
    ThreadId,
    kv::{KvFilter, KvKey, KvNamespace, KvPlace, KvWords, LabelPattern, NamespaceMatch, RESERVED_LABEL, Tag, kv_value},
    limits::{
        DEFAULT_KV_PAGE, KV_SCANNED, MAX_KV_CONDITIONS, MAX_KV_LABELS, MAX_KV_LIFE, MAX_KV_OPS, MAX_KV_PAGE,
        MAX_KV_QUERY_BYTES, MAX_KV_WORDS,
    },
};
use threadline_engine::{EntryChange, KvOp, KvSearch, ListNamespaces, PutEntry, WriteEntry};
use threadline_http::{
    cursor::{read_namespace, read_place},
    problem::Problem,
};
use utoipa::ToSchema;

/// Kind of an operation on key-value entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum OpKind {
    /// Reads an entry: `ns`, `key`.
    Get,
    /// Stores an entry: `ns`, `key`, `value`; optional `ttlSeconds`, `ifTag`, `tag`, `threadId`.
    Put,
    /// Removes an entry: `ns`, `key`; optional `ifTag`, `tag`.
    Delete,
    /// Lets an entry expire later, and changes nothing else of it: `ns`, `key`; optional `ttlSeconds`.
    Touch,
    /// Searches entries: optional `prefix`, `filter`, `query`, `limit`, `offset`, `cursor`.
    Search,
    /// Lists namespaces: optional `match`, `maxDepth`, `limit`, `offset`, `cursor`.
    Namespaces,
}

/// End of a namespace that a condition is about.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum MatchKind {
    /// The first labels of a namespace.
    Prefix,
    /// The last labels of a namespace.
    Suffix,
}

/// Condition on the labels of a namespace.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MatchBody {
    kind: MatchKind,
    /// Labels; `*` stands for any.
    path: Vec<String>,
}

/// An operation. Its members depend on `op`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpBody {
    op: OpKind,
    /// The namespace of the entry: up to 16 labels of 1 to 256 bytes, 1,024 bytes together.
    ns: Option<Vec<String>>,
    /// The key of the entry, unique in its namespace: 1 to 512 bytes.
    key: Option<String>,
    /// The value, kept byte for byte: at most 1 MiB of JSON, and not null.
    #[schema(value_type = Option<serde_json::Value>)]
    value: Option<Box<RawValue>>,
    /// The time in seconds after which the entry expires. Default of `touch`: the time that the entry was stored with.
    ttl_seconds: Option<u64>,
    /// The tag that the entry must have; null if there must be no entry. Otherwise the whole batch is refused: 412 `kv-changed`.
    #[serde(default, deserialize_with = "named")]
    #[schema(value_type = Option<String>)]
    if_tag: Option<Option<String>>,
    /// The tag that the entry gets, 1 to 64 bytes, so that the repetition of the request is recognized; by default one that the server
    /// chooses. Of `delete`: the tag by which the same request again is recognized for 24 hours; by default it is not.
    tag: Option<String>,
    /// The thread with which the entry is deleted.
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
    /// The labels with which the namespaces of the entries begin. Default: none.
    prefix: Option<Vec<String>>,
    /// Conditions on the top-level members of the values: a value that is equal as JSON, or an object of `$eq`, `$ne`, `$gt`, `$gte`, `$lt`
    /// and `$lte`; at most 64.
    #[schema(value_type = Option<Object>)]
    filter: Option<BTreeMap<String, Box<RawValue>>>,
    /// Up to 256 different words in 32 KiB. Entries whose texts contain none are left out; those with most of them come first.
    query: Option<String>,
    /// Up to 64 conditions on the namespaces, all of which must hold.
    r#match: Option<Vec<MatchBody>>,
    /// The number of labels after which namespaces are cut.
    max_depth: Option<usize>,
    /// 1 to 1,000. Default 10.
    limit: Option<usize>,
    /// The number of results to leave out, up to 10,000. Default 0. A cursor knows it, and it is ignored with one; with `query` it counts
    /// from the cursor on.
    offset: Option<usize>,
    /// `cursor` of the result before.
    cursor: Option<String>,
}

/// A batch of operations.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KvBody {
    /// 1 to 1,000 operations.
    #[serde(default)]
    #[schema(required)]
    ops: Vec<OpBody>,
}

const _: () = assert!(
    MAX_KV_OPS == 1_000
        && MAX_KV_PAGE == 1_000
        && DEFAULT_KV_PAGE == 10
        && KV_SCANNED == 10_000
        && MAX_KV_WORDS == 256
        && MAX_KV_QUERY_BYTES == 32 * 1_024
        && MAX_KV_CONDITIONS == 64,
    "the API description says so"
);

/// A member that may be null: `Some(None)`.
pub(in crate::api::rest) fn named<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl OpBody {
    /// Names of the members that are there, besides `op`.
    fn members(&self) -> impl Iterator<Item = &'static str> {
        let there = [
            ("ns", self.ns.is_some()),
            ("key", self.key.is_some()),
            ("value", self.value.is_some()),
            ("ttlSeconds", self.ttl_seconds.is_some()),
            ("ifTag", self.if_tag.is_some()),
            ("tag", self.tag.is_some()),
            ("threadId", self.thread_id.is_some()),
            ("prefix", self.prefix.is_some()),
            ("filter", self.filter.is_some()),
            ("query", self.query.is_some()),
            ("match", self.r#match.is_some()),
            ("maxDepth", self.max_depth.is_some()),
            ("limit", self.limit.is_some()),
            ("offset", self.offset.is_some()),
            ("cursor", self.cursor.is_some()),
        ];
        there.into_iter().filter(|(_, there)| *there).map(|(name, _)| name)
    }

    /// Checks the operation; the error says what is wrong.
    pub(in crate::api::rest) fn operation(self) -> Result<KvOp, String> {
        let (name, known): (_, &[&str]) = match self.op {
            OpKind::Get => ("get", &["ns", "key"]),
            OpKind::Put => ("put", &["ns", "key", "value", "ttlSeconds", "ifTag", "tag", "threadId"]),
            OpKind::Delete => ("delete", &["ns", "key", "ifTag", "tag"]),
            OpKind::Touch => ("touch", &["ns", "key", "ttlSeconds"]),
            OpKind::Search => ("search", &["prefix", "filter", "query", "limit", "offset", "cursor"]),
            OpKind::Namespaces => ("namespaces", &["match", "maxDepth", "limit", "offset", "cursor"]),
        };
        if let Some(other) = self.members().find(|member| !known.contains(member)) {
            return Err(format!("{name} has no member {other:?}; its members are {}", known.join(", ")));
        }
        match self.op {
            OpKind::Get => Ok(KvOp::Get(place(self.ns, self.key)?)),
            OpKind::Put => {
                let value = self.value.ok_or("put needs a value, which is not null")?;
                let put = PutEntry {
                    value: kv_value(&value).map_err(|error| error.to_string())?,
                    tag: self.tag.map(tag).transpose()?,
                    life: self.ttl_seconds.map(life).transpose()?,
                    thread: self.thread_id,
                };
                write(self.ns, self.key, self.if_tag, EntryChange::Put(put))
            }
            OpKind::Delete => {
                write(self.ns, self.key, self.if_tag, EntryChange::Delete(self.tag.map(tag).transpose()?))
            }
            OpKind::Touch => {
                write(self.ns, self.key, None, EntryChange::Touch(self.ttl_seconds.map(life).transpose()?))
            }
            OpKind::Search => {
                let filter = self.filter.map(KvFilter::new).transpose().map_err(|error| error.to_string())?;
                let words = self.query.as_deref().map(KvWords::new).transpose().map_err(|error| error.to_string())?;
                let words = words.flatten();
                let asked = offset(self.offset)?;
                let cursor = self.cursor.as_deref().map(read_place).transpose().map_err(|problem| problem.detail)?;
                let (after, left) = begin(cursor, asked);
                Ok(KvOp::Search(KvSearch {
                    prefix: namespace(self.prefix.unwrap_or_default())?,
                    filter: filter.unwrap_or_default(),
                    limit: limit(self.limit)?,
                    // Pages of the entries that one search has compared have the same cursor.
                    offset: if words.is_some() { asked } else { left },
                    words,
                    after,
                }))
            }
            OpKind::Namespaces => {
                let conditions = self.r#match.unwrap_or_default();
                if conditions.len() > MAX_KV_CONDITIONS {
                    return Err(format!("match has {} conditions, but at most {MAX_KV_CONDITIONS}", conditions.len()));
                }
                let matching = conditions.into_iter().map(condition).collect::<Result<_, _>>()?;
                if self.max_depth == Some(0) {
                    return Err("maxDepth is 0, but must be at least 1".to_owned());
                }
                let cursor = self.cursor.as_deref().map(read_namespace).transpose();
                let (after, offset) = begin(cursor.map_err(|problem| problem.detail)?, offset(self.offset)?);
                Ok(KvOp::Namespaces(ListNamespaces {
                    matching,
                    max_depth: self.max_depth,
                    limit: limit(self.limit)?,
                    offset,
                    after,
                }))
            }
        }
    }
}

/// Place behind which a list begins, and the number of results to leave out there: a cursor knows both.
fn begin<P>(cursor: Option<(P, usize)>, offset: usize) -> (Option<P>, usize) {
    cursor.map_or((None, offset), |(place, left)| (Some(place), left))
}

fn place(ns: Option<Vec<String>>, key: Option<String>) -> Result<KvPlace, String> {
    let ns = namespace(ns.ok_or("ns is missing: the namespace, a list of labels")?)?;
    let key = KvKey::new(key.ok_or("key is missing: the key in the namespace")?).map_err(|error| error.to_string())?;
    Ok(KvPlace { ns, key })
}

fn namespace(labels: Vec<String>) -> Result<KvNamespace, String> {
    KvNamespace::new(&labels).map_err(|error| error.to_string())
}

fn tag(text: String) -> Result<Tag, String> {
    Tag::new(text).map_err(|error| error.to_string())
}

fn write(
    ns: Option<Vec<String>>,
    key: Option<String>,
    if_tag: Option<Option<String>>,
    change: EntryChange,
) -> Result<KvOp, String> {
    let if_tag = if_tag.map(|wanted| wanted.map(tag).transpose()).transpose()?;
    let place = place(ns, key)?;
    if place.ns.is_reserved() {
        let label = place.ns.labels().first().copied().unwrap_or_default().to_owned();
        return Err(format!(
            "the namespace begins with the label {label:?}: only the server writes entries below {RESERVED_LABEL}*; choose another label"
        ));
    }
    Ok(KvOp::Write(WriteEntry { place, if_tag, change }))
}

fn life(seconds: u64) -> Result<Duration, String> {
    let most = MAX_KV_LIFE.as_secs();
    if !(1..=most).contains(&seconds) {
        return Err(format!("ttlSeconds is {seconds}, but must be from 1 to {most}"));
    }
    Ok(Duration::from_secs(seconds))
}

fn limit(limit: Option<usize>) -> Result<usize, String> {
    match limit.unwrap_or(DEFAULT_KV_PAGE) {
        limit @ 1..=MAX_KV_PAGE => Ok(limit),
        other => Err(format!("limit is {other}, but must be from 1 to {MAX_KV_PAGE}")),
    }
}

fn offset(offset: Option<usize>) -> Result<usize, String> {
    match offset.unwrap_or(0) {
        offset @ 0..=KV_SCANNED => Ok(offset),
        other => Err(format!("offset is {other}, but must be at most {KV_SCANNED}")),
    }
}

fn condition(body: MatchBody) -> Result<NamespaceMatch, String> {
    if body.path.len() > MAX_KV_LABELS {
        return Err(format!("the path of a match has {} labels, but at most {MAX_KV_LABELS}", body.path.len()));
    }
    let pattern = |label: String| if label == "*" { LabelPattern::Any } else { LabelPattern::Is(label) };
    let path = body.path.into_iter().map(pattern).collect();
    Ok(match body.kind {
        MatchKind::Prefix => NamespaceMatch::Prefix(path),
        MatchKind::Suffix => NamespaceMatch::Suffix(path),
    })
}

impl KvBody {
    /// Checks the operations, and returns them in order.
    pub(super) fn operations(self) -> Result<Vec<KvOp>, Problem> {
        if !(1..=MAX_KV_OPS).contains(&self.ops.len()) {
            return Err(Problem::invalid(format!(
                "ops has {} operations, but must have 1 to {MAX_KV_OPS}",
                self.ops.len()
            )));
        }
        let ops = self.ops.into_iter().enumerate().map(|(index, op)| {
            op.operation().map_err(|detail| Problem::invalid(format!("operation {index}: {detail}")))
        });
        ops.collect()
    }
}
