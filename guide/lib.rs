//! The guide of idem. Each chapter is the documentation of a module here, so that its code is compiled and run as doc tests;
//! [`build`] makes the book. What a chapter includes from `idem-runtime` is tested there.

use std::path::Path;

use anyhow::Result;
use mdbook_driver::{MDBook, book::Book, config::Config};
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};

/// A module for each chapter with code of its own.
macro_rules! chapters {
    ($($name:ident)*) => {$(
        #[doc = include_str!(concat!("src/", stringify!($name), ".md"))]
        pub mod $name {}
    )*};
}

chapters! { start choosing stored retention consumers webhooks clients testing operating moving }

/// Builds the book into a folder. Nothing is fetched from a network.
///
/// # Errors
/// What mdBook says.
pub fn build(into: &Path) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut config = Config::from_disk(root.join("book.toml"))?;
    into.clone_into(&mut config.build.build_dir);
    let mut book = MDBook::load_with_config(root, config)?;
    book.with_preprocessor(OfRustdoc);
    book.build()
}

/// The chapters that are part of rustdoc's documentation, too, and the chapter that each is here.
const ELSEWHERE: [(&str, &str); 2] = [("crate::choosing_effects", "effects.md"), ("crate::options", "options.md")];

/// What is written for rustdoc, made into what mdBook understands: fences without a language are Rust, and a link to an item
/// is its name.
struct OfRustdoc;

impl Preprocessor for OfRustdoc {
    #[allow(clippy::unnecessary_literal_bound, reason = "the trait's signature")]
    fn name(&self) -> &str {
        "of-rustdoc"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book> {
        book.for_each_chapter_mut(|chapter| chapter.content = translated(&chapter.content));
        Ok(book)
    }
}

fn translated(chapter: &str) -> String {
    let mut open = false;
    let mut translated = String::with_capacity(chapter.len());
    for line in chapter.split_inclusive('\n') {
        match line.trim_end().strip_prefix("```") {
            Some(language) => {
                open = !open;
                let rust = open && matches!(language, "" | "standalone_crate");
                translated.push_str(if rust { "```rust\n" } else { line });
            }
            None if open => translated.push_str(line),
            None => translated.push_str(&without_items(line)),
        }
    }
    translated
}

/// The line, its links to items replaced.
fn without_items(line: &str) -> String {
    let mut rest = line;
    let mut said = String::with_capacity(line.len());
    while let Some((before, target, after)) = next_item(rest) {
        let text = before.rfind('[').unwrap_or(before.len());
        let (before, text) = before.split_at(text);
        said.push_str(before);
        match ELSEWHERE.iter().find(|(module, _)| *module == target) {
            Some((_, chapter)) => said.extend([text, "](", chapter, ")"]),
            None => said.push_str(text.trim_start_matches('[')),
        }
        rest = after;
    }
    said.push_str(rest);
    said
}

/// What stands before the `](` of a link to an item, the item, and what follows the link.
fn next_item(line: &str) -> Option<(&str, &str, &str)> {
    let at = ["](crate::", "](macro@"].iter().filter_map(|link| line.find(link)).min()?;
    let (before, rest) = line.split_at(at);
    let (target, after) = rest.strip_prefix("](")?.split_once(')')?;
    Some((before, target, after))
}
