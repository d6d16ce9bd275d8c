//! Finds the locks: the store's URL from option, environment, config file or default.

use std::env;

use leasehold::StoreUrl;

use crate::config::Config;
use crate::failure::Failure;
use crate::folders;

/// The environment variable that names the store.
pub(crate) const STORE_VARIABLE: &str = "LEASEHOLD_STORE";

/// The value for a command whose `leasehold run` had a store with credentials.
pub(crate) const WITHHELD: &str = "withheld:";

/// Set by the tests, which have no server, to use a store where leases end by time.
const TEST_MEMORY: &str = "__LEASEHOLD_TEST_MEMORY";

/// The URL of the store, and what names it.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) url: String,
    /// The option, the variable, or the file, for messages.
    pub(crate) by: &'static str,
}

const BY_OPTION: &str = "--store";
const BY_FILE: &str = "the config file";

/// Returns the store's URL: from the option, a named config file, the environment, the other config
/// files, or a directory of the user.
///
/// A file named on the command line comes before the variable, since the variable may come from an
/// enclosing `leasehold run`.
pub(crate) fn store_url(option: Option<&str>, config: &Config) -> Result<Located, Failure> {
    let by_file = || config.store.clone().map(|url| (url, BY_FILE));
    let given = match option {
        Some(url) => Some((url.to_owned(), BY_OPTION)),
        None if config.is_named && config.store.is_some() => by_file(),
        None => from_environment()?.map(|url| (url, STORE_VARIABLE)).or_else(by_file),
    };
    let Some((url, by)) = given else {
        return Ok(Located { url: default()?, by: "the default store" });
    };
    match url.as_str() {
        // A script whose variable is not set must not lock where no other client looks.
        "" => Err(Failure::own(format!("the URL of {by} is empty")).next(
            "unset it to use the default store, or name a store, such as file:/var/lib/leasehold",
        )),
        WITHHELD => Err(Failure::own(
            "the store of the enclosing run has credentials, which are not passed on",
        )
        .next("name the store again: --store with a password file, or --config FILE")),
        _ => Ok(Located { url: refuse_memory(url)?, by }),
    }
}

fn from_environment() -> Result<Option<String>, Failure> {
    let Some(url) = env::var_os(STORE_VARIABLE) else { return Ok(None) };
    match url.into_string() {
        Ok(url) => Ok(Some(url)),
        Err(_) => Err(Failure::own(format!("{STORE_VARIABLE} is not UTF-8"))),
    }
}

/// Refuses the memory of this process, which excludes no other process.
fn refuse_memory(url: String) -> Result<String, Failure> {
    let is_memory = StoreUrl::parse(&url).is_ok_and(|parsed| parsed.scheme() == "memory");
    if !is_memory || env::var_os(TEST_MEMORY).is_some() {
        return Ok(url);
    }
    Err(Failure::own(
        "the store memory: is the memory of one process; no other process sees its locks",
    )
    .next(
        "use a directory for this machine (--store file:/var/lib/leasehold, or no --store at \
           all), or a server for several",
    ))
}

fn default() -> Result<String, Failure> {
    const NEXT: &str = "name a store: --store file:/var/lib/leasehold, or LEASEHOLD_STORE";
    let Some(folder) = folders::state() else {
        return Err(Failure::own(
            "this user has no home directory for locks: the user database names none, and \
             HOME is not an absolute path",
        )
        .next(NEXT));
    };
    let folder = folder.join("leasehold");
    let Some(path) = folder.to_str() else {
        let what = format!("{}: the path is not UTF-8", folder.display());
        return Err(Failure::own(what).next(NEXT));
    };
    Ok(format!("file:{}", path.replace('%', "%25").replace('?', "%3F")))
}
