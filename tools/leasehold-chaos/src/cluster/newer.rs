//! What a newer program has written: put in the place of a record or a version for a while, and taken away again.
//! Clients of this version must leave it as it is.

use std::fs;
use std::io;
use std::path::Path;

use leasehold_test_servers::RedisServer;

use super::remains::MARKER;
use crate::client::NAME;

/// What the operator says if something else is there than what was put there.
pub(super) type Changed = Option<String>;

/// The version after it keeps the letter of the kind.
const VERSION: &str = "9, of a newer program";
/// Moves the value aside and puts one of a newer version in its place. KEYS: the record, its place aside. ARGV: the
/// kind of a record that is not there, the version.
const PUT: &str = "local was = redis.call('GET', KEYS[1]) \
    if was then redis.call('RENAME', KEYS[1], KEYS[2]) end \
    redis.call('SET', KEYS[1], (was and string.sub(was, 1, 1) or ARGV[1]) .. ARGV[2])";
/// Puts the value back, and returns what was there instead.
const BACK: &str = "local found = redis.call('GET', KEYS[1]) \
    if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('RENAME', KEYS[2], KEYS[1]) \
    else redis.call('DEL', KEYS[1]) end \
    return found";

/// Whether a value is one that was put in the place of another one.
pub(super) fn is_newer(text: &str) -> bool {
    text.get(1..) == Some(VERSION)
}

/// The key of the lock, or of a node's marker, and where its value is meanwhile.
fn keys(of_marker: bool) -> [String; 2] {
    match of_marker {
        true => [MARKER.to_owned(), "aside".to_owned()],
        false => [format!("leasehold:{{{NAME}}}"), format!("aside:{{{NAME}}}")],
    }
}

/// Puts a newer record of the lock at a server; of a node's marker, if it has one and `of_marker` is true.
pub(super) fn put_record(server: &RedisServer, of_marker: bool) -> io::Result<()> {
    let has_marker = server.admin(&["EXISTS", MARKER])?.integer() == Some(1);
    let of_marker = of_marker && has_marker;
    let [key, aside] = keys(of_marker);
    let kind = match (of_marker, has_marker) {
        (true, _) => "N",
        (false, true) => "Q",
        (false, false) => "L",
    };
    server.admin(&["EVAL", PUT, "2", &key, &aside, kind, VERSION]).map(drop)
}

/// Takes newer records away.
pub(super) fn put_record_back(server: &RedisServer) -> io::Result<Changed> {
    let mut changed = None;
    for of_marker in [false, true] {
        let [key, aside] = keys(of_marker);
        let has_aside = server.admin(&["EXISTS", &aside])?.integer() == Some(1);
        let found = server.admin(&["GET", &key])?.text();
        if has_aside || is_newer(&found) {
            let found = server.admin(&["EVAL", BACK, "2", &key, &aside])?.text();
            if !is_newer(&found) {
                changed = Some(format!("the newer record {key} is now {found:?}"));
            }
        }
    }
    Ok(changed)
}

/// The versions of tables, this far above the present one.
const AHEAD: u32 = 100;

/// Has the tables be of a newer version.
pub(super) fn put_version(run: impl Fn(&str) -> io::Result<String>) -> io::Result<()> {
    run(&format!("UPDATE leasehold_version SET version = version + {AHEAD}")).map(drop)
}

/// Has them be of the present version again.
pub(super) fn put_version_back(run: impl Fn(&str) -> io::Result<String>) -> io::Result<Changed> {
    let versions = run("SELECT count(*) FROM leasehold_version WHERE version > 100")?;
    let rows = run("SELECT count(*) FROM leasehold_version")?;
    run(&format!(
        "UPDATE leasehold_version SET version = version - {AHEAD} WHERE version > {AHEAD}"
    ))?;
    let is_same = versions == "1" && rows == "1";
    Ok((!is_same).then(|| format!("{versions} of {rows} versions of tables are the newer one")))
}

/// The file that names the version of a directory of lock files.
const FORMAT: &str = "format";
/// What a newer program writes there.
const NEWER_FORMAT: &str = "leasehold-file 9\n";

/// Has a directory of lock files be of a newer version; `aside` is another directory of the file system.
pub(super) fn put_format(root: &Path, aside: &Path) -> io::Result<()> {
    if !root.join(FORMAT).exists() {
        return Ok(());
    }
    fs::copy(root.join(FORMAT), aside.join("format-before"))?;
    fs::write(aside.join("format-newer"), NEWER_FORMAT)?;
    fs::rename(aside.join("format-newer"), root.join(FORMAT))
}

/// Has it be of the present version again.
pub(super) fn put_format_back(root: &Path, aside: &Path) -> io::Result<Changed> {
    let before = aside.join("format-before");
    if !before.exists() {
        return Ok(None);
    }
    let found = fs::read_to_string(root.join(FORMAT))?;
    fs::rename(before, root.join(FORMAT))?;
    Ok((found != NEWER_FORMAT).then(|| format!("the newer file {FORMAT} is now {found:?}")))
}
