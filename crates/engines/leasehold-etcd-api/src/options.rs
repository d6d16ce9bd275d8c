//! What a read or a write of keys has beside the key.

use crate::generated::etcdserverpb::{PutRequest, RangeRequest};
use crate::{SortOrder, SortTarget};

/// Which keys a read returns. The default is the key alone.
///
/// Reads are linearizable: they return what the cluster has when it answers.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    request: RangeRequest,
    prefix: bool,
}

impl GetOptions {
    /// Reads the key alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the keys from the key to before this one.
    #[must_use]
    pub fn with_range(mut self, end: impl Into<Vec<u8>>) -> Self {
        self.request.range_end = end.into();
        self
    }

    /// Reads all keys that begin with the key.
    #[must_use]
    pub fn with_prefix(mut self) -> Self {
        self.prefix = true;
        self
    }

    /// Returns at most this number of keys.
    #[must_use]
    pub fn with_limit(mut self, limit: i64) -> Self {
        self.request.limit = limit;
        self
    }

    /// Returns the keys in this order. The default is the order of the keys.
    #[must_use]
    pub fn with_sort(mut self, target: SortTarget, order: SortOrder) -> Self {
        self.request.sort_target = target.into();
        self.request.sort_order = order.into();
        self
    }

    /// Returns no values.
    #[must_use]
    pub fn with_keys_only(mut self) -> Self {
        self.request.keys_only = true;
        self
    }

    /// Returns only how many keys there are.
    #[must_use]
    pub fn with_count_only(mut self) -> Self {
        self.request.count_only = true;
        self
    }

    /// Leaves out keys that were created after this revision.
    #[must_use]
    pub fn with_max_create_revision(mut self, revision: i64) -> Self {
        self.request.max_create_revision = revision;
        self
    }

    pub(crate) fn request(mut self, mut key: Vec<u8>) -> RangeRequest {
        if self.prefix {
            self.request.range_end = end_of_prefix(&key);
            if key.is_empty() {
                // The first of all keys: etcd refuses an empty one.
                key.push(0);
            }
        }
        self.request.key = key;
        self.request
    }
}

/// Returns the end of the range of all keys that begin with a prefix: the next text of the same length or less, or `\0`,
/// which is no end, after `0xff` alone.
fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let Some(last) = prefix.iter().rposition(|byte| *byte < u8::MAX) else { return vec![0] };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    end
}

/// What a write has beside key and value.
#[derive(Clone, Debug, Default)]
pub struct PutOptions(PutRequest);

impl PutOptions {
    /// Writes the value, without a lease.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Attaches the key to a lease.
    #[must_use]
    pub fn with_lease(mut self, lease: i64) -> Self {
        self.0.lease = lease;
        self
    }

    /// Keeps the lease of the key, which must exist.
    #[must_use]
    pub fn with_ignore_lease(mut self) -> Self {
        self.0.ignore_lease = true;
        self
    }

    /// Returns the earlier value.
    #[must_use]
    pub fn with_prev_key(mut self) -> Self {
        self.0.prev_kv = true;
        self
    }

    pub(crate) fn request(mut self, key: Vec<u8>, value: Vec<u8>) -> PutRequest {
        (self.0.key, self.0.value) = (key, value);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_the_range_up_to_the_next_one() {
        let range = |key: &[u8]| GetOptions::new().with_prefix().request(key.to_vec()).range_end;
        assert_eq!(range(b"locks/"), b"locks0");
        assert_eq!(range(b"a\xff\xff"), b"b");
        // All keys from there on.
        assert_eq!(range(b"\xff"), [0]);
        let all = GetOptions::new().with_prefix().request(Vec::new());
        assert_eq!((all.key, all.range_end), (vec![0], vec![0]));
        assert_eq!(GetOptions::new().request(b"a".to_vec()).range_end, b"");
    }
}
