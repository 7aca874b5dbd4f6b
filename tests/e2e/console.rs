//! The console's files as they are served. What the page does is asked in `console/test`.

use std::io::Read;

use crate::harness::{Options, Server, http::send, run};
use flate2::read::GzDecoder;
use reqwest::Method;

const FILES: [(&str, &str); 5] = [
    ("/", "text/html; charset=utf-8"),
    ("/app.js", "text/javascript; charset=utf-8"),
    ("/app.css", "text/css; charset=utf-8"),
    ("/favicon.svg", "image/svg+xml"),
    ("/licenses.txt", "text/plain; charset=utf-8"),
];

/// The page is public also in key mode: it contains the form for the key.
#[tokio::test]
async fn the_page_needs_no_key_and_may_only_connect_to_its_server() {
    for options in [Options::memory(), Options::memory().with_key("secret")] {
        run(options, async |server: &Server| {
            let http = reqwest::Client::new();
            for (path, media_type) in FILES {
                let answer = send(http.get(format!("http://{}{path}", server.addr))).await;
                assert_eq!((answer.status, answer.header("content-type")), (200, media_type), "{path}");
                let policy = answer.header("content-security-policy");
                assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
                assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
                assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'none'"), "{policy}");
                assert_eq!(answer.header("x-content-type-options"), "nosniff");
                assert_eq!(answer.header("cache-control"), "no-cache");
            }
            let page = send(http.get(format!("http://{}/", server.addr))).await;
            // Relative, so that it also works where a proxy puts the server under a path; and nothing from elsewhere.
            for own in ["src=\"app.js\"", "href=\"app.css\"", "href=\"favicon.svg\""] {
                assert!(page.text().contains(own), "{}", page.text());
            }
            assert!(!page.text().contains("://"), "{}", page.text());
        })
        .await;
    }
}

#[tokio::test]
async fn cached_assets_are_not_sent_again_and_others_are_compressed_if_accepted() {
    run(Options::memory(), async |server: &Server| {
        let http = reqwest::Client::new();
        let url = format!("http://{}/app.js", server.addr);
        let plain = send(http.get(&url)).await;
        let tag = plain.header("etag").to_owned();
        for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}")] {
            let again = send(http.get(&url).header("if-none-match", known)).await;
            assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, tag.as_str()));
        }
        let other = send(http.get(&url).header("if-none-match", "\"other\"")).await;
        assert_eq!((other.status, other.body.len()), (200, plain.body.len()));
        let packed = send(http.get(&url).header("accept-encoding", "gzip, deflate, br, zstd")).await;
        assert_eq!((packed.header("content-encoding"), packed.header("vary")), ("zstd", "Accept-Encoding"));
        assert!(packed.body.len() * 2 < plain.body.len());
        assert_eq!(zstd::decode_all(&packed.body[..]).expect("zstd"), plain.body);
        for gzip in ["gzip", "gzip, deflate", "br;q=1.0, GZIP;q=0.8, zstd;q=0"] {
            let packed = send(http.get(&url).header("accept-encoding", gzip)).await;
            assert_eq!(packed.header("content-encoding"), "gzip", "{gzip}");
            let mut content = Vec::new();
            GzDecoder::new(&packed.body[..]).read_to_end(&mut content).expect("gzip");
            assert_eq!(content, plain.body);
        }
        for none in ["br", "zstd;q=0, gzip;q=0.0", "identity", ""] {
            let answer = send(http.get(&url).header("accept-encoding", none)).await;
            assert_eq!((answer.header("content-encoding"), answer.body.len()), ("", plain.body.len()), "{none}");
        }
        let head = send(http.head(&url)).await;
        assert_eq!((head.status, head.body.len(), head.header("etag")), (200, 0, tag.as_str()));
        let posted = send(http.request(Method::POST, format!("http://{}/", server.addr))).await;
        posted.problem(405, "method-not-allowed");
    })
    .await;
}
