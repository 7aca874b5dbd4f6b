//! The only place where routes and frames are registered, so that a test can list all of them.

use axum::{Extension, Router, body::Body, http::Request, middleware, routing::MethodRouter};
use threadline_core::{Principal, Scope, Scopes};
use threadline_engine::limits::BudgetOwner;
use tower::ServiceExt;
use utoipa::openapi::{
    Content, Info, OpenApi, Ref, RefOr, Response as Described,
    path::{Operation, PathItem},
    security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::{
    auth::standing::NEVER_CHECKED,
    auth::{AuthError, within},
    body::{Presented, Whole},
    extract::Authenticated,
    fallback,
    parameters::{self, KnownParameters},
    problem, protection,
};

/// Name of the security scheme for keys and tokens in `Authorization`, in the API description.
const BEARER: &str = "bearer";

/// Permission that a route, frame or page requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Any client that reaches the server, without a credential.
    Public,
    /// A principal with all these scopes. The handler must take a [`Caller`](super::extract::Caller), which checks them.
    All(Scopes),
    /// A principal with at least one of these scopes. What else the body requires is decided in the engine.
    AnyOf(Scopes),
    /// A principal with this scope that acts for the project, not for one of its users.
    Project(Scope),
    /// A principal with this scope that is no untrusted client: what agents keep is not for users.
    Backend(Scope),
    /// A principal with one of these scopes; a socket ticket in the query is accepted as well.
    TicketOrKey(Scopes),
    /// A client that sends, in the query, a value issued for this route. The handler checks the value.
    SignedUrl,
    /// Any principal. The handler reads and writes nothing itself: it translates the request into an inner one, whose
    /// route checks the scope.
    Delegated,
    /// The operator of the installation.
    Operator,
}

impl Access {
    pub const READ: Self = Self::needs(Scope::Read);
    pub const CHAT: Self = Self::needs(Scope::Chat);
    /// Writes whose response shows what others wrote: a run of an agent, a thread as CopilotKit's clients read it.
    pub const CONVERSE: Self = Self::All(Scopes::of(&[Scope::Read, Scope::Chat]));
    pub const PRODUCE: Self = Self::needs(Scope::Produce);
    /// Writes that are the user's own words, or events of any role: their content decides.
    pub const SAY_OR_PRODUCE: Self = Self::AnyOf(Scopes::of(&[Scope::Chat, Scope::Produce]));
    /// Scopes of which a socket of chats requires one: each frame requires its own.
    pub const CHATS: Scopes = Scopes::of(&[Scope::Read, Scope::Chat]);
    /// Scopes of which a socket requires one: each frame requires its own.
    pub const SOCKET: Scopes = Scopes::of(&[Scope::Read, Scope::Chat, Scope::Produce]);
    /// Data that agents keep beside the logs.
    pub const AGENT_DATA: Self = Self::Backend(Scope::Produce);
    /// Administration of a project.
    pub const ADMIN: Self = Self::needs(Scope::Admin);
    /// Management of a project's agents.
    pub const MANAGE_AGENTS: Self = Self::Project(Scope::Agents);

    /// Access of a principal with this scope.
    pub const fn needs(scope: Scope) -> Self {
        Self::All(Scopes::of(&[scope]))
    }

    /// True if a principal has the permission, for a view that shows more to such a principal.
    pub fn is_granted_to(self, principal: &Principal) -> bool {
        self.check(principal).is_ok()
    }

    /// Refuses a principal that lacks the permission.
    pub fn check(self, principal: &Principal) -> Result<(), AuthError> {
        let held = principal.scopes;
        match self {
            Self::Public | Self::Delegated => Ok(()),
            Self::All(scopes) => within(scopes, held),
            Self::AnyOf(scopes) | Self::TicketOrKey(scopes) if held.and(scopes).is_empty() => {
                Err(AuthError::Lacks(scopes))
            }
            Self::AnyOf(_) | Self::TicketOrKey(_) => Ok(()),
            Self::Project(scope) => {
                within(Scopes::of(&[scope]), held)?;
                if principal.acts_for_project() { Ok(()) } else { Err(AuthError::ForProject) }
            }
            Self::Backend(scope) => {
                within(Scopes::of(&[scope]), held)?;
                if principal.is_untrusted() { Err(AuthError::ForBackend) } else { Ok(()) }
            }
            Self::Operator if principal.is_operator() => Ok(()),
            // Routes of the operator, and routes that check a value in the query, accept no other key.
            Self::Operator | Self::SignedUrl => Err(AuthError::NotOperator),
        }
    }
}

/// Frames that a client may send over a socket, each with the permission that it requires.
#[derive(Debug, Clone, Copy)]
pub struct ClientFrames(pub &'static [(&'static str, Access)]);

impl ClientFrames {
    /// Refuses a principal that lacks the permission of this frame, or a frame that is not registered.
    pub fn check(self, name: &str, principal: &Principal) -> Result<(), AuthError> {
        let found = self.0.iter().find(|(frame, _)| *frame == name);
        found.map_or(Err(AuthError::NotOperator), |(_, access)| access.check(principal))
    }
}

/// All routes, for a handler that was registered with [`Routes::delegate`]. A path or a method that no route has is
/// answered with 404.
#[derive(Clone)]
pub struct InnerRoutes(Router);

impl InnerRoutes {
    /// Answers an inner request of this principal, with the permission, the limits and the parameters of its route. The
    /// principal is not authenticated again; the body is read and charged as that of any other request.
    pub async fn ask(&self, mut request: Request<Body>, principal: Principal) -> axum::response::Response {
        request.extensions_mut().insert(Presented { principal: principal.clone(), as_of: NEVER_CHECKED });
        self.serve(request, principal).await
    }

    /// Answers an inner request of this principal, with the permission, the limits and the parameters of its route. The
    /// principal is not authenticated again, and `body` counts as read.
    pub async fn answer(
        &self,
        mut request: Request<Body>,
        principal: Principal,
        body: Whole,
    ) -> axum::response::Response {
        request.extensions_mut().insert(body);
        self.serve(request, principal).await
    }

    async fn serve(&self, mut request: Request<Body>, principal: Principal) -> axum::response::Response {
        let extensions = request.extensions_mut();
        extensions.insert(BudgetOwner::of(&principal));
        extensions.insert(Authenticated(principal));
        match self.0.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// A registered route, frame or page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RouteEntry {
    /// The method; `None` for a frame or a page.
    pub method: Option<&'static str>,
    /// The path; for a frame the path of its socket.
    pub path: String,
    /// The name of a frame.
    pub frame: Option<&'static str>,
    pub access: Access,
}

/// Registered routes, which several servers may share, each with its own state.
pub struct Registered<S> {
    router: Router<S>,
    /// Routes that answer by an inner request.
    delegating: Router<S>,
    entries: Vec<RouteEntry>,
}

impl<S: Clone + Send + Sync + 'static> Registered<S> {
    /// The router of a server, without fallbacks and layers.
    pub fn serve(&self, state: S) -> Router {
        let router = self.router.clone();
        let inner = router.clone().fallback(fallback::not_found).method_not_allowed_fallback(fallback::not_found);
        let inner = InnerRoutes(inner.with_state(state.clone()));
        router.merge(self.delegating.clone().layer(Extension(inner))).with_state(state)
    }

    /// Registered routes, frames and pages, in the order of their registration.
    pub fn entries(&self) -> &[RouteEntry] {
        &self.entries
    }
}

/// Builder of the routes, of the API description and of the list of entries.
pub struct Routes<S> {
    router: OpenApiRouter<S>,
    /// Routes that answer by an inner request.
    delegating: Router<S>,
    entries: Vec<RouteEntry>,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self { router: OpenApiRouter::new(), delegating: Router::new(), entries: Vec::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Registers handlers that share a path, as `utoipa_axum::routes!` gathers them.
    pub fn route(mut self, access: Access, routes: UtoipaMethodRouter<S>) -> Self {
        let routes = self.describe(access, routes);
        self.router = self.router.routes(routes);
        self
    }

    /// Registers handlers like [`Self::route`], for a protocol that demands that unknown query parameters are ignored.
    pub fn route_of_any_query(mut self, access: Access, routes: UtoipaMethodRouter<S>) -> Self {
        let routes = self.guard(access, routes);
        self.router = self.router.routes(routes);
        self
    }

    /// Registers handlers that translate their request into one for another route, and take [`InnerRoutes`] as an
    /// extension. No inner request reaches them.
    pub fn delegate(mut self, access: Access, routes: UtoipaMethodRouter<S>) -> Self {
        let (schemas, paths, methods) = self.describe(access, routes);
        for path in paths.paths.keys() {
            self.delegating = self.delegating.route(path, methods.clone());
        }
        self.router = self.router.routes((schemas, paths, MethodRouter::new()));
        self
    }

    fn describe(&mut self, access: Access, routes: UtoipaMethodRouter<S>) -> UtoipaMethodRouter<S> {
        let known = KnownParameters::of(routes.1.paths.values().flat_map(described));
        let (schemas, paths, methods) = self.guard(access, routes);
        (schemas, paths, methods.route_layer(middleware::from_fn_with_state(known, parameters::refuse_unknown)))
    }

    /// Completes the description of handlers, and has the caller checked.
    fn guard(&mut self, access: Access, routes: UtoipaMethodRouter<S>) -> UtoipaMethodRouter<S> {
        let (schemas, mut paths, methods) = routes;
        if !matches!(access, Access::Public | Access::SignedUrl) {
            paths.paths.values_mut().flat_map(operations).for_each(|operation| {
                operation.security = Some(vec![SecurityRequirement::new(BEARER, [] as [&str; 0])]);
                name_refusals(operation);
            });
        }
        // `Caller` reads the access from this extension. Without the extension only the operator is accepted.
        let methods = methods.route_layer(Extension(access));
        let methods = match access {
            Access::Public => methods.route_layer(middleware::map_response(protection::public)),
            _ => methods,
        };
        for (path, item) in &paths.paths {
            for (method, _) in described(item) {
                self.entries.push(RouteEntry { method: Some(method), path: path.clone(), frame: None, access });
            }
        }
        (schemas, paths, methods)
    }

    /// Registers a page for people. The page is public, and not part of the description, which is for programs.
    pub fn page(mut self, path: &str, methods: MethodRouter<S>) -> Self {
        let entry = RouteEntry { method: None, path: path.to_owned(), frame: None, access: Access::Public };
        self.entries.push(entry);
        self.router = self.router.route(path, methods.layer(middleware::map_response(protection::public)));
        self
    }

    /// Registers the client frames of a socket.
    pub fn frames(mut self, path: &str, frames: ClientFrames) -> Self {
        self.entries.extend(frames.0.iter().map(|(name, access)| RouteEntry {
            method: None,
            path: path.to_owned(),
            frame: Some(name),
            access: *access,
        }));
        self
    }

    /// The routes to serve, and the list of everything registered.
    pub fn register(self) -> Registered<S> {
        let (router, _) = self.router.split_for_parts();
        Registered { router, delegating: self.delegating, entries: self.entries }
    }

    /// The API description of all routes.
    pub fn describe_all(self) -> OpenApi {
        let (_, mut openapi) = self.router.split_for_parts();
        openapi.info = Info::new("Threadline", env!("CARGO_PKG_VERSION"));
        openapi.info.description = Some(
            "Threads for AI agents: durable, resumable, realtime. The socket at /v1/socket is described in \
             proto/socket.md."
                .to_owned(),
        );
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        openapi.components.get_or_insert_default().add_security_scheme(BEARER, scheme);
        name_rests(&mut openapi);
        name_problems(&mut openapi);
        complete(&mut openapi);
        openapi
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
    let mut parameters = operation.parameters.iter().flatten();
    if parameters.any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.name == "If-Match")) {
        possible.push(("410", "The log has another epoch"));
    }
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
        let mut response = Described::new(description);
        let content = Content::new(Some(Ref::from_schema_name("ProblemDocument")));
        response.content.insert(media_type.to_owned(), content.into());
        RefOr::T(response)
    });
}

/// Completes each operation with the facts that are the same for every route of a kind.
fn complete(openapi: &mut OpenApi) {
    for (path, item) in &mut openapi.paths.paths {
        for operation in operations(item) {
            // A key that names no user may mean threads of several users.
            let names = ["{threadId}", "{conversationId}", "{responseId}", "/conversations/{name}"];
            if names.iter().any(|name| path.contains(name)) {
                refuse(operation, "409", "Threads of several users have this ID", problem::MEDIA_TYPE);
            }
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

/// Names a parameter that takes the rest of a path as the description names other ones.
fn name_rests(openapi: &mut OpenApi) {
    let paths = std::mem::take(&mut openapi.paths.paths);
    openapi.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
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
