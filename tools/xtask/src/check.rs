//! `cargo xtask check`: everything that can be said about the tree without changing or running it.

use std::collections::BTreeSet;
use std::process::Command;

use crate::run::{cargo, quiet, root};
use crate::tidy;
use crate::ui::{Outcome, colourful, step};

/// The Rust whose lints the tree is kept clean of. Others know more, fewer or different lints,
/// so that `cargo xtask test` leaves them out there and has the same result on every machine.
const LINTED_WITH: &str = "1.95";

/// The oldest supported Rust, `rust-version` in `Cargo.toml`.
const OLDEST: &str = "1.88";

/// All steps; goes on after one that failed.
pub(crate) fn check() -> bool {
    lints() & oldest() & dependencies() & crates() & packages() & tidy::step()
}

/// Formatting, lints and documentation.
pub(crate) fn lints() -> bool {
    let fmt = step("fmt", || match component("fmt") {
        Ok(()) => {
            let color = if colourful() { "always" } else { "never" };
            quiet(&mut cargo(["fmt", "--all", "--check", "--", "--color", color])).into()
        }
        Err(how) => Outcome::Bad(how),
    });
    let clippy = step("clippy", || match component("clippy") {
        Ok(()) => quiet(
            cargo(["clippy", "-q", "--workspace", "--all-targets", "--all-features"])
                .args(["--", "-D", "warnings"]),
        )
        .into(),
        Err(how) => Outcome::Bad(how),
    });
    let doc = step("doc", || {
        quiet(
            cargo(["doc", "-q", "--workspace", "--no-deps", "--all-features"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
        .into()
    });
    fmt & clippy & doc
}

/// Whether everything builds with the oldest supported Rust. It has a target directory of its own, so that it does not
/// throw away what the usual Rust has built.
fn oldest() -> bool {
    step("oldest", || {
        // `cargo` is the one of this toolchain; rustup finds the other.
        let rustup = |args: &[&str]| {
            let mut command = Command::new("rustup");
            command.current_dir(root()).args(["run", OLDEST, "cargo"]).args(args);
            command
        };
        if quiet(&mut rustup(&["--version"])).is_err() {
            return Outcome::Left(format!(
                "add it with `rustup toolchain install {OLDEST} --profile minimal`"
            ));
        }
        let check = ["check", "-q", "--workspace", "--all-targets", "--all-features"];
        quiet(rustup(&check).env("CARGO_TARGET_DIR", root().join("target/oldest"))).into()
    })
}

/// The dependencies' licences, sources and bans, as `deny.toml` has them. Advisories need the
/// network, and a new one must not fail a tree that has not changed.
fn dependencies() -> bool {
    step("deny", || {
        if quiet(&mut cargo(["deny", "--version"])).is_err() {
            return Outcome::Left("add it with `cargo install --locked cargo-deny`".into());
        }
        quiet(&mut cargo(["deny", "--log-level", "error", "check", "bans", "licenses", "sources"]))
            .into()
    })
}

/// The most crates that `leasehold` with `redis` may build: a cold build of it should stay short.
const MOST_CRATES: usize = 70;

/// Whether `leasehold` with `redis` builds few enough crates. `cargo update` may add many: newer versions of
/// `idna_adapter` bring about 20 crates with Unicode tables.
fn crates() -> bool {
    step("crates", || {
        let tree = ["tree", "-p", "leasehold", "--no-default-features", "--features", "redis"];
        let shown = ["-e", "normal", "--prefix", "none", "--format", "{p}"];
        // Colours would hide that a line is repeated.
        match quiet(cargo(tree).args(shown).env("CARGO_TERM_COLOR", "never")) {
            Ok(tree) => few(&tree),
            Err(why) => Outcome::Bad(why),
        }
    })
}

fn few(tree: &str) -> Outcome {
    let names: BTreeSet<&str> =
        tree.lines().map(|line| line.split(" (").next().unwrap_or_default()).collect();
    match names.len() {
        count @ ..=MOST_CRATES => Outcome::Good(format!("leasehold with redis: {count}")),
        count => Outcome::Bad(format!(
            "`leasehold` with `redis` builds {count} crates, at most {MOST_CRATES} are allowed; see `cargo tree -p \
             leasehold --no-default-features --features redis`, and keep older versions with `cargo update --precise`"
        )),
    }
}

/// Whether each published crate can be packed: its files, its metadata, and no dependency that is not
/// published. Building them from their packages is left to the release.
fn packages() -> bool {
    step("package", || {
        let pack = ["package", "-q", "--workspace", "--no-verify", "--allow-dirty"];
        let ours = match tidy::unpublished() {
            Ok(names) => names.into_iter().flat_map(|name| ["--exclude".to_owned(), name]),
            Err(why) => return Outcome::Bad(why),
        };
        quiet(cargo(pack).args(ours)).into()
    })
}

/// Why the lints do not decide over a test run on this machine; `None` when they do.
pub(crate) fn no_lints_here() -> Option<String> {
    if component("fmt").is_err() || component("clippy").is_err() {
        return Some("rustfmt and clippy are not installed".into());
    }
    let version = quiet(&mut cargo(["--version"])).unwrap_or_default();
    let version = version.split(' ').nth(1).unwrap_or_default();
    if version.starts_with(&format!("{LINTED_WITH}.")) {
        return None;
    }
    Some(format!("the lints are those of Rust {LINTED_WITH}, this is {version}"))
}

/// Whether `cargo fmt` or `cargo clippy` is there, or how to get it.
fn component(name: &str) -> Result<(), String> {
    if quiet(&mut cargo([name, "--version"])).is_ok() {
        return Ok(());
    }
    let (component, debian) = match name {
        "fmt" => ("rustfmt", "rustfmt"),
        _ => ("clippy", "rust-clippy"),
    };
    Err(format!(
        "{component} is not installed; add it with\n\n    rustup component add {component}\n\n\
         or, where Rust came from Debian, with\n\n    apt-get install {debian}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_crates_are_refused_and_each_counts_once() {
        let lines = |count: usize| -> String {
            (0..count).map(|number| format!("a{number} v1.0.0\na{number} v1.0.0 (*)\n")).collect()
        };
        assert!(matches!(few(&lines(MOST_CRATES)), Outcome::Good(_)));
        assert!(matches!(few(&lines(MOST_CRATES + 1)), Outcome::Bad(_)));
    }
}
