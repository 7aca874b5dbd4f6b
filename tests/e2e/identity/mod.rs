//! Who is let in, and a project's own affairs.

mod agent_origins;
mod audit;
mod authorship;
mod claimed;
mod erasure;
mod grants;
mod issuer;
mod keys;
mod limits;
mod minted;
mod sign_out;
mod strangers;
mod tickets;
mod tokens;
mod trash;

use serde_json::json;
use threadline_core::Scope;

use crate::harness::{Client, Server, http::send, text};

/// A client that sends this key or token.
pub fn bearer(server: &Server, secret: &str) -> Client {
    Client { key: Some(secret.to_owned()), ..server.project() }
}

/// A client with a key of a project that has these scopes, created by the operator.
pub async fn key(server: &Server, project: &str, scopes: &[Scope]) -> Client {
    let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
    let request = server.project().request(reqwest::Method::POST, "/v1/keys").header("threadline-project", project);
    let made = send(request.json(&json!({ "scopes": scopes }))).await.ok(201);
    bearer(server, text(&made, "key"))
}

/// A user with a token, good for an hour, that has all scopes a token can have.
pub async fn token(server: &Server, user: &str) -> Client {
    let scopes = ["read", "chat", "approve", "produce"];
    let made = server.project().post("/v1/tokens", json!({ "userId": user, "scopes": scopes })).await.ok(201);
    bearer(server, text(&made, "token"))
}
