//! Lists the files of `runtime-js` with the scripts of `deno_web` that are taken, and makes the start-up
//! snapshot from them for V8. QuickJS cannot store classes with private fields in a snapshot, and runs
//! the scripts at boot.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The scripts of Deno that are taken, in load order.
const DENO_SCRIPTS: &[&str] = &[
    "ext:deno_webidl/00_webidl.js",
    "ext:deno_web/00_infra.js",
    "ext:deno_web/01_mimesniff.js",
    "ext:deno_web/06_streams.js",
    "ext:deno_web/08_text_encoding.js",
    "ext:deno_web/09_file.js",
    "ext:deno_web/14_compression.js",
    "ext:deno_web/01_urlpattern.js",
];

/// The file of `runtime-js` after which they are loaded.
const BEFORE_DENO: &str = "08_deno_ops.js";

/// A script with its name in stack traces.
struct Script {
    specifier: String,
    path: PathBuf,
}

#[expect(clippy::disallowed_methods, reason = "this build script reads the scripts and writes the files made from them")]
fn main() {
    println!("cargo:rerun-if-changed=../../runtime-js");
    // Read at run time, because this build script stays in use after the checkout was moved.
    let given = |name: &str| PathBuf::from(std::env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")));
    let (folder, out) = (given("CARGO_MANIFEST_DIR").join("../../runtime-js"), given("OUT_DIR"));
    let mut files: Vec<_> = fs::read_dir(folder).expect("the scripts exist").flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "js"));
    files.sort();
    let mut scripts = Vec::new();
    for path in files {
        let name = name_of(&path);
        scripts.push(Script { specifier: format!("ext:tollhouse/{name}"), path });
        if name == BEFORE_DENO {
            scripts.extend(deno_scripts(&out));
        }
    }
    let rows = scripts.iter().map(|script| format!("script!({:?}, {:?}),\n", script.specifier, script.path));
    fs::write(out.join("scripts.rs"), format!("&[\n{}]\n", rows.collect::<String>())).expect("OUT_DIR is writable");
    #[cfg(feature = "v8")]
    fs::write(out.join("snapshot.bin"), snapshot(&scripts)).expect("OUT_DIR is writable");
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Writes the scripts of Deno, each in a function that gets its environment: see 08_deno.js.
#[expect(clippy::disallowed_methods, reason = "this build script writes the files made from the scripts")]
fn deno_scripts(out: &Path) -> Vec<Script> {
    let sources = [deno_webidl::deno_webidl::init(), deno_web::deno_web::lazy_init()];
    let find = |specifier: &str| {
        let mut all = sources.iter().flat_map(|extension| extension.lazy_loaded_js_files.iter());
        let source = all.find(|source| source.specifier == specifier).unwrap_or_else(|| panic!("{specifier} exists"));
        source.load().expect("a script can be read").as_str().to_owned()
    };
    let write = |specifier: &&str| {
        let text = find(specifier);
        let text = text.trim_end().trim_end_matches(';');
        let framed = format!("\"use strict\"; __tollhouse.addDenoScript({specifier:?}, (__bootstrap) => {text}\n);\n");
        let path = out.join(specifier.replace([':', '/'], "_"));
        fs::write(&path, framed).expect("OUT_DIR is writable");
        Script { specifier: (*specifier).to_owned(), path }
    };
    DENO_SCRIPTS.iter().map(write).collect()
}

#[cfg(feature = "v8")]
#[expect(clippy::disallowed_methods, reason = "this build script reads the scripts")]
fn snapshot(scripts: &[Script]) -> Box<[u8]> {
    use deno_core::{
        Extension, ExtensionFileSource,
        snapshot::{CreateSnapshotOptions, create_snapshot},
    };

    let source = |script: &Script| {
        let text = fs::read_to_string(&script.path).expect("a script is valid UTF-8");
        ExtensionFileSource::new_computed(script.specifier.clone().leak(), text.into())
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
