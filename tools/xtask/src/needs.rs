//! What the tests need beside Rust and its linker: one row per program.

use std::env;
use std::path::{Path, PathBuf};

use crate::install::{self, Need};

/// All of them, and nothing else, is installed by `cargo xtask test`.
pub(crate) const NEEDS: &[Need] = &[
    Need {
        programs: &["strace"],
        package: "strace",
        name: Some("strace"),
        why: "crash tests end a program at a chosen system call",
    },
    Need {
        programs: &["redis-server", "valkey-server"],
        package: "redis-server",
        name: Some("redis"),
        why: "the tests of the redis backend start servers of their own",
    },
    Need {
        programs: &["etcd"],
        package: "etcd-server",
        name: Some("etcd"),
        why: "the tests of the etcd backend start servers of their own",
    },
    Need {
        programs: &["etcdctl"],
        package: "etcd-client",
        name: Some("etcdctl"),
        why: "locks in the format of `etcdctl lock` are tested beside it",
    },
    Need {
        programs: &["openssl"],
        package: "openssl",
        name: Some("openssl"),
        why: "makes the certificates of servers that are tested with TLS",
    },
    Need {
        programs: &["postgres", "/usr/lib/postgresql/*/bin/postgres"],
        package: "postgresql",
        name: Some("postgres"),
        why: "the tests of the sql backend start servers of their own",
    },
    Need {
        programs: &["mariadbd"],
        package: "mariadb-server",
        name: Some("mysql"),
        why: "the tests of the sql backend start servers of their own",
    },
    Need {
        programs: &["pgbouncer"],
        package: "pgbouncer",
        name: Some("pgbouncer"),
        why: "the sql backend is tested behind a pooler in transaction mode",
    },
    Need {
        programs: &["nats-server"],
        package: "nats-server",
        name: Some("nats"),
        why: "the relay of invalidations is tested with NATS JetStream",
    },
    Need {
        programs: &["/usr/share/java/zookeeper.jar"],
        package: "zookeeper",
        name: Some("zookeeper"),
        why: "the tests of the zookeeper backend start servers of their own",
    },
    Need {
        programs: &["/usr/lib/python3/dist-packages/redis/lock.py"],
        package: "python3-redis",
        name: Some("redis-py"),
        why: "locks in the format of redis-py are tested beside it",
    },
    Need {
        programs: &["/usr/lib/python3/dist-packages/kazoo/recipe/lock.py"],
        package: "python3-kazoo",
        name: Some("kazoo"),
        why: "locks in the format of kazoo are tested beside it",
    },
    Need {
        programs: &["java"],
        package: "default-jre-headless",
        name: None,
        why: "runs the zookeeper server",
    },
    Need {
        programs: &["chromium", "chromium-browser", "google-chrome"],
        package: "chromium",
        name: Some("chromium"),
        why: "opens the pages of `leasehold serve` as a user does",
    },
];

/// The directories where Debian installs servers, which are not in every user's `PATH`.
const SBIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Sees to it that all is there; what was installed for that.
pub(crate) fn ensure() -> Result<Vec<&'static str>, String> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    install::install(&missing)?;
    match self::missing().first() {
        None => Ok(missing.iter().map(|need| need.package).collect()),
        Some(need) => Err(format!(
            "the package {} is installed, but brings none of: {}",
            need.package,
            need.programs.join(", ")
        )),
    }
}

/// The value of `LEASEHOLD_REQUIRE`: the tests of these fail when their program is missing,
/// instead of being ignored.
pub(crate) fn required() -> String {
    NEEDS.iter().filter_map(|need| need.name).collect::<Vec<_>>().join(",")
}

fn missing() -> Vec<&'static Need> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> =
        env::split_paths(&path).chain(SBIN.iter().map(PathBuf::from)).collect();
    let there = |need: &Need| need.programs.iter().any(|program| found(program, &dirs));
    NEEDS.iter().filter(|need| !there(need)).collect()
}

fn found(program: &str, dirs: &[PathBuf]) -> bool {
    if program.contains('/') {
        let parts: Vec<&str> = program.trim_start_matches('/').split('/').collect();
        return matches(Path::new("/"), &parts);
    }
    dirs.iter().any(|dir| dir.join(program).is_file())
}

fn matches(dir: &Path, parts: &[&str]) -> bool {
    match parts {
        [] => dir.is_file(),
        ["*", rest @ ..] => {
            let entries = dir.read_dir().into_iter().flatten().flatten();
            entries.into_iter().any(|entry| matches(&entry.path(), rest))
        }
        [part, rest @ ..] => matches(&dir.join(part), rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_program_is_found_by_name_and_behind_a_star() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("17/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("postgres"), "").unwrap();
        assert!(found("postgres", std::slice::from_ref(&bin)));
        assert!(!found("mysqld", &[bin]));
        let root = dir.path().display();
        assert!(found(&format!("{root}/*/bin/postgres"), &[]));
        assert!(!found(&format!("{root}/*/bin/mysqld"), &[]));
        assert!(!found(&format!("{root}/*/bin"), &[]));
    }

    #[test]
    fn every_row_is_filled_in_and_named_once() {
        let mut names: Vec<_> = NEEDS.iter().filter_map(|need| need.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NEEDS.iter().filter(|need| need.name.is_some()).count());
        for need in NEEDS {
            assert!(!need.programs.is_empty() && !need.why.is_empty(), "{need:?}");
            assert!(!need.package.contains(' '), "{need:?}");
        }
    }
}
