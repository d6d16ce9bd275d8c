//! A network with latency: a proxy in its own process, so that its CPU time is not counted.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::talk::Talk;

/// `delay OPTIONS`
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct DelayArgs {
    #[arg(long)]
    pub(crate) to: SocketAddr,
    #[arg(long)]
    pub(crate) us: u64,
}

/// A running proxy.
#[derive(Debug)]
pub(crate) struct Delay {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Behind a mutex because a place is shared among threads.
    _process: Mutex<Talk>,
}

impl Delay {
    /// Starts one in front of a server; what clients send arrives so much later.
    pub(crate) fn start(to: SocketAddr, delay: Duration) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("delay").arg(format!("--to={to}")).arg(format!("--us={}", delay.as_micros()));
        let mut process = Talk::start("the proxy that delays", command)?;
        let address = process.hear()?.parse()?;
        Ok(Self { address, _process: Mutex::new(process) })
    }
}

/// Is the proxy, until the input ends.
pub(crate) fn run(args: DelayArgs) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if let Ok(server) = TcpStream::connect(args.to) {
                // A connection that fails is seen by its client.
                let _ = serve(&client, &server, Duration::from_micros(args.us));
            }
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// A thread reads and one writes when the time has come, so that what follows is not held up.
fn serve(client: &TcpStream, server: &TcpStream, delay: Duration) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (send, chunks) = channel::<(Instant, Vec<u8>)>();
    let mut from = client.try_clone()?;
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if send.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    let mut to = server.try_clone()?;
    thread::spawn(move || {
        for (due, chunk) in chunks {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&chunk).is_err() {
                break;
            }
        }
        to.shutdown(std::net::Shutdown::Both).ok();
    });
    let (mut from, mut to) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        std::io::copy(&mut from, &mut to).ok();
        to.shutdown(std::net::Shutdown::Both).ok();
    });
    Ok(())
}
