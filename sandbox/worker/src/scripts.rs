//! The files of `runtime-js`, in load order. Shared with `build.rs`, which makes the snapshot of them.

use std::borrow::Cow;

use deno_core::{Extension, ExtensionFileSource, ascii_str_include};

macro_rules! script {
    ($name:literal) => {
        ExtensionFileSource::new(concat!("ext:tollhouse/", $name), ascii_str_include!(concat!("../../../runtime-js/", $name)))
    };
}

const SCRIPTS: &[ExtensionFileSource] = &[
    script!("00_primordials.js"),
    script!("01_errors.js"),
    script!("02_console.js"),
    script!("03_clock.js"),
    script!("04_ops.js"),
    script!("05_encoding.js"),
    script!("06_url.js"),
    script!("07_events.js"),
    script!("08_clone.js"),
    script!("09_crypto.js"),
    script!("10_response.js"),
    script!("11_kv.js"),
    script!("12_files.js"),
    script!("13_http.js"),
    script!("14_env.js"),
    script!("15_timers.js"),
    script!("16_progress.js"),
    script!("17_absent.js"),
    script!("90_entry.js"),
];

/// The scripts alone: all that the snapshot needs. A runtime that starts from it skips them.
pub(crate) fn extension() -> Extension {
    Extension { name: "tollhouse", js_files: Cow::Borrowed(SCRIPTS), ..Default::default() }
}
