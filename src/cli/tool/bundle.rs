//! The single source file that a host accepts: the handler unchanged, or bundled with its imports.
//!
//! The bundler is the builder's own `esbuild`, from the packages around the folder or from the machine. A bundler crate
//! would be most of the binary: rolldown has 288 crates, twice as many as the host, and needs a newer compiler each
//! month.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tollhouse_base::lexer::{Kind, tokens};
use tollhouse_protocol::Limits;

use super::{
    Code, FilePosition, Problem, TempFolder, Tool, counted,
    imports::{Import, imports, needs_compiler},
    node_modules::{NodeModules, is_portable, module_at},
    position::position,
    program,
    source_map::{SourceMap, relative},
};

/// Start of an error in esbuild's output.
const ERROR: &str = "✘ [ERROR] ";
/// Part of the message by which esbuild reports a module that only Node has.
const BUILT_INTO_NODE: &str = "built into node";
/// Maximum number of the largest parts that an error lists.
const NAMED: usize = 5;
/// Flags of esbuild, for a production build.
///
/// Names stay, so that stack traces and the host's advice about `ctx` read as the builder wrote the code. Lines are
/// limited, because an admin can read the bundle in a review.
const FLAGS: &str = "--bundle --format=esm --platform=browser --target=es2023 --minify-whitespace --minify-syntax --line-limit=200 \
    --charset=ascii --loader:.wasm=binary --sourcemap=external --sources-content=false --define:global=globalThis \
    --define:process.env.NODE_ENV=\"production\" --log-level=error --log-limit=0 --color=false";

/// Start of a `.wasm` file in esbuild's output: the call of its helper, and the magic number in base64.
const WASM_BYTES: &str = "__toBinary(\"AGFzbQ";
/// The function that takes the helper's place. A declaration works before its line.
const WASM_MODULE: &str = "function __toModule(text){\
    return typeof WebAssembly===\"undefined\"?void 0:new WebAssembly.Module(__toBinary(text))}\n";

/// The source to upload.
#[derive(Debug, Clone)]
pub(crate) struct Bundle {
    pub(crate) source: String,
    pub(crate) language: &'static str,
    pub(crate) map: SourceMap,
    /// The builder's own files in the bundle, without packages.
    pub(crate) files: Vec<PathBuf>,
    /// Whether the text differs from the handler's.
    pub(crate) is_made: bool,
}

impl Bundle {
    /// Returns the source to upload for a tool, or `None` if it has no code.
    ///
    /// # Errors
    ///
    /// The handler cannot be bundled, or the bundle is too large.
    pub(crate) async fn of(tool: &Tool) -> Result<Option<Self>, Vec<Problem>> {
        let Code::Source { file, language, text } = &tool.code else { return Ok(None) };
        let imports = imports(text);
        let as_written = || {
            let source = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
            let bundle =
                Self { source, language, map: SourceMap::Same((*file).to_owned()), files: vec![tool.folder.join(file)], is_made: false };
            bundle.within(tool, &[]).map(Some)
        };
        // The host compiles such a file too, but only a bundler makes a map from the result to its lines.
        let nothing = Import { from: String::new(), at: 0 };
        let first = match imports.first() {
            Some(first) => first,
            None if needs_compiler(text) => &nothing,
            None => return as_written(),
        };
        let scratch = TempFolder::new(&tool.folder).map_err(|reason| vec![Problem::new("bundle", FilePosition::file(*file), reason)])?;
        let failed = |reason: String| vec![Problem::new("bundle", FilePosition::of_byte(*file, text, first.at), reason)];
        let modules = NodeModules::write(scratch.path()).map_err(|reason| failed(format!("Node's modules cannot be written: {reason}")))?;
        let args = [args(file, scratch.path()), modules.args].concat();
        match program::run(&tool.folder, "esbuild", &args, &modules.envs).await.map_err(failed)? {
            None if imports.is_empty() => as_written(),
            // No bundler finds these either.
            None if imports.iter().any(|import| foreign_module(&import.from).is_some()) => {
                let problem = |import: &Import| {
                    Some(Problem::new("bundle", FilePosition::of_byte(*file, text, import.at), foreign_module(&import.from)?))
                };
                Err(imports.iter().filter_map(problem).collect())
            }
            None => Err(failed(format!("importing `{}` needs a bundler: npm i -D esbuild", first.from))),
            Some(output) => {
                let message = String::from_utf8_lossy(&output.stderr);
                let problems = problems(&message, &tool.folder);
                if !output.status.success() || !problems.is_empty() {
                    let reason = || {
                        failed(format!("esbuild failed: {}", message.lines().find(|line| !line.is_empty()).unwrap_or("no reason given")))
                    };
                    return Err(if problems.is_empty() { reason() } else { problems });
                }
                let (bundle, room) = made(tool, scratch.path()).ok_or_else(|| failed("esbuild produced no bundle".to_owned()))?;
                let problems = bundle.addresses();
                if !problems.is_empty() {
                    return Err(problems);
                }
                bundle.within(tool, &room).map(Some)
            }
        }
    }

    /// Returns the imports of addresses in the builder's own files, which esbuild leaves in the bundle.
    fn addresses(&self) -> Vec<Problem> {
        let problem = |import: Import| {
            let message = foreign_module(&import.from).filter(|_| import.from.starts_with("http"))?;
            let (line, column) = position(&self.source, import.at);
            let place = self.map.place(line, column).filter(|place| package(&place.file).is_none())?;
            Some(Problem::new("bundle", place, message))
        };
        imports(&self.source).into_iter().filter_map(problem).collect()
    }

    /// Checks the size of the bundle against the limit. The error lists the largest parts.
    fn within(self, tool: &Tool, room: &[(String, u64)]) -> Result<Self, Vec<Problem>> {
        let request = tool.body.get("limits").and_then(|limits| limits["sourceBytes"].as_u64());
        let limit = request.unwrap_or(Limits::default().source_bytes);
        let has = self.source.len() as u64;
        if has <= limit {
            return Ok(self);
        }
        let ceiling = Limits::ceilings().source_bytes;
        let raise = if limit < ceiling { format!("; `limits.sourceBytes` can request up to {ceiling}") } else { String::new() };
        let named: Vec<_> = room.iter().take(NAMED).map(|(what, bytes)| format!("{what} {bytes}")).collect();
        let takes = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
        let what = if self.is_made { "the bundle" } else { "the handler" };
        let message = format!("{what} has {has} bytes, but a host accepts {limit}{raise}{takes}");
        Err(vec![Problem::new("bundle", FilePosition::file(tool.handler_file()), message).trailing(self.files)])
    }
}

/// Arguments for a runtime that is neither Node nor a browser. Packages are resolved as for browsers, so without Node's
/// modules.
fn args(file: &str, scratch: &Path) -> Vec<OsString> {
    let at = |flag: &str, name: &str| {
        let mut flag = OsString::from(flag);
        flag.push(scratch.join(name));
        flag
    };
    let mut args = vec![file.into()];
    args.extend(FLAGS.split_whitespace().map(OsString::from));
    args.extend([at("--outfile=", "bundle.js"), at("--metafile=", "meta.json")]);
    args
}

/// Reads the bundler's output. Also returns the sizes of its parts, largest first.
fn made(tool: &Tool, scratch: &Path) -> Option<(Bundle, Vec<(String, u64)>)> {
    let read = |name: &str| fs::read_to_string(scratch.join(name)).ok();
    let map = SourceMap::read(&read("bundle.js.map")?, &tool.folder, scratch)?;
    let meta: Value = serde_json::from_str(&read("meta.json")?).ok()?;
    let inputs = meta["inputs"].as_object()?.keys();
    let files = inputs.clone().filter(|path| package(path).is_none()).map(|path| tool.folder.join(path)).collect();
    let mut room: Vec<(String, u64)> = vec![];
    let outputs = meta["outputs"].as_object()?.values();
    for (path, input) in outputs.filter_map(|output| output["inputs"].as_object()).flatten() {
        let what = module_at(path).unwrap_or_else(|| package(path).unwrap_or(path).to_owned());
        let bytes = input["bytesInOutput"].as_u64().unwrap_or_default();
        match room.iter_mut().find(|(known, _)| *known == what) {
            Some((_, sum)) => *sum += bytes,
            None => room.push((what, bytes)),
        }
    }
    room.sort_by_key(|(_, bytes)| Reverse(*bytes));
    let source = wasm_modules(ascii_comments(&read("bundle.js")?)) + &notices(inputs.map(String::as_str), &tool.folder);
    Some((Bundle { source, language: "js", map, files, is_made: true }, room))
}

/// Makes each imported `.wasm` file a `WebAssembly.Module`, as Cloudflare Workers do, instead of the bytes that esbuild's
/// loader makes of it. Names keep their length, so that the source map stays valid.
///
/// Without a grant there is no `WebAssembly`, and the import is undefined, so that the module loads.
fn wasm_modules(source: String) -> String {
    if !source.contains(WASM_BYTES) || source.contains("__toModule") {
        return source;
    }
    source.replace(WASM_BYTES, "__toModule(\"AGFzbQ") + WASM_MODULE
}

/// Replaces each character beyond ASCII in comments, which the bundler leaves there. The engine stores text in ASCII in
/// half the space, and reads it faster.
fn ascii_comments(source: &str) -> String {
    if source.is_ascii() {
        return source.to_owned();
    }
    let mut text = String::with_capacity(source.len());
    let mut end = 0;
    for comment in tokens(source).into_iter().filter(|token| token.kind == Kind::Comment) {
        text.push_str(&source[end..comment.start]);
        text.extend(comment.text(source).chars().map(|char| if char.is_ascii() { char } else { '?' }));
        end = comment.end;
    }
    text + &source[end..]
}

/// Returns comments with the name, version and license of each package of a bundle, as its `package.json` has them.
fn notices<'p>(inputs: impl Iterator<Item = &'p str>, folder: &Path) -> String {
    let root = |path: &'p str| {
        let name = package(path).filter(|_| module_at(path).is_none())?;
        let end = path.rfind("node_modules/")? + "node_modules/".len() + name.len();
        Some((name, &path[..end]))
    };
    let packages: BTreeSet<_> = inputs.filter_map(root).collect();
    let notice = |(name, path): &(&str, &str)| {
        let text = fs::read_to_string(folder.join(path).join("package.json")).ok()?;
        let described: Value = serde_json::from_str(&text).ok()?;
        let one_line = |field: &str| Some(described[field].as_str()?.split_whitespace().collect::<Vec<_>>().join(" "));
        // The first of several licenses is chosen, for example of `(MIT OR GPL-3.0-or-later)`.
        let chosen = |license: String| license.split(" OR ").next().unwrap_or_default().trim_matches(['(', ')']).to_owned();
        let license = one_line("license").map(|license| format!(", SPDX-License-Identifier: {}", chosen(license))).unwrap_or_default();
        let line = format!("// {name} {}{license}", one_line("version").unwrap_or_default());
        line.is_ascii().then(|| line.trim_end().to_owned() + "\n")
    };
    packages.iter().filter_map(notice).collect()
}

/// Returns the package that a path belongs to.
fn package(path: &str) -> Option<&str> {
    let (_, within) = path.rsplit_once("node_modules/")?;
    let names = if within.starts_with('@') { 2 } else { 1 };
    let end = within.match_indices('/').nth(names - 1).map_or(within.len(), |(end, _)| end);
    Some(&within[..end])
}

/// Parses errors of the form `✘ [ERROR] what`, an empty line, and `    file:line:column:`. The column counts bytes from 0.
fn problems(reported: &str, folder: &Path) -> Vec<Problem> {
    let mut found = vec![];
    for error in reported.split(ERROR).skip(1) {
        let message = error.lines().next().unwrap_or_default();
        let position = error.lines().nth(2).and_then(|line| placed(line, folder)).unwrap_or_else(|| FilePosition::file("handler"));
        let missing = message.strip_prefix("Could not resolve ").map(|name| name.trim_matches('"'));
        // The file may appear with an extension, or once its folder exists.
        let target = missing.filter(|name| name.starts_with(['.', '/'])).map(|name| Path::new(&position.file).with_file_name(name));
        let hangs_on = target.iter().flat_map(|target| [Some(target.as_path()), target.parent()]).flatten().map(Path::to_owned).collect();
        let message = match missing {
            Some(name) if error.contains(BUILT_INTO_NODE) => match package(&position.file) {
                Some(package) => format!("the package `{package}` needs Node's `{name}`, which tools do not have: use another package"),
                None => format!("`{name}` is part of Node, which tools do not have"),
            },
            Some(name) if name.starts_with(['.', '/']) => format!("`{name}` does not exist"),
            Some(name) => foreign_module(name).unwrap_or_else(|| format!("the package `{name}` is not installed: npm i {name}")),
            None => message.to_owned(),
        };
        found.push(Problem::new("bundle", position, message).trailing(hangs_on));
    }
    found
}

/// Returns why a module with a scheme, for example `cloudflare:workers`, cannot be imported, and what to do instead.
/// `None` if it has no scheme.
fn foreign_module(name: &str) -> Option<String> {
    let (scheme, path) = name.split_once(':')?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && scheme.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, '+' | '-' | '.'));
    if !is_scheme {
        return None;
    }
    let of = |runtime: &str| format!("`{name}` is part of {runtime}, which tools do not have");
    let bare = path.trim_start_matches('/');
    let bare = bare.char_indices().skip(1).find(|(_, letter)| *letter == '@').map_or(bare, |(version, _)| &bare[..version]);
    Some(match scheme {
        "node" if is_portable(bare) => return None,
        "node" => of("Node"),
        "cloudflare" => format!("{}: use `ctx` instead", of("Cloudflare Workers")),
        "bun" => of("Bun"),
        "deno" => of("Deno"),
        "jsr" => format!("`{name}` is a package of JSR: npx jsr add {bare}, and import `{bare}`"),
        "npm" => format!("`{name}` is Deno's name of an npm package: npm i {bare}, and import `{bare}`"),
        "http" | "https" => format!("`{name}` is an address, and tools load no code from the network: install the package with npm"),
        _ => format!("`{name}` is a module of another runtime, which tools do not have"),
    })
}

fn placed(line: &str, folder: &Path) -> Option<FilePosition> {
    let mut parts = line.trim().strip_suffix(':')?.rsplitn(3, ':');
    let (column, line, file) = (parts.next()?.parse::<u32>().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    Some(counted(folder, FilePosition::at(relative(Path::new(""), Path::new(file)), line, column + 1), char::len_utf8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundler_errors_name_the_package_and_the_import() {
        let expected = "✘ [ERROR] Could not resolve \"fs\"\n\n    node_modules/@a/needs-fs/index.js:1:19:\n      1 │ const fs = require(\"fs\");\n\n  The package \"fs\" wasn't found on the file system but is built into node. Are you\n\n\
            ✘ [ERROR] Could not resolve \"node:net\"\n\n    handler.ts:4:27:\n\n  The package \"node:net\" wasn't found on the file system but is built into node.\n\n\
            ✘ [ERROR] Could not resolve \"not-there\"\n\n    handler.ts:3:20:\n\n\
            ✘ [ERROR] Could not resolve \"cloudflare:workers\"\n\n    handler.ts:6:9:\n\n\
            ✘ [ERROR] Could not resolve \"./x.ts\"\n\n    handler.ts:5:9:\n\n\
            ✘ [ERROR] Unexpected \";\"\n\n    lib/x.ts:1:33:\n";
        let expected: Vec<_> = problems(expected, Path::new("/none")).iter().map(ToString::to_string).collect();
        assert_eq!(
            expected,
            [
                "node_modules/@a/needs-fs/index.js:1:20  the package `@a/needs-fs` needs Node's `fs`, which tools do not have: use another package",
                "handler.ts:4:28  `node:net` is part of Node, which tools do not have",
                "handler.ts:3:21  the package `not-there` is not installed: npm i not-there",
                "handler.ts:6:10  `cloudflare:workers` is part of Cloudflare Workers, which tools do not have: use `ctx` instead",
                "handler.ts:5:10  `./x.ts` does not exist",
                "lib/x.ts:1:34  Unexpected \";\"",
            ]
        );
    }

    #[test]
    fn module_with_a_scheme_has_a_hint_of_its_own() {
        for (name, hint) in [
            ("node:fs", "is part of Node"),
            ("bun:sqlite", "is part of Bun"),
            ("deno:ext", "is part of Deno"),
            ("jsr:@std/encoding@1", "npx jsr add @std/encoding, and import `@std/encoding`"),
            ("npm:zod@4/mini", "npm i zod, and import `zod`"),
            ("https://esm.sh/ms", "load no code from the network"),
            ("astro:env", "is a module of another runtime"),
        ] {
            let message = foreign_module(name).unwrap();
            assert!(message.starts_with(&format!("`{name}` ")) && message.contains(hint), "{message}");
        }
        for name in ["ms", "@a/b", "./x.ts", "C:\\x.ts", ":x", "node:crypto", "node:stream/promises"] {
            assert_eq!(foreign_module(name), None, "{name}");
        }
    }

    #[test]
    fn comments_of_a_bundle_become_ascii_and_end_with_the_licenses_of_its_packages() {
        assert_eq!(ascii_comments("const a='\u{e9}';/*! \u{a9} A\u{2013}B */\n"), "const a='\u{e9}';/*! ? A?B */\n");
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("node_modules/@a/b");
        fs::create_dir_all(package.join("lib")).unwrap();
        fs::write(package.join("package.json"), "{\"version\": \"1.2.3\", \"license\": \"(MIT OR\\nGPL-3.0-or-later)\"}").unwrap();
        let inputs = ["handler.ts", "node_modules/@a/b/lib/x.js", "node_modules/@a/b/y.js", "node_modules/none/x.js"];
        let expected = "// @a/b 1.2.3, SPDX-License-Identifier: MIT\n";
        assert_eq!(notices(inputs.into_iter(), folder.path()), expected);
    }

    #[test]
    fn imported_wasm_files_are_modules() {
        let made = "var __toBinary=Uint8Array.fromBase64;var a_default=__toBinary(\"AGFzbQEAAAA=\");\nexport{a_default as default};\n";
        let source = wasm_modules(made.to_owned());
        let lines: Vec<_> = source.lines().collect();
        assert_eq!(lines[0], made.lines().next().unwrap().replace("__toBinary(", "__toModule("));
        assert!(lines.len() == 3 && lines[2].starts_with("function __toModule(text){return ") && source.ends_with("}\n"), "{source}");
        assert_eq!(wasm_modules("var a=1;\n".to_owned()), "var a=1;\n");
    }

    #[test]
    fn missing_import_depends_on_its_file_and_folder() {
        let hangs_on = |name: &str| {
            let expected = format!("✘ [ERROR] Could not resolve \"{name}\"\n\n    lib/a.ts:1:9:\n");
            problems(&expected, Path::new("/none")).remove(0).continues
        };
        assert_eq!(hangs_on("../other/x"), [Path::new("lib/../other/x"), Path::new("lib/../other")]);
        assert!(hangs_on("ms").is_empty());
    }

    #[test]
    fn column_of_the_bundler_counts_characters() {
        let folder = tempfile::tempdir().unwrap();
        let row = "const é = \"日本語 😀\"; import x from \"not-there\";";
        fs::write(folder.path().join("handler.ts"), format!("\n{row}\n")).unwrap();
        let byte = row.find("\"not-there").unwrap();
        let expected = format!("✘ [ERROR] Could not resolve \"not-there\"\n\n    handler.ts:2:{byte}:\n      2 │ {row}\n");
        let column = row[..byte].chars().count() + 1;
        let requested = format!("handler.ts:2:{column}  the package `not-there` is not installed: npm i not-there");
        assert_eq!(problems(&expected, folder.path())[0].to_string(), requested);
    }

    #[test]
    fn path_belongs_to_the_innermost_package() {
        assert_eq!(package("../node_modules/a/node_modules/@b/c/d.js"), Some("@b/c"));
        assert_eq!(package("node_modules/ms/index.js"), Some("ms"));
        assert_eq!(package("lib/ms.ts"), None);
    }
}
