//! The scripts of revision c26c1cc, which has neither read-write locks nor semaphores, as its clients load
//! them; their comments are left out.

const TIME: &str = include_str!("earlier_scripts/time.lua");
const RECORD: &str = include_str!("earlier_scripts/record.lua");
const ASK: &str = include_str!("earlier_scripts/acquire.lua");
const END: &str = include_str!("earlier_scripts/release.lua");

pub(crate) fn acquire() -> String {
    let parts = ["#!lua\n", TIME, include_str!("earlier_scripts/fast_acquire.lua"), RECORD, ASK];
    parts.concat() + include_str!("earlier_scripts/acquire_main.lua")
}

pub(crate) fn release() -> String {
    let parts = ["#!lua\n", TIME, include_str!("earlier_scripts/fast_release.lua"), RECORD, END];
    parts.concat() + include_str!("earlier_scripts/release_main.lua")
}

pub(crate) fn rotate() -> String {
    let parts = ["#!lua\n", TIME, RECORD, ASK, END];
    parts.concat() + include_str!("earlier_scripts/rotate_main.lua")
}

pub(crate) fn renew() -> String {
    ["#!lua\n", TIME, include_str!("earlier_scripts/renew.lua")].concat()
}

pub(crate) fn force() -> String {
    let main = include_str!("earlier_scripts/force_release_main.lua");
    ["#!lua\n", TIME, RECORD, main].concat()
}
