//! A project of a user, outside the workspace, that depends on the packed crates by version alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::{archive, target};
use crate::run::{cargo, quiet, root};

/// What the project does: it holds a lock. The second argument is a URL of the feature, whose server need not run.
const PROGRAM: &str = r#"//! Holds a lock.

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let mut args = std::env::args().skip(1);
    let store = args.next().unwrap_or_else(|| "memory:".to_owned());
    if let Some(url) = args.next() {
        let missing = leasehold::missing_features(&url);
        assert!(missing.is_empty(), "{url} needs {missing:?}");
    }
    let client = leasehold::connect(&store).await?;
    let guard = client.lock("orders/555").acquire().await?;
    println!("held with token {} on {}", guard.token(), store.split(':').next().unwrap_or_default());
    guard.release().await?;
    client.close().await;
    Ok(())
}
"#;

/// URLs of the features that need a server.
const URLS: [(&str, &str); 5] = [
    ("etcd", "etcd://127.0.0.1"),
    ("mysql", "mysql://127.0.0.1/app"),
    ("postgres", "postgres://127.0.0.1/app"),
    ("redis", "redis://127.0.0.1"),
    ("zookeeper", "zookeeper://127.0.0.1"),
];

/// The folder of the project, and the packages beside it.
pub(super) struct Project {
    place: PathBuf,
    order: Vec<String>,
    version: String,
}

impl Project {
    /// Unpacks the packages below a new folder.
    pub(super) fn unpack(order: &[String], version: &str, place: &Path) -> Result<Self, String> {
        let project =
            Self { place: place.to_owned(), order: order.to_vec(), version: version.to_owned() };
        let packages = project.packages();
        for folder in [packages.clone(), project.user().join("src")] {
            fs::create_dir_all(&folder)
                .map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        for name in order {
            let archive = archive(name, version);
            quiet(Command::new("tar").arg("-xzf").arg(archive).current_dir(&packages))?;
        }
        Ok(project)
    }

    /// Removes all but what was built.
    pub(super) fn remove(self) {
        let _ = fs::remove_dir_all(&self.place);
    }

    /// Builds and runs a program with one feature, which holds a lock.
    pub(super) fn hold(&self, feature: &str) -> Result<String, String> {
        self.write(&manifest(&self.order, &self.version, Some(feature)))?;
        let (store, _server) = self.store(feature)?;
        let url = URLS.iter().find(|(known, _)| *known == feature).map(|(_, url)| *url);
        let run = ["run", "-q", "--", &store];
        quiet(self.cargo(run).args(url))
    }

    /// Builds the command from its package, as `cargo install` does, and runs it.
    pub(super) fn command(&self) -> Result<String, String> {
        let folder = format!("leasehold-cli-{}", self.version);
        let (from, to) = (self.packages().join(&folder), self.user().join("command"));
        fs::rename(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
        let order: Vec<String> =
            self.order.iter().filter(|name| *name != "leasehold-cli").cloned().collect();
        let text = manifest(&order, &self.version, None);
        self.write(&text.replace("[workspace]\n", "[workspace]\nmembers = [\"command\"]\n"))?;
        let run = ["run", "-q", "-p", "leasehold-cli", "--", "run", "job", "--"];
        let store = format!("file:{}/of-the-command", self.place.display());
        quiet(
            self.cargo(run)
                .args(["echo", "the command holds a lock"])
                .env("LEASEHOLD_STORE", store),
        )
    }

    fn packages(&self) -> PathBuf {
        self.place.join("packages")
    }

    fn user(&self) -> PathBuf {
        self.place.join("user")
    }

    fn cargo<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = cargo(args);
        command.current_dir(self.user()).env("CARGO_TARGET_DIR", target().join("package-check"));
        command
    }

    fn write(&self, manifest: &str) -> Result<(), String> {
        let user = self.user();
        let failed = |error: io::Error| format!("{}: {error}", user.display());
        fs::write(user.join("Cargo.toml"), manifest).map_err(failed)?;
        fs::write(user.join("src/main.rs"), PROGRAM).map_err(failed)?;
        // The versions of other crates that the workspace was tested with.
        fs::copy(root().join("Cargo.lock"), user.join("Cargo.lock")).map_err(failed)?;
        Ok(())
    }

    /// The store of a feature: files, or Redis where it is installed. The lock of another is in memory.
    fn store(&self, feature: &str) -> Result<(String, Option<Server>), String> {
        let place = self.place.display();
        Ok(match feature {
            "file" => (format!("file:{place}/locks"), None),
            "sqlite" => (format!("sqlite:{place}/locks.db"), None),
            "redis" => match Server::start(&self.place)? {
                Some(server) => (format!("redis+unix:{place}/redis.sock"), Some(server)),
                None => ("memory:".to_owned(), None),
            },
            _ => ("memory:".to_owned(), None),
        })
    }
}

/// A Redis server that ends with this value.
struct Server(Child);

impl Server {
    /// Returns `None` where none is installed.
    fn start(place: &Path) -> Result<Option<Self>, String> {
        let socket = place.join("redis.sock");
        let mut command = Command::new("redis-server");
        command.current_dir(place).args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else { return Ok(None) };
        let server = Self(child);
        for _ in 0..600 {
            if socket.exists() {
                return Ok(Some(server));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("redis-server does not listen on {}", socket.display()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The manifest of a user's project. The packages stand in for those of the registry.
fn manifest(order: &[String], version: &str, feature: Option<&str>) -> String {
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let patch: String = order
        .iter()
        .map(|name| format!("{name} = {{ path = \"../packages/{name}-{version}\" }}\n"))
        .collect();
    let features = feature.map(|name| format!("\"{name}\"")).unwrap_or_default();
    format!(
        "[package]\nname = \"user\"\nversion = \"1.0.0\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\n\
         leasehold = {{ version = \"{minor}\", default-features = false, features = [{features}] }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n[patch.crates-io]\n{patch}\n\
         [profile.dev]\ndebug = false\n\n[workspace]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_names_versions_and_the_packages_stand_in() {
        let text = manifest(&["leasehold".to_owned()], "0.2.1", Some("redis"));
        assert!(
            text.contains(
                "leasehold = { version = \"0.2\", default-features = false, features = [\"redis\"]"
            ),
            "{text}"
        );
        assert!(text.contains("leasehold = { path = \"../packages/leasehold-0.2.1\" }"), "{text}");
    }
}
