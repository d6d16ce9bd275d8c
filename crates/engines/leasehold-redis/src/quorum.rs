//! Creates the nodes of a quorum from a store URL.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::quorum::MAX_TTL;
use leasehold_core::{Result, StoreUrl};
use leasehold_quorum::QuorumNode;

use crate::address::{Address, invalid};
use crate::node::RedisNode;
use crate::wire_format::{Wire, no_admission};

const OPTIONS: &[&str] = &["admission", "max-ttl", "node-limit", "wire", "key-prefix"];
/// The bounds of `max-ttl`: those of a ttl.
const TTLS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(24 * 3600));
const LIMITS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(5));

/// The nodes and settings of a URL. Connections are made in the background.
#[derive(Debug)]
#[non_exhaustive]
pub struct Nodes {
    /// The nodes, in the order of the URL.
    pub nodes: Vec<Arc<dyn QuorumNode>>,
    /// The longest ttl that nodes are set up with, and how long a node that may have lost leases
    /// cannot vote (`max-ttl`, default 60 s).
    pub max_ttl: Duration,
    /// The `max-ttl` of the URL, if it has one.
    pub named_max_ttl: Option<Duration>,
    /// How long to wait for one node (`node-limit`; the default depends on the ttl).
    pub node_limit: Option<Duration>,
}

/// Returns the nodes of a quorum, if the URL names one. Returns `None` for a single server without
/// admission; use [`connect`](crate::connect) for it.
///
/// | URL | nodes |
/// |---|---|
/// | `redlock://[user[:password]@]host[:port],host[:port],...[/db]` | independent servers |
/// | `redlocks://...` | the same over TLS |
/// | `redis://...?admission=strict` (`rediss:`, `redis+unix:`) | one server, which cannot vote for a while after it may have lost leases |
///
/// A user and password before the first host apply to all hosts without their own. The options are
/// those of a single server, `max-ttl=60s` and `node-limit=50ms`.
///
/// # Errors
/// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for a URL that cannot be parsed, a
/// URL that names a node twice, and without a tokio runtime.
pub fn quorum(url: &mut StoreUrl) -> Result<Option<Nodes>> {
    let Some((addresses, named_max_ttl, node_limit)) = parse(url)? else { return Ok(None) };
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(invalid("no tokio runtime; connect inside a tokio runtime".into()));
    }
    let node = |address| {
        let node: Arc<dyn QuorumNode> = Arc::new(RedisNode::start(address, Clock::system()));
        node
    };
    let nodes = addresses.into_iter().map(node).collect();
    let max_ttl = named_max_ttl.unwrap_or(MAX_TTL);
    Ok(Some(Nodes { nodes, max_ttl, named_max_ttl, node_limit }))
}

/// Returns all servers that a URL names, for any purpose.
pub(crate) fn addresses(mut url: StoreUrl) -> Result<Vec<Address>> {
    match parse(&mut url)? {
        Some((addresses, ..)) => Ok(addresses),
        None => Ok(vec![Address::parse(url)?]),
    }
}

/// What a URL with several servers says about locks of other libraries.
pub(crate) struct WireList {
    pub(crate) addresses: Vec<Address>,
    pub(crate) wire: Wire,
    pub(crate) node_limit: Option<Duration>,
}

/// Parses `redlock://…?wire=set-nx`.
pub(crate) fn parse_wire(url: &mut StoreUrl) -> Result<WireList> {
    let Some(wire) = Wire::take(url)? else {
        return Err(invalid("no option wire; connect with quorum".into()));
    };
    if !matches!(wire, Wire::SetNx { spring: None, .. }) {
        return Err(invalid(
            "wire: on several servers other libraries have the format of wire=set-nx alone; write that, without spring"
                .into(),
        ));
    }
    no_admission(url)?;
    let node_limit = url.take_duration("node-limit", LIMITS)?;
    let addresses = Address::parse_all(url.clone(), &["node-limit", "wire", "key-prefix"])?;
    Ok(WireList { addresses, wire, node_limit })
}

pub(crate) type Parsed = (Vec<Address>, Option<Duration>, Option<Duration>);

/// Returns the addresses of the nodes, the longest ttl if the URL names one, and the time limit of
/// a node.
pub(crate) fn parse(url: &mut StoreUrl) -> Result<Option<Parsed>> {
    if url.scheme().contains("+sentinel") || url.scheme().contains("+cluster") {
        return Ok(None);
    }
    let many = matches!(url.scheme(), "redlock" | "redlocks");
    if many && Wire::take(url)?.is_some() {
        return Err(invalid(
            "wire: the servers of other libraries' locks have no admission and no records of Leasehold; leave out wire, or \
             this step"
                .into(),
        ));
    }
    match (many, url.take("admission").as_deref()) {
        (true, None) | (_, Some("strict")) => {}
        (false, None | Some("off")) => {
            return match url.take("max-ttl").or_else(|| url.take("node-limit")) {
                Some(_) => Err(invalid("max-ttl and node-limit need admission=strict".into())),
                None => Ok(None),
            };
        }
        (_, other) => {
            let other = other.unwrap_or_default();
            let known = if many { "strict" } else { "strict or off" };
            return Err(invalid(format!("admission {other:?}; {known} is allowed")));
        }
    }
    let max_ttl = url.take_duration("max-ttl", TTLS)?;
    let node_limit = url.take_duration("node-limit", LIMITS)?;
    let addresses = match many {
        true => Address::parse_all(url.clone(), OPTIONS)?,
        false => vec![Address::parse_with(url.clone(), OPTIONS)?],
    };
    Ok(Some((addresses, max_ttl, node_limit)))
}

#[cfg(test)]
mod tests {
    use leasehold_core::ErrorKind;

    use super::*;

    fn of(url: &str) -> Result<Option<Nodes>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        quorum(&mut StoreUrl::parse(url)?)
    }

    #[test]
    fn the_nodes_of_a_url_are_understood() {
        let nodes = of("redlock://u:s3@one,two:7000,x:s3@[::1]:7001/3?max-ttl=10s&node-limit=9ms");
        let nodes = nodes.unwrap().unwrap();
        let places: Vec<String> = nodes.nodes.iter().map(|node| node.place()).collect();
        assert_eq!(places, ["one:6379", "two:7000", "[::1]:7001"]);
        assert_eq!(nodes.max_ttl, Duration::from_secs(10));
        assert_eq!(nodes.node_limit, Some(Duration::from_millis(9)));
        assert!(!format!("{nodes:?}").contains("s3"), "{nodes:?}");
        let nodes = of("redis://u:s3@h?admission=strict").unwrap().unwrap();
        assert_eq!(nodes.nodes.len(), 1);
        assert_eq!((nodes.max_ttl, nodes.node_limit), (MAX_TTL, None));
        assert!(of("redis://h").unwrap().is_none());
        assert!(of("redis://h?admission=off").unwrap().is_none());
    }

    #[test]
    fn lists_of_other_libraries_have_one_format() {
        let of = |options: &str| {
            parse_wire(&mut StoreUrl::parse(&format!("redlock://a,b,c?{options}")).unwrap())
        };
        let list = of("wire=set-nx&node-limit=50ms").unwrap();
        assert_eq!((list.addresses.len(), list.node_limit), (3, Some(Duration::from_millis(50))));
        for (options, part) in [
            ("wire=redisson", "wire=set-nx alone"),
            ("wire=set-nx&spring=a", "without spring"),
            ("wire=rueidis&majority=2", "wire=set-nx alone"),
            ("wire=set-nx&max-ttl=5s", "max-ttl with wire"),
            ("wire=set-nx&admission=strict", "admission with wire"),
            ("wire=set-nx&ttl=5s", "the options are"),
        ] {
            let error = of(options).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(part), "{options}: {error}");
        }
    }

    #[test]
    fn a_wrong_url_names_the_part_and_never_the_password() {
        for (url, part) in [
            ("redlock:one,two", "hosts are missing"),
            ("redlock://one,,two", "host number 2 is empty"),
            ("redlock://one,u:s3cret@One:6379,two", "number 2 is the same as number 1"),
            ("redlock://one/2,two,three", "database"),
            ("redlock://u:s3cret@one/2,v:s3cret@two", "after the last host"),
            ("redlock://u:s3cret@s3cret,s3cret@one", "host number 2 has a user without a password"),
            ("redlock://u:s3cret,s3cret@one", "port is not a number"),
            ("redlock://one,two?max-ttl=5", "max-ttl \"5\""),
            ("redlock://one,two?node-limit=1h", "node-limit"),
            ("redlock://one,two?admission=off", "admission \"off\""),
            ("redlock://one,two?ttl=5s", "the options are"),
            ("redlock://one,two?tls-ca=/dev/null", "redlocks:"),
            ("redlock://one,two?wire=set-nx", "leave out wire"),
            ("redis://h?admission=yes", "strict or off"),
            ("redis://h?max-ttl=5s", "admission=strict"),
        ] {
            let error = of(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
