//! Stores that cannot be used, and what is said about them; whose the default directory is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::unistd::{User, geteuid};

use crate::support::{Done, LEASEHOLD, WorkDir};

/// A user that owns nothing, and that no user database knows.
const STRANGER: u32 = 54_321;

#[test]
fn the_memory_of_one_process_is_refused() {
    let all: [&[&str]; 5] = [
        &["run", "a", "touch", "ran"],
        &["list"],
        &["status", "a"],
        &["watch", "a"],
        &["force-release", "a", "--token", "1"],
    ];
    for (arguments, url) in all.into_iter().zip(["memory:", "memory:x", "MEMORY:"].iter().cycle()) {
        let place = WorkDir::new();
        let mut command = place.program(LEASEHOLD);
        let done = Done::new(command.args(["--store", url]).args(arguments).output().unwrap());
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains("no other process sees its locks"), "{done:?}");
        assert!(done.err.contains("--store file:/var/lib/leasehold"), "the way out: {done:?}");
        assert!(!place.path("ran").exists());
    }
}

#[test]
fn a_relative_directory_is_refused_with_the_absolute_one() {
    let place = WorkDir::new();
    let here = fs::canonicalize(place.path("")).unwrap();
    let absolute = format!("write file:{}/locks", here.display());
    place.write("config/leasehold/config.toml", "store = \"file:locks\"");
    for (option, variable, instead) in [
        (None, None, &absolute),
        (Some("file:locks"), None, &absolute),
        (None, Some("file:locks"), &absolute),
        (Some("file:~/locks"), None, &"write file:/my/locks".to_owned()),
    ] {
        let mut command = place.program(LEASEHOLD);
        command.env("HOME", "/my");
        option.map(|url| command.args(["--store", url]));
        variable.map(|url| command.env("LEASEHOLD_STORE", url));
        let done = Done::new(command.args(["run", "a", "touch", "ran"]).output().unwrap());
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains(instead), "{done:?}");
        assert!(!place.path("ran").exists() && !place.path("locks").exists());
    }
}

#[test]
fn a_lock_whose_record_cannot_be_read_is_no_free_lock() {
    let place = WorkDir::new();
    let url = format!("file:{}", fs::canonicalize(place.path("")).unwrap().join("s").display());
    let leasehold = |arguments: &[&str]| {
        let mut command = place.program(LEASEHOLD);
        Done::new(command.args(["--store", &url]).args(arguments).output().unwrap())
    };
    assert_eq!(leasehold(&["run", "job", "true"]).code, 0);
    fs::write(place.path("s/locks/job.json"), "{ damaged").unwrap();
    for arguments in [&["list"][..], &["list", "--held"]] {
        let done = leasehold(arguments);
        assert!(done.out.contains("job   unknown"), "{done:?}");
    }
    let done = leasehold(&["list", "--json"]);
    assert!(done.out.contains("\"state\":\"unknown\""), "{done:?}");
    assert!(done.out.contains("is damaged"), "the reason: {done:?}");
}

#[test]
fn a_path_without_a_scheme_is_refused_with_the_url_to_write() {
    let place = WorkDir::new();
    let here = fs::canonicalize(place.path("")).unwrap();
    let here = here.to_str().unwrap();
    for call in [&["run", "a", "touch", "ran"][..], &["list"]] {
        for (store, parts) in [
            ("/tmp/locks", ["no scheme", "write file:/tmp/locks\n"]),
            ("/tmp/100%", ["no scheme", "write file:/tmp/100%25"]),
            ("locks", ["depend on the working directory", &format!("write file:{here}/locks")]),
            ("./a/b", ["depend on the working directory", &format!("write file:{here}/a/b")]),
            ("~/locks", ["`~` is not expanded", "write file:/my/locks"]),
        ] {
            let mut command = place.program(LEASEHOLD);
            command.env("HOME", "/my").args(["--store", store]).args(call);
            let done = Done::new(command.output().unwrap());
            assert_eq!(done.code, 125, "{done:?}");
            assert!(parts.iter().all(|part| done.err.contains(part)), "{store}: {done:?}");
            assert!(!place.path("ran").exists() && !place.path("locks").exists());
        }
    }
    for secret in ["//u:s3cret@host", "/u:s3cret@host", ":s3cret@host", "s3cret?a=b", "a s3cret"] {
        let done = place.run(&["list", "--store", secret]);
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains("scheme is missing") && !done.err.contains("s3cret"), "{done:?}");
    }
}

/// `leasehold` as a user that owns nothing; `None` where we may not become one.
fn as_stranger(place: &WorkDir) -> Option<Command> {
    if !geteuid().is_root() {
        return None;
    }
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.path(""), open).unwrap();
    // Where the tests were built, a stranger may not look. Not copied by this process: what another
    // thread starts meanwhile would have the file open, and no process could run it.
    let copied = Command::new("cp").arg(LEASEHOLD).arg(place.path("leasehold")).status().unwrap();
    assert!(copied.success());
    let mut command = place.program(place.path("leasehold").to_str().unwrap());
    command.uid(STRANGER).gid(STRANGER).env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME");
    Some(command)
}

#[test]
fn a_directory_of_somebody_else_is_explained() {
    let place = WorkDir::new();
    assert_eq!(place.run(&["run", "a", "true"]).code, 0);
    let Some(mut command) = as_stranger(&place) else { return };
    command.env("HOME", "/").args(["--store", &place.store(), "run", "a", "true"]);
    let done = Done::new(command.output().unwrap());
    assert_eq!(done.code, 69, "{done:?}");
    let owner = User::from_uid(geteuid()).unwrap().unwrap().name;
    for part in ["must belong to one user (mode 0700)", &format!("belongs to {owner}"), "choose"] {
        assert!(done.err.contains(part), "{part}: {done:?}");
    }
    assert!(!done.err.contains("credentials"), "{done:?}");
}

#[test]
fn a_directory_that_only_somebody_else_can_make_is_explained() {
    let place = WorkDir::new();
    let Some(mut command) = as_stranger(&place) else { return };
    command.env("HOME", "/");
    let store = format!("file:{}", place.path("not/there").display());
    let done = Done::new(command.args(["--store", &store, "list"]).output().unwrap());
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("sudo install -d -m 700 -o 54321"), "{done:?}");
}

#[test]
fn a_user_whom_the_database_does_not_know_has_the_home_of_the_variable() {
    let place = WorkDir::new();
    let Some(mut command) = as_stranger(&place) else { return };
    let home = place.path("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(STRANGER), None).unwrap();
    command.env("HOME", &home).args(["run", "a", "true"]);
    let done = Done::new(command.output().unwrap());
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert!(home.join(".local/state/leasehold/locks").is_dir());

    let done = Done::new(command.env("HOME", "home").output().unwrap());
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.err.contains("no home directory") && done.err.contains("--store"), "{done:?}");
}

#[cfg(not(feature = "etcd"))]
#[test]
fn an_engine_that_was_not_built_in_names_its_feature() {
    let place = WorkDir::new();
    for url in ["etcd://host", "etcds://host"] {
        let done = place.run(&["run", "--store", url, "a", "--", "touch", "ran"]);
        assert_eq!(done.code, 125, "{done:?}");
        assert!(done.err.contains("needs the feature \"etcd\""), "{done:?}");
        assert!(!place.path("ran").exists());
    }
}

#[test]
fn a_store_that_does_not_answer_is_named_and_its_password_is_not() {
    let place = WorkDir::new();
    for (url, shown) in [
        ("redis://u:s3cret@127.0.0.1:1", "redis://…@127.0.0.1:1"),
        ("postgres://u:s3cret@127.0.0.1:1/app", "postgres://…@127.0.0.1:1/app"),
        ("mysql://u:s3cret@127.0.0.1:1/app", "mysql://…@127.0.0.1:1/app"),
        ("redlock://u:s3cret@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "redlock://…@127.0.0.1:1"),
        ("redis+sentinel://u:s3cret@127.0.0.1:1/main", "redis+sentinel://…@127.0.0.1:1/main"),
        ("zookeeper://127.0.0.1:1/locks", "zookeeper://127.0.0.1:1/locks"),
        #[cfg(feature = "etcd")]
        ("etcd://u:s3cret@127.0.0.1:1", "etcd://…@127.0.0.1:1"),
        ("sqlite:/no/such/directory/locks.db", "sqlite:/no/such/directory/locks.db"),
    ] {
        for call in [&["run", "-v", "a", "true"][..], &["status", "--json", "a"], &["list", "-v"]] {
            let done = place.run(&[&["--store", url], call].concat());
            assert_eq!(done.code, 69, "{done:?}");
            assert!(done.err.contains(shown), "{shown}: {done:?}");
            assert!(!format!("{done:?}").contains("s3cret"), "{done:?}");
        }
    }
}
