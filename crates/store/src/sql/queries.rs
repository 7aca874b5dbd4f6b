//! Statements in files of their own, `queries/{postgres,sqlite}/NAME.sql`, which `scripts/sql NAME` prepares for psql and
//! sqlite3.
//!
//! A file begins with comments: what the statement does, its caller, its parameters in order and an example of them. A
//! part that several files share is between `-- <fragment NAME>` and `-- </fragment>`, and equal in all of them.

/// The statement of a file, without the comments at its head, which end with an empty line: behind a transaction pooler
/// the text is sent with every execution.
pub(crate) const fn text_of(file: &'static str) -> &'static str {
    let mut rest = file;
    while let [b'-', ..] = rest.as_bytes() {
        let mut end = 0;
        while rest.as_bytes()[end] != b'\n' {
            end += 1;
        }
        rest = rest.split_at(end + 1).1;
    }
    rest.split_at(1).1
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, path::Path};

    use super::*;

    /// The files of both databases: path and text.
    fn files() -> Vec<(String, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
        let mut found = Vec::new();
        for database in ["postgres", "sqlite"] {
            for entry in fs::read_dir(root.join(database)).expect("queries") {
                let path = entry.expect("an entry").path();
                let name = format!("{database}/{}", path.file_name().expect("a name").to_string_lossy());
                found.push((name, fs::read_to_string(path).expect("a text")));
            }
        }
        found
    }

    /// The fragments of a text, by name.
    fn fragments(text: &str) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        for part in text.split("-- <fragment ").skip(1) {
            let (name, rest) = part.split_once(">\n").expect("a name");
            let (body, _) = rest.split_once("-- </fragment>").expect("an end of the fragment");
            found.push((name, body));
        }
        found
    }

    #[test]
    fn the_head_of_a_file_is_not_part_of_its_statement() {
        assert_eq!(text_of("-- A purpose\n-- $1 key\n\nSELECT 1\n-- <fragment x>\n"), "SELECT 1\n-- <fragment x>\n");
        for (name, text) in files() {
            let sent = text_of(text.clone().leak());
            assert!(text.starts_with("-- ") && text.ends_with(sent) && !sent.is_empty(), "{name}");
            assert!(text.trim_end_matches(sent).ends_with("\n\n"), "{name}: an empty line ends the head");
        }
    }

    #[test]
    fn fragments_of_the_same_name_are_equal() {
        let files = files();
        let (mut first, mut compared) = (BTreeMap::new(), 0);
        for (file, text) in &files {
            let database = file.split('/').next();
            for (name, body) in fragments(text) {
                let (other, text) = first.entry((database, name)).or_insert((file, body));
                assert_eq!(*text, body, "fragment {name} differs in {other} and {file}");
                compared += 1;
            }
        }
        assert!(compared > 130 && compared > 3 * first.len(), "{compared} of {} names", first.len());
    }

    /// I11: turns follow heads.
    #[test]
    fn turns_change_only_with_their_head() {
        let writes = |text: &str, table: &str| {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            ["INSERT INTO", "UPDATE", "DELETE FROM"].iter().any(|verb| text.contains(&format!("{verb} {table} ")))
        };
        let writing: Vec<_> = files().into_iter().filter(|(_, text)| writes(text, "turns")).collect();
        assert!(writing.len() > 12, "{}", writing.len());
        for (name, text) in writing {
            // Each of the two changes one column, on which no other statement relies: when the reaper looks, and who drives.
            let column = |file: &str, column: &str| {
                let changes =
                    text.split("UPDATE turns").skip(1).map(|rest| rest.trim_start_matches(" AS t").trim_start());
                name.ends_with(file)
                    && changes.clone().count() == 1
                    && changes.clone().all(|text| text.starts_with(column))
            };
            // A thread that is purged has no head any more.
            let headless = name.ends_with("/purge_rest.sql");
            let alone =
                column("/claim_due.sql", "SET check_at =") || column("/claim_turns.sql", "SET driver =") || headless;
            assert!(writes(&text, "heads") || alone, "{name} changes turns without their head");
        }
    }

    #[test]
    fn statements_are_texts_and_not_made() {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        for folder in ["postgres", "sqlite", "sql", "sql/tables"] {
            for entry in fs::read_dir(src.join(folder)).expect("sources") {
                let path = entry.expect("an entry").path();
                let Ok(text) = fs::read_to_string(&path) else { continue };
                let made = |line: &&str| line.contains(&["concat", "!("].concat()) && !line.contains("env!");
                assert_eq!(text.lines().find(made), None, "{}", path.display());
            }
        }
    }
}
