//! Header fields that keep a response where it belongs: out of caches, and out of pages of other origins that load it as an
//! image or a script.

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::Response,
};

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Mark of a response that is the same for everyone.
#[derive(Debug, Clone, Copy)]
struct Public;

/// Marks the response of a public route, for [`protect`].
pub async fn public(mut response: Response) -> Response {
    response.extensions_mut().insert(Public);
    response
}

/// Adds the header fields. A response without the mark of a public route is for one client, refusals included.
pub async fn protect(mut response: Response) -> Response {
    let public = response.extensions_mut().remove::<Public>().is_some();
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !public {
        // A browser keeps a document with an entity tag, and asks each time whether it has changed.
        let is_live = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
        let cache = match (headers.contains_key(header::ETAG), is_live) {
            (true, _) => "private, no-cache",
            // Proxies that buffer responses look for `no-cache`.
            (false, true) => "no-cache, no-store",
            (false, false) => "no-store",
        };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
        headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    }
    response
}
