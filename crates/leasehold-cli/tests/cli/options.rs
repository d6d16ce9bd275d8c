//! Bad input is answered with 125 and a message that names the field, the value and what is
//! allowed.

use crate::support::WorkDir;

#[track_caller]
fn refused(arguments: &[&str], parts: &[&str]) {
    let place = WorkDir::new();
    let done = place.run(arguments);
    assert_eq!(done.code, 125, "{arguments:?} {done:?}");
    assert!(done.err.starts_with("leasehold: "), "{done:?}");
    for part in parts {
        assert!(done.err.contains(part), "{arguments:?} should say {part:?}: {}", done.err);
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn every_option_that_takes_a_time_refuses_what_is_none() {
    for option in ["--wait", "--ttl", "--max-hold", "--min-hold", "--kill-after"] {
        for value in ["-1", "NaN", "inf", "", "soon", "1w", "1 s", "99999999999999999999d"] {
            refused(&["run", option, value, "a", "touch", "ran"], &[option, value]);
        }
    }
    refused(&["watch", "--interval", "-1"], &["--interval", "-1", "write a number"]);
    refused(&["watch", "--interval", "0"], &["--interval", "0", "more than 0"]);
    refused(&["run", "-w", "-1", "a", "touch", "ran"], &["--wait", "negative", "500ms"]);
    refused(&["run", "--max-hold", "0", "a", "touch", "ran"], &["--max-hold", "more than 0"]);
}

#[test]
fn a_time_may_have_several_units() {
    let place = WorkDir::new();
    for option in ["--wait", "--ttl", "--max-hold", "--kill-after"] {
        let done = place.run(&["run", option, "2m30s", "a", "true"]);
        assert_eq!(done.code, 0, "{option} {done:?}");
    }
    for value in ["2m30", "30s2m", "1m1m", "2m-30s", "2m 30s", "1ms1ms"] {
        refused(&["run", "--ttl", value, "a", "touch", "ran"], &["--ttl", value, "write a number"]);
    }
    refused(&["run", "--ttl", "24h1ms", "a", "touch", "ran"], &["--ttl", "10ms to 24h"]);
}

#[test]
fn a_ttl_out_of_range_is_refused() {
    for ttl in ["0", "9ms", "25h"] {
        refused(&["run", "--ttl", ttl, "a", "touch", "ran"], &["--ttl", ttl, "10ms to 24h"]);
    }
}

#[test]
fn a_minimum_hold_beyond_the_maximum_is_refused() {
    let arguments = ["run", "--min-hold", "9s", "--max-hold", "5s", "a", "touch", "ran"];
    refused(&arguments, &["min_hold", "9s", "5s"]);
}

#[test]
fn names_are_checked_before_anything_is_done() {
    refused(&["run", "", "touch", "ran"], &["name", "1 to 512 bytes"]);
    refused(&["run", "a\nb", "touch", "ran"], &["name", "control character"]);
    refused(&["run", &"x".repeat(513), "touch", "ran"], &["name", "513"]);
    refused(&["status", ""], &["name"]);
}

#[test]
fn text_that_is_not_utf8_is_refused_by_the_argument_that_holds_it() {
    use std::os::unix::ffi::OsStrExt;
    let bad = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let cases: [(&[&str], &str); 5] = [
        (&["run", "a", "--metadata"], "--metadata <TEXT>"),
        (&["run"], "<NAME>"),
        (&["status"], "<NAME>"),
        (&["list"], "[PREFIX]"),
        (&["list", "--store"], "--store <URL>"),
    ];
    for (arguments, part) in cases {
        let mut command = WorkDir::new().program(crate::support::LEASEHOLD);
        command.args(arguments).arg(bad).current_dir("/");
        if arguments[0] == "run" {
            command.args(["--", "touch", "/no/such/ran"]);
        }
        let done = crate::support::Done::new(command.output().unwrap());
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains(part) && done.err.contains("not UTF-8"), "{part}: {done:?}");
    }
}

#[test]
fn the_help_of_max_hold_names_the_loss_margin() {
    let help = WorkDir::new().run(&["run", "--help"]).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("a tenth of the ttl, at least 50 ms, at most a third"), "{help}");
}

#[test]
fn other_options_name_what_is_allowed() {
    refused(&["run", "-E", "256", "a", "touch", "ran"], &["--conflict-exit-code", "256", "255"]);
    refused(&["run", "-E", "-1", "a", "touch", "ran"], &["--conflict-exit-code", "-1"]);
    refused(&["run", "--on-lost", "x", "a", "touch", "ran"], &["--on-lost", "kill, warn, ignore"]);
    refused(&["run", "-n", "-w", "1", "a", "touch", "ran"], &["--no-wait", "--wait"]);
    refused(&["run", "-c", "true", "a", "touch", "ran"], &["--command"]);
    refused(&["run", "a"], &["<CMD>"]);
    refused(&["run"], &["<NAME>"]);
    refused(&["force-release", "a"], &["--token"]);
    for token in ["0", "-1", "x", "99999999999999999999"] {
        let allowed = &["--token", token, "1 to 9007199254740991"];
        refused(&["force-release", "a", "--token", token], allowed);
    }
    for limit in ["-1", "x"] {
        refused(&["list", "--limit", limit], &["--limit", limit, "at least 0"]);
    }
    refused(&["completions", "tcl"], &["tcl", "bash"]);
    refused(&["no-such"], &["no-such"]);
    refused(&["--config", "/no/such", "list"], &["--config", "/no/such"]);
    refused(&[], &["Usage"]);
}

#[test]
fn an_unknown_store_names_the_known_ones_and_no_password() {
    let place = WorkDir::new();
    for url in ["redix://user:s3cret@host/0?password=s3cret", "/tmp", "file:/tmp/x?a=s3cret"] {
        let mut command = place.program(crate::support::LEASEHOLD);
        let output = command.args(["--store", url, "run", "a", "touch", "ran"]).output().unwrap();
        let done = crate::support::Done::new(output);
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.starts_with("leasehold: ") && done.err.contains("store URL"), "{done:?}");
        assert!(done.err.contains("--store, LEASEHOLD_STORE or the config file"), "{done:?}");
        assert!(!done.err.contains("s3cret"), "{done:?}");
    }
}

#[test]
fn options_may_stand_after_the_name_and_the_command_keeps_its_own() {
    let place = WorkDir::new();
    assert_eq!(place.run(&["run", "a", "-n", "--", "echo", "-n", "x"]).out, "x");
    assert_eq!(place.run(&["run", "a", "echo", "--help", "-q"]).out, "--help -q\n");
    assert_eq!(place.run(&["run", "-n", "a", "echo", "--", "x"]).out, "-- x\n");
}

#[test]
fn a_mistyped_option_is_never_run_as_the_command() {
    let tail = ["touch", "ran"];
    for (option, similar) in [("--slots", ""), ("--no-wiat", "--no-wait"), ("-x", "")] {
        for before in [&["run", "a", option][..], &["run", "a", option, "3"], &["run", option, "a"]]
        {
            for between in [&[][..], &["--"]] {
                let arguments = [before, between, &tail].concat();
                refused(&arguments, &[&format!("unexpected argument '{option}'"), similar]);
            }
        }
    }
    refused(&["run", "a", "-nx", "--", "touch", "ran"], &["'-x'"]);
    refused(&["run", "a", "-c", "touch ran", "--slots"], &["'--slots'"]);
    let done = WorkDir::new().run(&["run", "a", "--", "--slots"]);
    assert!(done.code == 127 && done.err.contains("cannot run \"--slots\""), "{done:?}");
}

#[test]
fn a_forgotten_name_is_named_with_the_corrected_line() {
    for (line, right) in [
        (&["run", "--", "touch", "ran"][..], " run NAME -- touch ran\n"),
        (&["run", "--", "sleep"], " run NAME -- sleep\n"),
        (&["run", "-n", "--ttl", "5s", "--", "touch", "ran"], "run -n --ttl 5s NAME -- touch ran"),
        (&["elect", "--", "touch", "ran"], " elect NAME -- touch ran\n"),
        (&["run", "--", "touch", "a b"], " run NAME -- touch 'a b'\n"),
    ] {
        refused(line, &["NAME is missing before --", "write: leasehold --store file:", right]);
    }
    let place = WorkDir::new();
    let done = place.run(&["run", "--", "-job", "touch", "ran"]);
    assert!(done.code == 0 && place.path("ran").exists(), "{done:?}");
}

#[test]
fn an_unknown_option_is_not_advised_to_become_the_command() {
    for (option, similar) in [
        ("--no-wiat", "--no-wait"),
        ("--nonblock", "--no-wait"),
        ("--timeout", "--wait"),
        ("--tl", "--ttl"),
    ] {
        let line = ["run", "a", option, "--", "touch", "ran"];
        refused(&line, &[&format!("'{similar}'"), &format!("leasehold run NAME -- CMD {option}")]);
        let done = WorkDir::new().run(&line);
        assert!(!done.err.contains(&format!("'-- {option}'")), "{done:?}");
    }
    let done = WorkDir::new().run(&["run", "--slots", "a", "--", "touch", "ran"]);
    assert!(done.err.contains("NAME -- CMD --slots"), "{done:?}");
    for line in [&["list", "--hold"][..], &["quorum", "init", "--afer-loss"]] {
        let done = WorkDir::new().run(line);
        assert!(done.err.contains("similar") && !done.err.contains("CMD"), "{done:?}");
    }
}

#[test]
fn a_mistyped_store_is_corrected() {
    for (url, meant) in [
        ("reddis://h", "did you mean \"redis\"?"),
        ("redlok://a,b,c", "did you mean \"redlock\"?"),
        ("redis://h?prefx=a", "did you mean \"prefix\"?"),
        ("redlock://a,b,c?max-tll=9s", "did you mean \"max-ttl\"?"),
    ] {
        refused(&["run", "--store", url, "a", "touch", "ran"], &[meant]);
    }
}

#[test]
fn a_shell_line_is_run_by_the_users_shell() {
    let place = WorkDir::new();
    let mut command = place.leasehold(&["run", "a", "-c", "echo $0 $((1+1))"]);
    let output = command.env("SHELL", "/bin/bash").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "/bin/bash 2\n");
    let mut command = place.leasehold(&["run", "a", "-c", "exit 9"]);
    assert_eq!(command.env_remove("SHELL").status().unwrap().code(), Some(9));
}

#[test]
fn help_and_version_are_no_errors() {
    let place = WorkDir::new();
    for arguments in [["--help"].as_slice(), &["--version"], &["run", "--help"], &["help", "run"]] {
        let done = place.run(arguments);
        assert_eq!((done.code, done.err.as_str()), (0, ""));
        assert!(done.out.contains("leasehold"), "{done:?}");
    }
}
