//! The fuzz targets of all crates, and the inputs that the tests run them with.

mod mutate;

use std::path::PathBuf;
use std::{fs, io};

pub use leasehold_core::fuzzing::Target;
pub use mutate::mutated;

/// Returns all targets.
pub fn targets() -> Vec<Target> {
    [
        leasehold_cache::fuzzing::TARGETS,
        leasehold_cache_redis::fuzzing::TARGETS,
        leasehold_core::fuzzing::TARGETS,
        leasehold_etcd::fuzzing::TARGETS,
        leasehold_file::fuzzing::TARGETS,
        leasehold_filters::fuzzing::TARGETS,
        leasehold_outbox::fuzzing::TARGETS,
        leasehold_redis::fuzzing::TARGETS,
        leasehold_serve::fuzzing::TARGETS,
        leasehold_sql::fuzzing::TARGETS,
        leasehold_zookeeper::fuzzing::TARGETS,
    ]
    .concat()
}

/// Runs the target of this name.
///
/// # Panics
/// If there is no such target, and where the target finds a defect.
pub fn run(name: &str, input: &[u8]) {
    let target = targets().into_iter().find(|(known, _)| *known == name);
    let (_, read) = target.unwrap_or_else(|| panic!("no target {name}"));
    read(input);
}

/// Returns the folder of the corpus.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// Returns the inputs in the corpus of a target, in the order of their names.
///
/// # Errors
/// Those of the file system.
pub fn corpus(name: &str) -> io::Result<Vec<Vec<u8>>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder().join(name))?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    paths.sort();
    paths.into_iter().map(fs::read).collect()
}
