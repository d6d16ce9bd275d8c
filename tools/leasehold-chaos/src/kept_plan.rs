//! Where plans are kept.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::written::Written;

/// Where the plan of a run is kept: beside the journals, or else in `target/chaos`, if a promise was broken.
pub(crate) fn place(
    journal: Option<&Path>,
    plan: &Written,
    is_kept: bool,
) -> Result<Option<PathBuf>> {
    match journal {
        Some(folder) => Ok(Some(folder.join("plan"))),
        None if !is_kept => {
            let folder = plans(&std::env::current_exe()?);
            std::fs::create_dir_all(&folder)?;
            Ok(Some(folder.join(format!("{}-{}.plan", plan.setup, plan.seed))))
        }
        None => Ok(None),
    }
}

/// The directory `chaos` in the directory `target` that a program is in; if there is none, in the program's own.
fn plans(program: &Path) -> PathBuf {
    let target = program.ancestors().find(|path| path.file_name() == Some("target".as_ref()));
    let own = program.parent().unwrap_or(program);
    target.unwrap_or(own).join("chaos")
}

/// Writes a plan, and says where it is.
pub(crate) fn keep(plan: &Written, path: &Path) -> Result<()> {
    std::fs::write(path, plan.to_string())?;
    eprintln!("chaos: replay it with --plan {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_kept_in_the_target_directory() {
        let place = |program: &str| plans(Path::new(program)).display().to_string();
        assert_eq!(place("/w/target/debug/deps/x"), "/w/target/chaos");
        assert_eq!(place("/tmp/x"), "/tmp/chaos");
    }
}
