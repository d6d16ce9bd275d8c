//! Checks for what can harm locks in a directory, without changing anything in it.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use leasehold_core::backend::is_a_newer_latch;
use leasehold_core::clock::Clock;
use leasehold_core::doctor::{Diagnosis, few};
use leasehold_core::{ErrorKind, Result, filesystem};
use nix::sys::statfs::{Statfs, statfs};
use nix::unistd::{AccessFlags, access, geteuid};

use super::directory::Directory;
use super::escape::unescape;
use super::lock_file::{is_absent, look};
use super::stored_record::StoredRecord;

/// A record that is this far ahead of the clock was written before the clock was set back, in
/// milliseconds.
const AHEAD_MS: u64 = 1000;

/// Checks the directory at this path, which need not exist.
///
/// # Errors
/// None at the moment: the result lists what could not be checked.
pub(crate) fn diagnose(root: &Path, clock: &Clock) -> Result<Diagnosis> {
    let mut diagnosis = Diagnosis::at(format!("file:{}", root.display()));
    let there = root.ancestors().find(|path| path.exists()).unwrap_or(root);
    match statfs(there) {
        Ok(found) => look_at_file_system(&mut diagnosis, &found),
        Err(error) => diagnosis.unseen("the type of the file system", error.to_string()),
    }
    if there == root {
        look_at_directory(&mut diagnosis, root, clock);
    } else {
        let what = "the directory does not exist";
        match access(there, AccessFlags::W_OK | AccessFlags::X_OK) {
            Ok(()) => diagnosis.note(
                "absent",
                what,
                "the first client creates it, with mode 0700; until then there is little to check",
                "",
            ),
            Err(error) => diagnosis.problem(
                "absent",
                what,
                format!("and this user may not create it in {}: {}", there.display(), error.desc()),
                "create it with mode 0700 and this user as owner, or choose another directory",
            ),
        }
    }
    Ok(diagnosis)
}

/// Adds what is to be said of the file system.
pub(super) fn look_at_file_system(diagnosis: &mut Diagnosis, found: &Statfs) {
    // The type is signed on some systems; compare its 32 bits.
    let f_type = found.filesystem_type().0 as u32;
    if let Some(kind) = filesystem::refused(f_type) {
        diagnosis.problem(
            "network-file-system",
            format!("the directory is on a file system of type {kind}"),
            "this machine does not decide alone about locks there: another machine's crash or cache \
             may, so that clients refuse it",
            "choose a directory on a local disk, or a server as store",
        );
    }
    if filesystem::forgets(f_type) {
        diagnosis.note(
            "forgets",
            "the directory is in memory (tmpfs)",
            "a restart of the machine deletes the tokens; then only the wall clock keeps later \
             tokens above those that were given",
            "choose a directory on a disk where the clock may go back over a restart",
        );
    }
    let bytes = found.blocks_available().saturating_mul(found.block_size() as u64);
    // File systems that create inodes on demand report none.
    diagnosis.room(bytes, (found.files() > 0).then(|| found.files_free()));
}

fn look_at_directory(diagnosis: &mut Diagnosis, root: &Path, clock: &Clock) {
    let meta = match fs::metadata(root) {
        Ok(meta) => meta,
        Err(error) => return diagnosis.unseen("owner and mode", error.to_string()),
    };
    if !meta.is_dir() {
        return diagnosis.problem(
            "no-directory",
            "the path is not a directory",
            "locks are files in a directory",
            "choose another path",
        );
    }
    match Directory::seen(root) {
        Ok(directory) => {
            look_at_owner(diagnosis, root, &meta);
            look_at_content(diagnosis, root, &directory, clock);
        }
        Err(error) if error.kind() == ErrorKind::Foreign => diagnosis.problem(
            "foreign",
            error.message(),
            "clients refuse it, because it may belong to another program",
            "choose an empty or a new directory",
        ),
        Err(error) => diagnosis.refused(&error),
    }
}

fn look_at_owner(diagnosis: &mut Diagnosis, root: &Path, meta: &Metadata) {
    let (owner, ours) = (meta.uid(), geteuid().as_raw());
    if owner != ours {
        diagnosis.warning(
            "owner",
            format!("the directory belongs to user {owner}, and this process runs as user {ours}"),
            "files that one user creates there cannot be opened by the other (mode 0600), so that one of them \
             is refused in the middle of its work",
            "give each user its own directory, or share a server",
        );
    }
    if meta.mode() & 0o077 != 0 {
        diagnosis.warning(
            "mode",
            format!("other users than its owner have access to it (mode {:04o})", meta.mode() & 0o7777),
            "a user who can remove a lock's file can end its lease, and one who can read sees all holders",
            format!("chmod 700 {}", root.display()),
        );
    }
    if let Err(error) = access(root, AccessFlags::W_OK | AccessFlags::X_OK) {
        diagnosis.problem(
            "not-writable",
            format!("this user may not write in the directory: {}", error.desc()),
            "a holder must write the lock's file",
            "give this user write access, or choose another directory",
        );
    }
}

fn look_at_content(diagnosis: &mut Diagnosis, root: &Path, directory: &Directory, clock: &Clock) {
    if let Err(error) = look(&root.join("format")) {
        diagnosis.problem(
            "no-locks",
            format!("the kernel's locks cannot be used there: {error}"),
            "each lock needs the kernel's lock on a file",
            "choose a directory on another file system",
        );
    }
    match strange_files(root) {
        Ok(strange) if strange.is_empty() => {}
        Ok(strange) => diagnosis.warning(
            "strange-files",
            format!("there are files that do not belong to a lock: {}", few(&strange)),
            "a program that writes there may also remove the files of a lock, and with them its token",
            "move them away, and find out which program created them",
        ),
        Err(error) => diagnosis.unseen("the files in it", error.to_string()),
    }
    look_at_records(diagnosis, directory, clock);
}

fn look_at_records(diagnosis: &mut Diagnosis, directory: &Directory, clock: &Clock) {
    let stems = match directory.stems() {
        Ok(stems) => stems,
        Err(error) => return diagnosis.unseen("the records of locks", error.message()),
    };
    let now = clock.now();
    let (mut ahead, mut damaged, mut newer) = (Vec::new(), Vec::new(), Vec::new());
    for stem in stems {
        match StoredRecord::read_any(&directory.record_of(&stem)) {
            Ok(Some(StoredRecord::Lock(record))) => {
                let token_ms = record.token().map_or(0, |token| token.get() / 1000);
                let newest = record.since_unix_ms().max(token_ms);
                if newest > now.unix_ms() + AHEAD_MS {
                    ahead.push(record.name().to_owned());
                }
            }
            Ok(Some(StoredRecord::Latch(record)))
                if record.value(now).is_some_and(is_a_newer_latch) =>
            {
                newer.push(record.name);
            }
            Ok(_) => {}
            Err(_) => {
                let found = match StoredRecord::is_of_newer_version(&directory.record_of(&stem)) {
                    true => &mut newer,
                    false => &mut damaged,
                };
                found.push(unescape(&stem).map_or(stem, |name| name.as_str().to_owned()));
            }
        }
    }
    if !ahead.is_empty() {
        diagnosis.warning(
            "clock",
            format!("records are ahead of this machine's clock, those of {}", few(&ahead)),
            "the clock was set back since; the files keep the tokens in order, but once they are \
             removed a token could come twice",
            "set the clock (NTP), and keep these files until it has passed them",
        );
    }
    diagnosis.unreadable(&damaged, &newer);
}

/// Returns the names in the directory, and among the locks, that this backend did not create.
fn strange_files(root: &Path) -> std::io::Result<Vec<String>> {
    let mut strange = Vec::new();
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let draft = name.starts_with(".leasehold-") && name.ends_with(".tmp");
        if !draft && name != "format" && name != "locks" {
            strange.push(name);
        }
    }
    let locks = match fs::read_dir(root.join("locks")) {
        Err(error) if is_absent(&error) => return Ok(strange),
        locks => locks?,
    };
    for entry in locks {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let stem = name
            .rsplit_once('.')
            .filter(|(_, end)| ["lock", "json", "tmp", "wait", "readers", "slots"].contains(end));
        if !stem.is_some_and(|(stem, _)| stem.contains('~') || unescape(stem).is_some()) {
            strange.push(format!("locks/{name}"));
        }
    }
    strange.sort();
    Ok(strange)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use leasehold_core::clock::ManualClock;

    use super::super::record::Record;
    use super::*;

    fn ids(root: &Path, clock: &Clock) -> Vec<&'static str> {
        let diagnosis = diagnose(root, clock).unwrap();
        assert!(diagnosis.unseen.is_empty(), "{diagnosis:?}");
        let found = diagnosis.findings.iter().map(|finding| finding.id);
        // These depend on the machine that runs the test.
        found.filter(|id| !["forgets", "room"].contains(id)).collect()
    }

    fn made() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        Directory::open(&root).unwrap();
        (dir, root)
    }

    #[test]
    fn a_sound_directory_has_nothing_to_be_said_of_and_stays_as_it_is() {
        let (dir, root) = made();
        let clock = Clock::system();
        let before = fs::metadata(&root).unwrap().modified().unwrap();
        assert!(ids(&root, &clock).is_empty());
        assert_eq!(fs::metadata(&root).unwrap().modified().unwrap(), before);
        let absent = dir.path().join("not/there");
        assert_eq!(ids(&absent, &clock), ["absent"]);
        assert!(!absent.exists());
    }

    #[test]
    fn what_is_wrong_with_a_directory_is_found() {
        let (_dir, root) = made();
        let clock = Clock::system();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("locks/notes.txt"), "").unwrap();
        fs::write(root.join("locks/a.json"), "{").unwrap();
        assert_eq!(ids(&root, &clock), ["mode", "strange-files", "damaged"]);
        fs::write(root.join("format"), "leasehold-file 9\n").unwrap();
        assert_eq!(ids(&root, &clock), ["foreign"]);
        let (_dir, root) = made();
        let file = root.join("a-file");
        fs::write(&file, "").unwrap();
        assert!(ids(&file, &clock).contains(&"no-directory"));
    }

    #[test]
    fn records_ahead_of_the_clock_tell_that_it_went_back() {
        use leasehold_core::{AttemptId, ClientId, Holder, Name, Token};

        let (_dir, root) = made();
        let hand = ManualClock::new();
        let now = hand.clock().now();
        let name = Name::new("a").unwrap();
        let attempt = AttemptId::new(ClientId::from_bits(1), 2, 3);
        let holder = Holder::new(attempt, "here".into(), 7, None);
        let record = Record::new(&name, Token::new(5).unwrap(), &holder, None, now);
        record.write(&Directory::seen(&root).unwrap().files(&name)).unwrap();
        assert!(ids(&root, &hand.clock()).is_empty());
        hand.step_wall(-60);
        assert_eq!(ids(&root, &hand.clock()), ["clock"]);
    }
}
