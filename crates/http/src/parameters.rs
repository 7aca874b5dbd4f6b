//! Query parameters of routes: a parameter that the route does not describe is refused by its name.

use std::{borrow::Cow, sync::Arc};

use axum::{
    extract::{Query, Request, State},
    http::{Method, Uri},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::json;
use utoipa::{
    IntoParams,
    openapi::{
        ObjectBuilder, RefOr, Required, Type,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn},
    },
};

use crate::problem::{Problem, ProblemType};

/// The query parameters that the operations of a path describe, by method.
#[derive(Debug, Clone, Default)]
pub struct KnownParameters(Arc<Vec<(&'static str, Vec<String>)>>);

impl KnownParameters {
    /// Reads the parameters of all operations from their descriptions.
    pub fn of<'o>(operations: impl Iterator<Item = (&'static str, &'o Operation)>) -> Self {
        let named = |operation: &Operation| {
            let parameters = operation.parameters.iter().flatten();
            names(
                parameters
                    .filter_map(|parameter| if let RefOr::T(parameter) = parameter { Some(parameter) } else { None }),
            )
        };
        Self(Arc::new(operations.map(|(method, operation)| (method, named(operation))).collect()))
    }
}

/// Layer of every described route. A page has none: any link may lead to it.
pub async fn refuse_unknown(State(known): State<KnownParameters>, request: Request, next: Next) -> Response {
    if request.uri().query().is_some() {
        // The router answers HEAD like GET.
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let names = known.0.iter().find(|(other, _)| *other == method.as_str()).map_or(&[][..], |(_, names)| names);
        if let Err(problem) = check(request.uri(), names) {
            return problem.into_response();
        }
    }
    next.run(request).await
}

/// Refuses a query with a parameter that this type does not have.
pub fn check_for<T: IntoParams>(uri: &Uri) -> Result<(), Problem> {
    check(uri, &names(T::into_params(|| Some(ParameterIn::Query)).iter()))
}

/// Refuses a query with a parameter that is not one of these.
pub fn check(uri: &Uri, known: &[String]) -> Result<(), Problem> {
    // A query that cannot be parsed is refused by the reader of its values.
    let Some(pairs) = pairs(uri) else { return Ok(()) };
    let Some((name, _)) = pairs.into_iter().find(|(name, _)| known.iter().all(|known| known != name)) else {
        return Ok(());
    };
    let has = match known {
        [] => "it has no parameters".to_owned(),
        known => format!("its parameters are {}", known.join(", ")),
    };
    let detail = format!("{} has no query parameter {name:?}; {has}", uri.path());
    Err(Problem::new(ProblemType::UnknownParameter, detail).with(json!({ "parameter": name })))
}

/// Names and values of a query; `None` if it cannot be parsed.
pub(crate) fn pairs(uri: &Uri) -> Option<Vec<(Cow<'_, str>, Cow<'_, str>)>> {
    Query::try_from_uri(uri).ok().map(|Query(pairs)| pairs)
}

/// Description of a text that a request may have in its query or its header.
pub(crate) fn optional(name: &str, place: ParameterIn, description: &str, text: ObjectBuilder) -> Parameter {
    let parameter = ParameterBuilder::new().name(name).parameter_in(place).required(Required::False);
    parameter.description(Some(description)).schema(Some(text.schema_type(Type::String))).build()
}

fn names<'p>(parameters: impl Iterator<Item = &'p Parameter>) -> Vec<String> {
    let query = parameters.filter(|parameter| parameter.parameter_in == ParameterIn::Query);
    query.map(|parameter| parameter.name.clone()).collect()
}
