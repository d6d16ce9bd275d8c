//! What can happen to a ZooKeeper server.

use leasehold_test_servers::{
    DiskShim, Full, ZooKeeperEnsemble, ZooKeeperServer, ZooKeeperSettings, wait,
};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("zookeeper::a_server_on_a_full_disk_starts_again_with_space", a_server_on_a_full_disk),
    ("zookeeper::a_server_that_is_cut_off_serves_after_the_cut", a_server_that_is_cut_off),
];

fn a_server_on_a_full_disk() {
    let disk = DiskShim::build().unwrap();
    let settings = ZooKeeperSettings::new().environments(vec![disk.env().into()]);
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

fn a_server_that_is_cut_off() {
    let settings = ZooKeeperSettings::new().peers_behind_proxies();
    let mut ensemble = ZooKeeperEnsemble::start(3, &settings).unwrap();
    for (to_it, from_it) in [(true, false), (false, true), (true, true)] {
        let leader = ensemble.leader().unwrap();
        let serves = |server: &ZooKeeperServer| !server.mode().is_empty();
        ensemble.links.cut(leader, to_it, from_it);
        let others = || (0..3).filter(|other| *other != leader);
        wait("another one leads", || {
            others().any(|other| ensemble.servers[other].mode() == "leader")
        })
        .unwrap();
        wait("it serves no client", || !serves(&ensemble.servers[leader])).unwrap();
        // The others have to find one that starts after the cut.
        ensemble.servers[leader].kill();
        ensemble.links.heal();
        ensemble.servers[leader].start_again().unwrap();
        wait("all serve", || ensemble.servers.iter().all(serves)).unwrap();
    }
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
