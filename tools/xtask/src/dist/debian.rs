//! The Debian package: the program, its pages, completions and units. It starts no service, and has no script.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::build::{Target, is_installed};
use super::files::{self, Entry};
use super::stage::Staged;
use super::{Release, failed};
use crate::run::{quiet, root};

const DESCRIPTION: &str = "\
distributed locks for jobs and programs
 The command leasehold runs a command while it holds a lock, and looks after
 locks: on files of this machine, Redis, ZooKeeper, etcd, PostgreSQL, MySQL
 and SQLite. leasehold serve shows locks, and lets programs in any language
 hold them over HTTP.
 .
 The units leasehold-serve and leasehold-cache-relay are not enabled: set
 their stores first.
";

/// Packs the package of a target. Returns `None` where dpkg-deb is not installed.
pub(super) fn pack(
    release: &Release,
    target: &Target,
    staged: &Staged,
) -> Result<Option<PathBuf>, String> {
    if !is_installed("dpkg-deb") {
        return Ok(None);
    }
    let name = format!("leasehold_{}_{}", release.version, target.debian);
    let tree = release.place.join("tree").join(&name);
    let mut entries = entries(staged);
    let size: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
    let control = control(release, target, size.div_ceil(1024), &maintainer()?);
    entries.push(Entry::new("DEBIAN/control", control));
    files::write(&tree, &entries)?;
    let compressed = entries.iter().filter(|entry| is_compressed(&entry.path));
    let compressed: Vec<PathBuf> = compressed.map(|entry| tree.join(&entry.path)).collect();
    quiet(Command::new("gzip").args(["-n", "-9"]).args(compressed))?;
    let package = release.place.join(format!("{name}.deb"));
    quiet(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .arg(&tree)
            .arg(&package)
            // The times of all files are not later.
            .env("SOURCE_DATE_EPOCH", release.epoch.to_string()),
    )?;
    Ok(Some(package))
}

/// Debian's policy wants manual pages and changelogs compressed.
fn is_compressed(path: &str) -> bool {
    path.contains("/man1/") || path.ends_with("/changelog")
}

fn control(release: &Release, target: &Target, size: usize, maintainer: &str) -> String {
    format!(
        "Package: leasehold\nVersion: {}\nArchitecture: {}\nMaintainer: {maintainer}\nInstalled-Size: {size}\n\
         Section: admin\nPriority: optional\nDescription: {DESCRIPTION}",
        release.version, target.debian
    )
}

/// Returns the contact that the maintainer has written into the security policy.
fn maintainer() -> Result<String, String> {
    let path = root().join("SECURITY.md");
    let text = fs::read_to_string(&path).map_err(|error| failed("read", &path, &error))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Contact: "));
    line.map(str::to_owned)
        .ok_or_else(|| format!("{}: has no line `Contact: NAME <MAIL>`", path.display()))
}

fn entries(staged: &Staged) -> Vec<Entry> {
    let below = |folder: &str, entries: &[Entry]| -> Vec<Entry> {
        entries.iter().map(|entry| entry.at(format!("{folder}/{}", entry.path))).collect()
    };
    let mut all = vec![staged.program.at("usr/bin/leasehold")];
    all.extend(below("usr/share/man/man1", &staged.pages[0]));
    all.extend(below("usr/share/man/zh_CN/man1", &staged.pages[1]));
    for entry in &staged.completions {
        all.push(entry.at(match entry.path.as_str() {
            "leasehold.bash" => "usr/share/bash-completion/completions/leasehold",
            "leasehold.fish" => "usr/share/fish/vendor_completions.d/leasehold.fish",
            _ => "usr/share/zsh/vendor-completions/_leasehold",
        }));
    }
    all.extend(below("usr/lib/systemd/system", &staged.units));
    let doc = "usr/share/doc/leasehold";
    all.extend(below(&format!("{doc}/examples"), &staged.examples));
    for entry in &staged.documents {
        match entry.path.as_str() {
            "CHANGELOG.md" => all.push(entry.at(format!("{doc}/changelog"))),
            "LICENSE-MIT" => {
                all.push(Entry::new(format!("{doc}/copyright"), copyright(&entry.bytes)))
            }
            "LICENSE-APACHE" => {}
            name => all.push(entry.at(format!("{doc}/{name}"))),
        }
    }
    all
}

/// The file that Debian's policy wants, with the text of one of the two licences.
fn copyright(mit: &[u8]) -> String {
    format!(
        "Leasehold may be used under the Apache License 2.0, whose text is in /usr/share/common-licenses/Apache-2.0, or \
         under the licence below. THIRD-PARTY.txt and THIRD-PARTY-RUST.html have the licences of the libraries in the program.\n\n{}",
        String::from_utf8_lossy(mit)
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::super::archive;
    use super::super::build::TARGETS;
    use super::*;

    /// A program that writes a page and completions as `leasehold` does.
    const STAND_IN: &str = "#!/bin/sh\ncase $1 in\n--lang) mkdir -p \"$5\" && echo \"$2\" >\"$5/leasehold.1\" ;;\n\
                            completions) echo \"complete $2\" ;;\nesac\n";

    fn packed(place: &Path) -> (PathBuf, Option<PathBuf>) {
        let program = place.join("program");
        fs::write(&program, STAND_IN).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let release =
            Release { version: "9.8.7".into(), epoch: 1_700_000_000, place: place.join("dist") };
        fs::create_dir_all(&release.place).unwrap();
        let target = TARGETS.iter().find(|target| target.runs_here()).unwrap_or(&TARGETS[0]);
        let notices = [("THIRD-PARTY.txt", "notices".to_owned())];
        let staged = Staged::of(&release, &program, target, &notices).unwrap();
        let archive = archive::pack(&release, target, &staged).unwrap();
        (archive, pack(&release, target, &staged).unwrap())
    }

    #[test]
    fn two_packings_have_the_same_bytes_and_all_files() {
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, other] = places.each_ref().map(|place| packed(place.path()));
        assert_eq!(fs::read(&one.0).unwrap(), fs::read(&other.0).unwrap(), "the archive");
        let list = quiet(Command::new("tar").arg("-tvzf").arg(&one.0)).unwrap();
        for file in [
            "/leasehold\n",
            "man/man1/leasehold.1",
            "man/zh_CN/man1/leasehold.1",
            "_leasehold",
            "LICENSE-MIT",
            "THIRD-PARTY.txt",
            "leasehold-serve.service",
            "leasehold-example.timer",
        ] {
            assert!(list.contains(file), "{file}: {list}");
        }
        assert!(list.lines().all(|line| line.contains(" 0/0 ")), "{list}");
        let (Some(one), Some(other)) = (one.1, other.1) else { return };
        assert_eq!(fs::read(&one).unwrap(), fs::read(&other).unwrap(), "the package");
        let list = quiet(Command::new("dpkg-deb").arg("-c").arg(&one)).unwrap();
        for file in [
            "./usr/bin/leasehold",
            "./usr/share/man/man1/leasehold.1.gz",
            "./usr/lib/systemd/system/leasehold-serve.service",
            "changelog.gz",
            "copyright",
            "examples/leasehold-example.timer",
            "vendor-completions/_leasehold",
        ] {
            assert!(list.contains(file), "{file}: {list}");
        }
        assert!(list.lines().all(|line| line.contains(" root/root ")), "{list}");
        let fields = quiet(Command::new("dpkg-deb").arg("-f").arg(&one)).unwrap();
        assert!(fields.contains("Version: 9.8.7") && fields.contains("Maintainer: "), "{fields}");
    }

    #[test]
    fn the_pages_of_a_package_are_in_two_languages() {
        let place = tempfile::tempdir().unwrap();
        let (archive, _) = packed(place.path());
        for (folder, lang) in [("man/man1", "en\n"), ("man/zh_CN/man1", "zh\n")] {
            let name = archive.file_name().unwrap().to_string_lossy().replace(".tar.gz", "");
            let file = format!("{name}/{folder}/leasehold.1");
            let text = quiet(Command::new("tar").arg("-xOzf").arg(&archive).arg(file)).unwrap();
            assert_eq!(text, lang);
        }
    }
}
