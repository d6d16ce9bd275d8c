//! Signals to `leasehold` reach the command.

use nix::sys::signal::Signal;

use crate::support::{Running, WorkDir, numbers, stat, until};

#[test]
fn every_signal_is_passed_on_to_the_command() {
    let place = WorkDir::new();
    let names = ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ALRM", "WINCH", "VTALRM", "PWR"];
    let traps: String = names.map(|name| format!("trap 'echo {name} >> got' {name};")).concat();
    let script = format!("{traps} touch ready; while [ ! -e stop ]; do sleep 0.01; done; exit 5");
    let running = place.start_ready(&["a"], &script);
    for name in names {
        running.send(format!("SIG{name}").parse().unwrap());
        until(&format!("{name} arrives"), || place.read("got").lines().any(|line| line == name));
    }
    place.write("stop", "");
    assert_eq!(running.end().code, 5);
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let place = WorkDir::new();
    let script = "trap : USR1
        (trap 'echo x > inner; exit' USR1; touch ready; while :; do sleep 0.01; done) &
        until [ -s inner ]; do sleep 0.01; done; exit 6";
    let running = place.start_ready(&["a"], script);
    running.send(Signal::SIGUSR1);
    assert_eq!(running.end().code, 6);
    assert_eq!(place.read("inner"), "x\n");
}

#[test]
fn stop_and_continue_are_passed_on_and_leasehold_itself_goes_on() {
    let place = WorkDir::new();
    let script = "echo $$ > pid; touch ready; while [ ! -e stop ]; do sleep 0.01; done";
    let mut command = place.program("setsid"); // No terminal, on any machine.
    command.arg(crate::support::LEASEHOLD).args(["--store", &place.store(), "run", "a"]);
    // Not dash, which has moments in which it cannot be stopped (vfork).
    let running = Running::new(command.args(["--", "bash", "-c", script]));
    place.until_exists("ready");
    let pid = numbers(&place.read("pid"))[0];
    running.send(Signal::SIGTSTP);
    until("the command has stopped", || stat(pid).unwrap().0 == 'T');
    assert_ne!(stat(running.pid()).unwrap().0, 'T');
    running.send(Signal::SIGCONT);
    until("the command goes on", || stat(pid).unwrap().0 != 'T');
    place.write("stop", "");
    assert_eq!(running.end().code, 0);
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored() {
    let place = WorkDir::new();
    let script = "grep SigIgn /proc/self/status > ignored; touch ready
        while [ ! -e stop ]; do sleep 0.01; done; exit 8";
    let mut nohup = place.program("sh");
    nohup.arg("-c").arg(format!(
        "trap '' HUP; exec $LEASEHOLD --store {} run a -- sh -c '{script}'",
        place.store()
    ));
    let running = Running::new(&mut nohup);
    place.until_exists("ready");
    let mask = place.read("ignored").split_whitespace().last().unwrap().to_owned();
    assert_eq!(u64::from_str_radix(&mask, 16).unwrap() & 0xffff, 1, "HUP, and nothing else");
    running.send(Signal::SIGHUP);
    place.write("stop", "");
    assert_eq!(running.end().code, 8);
}

#[test]
fn the_command_has_the_mask_and_handlers_it_would_have_without_leasehold() {
    let place = WorkDir::new();
    let status = ["cat", "/proc/self/status"];
    let masks = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("Sig") && !line.contains("SigQ"));
        lines.map(str::to_owned).collect()
    };
    let plain = place.program(status[0]).arg(status[1]).output().unwrap();
    let plain = masks(&String::from_utf8(plain.stdout).unwrap());
    let under = place.run(&[&["run", "a", "--"][..], &status].concat());
    assert!(plain.len() >= 4, "{plain:?}");
    assert_eq!(masks(&under.out), plain);
}
