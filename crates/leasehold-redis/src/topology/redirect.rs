//! What a node says when it does not serve a slot, or not now.

use leasehold_core::Error;
use redis::RedisError;

use super::Place;
use crate::address::host_and_port;

/// Where to go instead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot is another node's. An empty host is that of the node that says it.
    Moved(u16, Place),
    /// The slot is being moved, and this key has been already, or is not there yet.
    Ask(Place),
    /// Keys of one lock lie apart while its slot is being moved, or the cluster is not whole: soon.
    Soon,
}

/// The redirect that an error is.
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
        // In the middle of a script; the same attempt may go through it again.
        _ if error.to_string().contains("non local key") => Some(Redirect::Soon),
        _ => None,
    }
}
