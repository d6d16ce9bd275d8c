//! `force-release`: what it says where it cannot, and where it need not.

use serde_json::Value;

use crate::support::{Done, LEASEHOLD, WorkDir};

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
