//! `PROMISES.md`: every row leads to code, to tests and to planted bugs that exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The promises that may stand under "Without a planted bug". The list shrinks: lower this with it, never raise it.
const WITHOUT_PLANT: usize = 12;

/// Marks that may follow a test in parentheses.
const MARKS: [&str; 7] = ["memory", "SQLite", "Postgres", "Redis", "in process", "Chromium", "full"];
/// Marks of the tests that a macro makes.
const CONTRACT: &str = "memory, SQLite, Postgres";
const PORTS: &str = "in process, Redis";
const EVERYWHERE: &str = "SQLite, Postgres, Redis";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|_| format!("there is no file {path}"))
}

/// A `path::name` of the page, with the marks that follow it.
#[derive(Debug, PartialEq)]
struct Place {
    path: String,
    name: String,
    marks: Vec<String>,
}

/// A promise.
#[derive(Debug)]
struct Row {
    id: String,
    words: String,
    kept: Vec<Place>,
    tests: Vec<Place>,
    plants: Vec<String>,
}

/// The page, taken apart.
#[derive(Debug, Default)]
struct Page {
    rows: Vec<Row>,
    /// Ids under "Without a planted bug".
    without_plant: Vec<String>,
    /// Promises of README.md, each with the ids of its rows.
    readme: Vec<(String, Vec<String>)>,
}

/// The texts between backticks, each with what follows it up to the next.
fn quoted(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<_> = text.split('`').collect();
    parts.chunks(2).skip(1).zip(parts.chunks(2)).map(|(next, this)| (*this.get(1).unwrap_or(&""), next[0])).collect()
}

fn places(cell: &str, errors: &mut Vec<String>) -> Vec<Place> {
    let mut found = Vec::new();
    for (place, after) in quoted(cell) {
        let Some((path, name)) = place.split_once("::") else {
            errors.push(format!("`{place}` is not `path::name`"));
            continue;
        };
        let marks =
            after.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or("", |found| found.0);
        let marks = marks.split(',').map(|mark| mark.trim().to_owned()).filter(|mark| !mark.is_empty()).collect();
        found.push(Place { path: path.to_owned(), name: name.to_owned(), marks });
    }
    found
}

fn is_id(word: &str) -> bool {
    let number = word.get(1..).unwrap_or_default();
    word.starts_with(['P', 'I', 'R'])
        && !number.is_empty()
        && number.len() < 3
        && number.bytes().all(|b| b.is_ascii_digit())
}

fn ids(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| is_id(word)).map(str::to_owned).collect()
}

fn parse(text: &str) -> (Page, Vec<String>) {
    let (mut page, mut errors, mut section) = (Page::default(), Vec::new(), "");
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading;
        } else if let Some(line) = line.strip_prefix('|') {
            let cells: Vec<&str> = line.trim_end().trim_end_matches('|').split('|').map(str::trim).collect();
            if section == "What README.md promises" {
                let named = ids(cells.last().unwrap_or(&""));
                if !named.is_empty() {
                    page.readme.push((cells[0].to_owned(), named));
                }
            } else if is_id(cells[0]) {
                let [id, words, kept, tests, plants] = cells[..] else {
                    errors.push(format!("{}: a row has five cells, not {}", cells[0], cells.len()));
                    continue;
                };
                let mut wrong = Vec::new();
                page.rows.push(Row {
                    id: id.to_owned(),
                    words: words.to_owned(),
                    kept: places(kept, &mut wrong),
                    tests: places(tests, &mut wrong),
                    plants: quoted(plants).into_iter().map(|(name, _)| name.to_owned()).collect(),
                });
                errors.extend(wrong.into_iter().map(|wrong| format!("{id}: {wrong}")));
            }
        } else if section == "Without a planted bug"
            && let Some(item) = line.strip_prefix("- ")
        {
            page.without_plant.extend(ids(item.split(':').next().unwrap_or_default()));
        }
    }
    (page, errors)
}

/// True if a file defines an item of this name.
fn defines(text: &str, name: &str) -> bool {
    let kinds =
        ["fn", "struct", "enum", "trait", "const", "static", "type", "mod", "macro_rules!", "class", "function"];
    kinds.iter().any(|kind| declared(text, kind, name).next().is_some())
}

/// The places where `kind name` stands, as words.
fn declared<'a>(text: &'a str, kind: &str, name: &str) -> impl Iterator<Item = usize> + 'a {
    let wanted = format!("{kind} {name}");
    let word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(&wanted.clone())
        .map(|(at, _)| at)
        .filter(move |at| !text[..*at].ends_with(word) && !text[at + wanted.len()..].starts_with(word))
        .collect::<Vec<_>>()
        .into_iter()
}

/// The tests that the macros of `tests/contract/main.rs` make of functions: `module::function`, and their marks.
fn contract_tests(main: &str) -> BTreeMap<String, &'static str> {
    let mut found = BTreeMap::new();
    for (begin, marks) in [("\ncontract! {", CONTRACT), ("    both! {", PORTS)] {
        for (at, _) in main.match_indices(begin) {
            let body = &main[at + begin.len()..];
            let body = &body[..body.find('}').unwrap_or(body.len())];
            let mut module = String::new();
            for word in body.split([' ', '\n', ';', ',']).filter(|word| !word.is_empty()) {
                match word.strip_suffix(':') {
                    // `both! { lock, crate::lock::Gate: …`: the first word is the module.
                    Some(name) if !name.contains("::") => module = name.to_owned(),
                    Some(_) => {}
                    None if module.is_empty() || body.contains(&format!("{word}, crate::")) => module = word.to_owned(),
                    None => drop(found.insert(format!("{module}::{word}"), marks)),
                }
            }
        }
    }
    found
}

/// Marks that a test of Rust has by its macro, if it has one; an error if it is no test, or `full` does not fit it.
fn rust_test(place: &Place, text: &str) -> Result<Option<&'static str>, String> {
    let at = declared(text, "fn", &place.name).next().ok_or("no such function")?;
    let line = text[..at].matches('\n').count();
    let above: Vec<&str> = text.lines().take(line).collect();
    // Attributes may take several lines; what stands above them ends in one of these.
    let attributes: Vec<&str> =
        above.iter().rev().map(|line| line.trim()).take_while(|line| line.starts_with(['#', '/'])).collect();
    if attributes.iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test")) {
        let (ignored, full) =
            (attributes.iter().any(|line| line.starts_with("#[ignore")), place.marks.iter().any(|mark| mark == "full"));
        return match (ignored, full) {
            (true, false) => Err("it is ignored, and not marked (full)".to_owned()),
            (false, true) => Err("it is marked (full), and not ignored".to_owned()),
            _ => Ok(None),
        };
    }
    let before = above.iter().rev().find(|line| !line.trim_start().starts_with("//")).map_or("", |line| line.trim());
    if before.starts_with("everywhere") && before.ends_with("! {") {
        return Ok(Some(EVERYWHERE));
    }
    if let Some(file) = place.path.strip_prefix("tests/contract/") {
        let name = format!("{}::{}", file.trim_end_matches(".rs"), place.name);
        let made = contract_tests(&read("tests/contract/main.rs")?).get(&name).copied();
        return made.map(Some).ok_or(format!("{name} is in no list of tests/contract/main.rs"));
    }
    Err("it is no test".to_owned())
}

fn check_test(place: &Place) -> Result<(), String> {
    let text = read(&place.path)?;
    if let Some(mark) = place.marks.iter().find(|mark| !MARKS.contains(&mark.as_str())) {
        return Err(format!("({mark}) is none of {}", MARKS.join(", ")));
    }
    if place.path.ends_with(".ts") {
        let titled = |quote: char| text.contains(&format!("test({quote}{}{quote}", place.name));
        return if titled('"') || titled('\'') { Ok(()) } else { Err("no test of this title".to_owned()) };
    }
    match rust_test(place, &text)? {
        Some(marks) if place.marks.join(", ") != marks => Err(format!("it runs on ({marks})")),
        _ => Ok(()),
    }
}

fn check_row(row: &Row, plants: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    if row.words.len() < 20 {
        wrong.push("it does not say what is promised".to_owned());
    }
    if row.kept.is_empty() {
        wrong.push("it does not say where it is kept".to_owned());
    }
    for place in &row.kept {
        match read(&place.path) {
            Err(error) => wrong.push(error),
            Ok(text) if !defines(&text, &place.name) => wrong.push(format!("{} has no {}", place.path, place.name)),
            Ok(_) => {}
        }
    }
    if !row.tests.iter().any(|test| test.path.ends_with(".rs") && !test.marks.iter().any(|mark| mark == "full")) {
        wrong.push("it names no test that `cargo test` runs".to_owned());
    }
    for test in &row.tests {
        if let Err(error) = check_test(test) {
            wrong.push(format!("{}::{}: {error}", test.path, test.name));
        }
    }
    for plant in row.plants.iter().filter(|plant| !plants.contains(*plant)) {
        wrong.push(format!("there is no tests/chaos/plants/{plant}.patch"));
    }
    wrong.into_iter().map(|wrong| format!("{}: {wrong}", row.id)).collect()
}

fn plants() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("tests/chaos/plants")).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    names.filter_map(|name| name.strip_suffix(".patch").map(str::to_owned)).collect()
}

/// The bold beginnings of the list under "What it guarantees", and the needs of "Is it for you?" that are answered with yes.
fn promises_of_readme(text: &str) -> Vec<String> {
    // Promises end where "## APIs" begins; the bold words after it lead a reader through the code.
    let text = text.split("\n## APIs").next().unwrap_or(text);
    let bold = text.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("**"));
    let bold = bold.map(|(begin, _)| begin.trim_end_matches([',', '.']).to_owned());
    let needs = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | yes |"));
    bold.chain(needs.map(|(need, _)| need.trim().to_owned())).collect()
}

fn check_page(page: &Page, readme: &str) -> Vec<String> {
    let (plants, mut wrong) = (plants(), Vec::new());
    let known: BTreeSet<&str> = page.rows.iter().map(|row| row.id.as_str()).collect();
    if known.len() < page.rows.len() {
        wrong.push("an id has two rows".to_owned());
    }
    wrong.extend(page.rows.iter().flat_map(|row| check_row(row, &plants)));
    for plant in &plants {
        if !page.rows.iter().any(|row| row.plants.contains(plant)) {
            wrong.push(format!("no row names the planted bug {plant}"));
        }
    }
    for id in &page.without_plant {
        match page.rows.iter().find(|row| row.id == *id) {
            None => wrong.push(format!("{id}: it is listed as without a planted bug, and has no row")),
            Some(row) if !row.plants.is_empty() => {
                wrong.push(format!("{id}: it has a planted bug, and is listed as without"))
            }
            Some(_) => {}
        }
    }
    for row in page.rows.iter().filter(|row| row.plants.is_empty() && !page.without_plant.contains(&row.id)) {
        wrong.push(format!("{}: it has no planted bug; plant one, see CONTRIBUTING.md", row.id));
    }
    let allowed = page.without_plant.len();
    if allowed != WITHOUT_PLANT {
        let what = if allowed < WITHOUT_PLANT { "lower WITHOUT_PLANT" } else { "none may be added" };
        wrong.push(format!("{allowed} promises are without a planted bug, {WITHOUT_PLANT} may be: {what}"));
    }
    let (said, listed): (BTreeSet<_>, BTreeSet<_>) =
        (promises_of_readme(readme).into_iter().collect(), page.readme.iter().map(|(text, _)| text.clone()).collect());
    wrong.extend(said.difference(&listed).map(|text| format!("README.md promises \"{text}\", which is not listed")));
    wrong.extend(listed.difference(&said).map(|text| format!("README.md does not promise \"{text}\"")));
    for (text, ids) in &page.readme {
        wrong.extend(
            ids.iter().filter(|id| !known.contains(id.as_str())).map(|id| format!("\"{text}\": {id} has no row")),
        );
    }
    wrong
}

/// The files below a directory whose comments are read, without what is installed or generated.
fn commented(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !matches!(name, "node_modules" | "target" | "fixtures" | "dist" | "__pycache__")
                && !name.starts_with('.')
            {
                commented(&path, found);
            }
        } else if path
            .extension()
            .is_some_and(|kind| ["rs", "ts", "mjs", "py", "sh", "sql"].iter().any(|it| kind == *it))
        {
            found.push(path);
        }
    }
}

/// The comment of a line, if it has one. A mark inside of a string may be treated as one: then its words count as well.
fn comment(line: &str) -> &str {
    let trimmed = line.trim_start();
    if trimmed.starts_with('*') {
        return trimmed;
    }
    let begins = ["//", "--", "# "].iter().filter_map(|mark| line.find(mark)).min();
    begins.map_or("", |at| &line[at..])
}

#[test]
fn every_promise_leads_to_code_tests_and_planted_bugs_that_exist() {
    let (page, mut wrong) = parse(&read("PROMISES.md").expect("the page"));
    assert!(page.rows.len() >= 20, "the table of PROMISES.md was not found: {} rows", page.rows.len());
    wrong.extend(check_page(&page, &read("README.md").expect("the page")));
    assert!(wrong.is_empty(), "PROMISES.md is not true:\n{}", wrong.join("\n"));
}

#[test]
fn every_promise_that_a_comment_names_has_a_row() {
    let (page, _) = parse(&read("PROMISES.md").expect("the page"));
    let known: BTreeSet<_> = page.rows.iter().map(|row| row.id.as_str()).collect();
    let mut files = Vec::new();
    for directory in ["src", "crates", "tests", "tools", "migrations"] {
        commented(&root().join(directory), &mut files);
    }
    let (mut named, mut unknown) = (0, Vec::new());
    for path in files {
        let text = fs::read_to_string(&path).expect("a text");
        for (number, line) in text.lines().enumerate() {
            for id in ids(comment(line)) {
                named += 1;
                if !known.contains(id.as_str()) {
                    unknown.push(format!("{}:{}: {id} has no row in PROMISES.md", path.display(), number + 1));
                }
            }
        }
    }
    assert!(named > 0, "no comment names a promise: are comments still found?");
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

/// The checker finds each kind of mistake, and says which row and why.
#[test]
fn errors_in_the_promises_name_their_row() {
    let page = "\
| id | what is promised | kept in | tests | planted bug |
|---|---|---|---|---|
| P1 | Acknowledged appends are durable. | `src/lib.rs::no_such_item` | `tests/model/reads.rs::no_such_test` | `no-such-bug` |
| P2 | Short. | `no/such/file.rs::x` | `tests/contract/log.rs::appends_are_dense` (memory) | none |
| P3 | There is another row of this id. | `src/main.rs::main` | `tests/chaos/main.rs::for_long` | `log-key` |
| P3 | It is what is said of it twice. | `src/main.rs::main` | `tests/chaos/main.rs::plants` (somewhere) | `log-key` |
| P4 | A title may be wrong as well. | | `sdk/typescript/test/ids.test.ts::no such title` | `log-key` |
| P5 | The function is none of a test. | `src/main.rs::main` | `tests/contract/log.rs::flat`, `tests/model/support.rs::user` | `log-key` |
| P6 | Four cells are too few. | `src/main.rs::main` | none |

## Without a planted bug

- P7: is not there.
- P5: has one.

## What README.md promises

| words | rows |
|---|---|
| Never said | P9 |
";
    let (page, mut wrong) = parse(page);
    wrong.extend(check_page(&page, "- **Is said.** In bold.\n| this | yes | why |\n| that | no | why |\n"));
    let all = wrong.join("\n");
    for expected in [
        "P1: src/lib.rs has no no_such_item",
        "P1: tests/model/reads.rs::no_such_test: no such function",
        "P1: there is no tests/chaos/plants/no-such-bug.patch",
        "P2: it does not say what is promised",
        "P2: there is no file no/such/file.rs",
        "P2: tests/contract/log.rs::appends_are_dense: it runs on (memory, SQLite, Postgres)",
        "P2: it has no planted bug",
        "an id has two rows",
        "P3: tests/chaos/main.rs::for_long: it is ignored, and not marked (full)",
        "P3: tests/chaos/main.rs::plants: (somewhere) is none of",
        "P4: it does not say where it is kept",
        "P4: it names no test that `cargo test` runs",
        "P4: sdk/typescript/test/ids.test.ts::no such title: no test of this title",
        "P5: tests/contract/log.rs::flat: log::flat is in no list",
        "P5: tests/model/support.rs::user: it is no test",
        "P6: a row has five cells, not 4",
        "P7: it is listed as without a planted bug, and has no row",
        "P5: it has a planted bug, and is listed as without",
        "no row names the planted bug hint-sets-tail",
        "2 promises are without a planted bug",
        "README.md promises \"Is said\"",
        "README.md promises \"this\"",
        "README.md does not promise \"Never said\"",
        "\"Never said\": P9 has no row",
    ] {
        assert!(all.contains(expected), "not reported: {expected}\n{all}");
    }
}
