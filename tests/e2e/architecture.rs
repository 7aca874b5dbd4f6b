//! Which module of `src` may import which, read off the source. Between crates the manifests decide.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// What each top-level module of `src` may import of its siblings, and of the crates under their former names.
/// `{core, store, engine} ← agents ← api ← app ← main`; next to them the listener, and the command line.
const MAY: &[(&str, &[&str])] = &[
    // Where requests of the server may go.
    ("egress", &["domain"]),
    ("agents", &["domain", "egress", "metrics", "projection", "service", "subscription"]),
    // Names for threads that have none.
    ("titles", &["agents", "domain", "metrics", "projection", "service"]),
    ("auth", &["domain", "egress", "store"]),
    ("api", &["agents", "auth", "domain", "metrics", "projection", "quota", "service", "store", "subscription"]),
    ("timed_io", &[]),
    ("lingering", &[]),
    ("server", &["domain", "lingering", "timed_io"]),
    ("config", &["agents", "domain", "egress", "telemetry"]),
    (
        "app",
        &[
            "agents",
            "api",
            "auth",
            "bus",
            "config",
            "domain",
            "egress",
            "lock",
            "titles",
            "redis_link",
            "server",
            "service",
            "store",
        ],
    ),
    ("telemetry", &[]),
    // Ways into parsers, in builds for fuzzers only; they stand beside their parsers.
    ("fuzzing", &["agents", "api", "auth", "bus", "client", "domain", "transfer", "titles", "projection"]),
    ("progress", &[]),
    // Takes threads from one store to another, by way of files.
    ("transfer", &["domain", "progress", "store"]),
    ("cli", &["app", "client", "config", "domain", "egress", "transfer", "progress"]),
];

/// Crates that a module must not know.
const MUST_NOT: &[(&str, &[&str])] = &[
    ("egress", &["redis", "sqlx", "axum", "hyper"]),
    ("agents", &["redis", "sqlx", "axum", "hyper"]),
    ("titles", &["redis", "sqlx", "axum", "hyper", "reqwest"]),
    ("api", &["redis", "sqlx", "reqwest"]),
    ("cli", &["redis", "sqlx", "axum", "hyper"]),
    ("transfer", &["redis", "sqlx", "axum", "hyper", "reqwest"]),
];

/// Files that are longer than 500 lines, and why.
const LONG: &[(&str, &str)] = &[
    ("crates/store/src/memory/mod.rs", "the reference of all four ports, which reads as one specification"),
    ("crates/core/src/limits.rs", "every limit in one place, a line or two each"),
];

/// A source file without comments, strings and tests.
struct Source {
    /// Relative to `src`; of another crate, to the repository.
    path: String,
    module: Vec<String>,
    code: String,
    lines: usize,
}

impl Source {
    fn top(&self) -> &str {
        self.module.first().map_or("", String::as_str)
    }
}

/// The files of `src`, whose modules are named from its root on.
fn sources() -> Vec<Source> {
    sources_below("src", "src")
}

/// The files of the product: of `src` and of all crates.
fn product() -> Vec<Source> {
    let mut found = sources();
    found.extend(sources_below("crates", ""));
    found
}

/// The files below a directory of the repository, their paths and modules relative to another one.
fn sources_below(directory: &str, base: &str) -> Vec<Source> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = repository.join(base);
    let mut found = Vec::new();
    let mut directories = vec![repository.join(directory)];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                let path = path.strip_prefix(&root).expect("below src").to_string_lossy().replace('\\', "/");
                let module: Vec<_> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
                let module = match module.as_slice() {
                    [only] if only == "lib" || only == "main" => Vec::new(),
                    [above @ .., last] if last == "mod" => above.to_vec(),
                    _ => module,
                };
                if module.iter().any(|name| name == "tests") {
                    continue;
                }
                found.push(Source { lines: text.lines().count(), code: without_tests(&strip(&text)), path, module });
            }
        }
    }
    assert!(found.len() > 30);
    found
}

/// Without comments, and with empty strings.
fn strip(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    let starts = |at: usize, what: &str| what.chars().enumerate().all(|(i, c)| bytes.get(at + i) == Some(&c));
    while at < bytes.len() {
        let raw = (bytes[at] == 'r').then(|| bytes[at + 1..].iter().take_while(|c| **c == '#').count());
        let word = at > 0 && (bytes[at - 1].is_alphanumeric() || bytes[at - 1] == '_') && bytes[at - 1] != 'b';
        if starts(at, "//") {
            at += bytes[at..].iter().take_while(|c| **c != '\n').count();
        } else if starts(at, "/*") {
            at += 2;
            while at < bytes.len() && !starts(at, "*/") {
                at += 1;
            }
            at += 2;
        } else if let Some(hashes) = raw.filter(|hashes| !word && bytes.get(at + 1 + hashes) == Some(&'"')) {
            let end = format!("\"{}", "#".repeat(hashes));
            at += hashes + 2;
            while at < bytes.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
            out.push_str("\"\"");
        } else if bytes[at] == '"' {
            at += 1;
            while at < bytes.len() && bytes[at] != '"' {
                at += if bytes[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
            out.push_str("\"\"");
        } else if bytes[at] == '\'' && (bytes.get(at + 1) == Some(&'\\') || bytes.get(at + 2) == Some(&'\'')) {
            // A character, not a lifetime.
            at += if bytes[at + 1] == '\\' { 3 } else { 2 };
            while bytes[at] != '\'' {
                at += 1;
            }
            at += 1;
            out.push_str("' '");
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

fn without_tests(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some(found) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..found]);
        rest = &rest[found..];
        let brace = rest.find('{').unwrap_or(rest.len());
        let semicolon = rest.find(';').unwrap_or(rest.len());
        if semicolon < brace {
            rest = &rest[semicolon + 1..];
            continue;
        }
        let mut depth = 0;
        let end = rest.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            *c == '}' && depth == 0
        });
        rest = &rest[end.map_or(rest.len(), |(at, _)| at + 1)..];
    }
    out + rest
}

/// The paths of a `use` tree.
fn paths(tree: &str, prefix: &str, out: &mut Vec<String>) {
    let (mut depth, mut start) = (0, 0);
    let mut parts = Vec::new();
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&tree[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[start..]);
    for part in parts.into_iter().map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('{') {
            Some((before, inner)) => {
                let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
                paths(inner, &format!("{prefix}{}", before.trim()), out);
            }
            None => out.push(format!("{prefix}{}", part.split(" as ").next().unwrap_or(part).trim())),
        }
    }
}

/// Every path that a file names: its `use` lines, and the paths that stand in its code.
fn named(source: &Source) -> BTreeSet<String> {
    let mut found = Vec::new();
    let code = source.code.replace(['\n', '\t'], " ");
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in code.match_indices("use ") {
        if !code[..at].ends_with(is_name) {
            let end = code[at..].find(';').map_or(code.len(), |end| at + end);
            paths(&code[at + 4..end], "", &mut found);
        }
    }
    let mut at = 0;
    while at < code.len() {
        let rest = &code[at..];
        let length: usize = rest.chars().take_while(|c| is_name(*c) || *c == ':').map(char::len_utf8).sum();
        if length > 0 && rest[..length].contains("::") {
            found.push(rest[..length].trim_matches(':').to_owned());
        }
        at += length.max(rest.chars().next().map_or(1, char::len_utf8));
    }
    found.iter().map(|path| absolute(path, &source.module)).collect()
}

/// With `self` and `super` resolved.
fn absolute(path: &str, module: &[String]) -> String {
    let path: String = path.split_whitespace().collect();
    let mut segments: Vec<&str> = path.split("::").collect();
    let mut here: Vec<&str> = module.iter().map(String::as_str).collect();
    if !matches!(segments.first(), Some(&"super" | &"self")) {
        return path.replacen("threadline::", "crate::", usize::from(path.starts_with("threadline::")));
    }
    while let Some(first @ (&"super" | &"self")) = segments.first() {
        if *first == "super" {
            here.pop();
        }
        segments.remove(0);
    }
    here.insert(0, "crate");
    here.extend(segments);
    here.join("::")
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn groups_aliases_and_inline_paths_are_read() {
    let code = "use crate::{a::b, c::{d, e as f}};\nuse super::x;\nuse tokio::time::{self, Instant};\n\
                fn f() { crate::service::g(); let s = \"crate::no::no\"; } // crate::comment::x\n\
                #[cfg(test)]\nmod tests { use sqlx::Row; fn g() { if x { } } }\nuse y::z;";
    let module = vec!["api".to_owned(), "native".to_owned()];
    let source = Source { path: String::new(), module, code: without_tests(&strip(code)), lines: 0 };
    let found = named(&source);
    for path in [
        "crate::a::b",
        "crate::c::d",
        "crate::c::e",
        "crate::api::x",
        "tokio::time::Instant",
        "crate::service::g",
        "y::z",
    ] {
        assert!(found.contains(path), "{path} in {found:?}");
    }
    assert!(!found.iter().any(|path| path.contains("no::") || path.contains("comment") || path.contains("sqlx")));
}

#[test]
fn modules_import_only_what_stands_before_them() {
    let mut wrong = Vec::new();
    for source in sources() {
        let top = source.top();
        if top.is_empty() {
            continue;
        }
        let Some((_, may)) = MAY.iter().find(|(name, _)| *name == top) else {
            wrong.push(format!("{} is in a module that has no place yet: give it one here", source.path));
            continue;
        };
        for path in named(&source) {
            let Some(inner) = path.strip_prefix("crate::") else { continue };
            let target = inner.split("::").next().unwrap_or(inner);
            if target != top && !may.contains(&target) {
                wrong.push(format!("{} imports {path}", source.path));
            }
        }
    }
    assert_none("imports against the rule", &wrong);
}

#[test]
fn modules_know_only_the_crates_of_their_layer() {
    let mut wrong = Vec::new();
    for source in sources() {
        let banned = MUST_NOT.iter().find(|(name, _)| *name == source.top()).map_or(&[][..], |(_, banned)| banned);
        for path in named(&source) {
            if banned.iter().any(|name| path.split("::").next() == Some(name)) {
                wrong.push(format!("{} imports {path}", source.path));
            }
        }
    }
    assert_none("crates against the rule", &wrong);
}

#[test]
fn only_the_app_names_concrete_back_ends() {
    let mut wrong = Vec::new();
    let may = |source: &&Source| source.path == "app.rs";
    for source in sources().iter().filter(|source| !may(source)) {
        for path in named(source) {
            if path.starts_with("crate::store::sqlite") || path.starts_with("crate::store::memory") {
                wrong.push(format!("{} imports {path}", source.path));
            }
        }
        for name in ["SqliteStore", "MemoryStore"] {
            if source.code.contains(name) {
                wrong.push(format!("{} names {name}", source.path));
            }
        }
    }
    assert_none("concrete back-ends outside app.rs", &wrong);
}

#[test]
fn routes_and_frames_are_registered_through_the_doors_only() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.path != "api/doors.rs") {
        for name in ["Router::new", "OpenApiRouter", ".route_service(", ".nest(", ".nest_service(", ".merge("] {
            if source.code.contains(name) && source.top() == "api" {
                wrong.push(format!("{} says {name}", source.path));
            }
        }
        let registered = source.code.matches(".route(").count();
        let by_doors = source.code.matches(".route(Access::").count();
        if registered != by_doors {
            wrong.push(format!("{} registers a route of its own", source.path));
        }
    }
    assert_none("routes beside the doors", &wrong);
}

#[test]
fn files_stay_small() {
    let sources = product();
    let long: Vec<_> = sources.iter().filter(|source| source.lines > 500).map(|source| source.path.clone()).collect();
    let unknown: Vec<_> = long.iter().filter(|path| LONG.iter().all(|(known, _)| known != path)).cloned().collect();
    assert_none("longer than 500 lines without a reason given here", &unknown);
    for (path, _) in LONG {
        assert!(long.iter().any(|found| found == path), "{path} is not long any more: take it off the list");
    }
}

#[test]
fn nothing_panics_for_want_of_an_answer() {
    let mut wrong = Vec::new();
    for source in product() {
        for (number, line) in source.code.lines().enumerate() {
            for name in [".unwrap()", ".expect(", "panic!(", "todo!(", "unimplemented!(", "unreachable!("] {
                if line.contains(name) {
                    wrong.push(format!("{} around line {}: {}", source.path, number + 1, line.trim()));
                }
            }
        }
    }
    assert_none("may panic outside tests", &wrong);
}

/// All sources in these directories of the repository, and what they say.
fn all_sources(directories: &[&str]) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut left: Vec<_> = directories.iter().map(|directory| root.join(directory)).collect();
    let mut found = Vec::new();
    while let Some(path) = left.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "node_modules", ".venv"].contains(&name.as_str()) {
            left.extend(fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()));
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).expect("a source");
            found.push((path, text));
        }
    }
    found
}

#[test]
fn nothing_of_ours_is_unsafe() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let text = fs::read_to_string(root.join(manifest)).expect("a manifest");
        assert!(text.contains("unsafe_code = \"forbid\""), "{manifest} does not forbid it");
    }
    let word = |c: char| !c.is_alphanumeric() && c != '_';
    let sources = all_sources(&["src", "crates", "tests", "fuzz", "examples"]);
    assert!(sources.len() > 300, "only {} sources", sources.len());
    let wrong = sources.iter().filter(|(_, text)| strip(text).split(word).any(|found| found == "unsafe"));
    assert_none("unsafe", &wrong.map(|(path, _)| path.display().to_string()).collect::<Vec<_>>());
}
