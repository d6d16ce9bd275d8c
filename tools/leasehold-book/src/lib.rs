//! Builds `docs/` as two books of HTML, English and Chinese, and checks every link in them.

mod chinese;
mod files;
mod links;
mod pages;
mod search;
mod summary;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mdbook_driver::MDBook;
use mdbook_driver::book::Chapter;

/// A book: its folder in the repository, and its folder in the output.
struct Book {
    source: &'static str,
    output: &'static str,
    chinese: bool,
}

/// In this order: mdBook empties a folder before it writes to it.
const BOOKS: [Book; 2] = [
    Book { source: "docs", output: "", chinese: false },
    Book { source: "docs/zh", output: "zh", chinese: true },
];

/// Room for lines of code with their comments, and narrow cells on narrow screens: added to the head of each page.
const STYLE: &str = "<style>:root { --content-max-width: 960px; } \
    @media (max-width: 620px) { .content table td, .content table th { padding: 3px 8px; } }\
    </style></head>";

/// Builds both books of the repository at `root` into the folder `output`, which is emptied first.
///
/// Text files of the repository that a page links to become pages of the English book too, so that a
/// reader of the books can follow the link. Links to other files become plain text, or links into the
/// repository when `git-repository-url` is set in `docs/book.toml`.
///
/// Returns what is wrong with the books: pages that no table of contents lists, and links that lead
/// nowhere.
///
/// # Errors
///
/// A text that says what cannot be read, built or written.
pub fn build(root: &Path, output: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    let mut loaded = Vec::new();
    for book in &BOOKS {
        let source = root.join(book.source);
        wrong.extend(summary::missing(&source, book.source)?);
        let mut mdbook =
            MDBook::load(&source).map_err(|error| format!("{}: {error:#}", book.source))?;
        mdbook.config.build.build_dir = output.join(book.output);
        files::place(&mut mdbook.book);
        if book.chinese {
            let join = |chapter: &mut Chapter| chapter.content = chinese::joined(&chapter.content);
            mdbook.book.for_each_chapter_mut(join);
        }
        loaded.push(mdbook);
    }
    let mut sources = BTreeMap::new();
    for (book, mdbook) in BOOKS.iter().zip(&loaded) {
        sources.extend(files::sources(&mdbook.book, Path::new(book.source)));
    }
    let added = files::linked(root, &sources)?;
    if let Some(english) = loaded.first_mut() {
        files::add(&mut english.book, added);
    }
    let mut repository = None;
    let mut places: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for (book, mdbook) in BOOKS.iter().zip(&loaded) {
        let config = mdbook.config.html_config();
        repository = repository.or_else(|| config?.git_repository_url);
        places.extend(files::places(&mdbook.book, Path::new(book.source), Path::new(book.output)));
        mdbook.build().map_err(|error| format!("{}: {error:#}", book.source))?;
    }
    for page in pages::below(output)? {
        pages::write(&page, &pages::read(&page)?.replacen("</head>", STYLE, 1))?;
    }
    search::add(&output.join("zh"))?;
    wrong.extend(links::settle(root, output, &places, repository.as_deref())?);
    Ok(wrong)
}
