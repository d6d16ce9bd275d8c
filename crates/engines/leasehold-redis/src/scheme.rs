//! What the scheme of a URL says.

/// Returns whether connections of this scheme use TLS.
pub(crate) fn is_tls(scheme: &str) -> bool {
    scheme.starts_with("rediss") || scheme == "redlocks"
}
