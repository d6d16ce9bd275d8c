//! Does one kind of work a number of times, so that a count of instructions of two runs with different numbers gives
//! those of one time. Such counts differ by less than 1 % from run to run, also on a busy machine:
//!
//! ```sh
//! valgrind --tool=callgrind target/release/examples/instructions redis://127.0.0.1 pairs 500
//! valgrind --tool=callgrind target/release/examples/instructions redis://127.0.0.1 pairs 5500
//! ```
//!
//! It uses what every version of the library has: copy it into an older checkout to compare.

use std::time::Duration;

use leasehold::{Client, Lock};
use tokio::task::JoinSet;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

const USAGE: &str = "instructions URL pairs|many|turns|queue|clients|held NUMBER";
const TTL: Duration = Duration::from_secs(3600);

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, work, number] = &args[..] else { return Err(USAGE.into()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(url, work, number.parse()?))
}

async fn run(url: &str, work: &str, number: usize) -> Result<()> {
    let client = leasehold::connect(url).await?;
    match work {
        // One task acquires and releases one lock.
        "pairs" => pairs(client.lock("a"), number).await?,
        // 64 tasks do, each a lock of its own.
        "many" => {
            let locks = (0..64).map(|task| client.lock(format!("a{task}")));
            all(locks.map(|lock| pairs(lock, number / 64))).await?;
        }
        // 20 tasks of one client take turns with one lock.
        "turns" => {
            let locks = (0..20).map(|_| client.lock("a").ttl(TTL));
            all(locks.map(|lock| turns(lock, number / 20))).await?;
        }
        // So many tasks wait for one lock, which then goes through all of them.
        "queue" => {
            let lock = client.lock("a").ttl(TTL);
            let held = lock.acquire().await?;
            let waiting = tokio::spawn(all((0..number).map(move |_| pairs(lock.clone(), 1))));
            tokio::time::sleep(Duration::from_millis(5)).await;
            held.release().await?;
            waiting.await??;
        }
        // Two clients take turns with one lock.
        "clients" => {
            let clients = [leasehold::connect(url).await?, leasehold::connect(url).await?];
            all(clients.map(|client| one_of_two(client, number / 2))).await?;
        }
        // So many locks are held at once, and then released.
        "held" => {
            let mut held = Vec::new();
            for lock in 0..number {
                held.push(client.lock(format!("a{lock}")).ttl(TTL).acquire().await?);
            }
            for guard in held {
                guard.release().await?;
            }
        }
        _ => return Err(USAGE.into()),
    }
    client.close().await;
    Ok(())
}

async fn all<F>(tasks: impl IntoIterator<Item = F>) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut running = JoinSet::new();
    tasks.into_iter().for_each(|task| drop(running.spawn(task)));
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok(())
}

async fn pairs(lock: Lock, number: usize) -> Result<()> {
    for _ in 0..number {
        lock.acquire().await?.release().await?;
    }
    Ok(())
}

async fn turns(lock: Lock, number: usize) -> Result<()> {
    for _ in 0..number {
        let guard = lock.acquire().await?;
        tokio::task::yield_now().await;
        guard.release().await?;
    }
    Ok(())
}

async fn one_of_two(client: Client, number: usize) -> Result<()> {
    pairs(client.lock("a").ttl(TTL), number).await?;
    client.close().await;
    Ok(())
}
