//! Each story shows what it is for, on its set-ups.

use leasehold_sim::lab::{self, STORIES, Story, Tale};
use leasehold_sim::simulator::{SECOND, Setup, Trouble};

fn tale(name: &str, setup: Option<Setup>) -> Tale {
    let story = Story::find(name).expect("a story of this name");
    story.play(setup.unwrap_or(story.setup), 1)
}

#[test]
fn stories_of_two_holders_have_two_and_what_prevents_them_does() {
    for (name, instead) in [
        ("timestamp-lock", None),
        ("late-release", Some(Setup::Single)),
        ("watchdog-pause", Some(Setup::Single)),
        ("clock-jump", None),
        ("get-then-set", None),
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

#[test]
fn a_write_after_a_pause_is_refused_by_the_fence_and_by_nothing_else() {
    let tale = tale("gc-pause", None);
    assert_eq!((tale.seen.lost_plain, tale.seen.lost_fenced, tale.seen.refused), (1, 0, 1));
    let lines = tale.timeline();
    assert!(lines.contains("client 1 holds the lock, token 33"), "{lines}");
    assert!(lines.contains("client 2 holds the lock, token 34"), "{lines}");
}

#[test]
fn a_jump_of_twenty_seconds_is_borne_and_one_of_twenty_one_is_not() {
    for seed in 0..20 {
        let overlaps = |name| {
            let story = Story::find(name).unwrap();
            story.play(story.setup, seed).seen.overlaps
        };
        assert_eq!((overlaps("clock-jump-20"), overlaps("clock-jump")), (0, 1), "seed {seed}");
    }
}

#[test]
fn a_random_value_stops_a_late_write_and_not_a_late_claim() {
    let lines = tale("random-value", None).timeline();
    assert!(lines.contains("client 1's write, by the random value: refused"), "{lines}");
    let lines = tale("random-value-late", None).timeline();
    assert!(lines.contains("client 1's write, by the random value: taken"), "{lines}");
    assert!(lines.contains("client 2's write, by the random value: refused"), "{lines}");
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
    assert_eq!(lab::walked(&rows).lines().count(), 10);
}

#[test]
fn who_waits_in_vain_is_told() {
    for name in ["setnx", "setnx-expire"] {
        let moral = tale(name, None).moral();
        assert!(moral.starts_with("Client 2 waited in vain until the end."), "{moral}");
    }
}

#[test]
fn after_a_majority_has_forgotten_nobody_is_let_in_until_an_operator_came_and_a_ttl_passed() {
    let tale = tale("majority-restart", None);
    let lines = tale.timeline();
    let held = lines.lines().find(|line| line.contains("client 2 holds")).unwrap();
    let second: f64 = held.trim().split(' ').next().unwrap().parse().unwrap();
    assert!((70.0..72.0).contains(&second), "{lines}");
}

#[test]
fn every_story_can_be_told_on_every_set_up_and_drawn() {
    for story in STORIES {
        for setup in Setup::ALL {
            let tale = story.play(setup, 1);
            let lines = tale.timeline();
            assert!((3..80).contains(&lines.lines().count()), "{} on {setup}: {lines}", story.name);
            assert_eq!(tale.moral().matches(". ").count(), 1, "{}", tale.moral());
            let picture = lab::draw(&tale);
            assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{}", story.name);
        }
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
