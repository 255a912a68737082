//! What a Rust file refers to, read off its tokens: modules, included files, paths within its crate, names.
//! Comments are no tokens, strings are single ones, and macros' contents are read like everything else.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

pub fn tokens(path: &str, text: &str) -> Vec<TokenTree> {
    let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    tokens.into_iter().collect()
}

fn inside(group: &proc_macro2::Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

fn is(tree: Option<&TokenTree>, what: &str) -> bool {
    match tree {
        Some(TokenTree::Ident(ident)) => ident == what,
        Some(TokenTree::Punct(punct)) => what.len() == 1 && what.starts_with(punct.as_char()),
        _ => false,
    }
}

fn braces(tree: Option<&TokenTree>) -> Option<Vec<TokenTree>> {
    match tree {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => Some(inside(group)),
        _ => None,
    }
}

fn string(tree: Option<&TokenTree>) -> Option<String> {
    let Some(TokenTree::Literal(literal)) = tree else { return None };
    Some(literal.to_string().strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

/// `#[path = "…"]`, of the group behind the `#`.
fn path_attribute(tree: Option<&TokenTree>) -> Option<String> {
    let Some(TokenTree::Group(group)) = tree else { return None };
    let tokens = inside(group);
    (is(tokens.first(), "path") && is(tokens.get(1), "=")).then(|| string(tokens.get(2))).flatten()
}

/// Says whether a name stands in the code.
pub fn names(tokens: &[TokenTree], name: &str) -> bool {
    tokens.iter().any(|tree| match tree {
        TokenTree::Group(group) => names(&inside(group), name),
        tree => is(Some(tree), name),
    })
}

/// The files that a file includes as text or code, as it writes them.
pub fn included(tokens: &[TokenTree]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, tree) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = tree else { continue };
        let includes = at >= 2
            && is(tokens.get(at - 1), "!")
            && ["include", "include_str", "include_bytes"].iter().any(|name| is(tokens.get(at - 2), name));
        match string(inside(group).first()) {
            Some(path) if includes => found.push(path),
            _ => found.extend(included(&inside(group))),
        }
    }
    found
}

/// A module in a file of its own: the inline modules around it, each with its `path` attribute; its name; its own attribute.
pub struct Module {
    pub around: Vec<(String, Option<String>)>,
    pub name: String,
    pub path: Option<String>,
}

/// The modules that a file declares and does not contain.
pub fn modules(tokens: &[TokenTree]) -> Vec<Module> {
    let mut found = Vec::new();
    modules_in(tokens, &mut Vec::new(), &mut found);
    found
}

fn modules_in(tokens: &[TokenTree], around: &mut Vec<(String, Option<String>)>, found: &mut Vec<Module>) {
    let mut path = None;
    let mut at = 0;
    while at < tokens.len() {
        match (&tokens[at], tokens.get(at + 1)) {
            (TokenTree::Punct(punct), attribute) if punct.as_char() == '#' => {
                path = path_attribute(attribute).or(path);
                at += 1;
            }
            (TokenTree::Ident(word), Some(TokenTree::Ident(name))) if word == "mod" => {
                let (name, path) = (name.to_string(), path.take());
                if let Some(body) = braces(tokens.get(at + 2)) {
                    around.push((name, path));
                    modules_in(&body, around, found);
                    around.pop();
                } else {
                    found.push(Module { around: around.clone(), name, path });
                }
                at += 2;
            }
            // Between an attribute and its module.
            (TokenTree::Ident(word), _) if word == "pub" => {}
            (TokenTree::Group(group), _) if group.delimiter() == Delimiter::Parenthesis => {}
            _ => path = None,
        }
        at += 1;
    }
}

/// The paths within the crate that a file writes, from the crate's root: `crate::…` and `super::…`, in `use` and anywhere else.
/// `own` is the path of the file's module. `$crate::…` is not ours: macros write it for other crates.
pub fn paths(tokens: &[TokenTree], own: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        let is_path = is(tokens.get(at + 1), ":") && is(tokens.get(at + 2), ":");
        if is(tokens.get(at), "mod")
            && let (Some(TokenTree::Ident(name)), Some(body)) = (tokens.get(at + 1), braces(tokens.get(at + 2)))
        {
            found.extend(paths(&body, &[own, &[name.to_string()]].concat()));
            at += 3;
        } else if is_path && is(tokens.get(at), "crate") && !is(before, "$") {
            at = follow(Vec::new(), tokens, at + 3, &mut found);
        } else if is_path && is(tokens.get(at), "super") {
            at = follow(own.to_vec(), tokens, at, &mut found);
        } else {
            if let TokenTree::Group(group) = &tokens[at] {
                found.extend(paths(&inside(group), own));
            }
            at += 1;
        }
    }
    found
}

/// Reads the path that begins at `at`; returns where it ends.
fn follow(mut base: Vec<String>, tokens: &[TokenTree], mut at: usize, found: &mut Vec<Vec<String>>) -> usize {
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(word)) if word == "super" => drop(base.pop()),
            Some(TokenTree::Ident(word)) if word == "self" => {}
            Some(TokenTree::Ident(word)) => base.push(word.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                for part in inside(group).split(|tree| is(Some(tree), ",")).filter(|part| !part.is_empty()) {
                    follow(base.clone(), part, 0, found);
                }
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        if !(is(tokens.get(at), ":") && is(tokens.get(at + 1), ":")) {
            break;
        }
        at += 2;
    }
    found.push(base);
    at
}
