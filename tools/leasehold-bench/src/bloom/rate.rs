//! How often a full filter is wrong, beside what was asked for.

use leasehold_filters::bloom::{Answer, Local};

use super::BloomArgs;
use crate::Result;
use crate::metric::{BITS_PER_ITEM, ERROR_RATE, OFF};
use crate::progress::Progress;
use crate::row::{Row, Setup};
use crate::runtime::Flavour;

pub(super) const RATES: [f64; 4] = [0.1, 0.01, 0.001, 0.000_1];

pub(super) fn measure(args: &BloomArgs, progress: &Progress) -> Result<Vec<Row>> {
    let items: u64 = if args.common.quick { 20_000 } else { 1_000_000 };
    let mut rows = Vec::new();
    for rate in RATES {
        progress.begin(format!("error rate {rate}"));
        let filter = Local::new(items, rate)?;
        (0..items).for_each(|item| {
            filter.add(format!("item {item}"));
        });
        // Enough wrong answers for the chance of the sample to be about one in a hundred.
        let asked = (10_000.0 / rate) as u64;
        let asked = if args.common.quick { asked.min(500_000) } else { asked };
        let maybe = |item: &u64| filter.check(format!("never {item}")) == Answer::Maybe;
        let measured = (0..asked).filter(maybe).count() as f64 / asked as f64;
        let setup = Setup::new("bloom", "memory", Flavour::Current);
        let setup = setup.with("work", "rate").with("asked_for", rate).with("items", items);
        rows.push(setup.row(ERROR_RATE, measured));
        rows.push(setup.row(OFF, measured / rate - 1.0));
        rows.push(setup.row(BITS_PER_ITEM, filter.stats().bits as f64 / items as f64));
        progress.done();
    }
    Ok(rows)
}
