//! Nodes of other libraries and of other kinds of locks under the path of a lock.

use super::*;

pub(super) async fn nodes_of_another_library_are_named() {
    let server = plain();
    let raw = raw(&server).await;
    for (wire, name, node) in [
        ("curator", "a", KAZOO),
        ("curator", "b", "0123456789abcdef0123456789abcdef__rlock__"),
        ("curator", "c", "_c_01234567-89ab-cdef-0123-456789abcdef-__WRIT__"),
        ("kazoo", "d", CURATOR),
    ] {
        let client = connect(&url(&server, wire)).await;
        let lock = client.lock(format!("locks/{name}"));
        lock.acquire().await.unwrap().release().await.unwrap();
        let path = enter(&raw, &format!("/locks/{name}/{node}"), b"").await;
        let errors = [
            lock.try_acquire().await.unwrap_err(),
            lock.acquire_within(secs(60)).await.unwrap_err(),
            lock.status().await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
            assert!(error.to_string().contains(&path), "{error}");
            assert!(error.to_string().contains("another name"), "{error}");
        }
        client.settle().await;
        assert_eq!(raw.list_children(&format!("/locks/{name}")).await.unwrap().len(), 1);
        raw.delete(&path, None).await.unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

/// Each way to use the lock is refused, and the error names the node. Nothing is left behind.
async fn is_named(client: &Client, name: &str, path: &str) {
    let lock = client.lock(name);
    for error in [
        lock.try_acquire().await.unwrap_err(),
        lock.acquire_within(secs(60)).await.unwrap_err(),
        lock.status().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains(path), "{error}");
        assert!(error.to_string().contains("another name"), "{error}");
    }
    client.settle().await;
}

/// The nodes are what Curator's `InterProcessSemaphoreMutex` and `InterProcessReadWriteLock`, and kazoo's `Semaphore` write.
pub(super) async fn nodes_of_another_kind_of_lock_are_named() {
    const LEASE: &str = "0123456789abcdef0123456789abcdef";
    let server = plain();
    let raw = raw(&server).await;
    for wire in ["curator", "kazoo"] {
        let client = connect(&url(&server, wire)).await;
        let name = |which: &str| format!("{wire}/{which}");
        let place = |which: &str| format!("/{wire}/{which}");
        create(&raw, &(place("semaphore") + "/locks"), b"").await;
        create(&raw, &(place("semaphore") + "/leases"), b"").await;
        let lease = place("semaphore") + "/leases/_c_01234567-89ab-cdef-0123-456789abcdef-lease-";
        enter(&raw, &lease, b"").await;
        is_named(&client, &name("semaphore"), &(place("semaphore") + "/leases")).await;
        for mark in ["__READ__", "-latch-"] {
            let which = &mark.replace(['_', '-'], "");
            create(&raw, &place(which), b"").await;
            let node = format!("{}/_c_01234567-89ab-cdef-0123-456789abcdef{mark}", place(which));
            let path = enter(&raw, &node, b"").await;
            is_named(&client, &name(which), &path).await;
            assert_eq!(raw.list_children(&place(which)).await.unwrap().len(), 1);
        }
        // It has been idle: its lease comes later.
        let lock = client.lock(name("kazoo"));
        lock.acquire().await.unwrap().release().await.unwrap();
        let (path, ephemeral) = (format!("{}/{LEASE}", place("kazoo")), CreateMode::Ephemeral);
        let options = ephemeral.with_acls(Acls::anyone_all());
        raw.create(&path, b"", &options).await.unwrap();
        is_named(&client, &name("kazoo"), &path).await;
        raw.delete(&path, None).await.unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        // Locks below a lock may have such names.
        let below = format!("f{}", &LEASE[1..]);
        let inner = client.lock(format!("{}/{below}", name("outer"))).acquire().await.unwrap();
        let locks = client.lock(name("outer/locks")).acquire().await.unwrap();
        let outer = client.lock(name("outer")).try_acquire().await.unwrap().unwrap();
        for guard in [outer, locks, inner] {
            guard.release().await.unwrap();
        }
    }
}

pub(super) async fn a_semaphore_of_kazoo_is_named() {
    if Needs::Kazoo.is_skipped() {
        return;
    }
    let server = patient();
    let raw = raw(&server).await;
    for wire in ["kazoo", "curator"] {
        let (name, path) = (format!("q/{wire}"), format!("/q/{wire}"));
        let mut holder = python(&server, HOLD, &["Semaphore", &path]);
        let mut said = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "held\n");
        let leases = raw.list_children(&path).await.unwrap();
        let client = connect(&url(&server, wire)).await;
        is_named(&client, &name, &format!("{path}/{}", leases[0])).await;
        assert_eq!(raw.list_children(&path).await.unwrap(), leases);
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
        client.lock(&name).acquire().await.unwrap().release().await.unwrap();
    }
}
