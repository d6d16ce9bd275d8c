//! Draws a graph as SVG: each node above all that it uses; circles in one row, in red. An arrow that
//! others imply is left out.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Graph;

const ROW: usize = 84;
const HEIGHT: usize = 30;
const GAP: usize = 18;
const LETTER: usize = 8;
const EDGE: usize = 20;

/// A node on the picture.
#[derive(Clone, Copy, Debug)]
struct Box {
    left: usize,
    top: usize,
    width: usize,
}

/// Draws the graph under a title.
pub(crate) fn svg(title: &str, graph: &Graph) -> String {
    let circles = graph.circles();
    let circle = |node: &str| circles.iter().find(|circle| circle.contains(&node));
    let rows = rows(graph);
    let width_of = |row: &Vec<&str>| row.iter().map(|name| width(name) + GAP).sum::<usize>();
    let width = rows.iter().map(width_of).max().unwrap_or(0).max(width(title)) + 2 * EDGE;
    let height = rows.len() * ROW + 2 * EDGE;
    let mut boxes = BTreeMap::new();
    for (number, row) in rows.iter().enumerate() {
        let mut left = (width - width_of(row)) / 2 + GAP / 2;
        for name in row {
            let top = EDGE * 2 + number * ROW;
            boxes.insert(*name, Box { left, top, width: self::width(name) });
            left += self::width(name) + GAP;
        }
    }
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"ui-monospace, monospace\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{EDGE}\" y=\"{}\" font-weight=\"bold\" fill=\"#1f2933\">{title}</text>\n",
        EDGE + 4
    );
    for (from, uses) in &graph.uses {
        for to in uses {
            let inside = |to: &str| circle(from).is_some_and(|circle| circle.contains(&to));
            let between = uses.iter().filter(|other| *other != to && !inside(other));
            let inside = inside(to);
            if !inside
                && between.into_iter().any(|other| graph.reached(other).contains(to.as_str()))
            {
                continue; // The arrows through the other one say it.
            }
            arrow(&mut out, boxes[from.as_str()], boxes[to.as_str()], inside);
        }
    }
    for (name, Box { left, top, width }) in boxes {
        let stroke = if circle(name).is_some() { "#c0392b" } else { "#52606d" };
        let (middle, base) = (left + width / 2, top + 20);
        writeln!(
            out,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{HEIGHT}\" rx=\"4\" fill=\"#f5f7fa\" \
             stroke=\"{stroke}\"/>\n<text x=\"{middle}\" y=\"{base}\" text-anchor=\"middle\" \
             fill=\"#1f2933\">{name}</text>"
        )
        .ok();
    }
    out + "</svg>\n"
}

fn arrow(out: &mut String, from: Box, to: Box, inside: bool) {
    let (x1, x2) = (from.left + from.width / 2, to.left + to.width / 2);
    let (y1, y2) = (from.top + HEIGHT, to.top);
    let colour = if inside { "#c0392b" } else { "#9aa5b1" };
    let path = if inside {
        // A bow below the row.
        let (y, low) = (y1, y1 + ROW / 3);
        format!("M{x1} {y} C{x1} {low} {x2} {low} {x2} {y}")
    } else {
        let middle = usize::midpoint(y1, y2);
        format!("M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}")
    };
    writeln!(out, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\"/>").ok();
}

fn width(name: &str) -> usize {
    name.len() * LETTER + 20
}

/// The nodes from top to bottom: each above all that it uses, a circle in one row.
fn rows(graph: &Graph) -> Vec<Vec<&str>> {
    let circles = graph.circles();
    let group = |node: &str| circles.iter().position(|circle| circle.contains(&node));
    let mut level: BTreeMap<&str, usize> = graph.uses.keys().map(|n| (n.as_str(), 0)).collect();
    // Longest paths settle after as many rounds as there are nodes.
    for _ in 0..graph.uses.len() {
        for (from, uses) in &graph.uses {
            let below = uses.iter().filter(|to| group(from).is_none() || group(from) != group(to));
            let least = below.map(|to| level[to.as_str()] + 1).max().unwrap_or(0);
            let peers = circles.iter().find(|circle| circle.contains(&from.as_str()));
            let least = peers.into_iter().flatten().map(|peer| level[peer]).fold(least, usize::max);
            level.insert(from, least.max(level[from.as_str()]));
        }
    }
    let highest = level.values().max().copied().unwrap_or(0);
    let mut rows: Vec<Vec<&str>> = vec![Vec::new(); highest + 1];
    for (node, level) in &level {
        rows[highest - level].push(node);
    }
    order(graph, &mut rows);
    rows
}

/// Orders each row by where the users of its nodes are.
fn order(graph: &Graph, rows: &mut [Vec<&str>]) {
    let mut place: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        let centre = |node: &&str| {
            let users = graph.uses.iter().filter(|(_, uses)| uses.contains(*node));
            let places: Vec<usize> =
                users.filter_map(|(user, _)| place.get(user)).copied().collect();
            places.iter().sum::<usize>() / places.len().max(1)
        };
        row.sort_by_key(centre);
        let count = row.len();
        for (number, node) in row.iter().enumerate() {
            place.insert((*node).to_owned(), (2 * number + 1) * 1000 / (2 * count));
        }
    }
}
