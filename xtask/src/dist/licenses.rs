//! The licenses of all crates: each text once, with the crates to which it applies. If a crate
//! includes no text, the standard text of each license that it names is used: our own copy for
//! Apache, and those in `packaging/licenses` for the others. Licenses of third-party code in a
//! crate that includes no text for it are in `packaging/licenses/inside`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use super::crates::Crate;
use crate::{Failure, paths};

/// Prefixes of the names of license files.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// Maximum depth of folders in a crate with licenses of vendored code.
const DEPTH: usize = 3;

/// Placeholder for the copyright holders in a standard text.
const HOLDERS: &str = "<copyright holders>";

/// Returns the document.
///
/// # Errors
///
/// Fails for crates that are not unpacked, and for licenses without a text in the crate or in
/// `packaging/licenses`.
pub(crate) fn write(crates: &[Crate]) -> Result<String, Failure> {
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    let mut without = Vec::new();
    for one in crates {
        let named = format!("{} {} ({})", one.name, one.version, if one.license.is_empty() { "see below" } else { &one.license });
        let source = one.source.as_deref().ok_or_else(|| format!("{} {} is not unpacked: `cargo fetch`", one.name, one.version))?;
        let mut own = Vec::new();
        for file in files(source) {
            // Some files are not UTF-8. Read them nevertheless.
            let text = fs::read(&file).map_err(|reason| format!("cannot read {}: {reason}", file.display()))?;
            own.push(String::from_utf8_lossy(&text).replace('\r', "").trim().to_owned());
        }
        own.retain(|text| !text.is_empty());
        if own.is_empty() {
            own = standard(one, source)?;
            without.push(named.clone());
        }
        own.extend(inside(one)?);
        for text in own {
            let of = texts.entry(text).or_default();
            if of.last() != Some(&named) {
                of.push(named.clone());
            }
        }
    }
    let mut document = String::from(
        "Tollhouse is licensed under the Apache License 2.0. It contains these crates and the editor of its pages, each under its own license.\n",
    );
    if !without.is_empty() {
        let note = "These crates name their license but contain no text of it, so the standard text follows";
        _ = writeln!(document, "\n{note}:\n  {}", without.join("\n  "));
    }
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|one, other| one.1.cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
    for (text, of) in texts {
        _ = write!(document, "\n{}\n{}\n\n{text}\n", "=".repeat(80), of.join("\n"));
    }
    let editor = paths::read(&paths::root().join("src/web/assets/vendor/codemirror.LICENSES"))?;
    _ = write!(document, "\n{}\n{editor}", "=".repeat(80));
    Ok(document)
}

/// Returns our text of the licenses of third-party code in a crate, if there is one.
fn inside(one: &Crate) -> Result<Option<String>, Failure> {
    let path = paths::root().join("packaging/licenses/inside").join(format!("{}.txt", one.name));
    if path.exists() { paths::read(&path).map(|text| Some(text.trim().to_owned())) } else { Ok(None) }
}

/// Returns the standard text of a crate's license. Of alternatives, returns those of which we have a
/// text.
fn standard(one: &Crate, source: &Path) -> Result<Vec<String>, Failure> {
    let parts: Vec<_> = one.license.split(" OR ").map(str::trim).collect();
    let stored: Vec<_> = parts.iter().filter_map(|license| text_of(license)).collect();
    // A license without a text can be left out only if it is an alternative. An expression that is
    // more than a choice needs a person.
    if stored.is_empty() || parts.iter().any(|part| part.contains([' ', '('])) {
        let what = if one.license.is_empty() { "does not name its license" } else { "has no text of its license" };
        let remedy = "find its license, and add the text to packaging/licenses";
        return Err(format!("{} {} ({}) {what}: {remedy}", one.name, one.version, one.license));
    }
    let holders = holders(&paths::read(&source.join("Cargo.toml"))?, &one.name);
    Ok(stored.into_iter().map(|text| text.replace(HOLDERS, &holders).trim().to_owned()).collect())
}

fn text_of(license: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let root = paths::root();
    match license {
        "Apache-2.0" => fs::read_to_string(root.join("LICENSE")).ok(),
        name if !name.is_empty() && name.chars().all(plain) => {
            fs::read_to_string(root.join("packaging/licenses").join(format!("{name}.txt"))).ok()
        }
        _ => None,
    }
}

/// Returns the authors in a crate's manifest.
fn holders(manifest: &str, name: &str) -> String {
    let listed = manifest.split_once("\nauthors = [").map(|(_, list)| list).unwrap_or_default();
    let mut authors = Vec::new();
    // Every second piece between quotes is a string.
    for (at, piece) in listed.split('"').enumerate() {
        match at % 2 {
            0 if piece.contains(']') => break,
            0 => {}
            _ => authors.push(piece),
        }
    }
    if authors.is_empty() { format!("the authors of {name}") } else { authors.join(", ") }
}

/// Returns the license files of a crate, sorted by name.
fn files(source: &Path) -> Vec<PathBuf> {
    fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().to_ascii_uppercase());
            // Do not follow links out of the crate.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth > 0 {
                walk(&path, depth - 1, found);
            } else if kind.is_file() && NAMES.iter().any(|known| name.starts_with(known)) && !name.ends_with(".RS") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(source, DEPTH, &mut found);
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dist::crates, engine::Engine};

    /// A crate in a temporary folder, with its description.
    struct ListedCrate(PathBuf);

    impl ListedCrate {
        fn new(test: &str) -> Self {
            Self(std::env::temp_dir().join(format!("xtask-licences-{test}-{}", std::process::id())))
        }

        fn create(&self, name: &str, license: &str, text: Option<&str>) -> Crate {
            let source = self.0.join(name);
            fs::create_dir_all(source.join("vendored")).unwrap();
            fs::write(source.join("Cargo.toml"), format!("[package]\nname = \"{name}\"\nauthors = [\n    \"A <a@b>\",\n    \"C\",\n]\n"))
                .unwrap();
            if let Some(text) = text {
                fs::write(source.join("vendored/LICENSE-MIT"), text).unwrap();
            }
            Crate { name: name.into(), version: "1.0.0".into(), license: license.into(), sha256: None, source: Some(source) }
        }
    }

    impl Drop for ListedCrate {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn license_text_shared_by_several_crates_appears_once() {
        let folder = ListedCrate::new("once");
        let crates = [folder.create("a", "MIT", Some("the text\r\n")), folder.create("b", "MIT", Some("the text"))];
        let document = write(&crates).unwrap();
        assert_eq!((document.matches("the text").count(), document.matches("a 1.0.0 (MIT)\nb 1.0.0 (MIT)").count()), (1, 1), "{document}");
    }

    #[test]
    fn crate_without_a_license_text_gets_the_standard_text() {
        let folder = ListedCrate::new("standard");
        let document =
            write(&[folder.create("a", "MIT", None), folder.create("b", "Nobody-1.0 OR BSD-3-Clause OR Apache-2.0", Some(" "))]).unwrap();
        assert!(
            document.contains("a 1.0.0 (MIT)\n\nMIT License\n\nCopyright (c) A <a@b>, C\n\nPermission is hereby granted"),
            "{document}"
        );
        assert!(
            document.contains("Copyright (c) A <a@b>, C\n\nRedistribution") && document.contains("TERMS AND CONDITIONS FOR USE"),
            "{document}"
        );
        assert!(!document.contains(HOLDERS), "{document}");
        for license in ["", "Nobody-1.0", "MIT AND Nobody-1.0", "(MIT OR Apache-2.0) AND Nobody-1.0", "../MIT"] {
            let refused = write(&[folder.create("c", license, None)]).unwrap_err();
            assert!(refused.contains("c 1.0.0") && refused.contains("its license"), "{refused}");
        }
        assert!(write(&[Crate { source: None, ..folder.create("d", "MIT", None) }]).unwrap_err().contains("cargo fetch"));
    }

    #[test]
    fn copyright_holder_is_read_from_a_manifest() {
        assert_eq!(holders("[package]\nname = \"a\"\nauthors = [\"A\", \"B ] <b>\"]\nedition = \"2021\"\n", "a"), "A, B ] <b>");
        assert_eq!(holders("[package]\nname = \"a\"\nedition = \"2021\"\n", "a"), "the authors of a");
    }

    #[test]
    fn every_crate_of_a_release_has_the_text_of_its_license() {
        let crates = crates::linked(Engine::V8).unwrap();
        let document = write(&crates).unwrap();
        let (_, texts) = document.split_once(&"=".repeat(80)).unwrap();
        for one in &crates {
            let head = format!("\n{} {} (", one.name, one.version);
            assert!(texts.contains(&head), "{} {} has no text", one.name, one.version);
        }
        assert!(crates.len() > 300, "{}", crates.len());
        for part in
            ["The Chromium Authors", "UNICODE LICENSE V3", "LLVM Exceptions", "GNU LESSER GENERAL PUBLIC LICENSE", "@codemirror/state"]
        {
            assert!(texts.contains(part), "{part}");
        }
    }
}
