//! The committed contract is what the code does.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;
use threadline::api::{router, socket::CLIENT_FRAMES};
use threadline_http::problem::ProblemType;

use crate::{
    harness::{Options, Server, number, run},
    table::routes,
};

fn file(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_committed_description_is_the_one_of_the_code() {
    let text = router::openapi().to_pretty_json().expect("a document") + "\n";
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        fs::write(file("proto/openapi.json"), &text).expect("written");
    }
    let committed = fs::read_to_string(file("proto/openapi.json")).unwrap_or_default();
    assert!(
        committed == text,
        "proto/openapi.json is not what the code describes. If the change is wanted:\n\
         UPDATE_OPENAPI=1 cargo test --test e2e contract_documents"
    );
}

#[test]
fn every_operation_has_an_id_of_its_own() {
    let mut ids: Vec<_> =
        routes().iter().map(|route| route.description["operationId"].as_str().expect("an id")).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    assert!(ids.contains(&"postThreadsThreadIdForks"), "{ids:?}");
}

/// The table of all problem types, as docs/errors.md has it.
fn problem_table() -> String {
    let mut table = "| slug | status | title | retry | when | what to do |\n|---|---|---|---|---|---|\n".to_owned();
    for kind in ProblemType::ALL {
        let (slug, status, title, help) = (kind.slug(), kind.status().as_u16(), kind.title(), kind.help());
        let (retry, when) = (if kind.is_retryable() { "yes" } else { "no" }, kind.when());
        table.push_str(&format!("| `{slug}` | {status} | {title} | {retry} | {when} | {help} |\n"));
    }
    table
}

#[test]
fn the_committed_table_of_problems_is_the_one_of_the_code() {
    let path = "docs/errors.md";
    let page = read(path);
    let (before, _) = page.split_at(page.find("| slug |").unwrap_or(page.len()));
    let text = format!("{before}{}", problem_table());
    if std::env::var_os("UPDATE_ERRORS").is_some() {
        fs::write(file(path), &text).expect("written");
    }
    assert!(
        read(path) == text,
        "{path} is not what the code says. If the change is wanted:\n\
         UPDATE_ERRORS=1 cargo test --test e2e contract_documents\n\n{}",
        problem_table()
    );
}

#[test]
fn a_slug_and_a_title_name_one_problem() {
    let (mut titles, mut slugs) = (BTreeSet::new(), BTreeSet::new());
    for kind in ProblemType::ALL {
        let (slug, title) = (kind.slug(), kind.title());
        assert!(slugs.insert(slug) && kind.status().as_u16() >= 400, "{kind:?}");
        for start in ["There ", "This ", "You ", "The request "] {
            assert!(!title.starts_with(start), "{slug}: {title:?} is a sentence: a title is a noun phrase");
        }
        assert!(!title.ends_with('.'), "{slug}: {title:?}");
        assert!(titles.insert(title), "{slug}: {title:?} is the title of another problem");
        assert!(kind.when().ends_with('.') && kind.help().ends_with('.'), "{slug}: when and help are sentences");
    }
}

#[test]
fn each_schema_that_the_openapi_document_names_is_in_it() {
    let text = read("proto/openapi.json");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let named = text.split("\"#/components/schemas/").skip(1).map(|rest| rest.split('"').next().expect("a name"));
    let missing: Vec<_> = named.filter(|name| !schemas.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_openapi_document_describes_every_route_and_no_other() {
    let document: Value = serde_json::from_str(&read("proto/openapi.json")).expect("JSON");
    let mut described = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            described.insert((method.to_uppercase(), path.clone()));
            assert!(operation["summary"].is_string(), "{method} {path} does not say what it does");
            for (status, answer) in operation["responses"].as_object().expect("responses") {
                if status.as_str() >= "400" {
                    let content = answer["content"].as_object().expect("a problem has a content");
                    let form =
                        if path.starts_with("/openai/") { "application/json" } else { "application/problem+json" };
                    assert!(content.contains_key(form), "{method} {path} {status}: {content:?}");
                }
            }
        }
    }
    let registered = routes().iter().map(|route| (route.method.to_owned(), route.path.replace("{*", "{"))).collect();
    assert_eq!(described, registered);
}

/// The names of a oneof, as proto3 JSON has them.
fn oneof(proto: &str, message: &str) -> BTreeSet<String> {
    let start = proto.find(&format!("message {message} {{")).expect("the message");
    let body = &proto[start..];
    let body = &body[body.find("oneof frame {").expect("the oneof")..];
    let body = &body[..body.find('}').expect("its end")];
    let fields = body.lines().filter(|line| line.contains(" = ") && !line.trim_start().starts_with("//"));
    fields
        .map(|line| camel(line.split('=').next().and_then(|left| left.split_whitespace().last()).expect("a name")))
        .collect()
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// The server frames that stand in the code of the socket.
fn sent() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(file("src/api/socket")).expect("the socket's files") {
        let code = fs::read_to_string(entry.expect("an entry").path()).expect("a source");
        let code = code.split("#[cfg(test)]").next().expect("a beginning");
        for call in ["push(", "frame("] {
            for (at, _) in code.match_indices(call) {
                let arguments = &code[at + call.len()..];
                let arguments = &arguments[..arguments.find(';').unwrap_or(arguments.len())];
                let literal = arguments.split('"').nth(1).filter(|it| it.chars().all(|c| c.is_ascii_alphabetic()));
                // The first two arguments only: an id, then the name.
                let near = arguments.find('"').is_some_and(|quote| arguments[..quote].matches(',').count() == 1);
                names.extend(literal.filter(|_| near).map(str::to_owned));
            }
        }
        // Those that are written by hand.
        for (at, _) in code.match_indices("\\\":{{") {
            names.extend(code[..at].rsplit('"').next().map(str::to_owned));
        }
    }
    names
}

#[test]
fn the_frames_of_the_proto_are_those_of_the_code() {
    let proto = read("proto/threadline/v1/socket.proto");
    let client: BTreeSet<String> = CLIENT_FRAMES.0.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(oneof(&proto, "ClientFrame"), client);
    assert_eq!(oneof(&proto, "ServerFrame"), sent());
    let of_the_socket = router::entries().into_iter().filter(|entry| entry.path == "/v1/socket");
    let registered = of_the_socket.filter_map(|entry| entry.frame).map(str::to_owned).collect();
    assert_eq!(client, registered);
}

#[tokio::test]
async fn every_problem_type_links_to_its_explanation() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        for kind in ProblemType::ALL {
            let path = format!("/problems/{}", kind.slug());
            let explained = dev.get(&path).await.ok(200);
            assert_eq!(
                (explained["type"].as_str(), number(&explained, "status")),
                (Some(path.as_str()), kind.status().as_u16().into())
            );
        }
        dev.get("/problems/none").await.problem(404, "not-found");
        let served = dev.get("/v1/openapi.json").await.ok(200);
        assert_eq!(served, serde_json::from_str::<Value>(&read("proto/openapi.json")).expect("JSON"));
    })
    .await;
}
