//! The only place where routes and frames are registered, so that a test can list all of them.

use axum::{Extension, Router, middleware, routing::MethodRouter};
use threadline_core::Scope;
use utoipa::openapi::{
    Content, Info, OpenApi, Ref, RefOr, Response,
    path::{Operation, PathItem},
    security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::{
    parameters::{self, Known},
    problem,
};

/// Name of the security scheme for keys and tokens in `Authorization`, in the API description.
const BEARER: &str = "bearer";

/// Permission that a route, frame or page requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Any client that reaches the server, without a credential.
    Public,
    /// A principal with this scope. The handler must take a [`Caller`](super::extract::Caller), which checks the scope.
    Needs(Scope),
    /// A principal with the scope `read`; a socket ticket in the query is accepted as well.
    Ticket,
    /// A client that sends, in the query, a value issued for this route. The handler checks the value.
    Given,
    /// The operator of the installation.
    Operator,
}

impl Access {
    pub const READ: Self = Self::Needs(Scope::Read);
    pub const WRITE: Self = Self::Needs(Scope::Write);
    /// Administration of a project.
    pub const ADMIN: Self = Self::Needs(Scope::Admin);
}

/// A registered route, frame or page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The method; `None` for a frame or a page.
    pub method: Option<&'static str>,
    /// The path; for a frame the path of its socket.
    pub path: String,
    /// The name of a frame.
    pub frame: Option<&'static str>,
    pub access: Access,
}

/// Builder of the router, of the API description and of the list of entries.
pub struct Routes<S> {
    router: OpenApiRouter<S>,
    entries: Vec<Entry>,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self { router: OpenApiRouter::new(), entries: Vec::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Registers handlers that share a path, as `utoipa_axum::routes!` gathers them.
    pub fn route(mut self, access: Access, routes: UtoipaMethodRouter<S>) -> Self {
        let (schemas, mut paths, methods) = routes;
        if !matches!(access, Access::Public | Access::Given) {
            paths.paths.values_mut().flat_map(operations).for_each(|operation| {
                operation.security = Some(vec![SecurityRequirement::new(BEARER, [] as [&str; 0])]);
                name_refusals(operation);
            });
        }
        // `Caller` reads the access from this extension. Without the extension only the operator is accepted.
        let known = Known::of(paths.paths.values().flat_map(described));
        let methods = methods
            .route_layer(Extension(access))
            .route_layer(middleware::from_fn_with_state(known, parameters::refuse_unknown));
        for (path, item) in &paths.paths {
            for (method, _) in described(item) {
                self.entries.push(Entry { method: Some(method), path: path.clone(), frame: None, access });
            }
        }
        self.router = self.router.routes((schemas, paths, methods));
        self
    }

    /// Registers a page for people. The page is public, and not part of the description, which is for programs.
    pub fn page(mut self, path: &str, methods: MethodRouter<S>) -> Self {
        let entry = Entry { method: None, path: path.to_owned(), frame: None, access: Access::Public };
        self.entries.push(entry);
        self.router = self.router.route(path, methods);
        self
    }

    /// Registers the client frames of a socket.
    pub fn frames(mut self, path: &str, frames: &'static [(&'static str, Scope)]) -> Self {
        self.entries.extend(frames.iter().map(|(name, scope)| Entry {
            method: None,
            path: path.to_owned(),
            frame: Some(name),
            access: Access::Needs(*scope),
        }));
        self
    }

    /// The router, its description, and the list of everything registered.
    pub fn finish(self) -> (Router<S>, OpenApi, Vec<Entry>) {
        let (router, mut openapi) = self.router.split_for_parts();
        openapi.info = Info::new("Threadline", env!("CARGO_PKG_VERSION"));
        openapi.info.description = Some(
            "Threads for AI agents: durable, resumable, realtime. The socket at /v1/socket is described in \
             proto/socket.md."
                .to_owned(),
        );
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        openapi.components.get_or_insert_default().add_security_scheme(BEARER, scheme);
        name_problems(&mut openapi);
        complete(&mut openapi);
        (router, openapi, self.entries)
    }
}

/// Operations of a path, by method.
fn described(item: &PathItem) -> impl Iterator<Item = (&'static str, &Operation)> {
    let all = [
        ("GET", &item.get),
        ("POST", &item.post),
        ("PUT", &item.put),
        ("PATCH", &item.patch),
        ("DELETE", &item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
}

/// Describes the refusals of every route that requires a credential, and those of reading a body.
fn name_refusals(operation: &mut Operation) {
    let mut possible =
        vec![("401", "Authentication required"), ("403", "Insufficient permission"), ("429", "Rate limit exceeded")];
    if operation.request_body.is_some() {
        possible.extend([("408", "Request body timeout"), ("503", "Server at capacity, or store unavailable")]);
    }
    for (status, description) in possible {
        refuse(operation, status, description, "application/json");
    }
}

/// Describes a refusal, unless the route describes this status itself.
fn refuse(operation: &mut Operation, status: &str, description: &str, media_type: &str) {
    operation.responses.responses.entry(status.to_owned()).or_insert_with(|| {
        let mut response = Response::new(description);
        let content = Content::new(Some(Ref::from_schema_name("ProblemDocument")));
        response.content.insert(media_type.to_owned(), content.into());
        RefOr::T(response)
    });
}

/// Completes each operation with the facts that are the same for every route of a kind.
fn complete(openapi: &mut OpenApi) {
    for item in openapi.paths.paths.values_mut() {
        for operation in operations(item) {
            // Any query may have a parameter that the route does not have.
            refuse(operation, "400", "Invalid request", problem::MEDIA_TYPE);
            for response in operation.responses.responses.values_mut() {
                // A reader would take the schema for the schema of one event, and an event is not a string.
                if let RefOr::T(response) = response
                    && let Some(RefOr::T(stream)) = response.content.get_mut("text/event-stream")
                {
                    stream.schema = None;
                }
            }
        }
    }
}

/// Gives errors the media type of problem documents.
fn name_problems(openapi: &mut OpenApi) {
    for item in openapi.paths.paths.values_mut() {
        for operation in operations(item) {
            let errors = operation.responses.responses.iter_mut().filter(|(status, _)| status.as_str() >= "400");
            for (_, response) in errors {
                if let RefOr::T(response) = response
                    && let Some(content) = response.content.shift_remove("application/json")
                {
                    response.content.insert(problem::MEDIA_TYPE.to_owned(), content);
                }
            }
        }
    }
}
