//! The pictures are well-formed, and nothing that was measured is left out of them.

use super::*;

fn chart(kind: Kind, values: Vec<Vec<Option<f64>>>) -> Chart {
    let series = ["a < b & \"c\"", "other"].iter().enumerate();
    let series =
        series.map(|(at, name)| Series { name: (*name).into(), colour: at, light: at == 1 });
    let panel = Panel { title: "pairs/s".into(), x_label: "tasks".into(), kind, values };
    Chart {
        title: "T & T".into(),
        series: series.collect(),
        panels: vec![panel.clone(), panel.clone(), panel],
        columns: 2,
    }
}

/// Every tag is closed in the right order, every attribute is quoted, no stray `&`.
fn check(svg: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let inside = &rest[start + 1..];
        let end = inside.find('>').expect("an end to the tag");
        let tag = &inside[..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in {tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed");
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
        rest = &inside[end + 1..];
    }
    assert!(open.is_empty(), "left open: {open:?}");
    for (at, _) in svg.match_indices('&') {
        let entity = &svg[at..svg.len().min(at + 6)];
        assert!(["&amp;", "&lt;", "&gt;", "&quot;"].iter().any(|e| entity.starts_with(e)));
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn bars_and_lines_are_well_formed_and_complete() {
    let values = vec![vec![Some(1.0), Some(2e6)], vec![None, Some(3.0)]];
    let bars = draw(&chart(Kind::Bars(vec!["<x>".into(), "y".into()]), values.clone()));
    check(&bars);
    assert_eq!(bars.matches("<rect").count(), 3 * 3);
    let dots = draw(&chart(Kind::Dots(vec!["<x>".into(), "y".into()]), values.clone()));
    check(&dots);
    assert_eq!(dots.matches("<circle").count(), 3 * 3);
    let lines = draw(&chart(Kind::Lines(vec![1.0, 64.0]), values));
    check(&lines);
    assert_eq!((lines.matches("<polyline").count(), lines.matches("<circle").count()), (6, 9));
}

#[cfg(feature = "servers")]
#[test]
fn curves_are_well_formed_and_marked() {
    let values = vec![vec![Some(1.0), Some(5.0), None, Some(0.0)], vec![]];
    let marks = vec![(2.0, "<killed>".to_owned())];
    let curves = draw(&chart(Kind::Curves { xs: vec![0.0, 1.0, 2.0, 3.5], marks }, values));
    check(&curves);
    assert_eq!((curves.matches("<polyline").count(), curves.matches("&lt;killed").count()), (3, 3));
    check(&draw(&chart(Kind::Curves { xs: vec![], marks: vec![] }, vec![])));
    check(&draw(&chart(Kind::Curves { xs: vec![1.0], marks: vec![] }, vec![vec![Some(2.0)]])));
}

#[test]
fn nothing_measured_and_zeros_are_drawn_too() {
    check(&draw(&Chart::default()));
    check(&draw(&chart(Kind::Lines(vec![]), vec![])));
    check(&draw(&chart(Kind::Lines(vec![1.0]), vec![vec![Some(0.0)], vec![None]])));
    check(&draw(&chart(Kind::Bars(vec!["x".into()]), vec![vec![Some(0.0)]])));
}

#[test]
fn numbers_on_an_axis_are_short() {
    assert_eq!(
        [short(0.0), short(1_500_000.0), short(250_000.0), short(0.2)],
        ["0", "1.5M", "250k", "0.2"]
    );
}
