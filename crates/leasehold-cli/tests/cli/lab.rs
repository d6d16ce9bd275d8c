//! The lab tells its stories, draws them, and says what it does not know.

use crate::support::WorkDir;

#[test]
fn the_lab_lists_its_stories_and_set_ups() {
    let done = WorkDir::new().run(&["lab"]);
    assert_eq!(done.code, 0);
    for word in ["gc-pause", "majority-restart", "redlock-plain", "zookeeper"] {
        assert!(done.out.contains(word), "{word}: {}", done.out);
    }
}

#[test]
fn the_lab_walks_through_three_five_and_six_nodes() {
    let done = WorkDir::new().run(&["lab", "walk-through"]);
    assert_eq!(done.code, 0);
    assert_eq!(done.out.matches("TWO HOLDERS").count(), 11, "{}", done.out);
    assert!(done.out.contains("with admission"), "{}", done.out);
}

#[test]
fn a_story_is_told_the_same_way_again_and_drawn() {
    let place = WorkDir::new();
    let args = ["lab", "node-restart", "--setup", "redlock-tokens", "--svg", "picture.svg"];
    let done = place.run(&args);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("!! client 1 and client 2"), "{}", done.out);
    assert!(place.read("picture.svg").starts_with("<svg"));
    assert_eq!(place.run(&args).out, done.out);
}

#[test]
fn what_the_lab_does_not_know_is_an_error_that_says_what_it_knows() {
    let place = WorkDir::new();
    let done = place.run(&["lab", "nope"]);
    assert_eq!(done.code, 125);
    assert!(done.err.contains("nope") && done.err.contains("lab list"), "{}", done.err);
    let done = place.run(&["lab", "gc-pause", "--setup", "nope"]);
    assert_eq!(done.code, 125);
    assert!(done.err.contains("single-strict"), "{}", done.err);
    for (args, says) in [
        (&["lab", "gc-pause", "--json"][..], "takes --setup, --seed, --svg, not --json"),
        (&["lab", "gc-pause", "--seeds", "3"], "not --seeds"),
        (&["lab", "matrix", "--seed", "3"], "not --seed"),
        (&["lab", "walk-through", "--svg", "x.svg"], "takes no option, not --svg"),
        (&["lab", "matrix", "--seeds", "0"], "--seeds"),
    ] {
        let done = place.run(args);
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains(says), "{done:?}");
    }
}

#[test]
fn the_list_is_one_object_a_line() {
    let done = WorkDir::new().run(&["lab", "list", "--json"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let rows: Vec<serde_json::Value> =
        done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.iter().any(|row| row["story"] == "gc-pause" && row["about"].is_string()));
    assert!(rows.iter().any(|row| row["story"].is_null() && row["setup"] == "redlock"));
}

#[test]
fn the_matrix_is_one_object_a_line() {
    let done = WorkDir::new().run(&["lab", "matrix", "--seeds", "1", "--json"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let rows: Vec<serde_json::Value> =
        done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() > 100 && rows.iter().all(|row| row["runs"] == 1 && row["broken"] == 0));
}
