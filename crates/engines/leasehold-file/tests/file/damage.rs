//! Directories and records that are foreign, newer, damaged, full or not writable.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use leasehold_core::backend::{Answer, Backend};
use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, State};
use leasehold_file::FileBackend;

use crate::helper::Helper;
use crate::kit::{Kit, attempt, inline, name, request, walk};

fn refused(dir: &Path) -> Error {
    FileBackend::open(dir, Clock::system()).unwrap_err()
}

#[test]
fn a_newer_or_damaged_format_is_refused_unchanged() {
    for (text, said) in [
        ("leasehold-file 2\n", "newer"),
        ("leasehold-file 18446744073709551615\n", "newer"),
        ("leasehold-file 0\n", "does not have the content"),
        ("leasehold-file 1", "does not have the content"),
        ("", "does not have the content"),
        ("garbage", "does not have the content"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("format"), text).unwrap();
        let error = refused(dir.path());
        assert_eq!(error.kind(), ErrorKind::Foreign, "{text:?}");
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(walk(dir.path()), ["format"]);
        assert_eq!(std::fs::read_to_string(dir.path().join("format")).unwrap(), text);
    }
}

#[test]
fn a_directory_of_something_else_is_refused_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thesis.txt"), "x").unwrap();
    let error = refused(dir.path());
    assert_eq!(error.kind(), ErrorKind::Foreign);
    assert!(error.to_string().contains("thesis.txt"), "{error}");
    assert_eq!(walk(dir.path()), ["thesis.txt"]);
    let error = refused(&dir.path().join("thesis.txt"));
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("choose another directory"), "{error}");
}

#[test]
fn a_leftover_of_a_crashed_start_does_not_make_the_directory_foreign() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(".leasehold-format-1-0.tmp"), "lease").unwrap();
    FileBackend::open(dir.path(), Clock::system()).unwrap();
}

#[test]
fn a_new_store_is_for_its_user_alone_and_opening_leaves_no_junk() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("deep/store");
    FileBackend::open(&store, Clock::system()).unwrap();
    for path in ["deep", "deep/store", "deep/store/locks"] {
        let mode = std::fs::metadata(dir.path().join(path)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700, "{path}");
    }
    assert_eq!(walk(&store), ["format"]);
}

#[tokio::test]
async fn a_newer_damaged_or_swapped_record_is_refused_unchanged_and_the_lock_not_held() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path());
    let (attempt, token) = kit.lock("other").await;
    kit.release("other", attempt, token).await;
    let other = std::fs::read_to_string(dir.path().join("locks/other.json")).unwrap();
    let newer = other.replace("\"version\":1", "\"version\":2");
    let exhausted = other.replace(&token.to_string(), "9007199254740991");
    let exhausted = exhausted.replace("\"name\":\"other\"", "\"name\":\"a\"");
    let record = dir.path().join("locks/a.json");
    for (text, said) in [
        (newer.as_str(), "newer"),
        ("{\"version\":7}", "newer"),
        ("{", "damaged"),
        ("", "damaged"),
        ("\0\0\0\0", "damaged"),
        ("{\"version\":1}", "damaged"),
        (other.as_str(), "another lock"),
        (exhausted.as_str(), "largest"),
        (&other.replace(&token.to_string(), "9007199254740992"), "range"),
    ] {
        std::fs::write(&record, text).unwrap();
        let error = kit.refused("a").await;
        assert_eq!(error.kind(), ErrorKind::Foreign, "{text}");
        if ["newer", "damaged"].contains(&said) {
            let found = FileBackend::diagnose(dir.path(), &Clock::system()).unwrap().findings;
            assert!(found.iter().any(|finding| finding.id == said), "{text}: {found:?}");
        }
        let shown = error.to_string();
        assert!(shown.contains(said) && shown.contains("a.json"), "{shown}");
        assert_eq!(std::fs::read_to_string(&record).unwrap(), text);
        let listed = kit.backend.list("a", 9).await.unwrap();
        assert_eq!(listed.len(), 1, "{text}");
        let is_readable = said == "largest";
        let shown = if is_readable { State::Free } else { State::Unknown };
        assert_eq!(listed[0].state, shown, "{text}");
        assert_eq!(crate::kit::descriptors(dir.path()), 0);
    }
    std::fs::remove_file(&record).unwrap();
    assert!(kit.try_lock("a").await.is_some());
}

/// A holder of a newer version may hold it otherwise than this version knows.
#[tokio::test]
async fn a_lock_that_a_newer_version_holds_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (holder, other) = (Kit::open(dir.path()), Kit::open(dir.path()));
    let (owner, token) = holder.lock("a").await;
    let record = dir.path().join("locks/a.json");
    let known = std::fs::read_to_string(&record).unwrap();
    let newer = known.replace("\"version\":1", "\"version\":7");
    std::fs::write(&record, &newer).unwrap();
    for waits in [false, true] {
        let error = other.ask("a", attempt(), waits).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains("newer"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&record).unwrap(), newer);
    assert_eq!(walk(dir.path()).iter().filter(|path| path.contains(".wait")).count(), 0);
    std::fs::write(&record, known).unwrap();
    holder.release("a", owner, token).await;
    assert!(other.try_lock("a").await.is_some());
}

#[test]
fn a_directory_that_cannot_be_written_says_so_with_path_and_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    FileBackend::open(&store, Clock::system()).unwrap();
    for path in [dir.path(), &store, &store.join("locks")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o555)).unwrap();
    }
    let unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let wrapper = if nix::unistd::geteuid().is_root() {
        let works = Command::new(unprivileged[0]).args(&unprivileged[1..]).arg("true").status();
        if !works.is_ok_and(|status| status.success()) {
            return eprintln!("SKIPPED: root writes everywhere; install setpriv (util-linux)");
        }
        &unprivileged[..]
    } else {
        &[]
    };
    for place in [store.clone(), dir.path().join("new")] {
        let role = ["open", place.to_str().unwrap()];
        let said = Helper::wrapped(wrapper, &role).next().expect("the helper can be run");
        assert!(said.starts_with("Refused: "), "{said}");
        assert!(said.contains(place.to_str().unwrap()) && said.contains("write access"), "{said}");
    }
    for path in [dir.path(), &store, &store.join("locks")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// A small file system; unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "leasehold-test"]).arg(dir.path());
        mount.output().is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_a_clear_error_that_keeps_the_old_record_and_holds_nothing() {
    let Some(small) = Small::mount() else {
        return eprintln!("SKIPPED: mounting a small tmpfs needs root");
    };
    let store = small.0.path().join("store");
    let kit = Kit::open(&store);
    let (attempt, token) = kit.lock("a").await;
    kit.release("a", attempt, token).await;
    let record = std::fs::read(store.join("locks/a.json")).unwrap();
    std::fs::write(small.0.path().join("filler"), [0; 1 << 16]).unwrap_err();

    let error = kit.refused("a").await;
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("disk is full"), "{error}");
    assert_eq!(std::fs::read(store.join("locks/a.json")).unwrap(), record);
    assert!(!store.join("locks/a.tmp").exists());
    assert!(!kit.is_held("a").await);
    assert_eq!(kit.status("a").await.token, Some(token));
    assert_eq!(refused(&store).kind(), ErrorKind::Refused);

    std::fs::remove_file(small.0.path().join("filler")).unwrap();
    let (attempt, next) = kit.lock("a").await;
    assert!(next > token);
    kit.release("a", attempt, next).await;
}

#[test]
fn what_stands_in_a_files_place_neither_leads_elsewhere_nor_makes_anybody_wait() {
    let dir = tempfile::tempdir().unwrap();
    let backend = FileBackend::open(&dir.path().join("store"), Clock::system()).unwrap();
    let locks = dir.path().join("store/locks");
    let (victim, pipe) = (dir.path().join("victim"), nix::sys::stat::Mode::S_IRWXU);
    std::fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, locks.join("a.tmp")).unwrap();
    std::os::unix::fs::symlink(&victim, locks.join("b.json")).unwrap();
    nix::unistd::mkfifo(&locks.join("c.json"), pipe).unwrap();
    std::fs::File::create(locks.join("d.json")).unwrap().set_len(1 << 40).unwrap();
    let acquired = |lock| inline(backend.acquire(request(lock, attempt(), false)));
    assert!(matches!(acquired("a"), Ok(Answer::Granted(_))));
    assert!(locks.join("a.json").symlink_metadata().unwrap().is_file());
    for lock in ["b", "c", "d"] {
        let error = acquired(lock).unwrap_err();
        assert!(error.to_string().contains(&format!("{lock}.json")), "{error}");
        assert!(inline(backend.status(&name(lock))).is_err());
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
}
