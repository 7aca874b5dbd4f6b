//! The documented kinds of findings.

/// Kinds in the source, as `finding.rs` names them.
fn kinds() -> impl Iterator<Item = &'static str> {
    let source = include_str!("finding.rs");
    source.lines().filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => \"")?.1.strip_suffix("\","))
}

#[test]
fn every_kind_of_finding_is_explained() {
    let manual = include_str!("../../../OPERATIONS.md");
    let (_, section) = manual.split_once("### Verifying stored data").expect("a section");
    let (section, _) = section.split_once("\n### ").expect("an end");
    let explained: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(kinds().count(), 27);
    for kind in kinds() {
        let rows = explained
            .iter()
            .filter(|row| row.split(" | ").next().is_some_and(|kinds| kinds.contains(&format!("`{kind}`"))));
        assert_eq!(rows.count(), 1, "{kind}");
    }
}
