//! The lab tells its stories, draws them, and says what it does not know.

use crate::support::WorkDir;

#[test]
fn the_lab_lists_its_stories_and_set_ups() {
    let done = WorkDir::new().run(&["lab"]);
    assert_eq!(done.code, 0);
    for word in ["gc-pause", "majority-restart", "redlock-plain", "zookeeper", "Play one: "] {
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

/// A mistake by hand is not told of Leasehold, and the first lines say what is done.
#[test]
fn a_mistake_by_hand_is_not_told_of_leasehold() {
    let place = WorkDir::new();
    let by_hand = place.run(&["lab", "timestamp-lock"]);
    assert!(by_hand.out.contains("on plain-set: SETNX with the time in the value"), "{by_hand:?}");
    assert!(by_hand.out.contains("!! client 2 and client 3"), "{by_hand:?}");
    let ours = place.run(&["lab", "timestamp-lock", "--setup", "single"]);
    assert!(ours.out.contains("on single: Leasehold on one Redis; ttl 5 s"), "{ours:?}");
    assert!(!ours.out.contains("!!"), "{ours:?}");
    let no_ttl = place.run(&["lab", "setnx"]);
    assert!(no_ttl.out.contains("on plain-set: SETNX and DEL on one Redis; no ttl"), "{no_ttl:?}");
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
    let done = place.run(&["lab", "clock-jump", "--setup", "single"]);
    assert_eq!(done.code, 125);
    assert!(
        done.err.contains("cannot be played on single; it is played on redlock-plain"),
        "{done:?}"
    );
    let done = place.run(&["lab", "gc-puase"]);
    assert!(done.err.contains("did you mean \"gc-pause\"?"), "{}", done.err);
    for (part, says) in [
        ("gc", "did you mean \"gc-pause\"?"),
        ("Pause", "did you mean one of gc-pause, "),
        ("walk", "did you mean \"walk-through\"?"),
        ("matirx", "did you mean \"matrix\"?"),
        ("restart", "did you mean one of "),
    ] {
        let done = place.run(&["lab", part]);
        assert!(done.code == 125 && done.err.contains(says), "{part}: {done:?}");
    }
    let done = place.run(&["lab", "gc-pause", "--setup", "sinlge"]);
    assert!(done.err.contains("did you mean \"single\"?"), "{}", done.err);
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
fn a_story_of_a_cache_is_told_with_the_recipe_and_with_leasehold() {
    let place = WorkDir::new();
    let recipe = place.run(&["lab", "delete-after-commit", "--svg", "cache.svg"]);
    assert_eq!(recipe.code, 0, "{recipe:?}");
    assert!(recipe.out.contains("At rest the cache says 1 and the database 2"), "{}", recipe.out);
    assert!(place.read("cache.svg").starts_with("<svg"));
    let ours = place.run(&["lab", "delete-after-commit", "--setup", "leasehold"]);
    assert!(ours.out.contains("reader 1 may not fill: 1 goes to its caller only"), "{}", ours.out);
    let done = place.run(&["lab", "hot-key", "--setup", "single"]);
    assert_eq!(done.code, 125);
    assert!(done.err.contains("it is played on recipe, leasehold"), "{}", done.err);
}

#[test]
fn a_story_of_a_primitive_is_told_with_the_recipe_and_with_leasehold() {
    let place = WorkDir::new();
    let recipe = place.run(&["lab", "lost-permits", "--svg", "permits.svg"]);
    assert_eq!(recipe.code, 0, "{recipe:?}");
    assert!(recipe.out.contains("with recipe: a counter of permits"), "{}", recipe.out);
    assert!(recipe.out.contains("2 of 2 permits were lost"), "{}", recipe.out);
    assert!(place.read("permits.svg").starts_with("<svg"));
    let ours = place.run(&["lab", "lost-permits", "--setup", "leasehold", "--lang", "zh"]);
    assert!(ours.out.contains("客户端 4 获得槽位 0，令牌 34"), "{}", ours.out);
    let listed = place.run(&["lab", "list", "--json"]);
    assert_eq!(listed.out.matches("\"story\":\"paused-writer\"").count(), 1, "{}", listed.out);
    let done = place.run(&["lab", "writer-starvaton"]);
    assert!(done.err.contains("did you mean \"writer-starvation\"?"), "{}", done.err);
    let done = place.run(&["lab", "paused-writer", "--setup", "lesehold"]);
    assert!(done.err.contains("it is played on recipe, leasehold"), "{}", done.err);
    assert!(done.err.contains("did you mean \"leasehold\"?"), "{}", done.err);
}

/// By option, by variable and by locale; objects are the same in every language.
#[test]
fn the_lab_speaks_chinese() {
    let place = WorkDir::new();
    let chinese = place.run(&["--lang", "zh", "lab", "gc-pause", "--svg", "pause.svg"]);
    assert_eq!(chinese.code, 0, "{}", chinese.err);
    for word in ["客户端 1 持有锁，令牌 33", "检查令牌时拒绝", "任何锁都防不住"]
    {
        assert!(chinese.out.contains(word), "{word}: {}", chinese.out);
    }
    assert!(place.read("pause.svg").contains("因令牌拒绝"));
    for variable in ["LEASEHOLD_LANG", "LC_ALL", "LC_MESSAGES", "LANG"] {
        let mut command = place.leasehold(&["lab", "gc-pause"]);
        let done = command.env(variable, "zh_CN.UTF-8").output().unwrap();
        assert_eq!(String::from_utf8(done.stdout).unwrap(), chinese.out, "{variable}");
    }
    for arguments in [["lab", "list"], ["lab", "walk-through"]] {
        let done = place.run(&[&["--lang", "zh"], &arguments[..]].concat());
        assert!(done.out.contains("节点"), "{}", done.out);
    }
    let objects = |lang| place.run(&["lab", "list", "--json", "--lang", lang]).out;
    assert_eq!(objects("zh"), objects("en"));
    let matrix = ["--lang", "zh", "lab", "matrix", "--seeds", "1", "--svg", "matrix.svg"];
    let done = place.run(&matrix);
    for words in ["部署              故障  ", "消息丢失、迟到、重复  ", "检查令牌    乱序"]
    {
        assert!(done.out.contains(words), "{words}: {}", done.out);
    }
    assert!(place.read("matrix.svg").contains("同时有两个持有者的次数"));
    let done = place.run(&["lab", "--lang", "klingon"]);
    assert_eq!(done.code, 125, "{done:?}");
}

#[test]
fn the_matrix_is_one_object_a_line() {
    let done = WorkDir::new().run(&["lab", "matrix", "--seeds", "1", "--json"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let rows: Vec<serde_json::Value> =
        done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() > 100 && rows.iter().all(|row| row["runs"] == 1 && row["broken"] == 0));
}
