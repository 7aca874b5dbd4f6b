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
        name_problems(&mut openapi);
        complete(&mut openapi);
        (router, openapi, self.entries)
    }
}

/// What belongs to every route of a kind is said here, once.
fn complete(openapi: &mut OpenApi) {
    let bad_path = ResponseBuilder::new().description("Not understood").content(
        problem::MEDIA_TYPE,
        ContentBuilder::new().schema(Some(Ref::from_schema_name("ProblemDocument"))).build(),
    );
    let bad_path = RefOr::T(bad_path.build());
    for (path, item) in &mut openapi.paths.paths {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let responses = &mut operation.responses.responses;
            if path.contains('{') {
                // What stands in a path may be no id.
                responses.entry("400".to_owned()).or_insert_with(|| bad_path.clone());
            }
            for response in responses.values_mut() {
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
