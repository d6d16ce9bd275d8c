//! `cargo xtask dist`: what a user installs without a compiler. Nothing is published.

mod again;
mod archive;
mod build;
mod clean;
mod debian;
mod files;
mod notices;
mod sbom;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{quiet, root};
use crate::ui::{Outcome, step};
use build::Target;

/// What all parts of a release share.
#[derive(Clone, Debug)]
struct Release {
    version: String,
    /// The time of the files, in seconds since the Unix epoch: that of the commit, so that two builds are the same.
    epoch: u64,
    /// Where the results are written.
    place: PathBuf,
}

/// Builds, packs and lists everything for these targets; without any, for all of them.
///
/// `--program FILE` packs that program instead of building one, for the first target. `again` builds a second time in another
/// folder and compares; `check` installs the Debian package in an empty Debian.
pub(crate) fn dist(args: &[String]) -> Result<bool, String> {
    match args.first().map(String::as_str) {
        Some("again") => return again::again(&args[1..]),
        Some("check") => return clean::check(&args[1..]),
        _ => {}
    }
    let (targets, program) = chosen(args)?;
    let release = Release::new(root().join("target/dist"))?;
    let mut all_good = true;
    let mut packed = Vec::new();
    for target in targets {
        let mut files = Vec::new();
        all_good &=
            step(target.triple, || match target_files(&release, target, program.as_deref()) {
                Ok(Made::Packed(made, note)) => {
                    files = made;
                    Outcome::Good(note)
                }
                Ok(Made::Missing(why)) => Outcome::Left(why),
                Err(why) => Outcome::Bad(why),
            });
        packed.extend(files);
    }
    if packed.is_empty() {
        return Ok(false);
    }
    Ok(all_good & step("sums", || sums(&release, &packed).into()))
}

/// What became of a target.
enum Made {
    Packed(Vec<PathBuf>, String),
    /// It cannot be built here; the text says with which command it can.
    Missing(String),
}

fn target_files(
    release: &Release,
    target: &'static Target,
    program: Option<&Path>,
) -> Result<Made, String> {
    let program = match program {
        Some(program) => program.to_owned(),
        None => match target.missing() {
            Some(why) => return Ok(Made::Missing(why)),
            None => target.build()?,
        },
    };
    let libraries = sbom::libraries(target)?;
    let notices = [
        (notices::FILE, notices::of(&libraries)?),
        (notices::STANDARD_LIBRARY, notices::standard_library()?),
    ];
    let sbom = release.place.join(format!("{}.cdx.json", release.name(target)));
    fs::create_dir_all(&release.place).map_err(|error| failed("create", &release.place, &error))?;
    let text = sbom::of(release, &libraries)?;
    fs::write(&sbom, text).map_err(|error| failed("write", &sbom, &error))?;
    let staged = stage::Staged::of(release, &program, target, &notices)?;
    let archive = archive::pack(release, target, &staged)?;
    let mut made = vec![archive, sbom];
    let note = match debian::pack(release, target, &staged)? {
        Some(package) => {
            made.push(package);
            String::new()
        }
        None => "no Debian package: install dpkg-deb (Debian: dpkg)".to_owned(),
    };
    Ok(Made::Packed(made, note))
}

fn chosen(args: &[String]) -> Result<(Vec<&'static Target>, Option<PathBuf>), String> {
    let (mut targets, mut program) = (Vec::new(), None);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--program" => {
                let file = rest.next().ok_or("--program: name the file of the program")?;
                program = Some(PathBuf::from(file));
            }
            triple => targets.push(build::find(triple)?),
        }
    }
    if targets.is_empty() {
        targets = build::TARGETS.iter().collect();
    }
    if program.is_some() {
        targets.truncate(1);
    }
    Ok((targets, program))
}

impl Release {
    fn new(place: PathBuf) -> Result<Self, String> {
        let manifest =
            fs::read_to_string(root().join("Cargo.toml")).map_err(|error| error.to_string())?;
        let version =
            version(&manifest).ok_or("Cargo.toml has no `version` in [workspace.package]")?;
        let given = std::env::var("SOURCE_DATE_EPOCH").ok();
        let time = match given {
            Some(time) => time,
            None => {
                quiet(Command::new("git").current_dir(root()).args(["log", "-1", "--format=%ct"]))?
            }
        };
        let epoch =
            time.trim().parse().map_err(|_| format!("SOURCE_DATE_EPOCH {time:?} is no number"))?;
        Ok(Self { version, epoch, place })
    }

    /// The name of the files of a target, without their end.
    fn name(&self, target: &Target) -> String {
        format!("leasehold-{}-{}", self.version, target.triple)
    }
}

fn version(manifest: &str) -> Option<String> {
    let (_, section) = manifest.split_once("[workspace.package]\n")?;
    let line = section
        .lines()
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| line.strip_prefix("version = "))?;
    Some(line.trim().trim_matches('"').to_owned())
}

/// Writes the checksums of the files, in the form of sha256sum(1).
fn sums(release: &Release, files: &[PathBuf]) -> Result<String, String> {
    let mut names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
    names.sort();
    let sums = quiet(Command::new("sha256sum").current_dir(&release.place).args(names))?;
    let path = release.place.join("SHA256SUMS");
    fs::write(&path, sums).map_err(|error| failed("write", &path, &error))?;
    Ok(path.display().to_string())
}

fn failed(what: &str, path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_workspace() {
        let text = "[package]\nversion = \"9\"\n[workspace.package]\nedition = \"2024\"\nversion = \"0.2.0\"\n";
        assert_eq!(version(text).as_deref(), Some("0.2.0"));
        assert_eq!(version("[workspace.package]\n[x]\nversion = \"1\"\n"), None);
    }

    #[test]
    fn arguments_are_targets_and_a_program() {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(chosen(&[]).unwrap().0.len(), build::TARGETS.len());
        let (targets, program) = chosen(&words(&["--program", "/x"])).unwrap();
        assert_eq!((targets.len(), program), (1, Some(PathBuf::from("/x"))));
        assert!(chosen(&words(&["sparc"])).unwrap_err().contains("x86_64-unknown-linux-musl"));
    }
}
