//! The Lua scripts, put together from what they share.

use redis::Script as Hashed;

/// A script with its hash.
#[derive(Debug)]
pub(crate) struct Script {
    code: &'static str,
    hashed: Hashed,
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, hashed: Hashed::new(code) }
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn hash(&self) -> &str {
        self.hashed.get_hash()
    }
}

/// All scripts of a connection.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) acquire: Script,
    pub(crate) renew: Script,
    pub(crate) release: Script,
    pub(crate) rotate: Script,
    pub(crate) force_release: Script,
    pub(crate) status: Script,
}

const ACQUIRE: &str = concat!(
    "#!lua\n",
    include_str!("lua/time.lua"),
    include_str!("lua/fast_acquire.lua"),
    include_str!("lua/record.lua"),
    include_str!("lua/acquire.lua"),
    include_str!("lua/acquire_main.lua"),
);

/// A full server must still let go of locks.
const RELEASE: &str = concat!(
    "#!lua flags=allow-oom\n",
    include_str!("lua/time.lua"),
    include_str!("lua/fast_release.lua"),
    include_str!("lua/record.lua"),
    include_str!("lua/release.lua"),
    include_str!("lua/release_main.lua"),
);

const ROTATE: &str = concat!(
    "#!lua flags=allow-oom\n",
    include_str!("lua/time.lua"),
    include_str!("lua/record.lua"),
    include_str!("lua/acquire.lua"),
    include_str!("lua/release.lua"),
    include_str!("lua/rotate_main.lua"),
);

const FORCE_RELEASE: &str = concat!(
    "#!lua flags=allow-oom\n",
    include_str!("lua/time.lua"),
    include_str!("lua/record.lua"),
    include_str!("lua/force_release_main.lua"),
);

const RENEW: &str =
    concat!("#!lua flags=allow-oom\n", include_str!("lua/time.lua"), include_str!("lua/renew.lua"));

const STATUS: &str = concat!(
    "#!lua flags=no-writes\n",
    include_str!("lua/time.lua"),
    include_str!("lua/status.lua")
);

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            acquire: Script::new(ACQUIRE),
            renew: Script::new(RENEW),
            release: Script::new(RELEASE),
            rotate: Script::new(ROTATE),
            force_release: Script::new(FORCE_RELEASE),
            status: Script::new(STATUS),
        }
    }

    pub(crate) fn all(&self) -> [&Script; 6] {
        [&self.acquire, &self.renew, &self.release, &self.rotate, &self.force_release, &self.status]
    }
}
