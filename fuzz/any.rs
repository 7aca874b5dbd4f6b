//! One target of `threadline::fuzzing`: the one named by FUZZ_TARGET.

#![no_main]

use std::{env, sync::LazyLock};

use threadline::fuzzing::{TARGETS, Target, target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET is one of {TARGETS:?}, not {name:?}"))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
