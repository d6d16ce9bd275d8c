//! Names that try to collide, to escape, or to be too long for the engine.

use super::{always, case};
use crate::{Case, Context, Outcome, ensure};

pub(super) const CASES: &[Case] = &[case!(
    hostile_names_are_just_names,
    always,
    "Every allowed name is a lock of its own: slashes, dots, braces, look-alikes, 512 bytes"
)];

/// Dots and slashes, escapes, braces, case, composed and decomposed letters, the Kelvin sign,
/// Cyrillic look-alikes, device names, options, shell and glob characters, right-to-left marks.
const HOSTILE: &[&str] = &[
    ".",
    "..",
    "../../etc/passwd",
    "/",
    "//",
    "a/b",
    "a%2Fb",
    "a%2fb",
    "%",
    "%%",
    "{",
    "}",
    "{a}",
    "a}b",
    " ",
    "a ",
    "a",
    "A",
    "ä",
    "a\u{308}",
    "\u{212a}",
    "K",
    "k",
    "\u{430}bc",
    "abc",
    "CON",
    "nul",
    "-rf",
    "~",
    "a:b",
    "a*b",
    "a\\b",
    "a'b\"c",
    "$(x)",
    "\u{202e}abc",
    "*",
    "?",
    "[a]",
];

async fn hostile_names_are_just_names(context: Context) -> Outcome {
    let client = context.client().await;
    let mut names: Vec<String> = HOSTILE.iter().map(|&name| name.to_owned()).collect();
    for long in ["x".repeat(511), "锁".repeat(170)] {
        names.extend(["a", "b"].map(|end| format!("{long}{end}")));
    }
    if client.capability().nested_names {
        let all = names.clone();
        let is_above = |name: &str| all.iter().any(|one| one.starts_with(&format!("{name}/")));
        names.retain(|name| !is_above(name));
    }
    let mut held = Vec::new();
    for name in &names {
        let guard = client.lock(name).try_acquire().await?;
        held.push(guard.ok_or(format!("{name:?} is taken by another name"))?);
    }
    for name in &names {
        ensure!(client.lock(name).try_acquire().await?.is_none(), "{name:?} is held twice");
        let status = client.lock(name).status().await?;
        ensure!(status.name.as_str() == name, "{name:?} became {:?}", status.name);
    }
    for guard in held {
        guard.release().await?;
    }
    Ok(())
}
