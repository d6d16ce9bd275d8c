//! The paths of a lock's nodes: escapes names, and formats and parses node names.

use std::fmt::Write as _;

use leasehold_core::backend::Mode;
use leasehold_core::{AttemptId, Name};

/// The text between the id and the number in a node's name, as in Curator.
const MARK: &str = "lock-";
/// The text before the mark in the name of a node that is there to read. Clients that know no readers,
/// and Curator's mutexes, take it as a part of the name: such a node is one more in the queue for them.
const READS: &str = "read-";
/// The text before the number of slots in the name of a node that asks for a permit of a semaphore.
const PERMIT: &str = "permit-";
/// The node below a name that belongs to a latch, and contains it.
pub(crate) const LATCH: &str = "latch";
/// The node below a name that belongs to a semaphore. It contains the record, and has the nodes of the permits and the
/// waiters below it.
pub(crate) const SEMAPHORE: &str = "semaphore";
/// The node below a name that marks it: clients with the option `wire` use it in the format of another library.
pub(crate) const WIRE: &str = "wire";

/// The root node of the locks: an absolute path without a slash at its end; empty for the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root(pub(crate) String);

impl Root {
    /// Returns the node of a lock, which is the parent of its holder's and its waiters' nodes.
    pub(crate) fn lock(&self, name: &Name) -> String {
        format!("{}/{}", self.0, escape(name.as_str()))
    }

    /// Returns the node of a lock whose name is a path below the root, as in other libraries. A name that cannot be a
    /// path, or is the escaped form of another name, is escaped.
    pub(crate) fn below(&self, name: &Name) -> String {
        match is_path(name.as_str()) {
            true => format!("{}/{}", self.0, name.as_str()),
            false => self.lock(name),
        }
    }

    /// Returns the path of the node itself, for requests.
    pub(crate) fn path(&self) -> &str {
        if self.0.is_empty() { "/" } else { &self.0 }
    }
}

/// Returns a name as a part of a path. It percent-escapes the UTF-8 of slashes, of characters that
/// ZooKeeper does not allow in paths, and of names with a meaning there.
pub(crate) fn escape(name: &str) -> String {
    // `.` and `..` are relative paths; `zookeeper` at the top belongs to the server.
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

/// Returns true if the text may be one part of a path as it is.
pub(crate) fn is_part(text: &str) -> bool {
    !text.is_empty() && escape(text) == text.replace('%', "%25")
}

/// Returns true if a name is a path below a root, and not what [`escape`] makes of another name: that is the node which
/// clients without the option `wire` use for it.
fn is_path(name: &str) -> bool {
    let is_escaped = name.contains('%') && unescape(name).is_some();
    !is_escaped && name.split('/').all(is_part)
}

/// Returns true if a path may contain the character. Above U+FFFF, Java uses surrogates, which
/// paths must not contain.
fn is_plain(c: char) -> bool {
    !matches!(c, '/' | '%' | '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{d7ff}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// Returns the name that [`escape`] wrote; `None` for text that it never writes.
pub(crate) fn unescape(part: &str) -> Option<Name> {
    let text = percent_encoding::percent_decode_str(part).decode_utf8().ok()?;
    Name::new(&text).ok().filter(|name| escape(name.as_str()) == part)
}

/// Returns the beginning of the name of an attempt's node; the server adds the number.
pub(crate) fn prefix(attempt: AttemptId, mode: Mode) -> String {
    let reads = if mode == Mode::Shared { READS } else { "" };
    format!("{}{reads}{MARK}", stem(attempt))
}

/// Returns the beginning of the name of the node of an attempt for a permit of so many slots.
pub(crate) fn permit_prefix(attempt: AttemptId, slots: u32) -> String {
    format!("{}{PERMIT}{slots}-{MARK}", stem(attempt))
}

/// Returns the node of the semaphore of the name whose node is `lock`.
pub(crate) fn semaphore(lock: &str) -> String {
    format!("{lock}/{SEMAPHORE}")
}

/// Returns the node that marks the name whose node is `lock`.
pub(crate) fn mark(lock: &str) -> String {
    format!("{lock}/{WIRE}")
}

/// Returns the node of the latch of the name whose node is `lock`.
pub(crate) fn latch(lock: &str) -> String {
    format!("{lock}/{LATCH}")
}

/// Returns the part of the name that all nodes of an attempt have in common: the attempt as a UUID, so
/// that a node can be found if the answer to its creation was lost.
pub(crate) fn stem(attempt: AttemptId) -> String {
    let hex = attempt.to_string();
    let parts =
        [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| hex.get(range).unwrap_or_default());
    format!("_c_{}-", parts.join("-"))
}

/// The node of a lock's holder or waiter, of any program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueNode {
    /// The node's name.
    pub(crate) node: String,
    /// The number that the server has added. It counts from 0 to 2^31-1 and continues at -2^31.
    pub(crate) number: i32,
    /// It is there to read.
    pub(crate) reads: bool,
}

impl QueueNode {
    /// Parses a node's name; `None` if it does not belong to a lock.
    pub(crate) fn parse(node: &str) -> Option<Self> {
        let (name, number) = node.rsplit_once(MARK)?;
        let digits = number.strip_prefix('-').unwrap_or(number);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let reads = name.strip_suffix(READS).is_some_and(|name| attempt(name).is_some());
        // A sign after the mark belongs to the number: `lock--000000001`.
        Some(Self { node: node.to_owned(), number: number.parse().ok()?, reads })
    }

    /// Returns the attempt in the name, if this engine created the node.
    pub(crate) fn attempt(&self) -> Option<AttemptId> {
        attempt(&self.node)
    }

    /// Returns how many slots of a semaphore it asks for; `None` if it is no node of this engine for a permit.
    pub(crate) fn slots(&self) -> Option<u32> {
        let (name, _) = self.node.rsplit_once(MARK)?;
        self.attempt()?;
        name.get(3 + 36 + 1..)?.strip_prefix(PERMIT)?.strip_suffix('-')?.parse().ok()
    }

    /// Returns the name of the node that takes this place in the queue for another attempt.
    pub(crate) fn replaced_by(&self, attempt: AttemptId, mode: Mode) -> String {
        let number = self.node.rsplit_once(MARK).map_or("", |(_, number)| number);
        format!("{}{number}", prefix(attempt, mode))
    }
}

fn attempt(node: &str) -> Option<AttemptId> {
    let id = node.strip_prefix("_c_")?.get(..36)?;
    AttemptId::parse(&id.replace('-', ""))
}

/// Sorts the nodes of a lock by arrival, also across the overflow of their numbers: the numbers of
/// one lock are never 2^31 apart. The error is the name of a node that does not belong to a lock.
pub(crate) fn queue(nodes: Vec<String>) -> Result<Vec<QueueNode>, String> {
    let mut queue = Vec::with_capacity(nodes.len());
    for node in nodes {
        queue.push(QueueNode::parse(&node).ok_or(node)?);
    }
    let Some(pivot) = queue.first().map(|queued| queued.number) else { return Ok(queue) };
    let from_pivot = |queued: &QueueNode| queued.number.wrapping_sub(pivot);
    queue.sort_by(|a, b| from_pivot(a).cmp(&from_pivot(b)).then_with(|| a.node.cmp(&b.node)));
    Ok(queue)
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

    #[test]
    fn below_a_root_a_name_is_a_path_and_each_has_its_own() {
        let root = Root("/locks".to_owned());
        let below = |name: &str| root.below(&Name::new(name).unwrap());
        for (name, path) in [
            ("job", "/locks/job"),
            ("a/b", "/locks/a/b"),
            ("100%", "/locks/100%"),
            ("a%2Fb", "/locks/a%252Fb"),
            ("a%2fb", "/locks/a%2fb"),
            ("/", "/locks/%2F"),
            ("%2F", "/locks/%252F"),
            ("%252F", "/locks/%25252F"),
            ("/job", "/locks/%2Fjob"),
            ("a//b", "/locks/a%2F%2Fb"),
            ("a/../b", "/locks/a%2F..%2Fb"),
            (".", "/locks/%2E"),
            ("😀", "/locks/%F0%9F%98%80"),
        ] {
            assert_eq!(below(name), path);
        }
    }

    fn is_plain_or_percent(c: char) -> bool {
        c == '%' || is_plain(c)
    }

    #[test]
    fn a_node_tells_its_attempt_and_curators_are_understood() {
        let attempt = AttemptId::new(ClientId::from_bits(0x0123_4567_89ab_cdef), 7, 9);
        let node = prefix(attempt, Mode::Exclusive) + "0000000012";
        assert_eq!(node, "_c_01234567-89ab-cdef-0000-000700000009-lock-0000000012");
        let queued = QueueNode::parse(&node).unwrap();
        assert_eq!((queued.attempt(), queued.number, queued.reads), (Some(attempt), 12, false));
        let read = queued.replaced_by(attempt, Mode::Shared);
        assert_eq!(read, "_c_01234567-89ab-cdef-0000-000700000009-read-lock-0000000012");
        let queued = QueueNode::parse(&read).unwrap();
        assert_eq!((queued.attempt(), queued.number, queued.reads), (Some(attempt), 12, true));
        assert_eq!(queued.replaced_by(attempt, Mode::Exclusive), node);
        assert!(read.starts_with(&stem(attempt)) && node.starts_with(&stem(attempt)));
        let permit = permit_prefix(attempt, 12) + "0000000012";
        let queued = QueueNode::parse(&permit).unwrap();
        assert_eq!(
            (queued.attempt(), queued.slots(), queued.reads),
            (Some(attempt), Some(12), false)
        );
        assert_eq!(QueueNode::parse(&node).unwrap().slots(), None);
        let theirs = QueueNode::parse("my-read-lock-0000000003").unwrap();
        assert_eq!((theirs.attempt(), theirs.reads), (None, false));
        let theirs = QueueNode::parse("x-lock-0000000003").unwrap();
        assert_eq!((theirs.attempt(), theirs.number), (None, 3));
        for not_ours in
            ["config", "lock-", "lock-x", "a__lock__0000000001", "_c_x-__WRIT__0000000001"]
        {
            assert_eq!(QueueNode::parse(not_ours), None, "{not_ours}");
        }
    }

    /// What a client of the time before readers (c26c1cc) makes of a node's name.
    fn number_for_an_earlier_client(node: &str) -> Option<i32> {
        let (_, number) = node.rsplit_once(MARK)?;
        let digits = number.strip_prefix('-').unwrap_or(number);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        number.parse().ok()
    }

    #[test]
    fn an_earlier_client_counts_the_node_of_a_reader_as_one_more_in_the_queue() {
        let attempt = AttemptId::new(ClientId::from_bits(1), 2, 3);
        for number in ["0000000012", "-2147483647"] {
            let node = prefix(attempt, Mode::Shared) + number;
            let expected = QueueNode::parse(&node).map(|queued| queued.number);
            assert!(expected.is_some());
            assert_eq!(number_for_an_earlier_client(&node), expected, "{node}");
        }
    }

    #[test]
    fn the_line_goes_on_where_the_numbers_pass_their_largest() {
        let nodes =
            ["b-lock--2147483647", "c-lock-2147483646", "a-lock--2147483648", "d-lock-2147483647"];
        for turn in 0..nodes.len() {
            let mut turned = nodes;
            turned.rotate_left(turn);
            let queue = queue(turned.map(str::to_owned).to_vec()).unwrap();
            let order: String = queue.iter().map(|queued| &queued.node[..1]).collect();
            assert_eq!(order, "cdab");
        }
        assert_eq!(queue(vec!["lock-1".into(), "x".into()]), Err("x".to_owned()));
    }
}
