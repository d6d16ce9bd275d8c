//! `cargo xtask lab`: what every set-up does under faults, from `leasehold lab matrix`; and
//! `cargo xtask stories`: the pages and pictures of its stories.

use std::{env, fs, process};

use crate::run::{cargo, quiet, root};

/// Runs of each set-up under each kind of fault.
const SEEDS: &str = "10000";
const FILE: &str = "docs/evidence/simulated.md";
const PICTURE: &str = "docs/pictures/guarantees-under-faults.svg";

/// Writes the document and its picture, or compares them with what is there.
pub(crate) fn lab(args: &[String]) -> Result<bool, String> {
    let check = match args {
        [] => false,
        [check] if check == "--check" => true,
        [arg, ..] => return Err(format!("knows --check alone, got `{arg}`")),
    };
    let picture = env::temp_dir().join(format!("leasehold-lab-{}.svg", process::id()));
    let command = ["run", "-q", "--release", "-p", "leasehold-cli", "--", "lab", "matrix"];
    let text = quiet(cargo(command).args(["--seeds", SEEDS, "--markdown", "--svg"]).arg(&picture))?;
    let drawn = fs::read(&picture).map_err(|error| format!("{}: {error}", picture.display()))?;
    let _ = fs::remove_file(&picture);
    for (file, now) in [(FILE, text.into_bytes()), (PICTURE, drawn)] {
        let path = root().join(file);
        if !check {
            fs::write(path, now).map_err(|error| format!("{file}: {error}"))?;
        } else if fs::read(path).ok() != Some(now) {
            return Err(format!("{file} is not current; write it with `cargo xtask lab`"));
        }
    }
    Ok(true)
}

/// Writes the outcomes, pages and pictures of the stories: by the tests that compare them.
pub(crate) fn stories() -> Result<(), String> {
    let mut command =
        cargo(["test", "-q", "-p", "leasehold-sim", "--test", "simulator", "--", "documents::"]);
    command.arg("every_story_comes_out").env("LEASEHOLD_WRITE_STORIES", "1");
    quiet(&mut command).map(drop)
}
