//! The archive for any Linux: `tar.gz`, with the same bytes for the same files.

use std::path::PathBuf;
use std::process::Command;

use super::Release;
use super::build::Target;
use super::files::{self, Entry};
use super::stage::Staged;
use crate::run::quiet;

/// Packs the archive of a target.
pub(super) fn pack(release: &Release, target: &Target, staged: &Staged) -> Result<PathBuf, String> {
    let name = release.name(target);
    let tree = release.place.join("tree").join(&name);
    files::write(&tree, &entries(staged))?;
    let tar = release.place.join(format!("{name}.tar"));
    let above = tree.parent().unwrap_or(&tree);
    quiet(
        Command::new("tar")
            .args(["--sort=name", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner"])
            .arg(format!("--mtime=@{}", release.epoch))
            .arg("-C")
            .arg(above)
            .arg("-cf")
            .arg(&tar)
            .arg(&name),
    )?;
    // Neither name nor time of the file.
    quiet(Command::new("gzip").args(["-n", "-9", "-f"]).arg(&tar))?;
    Ok(release.place.join(format!("{name}.tar.gz")))
}

/// The files of the archive, below its own folder.
fn entries(staged: &Staged) -> Vec<Entry> {
    let below = |folder: &str, entries: &[Entry]| -> Vec<Entry> {
        entries.iter().map(|entry| entry.at(format!("{folder}{}", entry.path))).collect()
    };
    let mut all = vec![staged.program.clone()];
    all.extend(below("man/man1/", &staged.pages[0]));
    all.extend(below("man/zh_CN/man1/", &staged.pages[1]));
    all.extend(below("completions/", &staged.completions));
    all.extend(below("", &staged.documents));
    all.extend(below("systemd/", &staged.units));
    all.extend(below("systemd/", &staged.examples));
    all
}
