//! Locks in the formats of other programs: `wire` and `also`.

use std::fs;

use crate::support::WorkDir;

/// A store beside the files of `flock(1)`, which the command holds too.
fn both(place: &WorkDir) -> String {
    fs::create_dir(place.path("files")).unwrap();
    let (store, files) = (place.path("both"), place.path("files"));
    format!("file:{}?also=flock&suffix=.lock&directory={}", store.display(), files.display())
}

#[test]
fn also_holds_the_file_of_flock_and_the_lock_of_the_store() {
    let place = WorkDir::new();
    let url = both(&place);
    let script = "flock -n files/job.lock true; echo $?; \"$LEASEHOLD\" --store \"file:$PWD/both\" status job";
    let done = place.run(&["--store", &url, "run", "job", "--", "sh", "-c", script]);
    assert!(done.out.starts_with("1\n"), "{done:?}");
    assert!(done.out.contains("held"), "{done:?}");
    let script = "\"$LEASEHOLD\" --store \"$0\" run -n job -- true; echo $?";
    let done =
        place.run(&["run", "other", "--", "flock", "files/job.lock", "sh", "-c", script, &url]);
    assert_eq!(done.out, "1\n", "{done:?}");
    let done = place.run(&["--store", &url, "run", "-n", "job", "--", "true"]);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn the_doctor_names_the_format_and_what_is_weaker() {
    let place = WorkDir::new();
    let url = both(&place);
    let done = place.run(&["doctor", &url]);
    assert!(done.out.contains("clients hold each lock twice"), "{done:?}");
    assert!(done.out.contains("no time ends such a lock"), "{done:?}");
    let url = format!("file:{}?wire=flock", place.path("files").display());
    let done = place.run(&["doctor", &url, "--prefix", "job"]);
    assert!(done.out.contains("locks have the format flock"), "{done:?}");
    assert!(done.out.contains("cannot tell them"), "{done:?}");
    let done = place.run(&["--lang", "zh", "doctor", &url, "--prefix", "job"]);
    assert!(done.out.contains("锁用的是别的库的格式 flock"), "{done:?}");
}

#[test]
fn options_that_do_not_go_together_are_named() {
    let place = WorkDir::new();
    for (options, words) in [
        ("also=flock&directory=/tmp&wire=flock", "name one"),
        ("also=flock", "directory=/run/lock"),
        ("also=lockf&directory=/tmp", "flock is allowed"),
    ] {
        let url = format!("file:{}?{options}", place.path("both").display());
        let done = place.run(&["--store", &url, "run", "job", "--", "true"]);
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains(words), "{done:?}");
    }
    let url = format!("sqlite:{}?also=flock", place.path("locks.db").display());
    let done = place.run(&["--store", &url, "run", "job", "--", "true"]);
    assert!(done.code == 125 && done.err.contains("also"), "{done:?}");
}
