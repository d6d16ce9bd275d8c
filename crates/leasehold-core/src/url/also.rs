//! A URL with the option `also`, which names two stores.

use super::StoreUrl;
use crate::Result;

/// The options that belong to the format of the other library.
const OF_FORMAT: [&str; 7] =
    ["columns", "directory", "key-prefix", "majority", "spring", "suffix", "table"];

/// The two stores of a URL with the option `also`. **Unstable**, as [`backend`](crate::backend) is: it is for authors of
/// engines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AlsoUrls {
    /// The store without the option.
    pub native: StoreUrl,
    /// The store in the other library's format, as with the option `wire`.
    pub foreign: StoreUrl,
}

impl StoreUrl {
    /// Splits a URL that has the option `also`; `None` without it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the URL has `wire` too, and for a `file:` URL without the directory
    /// of the other programs.
    pub fn split_also(&self) -> Result<Option<AlsoUrls>> {
        let Some(at) = self.options.iter().position(|option| option.key == "also") else {
            return Ok(None);
        };
        if self.options.iter().any(|option| option.key == "wire") {
            return Err(Self::invalid(
                "wire and also; name one: wire=FORMAT for the locks of the other library alone, also=FORMAT for both",
            ));
        }
        let (mut native, mut foreign) = (self.clone(), self.clone());
        "wire".clone_into(&mut foreign.options[at].key);
        if self.scheme == "file" {
            // The directory of the other programs has no place for our own files.
            let directory = foreign.take("directory").filter(|path| path.starts_with('/'));
            let directory = directory.ok_or_else(|| {
                Self::invalid(
                    "also=flock: name the directory of the other programs' files with the option directory, such as \
                     directory=/run/lock",
                )
            })?;
            foreign.place = directory.replace('%', "%25");
        }
        native.options.retain(|option| option.key != "also" && !OF_FORMAT.contains(&&*option.key));
        Ok(Some(AlsoUrls { native, foreign }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(url: &str) -> Result<Option<AlsoUrls>> {
        StoreUrl::parse(url).unwrap().split_also()
    }

    #[test]
    fn the_options_of_the_format_are_those_of_the_foreign_store() {
        let url = "redis://h?prefix=p&also=set-nx&key-prefix=redlock:";
        let AlsoUrls { mut native, mut foreign } = split(url).unwrap().unwrap();
        assert_eq!(foreign.take("wire").unwrap(), "set-nx");
        assert_eq!(foreign.take("key-prefix").unwrap(), "redlock:");
        for part in [&mut native, &mut foreign] {
            assert_eq!(part.take("prefix").unwrap(), "p");
            part.finish(&[]).unwrap();
        }
        let AlsoUrls { native, mut foreign } =
            split("redis://h?also=rueidis&majority=2").unwrap().unwrap();
        native.finish(&[]).unwrap();
        assert_eq!(foreign.take("majority").unwrap(), "2");
        assert!(split("redis://h?wire=set-nx").unwrap().is_none());
        let url = "file:/var/lib/a?also=flock&directory=/run/a%25b&suffix=.lock";
        let AlsoUrls { native, mut foreign } = split(url).unwrap().unwrap();
        assert_eq!(
            (native.path().unwrap(), foreign.path().unwrap()),
            ("/var/lib/a".into(), "/run/a%b".into())
        );
        native.finish(&[]).unwrap();
        foreign.take("wire").unwrap();
        foreign.take("suffix").unwrap();
        foreign.finish(&[]).unwrap();
        let error = split("file:/var/lib/a?also=flock").unwrap_err();
        assert!(error.to_string().contains("directory=/run/lock"), "{error}");
        let error = split("redis://h?wire=set-nx&also=set-nx").unwrap_err();
        assert!(error.to_string().contains("name one"), "{error}");
    }
}
