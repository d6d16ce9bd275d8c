//! Builds the command for a target, so that two builds in two directories give the same bytes.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{cargo, open, quiet, root};

/// A target of a release.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) triple: &'static str,
    /// The architecture in the words of Debian.
    pub(super) debian: &'static str,
    /// C compilers for it, of which one must be installed: `ring`, aws-lc and SQLite are written in C.
    compilers: &'static [&'static str],
    /// How to install one.
    package: &'static str,
}

/// All targets. They are linked with musl, so that a program needs no library of the system.
pub(super) static TARGETS: [Target; 2] = [
    Target {
        triple: "x86_64-unknown-linux-musl",
        debian: "amd64",
        compilers: &["x86_64-linux-musl-gcc", "musl-gcc"],
        package: "apt-get install musl-tools",
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        debian: "arm64",
        compilers: &["aarch64-linux-musl-gcc"],
        package: "dpkg --add-architecture arm64; apt-get update; apt-get install gcc-aarch64-linux-gnu musl-dev:arm64 (or \
                  another aarch64-linux-musl-gcc on the PATH)",
    },
];

/// Returns the target with this triple.
pub(super) fn find(triple: &str) -> Result<&'static Target, String> {
    TARGETS.iter().find(|target| target.triple == triple).ok_or_else(|| {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
        format!("no target `{triple}`; there are {}", known.join(", "))
    })
}

impl Target {
    /// Returns what is missing to build it here, and the commands that build it.
    pub(super) fn missing(&self) -> Option<String> {
        let Self { triple, package, .. } = self;
        let mut missing = Vec::new();
        let installed = quiet(Command::new("rustup").current_dir(root()).args([
            "target",
            "list",
            "--installed",
        ]));
        if !installed.is_ok_and(|all| all.lines().any(|line| line == *triple)) {
            missing.push(format!("rustup target add {triple}"));
        }
        if self.compiler().is_none() {
            missing.push((*package).to_owned());
        }
        (!missing.is_empty()).then(|| {
            format!(
                "not built here; it needs {}; then: cargo xtask dist {triple}",
                missing.join("; ")
            )
        })
    }

    fn compiler(&self) -> Option<&'static str> {
        self.compilers.iter().copied().find(|program| is_installed(program))
    }

    /// Returns true if programs of this target run here.
    pub(super) fn runs_here(&self) -> bool {
        self.triple.starts_with(env::consts::ARCH) && cfg!(target_os = "linux")
    }

    /// Builds the command with all features, and returns its program.
    pub(super) fn build(&self) -> Result<PathBuf, String> {
        let folder = root().join("target/dist-build");
        let variable = self.triple.replace('-', "_");
        let mut command =
            cargo(["build", "--release", "--locked", "-p", "leasehold-cli", "--features", "full"]);
        command
            .args(["--target", self.triple])
            .env("CARGO_TARGET_DIR", &folder)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
            .env("CARGO_PROFILE_RELEASE_PANIC", "unwind")
            .env("CARGO_ENCODED_RUSTFLAGS", remapped(&root(), &homes()).join("\u{1f}"))
            .env(format!("CFLAGS_{variable}"), c_flags(&root(), &homes()));
        if let Some(compiler) = self.compiler() {
            command.env(format!("CC_{variable}"), compiler);
        }
        if !self.runs_here()
            && let Some(compiler) = self.compiler()
        {
            command.env(format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), compiler);
        }
        match open(&mut command)? {
            true => Ok(folder.join(self.triple).join("release/leasehold")),
            false => Err("the command does not build".to_owned()),
        }
    }
}

/// Returns true if there is a program of this name on the PATH.
pub(super) fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The folders whose names would get into the program, beside that of the sources: cargo's and rustup's.
fn homes() -> Vec<(PathBuf, &'static str)> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let of = |variable: &str, folder: &str| {
        env::var_os(variable).map_or_else(|| home.join(folder), PathBuf::from)
    };
    vec![(of("CARGO_HOME", ".cargo"), "/cargo"), (of("RUSTUP_HOME", ".rustup"), "/rustup")]
}

fn remapped(root: &Path, homes: &[(PathBuf, &str)]) -> Vec<String> {
    let all = [(root.to_owned(), "/leasehold")].into_iter().chain(homes.iter().cloned());
    all.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect()
}

fn c_flags(root: &Path, homes: &[(PathBuf, &str)]) -> String {
    let all = [(root.to_owned(), "/leasehold")].into_iter().chain(homes.iter().cloned());
    let flags: Vec<String> =
        all.map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display())).collect();
    flags.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_of_this_machine_gets_into_the_program() {
        let homes = [(PathBuf::from("/users/a/.cargo"), "/cargo")];
        let flags = remapped(Path::new("/src"), &homes);
        let expected =
            ["--remap-path-prefix=/src=/leasehold", "--remap-path-prefix=/users/a/.cargo=/cargo"];
        assert_eq!(flags, expected);
        assert!(
            c_flags(Path::new("/src"), &homes).starts_with("-ffile-prefix-map=/src=/leasehold ")
        );
    }

    #[test]
    fn what_cannot_be_built_here_is_said_with_the_command_that_does_it() {
        let target = Target {
            triple: "sparc-unknown-none",
            debian: "sparc",
            compilers: &["no-such-compiler"],
            package: "apt-get install some-compiler",
        };
        let why = target.missing().unwrap();
        assert!(why.contains("rustup target add sparc-unknown-none"), "{why}");
        assert!(why.contains("apt-get install some-compiler"), "{why}");
        assert!(why.ends_with("cargo xtask dist sparc-unknown-none"), "{why}");
        assert!(!target.runs_here());
    }
}
