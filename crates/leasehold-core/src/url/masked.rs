//! Shows the nodes of a list without their users and passwords.

use std::collections::HashMap;

use super::StoreUrl;

/// Returns the nodes of a list without their logins. `None` if a comma or an @ may be a part of
/// an unescaped password: all logins must be equal, or most of them if each is
/// `[user]:password@HOST:PORT`, or each of three or more nodes must be
/// `[user]:password@HOST[:PORT]`.
pub(super) fn nodes(place: &str) -> Option<Vec<String>> {
    let nodes: Vec<&str> = place.strip_prefix("//")?.split(',').collect();
    let last = nodes.iter().rposition(|node| node.contains('@')).filter(|last| *last > 0)?;
    let (with_login, others) = nodes.split_at(last + 1);
    let split: Option<Vec<_>> = with_login.iter().map(|node| node.split_once('@')).collect();
    let split = split.filter(|nodes| nodes.iter().all(|(_, node)| !node.contains('@')))?;
    let mut times: HashMap<&str, usize> = HashMap::new();
    for (login, _) in &split {
        *times.entry(*login).or_default() += 1;
    }
    let most = times.into_values().max()?;
    let all_equal = most == nodes.len();
    let is_host = |node: &str| StoreUrl::host_and_port(node).is_ok_and(|(host, _)| is_host(&host));
    let is_node = |(login, node): &(&str, &str)| login.contains(':') && is_host(node);
    let with_port = split[..last].iter().all(|(_, node)| node.contains(':'));
    let are_nodes = split[..last].iter().all(is_node) && split[last].0.contains(':');
    // Such a password would have two of each of @, comma and colon, in this order.
    let have_own = are_nodes && split.len() >= 3 && others.is_empty();
    let masked = split.iter().map(|(_, node)| format!("…@{node}"));
    let nodes = masked.chain(others.iter().map(|node| (*node).to_owned())).collect();
    let have_one = are_nodes && with_port && 2 * most > split.len();
    (all_equal || have_one || have_own).then_some(nodes)
}

/// Whether it may be the name or the address of a host.
fn is_host(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || ".-_:".contains(letter);
    !text.is_empty() && text.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_is_not_escaped_is_never_shown() {
        for (url, shown) in [
            ("redlock://u:s3@s3,s3@host", "redlock://…@host"),
            ("redlock://u:s3@s3,s3:s3@host", "redlock://…@host"),
            ("redlock://u:s3@one,v:s3@two", "redlock://…@two"),
            ("redlock://:s3@a:1,:s3b@b:2,:s3@c:3", "redlock://…@a:1,…@b:2,…@c:3"),
            ("redlock://:s3%40x@a:1,:s3%2C@b:2,:s3%40x@c/2", "redlock://…@a:1,…@b:2,…@c/2"),
            ("redlock://:s3@[::1]:1,:s3@b:2,c", "redlock://…@[::1]:1,…@b:2,c"),
            ("redlock://:s3@a:1,u:s3b@[::1]:2,:s3c@c-d.e", "redlock://…@a:1,…@[::1]:2,…@c-d.e"),
            ("redlock://:s3@a,:s3b@b,:s3c@c/2", "redlock://…@a,…@b,…@c/2"),
            ("redlock://:s3@a,:s3b@b,u@c", "redlock://…@c"),
            ("redlock://:s3@s3$,:s3b@s3!,:s3c@c", "redlock://…@c"),
            ("redlock://:s3@a:1,:s3b@b:2,:s3c@c:3,d:4", "redlock://…@c:3,d:4"),
            ("redlock://:s3@s3:1,:s3x@host:2", "redlock://…@host:2"),
            ("redlock://:s3@s3:1,:s3x@host:1,b:2,c:3", "redlock://…@host:1,b:2,c:3"),
            ("redlock://:s3@s3,:s3x@s3,s3@host:1", "redlock://…@host:1"),
            ("redlock://:s3@s3:s3,:s3x@s3:2,:s3@host:1", "redlock://…@host:1"),
            ("redlock://:s3,s3:1@a:1,:s3@b:2", "redlock://…@b:2"),
            ("redlock://:s3@s3@a:1,:s3@b:2", "redlock://…@b:2"),
            ("redlock://:s3@a:1,:s3@s3@b:2", "redlock://…@b:2"),
            ("redlock://:s3@s3@a:1,:s3@s3@b:2", "redlock://…@b:2"),
            ("redis:u:s3@host", "redis:…@host"),
            ("redlock://u:s3@one:1,u:s3@two:2", "redlock://…@one:1,…@two:2"),
            ("redlock://u@one,u@two?password-file=/run/s3", "redlock://…@one,…@two"),
            ("redlock://u:s3,s3@one,two", "redlock://…@one,two"),
            ("redis://u:s3@s3,s3/s3@host", "redis://…@host"),
            ("redis+sentinel://u:s3@s3,s3@one,two/main", "redis+sentinel://…@one,two/main"),
            ("etcd://u:s3@s3,s3@one,two", "etcd://…@one,two"),
            ("zookeeper://u:s3@s3,s3@one,two/locks", "zookeeper://…@one,two/locks"),
            ("postgres://u:s3@s3,s3@host/app", "postgres://…@host/app"),
        ] {
            let url = StoreUrl::parse(url).unwrap();
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("s3"), "{url:?}");
        }
    }
}
