//! The committed code is what prost and tonic generate from the files in `proto`, without `protoc`.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::{env, fs};

/// If this variable is set, the test writes the code instead of comparing it (`cargo xtask etcd-api`).
const WRITE: &str = "LEASEHOLD_WRITE_ETCD_API";

/// The services, each file with what it imports.
const FILES: [&str; 2] =
    ["etcd/api/etcdserverpb/rpc.proto", "etcd/server/etcdserver/api/v3lock/v3lockpb/v3lock.proto"];

/// The packages of these files, and so the modules.
const MODULES: [&str; 3] = ["etcdserverpb", "mvccpb", "v3lockpb"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Generates the modules into this folder.
fn generate(into: &Path) {
    let descriptors = protox::compile(FILES, [folder("proto")]).unwrap();
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .out_dir(into)
        .compile_fds(descriptors)
        .unwrap();
}

#[test]
fn the_committed_code_is_what_the_proto_files_generate() {
    let made = tempfile::tempdir().unwrap();
    generate(made.path());
    let mut files: Vec<_> = fs::read_dir(made.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, MODULES.map(|module| format!("{module}.rs")));
    for module in MODULES {
        let code = fs::read_to_string(made.path().join(format!("{module}.rs"))).unwrap();
        let code = format!("//! The messages and calls of etcd's package `{module}`.\n{code}");
        let path = folder("src/generated").join(format!("{module}.rs"));
        if env::var_os(WRITE).is_some() {
            fs::write(path, code).unwrap();
            continue;
        }
        let committed = fs::read_to_string(&path).unwrap();
        let line = committed.lines().zip(code.lines()).position(|(is, made)| is != made);
        let line =
            line.map_or(committed.lines().count().min(code.lines().count()), |line| line) + 1;
        let differs =
            format!("{} differs at line {line}; run: cargo xtask etcd-api", path.display());
        assert!(committed == code, "{differs}");
    }
}
