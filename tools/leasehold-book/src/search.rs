//! The search of the Chinese book: mdBook's own splits text at spaces, which Chinese has not.

use std::path::Path;

use regex::Regex;
use serde_json::json;

use crate::pages;

/// Looks for each word as a part of the text, without splitting the text.
const SCRIPT: &str = include_str!("search.js");

/// Writes the index and the script into the book, and names both on each page.
pub(crate) fn add(book: &Path) -> Result<(), String> {
    let pattern = |text| Regex::new(text).map_err(|error: regex::Error| error.to_string());
    let main = pattern(r"(?s)<main>(.*?)</main>")?;
    let title = pattern(r"(?s)<h1[^>]*>(.*?)</h1>")?;
    let tag = pattern(r"(?s)<[^>]*>|\s+")?;
    let mut index = Vec::new();
    let all = pages::below(book)?;
    for page in &all {
        let html = pages::read(page)?;
        let content = main.captures(&html).map_or_else(String::new, |found| found[1].to_owned());
        let plain = |html: &str| tag.replace_all(html, " ").trim().to_owned();
        let title = title.captures(&content).map_or_else(String::new, |found| plain(&found[1]));
        let path = page.strip_prefix(book).unwrap_or(page).display().to_string();
        index.push(json!({"path": path, "title": title, "text": plain(&content)}));
    }
    let index = serde_json::Value::Array(index);
    pages::write(&book.join("search.js"), &SCRIPT.replace("PAGES", &index.to_string()))?;
    for page in &all {
        let steps = page.strip_prefix(book).map_or(1, |path| path.components().count()) - 1;
        let back = "../".repeat(steps);
        let script =
            format!("<script src=\"{back}search.js\" data-root=\"{back}\"></script></body>");
        let html = pages::read(page)?;
        pages::write(page, &html.replacen("</body>", &script, 1))?;
    }
    Ok(())
}
