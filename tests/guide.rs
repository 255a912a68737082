//! The SQL of the guide, run on the database that it is for; and its chapter on moving from a hand-written table, with nodes
//! of two releases side by side. (Its Rust is compiled by the package `idem-guide`.)
#![allow(clippy::duplicate_mod, reason = "the chapter is compiled once for each database, on purpose")]

mod guide {
    mod postgres;
    mod sqlite;
}

const MOVING: &str = include_str!("../guide/src/moving.md");

/// The blocks of SQL in a chapter that are for this database.
fn blocks(chapter: &str, database: &str) -> Vec<String> {
    let blocks = chapter.split("```sql").skip(1).filter_map(|rest| rest.split("```").next()?.split_once('\n'));
    let ours = blocks.filter(|(of, _)| of.is_empty() || of.strip_prefix(',') == Some(database));
    ours.map(|(_, sql)| sql.to_owned()).collect()
}

#[test]
fn the_bridge_is_the_guides() {
    let block = MOVING.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let shown: String = block.split_inclusive('\n').filter(|line| !line.starts_with("# ")).collect();
    let (_, compiled) = include_str!("guide/bridge.rs").split_once("\n\n").expect("a header");
    assert!(compiled.starts_with(&shown), "this block of the guide is not what is run:\n{shown}");
    // Release 1 is shown in SQL, and says the same.
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let bridge = one_line(&shown);
    for statement in ["INSERT", "SELECT status", "UPDATE"] {
        let sql = blocks(MOVING, "").into_iter().find(|sql| sql.starts_with(statement)).expect("a statement");
        assert!(bridge.contains(one_line(&sql).trim_end_matches(';')), "the releases differ: {sql}");
    }
}
