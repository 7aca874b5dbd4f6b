//! Query parameters of lists and streams, as OpenAI's clients write them: a list is `include[]`, once for each name.

use axum::http::Uri;
use threadline_core::limits::MAX_OPENAI_PAGE;
use threadline_http::{extract::query, problem::Problem};
use utoipa::{
    IntoParams,
    openapi::{
        ObjectBuilder, Required, Type,
        path::{Parameter, ParameterBuilder, ParameterIn},
    },
};

use super::errors::invalid;

/// Additions that OpenAI's clients may ask for. The log has none of them.
const INCLUDED: [&str; 9] = [
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "output[*].file_search_call.search_results[*].content",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
];

/// Default number of items of a page.
const DEFAULT_PAGE: usize = 20;

const _: () = assert!(MAX_OPENAI_PAGE == 100 && DEFAULT_PAGE == 20, "the API description says so");

/// Order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The oldest item comes first.
    Asc,
    /// The newest item comes first.
    Desc,
}

/// Page of a list of items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListParams {
    /// Id of the item after which the page begins.
    pub after: Option<String>,
    pub limit: usize,
    pub order: Order,
}

/// Form in which a response is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseParams {
    pub stream: bool,
    /// Number of the last event that the client has.
    pub starting_after: Option<u64>,
}

/// Additions to items. The log has none of them.
#[derive(Debug, Clone, Copy)]
pub struct IncludeParams;

/// Refuses the name of an unknown addition.
pub fn check_included(name: &str) -> Result<(), Problem> {
    if INCLUDED.contains(&name) {
        return Ok(());
    }
    Err(invalid("include", format!("include has {name:?}; known are {}", INCLUDED.join(", "))))
}

/// Names and values of a query. `include` is checked and left out.
fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, Problem> {
    let mut pairs: Vec<(String, String)> = query(uri)?;
    let is_included = |(name, _): &(String, String)| matches!(&**name, "include" | "include[]");
    pairs.iter().filter(|pair| is_included(pair)).try_for_each(|(_, value)| check_included(value))?;
    pairs.retain(|pair| !is_included(pair));
    if let Some((name, _)) = pairs
        .iter()
        .enumerate()
        .find_map(|(at, pair)| pairs[..at].iter().any(|other| other.0 == pair.0).then_some(pair))
    {
        return Err(invalid(name, format!("{name} occurs twice")));
    }
    Ok(pairs)
}

impl IncludeParams {
    /// Reads a query that has no other parameter.
    pub fn check(uri: &Uri) -> Result<(), Problem> {
        pairs(uri).map(drop)
    }
}

impl ListParams {
    /// Reads the page that a query asks for.
    pub fn read(uri: &Uri) -> Result<Self, Problem> {
        let mut params = Self { after: None, limit: DEFAULT_PAGE, order: Order::Desc };
        for (name, value) in pairs(uri)? {
            match &*name {
                "after" => params.after = Some(value),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MAX_OPENAI_PAGE).contains(limit));
                    params.limit = limit.ok_or_else(|| {
                        invalid("limit", format!("limit is {value:?}, but must be from 1 to {MAX_OPENAI_PAGE}"))
                    })?;
                }
                "order" => {
                    params.order = match &*value {
                        "asc" => Order::Asc,
                        "desc" => Order::Desc,
                        _ => return Err(invalid("order", format!("order is {value:?}, neither asc nor desc"))),
                    };
                }
                // Every other name was refused before.
                _ => {}
            }
        }
        Ok(params)
    }
}

impl ResponseParams {
    /// Reads the form that a query asks for.
    pub fn read(uri: &Uri) -> Result<Self, Problem> {
        let mut params = Self::default();
        for (name, value) in pairs(uri)? {
            match &*name {
                "stream" => params.stream = flag("stream", &value)?,
                // Events have no padding.
                "include_obfuscation" => drop(flag("include_obfuscation", &value)?),
                "starting_after" => {
                    let number = value.parse().map_err(|_| {
                        invalid("starting_after", format!("starting_after is {value:?}, not the number of an event"))
                    });
                    params.starting_after = Some(number?);
                }
                _ => {}
            }
        }
        if params.starting_after.is_some() && !params.stream {
            return Err(invalid("starting_after", "starting_after needs stream=true"));
        }
        Ok(params)
    }
}

fn flag(name: &str, value: &str) -> Result<bool, Problem> {
    value.parse().map_err(|_| invalid(name, format!("{name} is {value:?}, neither true nor false")))
}

fn described(name: &str, kind: Type, description: &str) -> Parameter {
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query).required(Required::False);
    parameter.description(Some(description)).schema(Some(ObjectBuilder::new().schema_type(kind))).build()
}

impl IntoParams for IncludeParams {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "A known addition of OpenAI's API; the log has none. May occur several times";
        vec![described("include", Type::String, description), described("include[]", Type::String, description)]
    }
}

impl IntoParams for ListParams {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let mut all = vec![
            described("after", Type::String, "Id of the item after which the page begins"),
            described("limit", Type::Integer, "1 to 100. Default 20"),
            described("order", Type::String, "`asc`: oldest first, or `desc`. Default `desc`"),
        ];
        all.extend(IncludeParams::into_params(|| None));
        all
    }
}

impl IntoParams for ResponseParams {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let after = "The `sequence_number` of the last event that the client has. Only with `stream`";
        let mut all = vec![
            described("stream", Type::Boolean, "True for the events of the stream, until the response ends"),
            described("starting_after", Type::Integer, after),
            described("include_obfuscation", Type::Boolean, "Ignored: events have no padding"),
        ];
        all.extend(IncludeParams::into_params(|| None));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(query: &str) -> Uri {
        format!("/x?{query}").parse().expect("a path")
    }

    #[test]
    fn parameters_are_read_as_openais_clients_write_them() {
        let page = ListParams::read(&uri(
            "limit=3&order=asc&after=a&include[]=reasoning.encrypted_content&include[]=file_search_call.results",
        ));
        assert_eq!(page.ok(), Some(ListParams { after: Some("a".into()), limit: 3, order: Order::Asc }));
        let form = ResponseParams::read(&uri("stream=true&starting_after=5&include_obfuscation=false"));
        assert_eq!(form.ok(), Some(ResponseParams { stream: true, starting_after: Some(5) }));
        for bad in ["limit=0", "limit=101", "limit=x", "order=up", "include=x", "limit=1&limit=2"] {
            assert!(ListParams::read(&uri(bad)).is_err(), "{bad}");
        }
        for bad in ["stream=1", "starting_after=1", "stream=true&starting_after=-1", "include_obfuscation=x"] {
            assert!(ResponseParams::read(&uri(bad)).is_err(), "{bad}");
        }
    }
}
