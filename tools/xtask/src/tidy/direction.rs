//! Dependencies between the crates point one way.

use super::Violation;
use super::tree::{Dependency, Tree};

const NEXT: &str = "dependencies point one way: proto <- core <- quorum <- each backend <- leasehold <- \
                    cli, serve, cache, bench, chaos; serve <- cli; cache-redis <- filters, once, outbox <- cache (tools/xtask/src/tidy/direction.rs)";

/// What a crate is, by its name. A crate of a new name is taken for a backend.
#[derive(Clone, Copy, Debug)]
enum Role {
    Proto,
    Core,
    Quorum,
    /// The client of etcd, which knows nothing of locks.
    EtcdApi,
    Backend,
    Facade,
    CacheRedis,
    /// Uses a Redis server as the cache does, and can do without the cache.
    BesideCache,
    Cache,
    Serve,
    Cli,
    Bench,
    Chaos,
    Sim,
    Conformance,
    TestServers,
    Book,
    /// Reads what every crate reads.
    Fuzz,
    Xtask,
}

fn role(name: &str) -> Role {
    match name {
        "leasehold-proto" => Role::Proto,
        "leasehold-core" => Role::Core,
        "leasehold-quorum" => Role::Quorum,
        "leasehold-etcd-api" => Role::EtcdApi,
        "leasehold" => Role::Facade,
        "leasehold-cache-redis" => Role::CacheRedis,
        "leasehold-filters" | "leasehold-once" | "leasehold-outbox" => Role::BesideCache,
        "leasehold-cache" => Role::Cache,
        "leasehold-serve" => Role::Serve,
        "leasehold-cli" => Role::Cli,
        "leasehold-bench" => Role::Bench,
        "leasehold-chaos" => Role::Chaos,
        "leasehold-sim" => Role::Sim,
        "leasehold-conformance" => Role::Conformance,
        "leasehold-test-servers" => Role::TestServers,
        "leasehold-book" => Role::Book,
        "leasehold-fuzz" => Role::Fuzz,
        "xtask" => Role::Xtask,
        _ => Role::Backend,
    }
}

fn allowed(from: Role, to: Role, need: &Dependency) -> bool {
    use Role::{
        Backend, Bench, BesideCache, Cache, CacheRedis, Chaos, Cli, Conformance, Core, EtcdApi,
        Facade, Fuzz, Proto, Quorum, Serve, Sim, TestServers,
    };
    match (from, to) {
        (Core | Quorum | Backend | Facade | Cli | Bench | Sim | Conformance, Proto)
        | (Quorum | Backend | Facade | Cli | Bench | Conformance, Core)
        | (CacheRedis | BesideCache | Cache, Core)
        | (Backend | Facade, Quorum)
        | (Facade, Backend)
        | (Backend | Bench, EtcdApi)
        | (BesideCache | Cache | Serve | Cli | Bench, Facade)
        | (BesideCache | Cache, CacheRedis)
        | (Cache | Bench, BesideCache)
        | (Bench, Cache | Serve)
        | (Chaos, Facade)
        | (Fuzz, Core | Backend | CacheRedis | BesideCache | Cache | Serve)
        | (Bench | Chaos | Conformance, TestServers) => true,
        (Cli, Sim | BesideCache | Cache | Serve | Bench) => need.optional || need.dev,
        (Conformance, Quorum | Backend | Facade) => need.optional || need.dev,
        // The engine whose servers it keeps its values on.
        (CacheRedis, Backend) => need.name == "leasehold-redis",
        (Core | Quorum | Backend | Facade | Serve | Cli, Conformance | TestServers)
        | (BesideCache | Cache, Conformance | TestServers)
        | (BesideCache, Cache)
        | (Backend, Sim) => need.dev,
        _ => false,
    }
}

/// Checks what each member depends on.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for package in &tree.packages {
        let from = role(&package.name);
        for need in &package.needs {
            let member = tree.packages.iter().find(|other| other.name == need.name);
            let is_left_behind = member.is_some_and(|member| !member.is_published && !need.dev);
            if package.is_published && is_left_behind {
                let what = format!("{} is published, and {} is not", package.name, need.name);
                let next = "publish both, or move what it needs into a published crate";
                found.push(Violation::of(&package.manifest, what, next));
            }
            let what = if member.is_some() && !allowed(from, role(&need.name), need) {
                let kind = match need {
                    Dependency { dev: true, .. } => " (for tests)",
                    Dependency { optional: true, .. } => " (behind a feature)",
                    _ => "",
                };
                format!("{} may not depend on {}{kind}", package.name, need.name)
            } else if matches!(from, Role::Proto) && !need.dev {
                format!("{} has no dependencies, {} is one", package.name, need.name)
            } else {
                continue;
            };
            found.push(Violation::of(&package.manifest, what, NEXT));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tree::packages;
    use super::*;

    /// The violations of a workspace in which the first depends on the second.
    fn planted(from: &str, to: &str, kind: Value, optional: bool) -> usize {
        let dependency = json!({ "name": to, "kind": kind, "optional": optional });
        let metadata = json!({ "workspace_root": "/r", "packages": [
            { "name": from, "manifest_path": "/r/a/Cargo.toml", "dependencies": [dependency] },
            { "name": to, "manifest_path": "/r/b/Cargo.toml", "dependencies": [] },
        ]});
        let found = check(&Tree { packages: packages(&metadata), ..Tree::default() });
        assert!(found.iter().all(|violation| violation.file == "a/Cargo.toml"));
        found.len()
    }

    #[test]
    fn arrows_of_the_design_are_allowed() {
        for (from, to) in [
            ("leasehold-core", "leasehold-proto"),
            ("leasehold-redis", "leasehold-core"),
            ("leasehold", "leasehold-etcd"),
            ("leasehold-etcd", "leasehold-etcd-api"),
            ("leasehold-bench", "leasehold-etcd-api"),
            ("leasehold-cli", "leasehold"),
            ("leasehold-serve", "leasehold"),
            ("leasehold-cache-redis", "leasehold-redis"),
            ("leasehold-outbox", "leasehold-cache-redis"),
            ("leasehold-cache", "leasehold-outbox"),
            ("leasehold-sim", "leasehold-proto"),
            ("leasehold-bench", "leasehold-test-servers"),
            ("leasehold-chaos", "leasehold"),
            ("leasehold-fuzz", "leasehold-redis"),
            ("leasehold-fuzz", "leasehold-serve"),
        ] {
            assert_eq!(planted(from, to, Value::Null, false), 0, "{from} -> {to}");
        }
        assert_eq!(planted("leasehold-file", "leasehold-conformance", json!("dev"), false), 0);
        assert_eq!(planted("leasehold-redis", "leasehold-sim", json!("dev"), false), 0);
        assert_eq!(planted("leasehold-cli", "leasehold-sim", Value::Null, true), 0);
        assert_eq!(planted("leasehold-cli", "leasehold-bench", Value::Null, true), 0);
        assert_eq!(planted("leasehold-cli", "leasehold-serve", Value::Null, true), 0);
        assert_eq!(planted("leasehold-conformance", "leasehold-file", Value::Null, true), 0);
    }

    #[test]
    fn arrows_back_and_across_are_not() {
        for (from, to) in [
            ("leasehold-core", "leasehold-redis"),
            ("leasehold-redis", "leasehold-sql"),
            ("leasehold-etcd-api", "leasehold-core"),
            ("leasehold", "leasehold-etcd-api"),
            ("leasehold-redis", "leasehold"),
            ("leasehold-cli", "leasehold-redis"),
            ("leasehold-cache", "leasehold-sql"),
            ("leasehold-cache", "leasehold-redis"),
            ("leasehold-filters", "leasehold-redis"),
            ("leasehold-outbox", "leasehold-cache"),
            ("leasehold-cache-redis", "leasehold-cache"),
            ("leasehold-cli", "leasehold-sim"),
            ("leasehold-cli", "leasehold-bench"),
            ("leasehold-cli", "leasehold-serve"),
            ("leasehold-serve", "leasehold-redis"),
            ("leasehold-serve", "leasehold-cli"),
            ("leasehold-sim", "leasehold-core"),
            ("leasehold-redis", "leasehold-sim"),
            ("leasehold-file", "leasehold-conformance"),
            ("leasehold-file", "leasehold-test-servers"),
            ("leasehold-test-servers", "leasehold-core"),
            ("leasehold-redis", "leasehold-fuzz"),
            ("leasehold-fuzz", "leasehold-cli"),
            ("leasehold-conformance", "leasehold-file"),
            ("xtask", "leasehold-core"),
            ("leasehold-core", "xtask"),
        ] {
            assert_eq!(planted(from, to, Value::Null, false), 1, "{from} -> {to}");
        }
    }

    #[test]
    fn a_published_crate_depends_on_no_unpublished_one_but_for_its_tests() {
        let with = |kind: Value, from: Value, to: Value| {
            let need = json!({ "name": "leasehold-bench", "kind": kind, "optional": true });
            let metadata = json!({ "workspace_root": "/r", "packages": [
                { "name": "leasehold-cli", "manifest_path": "/r/a", "publish": from, "dependencies": [need] },
                { "name": "leasehold-bench", "manifest_path": "/r/b", "publish": to, "dependencies": [] },
            ]});
            check(&Tree { packages: packages(&metadata), ..Tree::default() }).len()
        };
        assert_eq!(with(Value::Null, Value::Null, json!([])), 1);
        assert_eq!(with(Value::Null, json!(["internal"]), json!([])), 1);
        assert_eq!(with(Value::Null, Value::Null, Value::Null), 0);
        assert_eq!(with(Value::Null, json!([]), json!([])), 0);
        assert_eq!(with(json!("dev"), Value::Null, json!([])), 0);
    }

    #[test]
    fn proto_depends_on_nothing_but_for_its_tests() {
        let with = |kind: Value| {
            let dependency = json!({ "name": "serde", "kind": kind, "optional": true });
            let metadata = json!({ "workspace_root": "/r", "packages": [
                { "name": "leasehold-proto", "manifest_path": "/r/p", "dependencies": [dependency] },
            ]});
            check(&Tree { packages: packages(&metadata), ..Tree::default() }).len()
        };
        assert_eq!(with(Value::Null), 1);
        assert_eq!(with(json!("build")), 1);
        assert_eq!(with(json!("dev")), 0);
    }
}
