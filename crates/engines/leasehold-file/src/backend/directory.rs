//! The directory of a store: creates it, checks its format, and checks that it can be written.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_core::{Error, ErrorKind, Name, Result, filesystem};
use serde::Serialize;

use super::escape::escape;
use super::lock_file::{LockFile, NO_TRICKS, is_absent};
use super::os_error::{failed, foreign};

/// The version of the file layout; the record has its own version.
const VERSION: u64 = 1;

/// The directory of the records of `wire=flock`. It tells clients without the option that they would not exclude those
/// with it.
pub(crate) const FLOCK_RECORDS: &str = ".leasehold-flock";

/// A size that no file of this backend can reach, in bytes.
const LARGEST: u64 = 1 << 20;

/// A store's directory, by absolute path.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    locks: PathBuf,
}

/// The files of one lock.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) lock: PathBuf,
    pub(crate) record: PathBuf,
    pub(crate) draft: PathBuf,
    pub(crate) queue: PathBuf,
    pub(crate) readers: PathBuf,
    /// Of a semaphore: its slots are the bytes of this file.
    pub(crate) slots: PathBuf,
}

impl Directory {
    /// Opens the directory, and creates it with its parents (mode 0700) if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let root = std::path::absolute(path)
            .map_err(|error| failed("resolve the path", path, error).during("connect", None))?;
        let directory = Self { locks: root.join("locks"), root };
        directory
            .prepare()
            .and_then(|()| directory.prove())
            .map_err(|e| e.during("connect", None))?;
        Ok(directory)
    }

    /// Returns the directory without creating anything in it.
    pub(crate) fn seen(root: &Path) -> Result<Self> {
        let directory = Self { locks: root.join("locks"), root: root.to_owned() };
        if !directory.has_format()? {
            directory.refuse_strangers()?;
        }
        Ok(directory)
    }

    /// Returns the path of the store.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the files of a lock.
    pub(crate) fn files(&self, name: &Name) -> Files {
        let stem = escape(name);
        let file = |suffix| self.locks.join(format!("{stem}.{suffix}"));
        let (lock, record, draft) = (file("lock"), file("json"), file("tmp"));
        let (queue, readers, slots) = (file("wait"), file("readers"), file("slots"));
        Files { lock, record, draft, queue, readers, slots }
    }

    /// Returns the path of the record with this stem.
    pub(crate) fn record_of(&self, stem: &str) -> PathBuf {
        self.locks.join(format!("{stem}.json"))
    }

    /// Returns the stems of all locks that have files here, without duplicates.
    pub(crate) fn stems(&self) -> Result<std::collections::BTreeSet<String>> {
        let reading = |error| failed("read the directory", &self.locks, error);
        let entries = match fs::read_dir(&self.locks) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Default::default()),
            Err(error) => return Err(reading(error)),
        };
        let mut stems = std::collections::BTreeSet::new();
        for entry in entries {
            let file = entry.map_err(reading)?.file_name();
            let Some(file) = file.to_str() else { continue };
            if let Some(stem) = file.strip_suffix(".lock").or(file.strip_suffix(".json")) {
                stems.insert(stem.to_owned());
            }
        }
        Ok(stems)
    }

    /// Creates what is missing. Call it again if the directory was removed.
    pub(crate) fn prepare(&self) -> Result<()> {
        refuse_network(&self.root)?;
        make(&self.root)?;
        if !self.has_format()? {
            self.refuse_strangers()?;
            self.write_format()?;
            // Another version may have written the file at the same time, so read it again.
            self.has_format()?;
            // A client with wire=flock makes its directory first, and then looks for the format.
            self.refuse_flock()?;
        }
        if !self.locks.exists() {
            make(&self.locks)?;
            // Otherwise a power loss could remove the directory, and with it all tokens.
            sync(&self.root).map_err(|error| failed("sync", &self.root, error))?;
        }
        Ok(())
    }

    /// Returns true if the directory has this backend's format in a supported version.
    fn has_format(&self) -> Result<bool> {
        let path = self.root.join("format");
        let text = match read_small(&path) {
            Ok(bytes) => String::from_utf8(bytes).unwrap_or_default(),
            Err(error) if is_absent(&error) => return Ok(false),
            Err(error) => return Err(failed("read", &path, error)),
        };
        let version = text.strip_prefix("leasehold-file ").and_then(|rest| rest.strip_suffix('\n'));
        match version.and_then(|version| version.parse().ok()) {
            Some(VERSION) => Ok(true),
            Some(newer) if newer > VERSION => Err(foreign(
                &path,
                &format!(
                    "format {newer}, written by a newer leasehold (this one knows format \
                     {VERSION}); upgrade this one or choose another directory"
                ),
            )),
            _ => Err(foreign(
                &path,
                &format!(
                    "does not have the content that leasehold writes (\"leasehold-file \
                     {VERSION}\"); it was not changed; choose another directory"
                ),
            )),
        }
    }

    fn refuse_strangers(&self) -> Result<()> {
        let reading = |error| failed("read the directory", &self.root, error);
        let mut stranger = None;
        for entry in fs::read_dir(&self.root).map_err(reading)? {
            let file = entry.map_err(reading)?.file_name();
            match file.to_str() {
                // Another process has created the format meanwhile.
                Some("format") => return Ok(()),
                Some(file) if file.starts_with(".leasehold-") && file.ends_with(".tmp") => {}
                _ => stranger = Some(file),
            }
        }
        self.refuse_flock()?;
        let Some(stranger) = stranger else { return Ok(()) };
        // `format` is created before `locks`, so another process has created it by now.
        if self.has_format()? {
            return Ok(());
        }
        Err(foreign(
            &self.root,
            &format!(
                "not a leasehold directory: it has {stranger:?}, but no file \"format\"; choose an \
                 empty or a new directory"
            ),
        ))
    }

    /// Refuses the directory of locks that other programs share.
    fn refuse_flock(&self) -> Result<()> {
        if !self.root.join(FLOCK_RECORDS).exists() {
            return Ok(());
        }
        Err(foreign(
            &self.root,
            "clients with the option wire=flock use it, and this client would not exclude them; give all clients the \
             same option, or choose another directory",
        ))
    }

    /// Writes the format file. Two processes may do so at once: both rename the same content.
    fn write_format(&self) -> Result<()> {
        let draft = self.draft("format");
        let format = self.root.join("format");
        let write = || {
            write_synced(&draft, format!("leasehold-file {VERSION}\n").as_bytes())?;
            fs::rename(&draft, &format)?;
            sync(&self.root)
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&draft);
            failed("write", &format, error)
        })
    }

    /// Writes, locks and removes a file, because modes do not prove that this works.
    fn prove(&self) -> Result<()> {
        let probe = self.draft("probe");
        let tried =
            write_new(&probe, &[b' '; 4096]).and_then(|_| LockFile::open(&probe)?.try_lock());
        let removed = fs::remove_file(&probe);
        match tried.and_then(|locked| removed.map(|()| locked)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(foreign(
                &probe,
                "was locked by another process immediately after it was created",
            )),
            Err(error) => Err(failed("write in", &self.root, error)),
        }
    }

    /// Returns the path of a temporary file that no other process uses.
    fn draft(&self, what: &str) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        self.root.join(format!(".leasehold-{what}-{}-{count}.tmp", std::process::id()))
    }
}

/// Refuses a directory whose locks this machine does not decide about alone. It need not exist.
pub(crate) fn refuse_network(root: &Path) -> Result<()> {
    let there = root.ancestors().find(|path| path.exists()).unwrap_or(root);
    let found = nix::sys::statfs::statfs(there)
        .map_err(|error| failed("find the file system of", there, error))?;
    // The type is signed on some systems; compare its 32 bits.
    match filesystem::refused(found.filesystem_type().0 as u32) {
        None => Ok(()),
        Some(kind) => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{} is on a file system of type {kind}, where file locks are not reliable; \
                 choose a directory on a local disk, or a server as store",
                root.display()
            ),
        )),
    }
}

/// Creates a directory that only this user can access, unless it exists.
pub(crate) fn make(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| failed("create the directory", path, error))
}

/// Writes a whole file and syncs it to the disk.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_new(path, bytes)?.sync_data()
}

/// Replaces a file, which stays complete until its new content is on disk.
pub(crate) fn replace_synced(path: &Path, draft: &Path, bytes: &[u8]) -> io::Result<()> {
    let replace = || {
        write_synced(draft, bytes)?;
        fs::rename(draft, path)?;
        path.parent().map_or(Ok(()), sync)
    };
    replace().inspect_err(|_| {
        let _ = fs::remove_file(draft);
    })
}

/// Replaces the old record, which stays complete until the new one is on disk. Only the process that has
/// locked the lock file exclusively may call this.
pub(crate) fn write_record(record: &impl Serialize, files: &Files) -> Result<()> {
    let write = || {
        let bytes = serde_json::to_vec(record)?;
        replace_synced(&files.record, &files.draft, &bytes)
    };
    write().map_err(|error| failed("write", &files.record, error))
}

/// Writes a new file. A file that a crash left in its place is removed, not overwritten, because a
/// symbolic link could point to a file of another program.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)?
        }
        opened => opened?,
    };
    file.write_all(bytes)?;
    Ok(file)
}

/// Reads one of this backend's small files. Any other file in its place must not redirect the read
/// (a link), block it (a pipe) or fill the memory.
pub(crate) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(NO_TRICKS).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > LARGEST {
        return Err(io::Error::other("leasehold did not write this file; move it away"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Syncs a directory, so that renames in it survive a power loss.
pub(crate) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
