//! The console: a page and its files, embedded in the program. The source is in `console/`; the files here are built
//! from it and committed, and `make lint` compares them. The console requests nothing that the other APIs do not offer
//! to every client.

use std::{io::Write, sync::LazyLock};

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use threadline_core::hex;
use threadline_http::routes::Routes;

use crate::api::ApiState;

/// Permissions of a console page: it may load its own script, style and pictures, and connect to its own server. A
/// message of a model that entered the page as HTML could still not run or send anything.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Compression level of the files that are sent with zstd.
const ZSTD_LEVEL: i32 = 19;

struct File {
    path: &'static str,
    media_type: &'static str,
    content: &'static [u8],
    packed: LazyLock<Packed>,
}

/// Values that are computed once, with the first request.
struct Packed {
    tag: HeaderValue,
    /// Encoded content by the name of its encoding, the smallest first.
    smaller: Vec<(&'static str, Bytes)>,
}

macro_rules! files {
    ($(($path:literal, $file:literal, $media_type:literal)),* $(,)?) => {
        [$({
            const CONTENT: &[u8] = include_bytes!(concat!("../../console/dist/", $file));
            File { path: $path, media_type: $media_type, content: CONTENT, packed: LazyLock::new(|| Packed::of(CONTENT)) }
        }),*]
    };
}

static FILES: [File; 5] = files![
    ("/", "index.html", "text/html; charset=utf-8"),
    ("/app.js", "app.js", "text/javascript; charset=utf-8"),
    ("/app.css", "app.css", "text/css; charset=utf-8"),
    ("/favicon.svg", "favicon.svg", "image/svg+xml"),
    ("/licenses.txt", "licenses.txt", "text/plain; charset=utf-8"),
];

impl Packed {
    fn of(content: &[u8]) -> Self {
        let digest = hex(&Sha256::digest(content)[..12]);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let gzip = gzip.write_all(content).and_then(|()| gzip.finish());
        let all = [("zstd", zstd::encode_all(content, ZSTD_LEVEL)), ("gzip", gzip)];
        let smaller = all.into_iter().filter_map(|(name, packed)| Some((name, Bytes::from(packed.ok()?))));
        Self {
            tag: HeaderValue::try_from(format!("\"{digest}\"")).unwrap_or(HeaderValue::from_static("\"\"")),
            smaller: smaller.filter(|(_, packed)| packed.len() < content.len()).collect(),
        }
    }
}

impl File {
    fn answer(&'static self, asked: &HeaderMap) -> Response {
        let packed = &*self.packed;
        let headers = [
            // Revalidated with every request, and not sent again if unchanged: an updated server shows its own console.
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (header::ETAG, packed.tag.clone()),
            (header::VARY, HeaderValue::from_static("Accept-Encoding")),
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
            (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
        ];
        if lists(asked, header::IF_NONE_MATCH, |each| each.trim_start_matches("W/").as_bytes() == packed.tag.as_bytes())
        {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let media_type = (header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        let packed =
            packed.smaller.iter().find(|(name, _)| lists(asked, header::ACCEPT_ENCODING, |each| accepts(each, name)));
        match packed {
            Some((name, packed)) => {
                let encoding = (header::CONTENT_ENCODING, HeaderValue::from_static(name));
                (headers, [media_type, encoding], packed.clone()).into_response()
            }
            None => (headers, [media_type], Bytes::from_static(self.content)).into_response(),
        }
    }
}

/// True if an item of `Accept-Encoding` allows this encoding (RFC 9110, section 12.5.3).
fn accepts(item: &str, encoding: &str) -> bool {
    let (name, weight) = item.split_once(';').unwrap_or((item, "q=1"));
    let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
    name.trim().eq_ignore_ascii_case(encoding) && weight.is_some_and(|weight| weight > 0.0)
}

/// True if an item of a header field satisfies `meant`.
fn lists(headers: &HeaderMap, name: HeaderName, meant: impl Fn(&str) -> bool) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|each| meant(each.trim()))
}

/// Adds the pages of the console.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    FILES.iter().fold(routes, |routes, file| {
        routes.page(file.path, get(move |asked: HeaderMap| async move { file.answer(&asked) }))
    })
}
