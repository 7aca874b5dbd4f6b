//! The one place where routes and frames are registered, so that a test can list them all.

use axum::Router;
use utoipa::openapi::{ContentBuilder, Info, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::{ApiState, problem};

/// Who may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Anybody who reaches the server.
    Public,
    /// A principal: the handler takes a [`Caller`](super::extract::Caller).
    Principal,
}

/// A registered route or frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The method; `None` for a frame.
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
        for (path, item) in &routes.1.paths {
            let methods = [
                (&item.get, "GET"),
                (&item.post, "POST"),
                (&item.put, "PUT"),
                (&item.patch, "PATCH"),
                (&item.delete, "DELETE"),
            ];
            for (operation, method) in methods {
                if operation.is_some() {
                    self.entries.push(Entry { method: Some(method), path: path.clone(), frame: None, access });
                }
            }
        }
        self.router = self.router.routes(routes);
        self
    }

    /// Registers the client frames of a socket.
    pub fn frames(mut self, path: &str, names: &'static [&'static str]) -> Self {
        self.entries.extend(names.iter().map(|name| Entry {
            method: None,
            path: path.to_owned(),
            frame: Some(name),
            access: Access::Principal,
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
        name_limits(&mut openapi, &self.entries);
        name_problems(&mut openapi);
        (router, openapi, self.entries)
    }
}

/// What may be answered wherever somebody is let in, and wherever a body is read.
fn name_limits(openapi: &mut OpenApi, entries: &[Entry]) {
    for (path, item) in &mut openapi.paths.paths {
        let operations = [
            ("GET", &mut item.get),
            ("POST", &mut item.post),
            ("PUT", &mut item.put),
            ("PATCH", &mut item.patch),
            ("DELETE", &mut item.delete),
        ];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            let limited =
                |entry: &Entry| entry.access != Access::Public && entry.method == Some(method) && entry.path == *path;
            let mut possible = Vec::new();
            if entries.iter().any(limited) {
                possible.push(("429", "A limit of the user or the project is reached"));
            }
            if operation.request_body.is_some() {
                possible.extend([("408", "The body stopped coming"), ("503", "No room for the body, or no store")]);
            }
            for (status, description) in possible {
                let document = Ref::from_schema_name("ProblemDocument");
                let content = ContentBuilder::new().schema(Some(document)).build();
                let response = ResponseBuilder::new().description(description).content("application/json", content);
                operation.responses.responses.entry(status.to_owned()).or_insert_with(|| response.build().into());
            }
        }
    }
}

/// Errors are problem documents, and have the media type of those.
fn name_problems(openapi: &mut OpenApi) {
    for item in openapi.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
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
