//! The documentation builds as two books whose links all lead somewhere.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn the_books_of_this_repository_have_all_pages_and_no_broken_link() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = leasehold_book::build(&root(), &folder.path().join("book")).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let chinese = fs::read_to_string(folder.path().join("book/zh/index.html")).unwrap();
    assert!(chinese.contains("lang=\"zh"), "{chinese}");
    let search = fs::read_to_string(folder.path().join("book/zh/search.js")).unwrap();
    assert!(search.contains("缓存雪崩"));
}

/// A repository of two small books; `page` is the English one's.
fn small(page: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for book in ["docs", "docs/zh"] {
        let book = folder.path().join(book);
        fs::create_dir_all(&book).unwrap();
        fs::write(book.join("book.toml"), "[book]\ntitle = \"a\"\nsrc = \".\"\n").unwrap();
        fs::write(book.join("SUMMARY.md"), "# Summary\n\n[A](README.md)\n- [B](b.md)\n").unwrap();
        fs::write(book.join("README.md"), "# A\n").unwrap();
        fs::write(book.join("b.md"), "# B\n\n## The part\n").unwrap();
    }
    fs::write(folder.path().join("LICENSE"), "").unwrap();
    fs::write(folder.path().join("docs/README.md"), page).unwrap();
    folder
}

fn problems(page: &str) -> Vec<String> {
    let folder = small(page);
    leasehold_book::build(folder.path(), &folder.path().join("book")).unwrap()
}

#[test]
fn links_within_and_between_the_books_and_into_the_repository_are_good() {
    let page = "# A\n\n[b](b.md#the-part) [c](zh/b.md) [d](../LICENSE) [e](https://example.org)\n";
    assert_eq!(problems(page), Vec::<String>::new());
}

#[test]
fn a_link_to_no_file_is_named() {
    assert_eq!(problems("# A\n\n[b](c.md)\n"), ["index.html: no file for c.html"]);
}

#[test]
fn a_link_to_no_heading_is_named() {
    assert_eq!(problems("# A\n\n[b](b.md#part)\n"), ["index.html: no heading for b.html#part"]);
}

#[test]
fn a_page_that_no_table_of_contents_lists_is_named() {
    let folder = small("# A\n");
    fs::write(folder.path().join("docs/new.md"), "# New\n").unwrap();
    let wrong = leasehold_book::build(folder.path(), &folder.path().join("book")).unwrap();
    assert_eq!(wrong, ["docs/new.md is not in docs/SUMMARY.md: add it there"]);
}

#[test]
fn links_into_the_repository_follow_its_address() {
    let folder = small("# A\n\n[d](../LICENSE)\n");
    let config =
        "[book]\nsrc = \".\"\n[output.html]\ngit-repository-url = \"https://example.org/a\"\n";
    fs::write(folder.path().join("docs/book.toml"), config).unwrap();
    let output = folder.path().join("book");
    assert_eq!(leasehold_book::build(folder.path(), &output).unwrap(), Vec::<String>::new());
    let html = fs::read_to_string(output.join("index.html")).unwrap();
    assert!(html.contains("href=\"https://example.org/a/blob/main/LICENSE\""), "{html}");
}
