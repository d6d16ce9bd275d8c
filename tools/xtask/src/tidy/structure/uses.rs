//! Reads `use` declarations and paths from Rust code, as text.

/// Returns what the `use` declarations of a source bring in: the path of each name, and the name.
pub(in crate::tidy) fn declared(code: &str) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("use ") {
        let before = code[..start].chars().next_back();
        let end = code[start..].find(';').map(|end| start + end);
        if let (None | Some(' ' | '\n' | ')'), Some(end)) = (before, end) {
            expand(&code[start + 4..end], &[], &mut found);
        }
    }
    found
}

/// Expands `a::{b, c::d as e}` to one path and name for each.
fn expand(tree: &str, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim();
    if let Some((start, rest)) = tree.split_once('{') {
        let mut path = before.to_vec();
        path.extend(parts(start));
        let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
        branches(inner).for_each(|branch| expand(branch, &path, found));
        return;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let mut whole = before.to_vec();
    whole.extend(parts(path));
    if let Some(name) = alias.or_else(|| whole.last().cloned()) {
        found.push((whole, name));
    }
}

fn parts(path: &str) -> impl Iterator<Item = String> + '_ {
    path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned)
}

/// Splits at the commas that are in no braces.
fn branches(inner: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    inner
        .split(move |c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        })
        .filter(|branch| !branch.trim().is_empty())
}

/// Returns the paths that the source of the module at `place` uses, from the root of the crate: what
/// follows `crate::`, or `super::` any number of times.
pub(super) fn paths(code: &str, place: &[&str]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (start, word) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        let before = code[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let (mut rest, mut from) = (&code[start + word.len()..], 0);
        if word == "super::" {
            let mut ups = 1;
            while let Some(further) = rest.strip_prefix("super::") {
                (rest, ups) = (further, ups + 1);
            }
            from = place.len().saturating_sub(ups);
        }
        let from: Vec<String> = place[..from].iter().map(|part| (*part).to_owned()).collect();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        let (path, after) = rest.split_at(end.unwrap_or(rest.len()));
        let path_from_root: Vec<String> = from.into_iter().chain(parts(path)).collect();
        match after.strip_prefix('{').filter(|_| path.is_empty() || path.ends_with("::")) {
            Some(group) => {
                let mut paths = Vec::new();
                let group = branches(closed(group));
                group.for_each(|branch| expand(branch, &path_from_root, &mut paths));
                found.extend(paths.into_iter().map(|(path, _)| path));
            }
            None => found.push(path_from_root),
        }
    }
    found
}

/// Returns the text up to the brace that closes the group.
fn closed(group: &str) -> &str {
    let mut depth = 1;
    let end = group.find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0
    });
    &group[..end.unwrap_or(group.len())]
}
