//! The files of `runtime-js`, loaded in the order of their names.

use std::borrow::Cow;

use deno_core::{Extension, ExtensionFileSource, ascii_str_include};

macro_rules! script {
    ($specifier:literal, $name:literal) => {
        ExtensionFileSource::new($specifier, ascii_str_include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../runtime-js/", $name)))
    };
}

/// Listed by `build.rs`, which also makes the snapshot from them.
const SCRIPTS: &[ExtensionFileSource] = include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

/// Returns the extension with only the scripts. A runtime that starts from the snapshot skips them.
pub(crate) fn extension() -> Extension {
    Extension { name: "tollhouse", js_files: Cow::Borrowed(SCRIPTS), ..Default::default() }
}
