//! Other lock libraries: small programs in `tools/peers`, built only when they are asked for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;

use crate::Result;
use crate::progress::Progress;
use crate::runtime::Flavour;
use crate::talk::Talk;

/// A library, by its package's name.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Peer {
    Rslock,
    RedisPy,
    Redsync,
    Rueidislock,
    Redisson,
    Curator,
    Pottery,
    NodeRedlock,
    GoEtcd,
    Jetcd,
    Kazoo,
    BsmRedislock,
    Spring,
    Shedlock,
}

/// What programs can be asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Job {
    Pairs,
    Contention,
    Quorum,
    Readers,
    Semaphore,
    Interop,
}

/// A lock of a library whose program is there.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// What the figures call it.
    pub(crate) subject: &'static str,
    /// Which of the library's locks.
    pub(crate) lock: &'static str,
    /// Those of its process ask the server one at a time.
    pub(crate) asks_once: bool,
    peer: Peer,
    command: Vec<OsString>,
}

impl Peer {
    /// Their names, in order.
    pub(crate) const NAMES: [&str; 14] = [
        "rslock",
        "redis-py",
        "redsync",
        "rueidislock",
        "redisson",
        "curator",
        "pottery",
        "node-redlock",
        "go-etcd",
        "jetcd",
        "kazoo",
        "bsm-redislock",
        "spring",
        "shedlock",
    ];

    /// Its folder below `tools/peers`, and its package.
    fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The engine that it works on.
    pub(crate) fn engine(self) -> &'static str {
        match self {
            Self::Curator | Self::Kazoo => "zookeeper",
            Self::GoEtcd | Self::Jetcd => "etcd",
            Self::Shedlock => "postgres",
            _ => "redis",
        }
    }

    /// The version of its package, which the peer's folder names.
    fn version(self) -> Result<String> {
        let (file, before) = match self {
            Self::Rslock => ("Cargo.lock", "name = \"rslock\""),
            Self::RedisPy | Self::Pottery | Self::Kazoo => ("requirements.txt", "=="),
            Self::Redsync => ("go.mod", "/redsync/v4 v"),
            Self::Rueidislock => ("go.mod", "/rueidis v"),
            Self::BsmRedislock => ("go.mod", "/redislock v"),
            Self::GoEtcd => ("go.mod", "/client/v3 v"),
            Self::Redisson => ("pom.xml", "<artifactId>redisson</artifactId>"),
            Self::Curator => ("pom.xml", "<artifactId>curator-recipes</artifactId>"),
            Self::Jetcd => ("pom.xml", "<artifactId>jetcd-core</artifactId>"),
            Self::Spring => ("pom.xml", "<artifactId>spring-integration-redis</artifactId>"),
            Self::Shedlock => {
                ("pom.xml", "<artifactId>shedlock-provider-jdbc-template</artifactId>")
            }
            Self::NodeRedlock => ("package.json", "\"redlock\":"),
        };
        let path = root().join("tools/peers").join(self.name()).join(file);
        let text = std::fs::read_to_string(&path)?;
        let rest = text.split_once(before).map(|(_, rest)| rest);
        let rest = rest.and_then(|rest| rest.find(char::is_numeric).map(|at| &rest[at..]));
        let rest = rest.ok_or_else(|| format!("{}: no version", path.display()))?;
        Ok(rest
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
            .collect())
    }

    /// What the figures call the locks that do the job, and what its program calls them. Pairs on
    /// one server in another language would compare languages.
    fn locks(self, job: Job) -> &'static [(&'static str, &'static str)] {
        match (self, job) {
            (Self::Redisson, Job::Readers) => &[("redisson-rw", "rw")],
            (Self::Curator, Job::Readers) => &[("curator-rw", "rw")],
            (Self::Redisson, Job::Semaphore) => &[("redisson-permits", "permits")],
            (Self::Curator, Job::Semaphore) => &[("curator-permits", "permits")],
            (Self::Redisson, Job::Interop) => &[
                ("redisson-rlock", "lock"),
                ("redisson-fair", "fair"),
                ("redisson-fenced", "fenced"),
                ("redisson-spin", "spin"),
                ("redisson-write", "write"),
            ],
            (Self::Curator, Job::Interop) => &[("curator-mutex", "mutex")],
            // Over one server, and over three.
            (Self::Rslock, Job::Interop) => &[("rslock", "lock"), ("rslock-3", "lock")],
            (Self::Redsync, Job::Interop) => &[("redsync", "lock"), ("redsync-3", "lock")],
            (Self::NodeRedlock, Job::Interop) => {
                &[("node-redlock", "lock"), ("node-redlock-3", "lock")]
            }
            (Self::Rueidislock, Job::Interop) => {
                &[("rueidislock-1", "lock"), ("rueidislock-2", "majority-2")]
            }
            (Self::GoEtcd, Job::Interop) => &[("go-etcd", "lock")],
            (Self::Jetcd, Job::Interop) => &[("jetcd", "lock")],
            (Self::Pottery, Job::Interop) => &[("pottery", "lock"), ("pottery-3", "lock")],
            (Self::Kazoo, Job::Interop) => &[("kazoo", "lock")],
            (Self::BsmRedislock, Job::Interop) => &[("bsm-redislock", "lock")],
            (Self::Spring, Job::Interop) => &[("spring", "lock"), ("spring-pub-sub", "pub-sub")],
            (Self::Shedlock, Job::Interop) => &[("shedlock", "lock"), ("shedlock-mysql", "lock")],
            (
                Self::NodeRedlock
                | Self::GoEtcd
                | Self::Jetcd
                | Self::Kazoo
                | Self::BsmRedislock
                | Self::Spring
                | Self::Shedlock,
                _,
            ) => &[],
            (_, Job::Readers | Job::Semaphore) => &[],
            (Self::Rslock, _) => &[("rslock", "lock")],
            (_, Job::Pairs) => &[],
            (Self::Redsync, _) => &[("redsync", "lock")],
            (Self::Redisson, Job::Quorum) => &[("redisson-redlock", "lock")],
            (Self::Pottery, Job::Quorum) => &[("pottery", "lock")],
            (Self::Redisson, Job::Contention) => {
                &[("redisson-rlock", "lock"), ("redisson-fair", "fair")]
            }
            (Self::RedisPy, Job::Contention | Job::Interop) => &[("redis-py", "lock")],
            (Self::Rueidislock, Job::Contention) => &[("rueidislock", "lock")],
            _ => &[],
        }
    }

    /// Builds its program, and says how it is started.
    fn build(self) -> Result<Vec<OsString>> {
        let source = root().join("tools/peers").join(self.name());
        let target = root().join("target/peers").join(self.name());
        std::fs::create_dir_all(&target)?;
        let at = |path: &str| target.join(path).into_os_string();
        let command = |program: &str| {
            let mut command = Command::new(program);
            command.current_dir(&source);
            command
        };
        match self {
            Self::Rslock => {
                let mut cargo = command(&std::env::var("CARGO").unwrap_or("cargo".to_owned()));
                cargo.args(["build", "-q", "--release", "--locked", "--target-dir"]);
                quiet(cargo.arg(&target))?;
                Ok(vec![at("release/rslock-peer")])
            }
            Self::Redsync => {
                quiet(command("go").args(["build", "-o"]).arg(at("peer")).arg("."))?;
                Ok(vec![at("peer")])
            }
            Self::Rueidislock | Self::GoEtcd | Self::BsmRedislock => {
                // It has no go.sum, and the source is not the place where one is made.
                let copy = target.join("source");
                std::fs::create_dir_all(&copy)?;
                for file in ["main.go", "contend.go", "go.mod"] {
                    std::fs::copy(source.join(file), copy.join(file))?;
                }
                let mut go = command("go");
                go.current_dir(&copy).args(["build", "-mod=mod", "-o"]);
                quiet(go.arg(at("peer")).arg("."))?;
                Ok(vec![at("peer")])
            }
            Self::RedisPy | Self::Pottery | Self::Kazoo => {
                quiet(command("python3").args(["-m", "venv"]).arg(at("venv")))?;
                let mut pip = command(&target.join("venv/bin/pip").to_string_lossy());
                let quietly = ["install", "-q", "--disable-pip-version-check", "-r"];
                quiet(pip.args(quietly).arg("requirements.txt"))?;
                // Without files of bytecode beside the sources.
                Ok(vec![at("venv/bin/python"), "-B".into(), source.join("peer.py").into()])
            }
            Self::NodeRedlock => {
                std::fs::copy(source.join("package.json"), target.join("package.json"))?;
                let mut npm = command("npm");
                npm.current_dir(&target).args(["install", "--silent", "--no-audit", "--no-fund"]);
                quiet(&mut npm)?;
                let mut packages = OsString::from("NODE_PATH=");
                packages.push(at("node_modules"));
                Ok(vec!["env".into(), packages, "node".into(), source.join("peer.js").into()])
            }
            Self::Redisson | Self::Curator | Self::Jetcd | Self::Spring | Self::Shedlock => {
                let shared = root().join("tools/peers/java");
                let libraries = format!("-DoutputDirectory={}", target.join("lib").display());
                quiet(command("mvn").args([
                    "-q",
                    "-B",
                    "dependency:copy-dependencies",
                    &libraries,
                ]))?;
                let path = format!("{}/classes:{0}/lib/*", target.display());
                let mut javac = command("javac");
                javac.arg("-d").arg(at("classes")).args(["-cp", &path]);
                quiet(javac.args(java_files(&source)?).args(java_files(&shared)?))?;
                let options =
                    ["-cp", &path, "-Xmx256m", "-Dorg.slf4j.simpleLogger.logFile=/dev/null"];
                let words = ["java"].into_iter().chain(options).chain(["Peer"]);
                Ok(words.map(OsString::from).collect())
            }
        }
    }
}

impl Built {
    /// The engine that it works on.
    pub(crate) fn engine(&self) -> &'static str {
        if self.subject.ends_with("-mysql") { "mysql" } else { self.peer.engine() }
    }

    /// The number of independent servers that its lock is over.
    pub(crate) fn servers(&self) -> usize {
        if self.subject.ends_with("-3") { 3 } else { 1 }
    }

    /// The version of the library.
    pub(crate) fn version(&self) -> Result<String> {
        self.peer.version()
    }

    /// What its program calls the lock that is renewed until it is released, if there is one.
    pub(crate) fn renewed(&self) -> Option<&'static str> {
        match self.peer {
            Peer::Redisson | Peer::Rueidislock => Some(self.lock),
            // Their sessions are kept alive.
            Peer::Curator | Peer::Kazoo | Peer::GoEtcd | Peer::Jetcd => Some(self.lock),
            Peer::NodeRedlock => Some("using"),
            Peer::Shedlock => Some("extended"),
            Peer::Spring => Some(match self.lock {
                "pub-sub" => "pub-sub-renewed",
                _ => "renewed",
            }),
            Peer::Rslock | Peer::RedisPy | Peer::Redsync | Peer::Pottery | Peer::BsmRedislock => {
                None
            }
        }
    }

    /// How its program is called.
    pub(crate) fn command(&self, words: &[String]) -> Result<Command> {
        let (program, options) = self.command.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        command.args(options).args(words);
        Ok(command)
    }

    /// Starts its program.
    pub(crate) fn start(&self, words: &[String]) -> Result<Talk> {
        Talk::start(self.subject, self.command(words)?)
    }

    /// How long its program takes to get going: a virtual machine compiles what it runs often.
    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_secs(if self.peer == Peer::Redisson { 2 } else { 0 })
    }

    /// The runtimes that make a difference to it; others have threads of their own.
    pub(crate) fn runtimes<'a>(&self, asked: &'a [Flavour]) -> &'a [Flavour] {
        match self.peer {
            Peer::Rslock => asked,
            _ => &[Flavour::Multi],
        }
    }
}

/// Those of the libraries that have one of these locks, or all if none is named.
pub(crate) fn with_one_of(peers: &[Peer], job: Job, locks: &[String]) -> Vec<Peer> {
    let has = |peer: &&Peer| {
        let names = peer.locks(job).iter().map(|(subject, _)| subject);
        locks.is_empty() || names.into_iter().any(|name| locks.iter().any(|lock| lock == name))
    };
    peers.iter().filter(has).copied().collect()
}

/// Builds those that are wanted and can do the job; the notes name those that could not be built, and why.
pub(crate) fn build(wanted: &[Peer], job: Job) -> (Vec<Built>, Vec<String>) {
    let can = |peer: &Peer| !peer.locks(job).is_empty();
    let wanted: Vec<Peer> = wanted.iter().copied().filter(can).collect();
    let progress = Progress::of(wanted.len());
    let (mut built, mut notes) = (Vec::new(), Vec::new());
    for peer in wanted {
        progress.begin(format!("building {}", peer.name()));
        match peer.build() {
            Ok(command) => built.extend(peer.locks(job).iter().map(|(subject, lock)| Built {
                subject,
                lock,
                asks_once: peer == Peer::Rueidislock,
                peer,
                command: command.clone(),
            })),
            Err(error) => notes.push(format!("{} is missing: {error}", peer.name())),
        }
        progress.done();
    }
    (built, notes)
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// The Java files of a folder.
fn java_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let paths = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths = paths.collect::<Result<Vec<PathBuf>>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "java")).collect())
}

/// Runs it out of sight; an error has the end of what it said.
fn quiet(command: &mut Command) -> Result<()> {
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{program}` cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let end = lines[lines.len().saturating_sub(4)..].join("; ");
    Err(format!("`{program}` failed ({}): {end}", output.status).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_names_the_version_of_its_library() {
        for peer in Peer::value_variants() {
            let version = peer.version().unwrap();
            let parts: Vec<&str> = version.split('.').collect();
            assert!(parts.len() >= 3, "{}: {version}", peer.name());
            assert!(parts[0].parse::<u32>().is_ok(), "{}: {version}", peer.name());
        }
        assert_eq!(Peer::NodeRedlock.version().unwrap(), "5.0.0-beta.2");
    }
}
