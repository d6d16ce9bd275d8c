//! How evenly keys are routed, how many move when the members change, and what asking costs.
//!
//! `cargo run --release -p leasehold --example routing [KEYS]`, 100,000 keys unless told otherwise.

use std::hint::black_box;

use leasehold::clock::Clock;
use leasehold::route::{Members, MembersBuilder};
use xxhash_rust::xxh64::xxh64;

/// Keys that are asked for, as the program's argument says.
struct Keys(usize);

impl Keys {
    fn percent(&self, of: impl Fn(&str) -> bool) -> f64 {
        let count = (0..self.0).filter(|key| of(&format!("orders/{key}"))).count();
        100.0 * count as f64 / self.0 as f64
    }

    fn owned(&self, members: &Members, by: &str) -> f64 {
        self.percent(|key| members.owner_of(key) == by)
    }

    fn moved(&self, before: &Members, after: &Members) -> f64 {
        self.percent(|key| before.owner_of(key) != after.owner_of(key))
    }
}

fn main() -> leasehold::Result<()> {
    let keys = Keys(std::env::args().nth(1).and_then(|keys| keys.parse().ok()).unwrap_or(100_000));
    println!("{} keys\n", keys.0);

    let ten = Members::new((1..=10).map(|app| format!("app-{app}")))?;
    println!("| of ten equal members | owns | off the ideal | keys moved when it leaves |");
    println!("|---|---:|---:|---:|");
    for (name, _) in ten.iter() {
        let (owned, moved) = (keys.owned(&ten, name), keys.moved(&ten, &ten.without(name)?));
        println!("| {name} | {owned:.2} % | {:+.2} % | {moved:.2} % |", owned * 10.0 - 100.0);
    }

    println!("\n| change | keys moved | ideal | by `hash(key) % members` |");
    println!("|---|---:|---:|---:|");
    let modulo = |from: u64, to: u64| {
        keys.percent(|key| {
            let hash = xxh64(key.as_bytes(), 0);
            hash % from != hash % to
        })
    };
    let (left, joined) = (ten.without("app-10")?, ten.with("app-11", 1.0)?);
    let (leaves, joins) = (keys.moved(&ten, &left), keys.moved(&ten, &joined));
    println!("| one of ten leaves | {leaves:.2} % | 10.00 % | {:.2} % |", modulo(10, 9));
    println!("| an eleventh joins | {joins:.2} % | 9.09 % | {:.2} % |", modulo(10, 11));

    println!("\n| weight | owns | ideal |");
    println!("|---:|---:|---:|");
    let weights = [1.0, 2.0, 3.0, 4.0];
    let add =
        |builder: MembersBuilder, weight: &f64| builder.weighted(format!("w{weight}"), *weight);
    let weighted = weights.iter().fold(Members::builder(), add).build()?;
    for (name, weight) in weighted.iter() {
        println!("| {weight} | {:.2} % | {:.2} % |", keys.owned(&weighted, name), weight * 10.0);
    }

    println!("\n| members | a question | with weights |");
    println!("|---:|---:|---:|");
    let clock = Clock::system();
    let nanoseconds = |members: &Members| {
        let start = clock.now().steady_ns;
        for _ in 0..keys.0 {
            black_box(members.owner_of(black_box("orders/555")));
        }
        (clock.now().steady_ns - start) as f64 / keys.0 as f64
    };
    for size in [3, 10, 100] {
        let equal = Members::new((0..size).map(|member| format!("m{member}")))?;
        let weighted = equal.with("m0", 2.0)?;
        println!("| {size} | {:.0} ns | {:.0} ns |", nanoseconds(&equal), nanoseconds(&weighted));
    }
    Ok(())
}
