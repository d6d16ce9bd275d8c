//! `cargo xtask package`: packs the crates as they are published, and builds a new project against the packages.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::run::{cargo, quiet, root};
use crate::tidy;
use crate::ui::{Outcome, step};

/// A program of a user: it depends on the packages by version alone, and holds a lock.
const PROGRAM: &str = r#"//! Holds a lock.

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let store = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let client = leasehold::connect(&store).await?;
    let guard = client.lock("orders/555").acquire().await?;
    println!("held with token {}", guard.token());
    guard.release().await?;
    client.close().await;
    Ok(())
}
"#;

/// Packs all crates, and checks the features that are named, one by one; `file` without any.
pub(crate) fn package(args: &[String]) -> Result<bool, String> {
    let order = order(&metadata()?);
    let packed = step("pack", || match pack(&order) {
        Ok(()) => {
            Outcome::Good(format!("{} crates, in this order: {}", order.len(), order.join(", ")))
        }
        Err(why) => Outcome::Bad(why),
    });
    if !packed {
        return Ok(false);
    }
    let features: Vec<&str> = match args {
        [] => vec!["file"],
        args => args.iter().map(String::as_str).collect(),
    };
    Ok(features.iter().all(|feature| {
        step(feature, || match use_packages(&order, feature) {
            Ok(said) => Outcome::Good(said.trim().to_owned()),
            Err(why) => Outcome::Bad(why),
        })
    }))
}

fn metadata() -> Result<Value, String> {
    let text = quiet(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// Returns the published crates, each behind those that it depends on: the order in which they are published.
fn order(metadata: &Value) -> Vec<String> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_published =
        |package: &Value| package["publish"].as_array().is_none_or(|all| !all.is_empty());
    let mut left: BTreeMap<String, Vec<String>> = items(&metadata["packages"])
        .iter()
        .filter(|package| is_published(package))
        .map(|package| {
            let needs = items(&package["dependencies"]);
            let needs =
                needs.iter().filter(|need| need["kind"] != "dev").map(|need| text(&need["name"]));
            (text(&package["name"]), needs.collect())
        })
        .collect();
    let mut order = Vec::new();
    // A circle, which cargo refuses anyway, is left out.
    while let Some(next) = left
        .iter()
        .find(|(_, needs)| needs.iter().all(|need| !left.contains_key(need)))
        .map(|(name, _)| name.clone())
    {
        left.remove(&next);
        order.push(next);
    }
    order
}

/// Packs them into `target/package`. Building each is left to the project that uses them.
fn pack(order: &[String]) -> Result<(), String> {
    let pack = ["package", "-q", "--workspace", "--no-verify", "--allow-dirty", "--locked"];
    let others = tidy::unpublished()?.into_iter().flat_map(|name| ["--exclude".to_owned(), name]);
    quiet(cargo(pack).args(others))?;
    let version = version()?;
    let missing = order.iter().find(|name| !archive(name, &version).is_file());
    missing.map_or(Ok(()), |name| {
        Err(format!("{} was not written", archive(name, &version).display()))
    })
}

fn version() -> Result<String, String> {
    let metadata = metadata()?;
    let facade = metadata["packages"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["name"] == "leasehold"));
    let version = facade.and_then(|facade| facade["version"].as_str());
    version.map(str::to_owned).ok_or_else(|| "there is no crate leasehold".to_owned())
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn archive(name: &str, version: &str) -> PathBuf {
    target().join("package").join(format!("{name}-{version}.crate"))
}

/// Builds and runs a project outside the workspace that depends on the packages, with one feature.
fn use_packages(order: &[String], feature: &str) -> Result<String, String> {
    let (version, place) = (
        version()?,
        std::env::temp_dir().join(format!("leasehold-package-{}", std::process::id())),
    );
    let done = in_project(order, feature, &version, &place);
    let _ = fs::remove_dir_all(&place);
    done
}

fn in_project(
    order: &[String],
    feature: &str,
    version: &str,
    place: &Path,
) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    fs::create_dir_all(place.join("src")).map_err(failed)?;
    for name in order {
        quiet(Command::new("tar").arg("-xzf").arg(archive(name, version)).current_dir(place))?;
    }
    fs::write(place.join("Cargo.toml"), manifest(order, feature, version)).map_err(failed)?;
    fs::write(place.join("src/main.rs"), PROGRAM).map_err(failed)?;
    // The versions of other crates that the workspace was tested with.
    fs::copy(root().join("Cargo.lock"), place.join("Cargo.lock")).map_err(failed)?;
    let store = match feature {
        "file" => format!("file:{}/locks", place.display()),
        _ => "memory:".to_owned(),
    };
    let built = ["run", "-q", "--", &store];
    quiet(cargo(built).current_dir(place).env("CARGO_TARGET_DIR", target().join("package-check")))
}

/// The manifest of a user's project. The packages stand in for those of the registry.
fn manifest(order: &[String], feature: &str, version: &str) -> String {
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let patch: String =
        order.iter().map(|name| format!("{name} = {{ path = \"{name}-{version}\" }}\n")).collect();
    format!(
        "[package]\nname = \"user\"\nversion = \"1.0.0\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\n\
         leasehold = {{ version = \"{minor}\", default-features = false, features = [\"{feature}\"] }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n[patch.crates-io]\n{patch}\n[workspace]\n"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crates_are_published_behind_those_that_they_need() {
        let need = |name: &str, kind: Value| json!({ "name": name, "kind": kind });
        let metadata = json!({ "packages": [
            { "name": "a", "publish": null, "dependencies": [need("c", Value::Null), need("tests", json!("dev"))] },
            { "name": "b", "publish": null, "dependencies": [need("a", Value::Null), need("serde", Value::Null)] },
            { "name": "c", "publish": null, "dependencies": [need("b", json!("dev"))] },
            { "name": "tests", "publish": [], "dependencies": [] },
        ]});
        assert_eq!(order(&metadata), ["c", "a", "b"]);
    }

    #[test]
    fn a_project_names_versions_and_the_packages_stand_in() {
        let text = manifest(&["leasehold".to_owned()], "redis", "0.2.1");
        assert!(
            text.contains("leasehold = { version = \"0.2\", default-features = false"),
            "{text}"
        );
        assert!(text.contains("leasehold = { path = \"leasehold-0.2.1\" }"), "{text}");
    }
}
