//! Checks SQLite: the file and its directory, the file system, the journal.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use leasehold_core::doctor::Diagnosis;
use leasehold_core::{ErrorKind, Result, filesystem};
use nix::sys::statfs::statfs;
use nix::unistd::{AccessFlags, access};
use sqlx::sqlite::SqliteConnectOptions;

use super::probe::Probe;
use super::{records, tables};
use crate::address::{Address, Target};
use crate::connection::Value;

/// Checks the file, which need not exist yet and is not created.
pub(super) async fn diagnose(
    address: &Address,
    options: &SqliteConnectOptions,
) -> Result<Diagnosis> {
    let mut diagnosis = Diagnosis::at(&address.place);
    let file = options.get_filename();
    let directory = match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    if !directory.is_dir() {
        diagnosis.problem(
            "no-directory",
            format!("the directory {} does not exist", directory.display()),
            "SQLite creates the file, but not its directory",
            "create the directory, or choose another path",
        );
        return Ok(diagnosis);
    }
    look_at_directory(&mut diagnosis, directory);
    if !file.exists() {
        diagnosis.note(
            "absent",
            "the file does not exist yet",
            "the first client creates it; until then there is little to check",
            "",
        );
        return Ok(diagnosis);
    }
    look_at_file(&mut diagnosis, file);
    let target = Target::Sqlite(Box::new(options.clone().create_if_missing(false)));
    match Probe::reach(&target, address).await {
        Ok(mut probe) => {
            look_at_journal(&mut probe).await;
            tables::look(&mut probe, address).await;
            records::look(&mut probe, address).await;
            diagnosis.join(probe.diagnosis);
        }
        Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
        Err(error) => diagnosis.refused(&error),
    }
    Ok(diagnosis)
}

fn look_at_directory(diagnosis: &mut Diagnosis, directory: &Path) {
    match statfs(directory) {
        Ok(found) => {
            // The type is signed on some systems; only its 32 bits count.
            if let Some(kind) = filesystem::refused(found.filesystem_type().0 as u32) {
                diagnosis.problem(
                    "network-file-system",
                    format!("it is on a file system of type {kind}"),
                    "SQLite's locks do not work there: two processes write at once, and damage the file",
                    "choose a file on a local disk, or a server as store",
                );
            }
            let bytes = found.blocks_available().saturating_mul(found.block_size() as u64);
            // File systems that create inodes on demand report none at all.
            diagnosis.room(bytes, (found.files() > 0).then(|| found.files_free()));
        }
        Err(error) => diagnosis.unseen("the type of the file system", error.to_string()),
    }
    if let Err(error) = access(directory, AccessFlags::W_OK | AccessFlags::X_OK) {
        diagnosis.problem(
            "not-writable",
            format!("this user may not write in {}: {}", directory.display(), error.desc()),
            "SQLite creates its journal next to the file for every change",
            "give this user write access to the directory",
        );
    }
}

fn look_at_file(diagnosis: &mut Diagnosis, file: &Path) {
    if access(file, AccessFlags::R_OK | AccessFlags::W_OK).is_err() {
        diagnosis.problem(
            "not-writable",
            "this user may not read and write the file",
            "a lock is a row in this file",
            "give this user read and write access to the file",
        );
    }
    match fs::metadata(file) {
        Ok(meta) if meta.mode() & 0o007 != 0 => diagnosis.warning(
            "mode",
            format!("all users have rights on it (mode {:04o})", meta.mode() & 0o7777),
            "a user that can write it can end leases; a user that can read it sees all holders",
            format!("chmod o-rwx {}", file.display()),
        ),
        Ok(_) => {}
        Err(error) => diagnosis.unseen("the file's mode", error.to_string()),
    }
}

async fn look_at_journal(probe: &mut Probe) {
    let asked = probe.run("PRAGMA journal_mode").await;
    let mode = match asked {
        Ok(replies) => replies.into_iter().find_map(|reply| reply.rows.into_iter().next()),
        Err(fault) => return probe.diagnosis.unseen("the journal mode", fault.error.message()),
    };
    let Some(Value::Bytes(mode)) = mode.and_then(|row| row.into_iter().next()) else { return };
    let mode = String::from_utf8_lossy(&mode).to_lowercase();
    match mode.as_str() {
        "off" | "memory" => probe.diagnosis.problem(
            "journal",
            format!("the journal mode is {mode}"),
            "a process that is killed during a write damages the file, and all locks in it",
            "PRAGMA journal_mode = WAL",
        ),
        "delete" | "truncate" | "persist" => probe.diagnosis.note(
            "journal",
            format!("the journal mode is {mode}"),
            "each commit waits for the disk several times, and readers and writers wait for each other",
            "PRAGMA journal_mode = WAL, once, while no process uses the file",
        ),
        _ => {}
    }
}
