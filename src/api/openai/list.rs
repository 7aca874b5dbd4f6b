//! Lists of items, page by page.

use serde::Serialize;
use serde_json::value::RawValue;
use threadline_core::json;
use threadline_http::problem::Problem;
use utoipa::ToSchema;

use super::{
    errors::invalid,
    parameters::{ListParams, Order},
};

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListView {
    #[schema(example = "list")]
    object: &'static str,
    #[schema(value_type = Vec<Object>)]
    data: Vec<Box<RawValue>>,
    /// The id of the first item; null for an empty page.
    #[schema(required)]
    first_id: Option<String>,
    /// The id of the last item; null for an empty page.
    #[schema(required)]
    last_id: Option<String>,
    /// True if the list goes on.
    has_more: bool,
}

/// Id of an item.
fn id_of(item: &str) -> Option<String> {
    json::string_member(item, "id")
}

impl ListView {
    /// All items in one page.
    pub fn all(items: Vec<String>) -> Self {
        Self::of(items, false)
    }

    /// The page that a request asks for. `groups` has the items of each message, oldest first. Only groups up to the end of the page are
    /// made.
    pub fn page<I>(groups: I, params: &ListParams) -> Result<Self, Problem>
    where
        I: DoubleEndedIterator<Item = Vec<String>>,
    {
        let mut page = Page { begun: params.after.is_none(), params, items: Vec::new(), more: false };
        match params.order {
            Order::Asc => groups.flatten().take_while(|item| !page.is_full(item)).for_each(drop),
            Order::Desc => {
                let newest_first = groups.rev().flat_map(|group| group.into_iter().rev());
                newest_first.take_while(|item| !page.is_full(item)).for_each(drop);
            }
        }
        if !page.begun {
            let after = params.after.as_deref().unwrap_or_default();
            let shown = &after[..after.floor_char_boundary(128)];
            return Err(invalid("after", format!("the list has no item with the id {shown:?}")));
        }
        Ok(Self::of(page.items, page.more))
    }

    fn of(items: Vec<String>, has_more: bool) -> Self {
        let (first_id, last_id) =
            (items.first().and_then(|item| id_of(item)), items.last().and_then(|item| id_of(item)));
        let data = items.into_iter().filter_map(|item| RawValue::from_string(item).ok()).collect();
        Self { object: "list", data, first_id, last_id, has_more }
    }
}

struct Page<'p> {
    params: &'p ListParams,
    /// True after the item that precedes the page.
    begun: bool,
    items: Vec<String>,
    more: bool,
}

impl Page<'_> {
    /// Takes in the next item; true if the page is full without it.
    fn is_full(&mut self, item: &str) -> bool {
        if !self.begun {
            self.begun = id_of(item) == self.params.after;
            return false;
        }
        self.more = self.items.len() == self.params.limit;
        if !self.more {
            self.items.push(item.to_owned());
        }
        self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_in_both_orders() {
        let item = |id: &str| format!("{{\"id\":\"{id}\"}}");
        let groups = || vec![vec![item("a"), item("b")], Vec::new(), vec![item("c")]].into_iter();
        let page = |after: Option<&str>, limit, order| {
            let params = ListParams { after: after.map(str::to_owned), limit, order };
            let page = ListView::page(groups(), &params).ok()?;
            Some((page.first_id?, page.last_id?, page.has_more))
        };
        let text = |first: &str, last: &str, more| Some((first.to_owned(), last.to_owned(), more));
        assert_eq!(page(None, 2, Order::Asc), text("a", "b", true));
        assert_eq!(page(Some("b"), 2, Order::Asc), text("c", "c", false));
        assert_eq!(page(None, 3, Order::Desc), text("c", "a", false));
        assert_eq!(page(Some("c"), 1, Order::Desc), text("b", "b", true));
        let params = ListParams { after: Some("x".into()), limit: 1, order: Order::Asc };
        assert!(ListView::page(groups(), &params).is_err());
        let params = ListParams { after: Some("c".into()), limit: 1, order: Order::Asc };
        let last = ListView::page(groups(), &params).expect("the end");
        assert_eq!((last.first_id, last.has_more, last.data.len()), (None, false, 0));
    }
}
