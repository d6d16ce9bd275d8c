//! `leasehold-chaos`: what `cargo xtask chaos` runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_chaos::main()
}
