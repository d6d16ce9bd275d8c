//! The dashboard in a browser.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accessible;
mod dashboard;
#[path = "../serve/support.rs"]
#[allow(dead_code, reason = "the tests without a browser need more of it")]
mod support;

use leasehold_test_servers::{Chromium, Needs};
use support::Serving;

/// Starts a browser; `None`, said on standard error, if there is none and none is required.
fn browser() -> Option<Chromium> {
    (!Needs::Browser.is_skipped()).then(|| Chromium::start().unwrap())
}

/// Returns the address of a page.
fn url(serving: &Serving, path: &str) -> String {
    format!("http://{}{path}", serving.address)
}

/// Logs in at the page of the login.
fn log_in(browser: &mut Chromium, serving: &Serving, token: &str) {
    browser.open(&url(serving, "/login")).unwrap();
    let form = format!(
        "document.querySelector('input[name=token]').value = '{token}';
         document.querySelector('main form').requestSubmit()"
    );
    browser.evaluate(&form).unwrap();
    browser.until("location.pathname === '/' && document.readyState === 'complete'").unwrap();
}
