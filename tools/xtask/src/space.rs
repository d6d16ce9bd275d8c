//! How much space is left on the disks that a whole test run writes to.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{quiet, root};
use crate::ui::Outcome;

/// What a whole run writes from nothing: about 9 GB of compiled code, and data of the servers that are alive
/// at one time.
const NEEDED_MB: u64 = 12_000;

/// What is free where the code is compiled to and where the servers write, and whether it may be too little.
pub(crate) fn outcome() -> Outcome {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let places = [existing(&target), existing(&env::temp_dir())];
    let free = places.iter().filter_map(|place| Some((free_mb(place)?, place))).min();
    match free {
        Some((free, place)) => judge(free, place, has_built(&target)),
        None => Outcome::Left("`df` did not say how much space is free".into()),
    }
}

fn judge(free: u64, place: &Path, built: bool) -> Outcome {
    let gigabytes = format!("{:.1} GB free", free as f64 / 1000.0);
    if free >= NEEDED_MB || built {
        return Outcome::Good(gigabytes);
    }
    Outcome::Left(format!(
        "{gigabytes} at {}: a run from nothing needs {} GB, so tests may fail with \"No space left on device\"; free \
         some, or set CARGO_TARGET_DIR and TMPDIR to a larger disk",
        place.display(),
        NEEDED_MB / 1000
    ))
}

/// Whether an earlier run has left compiled code, so that this one writes less.
fn has_built(target: &Path) -> bool {
    target.join("debug/deps").is_dir()
}

/// The nearest folder of a path that exists.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn free_mb(place: &Path) -> Option<u64> {
    parse(&quiet(Command::new("df").arg("-Pk").arg(place).env("LC_ALL", "C")).ok()?)
}

/// The column `Available` of what `df -Pk` prints, in megabytes.
fn parse(printed: &str) -> Option<u64> {
    let kilobytes: u64 = printed.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kilobytes.saturating_mul(1024) / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n\
                           /dev/vda         263112772 12345678  17000000      14% /\n";

    #[test]
    fn what_df_prints_is_read() {
        assert_eq!(parse(PRINTED), Some(17_408));
        assert_eq!(parse("df: /x: No such file or directory\n"), None);
        assert!(free_mb(&env::temp_dir()).is_some());
    }

    #[test]
    fn too_little_space_is_said_before_a_first_build() {
        let Outcome::Left(note) = judge(3_400, Path::new("/tmp"), false) else {
            panic!("3.4 GB are not enough");
        };
        assert!(note.contains("3.4 GB free at /tmp") && note.contains("TMPDIR"), "{note}");
        assert!(matches!(judge(3_400, Path::new("/tmp"), true), Outcome::Good(_)));
        assert!(matches!(judge(12_000, Path::new("/tmp"), false), Outcome::Good(_)));
    }

    #[test]
    fn a_folder_that_is_to_be_made_is_on_the_disk_of_its_parent() {
        assert_eq!(existing(Path::new("/no-such-folder/target")), Path::new("/"));
    }
}
