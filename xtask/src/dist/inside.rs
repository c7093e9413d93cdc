//! Third-party parts of a release that are not separate crates: the engine within a crate, and the
//! editor of the pages.

use std::path::Path;

use super::crates::Crate;
use crate::{Failure, paths};

/// A third-party part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Embedded {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The SPDX expression.
    pub(crate) license: String,
    /// The package URL.
    pub(crate) purl: String,
    /// The CPE name in lists of known vulnerabilities, if it has one.
    pub(crate) cpe: Option<String>,
    /// The index of the crate that contains it; `None` if the host itself contains it.
    pub(crate) of: Option<usize>,
}

/// A part that is vendored in a crate, and the place of its version number there.
struct Vendored {
    of: &'static str,
    name: &'static str,
    license: &'static str,
    /// The package URL of the repository.
    purl: &'static str,
    cpe: &'static str,
    file: &'static str,
    /// The prefixes of the lines with the parts of the version.
    parts: &'static [&'static str],
}

const VENDORED: [Vendored; 3] = [
    Vendored {
        of: "v8",
        name: "V8",
        license: "BSD-3-Clause",
        purl: "pkg:github/v8/v8",
        cpe: "cpe:2.3:a:google:v8",
        file: "v8/include/v8-version.h",
        parts: &["#define V8_MAJOR_VERSION ", "#define V8_MINOR_VERSION ", "#define V8_BUILD_NUMBER ", "#define V8_PATCH_LEVEL "],
    },
    Vendored {
        of: "v8",
        name: "ICU",
        license: "Unicode-3.0",
        purl: "pkg:github/unicode-org/icu",
        cpe: "cpe:2.3:a:icu-project:international_components_for_unicode",
        file: "third_party/icu/source/common/unicode/uvernum.h",
        parts: &["#define U_ICU_VERSION "],
    },
    Vendored {
        of: "v8x",
        name: "QuickJS-ng",
        license: "MIT",
        purl: "pkg:github/quickjs-ng/quickjs",
        cpe: "cpe:2.3:a:quickjs-ng:quickjs",
        file: "vendor/quickjs-ng/quickjs.h",
        parts: &["#define QJS_VERSION_MAJOR ", "#define QJS_VERSION_MINOR ", "#define QJS_VERSION_PATCH "],
    },
];

/// The licenses of the editor's packages. Each text follows a line that names its package.
const EDITOR: &str = "src/web/assets/vendor/codemirror.LICENSES";

/// Returns all third-party parts.
///
/// # Errors
///
/// Fails if a crate is not unpacked, or if the version of a part cannot be found in it.
pub(crate) fn all(crates: &[Crate]) -> Result<Vec<Embedded>, Failure> {
    let mut found = Vec::new();
    for (index, one) in crates.iter().enumerate() {
        for vendored in VENDORED.iter().filter(|vendored| vendored.of == one.name) {
            let source = one.source.as_deref().ok_or_else(|| format!("{} {} is not unpacked: `cargo fetch`", one.name, one.version))?;
            found.push(vendored.within(source, index)?);
        }
    }
    let editor = paths::read(&paths::root().join(EDITOR))?;
    found.extend(editor.lines().filter_map(of_the_editor));
    Ok(found)
}

impl Vendored {
    fn within(&self, source: &Path, index: usize) -> Result<Embedded, Failure> {
        let text = paths::read(&source.join(self.file))?;
        let value = |part: &&str| text.lines().find_map(|line| line.strip_prefix(part)).map(|value| value.trim().trim_matches('"'));
        let parts: Vec<_> = self.parts.iter().filter_map(value).collect();
        if parts.len() < self.parts.len() {
            return Err(format!("{} does not contain the version of {}", source.join(self.file).display(), self.name));
        }
        let version = parts.join(".");
        Ok(Embedded {
            name: self.name.to_owned(),
            license: self.license.to_owned(),
            purl: format!("{}@{version}", self.purl),
            cpe: Some(format!("{}:{version}:*:*:*:*:*:*:*", self.cpe)),
            version,
            of: Some(index),
        })
    }
}

/// Parses a line, for example `--- @codemirror/state 6.5.2 (MIT)`.
fn of_the_editor(line: &str) -> Option<Embedded> {
    let (package, license) = line.strip_prefix("--- ")?.split_once(" (")?;
    let (name, version) = package.rsplit_once(' ')?;
    Some(Embedded {
        name: name.to_owned(),
        version: version.to_owned(),
        license: license.strip_suffix(')')?.to_owned(),
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
    fn engine_icu_and_editor_are_listed_with_their_versions() {
        let of = |engine: Engine, name: &str| {
            let crates = crates::linked(engine).unwrap();
            let one = all(&crates).unwrap().into_iter().find(|one| one.name == name).unwrap_or_else(|| panic!("no {name}"));
            assert!(
                one.version.split('.').count() >= 2 && one.version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'),
                "{one:?}"
            );
            assert!(one.purl.ends_with(&format!("@{}", one.version)), "{one:?}");
            one.of.map(|index| crates[index].name.clone())
        };
        assert_eq!(of(Engine::V8, "V8").as_deref(), Some("v8"));
        assert_eq!(of(Engine::V8, "ICU").as_deref(), Some("v8"));
        assert_eq!(of(Engine::QuickJs, "QuickJS-ng").as_deref(), Some("v8x"));
        assert_eq!(of(Engine::V8, "@codemirror/state"), None);
        // Each license text belongs to a listed part.
        let reported = all(&[]).unwrap().len();
        let editor = paths::read(&paths::root().join(EDITOR)).unwrap();
        assert_eq!(reported, editor.lines().filter(|line| line.starts_with("--- ")).count());
    }
}
