//! The Lua scripts, assembled from their shared parts.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::proto::quorum::ProcessId;
use redis::{Arg, Cmd, Script as Hashed};

/// A script with its hash.
#[derive(Debug)]
pub(crate) struct Script {
    code: Cow<'static, str>,
    hashed: Hashed,
}

impl Script {
    pub(crate) fn new(code: impl Into<Cow<'static, str>>) -> Self {
        let code = code.into();
        Self { hashed: Hashed::new(&code), code }
    }

    /// The script that reads records of a node.
    pub(crate) fn node_leases() -> Self {
        Self::new(NODE_LEASES)
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    pub(crate) fn hash(&self) -> &str {
        self.hashed.get_hash()
    }
}

/// The line that tells a script how long records of unused names stay, in ms: at least seven eighths of it, so that a lock in
/// constant use writes the end of its record once in an eighth.
pub(crate) fn retained(retain: Duration) -> String {
    format!("local RETAIN = {}\n", retain.as_millis())
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
    /// Acquires a lock that clients read under.
    pub(crate) shared_acquire: Script,
    /// Every other operation on such a lock.
    pub(crate) shared: Script,
    /// Acquires a permit of a semaphore.
    pub(crate) semaphore_acquire: Script,
    /// Every other operation on a semaphore.
    pub(crate) semaphore: Script,
    /// Stores the first value of a latch.
    pub(crate) new_latch: Script,
    /// Every other operation on a latch.
    pub(crate) latch: Script,
    /// The scripts of another library's format, if the URL names one.
    pub(crate) wire: Option<[Arc<Script>; 3]>,
}

const ACQUIRE: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/fast_acquire.lua"),
    include_str!("lua/record.lua"),
    include_str!("lua/acquire.lua"),
    include_str!("lua/acquire_main.lua"),
);

const RELEASE: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/fast_release.lua"),
    include_str!("lua/record.lua"),
    include_str!("lua/release.lua"),
    include_str!("lua/release_main.lua"),
);

const ROTATE: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/record.lua"),
    include_str!("lua/acquire.lua"),
    include_str!("lua/release.lua"),
    include_str!("lua/rotate_main.lua"),
);

const FORCE_RELEASE: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/record.lua"),
    include_str!("lua/force_release_main.lua"),
);

const RENEW: &str = concat!(include_str!("lua/time.lua"), include_str!("lua/renew.lua"));

const STATUS: &str = concat!(
    "#!lua flags=no-writes\n",
    include_str!("lua/time.lua"),
    include_str!("lua/status.lua")
);

const SHARED: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/record.lua"),
    include_str!("lua/acquire.lua"),
    include_str!("lua/release.lua"),
    include_str!("lua/shared_record.lua"),
    include_str!("lua/shared_phase.lua"),
    include_str!("lua/shared_acquire.lua"),
    include_str!("lua/shared_release.lua"),
    include_str!("lua/shared_main.lua"),
);

const SEMAPHORE: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/record.lua"),
    include_str!("lua/release.lua"),
    include_str!("lua/semaphore_record.lua"),
    include_str!("lua/semaphore_repair.lua"),
    include_str!("lua/semaphore_serve.lua"),
    include_str!("lua/semaphore_steps.lua"),
    include_str!("lua/semaphore_main.lua"),
);

const LATCH: &str = concat!(
    include_str!("lua/time.lua"),
    include_str!("lua/record.lua"),
    include_str!("lua/latch_main.lua"),
);

/// A node of a quorum treats a record as absent an hour after the last lease, so it would stay in vain.
const LONGEST_AT_NODES: Duration = Duration::from_secs(2 * 3600);
const NODE_LEASES: &str = concat!("#!lua flags=no-writes\n", include_str!("lua/node_leases.lua"));
const ALLOW_OOM: &str = "#!lua flags=allow-oom\n";
const NODE_STEPS: &str =
    concat!(include_str!("lua/node_steps.lua"), include_str!("lua/node_main.lua"));
const NODE_TASK: &str = include_str!("lua/node_task.lua");

impl Scripts {
    /// The scripts by which records of unused names are kept for so long.
    pub(crate) fn new(retain: Duration) -> Self {
        let retained = retained(retain);
        let refusing = |body: &str| Script::new(["#!lua\n", &retained, body].concat());
        // A full server must still do this.
        let always = |body: &str| Script::new([ALLOW_OOM, &retained, body].concat());
        Self {
            acquire: refusing(ACQUIRE),
            renew: always(RENEW),
            release: always(RELEASE),
            rotate: always(ROTATE),
            force_release: always(FORCE_RELEASE),
            status: Script::new(STATUS),
            shared_acquire: refusing(SHARED),
            shared: always(SHARED),
            semaphore_acquire: refusing(SEMAPHORE),
            semaphore: always(SEMAPHORE),
            new_latch: refusing(LATCH),
            latch: always(LATCH),
            wire: None,
        }
    }

    /// Adds the scripts of another library's format.
    pub(crate) fn with_wire(self, scripts: [Arc<Script>; 3]) -> Self {
        Self { wire: Some(scripts), ..self }
    }

    /// Those that every client of locks needs, which are loaded when it connects. The server's garbage collector goes through
    /// all scripts that are loaded, and slows each call down by that; so each other one is loaded by its first call.
    pub(crate) fn at_first(&self) -> [&Script; 4] {
        [&self.acquire, &self.renew, &self.release, &self.rotate]
    }

    /// The script that a command calls.
    pub(crate) fn called_by(&self, command: &Cmd) -> Option<&Script> {
        let Some(Arg::Simple(hash)) = command.args_iter().nth(1) else { return None };
        self.all().into_iter().find(|script| script.hash().as_bytes() == hash)
    }

    fn all(&self) -> Vec<&Script> {
        let Self { acquire, renew, release, rotate, force_release, status, .. } = self;
        let Self { shared_acquire, shared, semaphore_acquire, semaphore, new_latch, latch, .. } =
            self;
        let own = [
            acquire,
            renew,
            release,
            rotate,
            force_release,
            status,
            shared_acquire,
            shared,
            semaphore_acquire,
            semaphore,
            new_latch,
            latch,
        ];
        let wire = self.wire.iter().flatten().map(|script| &**script);
        own.into_iter().chain(wire).collect()
    }
}

/// The scripts of a quorum node, made for one process: the text contains its id, so that no other
/// process knows the scripts.
#[derive(Debug)]
pub(crate) struct NodeScripts {
    pub(crate) process: ProcessId,
    /// Steps of any kind.
    pub(crate) steps: Script,
    /// Steps that grant nothing: a full server must still release, and keep its leases.
    pub(crate) keeping: Script,
    pub(crate) task: Script,
}

impl NodeScripts {
    /// The scripts of one process, by which records of unused names are kept for so long.
    pub(crate) fn new(process: ProcessId, retain: Duration) -> Self {
        let admitted = format!("local ADMITTED = 'N2A{process}'\n");
        let retained = retained(retain.min(LONGEST_AT_NODES));
        let steps = |flags: &str| {
            let parts = [flags, &admitted, &retained, include_str!("lua/time.lua"), NODE_STEPS];
            Script::new(parts.concat())
        };
        let task = format!("{ALLOW_OOM}local RUN_ID = '{process}'\n{NODE_TASK}");
        Self {
            process,
            steps: steps("#!lua\n"),
            keeping: steps(ALLOW_OOM),
            task: Script::new(task),
        }
    }

    pub(crate) fn all(&self) -> [&Script; 3] {
        [&self.steps, &self.keeping, &self.task]
    }
}
