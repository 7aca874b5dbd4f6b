//! Administration: keys, tokens, projects, users, the trash and the audit log. The server's JSON documents are returned as they
//! are.

use reqwest::Method;
use serde_json::Value;

use super::{Client, ClientError, rest::put};

impl Client {
    /// Lists the project's API keys, without the keys themselves.
    pub async fn keys(&self) -> Result<Value, ClientError> {
        self.json(self.request(Method::GET, self.url(&["keys"])?)).await
    }

    /// Makes an API key; the member `key` of the answer is the key, which is never shown again.
    pub async fn create_key(&self, body: &Value) -> Result<Value, ClientError> {
        self.json(self.request(Method::POST, self.url(&["keys"])?).json(body)).await
    }

    /// Revokes an API key, with `and_made` also all that were made with it. May safely be repeated.
    pub async fn revoke_key(&self, key: &str, and_made: bool) -> Result<Value, ClientError> {
        let mut url = self.url(&["keys", key])?;
        put(&mut url, "andMade", and_made.then_some("true"));
        self.json(self.request(Method::DELETE, url)).await
    }

    /// Ends all tokens that a key has made. May safely be repeated.
    pub async fn sign_out_key(&self, key: &str) -> Result<Value, ClientError> {
        self.json(self.request(Method::POST, self.url(&["keys", key, "sign-out"])?)).await
    }

    /// Ends all tokens of a user. May safely be repeated.
    pub async fn sign_out_user(&self, user: &str) -> Result<Value, ClientError> {
        self.json(self.request(Method::POST, self.url(&["users", user, "sign-out"])?)).await
    }

    /// Ends all tokens of a project. May safely be repeated.
    pub async fn sign_out_project(&self, project: &str) -> Result<Value, ClientError> {
        self.json(self.request(Method::POST, self.url(&["projects", project, "sign-out"])?)).await
    }

    /// Makes a token for an end user of the project.
    pub async fn create_token(&self, body: &Value) -> Result<Value, ClientError> {
        self.json(self.request(Method::POST, self.url(&["tokens"])?).json(body)).await
    }

    /// Lists the projects of the server by their ids.
    pub async fn projects(&self) -> Result<Value, ClientError> {
        self.json(self.request(Method::GET, self.url(&["projects"])?)).await
    }

    /// Lists the nodes of the installation, also those that have ended. For the operator.
    pub async fn nodes(&self) -> Result<Value, ClientError> {
        self.json(self.request(Method::GET, self.url(&["nodes"])?)).await
    }

    /// Reads a project with its settings.
    pub async fn project(&self, project: &str) -> Result<Value, ClientError> {
        self.json(self.request(Method::GET, self.url(&["projects", project])?)).await
    }

    /// Makes a project, or replaces its settings. May safely be repeated.
    pub async fn put_project(&self, project: &str, settings: &Value) -> Result<Value, ClientError> {
        self.json(self.request(Method::PUT, self.url(&["projects", project])?).json(settings)).await
    }

    /// Gives a project a new secret for its users' tokens; the member `secret` of the answer is never shown again.
    pub async fn renew_token_secret(&self, project: &str) -> Result<Value, ClientError> {
        self.json(self.request(Method::POST, self.url(&["projects", project, "token-secret"])?)).await
    }

    /// Approves that retention puts up to `count` threads of a project in the trash. May safely be repeated.
    pub async fn approve_retention(&self, project: &str, count: u64) -> Result<Value, ClientError> {
        let request = self.request(Method::POST, self.url(&["projects", project, "retention", "approve"])?);
        self.json(request.json(&serde_json::json!({ "count": count }))).await
    }

    /// Erases a user; the answer is the receipt. May safely be repeated.
    pub async fn erase_user(&self, user: &str) -> Result<Value, ClientError> {
        self.json(self.request(Method::DELETE, self.url(&["users", user])?)).await
    }

    /// Reads a page of the trash, newest entries first.
    pub async fn trash(&self, limit: usize, cursor: Option<&str>) -> Result<Value, ClientError> {
        let mut url = self.url(&["trash"])?;
        put(&mut url, "limit", Some(&limit.to_string()));
        put(&mut url, "cursor", cursor);
        self.json(self.request(Method::GET, url)).await
    }

    /// Restores a thread from the trash. May safely be repeated.
    pub async fn restore_thread(&self, thread: &str) -> Result<Value, ClientError> {
        self.json(self.request(Method::POST, self.url(&["trash", thread, "restore"])?)).await
    }

    /// Reads a page of the audit log, newest entries first.
    pub async fn audit(&self, limit: usize, cursor: Option<&str>) -> Result<Value, ClientError> {
        let mut url = self.url(&["audit"])?;
        put(&mut url, "limit", Some(&limit.to_string()));
        put(&mut url, "cursor", cursor);
        self.json(self.request(Method::GET, url)).await
    }

    /// Reads the entries of the audit log with a greater number, oldest first, without those of the last seconds.
    pub async fn audit_after(&self, after: i64, limit: usize) -> Result<Value, ClientError> {
        let mut url = self.url(&["audit"])?;
        put(&mut url, "limit", Some(&limit.to_string()));
        put(&mut url, "after", Some(&after.to_string()));
        self.json(self.request(Method::GET, url)).await
    }
}
