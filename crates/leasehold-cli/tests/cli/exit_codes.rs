//! The exit code says what happened.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::WorkDir;

#[test]
fn the_commands_exit_code_goes_through() {
    let place = WorkDir::new();
    for code in [0, 3, 255] {
        // Each has a lock of its own, so that none waits for the end of the one before.
        let name = format!("a{code}");
        let done = place.run(&["run", &name, "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!((done.code, done.err.as_str()), (code, ""));
    }
}

#[test]
fn a_signal_that_ends_the_command_becomes_128_plus_its_number() {
    let place = WorkDir::new();
    for signal in [1, 2, 9, 15, 34] {
        let done = place.run(&["run", "a", "--", "sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(done.code, 128 + signal, "{done:?}");
    }
}

#[test]
fn a_command_that_is_not_found_is_127() {
    let done = WorkDir::new().run(&["run", "a", "--", "no-such-command"]);
    assert_eq!(done.code, 127);
    assert!(done.err.starts_with("leasehold: cannot run \"no-such-command\""), "{done:?}");
}

#[test]
fn a_command_that_cannot_be_run_is_126() {
    let place = WorkDir::new();
    place.write("plain", "text");
    for command in ["./plain", "/"] {
        let done = place.run(&["run", "a", "--", command]);
        assert_eq!(done.code, 126, "{done:?}");
    }
}

#[test]
fn a_script_without_a_first_line_is_run_by_sh() {
    let place = WorkDir::new();
    let script = place.write("bin/script", "echo \"$0 $1\"; exit 4\n");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    let done = place.run(&["run", "a", "--", "./bin/script", "x y"]);
    assert_eq!((done.code, done.out.as_str()), (4, "./bin/script x y\n"), "{done:?}");
    let mut by_path = place.leasehold(&["run", "a", "--", "script", "z"]);
    by_path.env("PATH", format!("{}:/usr/bin:/bin", place.path("bin").display()));
    assert_eq!(by_path.output().unwrap().status.code(), Some(4));
}

#[test]
fn a_store_that_cannot_be_used_is_69() {
    let place = WorkDir::new();
    let file = place.write("file", "");
    let store = format!("file:{}/locks", file.display());
    for arguments in [["run", "a", "true"].as_slice(), &["list"], &["status", "a"]] {
        let mut command = place.program(crate::support::LEASEHOLD);
        let output = command.args(["--store", &store]).args(arguments).output().unwrap();
        let done = crate::support::Done::new(output);
        assert_eq!(done.code, 69, "{done:?}");
        assert!(done.err.starts_with("leasehold: ") && done.err.contains("choose"), "{done:?}");
        assert!(!done.err.contains("credentials"), "a directory has none: {done:?}");
    }
}

#[test]
fn a_lock_that_is_lost_is_76() {
    let done = WorkDir::new().run(&["run", "--max-hold", "300ms", "a", "--", "sleep", "60"]);
    assert_eq!(done.code, 76, "{done:?}");
    assert!(done.err.contains("the lock a is lost: the longest time to hold it"), "{done:?}");
}

#[test]
fn a_lock_that_is_taken_is_1_or_the_code_that_was_asked_for() {
    let place = WorkDir::new();
    let _holder = place.start_ready(&["a"], "touch ready; sleep 60");
    assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 1);
    assert_eq!(place.run(&["run", "-n", "-E", "7", "a", "true"]).code, 7);
    assert_eq!(place.run(&["run", "-w", "0.05", "-E", "0", "a", "false"]).code, 0);
}
