//! What a release has in it that is no crate of its own: the engine inside of one, and the editor of pages.

use std::path::Path;

use super::crates::Crate;
use crate::{Failure, place};

/// Something that others have made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) name: String,
    pub(crate) version: String,
    /// In SPDX's words.
    pub(crate) licence: String,
    /// As package URLs name it.
    pub(crate) purl: String,
    /// As the lists of known vulnerabilities name it, where they do.
    pub(crate) cpe: Option<String>,
    /// The crate that it is inside of, by its place in the list; `None` of what is in the host itself.
    pub(crate) of: Option<usize>,
}

/// What a crate has inside, and where its version stands there.
struct Vendored {
    of: &'static str,
    name: &'static str,
    licence: &'static str,
    /// The repository, as package URLs name it.
    purl: &'static str,
    cpe: &'static str,
    file: &'static str,
    /// What stands in front of each part of the version.
    parts: &'static [&'static str],
}

const VENDORED: [Vendored; 3] = [
    Vendored {
        of: "v8",
        name: "V8",
        licence: "BSD-3-Clause",
        purl: "pkg:github/v8/v8",
        cpe: "cpe:2.3:a:google:v8",
        file: "v8/include/v8-version.h",
        parts: &["#define V8_MAJOR_VERSION ", "#define V8_MINOR_VERSION ", "#define V8_BUILD_NUMBER ", "#define V8_PATCH_LEVEL "],
    },
    Vendored {
        of: "v8",
        name: "ICU",
        licence: "Unicode-3.0",
        purl: "pkg:github/unicode-org/icu",
        cpe: "cpe:2.3:a:icu-project:international_components_for_unicode",
        file: "third_party/icu/source/common/unicode/uvernum.h",
        parts: &["#define U_ICU_VERSION "],
    },
    Vendored {
        of: "v8x",
        name: "QuickJS-ng",
        licence: "MIT",
        purl: "pkg:github/quickjs-ng/quickjs",
        cpe: "cpe:2.3:a:quickjs-ng:quickjs",
        file: "vendor/quickjs-ng/quickjs.h",
        parts: &["#define QJS_VERSION_MAJOR ", "#define QJS_VERSION_MINOR ", "#define QJS_VERSION_PATCH "],
    },
];

/// The texts of the licences of what the editor is made of: each under a line that names it.
const EDITOR: &str = "src/web/assets/vendor/codemirror.LICENSES";

/// All of it.
///
/// # Errors
///
/// A crate that is not unpacked, or does not say of which version what is inside of it is.
pub(crate) fn all(crates: &[Crate]) -> Result<Vec<Inside>, Failure> {
    let mut found = Vec::new();
    for (place, one) in crates.iter().enumerate() {
        for vendored in VENDORED.iter().filter(|vendored| vendored.of == one.name) {
            let source = one.source.as_deref().ok_or_else(|| format!("{} {} is not unpacked: `cargo fetch`", one.name, one.version))?;
            found.push(vendored.within(source, place)?);
        }
    }
    let editor = place::read(&place::root().join(EDITOR))?;
    found.extend(editor.lines().filter_map(of_the_editor));
    Ok(found)
}

impl Vendored {
    fn within(&self, source: &Path, place: usize) -> Result<Inside, Failure> {
        let text = place::read(&source.join(self.file))?;
        let value = |part: &&str| text.lines().find_map(|line| line.strip_prefix(part)).map(|value| value.trim().trim_matches('"'));
        let parts: Vec<_> = self.parts.iter().filter_map(value).collect();
        if parts.len() < self.parts.len() {
            return Err(format!("{} does not say of which version {} is", source.join(self.file).display(), self.name));
        }
        let version = parts.join(".");
        Ok(Inside {
            name: self.name.to_owned(),
            licence: self.licence.to_owned(),
            purl: format!("{}@{version}", self.purl),
            cpe: Some(format!("{}:{version}:*:*:*:*:*:*:*", self.cpe)),
            version,
            of: Some(place),
        })
    }
}

/// `--- @codemirror/state 6.5.2 (MIT)`.
fn of_the_editor(line: &str) -> Option<Inside> {
    let (package, licence) = line.strip_prefix("--- ")?.split_once(" (")?;
    let (name, version) = package.rsplit_once(' ')?;
    Some(Inside {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: licence.strip_suffix(')')?.to_owned(),
        purl: format!("pkg:npm/{}@{version}", name.replace('@', "%40")),
        cpe: None,
        of: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dist::crates, engine::Engine};

    #[test]
    fn the_engine_its_tables_and_the_editor_are_told_with_their_versions() {
        let of = |engine: Engine, name: &str| {
            let crates = crates::linked(engine).unwrap();
            let one = all(&crates).unwrap().into_iter().find(|one| one.name == name).unwrap_or_else(|| panic!("no {name}"));
            assert!(
                one.version.split('.').count() >= 2 && one.version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'),
                "{one:?}"
            );
            assert!(one.purl.ends_with(&format!("@{}", one.version)), "{one:?}");
            one.of.map(|place| crates[place].name.clone())
        };
        assert_eq!(of(Engine::V8, "V8").as_deref(), Some("v8"));
        assert_eq!(of(Engine::V8, "ICU").as_deref(), Some("v8"));
        assert_eq!(of(Engine::QuickJs, "QuickJS-ng").as_deref(), Some("v8x"));
        assert_eq!(of(Engine::V8, "@codemirror/state"), None);
        // Every text of a licence is of something that is told.
        let told = all(&[]).unwrap().len();
        let editor = place::read(&place::root().join(EDITOR)).unwrap();
        assert_eq!(told, editor.lines().filter(|line| line.starts_with("--- ")).count());
    }
}
