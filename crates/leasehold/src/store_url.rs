//! The URL of a store without the options that the client has with every store.

use std::time::Duration;

use leasehold_core::{Result, StoreUrl};

/// The shortest and longest time of the option `cache`.
const CACHE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(24 * 3600));

/// Parses a URL. Also returns the cache time of the client that it names.
pub(crate) fn with_cache(url: &str) -> Result<(StoreUrl, Option<Duration>)> {
    let mut url = StoreUrl::parse(url)?;
    let cache = url.take_duration("cache", CACHE)?;
    Ok((url, cache))
}

/// Parses a URL, for what needs no client.
pub(crate) fn parse(url: &str) -> Result<StoreUrl> {
    with_cache(url).map(|(url, _)| url)
}

#[cfg(test)]
mod tests {
    use leasehold_core::ErrorKind;

    use crate::{ClientSettings, connect, connect_with};

    #[tokio::test]
    async fn a_cache_time_in_the_url_is_the_clients() {
        let client = connect("memory:?cache=20s").await.unwrap();
        client.lock("cached").acquire().await.unwrap().release().await.unwrap();
        assert_eq!(client.usage().cached, 1);
        client.close().await;
        // That of the URL comes before that of the settings.
        let settings = || ClientSettings::new().cache(std::time::Duration::from_secs(20));
        let client = connect_with("memory:?cache=1ms", settings()).await.unwrap();
        client.lock("brief").acquire().await.unwrap().release().await.unwrap();
        while client.usage().cached > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let client = connect("memory:").await.unwrap();
        client.lock("plain").acquire().await.unwrap().release().await.unwrap();
        assert_eq!(client.usage().cached, 0);
    }

    #[tokio::test]
    async fn a_wrong_cache_time_is_named_and_one_without_effect_is_refused() {
        for url in ["memory:?cache=0s", "memory:?cache=25h", "memory:?cache=soon"] {
            let error = connect(url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(error.message().contains("cache"), "{error}");
        }
        if !cfg!(feature = "file") {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let url = format!("file:{}?cache=1s", directory.path().display());
        let error = connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        for part in ["file", "cache", "memory", "Redis"] {
            assert!(error.message().contains(part), "{error}");
        }
    }
}
