//! The errors of a node that does not serve a slot, or not now.

use leasehold_core::Error;
use redis::RedisError;

use crate::address::host_and_port;
use crate::source::HostPort;

/// Where to send the request instead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Another node serves the slot. An empty host is the host of the node that answers.
    Moved(u16, HostPort),
    /// The slot is being moved, and this key was moved already, or does not exist yet.
    Ask(HostPort),
    /// The keys of one lock are on two nodes while its slot is being moved, or the cluster is not
    /// complete: try again soon.
    Soon,
}

/// Returns the redirect of an error, if it is one.
pub(super) fn redirect(error: &Error) -> Option<Redirect> {
    let source = std::error::Error::source(error)?;
    let answer = source.downcast_ref::<RedisError>()?;
    let code = answer.code().unwrap_or_default();
    match code {
        "MOVED" | "ASK" => {
            let (place, slot) = answer.redirect_node()?;
            let (host, port) = place.rsplit_once(':')?;
            let port = host_and_port(&format!("host:{port}"), 0).ok()?.1;
            let place = (host.to_owned(), port);
            Some(if code == "MOVED" { Redirect::Moved(slot, place) } else { Redirect::Ask(place) })
        }
        "TRYAGAIN" | "CLUSTERDOWN" => Some(Redirect::Soon),
        // It occurs in the middle of a script, which the same attempt may run again.
        _ if error.to_string().contains("non local key") => Some(Redirect::Soon),
        _ => None,
    }
}
