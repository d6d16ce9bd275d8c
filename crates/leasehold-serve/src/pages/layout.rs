//! The frame of every page.

use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use maud::{DOCTYPE, Markup, html};

use super::lang::Lang;
use crate::access::Caller;
use crate::problem::Problem;
use crate::sessions::form_secret;
use crate::text::clean;
use crate::tokens::Role;

/// A page: what it is about, and its content.
pub(super) struct Page<'a> {
    pub(super) lang: Lang,
    pub(super) caller: &'a Caller,
    pub(super) title: &'a str,
    /// The query of the events after which the page is loaded again.
    pub(super) live: Option<String>,
    pub(super) now_unix_ms: u64,
}

impl Page<'_> {
    /// Returns the whole page.
    pub(super) fn around(&self, content: &Markup) -> Response {
        let (lang, title) = (self.lang, clean(self.title));
        let page = html! {
            (DOCTYPE)
            html lang=(lang.tag()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " – Leasehold" }
                    link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                    link rel="stylesheet" href="/assets/style.css";
                    @if self.live.is_some() { script src="/assets/live.js" defer {} }
                }
                body data-live=[&self.live] data-now=(self.now_unix_ms) {
                    a.skip href="#content" { (lang.pick("Skip to the content", "跳到正文")) }
                    header {
                        a.brand href="/" { "Leasehold" }
                        nav aria-label=(lang.pick("Session", "会话")) { (self.session()) }
                    }
                    main #content tabindex="-1" { (content) }
                    footer {
                        @if self.live.is_some() {
                            span #live role="status" { (lang.pick("not live", "未实时更新")) }
                            " · "
                        }
                        a href="/v1/openapi.json" { "API" }
                        " · "
                        a href="/metrics" { (lang.pick("Metrics", "指标")) }
                    }
                }
            }
        };
        Html(page.into_string()).into_response()
    }

    fn session(&self) -> Markup {
        let lang = self.lang;
        html! {
            @if let Some(session) = &self.caller.session {
                span { (clean(self.caller.name().unwrap_or_default())) }
                form method="post" action="/logout" {
                    input type="hidden" name="form" value=(form_secret(session));
                    button { (lang.pick("Log out", "退出")) }
                }
            } @else if !self.caller.may(Role::Force) {
                a href="/login" { (lang.pick("Log in", "登录")) }
            }
        }
    }

    /// Returns a page that shows an error.
    pub(super) fn problem(&self, problem: &Problem) -> Response {
        let title = match self.title {
            "" => self.lang.pick("Problem", "出错"),
            title => title,
        };
        let mut response = self.around(&html! {
            h1 { bdi { (clean(title)) } }
            (warning(self.lang, problem))
        });
        *response.status_mut() = problem.status();
        response
    }
}

/// Shows an error with its next step.
pub(super) fn warning(lang: Lang, problem: &Problem) -> Markup {
    html! {
        div.problem role="alert" {
            strong { (lang.pick("Problem: ", "出错：")) }
            bdi lang="en" { (clean(problem.detail())) }
            p lang="en" { (problem.next_step()) }
        }
    }
}

/// Returns what a page that cannot be shown is answered with: the login, if that helps.
pub(super) fn refused(page: &Page<'_>, problem: &Problem) -> Response {
    match problem.status() {
        StatusCode::UNAUTHORIZED => axum::response::Redirect::to("/login").into_response(),
        _ => page.problem(problem),
    }
}
