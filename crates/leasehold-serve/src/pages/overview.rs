//! The overview: the locks of a store, and how the other stores are.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use leasehold::{Permits, State as LockState, Status};
use maud::{Markup, html};

use super::lang::Lang;
use super::layout::{Page, refused, warning};
use super::links::{self, query};
use crate::access::Caller;
use crate::app::{App, Shown};
use crate::listing::{self, Listing};
use crate::params::Params;
use crate::problem::Problem;
use crate::scan::Order;
use crate::show;
use crate::text::clean;
use crate::tokens::Role;

/// The rows of a page.
const ROWS: usize = 100;

/// How old the scan behind the page may be, unless that takes long.
const FRESH: Duration = Duration::from_millis(500);

/// The page says how old the scan is from this age on.
const OLD: Duration = Duration::from_secs(1);

/// `GET /`.
pub(super) async fn overview(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    params: Params,
) -> Response {
    let lang = Lang::of(&headers);
    let mut page = Page {
        lang,
        caller: &caller,
        title: lang.pick("Locks", "锁"),
        live: None,
        now_unix_ms: app.clock.now().unix_ms(),
    };
    if let Err(problem) = caller.require(Role::Read) {
        return refused(&page, &problem);
    }
    let name = params.get("store").unwrap_or(&app.stores[0].store.name);
    let shown = match app.shown(name) {
        Ok(shown) => shown,
        Err(problem) => return refused(&page, &problem),
    };
    page.live = Some(query(&[("store", name)]));
    match content(&app, shown, lang, &params, page.now_unix_ms).await {
        Ok(content) => page.around(&content),
        Err(problem) => page.problem(&problem),
    }
}

async fn content(
    app: &App,
    shown: &Shown,
    lang: Lang,
    params: &Params,
    now: u64,
) -> Result<Markup, Problem> {
    params.only(&["store", "prefix", "sort", "after", "all"])?;
    let listing = Listing {
        prefix: params.get("prefix").unwrap_or_default().to_owned(),
        order: Order::parse(params.get("sort").unwrap_or("held")).map_err(Problem::invalid)?,
        taken: params.get("all").is_none(),
        after: params.get("after").map(str::to_owned),
        limit: ROWS,
    };
    let fault = shown.store.fault();
    let snapshot = match fault {
        Some(_) => shown.scans.last(),
        None => shown.scans.soon(FRESH).await,
    };
    let fault = fault.or_else(|| snapshot.error.clone());
    let locks = listing.page(&snapshot).map_err(Problem::invalid)?;
    let age = Duration::from_millis(now.saturating_sub(snapshot.at_unix_ms));
    let all = if listing.taken { "" } else { "1" };
    let to = |sort: Order, after: &str| {
        let pairs = [
            ("store", shown.store.name.as_str()),
            ("prefix", &listing.prefix),
            ("sort", sort.word()),
            ("all", all),
            ("after", after),
        ];
        format!("/?{}", query(&pairs))
    };
    Ok(html! {
        h1 { (lang.pick("Locks", "锁")) }
        (stores(app, shown, lang))
        @if let Some(error) = fault {
            (warning(lang, &Problem::from(error)))
        }
        form.filter method="get" action="/" {
            input type="hidden" name="store" value=(shown.store.name);
            label for="prefix" { (lang.pick("Name starts with", "名字开头")) }
            input #prefix name="prefix" value=(listing.prefix) maxlength="512";
            label for="sort" { (lang.pick("Sort by", "排序")) }
            select #sort name="sort" {
                @for (order, word) in orders(lang) {
                    option value=(order.word()) selected[order == listing.order] { (word) }
                }
            }
            label {
                input type="checkbox" name="all" value="1" checked[!listing.taken];
                " " (lang.pick("Free locks too", "包括空闲的锁"))
            }
            button.main { (lang.pick("Show", "显示")) }
        }
        p.weak {
            (count(lang, locks.total)) " · "
            (lang.pick("on ", "位于 ")) bdi { (clean(&shown.store.place)) }
            @if snapshot.at_unix_ms > 0 && age >= OLD { " · " (seen(lang, age)) }
            @if snapshot.is_cut {
                " · " (lang.pick("the store has more than this page can know", "存储中还有更多的锁没有列出"))
            }
        }
        @if locks.locks.is_empty() {
            p { (lang.pick("No lock is held.", "没有锁被持有。")) }
        } @else {
            (table(lang, &shown.store.name, &locks, listing.order, now, &to))
        }
        div.pages {
            @if listing.after.is_some() {
                a href=(to(listing.order, "")) { (lang.pick("First page", "第一页")) }
            }
            @if let Some(next) = &locks.next {
                a rel="next" href=(to(listing.order, next)) { (lang.pick("Next page", "下一页")) }
            }
        }
    })
}

fn orders(lang: Lang) -> [(Order, &'static str); 3] {
    [
        (Order::Held, lang.pick("longest hold", "持有最久")),
        (Order::Queue, lang.pick("longest queue", "队列最长")),
        (Order::Name, lang.pick("name", "名字")),
    ]
}

fn count(lang: Lang, total: usize) -> String {
    match (lang, total) {
        (Lang::English, 1) => "1 lock".to_owned(),
        (Lang::English, total) => format!("{total} locks"),
        (Lang::Chinese, total) => format!("{total} 个锁"),
    }
}

fn seen(lang: Lang, age: Duration) -> String {
    let span = lang.span(crate::moment::ms(age));
    lang.pick(format!("seen {span} ago"), format!("{span}前的情况"))
}

fn stores(app: &App, current: &Shown, lang: Lang) -> Markup {
    html! {
        ul.tabs aria-label=(lang.pick("Stores", "存储")) {
            @for shown in &app.stores {
                @let is_current = shown.store.name == current.store.name;
                @let is_down = shown.store.fault().is_some() || shown.scans.last().error.is_some();
                li {
                    a href={ "/?" (query(&[("store", &shown.store.name)])) }
                        aria-current=[is_current.then_some("page")] {
                        (shown.store.name)
                        @if is_down { " · " (lang.pick("down", "不可用")) }
                    }
                }
            }
        }
    }
}

fn table(
    lang: Lang,
    store: &str,
    page: &listing::Page,
    order: Order,
    now: u64,
    to: &dyn Fn(Order, &str) -> String,
) -> Markup {
    let sortable = |column: Order, text: &'static str| {
        let (sort, mark) = match order == column {
            true => (Some(if column == Order::Name { "ascending" } else { "descending" }), " ▾"),
            false => (None, ""),
        };
        html! { th scope="col" aria-sort=[sort] { a href=(to(column, "")) { (text) } (mark) } }
    };
    let [state, holder, left, token] =
        lang.pick(["State", "Holder", "Remaining", "Token"], ["状态", "持有者", "剩余", "令牌"]);
    let (held, queue) = lang.pick(("Held for", "Queue"), ("已持有", "队列"));
    html! {
        table.cards {
            thead { tr {
                (sortable(Order::Name, lang.pick("Name", "名字")))
                th scope="col" { (state) }
                th scope="col" { (holder) }
                (sortable(Order::Held, held))
                th.number scope="col" { (left) }
                th.number scope="col" { (token) }
                (sortable(Order::Queue, queue))
            } }
            tbody {
                @for status in &page.locks {
                    tr {
                        td { a href=(links::lock(store, status.name.as_str())) { bdi { (clean(status.name.as_str())) } } }
                        td data-label=(state) { (state_badge(lang, status)) }
                        td data-label=(holder) { span { (holders(lang, status)) } }
                        td data-label=(held) { (since(lang, status, now)) }
                        td.number data-label=(left) {
                            (status.remaining.map_or_else(|| "–".to_owned(), |left| lang.span(crate::moment::ms(left))))
                        }
                        td.number data-label=(token) {
                            (status.token.map_or_else(|| "–".to_owned(), |token| token.to_string()))
                        }
                        td data-label=(queue) {
                            (show::waiting(status).map_or_else(|| "–".to_owned(), |all| all.to_string()))
                        }
                    }
                }
            }
        }
    }
}

/// Shows the state of a lock as a word with a colour.
pub(super) fn state_badge(lang: Lang, status: &Status) -> Markup {
    let word = match status.state {
        LockState::Free => lang.pick("free", "空闲"),
        LockState::Held => lang.pick("held", "持有"),
        LockState::Shared => lang.pick("shared", "共享"),
        LockState::Permits => lang.pick("permits", "许可"),
        LockState::Kept => lang.pick("kept", "保留"),
        LockState::Latch => lang.pick("latch", "闭锁"),
        _ => lang.pick("unknown", "未知"),
    };
    html! { span class={ "state " (show::state(status.state)) } { (word) } }
}

/// Shows for how long a lock is held; `live.js` counts on.
pub(super) fn since(lang: Lang, status: &Status, now: u64) -> Markup {
    let since = status.since_unix_ms.filter(|_| status.state != LockState::Free);
    html! {
        @match since {
            Some(since) => time data-since=(since) { (lang.span(now.saturating_sub(since))) },
            None => "–",
        }
    }
}

/// Says how many slots of a semaphore are in use.
pub(super) fn in_use(lang: Lang, permits: &Permits) -> String {
    let (held, limit) = (permits.held, permits.limit);
    lang.pick(format!("{held} of {limit} slots"), format!("{held}/{limit} 个槽位"))
}

fn holders(lang: Lang, status: &Status) -> Markup {
    let all = show::holders(status);
    html! {
        @if let Some(permits) = &status.permits { (in_use(lang, permits)) @if !all.is_empty() { " · " } }
        @match all.first() {
            None => @if status.permits.is_none() { "–" },
            Some(first) => {
                bdi { (clean(&first.host)) "/" (first.pid) }
                @if all.len() > 1 { " +" (all.len() - 1) }
                @if let Some(metadata) = &first.metadata {
                    " " bdi.weak { (clean(metadata)) }
                }
            }
        }
    }
}
