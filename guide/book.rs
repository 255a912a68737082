//! The book as it is read: built, and every link and anchor of it followed. None leads to a network for what a page needs.
#![allow(clippy::expect_used, reason = "what a test stands on")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// A page: its anchors, and its attributes that name something else.
#[derive(Default)]
struct Page {
    anchors: BTreeSet<String>,
    /// The tag, the attribute, and where it leads.
    links: Vec<(String, String, String)>,
}

#[test]
fn every_link_leads_somewhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // mdBook wants to make the folder itself.
    let root = folder.path().join("book");
    idem_guide::build(&root).expect("the book");
    let pages: BTreeMap<PathBuf, Page> = pages(&root);
    assert!(pages.len() > 10, "{:?}", pages.keys());
    let mut followed = 0;
    let mut astray = Vec::new();
    for (path, page) in &pages {
        for (tag, attribute, link) in &page.links {
            if link.contains("://") || link.starts_with("mailto:") {
                if tag != "a" {
                    astray.push(format!("{}: <{tag} {attribute}> is fetched from {link}", path.display()));
                }
                continue;
            }
            followed += 1;
            let (file, anchor) =
                link.split_once('#').map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap_or(path).join(file) };
            let leads = match anchor {
                Some(anchor) if !anchor.is_empty() => {
                    pages.get(&target).is_some_and(|page| page.anchors.contains(anchor))
                }
                _ => target.is_file(),
            };
            if !leads {
                astray.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(astray.is_empty(), "links that lead nowhere:\n{}", astray.join("\n"));
    assert!(followed > 100, "only {followed} links were found");
}

#[test]
fn nothing_of_the_source_is_left_in_the_book() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("book");
    idem_guide::build(&root).expect("the book");
    for path in files(&root, "html") {
        let page = fs::read_to_string(&path).expect("a page");
        for rest in ["{{#", "](crate::", "[<code>", "href=\"crate::", "on a code host", "standalone_crate"] {
            assert!(!page.contains(rest), "{} holds {rest:?}", path.display());
        }
    }
}

#[test]
fn every_file_is_reached() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let read = |path: &Path| fs::read_to_string(path).expect("a chapter");
    let summary = read(&source.join("SUMMARY.md"));
    let mut chapters = files(&source, "md");
    chapters.retain(|path| !path.ends_with("SUMMARY.md"));
    for path in &chapters {
        let name = path.file_name().expect("a name").to_string_lossy();
        assert!(summary.contains(&format!("]({name})")), "{name} is not in SUMMARY.md");
    }
    let text: String = chapters.iter().map(|path| read(path)).collect();
    for path in files(&source, "svg") {
        let name = path.file_name().expect("a name").to_string_lossy();
        assert!(text.contains(&format!("]({name})")), "no chapter shows {name}");
    }
}

/// As a code host shows them: each relative link of a document leads to a file, and its anchor to a heading.
#[test]
fn the_files_read_well_on_a_code_host() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let documents = [".", "guide/src", "examples", "idem-client", "idem-runtime/src/docs", "tests"];
    let mut followed = 0;
    let mut astray = Vec::new();
    for document in documents.iter().flat_map(|folder| documents_in(&root.join(folder))) {
        let text = prose(&document);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            followed += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            // What a chapter includes has its own headings.
            let is_included = target.exists() && prose(&target).contains("<!-- in the book");
            if !target.exists() || !(anchor.is_empty() || is_included || anchors(&target).contains(anchor)) {
                astray.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(astray.is_empty(), "links that lead nowhere:\n{}", astray.join("\n"));
    assert!(followed > 50, "only {followed} links were found");
}

fn documents_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// A document without its code; a folder has no text.
fn prose(document: &Path) -> String {
    let text = fs::read_to_string(document).unwrap_or_default();
    text.split("\n```").step_by(2).collect()
}

/// The anchors that a code host makes of headings.
fn anchors(document: &Path) -> BTreeSet<String> {
    let text = prose(document);
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| heading.to_lowercase().replace(' ', "-");
    headings
        .map(|heading| anchor(heading).chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect())
        .collect()
}

/// A block that is not compiled says in which language it is, and that is none of ours.
#[test]
fn every_rust_block_is_compiled() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut compiled = 0;
    for path in files(&source, "md") {
        let chapter = fs::read_to_string(&path).expect("a chapter");
        for (number, fence) in chapter.lines().filter(|line| line.starts_with("```")).enumerate() {
            let opens = number % 2 == 0;
            match fence.trim_start_matches('`') {
                "rust" if opens => compiled += 1,
                "" if !opens => {}
                "text" | "toml" | "sh" | "sql" | "sql,postgres" | "sql,sqlite" if opens => {}
                other => panic!("{}: a block of {other:?}", path.display()),
            }
        }
    }
    assert!(compiled > 10, "only {compiled} blocks");
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|found| found == extension));
    files.chain(folders.iter().flat_map(|folder| self::files(folder, extension))).collect()
}

fn pages(root: &Path) -> BTreeMap<PathBuf, Page> {
    let read = |path: PathBuf| {
        let page = Page::of(&fs::read_to_string(&path).expect("a page"));
        (path, page)
    };
    files(root, "html").into_iter().map(read).collect()
}

impl Page {
    /// Reads the tags of what mdBook wrote: attributes in double quotes.
    fn of(html: &str) -> Self {
        let mut page = Self::default();
        let mut rest = html;
        while let Some((_, tag)) = rest.split_once('<') {
            if let Some((_, after)) = tag.strip_prefix("!--").and_then(|comment| comment.split_once("-->")) {
                rest = after;
                continue;
            }
            let (inside, after) = tag.split_once('>').unwrap_or((tag, ""));
            page.read(inside);
            rest = after;
            // A script's text has no tags.
            if inside.starts_with("script") {
                rest = after.split_once("</script>").map_or("", |(_, after)| after);
            }
        }
        page
    }

    fn read(&mut self, tag: &str) {
        let name = tag.split_whitespace().next().unwrap_or_default();
        let mut rest = tag;
        while let Some((before, value)) = rest.split_once("=\"") {
            let attribute = before.rsplit(char::is_whitespace).next().unwrap_or_default();
            let (value, after) = value.split_once('"').unwrap_or((value, ""));
            match attribute {
                "id" => drop(self.anchors.insert(value.to_owned())),
                "href" | "src" => self.links.push((name.to_owned(), attribute.to_owned(), value.to_owned())),
                _ => {}
            }
            rest = after;
        }
    }
}
