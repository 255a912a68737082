//! The files of the repository, by their paths from its root; in the rules' own tests, a few made-up files.
//! What is generated or hidden is left out.

use std::{collections::BTreeMap, fs, path::Path};

/// Paths from the root, with `/`, and what the files hold.
pub struct Tree(pub BTreeMap<String, String>);

impl Tree {
    /// The repository.
    pub fn read() -> Self {
        let mut files = BTreeMap::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        collect(root, "", &mut files);
        assert!(files.contains_key("tests/house/tree.rs"), "the repository was not found");
        Self(files)
    }

    /// A made-up one.
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }

    pub fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Whether a folder of this path has files.
    pub fn has_folder(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.0.keys().any(|file| file.starts_with(&folder))
    }

    /// The files below a folder whose names end so.
    pub fn below<'t>(&'t self, folder: &str, end: &str) -> impl Iterator<Item = (&'t str, &'t str)> {
        let (folder, end) = (folder.to_owned(), end.to_owned());
        let files = self.0.iter().filter(move |(path, _)| path.starts_with(&folder) && path.ends_with(&end));
        files.map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

fn collect(folder: &Path, at: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        if name.starts_with('.') || ["target", "wip"].contains(&name.as_str()) {
            continue;
        }
        let path = if at.is_empty() { name } else { format!("{at}/{name}") };
        if entry.file_type().expect("a type").is_dir() {
            collect(&entry.path(), &path, files);
        } else {
            let bytes = fs::read(entry.path()).expect("a file");
            files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

/// `a/b/../c` as `a/c`.
pub fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The folder that a path is in; empty at the root.
pub fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Fails with all findings, one a line.
#[track_caller]
pub fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}
