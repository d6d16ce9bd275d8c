//! Draws a story of a cache as SVG: who asks, loads and fills when, and what cache and database say.

use std::fmt::Write;

use super::super::text::{Language, capital, columns, wrap};
use super::world::{Event, State};
use super::{CacheTale, is_lie, name};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 118.0;
const RIGHT: f64 = 866.0;
const INK: &str = "#757d87";
const ALARM: &str = "#dc2626";
const COLOURS: [&str; 5] = ["#3b82f6", "#e07b1a", "#1f9d68", "#a35bd6", "#0e97a5"];
/// The widths of a column of text: of the title, and of the rest.
const TITLE_COLUMN: f64 = 11.0;
const COLUMN: f64 = 8.4;

/// The whole picture.
pub fn draw_cache(tale: &CacheTale, language: Language) -> String {
    let crowd = tale.is_crowd();
    let lane = if crowd { 22.0 } else { 36.0 };
    let title = title(tale, language);
    let title = wrap(&title, ((WIDTH - 32.0) / TITLE_COLUMN) as usize);
    let below = language.pick(
        " · below: what cache and database say, red where they differ",
        " · 下方：缓存和数据库里的值，不一致时为红色",
    );
    let legend = language.pick(
        "tick: asks the cache · bar: reads the database · dot: fills or changes the cache, or commits · cross: \
         may not fill, fails or dies",
        "短竖线：请求缓存 · 色条：读数据库 · 圆点：回填或更改缓存，或提交 · 叉：不能回填、失败或崩溃",
    );
    let legend = format!("{legend}{}", if crowd { "" } else { below });
    let legend = wrap(&legend, ((WIDTH - 32.0) / COLUMN) as usize);
    let top = 34.0 + 23.0 * title.len() as f64 + 19.0 * legend.len() as f64 + 8.0;
    let stores = stores(tale, language);
    let lanes = tale.actors.len() + stores.len();
    let bottom = top + lane * lanes as f64;
    let (from, until) = shown(tale);
    let x = |time: u64| {
        let share = time.clamp(from, until).saturating_sub(from) as f64 / (until - from) as f64;
        LEFT + (RIGHT - LEFT) * share
    };
    let middle = |at: usize| top + lane * (at as f64 + 0.5);
    let height = bottom + 32.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"system-ui, 'Helvetica Neue', 'DejaVu Sans', Arial, \
         'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif\" font-size=\"14\" \
         fill=\"{INK}\">\n<title>{}</title>\n",
        tale.story.name
    );
    let mut y = 28.0;
    for line in title {
        let _ = writeln!(
            out,
            "<text x=\"16\" y=\"{y}\" font-size=\"17\" font-weight=\"600\">{line}</text>"
        );
        y += 23.0;
    }
    for line in legend {
        let _ = writeln!(out, "<text x=\"16\" y=\"{y}\">{line}</text>");
        y += 19.0;
    }
    axis(&mut out, (from, until), (top, bottom), language, &x);
    let names = tale.actors.iter().map(|actor| name(actor, language));
    for (at, name) in names.chain(stores.iter().map(|(name, _)| name.clone())).enumerate() {
        let middle = middle(at);
        let _ = writeln!(
            out,
            "<text x=\"16\" y=\"{:.1}\">{name}</text><line x1=\"{LEFT}\" y1=\"{middle:.1}\" \
             x2=\"{RIGHT}\" y2=\"{middle:.1}\" stroke=\"{INK}\" stroke-opacity=\"0.3\"/>",
            middle + 5.0
        );
    }
    for (actor, begin, end) in &tale.world.loads {
        let (from, until) = (x(*begin), x(*end));
        let _ = writeln!(
            out,
            "<rect class=\"load\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" rx=\"3\" \
             fill=\"{}\"/>",
            middle(*actor) - 7.0,
            (until - from).max(2.0),
            colour(*actor)
        );
    }
    for (time, actor, event) in &tale.world.told {
        // A crowd's hits would hide everything else.
        if crowd && matches!(event, Event::Hit(..)) {
            continue;
        }
        mark(&mut out, *event, (x(*time), middle(*actor)), colour(*actor));
    }
    for (at, (_, value)) in stores.iter().enumerate() {
        let y = middle(tale.actors.len() + at);
        values(&mut out, tale, *value, y, until, &x);
    }
    out + "</svg>\n"
}

/// From when to when something happens; of a crowd, hits do not count.
fn shown(tale: &CacheTale) -> (u64, u64) {
    let told = tale.world.told.iter();
    let mut told =
        told.filter(|(_, _, event)| !tale.is_crowd() || !matches!(event, Event::Hit(..)));
    let first = told.next().map_or(0, |(time, ..)| *time);
    let last = told.next_back().map_or(tale.end, |(time, ..)| *time);
    let margin = (last - first) / 10 + 5;
    let from = if first > 500 { first.saturating_sub(margin) } else { 0 };
    (from, (last + margin).min(tale.end))
}

fn title(tale: &CacheTale, language: Language) -> String {
    let about = tale.story.about.in_language(language);
    let practice = tale.practice;
    language.pick(format!("{} ({practice})", capital(about)), format!("{about}（{practice}）"))
}

/// What one store says of the first key: whether there is anything, and the value.
type Said = fn(State) -> Option<Option<u64>>;

/// The stores below the actors; a crowd has many keys, and none of this.
fn stores(tale: &CacheTale, language: Language) -> Vec<(String, Said)> {
    if tale.is_crowd() {
        return Vec::new();
    }
    let mut stores: Vec<(String, Said)> =
        vec![(language.pick("cache", "缓存").to_owned(), |state| state.cache)];
    if tale.world.states.iter().any(|(_, state)| state.process.is_some()) {
        stores.push((language.pick("process", "进程内").to_owned(), |state| {
            state.process.map(Some)
        }));
    }
    stores.push((language.pick("database", "数据库").to_owned(), |state| {
        state.database.map(Some)
    }));
    stores
}

fn axis(
    out: &mut String,
    (from, until): (u64, u64),
    (top, bottom): (f64, f64),
    language: Language,
    x: &impl Fn(u64) -> f64,
) {
    let steps = [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
    let step = steps.into_iter().find(|step| (until - from) / step <= 10).unwrap_or(10_000);
    let mut at = from.div_ceil(step) * step;
    while at <= until {
        let place = x(at);
        let label = format!("{:.3}", at as f64 / 1000.0);
        let label = label.trim_end_matches('0').trim_end_matches('.');
        let _ = writeln!(
            out,
            "<line x1=\"{place:.1}\" y1=\"{top:.1}\" x2=\"{place:.1}\" y2=\"{bottom:.1}\" stroke=\"{INK}\" \
             stroke-opacity=\"0.15\"/><text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
             font-size=\"13\">{label} {}</text>",
            bottom + 19.0,
            language.pick("s", "秒")
        );
        at += step;
    }
}

fn mark(out: &mut String, event: Event, (x, y): (f64, f64), colour: &str) {
    let _ = match event {
        Event::Loads(_) => Ok(()),
        Event::Hit(_, false)
        | Event::Refused(_)
        | Event::Fails
        | Event::Dies
        | Event::KeepsNothing
        | Event::NotTaken(_) => writeln!(
            out,
            "<path d=\"M{:.1} {:.1}l8 8m0 -8l-8 8\" stroke=\"{ALARM}\" stroke-width=\"2.5\" fill=\"none\"/>",
            x - 4.0,
            y - 4.0
        ),
        Event::Hit(..) | Event::Miss(_) | Event::Waits | Event::Past | Event::Fetches(_) => {
            writeln!(
                out,
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
                 stroke-width=\"2\"/>",
                y - 9.0,
                y + 9.0
            )
        }
        _ => writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\" stroke=\"#fff\"/>"
        ),
    };
}

/// What a store says of the first key, as bars.
fn values(
    out: &mut String,
    tale: &CacheTale,
    said: Said,
    y: f64,
    until: u64,
    x: &impl Fn(u64) -> f64,
) {
    // Times with the same value are one bar.
    let mut states: Vec<(u64, State)> = Vec::new();
    for (time, state) in &tale.world.states {
        let same = |last: &State| said(*last) == said(*state) && is_lie(*last) == is_lie(*state);
        if !states.last().is_some_and(|(_, last)| same(last)) {
            states.push((*time, *state));
        }
    }
    for (at, (from, state)) in states.iter().enumerate() {
        let Some(value) = said(*state) else { continue };
        let end = states.get(at + 1).map_or(until, |(next, _)| *next);
        let (from, end) = (x(*from), x(end));
        let value = value.map_or_else(|| "–".to_owned(), |value| value.to_string());
        let colour = match is_lie(*state) {
            true => ALARM,
            false => "#1f9d68",
        };
        let _ = writeln!(
            out,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"18\" rx=\"3\" fill=\"{colour}\" \
             fill-opacity=\"0.75\"/>",
            y - 9.0,
            (end - from).max(1.5)
        );
        if end - from > columns(&value) as f64 * COLUMN + 8.0 {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#fff\" font-weight=\"600\">{value}</text>",
                from + 4.0,
                y + 5.0
            );
        }
    }
}

fn colour(actor: usize) -> &'static str {
    COLOURS[actor % COLOURS.len()]
}
