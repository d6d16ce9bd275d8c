//! What every package contains: the program, and what it writes about itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Release;
use super::build::Target;
use super::failed;
use super::files::Entry;
use crate::run::{quiet, root};

/// The shells with completions: the name for the command, and the file of its completions.
const SHELLS: [(&str, &str); 3] =
    [("bash", "leasehold.bash"), ("fish", "leasehold.fish"), ("zsh", "_leasehold")];

/// The files of the sources that each package has.
const DOCUMENTS: [&str; 5] =
    ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "README.zh-CN.md"];

/// The units of `packaging/systemd`, and the examples.
pub(super) const UNITS: [&str; 2] = ["leasehold-cache-relay.service", "leasehold-serve.service"];
pub(super) const EXAMPLES: [&str; 2] = ["leasehold-example.service", "leasehold-example.timer"];

/// The contents of all packages of a target.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) program: Entry,
    /// `NAME.1` in English and in Chinese.
    pub(super) pages: [Vec<Entry>; 2],
    pub(super) completions: Vec<Entry>,
    pub(super) documents: Vec<Entry>,
    pub(super) units: Vec<Entry>,
    pub(super) examples: Vec<Entry>,
}

impl Staged {
    /// Collects the files around a program. One that does not run here is described by another build of this revision.
    pub(super) fn of(
        release: &Release,
        program: &Path,
        target: &Target,
        notices: &[(&str, String)],
    ) -> Result<Self, String> {
        let bytes = fs::read(program).map_err(|error| failed("read", program, &error))?;
        let teller = match target.runs_here() {
            true => program.to_owned(),
            false => super::build::TARGETS
                .iter()
                .find(|other| other.runs_here())
                .ok_or("no target of a release runs on this machine, which must write the manual pages")?
                .build()?,
        };
        let mut documents = documents()?;
        documents.extend(notices.iter().map(|(name, text)| Entry::new(*name, text.as_str())));
        let units = root().join("packaging/systemd");
        let read = |name: &&str| source(&units.join(name), name);
        Ok(Self {
            program: Entry::program("leasehold", bytes),
            pages: [pages(release, &teller, "en")?, pages(release, &teller, "zh")?],
            completions: completions(&teller)?,
            documents,
            units: UNITS.iter().map(read).collect::<Result<_, _>>()?,
            examples: EXAMPLES.iter().map(read).collect::<Result<_, _>>()?,
        })
    }
}

fn documents() -> Result<Vec<Entry>, String> {
    DOCUMENTS.iter().map(|name| source(&root().join(name), name)).collect()
}

fn source(path: &Path, name: &str) -> Result<Entry, String> {
    let bytes = fs::read(path).map_err(|error| failed("read", path, &error))?;
    Ok(Entry::new(name, bytes))
}

/// Has the program write its manual pages.
fn pages(release: &Release, program: &Path, lang: &str) -> Result<Vec<Entry>, String> {
    let folder = release.place.join("tree").join(format!("pages-{lang}"));
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| failed("remove", &folder, &error))?;
    }
    let above = folder.parent().unwrap_or(&folder);
    fs::create_dir_all(above).map_err(|error| failed("create", above, &error))?;
    quiet(Command::new(program).args(["--lang", lang, "man", "--dir"]).arg(&folder))?;
    let unreadable = |error| failed("read", &folder, &error);
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        pages.push(source(&path, &name)?);
    }
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    let _ = fs::remove_dir_all(&folder);
    match pages.is_empty() {
        true => Err(format!("{} has written no manual page", program.display())),
        false => Ok(pages),
    }
}

fn completions(program: &Path) -> Result<Vec<Entry>, String> {
    let of = |(shell, file): &(&str, &str)| {
        let text = quiet(Command::new(program).args(["completions", shell]))?;
        Ok(Entry::new(*file, text))
    };
    SHELLS.iter().map(of).collect()
}
