//! REST routes of item lists.

use axum::{
    Json as Answer,
    extract::{Request, State},
    response::Response,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{
    Principal, ThreadId,
    items::{Item, ItemRange, ListAnswer, ListName, OpKey},
    kv::Tag,
    limits::{DEFAULT_ITEM_PAGE, MAX_ITEM_BYTES, MAX_ITEM_PAGE, MAX_JSON_DEPTH, MAX_LIST_KV_OPS},
};
use threadline_engine::{ChangeList, EditList, KvOp};
use threadline_http::{
    extract::{Caller, InList, Params},
    problem::{Problem, ProblemDocument, ProblemType},
};
use utoipa::{IntoParams, IntoResponses, ToSchema};

use super::{
    agent_data::{body, invalid},
    kv::operations::{OpBody, named},
};
use crate::api::ApiState;

/// Part of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ItemsParams {
    /// 1 to 1,000. Default 100.
    limit: Option<usize>,
    /// Items before this position, the last ones.
    before: Option<u64>,
    /// Items after this position, the first ones. Neither `before` nor `after`: the newest items.
    after: Option<u64>,
}

/// An item of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct ItemView {
    /// The position, from 1. Positions grow, and none is used twice.
    pos: u64,
    /// The item, byte for byte.
    #[schema(value_type = serde_json::Value)]
    item: Box<RawValue>,
}

impl From<Item> for ItemView {
    fn from(item: Item) -> Self {
        // The store holds an item that was JSON on arrival.
        Self { pos: item.pos, item: RawValue::from_string(item.body).unwrap_or_default() }
    }
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemsView {
    list: String,
    /// The tag of the last operation; null if there is no list.
    #[schema(required)]
    tag: Option<String>,
    /// The number of items of the list.
    count: u64,
    /// Items, the oldest first.
    items: Vec<ItemView>,
    /// True if the list has further items in the direction of the page.
    has_more: bool,
}

/// A request to add items to a list, or to replace all of them.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ItemsBody {
    /// The key of the operation, 1 to 128 bytes: the same request again is recognized by it for 24 hours.
    #[schema(required)]
    key: Option<String>,
    /// JSON values, each at most 8 MiB.
    #[serde(default)]
    #[schema(required, value_type = Vec<serde_json::Value>)]
    items: Vec<Box<RawValue>>,
    /// The tag that the list must have; null if there must be no list. Otherwise 412 `items-changed`.
    #[serde(default, deserialize_with = "named")]
    #[schema(value_type = Option<String>)]
    if_tag: Option<Option<String>>,
    /// Operations `put`, `delete` and `touch` on key-value entries, up to 100, in the same commit.
    #[serde(default)]
    kv: Vec<OpBody>,
}

/// A request to remove items from the end of a list.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PopBody {
    /// The key of the operation, 1 to 128 bytes: the same request again gets the same items for 24 hours.
    #[schema(required)]
    key: Option<String>,
    /// The number of items, 1 to 1,000. Default 1.
    count: Option<u64>,
    /// The tag that the list must have. Otherwise 412 `items-changed`.
    #[serde(default, deserialize_with = "named")]
    #[schema(value_type = Option<String>)]
    if_tag: Option<Option<String>>,
}

/// A request to add the items of another list.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CopyBody {
    /// The key of the operation, 1 to 128 bytes: the same request again is recognized by it for 24 hours.
    #[schema(required)]
    key: Option<String>,
    /// The thread of the other list, which belongs to the same user.
    #[schema(required, value_type = String)]
    from_thread_id: Option<ThreadId>,
    /// The name of the other list.
    #[schema(required)]
    from_list: Option<String>,
    /// The last position that is copied. Default: all items.
    upto_pos: Option<u64>,
    /// The tag that the list must have; null if there must be no list. Otherwise 412 `items-changed`.
    #[serde(default, deserialize_with = "named")]
    #[schema(value_type = Option<String>)]
    if_tag: Option<Option<String>>,
}

/// Answer of an operation that adds items.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddedView {
    /// The position of the first item that was added; null if none was.
    #[schema(required)]
    first_pos: Option<u64>,
    /// The position of the last one.
    #[schema(required)]
    last_pos: Option<u64>,
    /// The number of items of the list.
    count: u64,
    /// The tag of the list.
    #[schema(required)]
    tag: Option<String>,
}

impl From<ListAnswer> for AddedView {
    fn from(answer: ListAnswer) -> Self {
        let (first_pos, last_pos) = answer.range.unzip();
        Self { first_pos, last_pos, count: answer.count, tag: answer.tag.map(|tag| tag.as_str().to_owned()) }
    }
}

/// Items that were removed.
#[derive(Debug, Serialize, ToSchema)]
pub struct PoppedView {
    /// The removed items, the oldest first.
    items: Vec<ItemView>,
    /// The number of items that are left.
    count: u64,
    /// The tag of the list.
    #[schema(required)]
    tag: Option<String>,
}

const _: () = assert!(
    DEFAULT_ITEM_PAGE == 100 && MAX_ITEM_PAGE == 1_000 && MAX_LIST_KV_OPS == 100,
    "the API description says so"
);

fn op_key(key: Option<String>) -> Result<OpKey, Problem> {
    OpKey::new(key.ok_or_else(|| Problem::invalid("key is missing: the key of the operation"))?).map_err(invalid)
}

fn if_tag(wanted: Option<Option<String>>) -> Result<Option<Option<Tag>>, Problem> {
    wanted.map(|wanted| wanted.map(Tag::new).transpose()).transpose().map_err(invalid)
}

/// An item on one line: only CR and LF outside of strings are changed.
fn item(index: usize, item: &RawValue) -> Result<String, Problem> {
    let text = item.get();
    if text.len() > MAX_ITEM_BYTES {
        let detail = format!("item {index} has {} bytes, and at most {MAX_ITEM_BYTES} are stored", text.len());
        return Err(Problem::new(ProblemType::TooLarge, detail));
    }
    if threadline_core::json::depth(text.as_bytes(), MAX_JSON_DEPTH) > MAX_JSON_DEPTH {
        return Err(Problem::invalid(format!("item {index} is nested deeper than {MAX_JSON_DEPTH} levels")));
    }
    Ok(text.replace(['\r', '\n'], " "))
}

impl ItemsBody {
    fn change(self, edit: impl FnOnce(Vec<String>) -> EditList) -> Result<ChangeList, Problem> {
        let items = self.items.iter().enumerate().map(|(index, value)| item(index, value));
        let items = items.collect::<Result<Vec<_>, _>>()?;
        if self.kv.len() > MAX_LIST_KV_OPS {
            return Err(Problem::invalid(format!(
                "kv has {} operations, but at most {MAX_LIST_KV_OPS}",
                self.kv.len()
            )));
        }
        let mut kv = Vec::with_capacity(self.kv.len());
        for (index, op) in self.kv.into_iter().enumerate() {
            match op.operation() {
                Ok(KvOp::Write(write)) => kv.push(write),
                Ok(_) => return Err(Problem::invalid(format!("kv, operation {index}: only put, delete and touch"))),
                Err(detail) => return Err(Problem::invalid(format!("kv, operation {index}: {detail}"))),
            }
        }
        Ok(ChangeList { key: op_key(self.key)?, if_tag: if_tag(self.if_tag)?, edit: edit(items), kv })
    }
}

/// Reads a part of an item list: what a framework keeps in order with the thread. For API keys with the scope `produce`.
#[utoipa::path(get, path = "/v1/threads/{threadId}/items/{list}", tag = "agent data",
    params(("threadId" = String, Path), ("list" = String, Path), ItemsParams), responses(
    (status = 200, description = "A page; of a list that does not exist, an empty one", body = ItemsView),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn read(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InList(thread, list): InList,
    Params(params): Params<ItemsParams>,
) -> Result<Response, Problem> {
    let list = ListName::new(list).map_err(invalid)?;
    let limit = params.limit.unwrap_or(DEFAULT_ITEM_PAGE);
    if !(1..=MAX_ITEM_PAGE).contains(&limit) {
        return Err(Problem::invalid(format!("limit is {limit}, but must be from 1 to {MAX_ITEM_PAGE}")));
    }
    let range = match (params.before, params.after) {
        (None, None) => ItemRange::Newest,
        (Some(before), None) => ItemRange::Before(before),
        (None, Some(after)) => ItemRange::After(after),
        (Some(_), Some(_)) => return Err(Problem::invalid("before and after exclude each other: name one of them")),
    };
    let make = async || {
        let read = state.service.items.read(&principal, &thread, &list, range, limit).await?;
        let (found, items) = read.page;
        let (tag, count) = found.map_or((None, 0), |found| (Some(found.tag.as_str().to_owned()), found.count));
        let items = items.into_iter().map(ItemView::from).collect();
        let view = ItemsView { list: list.as_str().to_owned(), tag, count, items, has_more: read.has_more };
        // Serialization fails only for keys that are not strings, and no view has such keys.
        Ok::<_, Problem>(serde_json::to_vec(&view).unwrap_or_default())
    };
    state.http.responses.json(&principal, make).await
}

/// Refusals of an operation that adds items.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only a description")]
pub enum NotAdded {
    #[response(status = 400, description = "Invalid request")]
    Invalid(ProblemDocument),
    #[response(status = 404, description = "Thread not found")]
    NotFound(ProblemDocument),
    #[response(status = 412, description = "List or entry changed")]
    Changed(ProblemDocument),
    #[response(status = 413, description = "Too large: the request, an item, the list or the data of the thread")]
    TooLarge(ProblemDocument),
    #[response(status = 422, description = "Another operation has the key")]
    Conflict(ProblemDocument),
    #[response(status = 507, description = "Storage full")]
    Full(ProblemDocument),
}

async fn add(
    state: &ApiState,
    principal: &Principal,
    InList(thread, list): InList,
    change: ChangeList,
) -> Result<Answer<AddedView>, Problem> {
    let list = ListName::new(list).map_err(invalid)?;
    let (answer, _) = state.service.items.change(principal, &thread, &list, &change).await?;
    Ok(Answer(answer.into()))
}

/// Adds items at the end of a list, all or none. A list begins with its first operation.
#[utoipa::path(post, path = "/v1/threads/{threadId}/items/{list}", tag = "agent data",
    params(("threadId" = String, Path), ("list" = String, Path)), request_body = ItemsBody, responses(
    (status = 200, description = "The items are stored", body = AddedView), NotAdded))]
pub async fn append(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    place: InList,
    request: Request,
) -> Result<Answer<AddedView>, Problem> {
    let change = body::<ItemsBody>(&state, &principal, request).await?.change(EditList::Append)?;
    add(&state, &principal, place, change).await
}

/// Replaces all items of a list.
#[utoipa::path(put, path = "/v1/threads/{threadId}/items/{list}", tag = "agent data",
    params(("threadId" = String, Path), ("list" = String, Path)), request_body = ItemsBody, responses(
    (status = 200, description = "The items are stored", body = AddedView), NotAdded))]
pub async fn replace(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    place: InList,
    request: Request,
) -> Result<Answer<AddedView>, Problem> {
    let change = body::<ItemsBody>(&state, &principal, request).await?.change(EditList::Replace)?;
    add(&state, &principal, place, change).await
}

/// Removes items from the end of a list, and returns them. The same request again returns the same items.
#[utoipa::path(post, path = "/v1/threads/{threadId}/items/{list}/pop", tag = "agent data",
    params(("threadId" = String, Path), ("list" = String, Path)), request_body = PopBody, responses(
    (status = 200, description = "The removed items", body = PoppedView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 412, description = "List changed", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 422, description = "Another operation has the key", body = ProblemDocument)))]
pub async fn pop(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InList(thread, list): InList,
    request: Request,
) -> Result<Answer<PoppedView>, Problem> {
    let list = ListName::new(list).map_err(invalid)?;
    let asked: PopBody = body(&state, &principal, request).await?;
    let count = asked.count.unwrap_or(1);
    if !(1..=MAX_ITEM_PAGE as u64).contains(&count) {
        return Err(Problem::invalid(format!("count is {count}, but must be from 1 to {MAX_ITEM_PAGE}")));
    }
    let (key, if_tag) = (op_key(asked.key)?, if_tag(asked.if_tag)?);
    let change = ChangeList { key, if_tag, edit: EditList::Pop(count), kv: Vec::new() };
    let (answer, items) = state.service.items.change(&principal, &thread, &list, &change).await?;
    let tag = answer.tag.map(|tag| tag.as_str().to_owned());
    Ok(Answer(PoppedView { items: items.into_iter().map(ItemView::from).collect(), count: answer.count, tag }))
}

/// Adds the items of another list of the same user, up to a position.
#[utoipa::path(post, path = "/v1/threads/{threadId}/items/{list}/copy", tag = "agent data",
    params(("threadId" = String, Path), ("list" = String, Path)), request_body = CopyBody, responses(
    (status = 200, description = "The items are stored", body = AddedView), NotAdded))]
pub async fn copy(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    place: InList,
    request: Request,
) -> Result<Answer<AddedView>, Problem> {
    let asked: CopyBody = body(&state, &principal, request).await?;
    let missing = |what: &str| Problem::invalid(format!("{what} of the other list"));
    let from = asked.from_thread_id.ok_or_else(|| missing("fromThreadId is missing: the thread"))?;
    let from_list = asked.from_list.ok_or_else(|| missing("fromList is missing: the name"))?;
    let edit = EditList::Copy { from, list: ListName::new(from_list).map_err(invalid)?, upto: asked.upto_pos };
    let change = ChangeList { key: op_key(asked.key)?, if_tag: if_tag(asked.if_tag)?, edit, kv: Vec::new() };
    add(&state, &principal, place, change).await
}
