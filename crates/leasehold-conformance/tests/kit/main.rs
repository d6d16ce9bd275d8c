//! Shows each fault of the kit on a real server.

// A set-up that fails is a failed test.
#![allow(clippy::unwrap_used)]

#[cfg(unix)]
mod proxy;
#[cfg(unix)]
mod server;

use std::process::ExitCode;

/// Set for a child that plays a process to be killed.
#[cfg(unix)]
const PLAY: &str = "LEASEHOLD_KIT_PLAY";

#[cfg(unix)]
fn main() -> ExitCode {
    use leasehold_conformance::kit::{Certificates, RedisServer, required};
    use libtest_mimic::{Arguments, Trial};

    if std::env::var_os(PLAY).is_some() {
        server::play();
    }
    let arguments = Arguments::from_args();
    let no_server = !RedisServer::is_present() && !required("redis");
    let no_tls = !Certificates::is_present() && !required("openssl");
    let tests = server::TESTS.iter().chain(proxy::TESTS);
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        let run = move || {
            test();
            Ok(())
        };
        let ignored = no_server || no_tls && name.contains("::tls");
        Trial::test(*name, run).with_ignored_flag(ignored)
    };
    libtest_mimic::run(&arguments, tests.map(trial).collect()).exit_code()
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}
