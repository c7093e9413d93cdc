//! The licences of all crates: each text once, with the crates that it is of.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use super::crates::Crate;
use crate::Failure;

/// What the names of such files begin with.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// Folders of a crate that have licences of what is vendored in it.
const DEPTH: usize = 3;

/// The document.
///
/// # Errors
///
/// Crates that neither say under which licence they are nor have its text.
pub(crate) fn write(crates: &[Crate]) -> Result<String, Failure> {
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    let mut without = Vec::new();
    for one in crates {
        let named = format!("{} {} ({})", one.name, one.version, if one.licence.is_empty() { "see below" } else { &one.licence });
        let found = one.source.as_deref().map(files).unwrap_or_default();
        if found.is_empty() {
            if one.licence.is_empty() {
                return Err(format!("{} {} says nothing of its licence", one.name, one.version));
            }
            without.push(named.clone());
        }
        for file in found {
            // Some are not of UTF-8, and are read nevertheless.
            let text = fs::read(&file).map_err(|why| format!("cannot read {}: {why}", file.display()))?;
            let text = String::from_utf8_lossy(&text).replace('\r', "");
            let of = texts.entry(text.trim().to_owned()).or_default();
            if of.last() != Some(&named) {
                of.push(named.clone());
            }
        }
    }
    let mut document = String::from("Tollhouse is under the Apache License 2.0. It has these crates in it, each under its own licence.\n");
    if !without.is_empty() {
        _ = writeln!(document, "\nThese name their licence, and have no text of it with them:\n  {}", without.join("\n  "));
    }
    let mut texts: Vec<_> = texts.into_iter().filter(|(text, _)| !text.is_empty()).collect();
    texts.sort_by(|one, other| one.1.cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
    for (text, of) in texts {
        _ = write!(document, "\n{}\n{}\n\n{text}\n", "=".repeat(80), of.join("\n"));
    }
    Ok(document)
}

/// The files of a crate that have a licence in them, in the order of their names.
fn files(source: &Path) -> Vec<PathBuf> {
    fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().to_ascii_uppercase());
            // No link leads out of the crate.
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

    #[test]
    fn a_text_that_several_have_stands_once() {
        let folder = std::env::temp_dir().join(format!("xtask-licences-{}", std::process::id()));
        let made = |name: &str, text: &str| {
            let source = folder.join(name);
            fs::create_dir_all(source.join("vendored")).unwrap();
            fs::write(source.join("vendored/LICENSE-MIT"), text).unwrap();
            Crate { name: name.into(), version: "1.0.0".into(), licence: "MIT".into(), sha256: None, source: Some(source) }
        };
        let crates = [made("a", "the text\r\n"), made("b", "the text"), Crate { source: None, ..made("c", "") }];
        let document = write(&crates).unwrap();
        assert_eq!((document.matches("the text").count(), document.matches("a 1.0.0 (MIT)\nb 1.0.0 (MIT)").count()), (1, 1), "{document}");
        assert!(document.contains("no text of it with them:\n  c 1.0.0 (MIT)"));
        assert!(write(&[Crate { licence: String::new(), source: None, ..crates[0].clone() }]).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
