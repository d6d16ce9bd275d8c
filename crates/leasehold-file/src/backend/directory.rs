//! The directory of a store: made, checked for being ours, and proved to be writable.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_core::{Error, ErrorKind, Name, Result, filesystem};

use super::escape::escape;
use super::lockfile::{LockFile, NO_TRICKS, is_absent};
use super::oserror::{failed, foreign};

/// The version of the layout of files; the record has one of its own.
const VERSION: u64 = 1;

/// More than any file of ours can have, in bytes.
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
    pub(crate) line: PathBuf,
}

impl Directory {
    /// Opens the directory, and makes it (mode 0700, parents too) when it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let root = std::path::absolute(path)
            .map_err(|error| failed("find the way to", path, error).during("connect", None))?;
        let directory = Self { locks: root.join("locks"), root };
        directory
            .prepare()
            .and_then(|()| directory.prove())
            .map_err(|e| e.during("connect", None))?;
        Ok(directory)
    }

    /// The directory as it is, with nothing made in it.
    pub(crate) fn seen(root: &Path) -> Result<Self> {
        let directory = Self { locks: root.join("locks"), root: root.to_owned() };
        if !directory.has_format()? {
            directory.refuse_strangers()?;
        }
        Ok(directory)
    }

    /// Where the store is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The files of a lock.
    pub(crate) fn files(&self, name: &Name) -> Files {
        let stem = escape(name);
        let file = |suffix| self.locks.join(format!("{stem}.{suffix}"));
        let (lock, record, draft) = (file("lock"), file("json"), file("tmp"));
        Files { lock, record, draft, line: file("wait") }
    }

    /// The record of the lock with this stem.
    pub(crate) fn record_of(&self, stem: &str) -> PathBuf {
        self.locks.join(format!("{stem}.json"))
    }

    /// The stems of all locks that have left something here, each once, in no order.
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

    /// Makes what is missing; to be called again when somebody has removed the directory.
    pub(crate) fn prepare(&self) -> Result<()> {
        self.refuse_network()?;
        make(&self.root)?;
        if !self.has_format()? {
            self.refuse_strangers()?;
            self.write_format()?;
            // Another version may have been here at the same time; what stands there now counts.
            self.has_format()?;
        }
        if !self.locks.exists() {
            make(&self.locks)?;
            // Or a power loss could take the folder, and with it all tokens.
            sync(&self.root).map_err(|error| failed("sync", &self.root, error))?;
        }
        Ok(())
    }

    fn refuse_network(&self) -> Result<()> {
        let there = self.root.ancestors().find(|path| path.exists()).unwrap_or(&self.root);
        let found = nix::sys::statfs::statfs(there)
            .map_err(|error| failed("find the file system of", there, error))?;
        // The type is signed on some systems; its 32 bits are what counts.
        match filesystem::refused(found.filesystem_type().0 as u32) {
            None => Ok(()),
            Some(kind) => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{} is on a file system of type {kind}, whose locks this machine does not \
                     decide about alone; choose a directory on a local disk, or a server as store",
                    self.root.display()
                ),
            )),
        }
    }

    /// True when the directory is one of ours, of a version that we know.
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
                    "is not what leasehold writes (\"leasehold-file {VERSION}\"); it was left as \
                     it is; choose another directory"
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
                // Somebody else has made it ours in the meantime.
                Some("format") => return Ok(()),
                Some(file) if file.starts_with(".leasehold-") && file.ends_with(".tmp") => {}
                _ => stranger = Some(file),
            }
        }
        let Some(stranger) = stranger else { return Ok(()) };
        // Format is made before locks: if the other process was between, it is there by now.
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

    /// Two processes may do so at once: both rename the same content into place.
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

    /// Writes, locks and removes a file, since modes alone do not tell whether that works.
    fn prove(&self) -> Result<()> {
        let probe = self.draft("probe");
        let tried =
            write_new(&probe, &[b' '; 4096]).and_then(|_| LockFile::open(&probe)?.try_lock());
        let removed = fs::remove_file(&probe);
        match tried.and_then(|locked| removed.map(|()| locked)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(foreign(&probe, "somebody else has locked our own new file")),
            Err(error) => Err(failed("write in", &self.root, error)),
        }
    }

    /// A temporary file of our own that no other process uses.
    fn draft(&self, what: &str) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        self.root.join(format!(".leasehold-{what}-{}-{count}.tmp", std::process::id()))
    }
}

/// Makes a directory for this user alone, unless it is there.
pub(crate) fn make(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| failed("make the directory", path, error))
}

/// Writes a file whole, down to the disk.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_new(path, bytes)?.sync_data()
}

/// Writes a file that was not there before. What a crash has left in its place is removed; were
/// it written to instead, a link would lead to somebody else's file.
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

/// Reads one of our own small files. Anything else in its place must neither lead elsewhere (a
/// link) nor keep us waiting (a pipe) nor fill the memory.
pub(crate) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(NO_TRICKS).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > LARGEST {
        return Err(io::Error::other("this is not a file that leasehold wrote; move it away"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes renames in a directory last through a power loss.
pub(crate) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
