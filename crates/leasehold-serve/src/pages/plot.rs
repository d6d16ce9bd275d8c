//! A plot of how long a lock was held and waited for, drawn by the server.

use maud::{Markup, html};

use super::lang::Lang;
use crate::history::Event;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 80.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 10.0;

/// The decades of the axis, in milliseconds: 1 ms to about 12 days.
const DECADES: (i32, i32) = (0, 9);

/// Draws holds as dots and waits as circles over the time since `start`. Without any, nothing.
pub(super) fn plot(lang: Lang, events: &[Event], start: u64, now: u64) -> Option<Markup> {
    let points = |of: fn(&Event) -> Option<u64>| {
        let point = |event: &Event| Some((event.at_unix_ms, of(event)?.max(1)));
        events.iter().filter_map(point).collect::<Vec<_>>()
    };
    let (holds, waits) = (points(|event| event.held_ms), points(|event| event.waited_ms));
    let all = || holds.iter().chain(&waits).map(|(_, ms)| *ms);
    let decade = |ms: u64| (ms as f64).log10();
    let low = decade(all().min()?).floor().max(DECADES.0.into());
    let high = decade(all().max()?).ceil().min(DECADES.1.into()).max(low + 1.0);
    let first = events.first().map_or(start, |event| event.at_unix_ms).max(start);
    let time = now.saturating_sub(first).max(1) as f64;
    let x = |at: u64| {
        let part = at.saturating_sub(first) as f64 / time;
        format!("{:.1}", LEFT + part.min(1.0) * (WIDTH - LEFT - 10.0))
    };
    let y_of = |decade: f64| {
        let part = (decade - low) / (high - low);
        format!("{:.1}", HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - BOTTOM - TOP))
    };
    let lines = (low as i32)..=(high as i32);
    let title = lang.pick(
        "How long the lock was held (dots) and waited for (circles)",
        "持有时长（实心点）与等待时长（圆圈）",
    );
    Some(html! {
        svg.plot viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(title) {
            title { (title) }
            @for line in lines {
                @let y = y_of(line.into());
                line x1=(LEFT) x2=(WIDTH - 10.0) y1=(y) y2=(y) {}
                text x=(LEFT - 8.0) y=(y) text-anchor="end" dominant-baseline="middle" {
                    (lang.span(10_u64.pow(line.unsigned_abs())))
                }
            }
            @for (at, ms) in &holds {
                circle.hold cx=(x(*at)) cy=(y_of(decade(*ms))) r="3.5" {}
            }
            @for (at, ms) in &waits {
                circle.wait cx=(x(*at)) cy=(y_of(decade(*ms))) r="5" {}
            }
            text x=(LEFT) y=(HEIGHT - 6.0) { (super::lang::utc(first)) }
            text x=(WIDTH - 10.0) y=(HEIGHT - 6.0) text-anchor="end" { (lang.pick("now", "现在")) }
        }
        p.weak { (title) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::What;

    #[test]
    fn extreme_times_stay_in_the_picture() {
        assert!(plot(Lang::English, &[], 0, 1).is_none());
        let event = |at, held| Event { held_ms: Some(held), ..Event::new(What::Freed, at) };
        let events = [event(5, 0), event(7, u64::MAX), event(100, 12)];
        let text = plot(Lang::English, &events, 10, 50).unwrap().into_string();
        assert_eq!(text.matches("class=\"hold\"").count(), 3);
        assert!(!text.contains("NaN") && !text.contains("inf") && !text.contains("cx=\"-"));
    }
}
