//! The login: a browser exchanges a token for a cookie.

use axum::Form;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue, StatusCode};
use maud::{Markup, html};

use super::lang::Lang;
use super::layout::{Page, warning};
use crate::access::Caller;
use crate::app::App;
use crate::params::Params;
use crate::problem::Problem;
use crate::secret::Hashed;
use crate::sessions::{COOKIE, LASTS, form_secret};

fn page<'a>(app: &App, lang: Lang, caller: &'a Caller) -> Page<'a> {
    let now_unix_ms = app.clock.now().unix_ms();
    Page { lang, caller, title: lang.pick("Log in", "登录"), live: None, now_unix_ms }
}

fn content(lang: Lang, problem: Option<&Problem>) -> Markup {
    html! {
        h1 { (lang.pick("Log in", "登录")) }
        @if let Some(problem) = problem { (warning(lang, problem)) }
        form.login method="post" action="/login" {
            label for="token" { (lang.pick("Token", "令牌")) }
            input #token type="password" name="token" autocomplete="current-password" required;
            button.main { (lang.pick("Log in", "登录")) }
        }
        p.weak {
            (lang.pick(
                "The token is in the file that the server was started with: --token-file.",
                "令牌在启动服务器时指定的文件中：--token-file。",
            ))
        }
    }
}

/// `GET /login`.
pub(super) async fn form(State(app): State<App>, caller: Caller, headers: HeaderMap) -> Response {
    let lang = Lang::of(&headers);
    page(&app, lang, &caller).around(&content(lang, None))
}

/// `POST /login`.
pub(super) async fn log_in(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Form(fields): Form<Vec<(String, String)>>,
) -> Response {
    let lang = Lang::of(&headers);
    let opened = || {
        let fields = Params::new(fields)?;
        let token = fields.get("token").unwrap_or_default();
        let known = app.tokens.as_ref().and_then(|tokens| tokens.find(token)).cloned();
        let known = known.ok_or_else(|| {
            let next = "use a token of the file that the server was started with";
            Problem::new(StatusCode::UNAUTHORIZED, "wrong_token", "the token is unknown", next)
        })?;
        Ok::<_, Problem>(app.sessions.open(known)?)
    };
    match opened() {
        Ok(session) => with_cookie(&app, "/", &session, LASTS.as_secs()),
        Err(problem) => {
            let mut response = page(&app, lang, &caller).around(&content(lang, Some(&problem)));
            *response.status_mut() = problem.status();
            response
        }
    }
}

/// `POST /logout`.
pub(super) async fn log_out(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Form(fields): Form<Vec<(String, String)>>,
) -> Response {
    let lang = Lang::of(&headers);
    let fields = Params::new(fields);
    let checked = fields.and_then(|fields| check_form(&caller, fields.get("form")));
    if let Err(problem) = checked {
        return page(&app, lang, &caller).problem(&problem);
    }
    if let Some(session) = &caller.session {
        app.sessions.close(session);
    }
    with_cookie(&app, "/login", "", 0)
}

/// Checks that a form comes from a page of this session. Without a session, the header Origin has
/// shown that the form comes from a page of this server.
pub(super) fn check_form(caller: &Caller, sent: Option<&str>) -> Result<(), Problem> {
    let Some(session) = &caller.session else { return Ok(()) };
    let sent = Hashed::of(sent.unwrap_or_default());
    match sent.is(&Hashed::of(&form_secret(session))) {
        true => Ok(()),
        false => {
            let detail = "the form is not from a page of this session";
            let next = "load the page again, and send its form";
            Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail, next))
        }
    }
}

fn with_cookie(app: &App, to: &str, value: &str, seconds: u64) -> Response {
    let secure = if app.is_tls { "; Secure" } else { "" };
    let cookie =
        format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let mut response = Redirect::to(to).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}
