//! Makes the start-up snapshot from `runtime-js`.

use std::{env, fs, path::PathBuf};

use deno_core::snapshot::{CreateSnapshotOptions, create_snapshot};

#[path = "src/scripts.rs"]
mod scripts;

fn main() {
    println!("cargo:rerun-if-changed=../../runtime-js");
    println!("cargo:rerun-if-changed=src/scripts.rs");
    let options = CreateSnapshotOptions {
        cargo_manifest_dir: env!("CARGO_MANIFEST_DIR"),
        startup_snapshot: None,
        skip_op_registration: false,
        extensions: vec![scripts::extension()],
        extension_transpiler: None,
        with_runtime_cb: None,
    };
    let snapshot = create_snapshot(options, None).expect("runtime-js runs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("snapshot.bin"), &snapshot.output).expect("OUT_DIR is writable");
}
