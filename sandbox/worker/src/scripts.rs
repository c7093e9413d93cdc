//! The files of `runtime-js`, loaded in the order of their names, and the scripts of `deno_web` that
//! are taken.

use std::borrow::Cow;

use deno_core::{Extension, ExtensionFileSource, ascii_str_include};

macro_rules! script {
    ($specifier:literal, $path:literal) => {
        ExtensionFileSource::new($specifier, ascii_str_include!($path))
    };
}

/// Listed by `build.rs`, which also makes the snapshot from them.
const SCRIPTS: &[ExtensionFileSource] = include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

/// Returns the extension with only the scripts. A runtime that starts from the snapshot skips them.
pub(crate) fn extension() -> Extension {
    Extension { name: "tollhouse", js_files: Cow::Borrowed(SCRIPTS), ..Default::default() }
}
