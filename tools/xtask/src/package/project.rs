//! A project of a user, outside the workspace, that depends on the packed crates by version alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::{self, Server};
use super::{archive, target};
use crate::run::{cargo, quiet, root};

/// What the project does: it holds a lock in the store that is named.
const PROGRAM: &str = r#"//! Holds a lock.

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let [store, feature] = [1, 2].map(|number| std::env::args().nth(number).expect("two arguments"));
    if let Some(url) = std::env::args().nth(3) {
        let missing = leasehold::missing_features(&url);
        assert!(!missing.contains(&feature.as_str()), "{url} needs {missing:?}");
    }
    let client = leasehold::connect(&store).await?;
    let guard = client.lock("orders/555").acquire().await?;
    println!("held with token {} on {}", guard.token(), store.split(':').next().unwrap_or_default());
    guard.release().await?;
    client.close().await;
    Ok(())
}
"#;

/// A URL that needs the feature; the store need not be there.
const URLS: [(&str, &str); 6] = [
    ("etcd", "etcd://127.0.0.1"),
    ("mysql", "mysql://127.0.0.1/app"),
    ("postgres", "postgres://127.0.0.1/app"),
    ("redis", "redis://127.0.0.1"),
    ("tls", "rediss://127.0.0.1"),
    ("zookeeper", "zookeeper://127.0.0.1"),
];

/// What the library has with a feature that is no store.
const ITEMS: [(&str, &str); 2] =
    [("fence-http", "leasehold::fence::http"), ("fence-redis", "leasehold::fence::redis")];

/// What every program of a user depends on beside us.
const TOKIO: &str = "tokio = { version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }";

/// The folder of the project, and the packages beside it.
pub(super) struct Project {
    place: PathBuf,
    order: Vec<String>,
    version: String,
    /// The program that starts servers, where it is needed.
    servers: Option<PathBuf>,
}

impl Project {
    /// Unpacks the packages below a new folder, and builds a program that starts servers if one of the features needs it.
    pub(super) fn unpack(
        order: &[String],
        version: &str,
        features: &[String],
        place: &Path,
    ) -> Result<Self, String> {
        let (order, version) = (order.to_vec(), version.to_owned());
        let mut project = Self { place: place.to_owned(), order, version, servers: None };
        let packages = project.packages();
        fs::create_dir_all(&packages)
            .map_err(|error| format!("{}: {error}", packages.display()))?;
        for name in &project.order {
            let archive = archive(name, &project.version);
            quiet(Command::new("tar").arg("-xzf").arg(archive).current_dir(&packages))?;
        }
        if features.iter().any(|feature| server::is_for(feature)) {
            let manifest =
                project.manifest("servers", &project.needs("leasehold-test-servers", None));
            project.servers = Some(project.build("servers", &manifest, server::PROGRAM)?);
        }
        Ok(project)
    }

    /// Removes all but what was built.
    pub(super) fn remove(self) {
        let _ = fs::remove_dir_all(&self.place);
    }

    /// Builds and runs a program with one feature, which holds a lock.
    pub(super) fn hold(&self, feature: &str) -> Result<String, String> {
        let needs = format!("{}{TOKIO}\n", self.needs("leasehold", Some(feature)));
        let program = self.build("user", &self.manifest("user", &needs), &program(feature))?;
        let server = match &self.servers {
            Some(servers) if server::is_for(feature) => Server::start(servers, feature)?,
            _ => None,
        };
        let store = server.as_ref().map_or_else(|| self.store(feature), |one| one.url.clone());
        let url = URLS.iter().find(|(known, _)| *known == feature).map(|(_, url)| *url);
        quiet(Command::new(program).args([&store, feature]).args(url))
    }

    /// Builds the command from its package, as `cargo install` does, and runs it.
    pub(super) fn command(&self) -> Result<String, String> {
        let folder = format!("leasehold-cli-{}", self.version);
        let (from, to) = (self.packages().join(&folder), self.folder("user").join("command"));
        fs::rename(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
        let order: Vec<String> =
            self.order.iter().filter(|name| *name != "leasehold-cli").cloned().collect();
        let text = manifest("user", "", &order, &self.version);
        let text = text.replace("[workspace]\n", "[workspace]\nmembers = [\"command\"]\n");
        self.write("user", &text, "fn main() {}\n")?;
        quiet(&mut self.cargo("user", ["build", "-q", "-p", "leasehold-cli"]))?;
        let store = format!("file:{}/of-the-command", self.place.display());
        quiet(
            Command::new(built("leasehold"))
                .args(["run", "job", "--", "echo", "the command holds a lock"])
                .env("LEASEHOLD_STORE", store),
        )
    }

    fn packages(&self) -> PathBuf {
        self.place.join("packages")
    }

    fn folder(&self, project: &str) -> PathBuf {
        self.place.join(project)
    }

    /// Builds a program of this name, and returns its path.
    fn build(&self, name: &str, manifest: &str, program: &str) -> Result<PathBuf, String> {
        self.write(name, manifest, program)?;
        quiet(&mut self.cargo(name, ["build", "-q"]))?;
        Ok(built(name))
    }

    fn cargo<const N: usize>(&self, project: &str, args: [&str; N]) -> Command {
        let mut command = cargo(args);
        command.current_dir(self.folder(project)).env("CARGO_TARGET_DIR", shared());
        command
    }

    fn write(&self, name: &str, manifest: &str, program: &str) -> Result<(), String> {
        let folder = self.folder(name);
        let write = || {
            fs::create_dir_all(folder.join("src"))?;
            fs::write(folder.join("Cargo.toml"), manifest)?;
            fs::write(folder.join("src/main.rs"), program)?;
            // The versions of other crates that the workspace was tested with.
            fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))
        };
        write().map(|_| ()).map_err(|error| format!("{}: {error}", folder.display()))
    }

    fn manifest(&self, name: &str, needs: &str) -> String {
        manifest(name, needs, &self.order, &self.version)
    }

    fn needs(&self, package: &str, feature: Option<&str>) -> String {
        needs(package, &self.version, feature)
    }

    /// The store of a feature that needs no server, or whose server is not installed.
    fn store(&self, feature: &str) -> String {
        let place = self.place.display();
        match feature {
            "file" => format!("file:{place}/locks"),
            "sqlite" => format!("sqlite:{place}/locks.db"),
            _ => "memory:".to_owned(),
        }
    }
}

/// The folder of all that is built, so that crates of others are compiled once for all features.
fn shared() -> PathBuf {
    target().join("package-check")
}

fn built(program: &str) -> PathBuf {
    shared().join("debug").join(program)
}

fn program(feature: &str) -> String {
    let item = ITEMS.iter().find(|(known, _)| *known == feature);
    let import = |(_, item): &(&str, &str)| format!("\n#[allow(unused_imports)]\nuse {item};\n");
    format!("{PROGRAM}{}", item.map(import).unwrap_or_default())
}

/// The line of a dependency, by the version that a user writes.
fn needs(package: &str, version: &str, feature: Option<&str>) -> String {
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let features =
        feature.map(|name| format!(", default-features = false, features = [\"{name}\"]"));
    format!("{package} = {{ version = \"{minor}\"{} }}\n", features.unwrap_or_default())
}

/// The manifest of a user's project. The packages stand in for those of the registry.
fn manifest(name: &str, needs: &str, order: &[String], version: &str) -> String {
    let patch: String = order
        .iter()
        .map(|name| format!("{name} = {{ path = \"../packages/{name}-{version}\" }}\n"))
        .collect();
    format!(
        "[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\n{needs}\n\
         [patch.crates-io]\n{patch}\n[profile.dev]\ndebug = false\nincremental = false\n\n[workspace]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_names_versions_and_the_packages_stand_in() {
        let needs = needs("leasehold", "0.2.1", Some("redis"));
        let text = manifest("user", &needs, &["leasehold".to_owned()], "0.2.1");
        assert!(
            text.contains(
                "leasehold = { version = \"0.2\", default-features = false, features = [\"redis\"] }"
            ),
            "{text}"
        );
        assert!(text.contains("leasehold = { path = \"../packages/leasehold-0.2.1\" }"), "{text}");
    }

    #[test]
    fn a_program_uses_what_only_its_feature_brings() {
        assert!(program("fence-http").contains("use leasehold::fence::http;"));
        assert_eq!(program("file"), PROGRAM);
    }
}
