//! A holder is paused past its lease and writes late; the fence refuses the write.
//!
//! `cargo run -p leasehold --example fenced_write`. No server is needed: the lock and the resource
//! live in this process, the two clients each in a thread and a runtime of their own.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use leasehold::fence::{Fence, Stale};
use leasehold::{Client, Guard, Token};

/// The resource: an order, with its fence under the same mutex.
struct Order {
    fence: Fence,
    state: &'static str,
}

static ORDER: Mutex<Option<Order>> = Mutex::new(None);

/// Check and write are one step, since the mutex is held over both.
fn write(state: &'static str, token: Token) -> Result<(), Stale> {
    let mut order = ORDER.lock().unwrap_or_else(PoisonError::into_inner);
    let order = order.get_or_insert_with(|| Order { fence: Fence::new(), state: "new" });
    order.fence.check("orders/555", token)?;
    println!("    order 555: {} -> {state} (token {token})", order.state);
    order.state = state;
    Ok(())
}

fn main() -> leasehold::Result<()> {
    let (holds, held) = channel();
    let (done, resume) = channel();
    let alice = thread::spawn(move || alice(&holds, &resume));
    let bob = thread::spawn(move || bob(&held, &done));
    for story in [alice, bob] {
        match story.join() {
            Ok(told) => told?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn alice(holds: &Sender<()>, resume: &Receiver<()>) -> leasehold::Result<()> {
    let client = connect().await?;
    let guard = acquire(&client, "alice").await?;
    println!(
        "alice: checks her guard: valid is {}. Then her whole process is paused.",
        guard.is_valid()
    );
    holds.send(()).ok();

    // The pause. It blocks the runtime, so that the lease is not renewed either.
    resume.recv().ok();

    println!("alice: knows of no pause, and goes on with the next line: the write");
    match write("cancelled", guard.token()) {
        Ok(()) => println!("alice: has overwritten what bob did"),
        Err(stale) => println!("alice: refused: {stale}"),
    }
    println!("alice: looks again: valid is {}", guard.is_valid());
    if let Err(lost) = guard.release().await {
        println!("alice: {lost}");
    }
    client.close().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn bob(held: &Receiver<()>, done: &Sender<()>) -> leasehold::Result<()> {
    held.recv().ok();
    println!("bob:   waits");
    let client = connect().await?;
    let guard = acquire(&client, "bob").await?;
    if let Err(stale) = write("paid", guard.token()) {
        println!("bob:   refused: {stale}");
    }
    done.send(()).ok();
    guard.release().await?;
    client.close().await;
    Ok(())
}

/// Both connect to the same store of this process.
async fn connect() -> leasehold::Result<Client> {
    leasehold::connect("memory:fenced-write").await
}

async fn acquire(client: &Client, who: &str) -> leasehold::Result<Guard> {
    let guard = client.lock("orders/555").ttl(Duration::from_millis(500)).acquire().await?;
    println!("{:<6} holds the lock, token {}", format!("{who}:"), guard.token());
    Ok(guard)
}
