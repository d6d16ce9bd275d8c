//! The example prints what its page shows.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the example has a `main` too")]

#[path = "../examples/bitmap_sort.rs"]
mod bitmap_sort;

use leasehold_conformance::{examples, pages};

#[test]
fn bitmap_sort_prints_what_its_page_shows() {
    let mut printed = Vec::new();
    bitmap_sort::play(&mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    pages::show("filters.md", &printed);
    examples::answers("leasehold-filters", "bitmap_sort", &printed);
}
