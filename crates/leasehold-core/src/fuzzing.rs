//! Readers of input from outside, for fuzz targets alone: a program must not use this module.

use std::borrow::Cow;
use std::time::Duration;

use leasehold_proto::latch::Latch;

use crate::{AttemptId, Name, Status, StoreUrl, safe_text};

/// The name of a target, and the function that reads the input.
pub type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("core-latch", latch), ("core-name", name), ("core-url", url)];

/// Returns the input as text, as engines read the bytes of a store.
pub fn text(input: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(input)
}

/// Parses the input as a URL. Returns `None` for one that names files: a target must not read what the input names.
pub fn store_url(input: &[u8]) -> Option<StoreUrl> {
    let text = text(input);
    let names_a_file =
        text.contains("file=") || text.contains("tls-") || text.contains("credentials");
    StoreUrl::parse(&text).ok().filter(|_| !names_a_file)
}

fn url(input: &[u8]) {
    let Some(mut url) = store_url(input) else { return };
    let _ = format!("{url} {url:?}");
    let _ = (url.path(), url.absolute_path("file:/a"), url.has_credentials());
    for part in url.place().split(['/', ',', '@']) {
        let _ = (StoreUrl::host_and_port(part), StoreUrl::decoded(part), StoreUrl::login(part));
    }
    let _ = url.take_duration("ttl", (Duration::ZERO, Duration::MAX));
    let _ = (url.take_login(None), url.finish(&["prefix", "ttl", "wire"]));
}

fn name(input: &[u8]) {
    let text = text(input);
    let _ = (AttemptId::parse(&text), safe_text::clean(&text));
    let _ = Name::new(text.as_ref());
}

fn latch(input: &[u8]) {
    if let Ok(name) = Name::new("a") {
        let _ = Status::of_latch(&name, input, None);
    }
    let Ok(mut latch) = Latch::decode(input) else { return };
    assert_eq!(Latch::decode(&latch.encode()).as_ref(), Ok(&latch));
    let _ = latch.count_down("another");
    let _ = latch.round(u64::MAX);
    let _ = latch.reset(latch.generation());
}
