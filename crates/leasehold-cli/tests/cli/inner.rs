//! An inner `leasehold` means the store of the outer one, wherever that came from.

use std::process::Command;

use crate::support::{Done, LEASEHOLD, WorkDir};

/// Tells what it got, tries to take the same lock, and then another one.
const INNER: &str = "echo $LEASEHOLD_STORE; cd /
    env -u XDG_STATE_HOME -u XDG_CONFIG_HOME HOME=/dev/null $LEASEHOLD run a -- echo not-excluded
    echo $?; $LEASEHOLD run b -- true; echo $?";

#[track_caller]
fn same_store(place: &WorkDir, store: &str, prepare: impl FnOnce(&mut Command)) {
    let mut command = place.program(LEASEHOLD);
    prepare(&mut command);
    let done = Done::new(command.args(["run", "a", "--", "sh", "-c", INNER]).output().unwrap());
    let url = format!("file:{}", place.path(store).display());
    assert_eq!(done.out, format!("{url}\n125\n0\n"), "{done:?}");
    assert!(done.err.contains("wait for itself"), "{done:?}");
    assert!(place.path(store).join("locks").is_dir());
}

#[test]
fn a_store_from_the_option_goes_on() {
    let place = WorkDir::new();
    same_store(&place, "store", |command| {
        command.args(["--store", &place.store()]).env("LEASEHOLD_STORE", "file:/no/such");
    });
}

#[test]
fn a_store_from_the_environment_goes_on() {
    let place = WorkDir::new();
    same_store(&place, "store", |command| {
        command.env("LEASEHOLD_STORE", place.store());
    });
}

#[test]
fn a_store_from_a_config_file_goes_on() {
    for (file, named) in [("config/leasehold/config.toml", false), ("other.toml", true)] {
        let place = WorkDir::new();
        place.write(file, &format!("store = \"{}\"", place.store()));
        same_store(&place, "store", |command| {
            if named {
                command.args(["--config", file]).env("LEASEHOLD_STORE", "file:/no/such");
            }
        });
    }
}

#[test]
fn the_default_store_goes_on() {
    let place = WorkDir::new();
    same_store(&place, "state/leasehold", |_| {});
}

#[test]
fn an_inner_config_file_that_is_named_is_followed() {
    let place = WorkDir::new();
    place.write("inner.toml", &format!("store = \"file:{}\"", place.path("inner").display()));
    let inner = "$LEASEHOLD --config inner.toml run a -- sh -c 'echo $LEASEHOLD_STORE'";
    let done = place.run(&["run", "a", "--", "sh", "-c", inner]);
    assert_eq!(done.out, format!("file:{}\n", place.path("inner").display()), "{done:?}");
}

#[test]
fn a_store_with_credentials_is_withheld_and_the_inner_run_says_so() {
    let place = WorkDir::new();
    let inner = "echo $LEASEHOLD_STORE; $LEASEHOLD run b -- touch ran";
    // There is no server here; what counts is the `@`, which a directory may have in its name.
    let store = format!("file:{}", place.path("u:s3cret@host").display());
    let mut command = place.program(LEASEHOLD);
    command.args(["--store", &store, "run", "a", "--", "sh", "-c", inner]);
    let done = Done::new(command.output().unwrap());
    assert_eq!((done.code, done.out.as_str()), (125, "withheld:\n"), "{done:?}");
    assert!(done.err.contains("credentials") && !done.err.contains("s3cret"), "{done:?}");
    assert!(!place.path("ran").exists());
}
