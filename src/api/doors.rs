//! The one place where routes and frames are registered, so that a test can list them all.

use axum::{Extension, Router, middleware, routing::MethodRouter};
use utoipa::openapi::{
    Content, Info, OpenApi, Ref, RefOr, Response,
    path::{Operation, PathItem},
    security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::{
    ApiState,
    parameters::{self, Known},
    problem,
};
use crate::domain::Scope;

/// What the description calls keys and tokens in `Authorization`.
const BEARER: &str = "bearer";

/// Who may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Anybody who reaches the server.
    Public,
    /// A principal with this scope: the handler takes a [`Caller`](super::extract::Caller), which looks.
    Needs(Scope),
    /// The same, with the scope `read`; a socket ticket in the query will do as well.
    Ticket,
    /// Whoever shows what was given out for this very route, in the query: the handler looks.
    Given,
    /// The operator of the installation.
    Operator,
}

impl Access {
    /// Who may read.
    pub const READ: Self = Self::Needs(Scope::Read);
    /// Who may write.
    pub const WRITE: Self = Self::Needs(Scope::Write);
    /// Who may see to a project's own affairs.
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
    /// Who may pass.
    pub access: Access,
}

/// Doors under construction.
pub struct Doors {
    router: OpenApiRouter<ApiState>,
    entries: Vec<Entry>,
}

impl Default for Doors {
    fn default() -> Self {
        Self { router: OpenApiRouter::new(), entries: Vec::new() }
    }
}

impl Doors {
    /// Registers handlers that share a path, as `utoipa_axum::routes!` gathers them.
    pub fn route(mut self, access: Access, routes: UtoipaMethodRouter<ApiState>) -> Self {
        let (schemas, mut paths, methods) = routes;
        if !matches!(access, Access::Public | Access::Given) {
            paths.paths.values_mut().flat_map(operations).for_each(|operation| {
                operation.security = Some(vec![SecurityRequirement::new(BEARER, [] as [&str; 0])]);
                name_refusals(operation);
            });
        }
        // What the handler's `Caller` goes by: without it nobody is let in.
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

    /// Registers a page for people: it is open to everybody and no part of the description, which is for programs.
    pub fn page(mut self, path: &str, methods: MethodRouter<ApiState>) -> Self {
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
    pub fn finish(self) -> (Router<ApiState>, OpenApi, Vec<Entry>) {
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

/// The operations that a path has, by method.
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

/// What every route may answer that asks who is there, and where a body is read.
fn name_refusals(operation: &mut Operation) {
    let mut possible = vec![
        ("401", "Not let in"),
        ("403", "Let in, but not for this"),
        ("429", "A limit of the user or the project is reached"),
    ];
    if operation.request_body.is_some() {
        possible.extend([("408", "The body stopped coming"), ("503", "No room for the body, or no store")]);
    }
    for (status, description) in possible {
        refuse(operation, status, description, "application/json");
    }
}

/// Names a refusal, unless the route has said more about it.
fn refuse(operation: &mut Operation, status: &str, description: &str, media_type: &str) {
    operation.responses.responses.entry(status.to_owned()).or_insert_with(|| {
        let mut response = Response::new(description);
        let content = Content::new(Some(Ref::from_schema_name("ProblemDocument")));
        response.content.insert(media_type.to_owned(), content.into());
        RefOr::T(response)
    });
}

/// What belongs to every route of a kind is said here, once.
fn complete(openapi: &mut OpenApi) {
    for item in openapi.paths.paths.values_mut() {
        for operation in operations(item) {
            // The query may have a parameter that the route has not.
            refuse(operation, "400", "Not understood", problem::MEDIA_TYPE);
            for response in operation.responses.responses.values_mut() {
                // The schema would be taken for that of one event, and an event is no text.
                if let RefOr::T(response) = response
                    && let Some(RefOr::T(stream)) = response.content.get_mut("text/event-stream")
                {
                    stream.schema = None;
                }
            }
        }
    }
}

/// Errors are problem documents, and have the media type of those.
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
