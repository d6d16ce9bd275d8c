//! Standard streams that are closed, whose reader has gone, or whose terminal was hung up.

use std::fs::File;
use std::io::pipe;
use std::process::Stdio;

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

use crate::support::{LEASEHOLD, Running, WorkDir, until};

#[test]
fn closed_streams_do_not_change_the_exit_code() {
    let place = WorkDir::new();
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        for (command, code) in [("sh -c 'exit 5'", 5), ("no-such-command", 127)] {
            let line =
                format!("exec $LEASEHOLD --store {} run a -- {command} {closed}", place.store());
            let status = place.program("sh").args(["-c", &line]).stderr(Stdio::null()).status();
            assert_eq!(status.unwrap().code(), Some(code), "{line}");
        }
    }
    // The command finds them open on /dev/null.
    let line = "exec $LEASEHOLD --store $PLACE run a -- readlink /proc/self/fd/0 <&-";
    let mut command = place.program("sh");
    let output = command.args(["-c", line]).env("PLACE", place.store()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "/dev/null\n");
}

#[test]
fn messages_that_nobody_can_read_do_not_change_the_exit_code() {
    let place = WorkDir::new();
    for (arguments, code) in [
        (&["-v", "run", "a", "--", "sh", "-c", "exit 6"][..], 6),
        (&["run", "--max-hold", "300ms", "a", "--", "sleep", "60"], 76),
        (&["run", "a", "no-such-command"], 127),
    ] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut command = place.leasehold(arguments);
        let mut run = Running::from(command.stderr(writer).spawn().unwrap());
        assert_eq!(run.until_ended().code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn hangup_of_the_terminal_ends_a_command_unless_it_ignores_that() {
    for (trap, code) in [("", 129), ("trap '' HUP;", 4)] {
        let place = WorkDir::new();
        let script =
            format!("{trap} touch ready; while [ ! -e stop ]; do sleep 0.01; done; exit 4");
        // Not openpty: other processes of this test would inherit its descriptors.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).unwrap();
        grantpt(&master).and_then(|()| unlockpt(&master)).unwrap();
        let slave = ptsname_r(&master).unwrap();
        let end = || Stdio::from(File::options().read(true).write(true).open(&slave).unwrap());
        let mut command = place.program("setsid");
        command.args(["-c", LEASEHOLD, "--store", &place.store(), "run", "a", "--", "sh", "-c"]);
        let child = command.arg(&script).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let mut run = Running::from(child);
        drop(command);
        place.until_exists("ready");
        drop(master);
        if code == 4 {
            assert_eq!(place.run(&["run", "-n", "a", "true"]).code, 1, "the lock is held");
            place.write("stop", "");
        }
        assert_eq!(run.until_ended().code(), Some(code));
        until("the lock is free", || place.run(&["run", "-n", "a", "true"]).code == 0);
    }
}
