//! Sorts 4, 7, 2, 5, 3 with a bitmap: by hand with shifts, then with `bitmap::Dense`.
//!
//! `cargo run -p leasehold-filters --example bitmap_sort`. It needs no server. `docs/filters.md` shows what it
//! prints.

use std::error::Error;
use std::io::Write;

use leasehold_filters::bitmap::Dense;

const NUMBERS: [u64; 5] = [4, 7, 2, 5, 3];

fn main() -> Result<(), Box<dyn Error>> {
    play(&mut std::io::stdout())
}

pub(crate) fn play(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut a = [0_u32; 2];
    for n in NUMBERS {
        a[word(n)] |= 1 << (n % 32);
        writeln!(out, "insert {n}    a[{}] |= 1 << {}    {:08b}", n / 32, n % 32, a[0])?;
    }
    let sorted = (0..64).filter(|n| a[word(*n)] >> (n % 32) & 1 == 1);
    writeln!(out, "sorted      {}", text(sorted))?;
    for n in [31, 32] {
        writeln!(out, "number {n}   a[{}] bit {}", n / 32, n % 32)?;
    }

    let bits = Dense::new(8)?;
    for n in NUMBERS {
        assert!(bits.insert(n)?, "{n} is there twice");
    }
    writeln!(out, "Dense       {}", text(bits.iter()))?;

    for (what, numbers) in [("8 numbers", 8), ("2^32", 1_u64 << 32)] {
        let (bitmap, array) = (numbers.div_ceil(8), numbers * 4);
        writeln!(out, "{what:<11} bitmap {:>9}    array {:>11}", bytes(bitmap), bytes(array))?;
    }
    Ok(())
}

/// The word of `a` that has the bit of this number.
fn word(n: u64) -> usize {
    (n / 32) as usize
}

fn text(numbers: impl Iterator<Item = u64>) -> String {
    numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
}

fn bytes(count: u64) -> String {
    if count < 1 << 20 { format!("{count} B") } else { format!("{} MiB", count >> 20) }
}
