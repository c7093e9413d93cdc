//! Lists the files of `runtime-js`, and makes the start-up snapshot from them for V8. QuickJS
//! cannot store classes with private fields in a snapshot, and runs the scripts at boot.

use std::{
    fs,
    path::{Path, PathBuf},
};

#[expect(clippy::disallowed_methods, reason = "this build script reads the scripts and writes the files made from them")]
fn main() {
    println!("cargo:rerun-if-changed=../../runtime-js");
    // Read at run time, because this build script stays in use after the checkout was moved.
    let given = |name: &str| PathBuf::from(std::env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")));
    let (folder, out) = (given("CARGO_MANIFEST_DIR").join("../../runtime-js"), given("OUT_DIR"));
    let mut scripts: Vec<_> = fs::read_dir(folder).expect("the scripts exist").flatten().map(|entry| entry.path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "js"));
    scripts.sort();
    let rows = scripts.iter().map(|path| format!("script!({:?}, {:?}),\n", specifier(path), name_of(path)));
    fs::write(out.join("scripts.rs"), format!("&[\n{}]\n", rows.collect::<String>())).expect("OUT_DIR is writable");
    #[cfg(feature = "v8")]
    fs::write(out.join("snapshot.bin"), snapshot(&scripts)).expect("OUT_DIR is writable");
}

/// Returns the name of a script in stack traces.
fn specifier(path: &Path) -> String {
    format!("ext:tollhouse/{}", name_of(path))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(feature = "v8")]
#[expect(clippy::disallowed_methods, reason = "this build script reads the scripts")]
fn snapshot(scripts: &[PathBuf]) -> Box<[u8]> {
    use deno_core::{
        Extension, ExtensionFileSource,
        snapshot::{CreateSnapshotOptions, create_snapshot},
    };

    let source = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a script is valid UTF-8");
        ExtensionFileSource::new_computed(specifier(path).leak(), text.into())
    };
    let extension = Extension { name: "tollhouse", js_files: scripts.iter().map(source).collect(), ..Default::default() };
    let options = CreateSnapshotOptions {
        cargo_manifest_dir: env!("CARGO_MANIFEST_DIR"),
        startup_snapshot: None,
        skip_op_registration: false,
        extensions: vec![extension],
        extension_transpiler: None,
        with_runtime_cb: None,
    };
    create_snapshot(options, None).expect("runtime-js runs").output
}
