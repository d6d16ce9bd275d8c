//! Where the store and the defaults come from, and what is wrong with a config file.

use crate::support::{Done, LEASEHOLD, WorkDir};

fn run(place: &WorkDir, prepare: impl FnOnce(&mut std::process::Command)) -> Done {
    let mut command = place.program(LEASEHOLD);
    prepare(&mut command);
    Done::new(command.output().unwrap())
}

fn with_config(text: &str) -> WorkDir {
    let place = WorkDir::new();
    place.write("config/leasehold/config.toml", text);
    place
}

#[test]
fn option_beats_environment_beats_config_beats_default() {
    let place = WorkDir::new();
    let url = |name: &str| format!("file:{}", place.path(name).display());
    let config = format!("store = \"{}\"", url("by-config"));
    assert_eq!(
        run(&place, |command| {
            command.args(["run", "a", "true"]);
        })
        .code,
        0
    );
    assert!(place.path("state/leasehold").is_dir());
    place.write("config/leasehold/config.toml", &config);
    assert_eq!(
        run(&place, |command| {
            command.args(["run", "a", "true"]);
        })
        .code,
        0
    );
    assert!(place.path("by-config").is_dir());
    let done = run(&place, |command| {
        command.args(["run", "a", "true"]).env("LEASEHOLD_STORE", url("by-variable"));
    });
    assert!(done.code == 0 && place.path("by-variable").is_dir());
    let done = run(&place, |command| {
        command.args(["run", "--store", &url("by-option"), "a", "true"]);
        command.env("LEASEHOLD_STORE", url("not-used"));
    });
    assert!(done.code == 0 && place.path("by-option").is_dir());
    assert!(!place.path("not-used").exists());
}

#[test]
fn an_empty_store_is_an_error_that_names_what_is_empty() {
    let place = WorkDir::new();
    for arguments in [&["run", "a", "touch", "ran"][..], &["list"], &["doctor"]] {
        let done = run(&place, |command| {
            command.args(arguments).env("LEASEHOLD_STORE", "");
        });
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains("LEASEHOLD_STORE is empty"), "{done:?}");
        assert!(done.err.contains("unset it"), "{done:?}");
    }
    let config = place.write("empty.toml", "store = \"\"\n");
    for (arguments, part) in [
        (["--store", ""], "--store is empty"),
        (["--config", config.to_str().unwrap()], "is empty"),
    ] {
        let done = run(&place, |command| {
            command.args(arguments).args(["run", "a", "touch", "ran"]);
        });
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains(part), "{part}: {done:?}");
    }
    assert!(!place.path("ran").exists() && !place.path("state").exists());
    // An option comes before the variable, which is not read then.
    let done = run(&place, |command| {
        command.args(["--store", &place.store(), "run", "a", "true"]).env("LEASEHOLD_STORE", "");
    });
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn a_config_file_gives_defaults_that_options_beat() {
    let place = with_config("[run]\nconflict-exit-code = 9\nwait = 0\n");
    let _holder = place.start_ready(&["-w", "5", "a"], "touch ready; sleep 60");
    assert_eq!(place.run(&["run", "a", "true"]).code, 9);
    assert_eq!(place.run(&["run", "-E", "8", "a", "true"]).code, 8);
    let other = place.write("other.toml", "[run]\nconflict-exit-code = 7\nwait = \"50ms\"\n");
    assert_eq!(place.run(&["--config", other.to_str().unwrap(), "run", "a", "true"]).code, 7);
}

#[test]
fn a_max_hold_from_the_config_file_is_kept() {
    let place = with_config("[run]\nmax-hold = \"300ms\"\non-lost = \"kill\"\nkill-after = 0.1\n");
    assert_eq!(place.run(&["run", "a", "sleep", "60"]).code, 76);
}

#[test]
fn what_is_wrong_with_a_config_file_is_said_with_file_and_line() {
    for (text, parts) in [
        ("stroe = \"x\"", ["line 1", "`stroe`", "did you mean `store`?"]),
        ("[run]\nwiat = 1", ["line 2", "`wiat`", "did you mean `wait`?"]),
        ("[run]\non-lost = \"wran\"", ["line 2: on-lost: ", "`wran`", "did you mean `warn`?"]),
        ("[run]\nwait = -1", ["line 2", "\"-1\"", "negative"]),
        ("[run]\nttl = \"1ms\"", ["line 2: ttl: ", "\"1ms\"", "10ms to 24h"]),
        ("[run]\nwait = [1]", ["line 2: wait: ", "not a time", "write a number"]),
        ("[run]\non-lost = \"x\"", ["line 2: on-lost: ", "`x`", "`warn`"]),
        ("[run]\nconflict-exit-code = 256", ["line 2: conflict-exit-code: ", "256", "0 to 255"]),
        ("[run]\nconflict-exit-code = -1", ["line 2: conflict-exit-code: ", "-1", "0 to 255"]),
        ("store = 1", ["line 1: store: ", "string", ""]),
        ("store = ", ["line 1: store: ", "", ""]),
    ] {
        let place = with_config(text);
        let done = place.run(&["run", "a", "touch", "ran"]);
        assert_eq!(done.code, 125, "{text}: {done:?}");
        assert!(done.err.contains("config/leasehold/config.toml: "), "{text}: {done:?}");
        assert!(parts.iter().all(|part| done.err.contains(part)), "{text}: {done:?}");
        assert!(!place.path("ran").exists());
    }
}

#[test]
fn relative_directories_in_the_environment_are_ignored() {
    let place = WorkDir::new();
    place.write("relative/leasehold/config.toml", "nonsense = 1");
    let done = run(&place, |command| {
        command.args(["run", "--store", &place.store(), "a", "true"]);
        command.env("XDG_CONFIG_HOME", "relative");
    });
    assert_eq!(done.code, 0, "{done:?}");
}
