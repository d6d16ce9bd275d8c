//! What can happen to a ZooKeeper server.

use leasehold_conformance::kit::{DiskShim, Full, ZooKeeperServer, ZooKeeperSettings, wait};

pub(crate) const TESTS: &[(&str, fn())] =
    &[("zookeeper::a_server_on_a_full_disk_starts_again_with_space", a_server_on_a_full_disk)];

fn a_server_on_a_full_disk() {
    let disk = DiskShim::build().unwrap();
    let settings = ZooKeeperSettings::new().environment(disk.env().into());
    let mut server = ZooKeeperServer::start(settings).unwrap();
    disk.fill(&server.data(), Full::Writes).unwrap();
    // Each session is a write.
    wait("it has ended", || {
        let client = std::net::TcpStream::connect(server.address());
        client.and_then(|mut client| open_session(&mut client)).ok();
        server.has_ended()
    })
    .unwrap();
    disk.free().unwrap();
    server.kill();
    server.remove_empty_logs().unwrap();
    server.start_again().unwrap();
}

/// Asks for a session, and does not wait for it.
fn open_session(client: &mut std::net::TcpStream) -> std::io::Result<()> {
    let protocol_seen_timeout_id =
        [[0; 4], [0; 4], [0; 4], 5_000_i32.to_be_bytes(), [0; 4], [0; 4]];
    let password = [16_i32.to_be_bytes().as_slice(), &[0; 16]].concat();
    let request = [protocol_seen_timeout_id.concat(), password].concat();
    let length = (request.len() as i32).to_be_bytes();
    std::io::Write::write_all(client, &[length.as_slice(), &request].concat())
}
