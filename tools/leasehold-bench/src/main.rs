//! `leasehold-bench`: the benchmarks on servers of their own, beside the peers.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_bench::main()
}
