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

chapters! { start choosing stored retention consumers webhooks clients testing operating moving openapi }

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

/// The modules whose documentation is a chapter here.
const CHAPTERS: [(&str, &str); 2] = [("choosing_effects", "effects.md"), ("options", "options.md")];

/// What is written for rustdoc or for a code host, made into what mdBook understands: fences without a language are Rust, a
/// link to an item is its name, and what stands between `<!-- on a code host -->` and `<!-- in the book` is left out.
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
    let (mut in_code, mut in_book) = (false, true);
    let mut translated = String::with_capacity(chapter.len());
    for line in chapter.split_inclusive('\n') {
        match line.trim_end() {
            "<!-- on a code host -->" => in_book = false,
            // The comment hides from the code host what the book includes.
            "<!-- in the book" => in_book = true,
            "end -->" => {}
            _ if !in_book => {}
            fence if fence.starts_with("```") => {
                in_code = !in_code;
                let rust = in_code && matches!(fence, "```" | "```standalone_crate");
                translated.push_str(if rust { "```rust\n" } else { line });
            }
            _ if in_code => translated.push_str(line),
            _ => translated.push_str(&without_items(line)),
        }
    }
    translated
}

/// The line, its links to items replaced.
fn without_items(line: &str) -> String {
    let mut rest = line;
    let mut replaced = String::with_capacity(line.len());
    while let Some((before, name, after)) = next_item(rest) {
        replaced.push_str(before);
        match CHAPTERS.iter().find(|(module, _)| *module == name) {
            Some((_, chapter)) => replaced.extend(["[`", name, "`](", chapter, ")"]),
            // A link that has its address.
            None if after.starts_with('(') => replaced.extend(["[`", name, "`]"]),
            None => replaced.extend(["`", name, "`"]),
        }
        rest = after;
    }
    replaced.push_str(rest);
    replaced
}

/// The text before the next ``[`Item`]``, the item, and the text after it.
fn next_item(line: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = line.split_once("[`")?;
    let (name, after) = rest.split_once("`]")?;
    Some((before, name, after))
}
