//! `cargo xtask old-client`: clients of an earlier revision beside this one, on every store.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::needs;
use crate::run::{cargo, open, root};

/// The last revision before there were read-write locks, semaphores and latches.
const REVISION: &str = "c26c1cc";
/// Where the table of what was seen belongs, between these two lines.
const PAGE: &str = "decisions/0039-old-clients.md";
const MARKS: [&str; 2] = ["<!-- old-client: begin -->\n", "<!-- old-client: end -->\n"];

/// Builds the command of that revision once, and runs the scenes; without a filter it writes the table.
pub(crate) fn old_client(args: &[String]) -> Result<bool, String> {
    needs::ensure()?;
    let place = root().join("target/old-client");
    let binary = place.join("target/debug/leasehold");
    if !binary.exists() {
        extract(&place.join("source"))?;
        build(&place)?;
    }
    let table = place.join("table.md");
    let _ = fs::remove_file(&table);
    let played = open(
        cargo(["test", "-p", "leasehold-conformance", "--all-features", "--test", "old_client"])
            .arg("--")
            .args(args)
            .env("LEASEHOLD_OLD_CLIENT", &binary)
            .env("LEASEHOLD_OLD_TABLE", &table)
            .env("LEASEHOLD_REQUIRE", needs::required()),
    )?;
    if table.exists() {
        write(&root().join(PAGE), &table)?;
    }
    Ok(played)
}

/// Extracts the sources of the revision.
fn extract(source: &Path) -> Result<(), String> {
    let failed = |error| format!("cannot extract {REVISION} to {}: {error}", source.display());
    let _ = fs::remove_dir_all(source);
    fs::create_dir_all(source).map_err(failed)?;
    let mut archive = Command::new("git");
    archive.current_dir(root()).args(["archive", REVISION]).stdout(Stdio::piped());
    let mut archive = archive.spawn().map_err(failed)?;
    let mut tar = Command::new("tar");
    tar.arg("-x").current_dir(source);
    if let Some(output) = archive.stdout.take() {
        tar.stdin(output);
    }
    let extracted = tar.status().map_err(failed)?.success();
    match archive.wait().map_err(failed)?.success() && extracted {
        true => Ok(()),
        false => Err(format!(
            "cannot extract {REVISION}: a shallow clone does not have it; run `git fetch --unshallow`"
        )),
    }
}

/// Builds its command, in a target directory of its own.
fn build(place: &Path) -> Result<(), String> {
    println!("building the command of {REVISION}, once");
    let mut command = cargo(["build", "--locked", "-p", "leasehold-cli"]);
    command
        .args(["--no-default-features", "--features", "etcd"])
        .current_dir(place.join("source"))
        .env("CARGO_TARGET_DIR", place.join("target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    match open(&mut command)? {
        true => Ok(()),
        false => Err(format!(
            "the command of {REVISION} cannot be built; it needs protoc: \
             apt-get install protobuf-compiler libprotobuf-dev"
        )),
    }
}

/// Puts the table into its page.
fn write(page: &Path, table: &Path) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", page.display());
    let (text, table) = (fs::read_to_string(page), fs::read_to_string(table));
    let (text, table) = (text.map_err(failed)?, table.map_err(failed)?);
    let missing = || format!("{}: has no line {:?}", page.display(), MARKS[0].trim());
    let (before, rest) = text.split_once(MARKS[0]).ok_or_else(missing)?;
    let (_, after) = rest.split_once(MARKS[1]).ok_or_else(missing)?;
    let text = [before, MARKS[0], "\n", &table, "\n", MARKS[1], after].concat();
    fs::write(page, text).map_err(failed)
}
