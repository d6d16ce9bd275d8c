//! Each feature by itself: no warning, no link of the documentation that leads nowhere.

use std::io::{IsTerminal, Write, stdout};
use std::process::Command;

use serde_json::Value;

use crate::run::{cargo, quiet};
use crate::ui::{Outcome, step};

/// A package with one of its features, or none.
struct Case {
    package: String,
    feature: Option<String>,
}

/// Checks every package that has features with each of them alone, or the package that is named, or one of
/// its features.
pub(crate) fn alone(args: &[String]) -> Result<bool, String> {
    let mut cases = cases()?;
    if let Some(extra) = args.get(2) {
        return Err(format!("takes a package and a feature, got `{extra}` too"));
    }
    if let Some(package) = args.first() {
        cases.retain(|case| case.package == *package);
    }
    if let Some(feature) = args.get(1) {
        cases.retain(|case| case.feature.as_deref().unwrap_or("none") == feature);
    }
    if cases.is_empty() {
        return Err(format!(
            "no package with features, or no feature, is called `{}`",
            args.join(" ")
        ));
    }
    Ok(step("features", || match check_all(&cases) {
        Ok(count) => Outcome::Good(format!("{count} of one feature each")),
        Err(why) => Outcome::Bad(why),
    }))
}

fn check_all(cases: &[Case]) -> Result<usize, String> {
    let mut failed = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        if stdout().is_terminal() {
            print!("\r\x1b[K  ...   features  {} of {}: {case}", number + 1, cases.len());
            let _ = stdout().flush();
        }
        failed.extend(case.check().err().map(|why| format!("{case}:\n{why}")));
    }
    if failed.is_empty() { Ok(cases.len()) } else { Err(failed.join("\n\n")) }
}

/// The workspace's packages with features, by what cargo knows of them.
fn cases() -> Result<Vec<Case>, String> {
    let text = quiet(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages.flat_map(of_package).collect())
}

fn of_package(package: &Value) -> Vec<Case> {
    let name = package["name"].as_str().unwrap_or_default();
    let features = package["features"].as_object().into_iter().flat_map(|all| all.keys());
    let features: Vec<&String> = features.filter(|feature| *feature != "default").collect();
    if features.is_empty() {
        return Vec::new();
    }
    let case = |feature: Option<&String>| Case { package: name.into(), feature: feature.cloned() };
    std::iter::once(None).chain(features.into_iter().map(Some)).map(case).collect()
}

impl Case {
    fn check(&self) -> Result<(), String> {
        // Flags for rustc would build all dependencies anew; warnings are shown as they are.
        let said = quiet(self.select(&mut cargo(["check", "-q", "--message-format", "json"])))?;
        let warnings: Vec<String> = said.lines().filter_map(warning).collect();
        if !warnings.is_empty() {
            return Err(warnings.join("\n"));
        }
        let mut doc = cargo(["doc", "-q", "--no-deps", "--lib"]);
        match quiet(self.select(&mut doc).env("RUSTDOCFLAGS", "-D warnings")) {
            Err(why) if why.contains("no library targets found") => Ok(()),
            done => done.map(drop),
        }
    }

    fn select<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.args(["-p", &self.package, "--no-default-features"]);
        if let Some(feature) = &self.feature {
            command.args(["--features", feature]);
        }
        command
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.feature {
            Some(feature) => write!(f, "{} with {feature}", self.package),
            None => write!(f, "{} with no feature", self.package),
        }
    }
}

/// What the compiler has to say about our own code, if this line of its output is that.
fn warning(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    let rendered = message["message"]["rendered"].as_str()?;
    let ours = message["reason"] == "compiler-message" && message["message"]["level"] == "warning";
    ours.then(|| rendered.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_checked_alone_and_none_too() {
        let package: Value = serde_json::from_str(
            r#"{"name": "some", "features": {"default": ["a"], "a": [], "b": []}}"#,
        )
        .unwrap();
        let cases: Vec<String> = of_package(&package).iter().map(Case::to_string).collect();
        assert_eq!(cases, ["some with no feature", "some with a", "some with b"]);
        let none: Value = serde_json::from_str(r#"{"name": "other", "features": {}}"#).unwrap();
        assert!(of_package(&none).is_empty());
    }

    #[test]
    fn a_warning_is_told_as_the_compiler_wrote_it() {
        let line = |level: &str| {
            format!(
                r#"{{"reason":"compiler-message","message":{{"level":"{level}","rendered":"dead"}}}}"#
            )
        };
        assert_eq!(warning(&line("warning")), Some("dead".to_owned()));
        assert_eq!(warning(&line("note")), None);
        assert_eq!(warning(r#"{"reason":"compiler-artifact"}"#), None);
    }
}
