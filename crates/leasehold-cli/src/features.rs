//! What to do if this build of the command lacks a feature.

use clap::error::{ContextKind, ContextValue};

/// Subcommands that are features, and whether this build has them.
const SUBCOMMANDS: &[(&str, bool)] = &[
    ("bench", cfg!(feature = "bench")),
    ("cache", cfg!(feature = "cache")),
    ("lab", cfg!(feature = "lab")),
    ("serve", cfg!(feature = "serve")),
];

/// The features that stores need, and whether this build has them.
const STORES: &[(&str, bool)] = &[
    ("etcd", cfg!(feature = "etcd")),
    ("file", cfg!(feature = "file")),
    ("mysql", cfg!(feature = "mysql")),
    ("postgres", cfg!(feature = "postgres")),
    ("redis", cfg!(feature = "redis")),
    ("sqlite", cfg!(feature = "sqlite")),
    ("tls", cfg!(feature = "tls")),
    ("zookeeper", cfg!(feature = "zookeeper")),
];

/// The next step for a build without these features. It keeps those that this build has.
pub(crate) fn install(features: &[&str]) -> String {
    let here = STORES.iter().chain(SUBCOMMANDS).filter(|(_, is_here)| *is_here);
    let here = here.map(|(name, _)| *name).filter(|name| !features.contains(name));
    let features: Vec<&str> = features.iter().copied().chain(here).collect();
    let features = features.join(",");
    format!(
        "install the command with it: cargo install --locked --path crates/leasehold-cli \
         --features {features}"
    )
}

/// The features that this error of the library says this build lacks.
pub(crate) fn of_error(message: &str) -> Vec<&'static str> {
    let Some((_, needs)) = message.split_once(" needs the feature") else { return Vec::new() };
    let needs = needs.split(';').next().unwrap_or_default();
    let names = STORES.iter().map(|(name, _)| *name);
    names.filter(|name| needs.contains(&format!("{name:?}"))).collect()
}

/// The feature that brings the subcommand which this error calls unknown.
pub(crate) fn of_subcommand(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    missing(word, SUBCOMMANDS)
}

fn missing(word: &str, subcommands: &[(&'static str, bool)]) -> Option<&'static str> {
    let found = subcommands.iter().find(|(name, is_here)| *name == word && !is_here);
    found.map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subcommand_that_is_not_in_this_build_names_its_feature() {
        let subcommands = [("bench", false), ("lab", true)];
        assert_eq!(missing("bench", &subcommands), Some("bench"));
        assert_eq!(missing("lab", &subcommands), None);
        assert_eq!(missing("benches", &subcommands), None);
        assert!(install(&["etcd", "tls"]).contains("--features etcd,tls"));
    }

    #[test]
    fn the_features_of_an_error_are_read_from_it() {
        let of = |needs: &str| of_error(&format!("store URL: scheme \"x\" needs the {needs}"));
        assert_eq!(
            of("feature \"etcd\" of the crate leasehold; this build supports file"),
            ["etcd"]
        );
        assert_eq!(of("features [\"etcd\", \"tls\"] of the crate leasehold"), ["etcd", "tls"]);
        assert_eq!(of_error("store URL: TLS needs the feature \"tls\", which"), ["tls"]);
        assert_eq!(of_error("redis://h is not a quorum"), Vec::<&str>::new());
    }
}
