//! One lock: its holders, its queue, what happened to it, and what can harm it.

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use leasehold::doctor::{Diagnosis, Severity};
use leasehold::{Error, State as LockState, Status};
use maud::{Markup, html};

use super::lang::{Lang, utc};
use super::layout::{Page, refused, warning};
use super::links::query;
use super::overview::{in_use, since, state_badge};
use super::plot::plot;
use crate::access::Caller;
use crate::app::App;
use crate::history::{Event, What};
use crate::moment::ms;
use crate::params::Params;
use crate::problem::Problem;
use crate::sessions::form_secret;
use crate::show;
use crate::text::clean;
use crate::tokens::Role;

/// The events that are listed.
const LISTED: usize = 50;

/// `GET /lock`.
pub(super) async fn lock(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    params: Params,
) -> Response {
    let lang = Lang::of(&headers);
    let name = params.get("name").unwrap_or_default();
    let store = params.get("store").unwrap_or_default();
    let mut page = Page {
        lang,
        caller: &caller,
        title: name,
        live: None,
        now_unix_ms: app.clock.now().unix_ms(),
    };
    if let Err(problem) = caller.require(Role::Read) {
        return refused(&page, &problem);
    }
    let found = async {
        params.only(&["store", "name"])?;
        let shown = app.shown(store)?;
        let client = shown.store.client().await?;
        let status = client.lock(name).status().await?;
        Ok::<_, Problem>((shown, status))
    };
    let (shown, status) = match found.await {
        Ok(found) => found,
        Err(problem) => return page.problem(&problem),
    };
    page.live = Some(query(&[("store", store), ("name", name)]));
    let history = app.history.of(store, name);
    let diagnosis = shown.store.diagnosis().await;
    let now = app.clock.now().unix_ms();
    let here = app.slots.waiting(store, name);
    let content = html! {
        h1 { bdi { (clean(name)) } " " (state_badge(lang, &status)) }
        (facts(lang, store, &shown.store.place, &status, now))
        @if status.permits.is_some() { (permits(lang, &status)) } @else { (holders(lang, &status)) }
        (queue(lang, &status, here, now))
        (events(lang, &history, app.started_unix_ms, now))
        (findings(lang, &diagnosis))
        @if status.state != LockState::Free {
            (force_form(&app, lang, &caller, store, &status))
        }
    };
    page.around(&content)
}

fn facts(lang: Lang, store: &str, place: &str, status: &Status, now: u64) -> Markup {
    let is_free = status.state == LockState::Free;
    html! {
        dl.facts {
            dt { (lang.pick("Store", "存储")) }
            dd { a href={ "/?" (query(&[("store", store)])) } { (store) } " " bdi.weak { (clean(place)) } }
            @if let Some(token) = status.token {
                dt { (if is_free { lang.pick("Last token", "上一个令牌") } else { lang.pick("Token", "令牌") }) }
                dd { (token) }
            }
            @if let Some(at) = status.since_unix_ms.filter(|_| !is_free) {
                dt { (lang.pick("Held for", "已持有")) }
                dd { (since(lang, status, now)) span.weak { " · " (utc(at)) " UTC" } }
            }
            @if let Some(left) = status.remaining {
                dt { (lang.pick("Lease ends in", "租约剩余")) }
                dd { (lang.span(ms(left))) span.weak { " · " (lang.pick("unless it is renewed", "除非续约")) } }
            }
            @if let Some(note) = &status.note {
                dt { (lang.pick("Note", "说明")) }
                dd { bdi { (clean(note)) } }
            }
        }
    }
}

fn holders(lang: Lang, status: &Status) -> Markup {
    let all = show::holders(status);
    let [who, metadata, owner] =
        lang.pick(["Process", "Metadata", "Attempt"], ["进程", "附注", "尝试"]);
    html! {
        @if !all.is_empty() {
            h2 { (lang.pick("Holders", "持有者")) }
            table.cards {
                thead { tr { th scope="col" { (who) } th scope="col" { (metadata) } th scope="col" { (owner) } } }
                tbody {
                    @for holder in all {
                        tr {
                            td { bdi { (clean(&holder.host)) "/" (holder.pid) } }
                            td data-label=(metadata) {
                                bdi { (clean(holder.metadata.as_deref().unwrap_or("–"))) }
                            }
                            td data-label=(owner) { code { (holder.attempt) } }
                        }
                    }
                }
            }
        }
    }
}

fn permits(lang: Lang, status: &Status) -> Markup {
    let [slots, who, token, left, metadata] = lang.pick(
        ["Slots", "Process", "Token", "Lease ends in", "Metadata"],
        ["槽位", "进程", "令牌", "租约剩余", "附注"],
    );
    html! {
        h2 { (lang.pick("Permits", "许可")) }
        @if let Some(permits) = &status.permits {
            p { (in_use(lang, permits)) }
        }
        @if !show::permits(status).is_empty() {
            table.cards {
                thead { tr { @for head in [slots, who, token, left, metadata] { th scope="col" { (head) } } } }
                tbody {
                    @for one in show::permits(status) {
                        tr {
                            td { (show::slots(&one.slots)) }
                            td data-label=(who) { bdi { (clean(&one.holder.host)) "/" (one.holder.pid) } }
                            td data-label=(token) { (one.token) }
                            td data-label=(left) {
                                (one.remaining.map_or_else(|| "–".to_owned(), |left| lang.span(ms(left))))
                            }
                            td data-label=(metadata) {
                                bdi { (clean(one.holder.metadata.as_deref().unwrap_or("–"))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn queue(lang: Lang, status: &Status, here: usize, now: u64) -> Markup {
    let [place, who, waits, metadata] = lang
        .pick(["Place", "Process", "Waits for", "Metadata"], ["位置", "进程", "已等待", "附注"]);
    html! {
        h2 { (lang.pick("Queue", "队列")) }
        @match status.waiters.as_deref() {
            None => p.weak { (lang.pick("This store does not know who waits.", "这个存储不知道谁在等待。")) },
            Some([]) => p.weak { (lang.pick("No client waits.", "没有客户端在等待。")) },
            Some(waiters) => {
                table.cards {
                    thead { tr { @for head in [place, who, waits, metadata] { th scope="col" { (head) } } } }
                    tbody {
                        @for (at, waiter) in waiters.iter().enumerate() {
                            tr {
                                td { (at + 1) }
                                td data-label=(who) { bdi { (clean(&waiter.holder.host)) "/" (waiter.holder.pid) } }
                                td data-label=(waits) {
                                    time data-since=(waiter.since_unix_ms) {
                                        (lang.span(now.saturating_sub(waiter.since_unix_ms)))
                                    }
                                    @if waiter.shared { " · " (lang.pick("to read", "读取")) }
                                    @if let Some(slots) = waiter.slots { " · " (lang.pick("slots: ", "槽位数：")) (slots) }
                                }
                                td data-label=(metadata) {
                                    bdi { (clean(waiter.holder.metadata.as_deref().unwrap_or("–"))) }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if status.more_waiters > 0 {
            p { "+ " (status.more_waiters) }
        }
        @if here > 0 {
            p.weak {
                (lang.pick("Requests that wait at this server: ", "在本服务器等待的请求："))
                (here)
                @if status.permits.is_none() {
                    (lang.pick(". They have one place in the queue.", "。它们在队列中共占一个位置。"))
                }
            }
        }
    }
}

fn what(lang: Lang, what: What) -> &'static str {
    match what {
        What::Acquired => lang.pick("acquired", "获取"),
        What::HandedOff => lang.pick("handed off", "移交"),
        What::Freed => lang.pick("ended", "结束"),
        What::Lost => lang.pick("lost", "丢失"),
        What::Expired => lang.pick("expired", "过期"),
        What::Forced => lang.pick("forced release", "强制释放"),
        What::QueueChanged => lang.pick("queue", "队列"),
    }
}

fn events(lang: Lang, history: &[Event], start: u64, now: u64) -> Markup {
    let heads = lang.pick(
        ["Time (UTC)", "What", "Token", "Who", "Was held", "Had waited"],
        ["时间（UTC）", "事件", "令牌", "谁", "持有时长", "等待时长"],
    );
    let span = |time: Option<u64>| time.map_or_else(|| "–".to_owned(), |ms| lang.span(ms));
    html! {
        h2 { (lang.pick("History since the server started", "服务器启动以来的历史")) }
        @if history.is_empty() {
            p.weak { (lang.pick("Nothing has changed.", "没有变化。")) }
        } @else {
            @if let Some(plot) = plot(lang, history, start, now) { (plot) }
            table.cards {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody {
                    @for event in history.iter().rev().take(LISTED) {
                        tr {
                            td { (utc(event.at_unix_ms)) }
                            td data-label=(heads[1]) {
                                (what(lang, event.what))
                                @if !event.slots.is_empty() { " · " (lang.pick("slots ", "槽位 ")) (show::slots(&event.slots)) }
                                @if let Some(reason) = &event.reason { ": " bdi { (clean(reason)) } }
                            }
                            td data-label=(heads[2]) { (event.token.map_or_else(|| "–".to_owned(), |token| token.to_string())) }
                            td data-label=(heads[3]) { bdi { (clean(event.who.as_deref().unwrap_or("–"))) } }
                            td data-label=(heads[4]) { (span(event.held_ms)) }
                            td data-label=(heads[5]) { (span(event.waited_ms)) }
                        }
                    }
                }
            }
        }
    }
}

fn findings(lang: Lang, diagnosis: &Result<std::sync::Arc<Diagnosis>, Error>) -> Markup {
    let class = |severity| match severity {
        Severity::Problem => "finding",
        Severity::Warning => "finding warning",
        _ => "finding note",
    };
    html! {
        h2 { (lang.pick("What can harm locks on this store", "这个存储上可能危害锁的问题")) }
        @match diagnosis {
            Err(error) => (warning(lang, &Problem::from(error.clone()))),
            Ok(diagnosis) if diagnosis.findings.is_empty() => p.weak { (lang.pick("Nothing was found.", "没有发现问题。")) },
            Ok(diagnosis) => @for finding in &diagnosis.findings {
                div class=(class(finding.severity)) lang="en" {
                    strong { (clean(&finding.what)) }
                    p { (clean(&finding.why)) }
                    @if !finding.change.is_empty() { p { "→ " (clean(&finding.change)) } }
                }
            },
        }
    }
}

fn force_form(app: &App, lang: Lang, caller: &Caller, store: &str, status: &Status) -> Markup {
    let token = status.token.map(|token| token.to_string()).unwrap_or_default();
    html! {
        @if app.may_force && caller.may(Role::Force) {
            h2 { (lang.pick("End the lease by force", "强制结束租约")) }
            form.force method="post" action="/force-release" {
                p {
                    (lang.pick(
                        "This does not stop the work of the holder. Only a check of tokens at the resource prevents a late write.",
                        "这不会停止持有者的工作。只有资源处检查令牌才能阻止迟到的写入。",
                    ))
                }
                input type="hidden" name="form" value=(caller.session.as_deref().map(form_secret).unwrap_or_default());
                input type="hidden" name="store" value=(store);
                input type="hidden" name="name" value=(status.name);
                label for="token" { (lang.pick("Token of the lease", "租约的令牌")) }
                input #token name="token" value=(token) inputmode="numeric" required;
                label for="reason" { (lang.pick("Reason, for the record", "原因（写入审计记录）")) }
                input #reason name="reason" required maxlength="300";
                button.danger { (lang.pick("End the lease", "结束租约")) }
            }
        }
    }
}
