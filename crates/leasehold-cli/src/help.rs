//! The texts below the options of `--help`: short forms of sections of the manual pages.

/// Shown below `leasehold --help`.
pub(crate) const SHORT_HELP: &str = "\
Examples:
  leasehold run backup -- pg_dump -f /backup/db.sql app
  leasehold run -n --min-hold 30s nightly -- ./report.sh
  leasehold status backup

Exit codes: 125 own errors, 69 store unusable, 76 lock lost; see leasehold man.";

/// Shown below `leasehold run --help`.
pub(crate) const RUN_HELP: &str = "\
A time is a number with ms, s, m, h or d, or several such as 2m30s; a bare number is seconds.

Exit codes: the command's; 128+N when signal N ended it; 126 or 127 when it could not be run or
was not found; 1 (or -E) if the lock was not available; 69 when the store cannot be used; 76
when the lock was lost; 125 for everything else.";

/// Shown below `leasehold elect --help`.
pub(crate) const ELECT_HELP: &str = "\
Examples:
  leasehold elect scheduler --candidate 10.0.0.7:8080 -- ./scheduler
  leasehold leader scheduler

Exit codes: the command's when it ended by itself; 128+N when signal N ended it or the campaign; 126
or 127 when it could not be run or was not found; 69 when the store cannot be used at the first
campaign; 125 for everything else.";

/// Shown below `leasehold latch --help`.
pub(crate) const LATCH_HELP: &str = "\
Examples:
  leasehold latch import/monday --parties 2 --count-down orders
  leasehold latch import/monday --parties 2 --wait && ./report.sh

Exit codes: 0 no party is missing, or one was counted; 1 parties are missing; 69 when the store
cannot be used; 76 when the latch was removed or has expired; 125 for everything else.";

/// Shown below `leasehold doctor --help`.
pub(crate) const DOCTOR_HELP: &str = "\
Examples:
  leasehold doctor
  leasehold doctor redis://locks.internal
  leasehold doctor --json redlock://one,two,three

Exit codes: 0 nothing to change; 1 warnings; 2 problems; 69 when the store does not answer.";

/// Shown below `leasehold completions --help`.
pub(crate) const COMPLETIONS_HELP: &str = "\
Where the file goes, for this user:
  bash        leasehold completions bash > ~/.local/share/bash-completion/completions/leasehold
  zsh         leasehold completions zsh > ~/.zfunc/_leasehold
              and in ~/.zshrc, before compinit: fpath+=~/.zfunc
  fish        leasehold completions fish > ~/.config/fish/completions/leasehold.fish
  elvish      leasehold completions elvish >> ~/.config/elvish/rc.elv
  powershell  leasehold completions powershell >> $PROFILE

Create the directory first if it does not exist. A new shell reads the file.";

/// Shown below `leasehold cache relay --help`.
#[cfg(feature = "cache")]
pub(crate) const RELAY_HELP: &str = "\
Examples:
  leasehold cache init --database postgres://app@db/shop
  leasehold cache relay --database postgres://app@db/shop --store redis://cache:6379
  leasehold cache relay --database sqlite:/var/lib/shop.db --store redis://cache --once --json
  leasehold cache relay --database postgres://app@db/shop --to nats://broker:4222

Exit codes: 0 done, or ended by TERM or INT; 69 when with --once the database or where it goes to
cannot be used, or at the start the database; 125 for everything else.";

/// Shown below `leasehold cache apply --help`.
#[cfg(feature = "nats")]
pub(crate) const APPLY_HELP: &str = "\
Examples:
  leasehold cache init --to nats://broker:4222
  leasehold cache apply --from nats://broker:4222 --store redis://cache:6379
  leasehold cache apply --from 'nats://broker:4222?durable=paris' --store redis://cache.paris:6379

Exit codes: 0 done, or ended by TERM or INT; 69 when with --once NATS or Redis cannot be used; 125
for everything else.";

/// Shown below `leasehold lab --help`.
#[cfg(feature = "lab")]
pub(crate) const LAB_HELP: &str = "\
Examples:
  leasehold lab list
  leasehold lab gc-pause
  leasehold lab timestamp-lock --setup single
  leasehold lab node-restart --setup redlock --svg node-restart.svg
  leasehold lab gc-pause --lang zh
  leasehold lab delayed-double-delete --setup leasehold
  leasehold lab matrix --seeds 1000";

/// Shown below `leasehold serve --help`.
#[cfg(feature = "serve")]
pub(crate) const SERVE_HELP: &str = "\
Examples:
  leasehold serve --store redis://127.0.0.1
  leasehold serve --store main=redis://10.0.0.1 --store jobs=postgres://app@db/locks --token-file tokens
  leasehold serve --listen unix:/run/leasehold/serve.sock
  curl -N -X POST -H 'X-Leasehold: 1' --unix-socket /run/leasehold/serve.sock \\
    http://localhost/v1/stores/file/locks/report/hold";
