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
    for page in ["README.md.html", "crates/leasehold/examples/first_lock.rs.html"] {
        assert!(folder.path().join("book/repository").join(page).is_file(), "{page}");
    }
    let readme = folder.path().join("book/zh/repository/README.zh-CN.md.html");
    let readme = fs::read_to_string(readme).unwrap();
    assert!(readme.contains("href=\"../cache.html\""), "a link of the README into the book");
    assert!(!readme.contains("in the repository\""), "a link of the README that leads nowhere");
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
    fs::write(folder.path().join("LICENSE"), "The terms").unwrap();
    fs::write(folder.path().join("data.bin"), [0xff]).unwrap();
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
    let folder = small("# A\n\n[d](../data.bin)\n");
    let config =
        "[book]\nsrc = \".\"\n[output.html]\ngit-repository-url = \"https://example.org/a\"\n";
    fs::write(folder.path().join("docs/book.toml"), config).unwrap();
    let output = folder.path().join("book");
    assert_eq!(leasehold_book::build(folder.path(), &output).unwrap(), Vec::<String>::new());
    let html = fs::read_to_string(output.join("index.html")).unwrap();
    assert!(html.contains("href=\"https://example.org/a/blob/main/data.bin\""), "{html}");
}

/// The HTML of a page of the books whose English start page is `page`.
fn html(page: &str, other: &str, of: &str) -> String {
    let folder = small(page);
    fs::create_dir_all(folder.path().join("src/deep")).unwrap();
    fs::write(folder.path().join("src/README.md"), other).unwrap();
    fs::write(folder.path().join("src/deep/a.rs"), "fn a() {}\n").unwrap();
    let output = folder.path().join("book");
    assert_eq!(leasehold_book::build(folder.path(), &output).unwrap(), Vec::<String>::new());
    fs::read_to_string(output.join(of)).unwrap()
}

#[test]
fn a_file_that_a_page_links_to_is_a_page_with_its_text() {
    let page = "# A\n\n[d](../src/deep/a.rs)\n";
    let start = html(page, "", "index.html");
    assert!(start.contains("href=\"repository/src/deep/a.rs.html\""), "{start}");
    assert!(html(page, "", "repository/src/deep/a.rs.html").contains("fn a() {}"));
}

#[test]
fn links_of_a_document_outside_docs_lead_into_the_books() {
    let page = "# A\n\n[all](../src)\n";
    let other = "# S\n\n[b](../docs/b.md#the-part) [c](../docs/zh/b.md) [d](deep/a.rs)\n";
    let readme = html(page, other, "repository/src/README.md.html");
    for link in ["../../b.html#the-part", "../../zh/b.html", "deep/a.rs.html"] {
        assert!(readme.contains(&format!("href=\"{link}\"")), "{link}: {readme}");
    }
}

#[test]
fn a_broken_link_of_a_document_outside_docs_is_named() {
    let folder = small("# A\n\n[s](../S.md)\n");
    fs::write(folder.path().join("S.md"), "# S\n\n[n](none.md) [h](docs/b.md#none)\n").unwrap();
    let wrong = leasehold_book::build(folder.path(), &folder.path().join("book")).unwrap();
    let page = "repository/S.md.html";
    let none = format!("{page}: no file for none.html");
    assert_eq!(wrong, [none, format!("{page}: no heading for docs/b.html#none")]);
}

#[test]
fn the_start_pages_of_both_books_link_to_each_other() {
    let start = html("# A\n\n[c](zh/README.md)\n", "", "index.html");
    assert!(start.contains("href=\"zh/index.html\""), "{start}");
}
