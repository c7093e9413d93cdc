//! Makes the start-up snapshot from `runtime-js`. For V8: QuickJS cannot write classes with private
//! fields into one, and runs the scripts when it boots.

#[cfg(feature = "v8")]
#[path = "src/scripts.rs"]
mod scripts;

fn main() {
    println!("cargo:rerun-if-changed=../../runtime-js");
    println!("cargo:rerun-if-changed=src/scripts.rs");
    #[cfg(feature = "v8")]
    write_snapshot();
}

#[cfg(feature = "v8")]
#[expect(clippy::disallowed_methods, reason = "writing the snapshot is what this script is for")]
fn write_snapshot() {
    use deno_core::snapshot::{CreateSnapshotOptions, create_snapshot};

    let options = CreateSnapshotOptions {
        cargo_manifest_dir: env!("CARGO_MANIFEST_DIR"),
        startup_snapshot: None,
        skip_op_registration: false,
        extensions: vec![scripts::extension()],
        extension_transpiler: None,
        with_runtime_cb: None,
    };
    let snapshot = create_snapshot(options, None).expect("runtime-js runs");
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(out.join("snapshot.bin"), &snapshot.output).expect("OUT_DIR is writable");
}
