//! What can happen between a client and its server.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_test_servers::Direction::{ClientToServer, ServerToClient};
use leasehold_test_servers::{Admin, Pattern, Proxy, RedisServer, RedisSettings, Value, wait};

type Test = (&'static str, fn());

pub(crate) const TESTS: &[Test] = &[
    ("proxy::a_swallowed_reply_was_executed", a_swallowed_reply_was_executed),
    ("proxy::a_silent_connection_ends_with_its_client", a_silent_connection_ends_with_its_client),
    ("proxy::a_reset_in_place_of_a_reply_was_executed", a_reset_in_place_of_a_reply_was_executed),
    ("proxy::a_duplicate_counts_twice_in_step", a_duplicate_counts_twice_in_step),
    ("proxy::a_held_request_is_executed_after_release", a_held_request_is_executed_after_release),
    ("proxy::a_held_request_outlives_its_client", a_held_request_outlives_its_client),
    ("proxy::a_delayed_request_comes_late", a_delayed_request_comes_late),
    ("proxy::a_cut_to_the_server_withholds_requests", a_cut_to_the_server_withholds_requests),
    ("proxy::a_cut_to_the_client_withholds_replies", a_cut_to_the_client_withholds_replies),
    ("proxy::killed_connections_are_reset", killed_connections_are_reset),
    ("proxy::refused_connections_are_refused", refused_connections_are_refused),
    ("proxy::pushes_are_counted_and_swallowed", pushes_are_counted_and_swallowed),
    ("proxy::older_pushes_are_known_too", older_pushes_are_known_too),
    ("proxy::a_moved_connection_has_another_server", a_moved_connection_has_another_server),
    ("proxy::unix_sockets_work_on_both_sides", unix_sockets_work_on_both_sides),
    ("proxy::large_pipelines_pass_in_pieces", large_pipelines_pass_in_pieces),
    ("proxy::a_message_passes_in_one_piece", a_message_passes_in_one_piece),
    ("proxy::what_is_not_the_protocol_passes", what_is_not_the_protocol_passes),
    ("proxy::a_connection_of_a_cut_reaches_the_server_after_it", a_connection_of_a_cut),
    ("proxy::bytes_are_replaced", bytes_are_replaced),
    ("proxy::ports_are_replaced_where_they_stand_alone", ports_are_replaced),
    ("proxy::what_happens_to_one_address_spares_others", what_happens_to_one_address),
];

fn setup() -> (RedisServer, Proxy, Admin) {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = Admin::tcp(proxy.address()).unwrap();
    (server, proxy, client)
}

/// What the client receives, in a thread, so that a test can see that it receives nothing.
fn receiver(mut client: Admin) -> mpsc::Receiver<std::io::Result<Value>> {
    let (send, received) = mpsc::channel();
    thread::spawn(move || {
        loop {
            let value = client.receive();
            let end = value.is_err();
            if send.send(value).is_err() || end {
                break;
            }
        }
    });
    received
}

fn value(server: &RedisServer, key: &str) -> String {
    server.admin(&["GET", key]).unwrap().text()
}

/// Long enough for anything that is not withheld.
const SILENCE: Duration = Duration::from_millis(100);

fn a_swallowed_reply_was_executed() {
    let (server, proxy, mut client) = setup();
    let shot = proxy.swallow_reply_to(Pattern::command("incr").and("a"));
    client.call(&["INCR", "b"]).unwrap();
    assert!(!shot.happened());
    client.send(&["INCR", "a"]).unwrap();
    client.send(&["INCR", "b"]).unwrap();
    wait("all are executed", || value(&server, "b") == "2").unwrap();
    assert!(shot.happened());
    assert_eq!(value(&server, "a"), "1");
    let received = receiver(client);
    assert!(received.recv_timeout(SILENCE).is_err(), "what follows a lost reply is lost too");
    let mut other = Admin::tcp(proxy.address()).unwrap();
    assert_eq!(other.call(&["INCR", "a"]).unwrap(), Value::Integer(2));
    proxy.kill_connections();
    assert_eq!(received.recv().unwrap().unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// Also if the server has gone before.
fn a_silent_connection_ends_with_its_client() {
    let (mut server, proxy, mut client) = setup();
    let shot = proxy.swallow_reply_to("INCR");
    client.send(&["INCR", "a"]).unwrap();
    wait("it is executed", || shot.happened() && value(&server, "a") == "1").unwrap();
    server.kill();
    // The first one is refused by the end of the server, and the second one not sent.
    for _ in 0..2 {
        client.send(&["PING"]).unwrap();
        std::thread::sleep(SILENCE);
    }
    assert_eq!(proxy.connections().len(), 1, "a client learns nothing of a silent connection");
    drop(client);
    wait("the connection ends", || proxy.connections().is_empty()).unwrap();
}

fn a_reset_in_place_of_a_reply_was_executed() {
    let (server, proxy, mut client) = setup();
    let _shot = proxy.reset_at_reply_to("INCR");
    client.call(&["SET", "a", "7"]).unwrap();
    let error = client.call(&["INCR", "a"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(value(&server, "a"), "8");
}

fn a_duplicate_counts_twice_in_step() {
    let (server, proxy, mut client) = setup();
    let shot = proxy.duplicate("INCR");
    for command in [&["INCR", "a"][..], &["GET", "a"], &["INCR", "a"]] {
        client.send(command).unwrap();
    }
    assert_eq!(client.receive().unwrap(), Value::Integer(1));
    assert_eq!(client.receive().unwrap().text(), "2");
    assert_eq!(client.receive().unwrap(), Value::Integer(3));
    assert!(shot.happened());
    assert_eq!(value(&server, "a"), "3");
    assert_eq!((proxy.requests(), proxy.replies()), (3, 4));
    assert_eq!(proxy.commands()["INCR"], 2);
}

fn a_held_request_is_executed_after_release() {
    let (server, proxy, mut client) = setup();
    let held = proxy.hold("a");
    client.send(&["SET", "a", "1"]).unwrap();
    client.send(&["SET", "b", "1"]).unwrap();
    wait("it is held", || held.is_caught()).unwrap();
    let mut other = Admin::tcp(proxy.address()).unwrap();
    other.call(&["SET", "a", "0"]).unwrap();
    assert_eq!(value(&server, "a"), "0");
    assert_eq!(value(&server, "b"), "");
    held.release();
    assert_eq!(client.receive().unwrap().text(), "OK");
    assert_eq!(client.receive().unwrap().text(), "OK");
    assert_eq!((value(&server, "a"), value(&server, "b")), ("1".into(), "1".into()));
}

fn a_held_request_outlives_its_client() {
    let (server, proxy, mut client) = setup();
    let held = proxy.hold(Pattern::any());
    client.send(&["SET", "a", "late"]).unwrap();
    wait("it is held", || held.is_caught()).unwrap();
    drop(client);
    assert_eq!(value(&server, "a"), "");
    held.release();
    wait("it is executed", || value(&server, "a") == "late").unwrap();
    wait("the connection has gone", || proxy.connections().is_empty()).unwrap();
}

fn a_delayed_request_comes_late() {
    let (_server, proxy, mut client) = setup();
    let time = Duration::from_millis(200);
    let _shot = proxy.delay("PING", time);
    let start = Instant::now();
    client.call(&["PING"]).unwrap();
    assert!(start.elapsed() >= time);
    proxy.set_latency(time);
    let start = Instant::now();
    client.call(&["ECHO", "a"]).unwrap();
    assert!(start.elapsed() >= time);
}

fn a_cut_to_the_server_withholds_requests() {
    let (server, proxy, mut client) = setup();
    client.call(&["PING"]).unwrap();
    proxy.cut(ClientToServer);
    client.send(&["SET", "a", "1"]).unwrap();
    let received = receiver(client);
    assert!(received.recv_timeout(SILENCE).is_err());
    assert_eq!(value(&server, "a"), "");
    proxy.heal();
    assert_eq!(received.recv().unwrap().unwrap().text(), "OK");
    assert_eq!(value(&server, "a"), "1");
}

fn a_cut_to_the_client_withholds_replies() {
    let (server, proxy, mut client) = setup();
    proxy.cut(ServerToClient);
    client.send(&["INCR", "a"]).unwrap();
    wait("it is executed", || value(&server, "a") == "1").unwrap();
    let received = receiver(client);
    assert!(received.recv_timeout(SILENCE).is_err());
    proxy.heal();
    assert_eq!(received.recv().unwrap().unwrap(), Value::Integer(1));
}

fn killed_connections_are_reset() {
    let (server, proxy, mut client) = setup();
    client.call(&["PING"]).unwrap();
    let mut other = Admin::tcp(proxy.address()).unwrap();
    other.call(&["PING"]).unwrap();
    let there = |proxy: &Proxy| proxy.connections().iter().map(|c| c.id).collect::<Vec<_>>();
    assert_eq!(there(&proxy), [1, 2]);
    proxy.kill(proxy.connections()[0]);
    assert_eq!(client.receive().unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(there(&proxy), [2]);
    other.call(&["PING"]).unwrap();
    proxy.kill_connections();
    assert_eq!(other.receive().unwrap_err().kind(), ErrorKind::ConnectionReset);
    let clients = || server.info("connected_clients").unwrap();
    wait("the server has noticed", || clients() == "1").unwrap();
    Admin::tcp(proxy.address()).unwrap().call(&["PING"]).unwrap();
    assert_eq!(proxy.connections_made(), 3);
}

fn refused_connections_are_refused() {
    let (_server, proxy, mut client) = setup();
    client.call(&["PING"]).unwrap();
    proxy.refuse_connections(true).unwrap();
    let error = Admin::tcp(proxy.address()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    client.call(&["PING"]).unwrap();
    proxy.refuse_connections(false).unwrap();
    Admin::tcp(proxy.address()).unwrap().call(&["PING"]).unwrap();
}

fn pushes_are_counted_and_swallowed() {
    let (server, proxy, mut client) = setup();
    client.call(&["HELLO", "3"]).unwrap();
    client.send(&["SUBSCRIBE", "c"]).unwrap();
    assert!(matches!(client.receive().unwrap(), Value::Push(_)));
    server.admin(&["PUBLISH", "c", "seen"]).unwrap();
    assert_eq!(client.receive().unwrap().items()[2].text(), "seen");
    proxy.swallow_pushes(true);
    server.admin(&["PUBLISH", "c", "lost"]).unwrap();
    wait("it has come by", || proxy.pushes() == 2).unwrap();
    client.send(&["SUBSCRIBE", "d"]).unwrap();
    assert_eq!(client.receive().unwrap().items()[0].text(), "subscribe");
    client.send(&["PING"]).unwrap();
    assert_eq!(client.receive().unwrap().text(), "PONG");
    proxy.swallow_pushes(false);
    server.admin(&["PUBLISH", "d", "again"]).unwrap();
    assert_eq!(client.receive().unwrap().items()[2].text(), "again");
    assert_eq!(proxy.pushes(), 3);
}

fn older_pushes_are_known_too() {
    let (server, proxy, mut client) = setup();
    client.send(&["SUBSCRIBE", "c"]).unwrap();
    assert_eq!(client.receive().unwrap().items()[0].text(), "subscribe");
    proxy.swallow_pushes(true);
    server.admin(&["PUBLISH", "c", "lost"]).unwrap();
    wait("it has come by", || proxy.pushes() == 1).unwrap();
    client.send(&["PING"]).unwrap();
    assert_eq!(client.receive().unwrap().items()[0].text(), "pong");
    assert_eq!(proxy.replies(), 1);
}

fn a_moved_connection_has_another_server() {
    let (one, proxy, mut client) = setup();
    let two = RedisServer::start(RedisSettings::new()).unwrap();
    client.call(&["HELLO", "3"]).unwrap();
    client.call(&["SELECT", "1"]).unwrap();
    client.call(&["SET", "a", "one"]).unwrap();
    proxy.move_to(&two);
    assert_eq!(client.call(&["GET", "a"]).unwrap(), Value::Null);
    client.call(&["SET", "a", "two"]).unwrap();
    assert!(client.call(&["CLIENT", "INFO"]).unwrap().text().contains(" db=1 "));
    assert_eq!(proxy.connections_made(), 1);
    proxy.point_to(&one);
    assert_eq!(client.call(&["GET", "a"]).unwrap().text(), "two");
    let mut other = Admin::tcp(proxy.address()).unwrap();
    other.call(&["SELECT", "1"]).unwrap();
    assert_eq!(other.call(&["GET", "a"]).unwrap().text(), "one");
    // One that waits for a reply cannot be moved unseen.
    client.send(&["BLPOP", "list", "0"]).unwrap();
    wait("it waits", || two.info("blocked_clients").unwrap() == "1").unwrap();
    proxy.move_to(&one);
    assert_eq!(client.receive().unwrap_err().kind(), ErrorKind::ConnectionReset);
}

fn unix_sockets_work_on_both_sides() {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("proxy.sock");
    let proxy = Proxy::on_socket(&path, server.socket()).unwrap();
    let mut client = Admin::unix(&path).unwrap();
    let _shot = proxy.duplicate("INCR");
    client.call(&["INCR", "a"]).unwrap();
    assert_eq!(client.call(&["GET", "a"]).unwrap().text(), "2");
    drop(proxy);
    assert!(!path.exists());
}

fn large_pipelines_pass_in_pieces() {
    let (_server, proxy, mut client) = setup();
    let large = "x".repeat(300_000);
    for number in 0..20 {
        client.send(&["SET", &format!("key{number}"), &large]).unwrap();
    }
    for number in 0..20 {
        client.send(&["GET", &format!("key{number}")]).unwrap();
    }
    for _ in 0..20 {
        assert_eq!(client.receive().unwrap().text(), "OK");
    }
    for _ in 0..20 {
        assert_eq!(client.receive().unwrap().text().len(), large.len());
    }
    assert_eq!((proxy.requests(), proxy.replies()), (40, 40));
    assert!(proxy.bytes(ServerToClient) > 6_000_000);
}

fn a_message_passes_in_one_piece() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::opaque(server.local_addr().unwrap()).unwrap();
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    let mut accepted = server.accept().unwrap().0;
    let pass = |from: &mut TcpStream, to: &mut TcpStream| {
        from.write_all(&[7; 4096]).unwrap();
        assert_eq!(to.read(&mut [0; 8192]).unwrap(), 4096);
    };
    pass(&mut client, &mut accepted);
    pass(&mut accepted, &mut client);
}

fn what_is_not_the_protocol_passes() {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let proxy = Proxy::opaque(&server).unwrap();
    let mut client = Admin::tcp(proxy.address()).unwrap();
    client.call(&["SET", "a", "1"]).unwrap();
    assert_eq!(proxy.requests(), 0);
    proxy.cut(ServerToClient);
    client.send(&["INCR", "a"]).unwrap();
    wait("it is executed", || value(&server, "a") == "2").unwrap();
    proxy.kill_connections();
    assert!(client.receive().is_err());
}

fn a_connection_of_a_cut() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::opaque(server.local_addr().unwrap()).unwrap();
    proxy.cut_from([127, 0, 0, 1].into(), ClientToServer);
    for text in [b"gone", b"here"] {
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        client.write_all(text).unwrap();
        if text == b"here" {
            proxy.heal();
            let mut got = [0; 4];
            server.accept().unwrap().0.read_exact(&mut got).unwrap();
            assert_eq!(&got, text);
        } else {
            drop(client);
            let is_gone = || proxy.connections_made() == 1 && proxy.connections().is_empty();
            wait("the proxy has seen its end", is_gone).unwrap();
        }
    }
}

fn bytes_are_replaced() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::opaque(server.local_addr().unwrap()).unwrap();
    proxy.rewrite("12345", "54321");
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    client.write_all(b"at 12345.").unwrap();
    let mut got = [0; 9];
    server.accept().unwrap().0.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"at 54321.");
}

/// A connection from another address of this machine, as a user that may do everything.
fn from_another_address(proxy: &Proxy) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 1, 9], 0).into()).unwrap();
        socket.connect(proxy.address()).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

/// Sends a command in the plain form, and reads the answer.
fn answer(stream: &mut TcpStream, command: &str) -> String {
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut got = [0; 64];
    let length = stream.read(&mut got).unwrap();
    String::from_utf8_lossy(&got[..length]).into_owned()
}

fn what_happens_to_one_address() {
    let server = RedisServer::start(RedisSettings::new()).unwrap();
    let proxy = Proxy::opaque(&server).unwrap();
    let here = [127, 0, 0, 1].into();
    proxy.frame_from(here);
    let mut client = Admin::tcp(proxy.address()).unwrap();
    let mut other = from_another_address(&proxy);
    client.call(&["PING"]).unwrap();
    // Not in the form in which requests are looked for.
    assert_eq!(answer(&mut other, "INCR a"), ":1\r\n");
    assert_eq!((proxy.requests(), proxy.connections_from(here)), (1, 1));
    let shot = proxy.duplicate("INCR");
    assert_eq!(answer(&mut other, "INCR a"), ":2\r\n");
    assert!(!shot.happened());
    assert_eq!(client.call(&["INCR", "a"]).unwrap(), Value::Integer(3));
    assert!(shot.happened() && value(&server, "a") == "4");
    let time = Duration::from_millis(200);
    proxy.set_latency_from(here, time);
    let start = Instant::now();
    client.call(&["PING"]).unwrap();
    assert!(start.elapsed() >= time);
    proxy.set_latency_from(here, Duration::ZERO);
    proxy.cut_from(here, ClientToServer);
    client.send(&["INCR", "a"]).unwrap();
    assert_eq!(answer(&mut other, "INCR a"), ":5\r\n");
    proxy.heal_from(here);
    assert_eq!(client.receive().unwrap(), Value::Integer(6));
    proxy.kill_connections_from(here);
    assert!(client.receive().is_err());
    assert_eq!(answer(&mut other, "INCR a"), ":7\r\n");
}

fn ports_are_replaced() {
    let (_server, proxy, mut client) = setup();
    proxy.name_port(12_345, 23_456);
    proxy.name_port(23_456, 12_345);
    let told = client.call(&["ECHO", "a:12345 12345 b23456@112345 123456"]).unwrap();
    assert_eq!(told.text(), "a:23456 23456 b12345@112345 123456");
    assert_eq!(client.call(&["INCRBY", "n", "12345"]).unwrap().integer(), Some(23_456));
    assert_eq!(client.call(&["GET", "n"]).unwrap().text(), "23456");
}
