//! On a terminal: reading, the interrupt and stop keys, a shell's job control.

use nix::sys::signal::Signal;

use crate::screen::Terminal;
use crate::support::{LEASEHOLD, WorkDir, numbers, until};

fn shell(place: &WorkDir) -> Terminal {
    let mut terminal = Terminal::start(place, "bash", &["--norc", "--noprofile", "-i"]);
    terminal.expect("$ ");
    terminal
}

#[test]
fn the_command_reads_from_the_terminal() {
    let place = WorkDir::new();
    let script = "read line; echo got-$line; exit 3";
    let mut terminal = Terminal::start(&place, LEASEHOLD, &["run", "a", "--", "sh", "-c", script]);
    terminal.send("hello\n");
    terminal.expect("got-hello");
    assert_eq!(terminal.end(), 3);
}

#[test]
fn the_interrupt_key_reaches_the_command() {
    let place = WorkDir::new();
    let script = "trap 'echo caught; exit 5' INT; echo up; while :; do sleep 0.01; done";
    let mut terminal = Terminal::start(&place, LEASEHOLD, &["run", "a", "--", "sh", "-c", script]);
    terminal.expect("up");
    terminal.send("\x03");
    terminal.expect("caught");
    assert_eq!(terminal.end(), 5);
}

#[test]
fn the_interrupt_key_ends_a_script_that_runs_leasehold_in_a_loop() {
    for before in ["", "echo | "] {
        let place = WorkDir::new();
        // With exec: dash seems to lose a signal between its vfork and the exec of a child.
        let line = "while :; do BEFORE $LEASEHOLD run a -- sh -c 'echo up; exec sleep 60'; done";
        let mut terminal =
            Terminal::start(&place, "bash", &["-c", &line.replace("BEFORE", before)]);
        terminal.expect("up");
        terminal.send("\x03");
        assert_eq!(terminal.end(), -1, "the script was ended by the signal, too");
    }
}

#[test]
fn colours_are_for_terminals_and_no_color_is_respected() {
    let place = WorkDir::new();
    let mut plain = Terminal::start(&place, "sh", &["-c", "NO_COLOR=1 $LEASEHOLD run a no-such"]);
    plain.expect("leasehold: cannot run");
    assert!(!plain.seen().contains('\x1b'));
    let mut coloured = Terminal::start(&place, LEASEHOLD, &["run", "a", "no-such"]);
    coloured.expect("cannot run");
    assert!(coloured.seen().contains("\x1b["), "{}", coloured.seen());
    assert!(!place.run(&["run", "a", "no-such"]).err.contains('\x1b'));
}

#[test]
fn stop_key_and_fg_work_as_without_leasehold() {
    let place = WorkDir::new();
    let mut terminal = shell(&place);
    terminal.send("$LEASEHOLD run a -- sh -c 'echo u\"\"p; read x; echo got-$x; exit 4'\n");
    terminal.expect("up\r\n");
    terminal.send("\x1a");
    terminal.expect("Stopped");
    terminal.expect("$ ");
    terminal.send("fg\n");
    terminal.expect("LEASEHOLD run a");
    terminal.send("hi\n");
    terminal.expect("got-hi");
    terminal.expect("$ ");
    terminal.send("echo code=$?\n");
    terminal.expect("code=4");
    terminal.send("exit\n");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn bg_lets_the_command_go_on_in_the_background() {
    let place = WorkDir::new();
    let mut terminal = shell(&place);
    let script = "echo u\"\"p; while [ ! -e go ]; do sleep 0.01; done; touch ready";
    terminal.send(&format!("$LEASEHOLD run a -- bash -c '{script}'\n"));
    terminal.expect("up\r\n");
    terminal.send("\x1a");
    terminal.expect("Stopped");
    terminal.send("bg\n");
    place.write("go", "");
    place.until_exists("ready");
    terminal.send("wait; echo al\"\"l\n");
    terminal.expect("all");
    terminal.send("exit\n");
    terminal.end();
}

#[test]
fn a_background_job_that_reads_stops_until_it_is_brought_to_the_front() {
    let place = WorkDir::new();
    let mut terminal = shell(&place);
    terminal.send("$LEASEHOLD run a -- sh -c 'read x; echo got-$x' &\n");
    terminal.expect("$ ");
    until("the shell sees it stopped", || {
        terminal.send("jobs\n");
        std::thread::sleep(std::time::Duration::from_millis(50));
        terminal.seen().contains("Stopped")
    });
    terminal.send("fg\n");
    terminal.send("front\n");
    terminal.expect("got-front");
    terminal.send("exit\n");
    terminal.end();
}

#[test]
fn the_stop_key_stops_a_waiter_and_fg_lets_it_wait_on() {
    let place = WorkDir::new();
    let script = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";
    let holder = place.start_ready(&["a"], script);
    let mut terminal = shell(&place);
    terminal.send("$LEASEHOLD run a -- echo mi\"\"ne\n");
    terminal.expect("waiting for a, held by");
    terminal.send("\x1a");
    terminal.expect("Stopped");
    terminal.send("fg\n");
    terminal.expect("waiting for a, held by");
    place.write("stop", "");
    assert_eq!(holder.end().code, 0);
    terminal.expect("mine");
    terminal.send("exit\n");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn in_a_pipeline_the_command_gets_the_terminal_when_it_asks_for_it() {
    let place = WorkDir::new();
    let mut terminal = shell(&place);
    terminal.send("$LEASEHOLD run a -- sh -c 'read x < /dev/tty; echo got-$x' | cat\n");
    terminal.send("piped\n");
    terminal.expect("got-piped");
    terminal.expect("$ ");
    terminal.send("exit\n");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_shell_reads_on_after_leasehold_was_killed() {
    let place = WorkDir::new();
    let line = "$LEASEHOLD run a -- sh -c 'echo $PPID > pids; touch ready; sleep 60'
        while kill -0 $(cat pids) 2> /dev/null; do sleep 0.01; done; read x; echo after-$x";
    let mut terminal = Terminal::start(&place, "sh", &["-c", line]);
    place.until_exists("ready");
    let supervisor = numbers(&place.read("pids"))[0];
    let leasehold = crate::support::stat(supervisor).unwrap().1;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(leasehold), Signal::SIGKILL).unwrap();
    until("the supervisor has gone", || !crate::support::runs(supervisor));
    terminal.send("typed\n");
    terminal.expect("after-typed");
    assert_eq!(terminal.end(), 0);
}
