//! A manual page on a terminal, shown by man(1).

use std::io::Write;
use std::process::{Command, Stdio};

use nix::sys::signal::{SigSet, Signal};

/// Shows the page, and returns when the reader has closed it. Returns false if this machine has no
/// man(1), or a man(1) that cannot show a page that is not installed.
pub(super) fn show(page: &str) -> bool {
    let mut man = Command::new("man");
    man.args(["-l", "-"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = man.spawn() else { return false };
    // Signals of keys go to the pager: it must not lose its parent, and with it the terminal.
    let mut keys = SigSet::empty();
    keys.add(Signal::SIGINT);
    keys.add(Signal::SIGQUIT);
    let _ = keys.thread_block();
    if let Some(mut stdin) = child.stdin.take() {
        // A man(1) that ends before it has read the page reports that by its code.
        let _ = stdin.write_all(page.as_bytes());
    }
    child.wait().is_ok_and(|status| status.code().is_none_or(|code| code == 0))
}
