//! Draws a story as SVG: clients and nodes as lanes, leases as bars, the violation marked.

use std::fmt::Write;

use super::tale::{Tale, letter, person};
use crate::simulator::{SECOND, What};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 880.0;
const TOP: f64 = 64.0;
const LANE: f64 = 40.0;
const BAR: f64 = 22.0;
/// In the middle between black and white: readable on both.
const INK: &str = "#757d87";
const ALARM: &str = "#dc2626";
const COLOURS: [&str; 5] = ["#3b82f6", "#e07b1a", "#1f9d68", "#a35bd6", "#0e97a5"];

/// The whole picture.
pub fn draw(tale: &Tale) -> String {
    let (clients, nodes) = (tale.plan.clients.len(), tale.plan.setup.nodes());
    let lanes = clients + nodes + 1 + usize::from(tale.plan.by_value);
    let height = TOP + LANE * lanes as f64 + 44.0;
    let end = shown_end(tale);
    let x = |time: u64| LEFT + (RIGHT - LEFT) * (time.min(end) as f64 / end as f64);
    let y = |lane: usize| TOP + LANE * lane as f64 + (LANE - BAR) / 2.0;
    let title = format!("{} on {}", tale.story, tale.plan.setup);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif\" \
         font-size=\"12\" fill=\"{INK}\">\n<title>{title}</title>\n\
         <defs><pattern id=\"stopped\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" \
         stroke=\"{INK}\" stroke-width=\"2\"/></pattern></defs>\n\
         <text x=\"16\" y=\"28\" font-size=\"17\" font-weight=\"600\">{title}</text>\n"
    );
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"48\">solid: takes itself for the holder · thin: waits · hatched: stopped · \
         below: whose lease is on the node · ● write taken · ✕ refused</text>"
    );
    axis(&mut out, end, TOP + LANE * lanes as f64, &x);
    for lane in 0..lanes {
        let name = match lane {
            client if client < clients => person(client),
            node if node < clients + nodes => format!("node {}", letter(node - clients)),
            lane if lane == clients + nodes => "resource".to_owned(),
            _ => "by value".to_owned(),
        };
        let middle = y(lane) + BAR / 2.0;
        let _ = writeln!(
            out,
            "<text x=\"16\" y=\"{:.1}\">{name}</text>\
             <line x1=\"{LEFT}\" y1=\"{middle:.1}\" x2=\"{RIGHT}\" y2=\"{middle:.1}\" \
             stroke=\"{INK}\" stroke-opacity=\"0.3\"/>",
            middle + 4.0
        );
    }
    waits(&mut out, tale, end, &x, &y);
    overlaps(&mut out, tale, clients, &x);
    for (client, from, until, token) in tale.beliefs() {
        let look = format!("fill=\"{}\" rx=\"3\"", colour(client));
        bar(&mut out, (x(from), x(until)), y(client), &look);
        if let Some(token) = token.filter(|_| x(until) - x(from) > 22.0) {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#fff\" font-weight=\"600\">{token}</text>",
                x(from) + 5.0,
                y(client) + BAR / 2.0 + 4.0
            );
        }
    }
    leases(&mut out, tale, clients, end, &x, &y);
    marks(&mut out, tale, clients, nodes, end, &x, &y);
    out + "</svg>\n"
}

/// Nothing is shown long after the last thing has happened.
fn shown_end(tale: &Tale) -> u64 {
    let last = tale
        .entries
        .iter()
        .rev()
        .find(|entry| !matches!(entry.what, What::Asks(_) | What::Denied(_)));
    let waits = tale.entries.last().map_or(0, |entry| entry.time);
    let until = tale.beliefs().into_iter().map(|belief| belief.2).max().unwrap_or(0);
    let last = last.map_or(0, |entry| entry.time).max(until);
    let vain = waits > last + 5 * SECOND;
    let shown = if vain { waits } else { last + last / 20 };
    shown.clamp(SECOND / 10, tale.plan.end)
}

fn axis(out: &mut String, end: u64, bottom: f64, x: &impl Fn(u64) -> f64) {
    let seconds = end as f64 / SECOND as f64;
    let step = [0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0]
        .into_iter()
        .find(|step| seconds / step <= 12.0)
        .unwrap_or(600.0);
    let mut at = 0.0;
    while at <= seconds {
        let place = x((at * SECOND as f64) as u64);
        let label = if step < 1.0 { format!("{at:.2}") } else { format!("{at:.0}") };
        let _ = writeln!(
            out,
            "<line x1=\"{place:.1}\" y1=\"{TOP}\" x2=\"{place:.1}\" y2=\"{bottom:.1}\" \
             stroke=\"{INK}\" stroke-opacity=\"0.15\"/>\
             <text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\">{label} s\
             </text>",
            bottom + 18.0
        );
        at += step;
    }
}

fn overlaps(out: &mut String, tale: &Tale, clients: usize, x: &impl Fn(u64) -> f64) {
    let all = tale.beliefs();
    for (index, one) in all.iter().enumerate() {
        for other in all.iter().skip(index + 1).filter(|other| other.0 != one.0) {
            let (from, until) = (one.1.max(other.1), one.2.min(other.2));
            if from < until {
                let wide = (x(until) - x(from)).max(2.0);
                let _ = writeln!(
                    out,
                    "<rect x=\"{:.1}\" y=\"{TOP}\" width=\"{wide:.1}\" height=\"{:.1}\" \
                     fill=\"{ALARM}\" fill-opacity=\"0.18\"/>\
                     <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{ALARM}\" font-weight=\"600\" \
                     text-anchor=\"middle\">two holders</text>",
                    x(from),
                    LANE * clients as f64,
                    (x(from) + wide / 2.0).clamp(LEFT + 40.0, RIGHT - 40.0),
                    TOP - 4.0
                );
            }
        }
    }
}

/// From when to when each client wants the lock without having it.
fn waits(
    out: &mut String,
    tale: &Tale,
    end: u64,
    x: &impl Fn(u64) -> f64,
    y: &impl Fn(usize) -> f64,
) {
    let mut since = vec![None; tale.plan.clients.len()];
    let mut line = |client: usize, from: u64, until: u64| {
        let (from, until, middle) = (x(from), x(until), y(client) + BAR / 2.0);
        let _ = writeln!(
            out,
            "<line x1=\"{from:.1}\" y1=\"{middle:.1}\" x2=\"{until:.1}\" y2=\"{middle:.1}\" \
             stroke=\"{}\" stroke-width=\"3\"/>",
            colour(client)
        );
    };
    for entry in &tale.entries {
        match entry.what {
            What::Asks(client) => since[client] = since[client].or(Some(entry.time)),
            What::Holds(client, _) | What::Dies(client) => {
                if let Some(from) = since[client].take() {
                    line(client, from, entry.time);
                }
            }
            _ => {}
        }
    }
    for (client, from) in since.into_iter().enumerate() {
        if let Some(from) = from {
            line(client, from, end);
        }
    }
}

/// The bars on the nodes.
fn leases(
    out: &mut String,
    tale: &Tale,
    clients: usize,
    end: u64,
    x: &impl Fn(u64) -> f64,
    y: &impl Fn(usize) -> f64,
) {
    for node in 0..tale.plan.setup.nodes() {
        let mut open: Option<(usize, u64)> = None;
        let changes = tale.entries.iter().filter_map(|entry| match entry.what {
            What::Lease(of, owner) if of == node => Some((entry.time, owner)),
            _ => None,
        });
        for (time, owner) in changes.chain([(end, None)]) {
            if let Some((client, from)) = open.take() {
                let look = format!("fill=\"{}\" fill-opacity=\"0.55\" rx=\"3\"", colour(client));
                bar(out, (x(from), x(time)), y(clients + node), &look);
            }
            open = owner.map(|client| (client, time));
        }
    }
}

/// What happens at a moment: stops, deaths, faults of nodes, writes.
fn marks(
    out: &mut String,
    tale: &Tale,
    clients: usize,
    nodes: usize,
    end: u64,
    x: &impl Fn(u64) -> f64,
    y: &impl Fn(usize) -> f64,
) {
    let mut stopped = vec![None; clients];
    for entry in &tale.entries {
        let place = x(entry.time);
        match &entry.what {
            What::Stops(client) => stopped[*client] = Some(entry.time),
            What::GoesOn(client) => {
                if let Some(from) = stopped[*client].take() {
                    let look = "fill=\"url(#stopped)\" fill-opacity=\"0.8\"";
                    bar(out, (x(from), place), y(*client), look);
                }
            }
            What::Dies(client) => sign(out, place, y(*client), "✕", ALARM),
            What::Node(node, _) => sign(out, place, y(clients + *node), "⚡", ALARM),
            What::ByValue(client, taken) => {
                let (look, colour) = if *taken { ("●", colour(*client)) } else { ("✕", ALARM) };
                sign(out, place, y(clients + nodes + 1), look, colour);
            }
            What::Writes(client, _, fenced) => {
                let refused = tale.plan.setup.tokens() && !fenced;
                let (look, colour) =
                    if refused { ("✕", ALARM) } else { ("●", colour(*client)) };
                sign(out, place, y(clients + nodes), look, colour);
            }
            _ => {}
        }
    }
    for (client, from) in stopped.iter().enumerate() {
        if let Some(from) = from {
            let look = "fill=\"url(#stopped)\" fill-opacity=\"0.8\"";
            bar(out, (x(*from), x(end)), y(client), look);
        }
    }
}

fn bar(out: &mut String, (from, until): (f64, f64), y: f64, look: &str) {
    let wide = (until - from).max(1.5);
    let _ = writeln!(
        out,
        "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{BAR}\" {look}/>"
    );
}

fn sign(out: &mut String, x: f64, y: f64, text: &str, colour: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"16\" fill=\"{colour}\">\
         {text}</text>",
        y + BAR / 2.0 + 6.0
    );
}

fn colour(client: usize) -> &'static str {
    COLOURS[client % COLOURS.len()]
}
