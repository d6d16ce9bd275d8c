//! `force-release`: what it says where it cannot, and where it need not.

use leasehold_test_servers::{Needs, RedisServer, RedisSettings};
use serde_json::Value;

use crate::support::{Done, LEASEHOLD, Running, WorkDir};

const HOLD: &str = "touch ready; while [ ! -e stop ]; do sleep 0.01; done";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn release(place: &WorkDir, token: u64, json: bool) -> Done {
    let token = token.to_string();
    let mut arguments = vec!["force-release", "a", "--token", &token];
    arguments.extend(json.then_some("--json"));
    place.run(&arguments)
}

#[test]
fn the_process_to_end_is_named_where_the_store_cannot() {
    let place = WorkDir::new();
    let holder = place.start_ready(&["a"], HOLD);
    let token = json(&place.run(&["status", "--json", "a"]).out)["token"].as_u64().unwrap();
    let done = release(&place, token, false);
    assert_eq!((done.code, done.out.as_str()), (125, ""), "{done:?}");
    assert!(done.err.contains(&format!("kill {}", holder.pid())), "{done:?}");
    let done = release(&place, token, true);
    let object = json(&done.out);
    assert_eq!((done.code, &object["result"]), (125, &"unsupported".into()), "{done:?}");
    assert_eq!(object["holder"]["pid"], holder.pid());
    assert_eq!(place.run(&["status", "a"]).code, 0, "nothing was changed");
}

#[test]
fn a_token_that_is_not_the_current_one_ends_nobody() {
    let place = WorkDir::new();
    place.run(&["run", "a", "true"]);
    let _holder = place.start_ready(&["a"], HOLD);
    let current = json(&place.run(&["status", "--json", "a"]).out)["token"].as_u64().unwrap();
    for (token, what) in [(current - 1, "has ended"), (current + 1, "was not granted yet")] {
        let done = release(&place, token, false);
        let text = format!("token {token} {what}; the current token is {current}");
        assert!(done.code == 1 && done.err.contains(&text), "{done:?}");
        assert!(!done.err.contains("kill"), "{done:?}");
        let done = release(&place, token, true);
        let object = json(&done.out);
        assert_eq!((done.code, &object["result"]), (1, &"other".into()), "{done:?}");
        assert_eq!((&object["token"], &object["current_token"]), (&token.into(), &current.into()));
    }
}

#[test]
fn a_lock_that_nobody_holds_is_1() {
    let place = WorkDir::new();
    place.run(&["run", "a", "true"]);
    let done = release(&place, 1, false);
    assert!(done.code == 1 && done.err.contains("a: no client holds it"), "{done:?}");
    let object = json(&release(&place, 1, true).out);
    assert_eq!((&object["result"], &object["token"]), (&"not-held".into(), &1.into()));

    let mut on_ttl_store = place.program(LEASEHOLD);
    on_ttl_store.env("__LEASEHOLD_TEST_MEMORY", "1").args(["--store", "memory:"]);
    on_ttl_store.args(["force-release", "a", "--token", "7"]);
    let done = Done::new(on_ttl_store.output().unwrap());
    assert!(done.code == 1 && done.err.contains("a: no client holds it"), "{done:?}");
}

#[test]
fn a_holder_of_another_library_is_not_said_to_be_gone() {
    if Needs::Redis.is_skipped() {
        return;
    }
    let (server, place) = (RedisServer::start(RedisSettings::new()).unwrap(), WorkDir::new());
    server.admin(&["SET", "a", "c0ffee00d9cb11f0a16570867728950e", "PX", "600000"]).unwrap();
    let url = format!("{}?wire=set-nx", server.url());
    let end = |more: &[&str]| {
        place.run(&[&["--store", &url, "force-release", "a", "--token", "7"], more].concat())
    };
    let done = end(&[]);
    assert!(done.code == 1 && done.err.contains("no client of Leasehold"), "{done:?}");
    assert!(done.err.contains("end its program"), "{done:?}");
    let done = end(&["--json"]);
    assert_eq!((done.code, &json(&done.out)["result"]), (1, &"foreign".into()), "{done:?}");
    let held = server.admin(&["EXISTS", "a"]).unwrap().text();
    assert_eq!(held.trim(), "1");
    server.admin(&["DEL", "a"]).unwrap();
    let done = end(&[]);
    assert!(done.code == 1 && done.err.contains("no client holds it"), "{done:?}");
}

#[test]
fn json_is_an_object_even_where_it_fails() {
    let place = WorkDir::new();
    let file = place.write("file", "");
    let mut command = place.program(LEASEHOLD);
    command.args(["--store", &format!("file:{}/x", file.display()), "force-release", "a"]);
    let done = Done::new(command.args(["--token", "1", "--json"]).output().unwrap());
    let object = json(&done.out);
    assert_eq!((done.code, &object["result"]), (69, &"error".into()), "{done:?}");
    assert!(object["message"].as_str().unwrap().contains("choose another directory"), "{object}");
}

#[test]
fn help_says_that_it_never_works_on_a_directory() {
    let help = WorkDir::new().run(&["force-release", "--help"]).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("never works on file: stores") && help.contains("the kernel"), "{help}");
}

/// Starts a run of `a` with these options; the file `owner-NAME` then has its attempt.
fn one_of_several(place: &WorkDir, options: &[&str], name: &str) -> (Running, String) {
    let script = format!(
        "echo $LEASEHOLD_OWNER > owner-{name}; touch ready-{name}; \
         while [ ! -e stop ]; do sleep 0.01; done"
    );
    let words = [&["run"], options, &["a", "--", "sh", "-c", &script]].concat();
    let running = place.start(&words);
    place.until_exists(&format!("ready-{name}"));
    (running, place.read(&format!("owner-{name}")).trim().to_owned())
}

#[test]
fn one_reader_or_permit_is_ended_and_the_others_go_on() {
    if Needs::Redis.is_skipped() {
        return;
    }
    for kind in [&["--shared"][..], &["--limit", "3"]] {
        let server = RedisServer::start(RedisSettings::new()).unwrap();
        let (place, url) = (WorkDir::new(), server.url());
        let options = [&["--store", &url], kind].concat();
        let (one, owner) = one_of_several(&place, &options, "one");
        let (two, _) = one_of_several(&place, &options, "two");
        let end = |attempt: &str, more: &[&str]| {
            let words = ["--store", &url, "force-release", "a", "--attempt", attempt];
            place.run(&[&words, more].concat())
        };
        let stranger = end(&"0123456789abcdef".repeat(2), &["--json"]);
        let object = json(&stranger.out);
        assert_eq!((stranger.code, &object["result"]), (1, &"not-held".into()), "{stranger:?}");
        let ended = end(&owner, &[]);
        assert!(ended.code == 0 && ended.err.contains(&owner), "{kind:?}: {ended:?}");
        let ended = end(&owner, &[]);
        assert!(ended.code == 1 && ended.err.contains("does not hold it"), "{kind:?}: {ended:?}");
        let lost = one.end();
        assert!(lost.code == 76 && lost.err.contains("lost"), "{kind:?}: {lost:?}");
        let shown = json(&place.run(&["--store", &url, "status", "a", "--json"]).out);
        let pids: Vec<_> = shown["holders"].as_array().unwrap().iter().map(|h| &h["pid"]).collect();
        assert_eq!(pids, [two.pid()], "{kind:?}: {shown}");
        place.write("stop", "");
        assert_eq!(two.end().code, 0, "{kind:?}");
    }
}

#[test]
fn on_a_directory_the_process_of_that_attempt_is_named() {
    for kind in [&["--shared"][..], &["--limit", "3"]] {
        let place = WorkDir::new();
        let (one, _) = one_of_several(&place, kind, "one");
        let (two, owner) = one_of_several(&place, kind, "two");
        let refused = place.run(&["force-release", "a", "--attempt", &owner]);
        assert_eq!(refused.code, 125, "{refused:?}");
        assert!(refused.err.contains(&format!("kill {}", two.pid())), "{refused:?}");
        let stranger = "0123456789abcdef".repeat(2);
        assert_eq!(place.run(&["force-release", "a", "--attempt", &stranger]).code, 1);
        place.write("stop", "");
        assert_eq!((one.end().code, two.end().code), (0, 0));
    }
    let place = WorkDir::new();
    for wrong in
        [&["--attempt", "x"][..], &["--attempt", "-"], &[], &["--token", "1", "--attempt", "x"]]
    {
        let refused = place.run(&[&["force-release", "a"], wrong].concat());
        assert_eq!(refused.code, 125, "{wrong:?}: {refused:?}");
    }
}
