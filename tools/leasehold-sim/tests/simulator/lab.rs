//! Each story shows what it is for, on every set-up that it offers.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use leasehold_sim::lab::{self, Language, Story, Tale, stories};
use leasehold_sim::simulator::{ClientChange, SECOND, Setup, Trouble, What};

use super::documents;

const ENGLISH: Language = Language::English;

fn tale(name: &str, setup: Option<Setup>) -> Tale {
    let story = Story::find(name).expect("a story of this name");
    story.play(setup.unwrap_or(story.setup()), 1)
}

/// What comes of a story: whether it goes wrong, who holds the lock from when to when with which token, who
/// gets it while which client holds it, what becomes of the writes, who waits in vain.
fn outcome(tale: &Tale) -> String {
    let mut out = format!("{} {}:", tale.story.name, tale.plan.setup);
    out += if tale.went_wrong() { " WRONG;" } else { " spared;" };
    let mut beliefs = tale.beliefs();
    beliefs.sort_by_key(|belief| belief.1);
    for (client, from, until, token) in beliefs {
        let token = token.map(|token| format!(" #{token}")).unwrap_or_default();
        let _ = write!(out, " {}{token} {}-{},", client + 1, tenths(from), tenths(until));
    }
    for (time, (first, second)) in tale.overlaps() {
        let _ = write!(out, " {} beside {} at {},", second + 1, first + 1, tenths(time));
    }
    for entry in &tale.entries {
        let _ = match entry.what {
            What::Writes(client, plain, fenced) => {
                let by = |taken, name| if taken { "" } else { name };
                let fence = by(fenced || !tale.plan.setup.tokens(), " refused by the fence");
                let (client, time) = (client + 1, tenths(entry.time));
                write!(out, " {client} writes at {time}{}{fence},", by(plain, " refused"))
            }
            What::ByValue(client, taken) => {
                let taken = if taken { "accepted" } else { "refused" };
                write!(out, " {} {taken} by value,", client + 1)
            }
            _ => Ok(()),
        };
    }
    for client in tale.in_vain() {
        let _ = write!(out, " {} in vain,", client + 1);
    }
    let (seen, asks) = (&tale.seen, tale.seen.asks);
    let _ = write!(out, " lost {}/{}, gap {}", seen.lost_plain, seen.lost_fenced, tenths(seen.gap));
    // Elsewhere clients ask after random pauses.
    if tale.story.name == "herd" {
        let _ = write!(out, ", {asks} asks");
    }
    out
}

/// Tenths of a second, rounded.
fn tenths(time: u64) -> String {
    format!("{:.1}", time as f64 / SECOND as f64)
}

#[test]
fn every_story_comes_out_as_the_table_says_on_every_set_up_that_it_offers() {
    let pairs = stories().flat_map(|story| story.setups.iter().map(move |setup| (story, *setup)));
    let now: Vec<String> = pairs.map(|(story, setup)| outcome(&story.play(setup, 1))).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulator/outcomes.txt");
    if documents::writes() {
        fs::write(&file, now.join("\n") + "\n").unwrap();
    }
    let expected = fs::read_to_string(file).unwrap();
    let expected: Vec<&str> = expected.lines().collect();
    for (now, expected) in now.iter().zip(&expected) {
        assert_eq!(now, expected);
    }
    assert_eq!(now.len(), expected.len(), "a pair is missing, or one too many");
}

/// The seed moves only what is random; what a story shows does not depend on it.
#[test]
fn what_a_story_shows_does_not_depend_on_the_seed() {
    for story in stories() {
        for setup in story.setups {
            let wrong = story.play(*setup, 1).went_wrong();
            for seed in 2..7 {
                let tale = story.play(*setup, seed);
                assert_eq!(tale.went_wrong(), wrong, "{} on {setup}, seed {seed}", story.name);
            }
        }
    }
}

#[test]
fn stories_of_two_holders_have_two_and_what_prevents_them_does() {
    for (name, instead) in [
        ("timestamp-lock", Some(Setup::Single)),
        ("late-release", Some(Setup::Single)),
        ("watchdog-pause", Some(Setup::Single)),
        ("clock-jump", None),
        ("get-then-set", Some(Setup::Single)),
        ("node-restart", Some(Setup::Redlock)),
        ("single-restart", Some(Setup::SingleStrict)),
        ("failover", Some(Setup::Redlock)),
    ] {
        assert!(tale(name, None).seen.overlaps > 0, "{name}");
        if let Some(setup) = instead {
            assert_eq!(tale(name, Some(setup)).seen.overlaps, 0, "{name} on {setup}");
        }
    }
}

/// A mistake that a story tells is made by hand, first, and nowhere else: Leasehold does not make it.
#[test]
fn a_mistake_that_a_story_tells_is_made_by_hand_only() {
    for name in ["setnx", "setnx-expire", "timestamp-lock", "get-then-set", "bare-expire"] {
        let story = Story::find(name).unwrap();
        assert_eq!(story.setup(), Setup::PlainSet, "{name}");
        for setup in story.setups {
            let by_hand = *setup == Setup::PlainSet
                || (name, *setup) == ("setnx-expire", Setup::RedlockPlain);
            let tale = story.play(*setup, 1);
            assert_eq!(tale.went_wrong(), by_hand, "{name} on {setup}");
            assert!(by_hand || tale.seen.overlaps == 0, "{name} on {setup}");
            let place = tale.place(ENGLISH);
            assert_eq!(place.contains(lab::about(*setup, ENGLISH)), !by_hand, "{place}");
        }
    }
}

#[test]
fn a_write_after_a_pause_is_refused_by_the_fence_and_by_nothing_else() {
    let tale = tale("gc-pause", None);
    assert_eq!((tale.seen.lost_plain, tale.seen.lost_fenced, tale.seen.refused), (1, 0, 1));
    let lines = tale.timeline(ENGLISH);
    assert!(lines.contains("client 1 holds the lock, token 33"), "{lines}");
    assert!(lines.contains("client 2 holds the lock, token 34"), "{lines}");
}

#[test]
fn a_jump_of_twenty_seconds_is_borne_and_one_of_twenty_one_is_not() {
    for seed in 0..20 {
        let overlaps = |name| {
            let story = Story::find(name).unwrap();
            story.play(story.setup(), seed).seen.overlaps
        };
        assert_eq!((overlaps("clock-jump-20"), overlaps("clock-jump")), (0, 1), "seed {seed}");
    }
}

#[test]
fn a_random_value_stops_a_late_write_and_not_a_late_claim() {
    let lines = tale("random-value", None).timeline(ENGLISH);
    assert!(lines.contains("client 1 writes: the random value is another one, refused"), "{lines}");
    let lines = tale("random-value-late", None).timeline(ENGLISH);
    assert!(lines.contains("client 1 writes: the random value is the registered one"), "{lines}");
    assert!(lines.contains("client 2 writes: the random value is another one"), "{lines}");
    assert_eq!(tale("random-value-late", None).seen.stale, 0, "the token tells them apart");
}

#[test]
fn who_stands_in_line_misses_no_release_and_wakes_nobody_else() {
    let gap = |setup| tale("lost-wakeup", setup).seen.gap / SECOND;
    assert_eq!((gap(None), gap(Some(Setup::Single))), (25, 0));
    let herd = tale("herd", None).seen;
    let line = tale("herd", Some(Setup::Single)).seen;
    assert_eq!((herd.holds, line.holds), (10, 10));
    assert_eq!((herd.asks, line.asks), (55, 19));
}

/// Leasehold's clients do not poll where the product has a queue, in the stories of other troubles either.
#[test]
fn a_waiter_of_leasehold_on_one_redis_does_not_poll() {
    for name in ["setnx", "gc-pause", "watchdog-pause", "renewal-fails"] {
        let asks = |setup| tale(name, Some(setup)).seen.asks;
        assert!(asks(Setup::Single) <= 8, "{name}: {}", asks(Setup::Single));
        assert!(asks(Setup::PlainSet) > 20, "{name}: {}", asks(Setup::PlainSet));
    }
}

#[test]
fn the_walk_through_says_who_gets_a_lock() {
    let rows = lab::walk();
    assert_eq!(rows.len(), 9);
    let find =
        |nodes, away| rows.iter().find(|row| (row.nodes, row.away) == (nodes, away)).unwrap();
    // The holder has A, B and C; C is back, empty, beside D and E.
    assert!(find(5, 1).bare && !find(5, 1).all && find(5, 3).all);
    // The fourth of six knew of it.
    assert!(!find(6, 1).bare && find(6, 2).bare);
    assert!(find(5, 2).other_lock && !find(5, 3).other_lock && !find(3, 2).other_lock);
    assert!(rows.iter().all(|row| !row.down && !row.admission), "{rows:?}");
    assert_eq!(lab::walked(&rows, ENGLISH).lines().count(), 10);
}

#[test]
fn who_waits_in_vain_is_told() {
    for name in ["setnx", "setnx-expire"] {
        let moral = tale(name, None).moral(ENGLISH);
        assert!(moral.starts_with("Client 2 waited in vain until the end."), "{moral}");
    }
}

#[test]
fn after_a_majority_has_forgotten_nobody_is_let_in_until_an_operator_came_and_a_ttl_passed() {
    let tale = tale("majority-restart", None);
    let lines = tale.timeline(ENGLISH);
    let held = lines.lines().find(|line| line.contains("client 2 holds")).unwrap();
    let second: f64 = held.trim().split(' ').next().unwrap().parse().unwrap();
    assert!((70.0..72.0).contains(&second), "{lines}");
}

/// The same story in each language: the same lines at the same times, and a picture of the same things.
#[test]
fn every_story_is_told_and_drawn_in_every_language() {
    for story in stories() {
        for setup in story.setups {
            let tale = story.play(*setup, 1);
            let (english, chinese) = (tale.lines(ENGLISH), tale.lines(Language::Chinese));
            assert!((3..80).contains(&english.len()), "{} on {setup}: {english:?}", story.name);
            let times = |lines: &[(u64, String)]| -> Vec<u64> {
                lines.iter().map(|(time, _)| *time).collect()
            };
            assert_eq!(times(&english), times(&chinese), "{} on {setup}", story.name);
            for (language, end) in [(ENGLISH, '.'), (Language::Chinese, '。')] {
                let moral = tale.moral(language);
                // What happened, and why: no set-up is offered for which the story has no sentence.
                assert!(moral.matches(end).count() >= 2, "{} on {setup}: {moral}", story.name);
                let picture = lab::draw(&tale, language);
                assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
                assert!(!picture.contains("NaN") && !picture.contains("inf"), "{}", story.name);
            }
            let foreign = |text: &str| text.chars().any(|letter| letter >= '\u{2e80}');
            assert!(!english.iter().any(|(_, line)| foreign(line)), "{}", story.name);
            assert!(chinese.iter().all(|(_, line)| foreign(line)), "{chinese:?}");
        }
    }
}

#[test]
fn a_picture_shows_each_request_and_what_refused_a_write() {
    let herd = lab::draw(&tale("herd", None), ENGLISH);
    assert_eq!(herd.matches("class=\"ask\"").count(), 55);
    let pause = lab::draw(&tale("gc-pause", None), ENGLISH);
    assert_eq!(pause.matches(">by the fence<").count(), 1, "{pause}");
    assert!(pause.contains(">A pause of 35 s between the holder"), "{pause}");
}

/// Texts of one picture that stand over one another, with the width that the letters of most fonts have.
#[test]
fn no_text_of_a_picture_stands_over_another() {
    for story in stories() {
        for setup in story.setups {
            for language in [ENGLISH, Language::Chinese] {
                check_texts(&lab::draw(&story.play(*setup, 1), language), story.name);
            }
        }
    }
}

/// No text stands over another, or outside the picture.
pub(crate) fn check_texts(picture: &str, name: &str) {
    let texts: Vec<Area> = picture.lines().flat_map(areas).collect();
    for (at, one) in texts.iter().enumerate() {
        for other in &texts[at + 1..] {
            assert!(!one.covers(other), "{name}: {one:?} {other:?}");
        }
        assert!(one.from >= 0.0 && one.until <= 900.0, "{name}: {one:?}");
    }
}

/// Where a text of a picture stands.
#[derive(Debug)]
struct Area {
    from: f64,
    until: f64,
    top: f64,
    bottom: f64,
    #[allow(dead_code)]
    text: String,
}

impl Area {
    fn covers(&self, other: &Self) -> bool {
        self.from < other.until
            && other.from < self.until
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

fn areas(line: &str) -> Vec<Area> {
    let texts = line.split("<text ").skip(1);
    texts
        .map(|text| {
            let (attributes, text) = text.split_once('>').unwrap();
            let text = text.split("</text>").next().unwrap().trim().to_owned();
            let value = |name: &str| {
                let value = attributes.split(&format!("{name}=\"")).nth(1)?;
                value.split('"').next()
            };
            let number = |name| value(name).and_then(|value: &str| value.parse::<f64>().ok());
            let size = number("font-size").unwrap_or(14.0);
            let columns: f64 =
                text.chars().map(|letter| if letter >= '\u{2e80}' { 2.0 } else { 1.0 }).sum();
            let (wide, x, y) = (columns * size * 0.6, number("x").unwrap(), number("y").unwrap());
            let from = if value("text-anchor") == Some("middle") { x - wide / 2.0 } else { x };
            Area { from, until: from + wide, top: y - size * 0.8, bottom: y + size * 0.2, text }
        })
        .collect()
}

#[test]
fn a_lost_reply_is_a_success_or_a_failure_by_the_value_in_the_lock() {
    let changes = |tale: &Tale| -> Vec<(usize, ClientChange)> {
        let change = |what: &What| match what {
            What::Client(client, change) => Some((*client, *change)),
            _ => None,
        };
        tale.entries.iter().filter_map(|entry| change(&entry.what)).collect()
    };
    let own = tale("lost-reply", None);
    for one in [
        (0, ClientChange::Repeats),
        (0, ClientChange::OwnValue),
        (1, ClientChange::Repeats),
        (1, ClientChange::OthersValue),
    ] {
        assert!(changes(&own).contains(&one), "{one:?}: {:?}", changes(&own));
    }
    let holders: Vec<usize> = own.beliefs().iter().map(|belief| belief.0).collect();
    assert_eq!(holders, [0, 2, 1]);
    let by_hand = tale("lost-reply", Some(Setup::PlainSet));
    assert!(changes(&by_hand).contains(&(0, ClientChange::SomeValue)));
    assert!(by_hand.beliefs()[0].1 > 30 * SECOND, "it waited for its own lock");
}

#[test]
fn no_story_offers_a_set_up_twice_and_every_set_up_has_stories() {
    let mut seen = BTreeSet::new();
    for story in stories() {
        assert!(!story.setups.is_empty(), "{}", story.name);
        for setup in story.setups {
            assert!(seen.insert((setup.name(), story.name)), "{} on {setup}", story.name);
        }
    }
    for setup in Setup::ALL {
        assert!(seen.iter().filter(|(name, _)| *name == setup.name()).count() >= 8, "{setup}");
    }
}

#[test]
fn the_matrix_does_not_depend_on_the_number_of_threads() {
    let cells = lab::matrix(2, 1);
    assert_eq!(cells.len(), Setup::ALL.len() * Trouble::ALL.len());
    assert_eq!(cells, lab::matrix(2, 3));
    let document = lab::markdown(&cells);
    assert!(Setup::ALL.iter().all(|setup| document.contains(&format!("| {setup} |"))));
    assert!(document.contains("Runs in which a promise was broken: 0."));
}
