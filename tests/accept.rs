//! Handlers as people write them must compile under the attribute and be usable at a `Router`.
//! Nothing here runs: that it compiles, with the state inferred at the route, is the test.
#![deny(warnings)]
#![allow(dead_code, reason = "some shapes are here to compile, not to be routed")]

// As a crate that is renamed in Cargo.toml looks from inside.
extern crate idem_runtime as company_idem;

mod accept {
    mod common;

    mod b100_transactions;
    mod b92_parameters;
    mod b94_debug_handler;
    mod b95_utoipa;
    mod b99_bodies;
    mod beside;
    mod consumers;
    mod external;
    mod groups;
    mod hidden;
    mod names;
    mod options;
    mod renamed;
    mod routes;
    mod shapes;
    mod short_bodies;
    mod stacks;
    mod webhooks;

    pub(crate) use self::names::NAMES;
}

use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn every_name_in_the_expansion_is_tried_as_the_name_of_a_function() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../idem-macros/src/expand");
    let files = fs::read_dir(folder).expect("the expansion's source");
    let mut found = BTreeSet::new();
    for file in files {
        let source = fs::read_to_string(file.expect("a file").path()).expect("a text");
        for quoted in
            source.split("quote").skip(1).filter(|rest| rest.starts_with("!") || rest.starts_with("_spanned!"))
        {
            let quoted = group(quoted);
            // `quote_spanned!(span=> …)`
            let quoted = if quoted.starts_with('!') { quoted } else { quoted.split_once("=>").unwrap_or_default().1 };
            found.extend(words(quoted));
        }
    }
    assert!(found.contains("__call") && found.contains("loop"), "{found:?}");
    // No function can have these names.
    for word in ["crate", "self", "Self", "super"] {
        found.remove(word);
    }
    let is_tried = |word: &String| accept::NAMES.iter().any(|name| name.trim_start_matches("r#") == word);
    let untried: Vec<_> = found.iter().filter(|word| !is_tried(word)).collect();
    assert!(untried.is_empty(), "add to accept/names.rs: {untried:?}");
}

/// The first group of brackets in `source`.
fn group(source: &str) -> &str {
    let mut depth = 0_usize;
    for (at, sign) in source.char_indices() {
        match sign {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' if depth == 1 => return &source[..at],
            ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
    }
    source
}

/// The identifiers and keywords in `source`, without what is put in for `#name`.
fn words(source: &str) -> impl Iterator<Item = String> {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    let words = source.split(move |sign| !(is_part(sign) || sign == '#'));
    let named = words.filter(|word| !word.contains('#') && word.starts_with(|sign: char| !sign.is_ascii_digit()));
    named.filter(|word| *word != "_").map(str::to_owned)
}
