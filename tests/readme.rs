//! Every Rust block of the README is compiled: it stands, letter for letter, in a file of `readme/` that is a module here.
//! What a block leaves out for the reader's sake stands around it there.
#![allow(dead_code, reason = "the README's code is compiled, not run")]

mod readme {
    mod handler;
    mod state;
}

const README: &str = include_str!("../README.md");

#[test]
fn every_rust_block_is_compiled() {
    let compiled = [include_str!("readme/handler.rs"), include_str!("readme/state.rs")];
    let blocks: Vec<_> = README.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), compiled.len(), "each file holds one block");
    for (block, file) in blocks.iter().zip(compiled) {
        let code = file.split_once("\n\n").map_or("", |(_, code)| code);
        assert!(code.starts_with(block), "this block of the README is not what is compiled:\n{block}");
    }
}
