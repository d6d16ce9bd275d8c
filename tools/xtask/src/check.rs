//! `cargo xtask check`: everything that can be said about the tree without changing or running it.

use std::process::Command;

use crate::run::{cargo, quiet, root};
use crate::tidy;
use crate::ui::{End, colourful, step};

/// The Rust whose lints the tree is kept clean of. Others know more, fewer or different lints,
/// so that `cargo xtask test` leaves them out there and has the same result on every machine.
const LINTED_WITH: &str = "1.95";

/// The oldest supported Rust, `rust-version` in `Cargo.toml`.
const OLDEST: &str = "1.88";

/// All steps; goes on after one that failed.
pub(crate) fn check() -> bool {
    lints() & oldest() & dependencies() & packages() & tidy::step()
}

/// Formatting, lints and documentation.
pub(crate) fn lints() -> bool {
    let fmt = step("fmt", || match component("fmt") {
        Ok(()) => {
            let color = if colourful() { "always" } else { "never" };
            quiet(&mut cargo(["fmt", "--all", "--check", "--", "--color", color])).into()
        }
        Err(how) => End::Bad(how),
    });
    let clippy = step("clippy", || match component("clippy") {
        Ok(()) => quiet(
            cargo(["clippy", "-q", "--workspace", "--all-targets", "--all-features"])
                .args(["--", "-D", "warnings"]),
        )
        .into(),
        Err(how) => End::Bad(how),
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
            return End::Left(format!(
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
            return End::Left("add it with `cargo install --locked cargo-deny`".into());
        }
        quiet(&mut cargo(["deny", "--log-level", "error", "check", "bans", "licenses", "sources"]))
            .into()
    })
}

/// Whether each published crate can be packed: its files, its metadata, and no dependency that is not
/// published. Building them from their packages is left to the release.
fn packages() -> bool {
    step("package", || {
        let pack = ["package", "-q", "--workspace", "--no-verify", "--allow-dirty"];
        let ours = ["--exclude", "leasehold-chaos", "--exclude", "xtask"];
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
