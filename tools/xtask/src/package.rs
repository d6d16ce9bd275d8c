//! `cargo xtask package`: packs the crates as they are published, and builds a new project against the packages.

mod project;
mod server;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::run::{cargo, quiet, root};
use crate::tidy;
use crate::ui::{Outcome, step};
use project::Project;

/// What each package has, beside its sources.
const IN_EACH: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Packs all crates, and checks the features that are named, one by one; `file` without any. `all` means each feature, then the
/// command.
pub(crate) fn package(args: &[String]) -> Result<bool, String> {
    let metadata = metadata()?;
    let (order, version) = (order(&metadata)?, version(&metadata)?);
    let packed = step("pack", || match pack(&order, &version) {
        Ok(()) => {
            Outcome::Good(format!("{} crates, in this order: {}", order.len(), order.join(", ")))
        }
        Err(why) => Outcome::Bad(why),
    });
    if !packed {
        return Ok(false);
    }
    let is_all = matches!(args, [all] if all == "all");
    let features = match args {
        [] => vec!["file".to_owned()],
        _ if is_all => features(&metadata),
        args => args.to_vec(),
    };
    let outcome = |said: Result<String, String>| match said {
        Ok(said) => Outcome::Good(said.trim().to_owned()),
        Err(why) => Outcome::Bad(why),
    };
    let place = outside()?;
    let project = Project::unpack(&order, &version, &features, &place)?;
    let mut all_good = true;
    for feature in &features {
        all_good &= step(feature, || outcome(project.hold(feature)));
    }
    if is_all {
        all_good &= step("command", || outcome(project.command()));
    }
    project.remove();
    Ok(all_good)
}

/// A folder outside the workspace.
fn outside() -> Result<PathBuf, String> {
    let place = std::env::temp_dir().join(format!("leasehold-package-{}", std::process::id()));
    match place.starts_with(root()) {
        true => {
            Err(format!("{} is in the workspace; set TMPDIR to another folder", place.display()))
        }
        false => Ok(place),
    }
}

fn metadata() -> Result<Value, String> {
    let text = quiet(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// Returns the published crates, each behind those that it depends on: the order in which they are published.
///
/// A dev-dependency with a version counts too: the registry must know it. One with a path alone is left out of the package.
fn order(metadata: &Value) -> Result<Vec<String>, String> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_published =
        |package: &Value| package["publish"].as_array().is_none_or(|all| !all.is_empty());
    let mut left: BTreeMap<String, Vec<String>> = items(&metadata["packages"])
        .iter()
        .filter(|package| is_published(package))
        .map(|package| {
            let needs = items(&package["dependencies"]);
            let needs = needs.iter().filter(|need| need["kind"] != "dev" || need["req"] != "*");
            (text(&package["name"]), needs.map(|need| text(&need["name"])).collect())
        })
        .collect();
    let mut order = Vec::new();
    while let Some(next) = left
        .iter()
        .find(|(_, needs)| needs.iter().all(|need| !left.contains_key(need)))
        .map(|(name, _)| name.clone())
    {
        left.remove(&next);
        order.push(next);
    }
    let circle: Vec<String> = left.into_keys().collect();
    match circle.is_empty() {
        true => Ok(order),
        false => Err(format!(
            "none of {} can be published first: they need each other. A dev-dependency that closes a circle has a path and no version",
            circle.join(", ")
        )),
    }
}

/// The features of the facade, without `default`.
fn features(metadata: &Value) -> Vec<String> {
    let facade = facade(metadata).and_then(|facade| facade["features"].as_object());
    let names = facade.into_iter().flat_map(|all| all.keys());
    names.filter(|name| *name != "default").cloned().collect()
}

fn version(metadata: &Value) -> Result<String, String> {
    let version = facade(metadata).and_then(|facade| facade["version"].as_str());
    version.map(str::to_owned).ok_or_else(|| "there is no crate leasehold".to_owned())
}

fn facade(metadata: &Value) -> Option<&Value> {
    metadata["packages"].as_array()?.iter().find(|one| one["name"] == "leasehold")
}

/// Packs them into `target/package`. Building each is left to the project that uses them.
fn pack(order: &[String], version: &str) -> Result<(), String> {
    let pack = ["package", "-q", "--workspace", "--no-verify", "--allow-dirty", "--locked"];
    let others = tidy::unpublished()?.into_iter().flat_map(|name| ["--exclude".to_owned(), name]);
    quiet(cargo(pack).args(others))?;
    for name in order {
        let archive = archive(name, version);
        let list = quiet(Command::new("tar").arg("-tzf").arg(&archive))?;
        lacks(&list).map_or(Ok(()), |file| {
            Err(format!(
                "{} has no {file}; a link in the folder of the crate brings it: ln -s ../../{file} .",
                archive.display()
            ))
        })?;
    }
    Ok(())
}

/// Which of the files that each package has is not in the list of an archive.
fn lacks(list: &str) -> Option<&'static str> {
    let is_there = |file: &&str| {
        list.lines().any(|line| line.split_once('/').is_some_and(|(_, path)| path == *file))
    };
    IN_EACH.into_iter().find(|file| !is_there(file))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn archive(name: &str, version: &str) -> PathBuf {
    target().join("package").join(format!("{name}-{version}.crate"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crates_are_published_behind_those_that_they_need() {
        let need =
            |name: &str, kind: Value, req: &str| json!({ "name": name, "kind": kind, "req": req });
        let metadata = json!({ "packages": [
            { "name": "a", "publish": null, "dependencies": [need("c", Value::Null, "^0.2"), need("tests", json!("dev"), "^0.2")] },
            { "name": "b", "publish": null, "dependencies": [need("a", Value::Null, "^0.2"), need("serde", Value::Null, "^1")] },
            { "name": "c", "publish": null, "dependencies": [need("b", json!("dev"), "*"), need("z", json!("dev"), "^0.2")] },
            { "name": "tests", "publish": [], "dependencies": [] },
            { "name": "z", "publish": null, "dependencies": [] },
        ]});
        assert_eq!(order(&metadata).unwrap(), ["z", "c", "a", "b"]);
        let circle = json!({ "packages": [
            { "name": "a", "publish": null, "dependencies": [need("b", json!("dev"), "^0.2")] },
            { "name": "b", "publish": null, "dependencies": [need("a", Value::Null, "^0.2")] },
        ]});
        assert!(order(&circle).unwrap_err().contains("none of a, b can be published first"));
    }

    #[test]
    fn a_package_without_a_licence_is_found() {
        let list = "a-1/Cargo.toml\na-1/README.md\na-1/LICENSE-APACHE\n";
        assert_eq!(lacks(list), Some("LICENSE-MIT"));
        assert_eq!(lacks(&format!("{list}a-1/src/LICENSE-MIT\n")), Some("LICENSE-MIT"));
        assert_eq!(lacks(&format!("{list}a-1/LICENSE-MIT\n")), None);
    }

    #[test]
    fn all_features_are_those_of_the_facade() {
        let metadata = json!({ "packages": [
            { "name": "other", "features": { "x": [] } },
            { "name": "leasehold", "version": "0.2.1", "features": { "default": ["file"], "file": [], "tls": [] } },
        ]});
        assert_eq!(features(&metadata), ["file", "tls"]);
        assert_eq!(version(&metadata).unwrap(), "0.2.1");
    }
}
