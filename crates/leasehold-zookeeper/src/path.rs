//! Where a lock's nodes are: names made safe for paths, and the nodes of a lock read and written.

use std::fmt::Write as _;

use leasehold_core::{AttemptId, Name};

/// What stands between the id and the number in the name of a lock's node, as Curator has it.
const MARK: &str = "lock-";

/// A node under which the locks are: absolute, without a slash at its end, empty for the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root(pub(crate) String);

impl Root {
    /// The node of a lock, under which its holder and its waiters have theirs.
    pub(crate) fn lock(&self, name: &Name) -> String {
        format!("{}/{}", self.0, escape(name.as_str()))
    }

    /// The node itself, for requests.
    pub(crate) fn path(&self) -> &str {
        if self.0.is_empty() { "/" } else { &self.0 }
    }
}

/// A name as a part of a path. A slash and what ZooKeeper does not allow in paths is written as the
/// percent-escapes of its UTF-8, and so is what means something there.
pub(crate) fn escape(name: &str) -> String {
    // `.` and `..` would lead elsewhere; `zookeeper` at the top is the server's own.
    let whole = matches!(name, "." | ".." | "zookeeper");
    let mut escaped = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        if is_plain(c) && !(whole && at == 0) {
            escaped.push(c);
            continue;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            // Writing to a string does not fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// Beyond U+FFFF Java sees surrogates, which paths must not have.
fn is_plain(c: char) -> bool {
    !matches!(c, '/' | '%' | '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{d7ff}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// The name that [`escape`] wrote; `None` for what it never writes.
pub(crate) fn unescape(part: &str) -> Option<Name> {
    let text = percent_encoding::percent_decode_str(part).decode_utf8().ok()?;
    Name::new(&text).ok().filter(|name| escape(name.as_str()) == part)
}

/// The beginning of the name of an attempt's node; the server adds the number. The attempt is in
/// it as a UUID, so that it is found again when the answer to its creation was lost.
pub(crate) fn prefix(attempt: AttemptId) -> String {
    let hex = attempt.to_string();
    let parts =
        [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| hex.get(range).unwrap_or_default());
    format!("_c_{}-{MARK}", parts.join("-"))
}

/// A node of a lock: of its holder or of one who waits, in whatever program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The node's name.
    pub(crate) node: String,
    /// Its number, which the server has added. It counts from 0 to 2^31-1, and goes on below 0.
    number: i32,
}

impl Seat {
    /// Understands a node's name; `None` for one that is not a lock's.
    pub(crate) fn parse(node: &str) -> Option<Self> {
        let (_, number) = node.rsplit_once(MARK)?;
        let digits = number.strip_prefix('-').unwrap_or(number);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // A sign that follows the mark is the number's: `lock--000000001`.
        Some(Self { node: node.to_owned(), number: number.parse().ok()? })
    }

    /// The attempt in its name, if it was one of ours that made it.
    pub(crate) fn attempt(&self) -> Option<AttemptId> {
        let id = self.node.strip_prefix("_c_")?.get(..36)?;
        AttemptId::parse(&id.replace('-', ""))
    }
}

/// The seats of a lock, first come first, also where the numbers have passed their largest: those
/// of one lock are never half of all numbers apart. Or the name of a node that is not a lock's.
pub(crate) fn line(nodes: Vec<String>) -> Result<Vec<Seat>, String> {
    let mut seats = Vec::with_capacity(nodes.len());
    for node in nodes {
        seats.push(Seat::parse(&node).ok_or(node)?);
    }
    let Some(pivot) = seats.first().map(|seat| seat.number) else { return Ok(seats) };
    let from_pivot = |seat: &Seat| seat.number.wrapping_sub(pivot);
    seats.sort_by(|a, b| from_pivot(a).cmp(&from_pivot(b)).then_with(|| a.node.cmp(&b.node)));
    Ok(seats)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::ClientId;

    #[test]
    fn every_name_is_one_part_of_a_path_and_read_back() {
        let long = "锁".repeat(170);
        for name in [
            "a",
            "a/b",
            "/",
            ".",
            "..",
            "...",
            "zookeeper",
            "zookeepers",
            "%",
            "a%2Fb",
            "名字",
            "😀",
            "\u{e000}",
            "\u{fffd}",
            "{a}",
            " ",
            &long,
        ] {
            let part = escape(name);
            assert!(!part.contains('/') && !matches!(&*part, "." | ".." | "zookeeper"), "{part}");
            assert!(part.chars().all(is_plain_or_percent), "{part}");
            assert_eq!(unescape(&part).unwrap().as_str(), name);
        }
        for never in ["%2f", "%zz", "%41", "%FF", ""] {
            assert_eq!(unescape(never), None, "{never}");
        }
    }

    fn is_plain_or_percent(c: char) -> bool {
        c == '%' || is_plain(c)
    }

    #[test]
    fn a_node_tells_its_attempt_and_curators_are_understood() {
        let attempt = AttemptId::new(ClientId::from_bits(0x0123_4567_89ab_cdef), 7, 9);
        let node = prefix(attempt) + "0000000012";
        assert_eq!(node, "_c_01234567-89ab-cdef-0000-000700000009-lock-0000000012");
        let seat = Seat::parse(&node).unwrap();
        assert_eq!((seat.attempt(), seat.number), (Some(attempt), 12));
        let theirs = Seat::parse("x-lock-0000000003").unwrap();
        assert_eq!((theirs.attempt(), theirs.number), (None, 3));
        for not_ours in
            ["config", "lock-", "lock-x", "a__lock__0000000001", "_c_x-__WRIT__0000000001"]
        {
            assert_eq!(Seat::parse(not_ours), None, "{not_ours}");
        }
    }

    #[test]
    fn the_line_goes_on_where_the_numbers_pass_their_largest() {
        let nodes =
            ["b-lock--2147483647", "c-lock-2147483646", "a-lock--2147483648", "d-lock-2147483647"];
        for turn in 0..nodes.len() {
            let mut turned = nodes;
            turned.rotate_left(turn);
            let seats = line(turned.map(str::to_owned).to_vec()).unwrap();
            let order: String = seats.iter().map(|seat| &seat.node[..1]).collect();
            assert_eq!(order, "cdab");
        }
        assert_eq!(line(vec!["lock-1".into(), "x".into()]), Err("x".to_owned()));
    }
}
