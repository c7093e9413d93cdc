//! Source maps: convert positions in a bundle, and in stack traces, to positions in the builder's own files.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    sync::LazyLock,
};

use regex::{Captures, Regex};
use serde::{Deserialize, Serialize};
use tollhouse_money::receipt::bytes_hash;

use super::{FilePosition, counted};

/// Versions whose maps a folder keeps: as many versions as the host keeps.
const MAX_MAPS: usize = 50;

/// The map from a source to the builder's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SourceMap {
    /// The source is that file. Types are blanked out, so positions stay the same.
    #[serde(rename = "file")]
    Same(String),
    /// A bundler's map, with the paths of its sources relative to the tool's folder.
    #[serde(rename = "bundle")]
    Bundle { sources: Vec<String>, mappings: String },
}

/// A source map as bundlers write it.
#[derive(Deserialize)]
struct SourceMapFile {
    sources: Vec<String>,
    mappings: String,
}

impl SourceMap {
    /// Parses a bundler's map. `beside` is the folder of the map, below `folder`.
    pub(crate) fn read(text: &str, folder: &Path, alongside: &Path) -> Option<Self> {
        let SourceMapFile { sources, mappings } = serde_json::from_str(text).ok()?;
        let named = |source: &String| relative(folder, &alongside.join(source));
        Some(Self::Bundle { sources: sources.iter().map(named).collect(), mappings })
    }

    /// Returns the original place of a position in the source. Both count from 1, and columns count UTF-16 units, as
    /// engines and bundlers count them.
    pub(crate) fn place(&self, line: u32, column: u32) -> Option<FilePosition> {
        match self {
            Self::Same(file) => Some(FilePosition::at(file, line, column)),
            Self::Bundle { sources, mappings } => {
                let (source, line, column) = original(mappings, line.checked_sub(1)?, column.saturating_sub(1))?;
                Some(FilePosition::at(sources.get(source)?, line + 1, column + 1))
            }
        }
    }

    fn file_of(folder: &Path, version: &str) -> PathBuf {
        folder.join(".tollhouse/maps").join(format!("{version}.json"))
    }

    /// Stores the map for the stack traces of a version. A failure is ignored: stack traces are then shown unconverted.
    pub(crate) fn keep(&self, folder: &Path, version: &str) {
        let Some(version) = short(version) else { return };
        let file = Self::file_of(folder, version);
        let stored = serde_json::to_string(self).ok().zip(file.parent());
        let Some((text, maps)) = stored else { return };
        if fs::create_dir_all(maps).is_ok() && fs::write(&file, text).is_ok() {
            forget(maps);
        }
    }

    /// Reads the stored map of a version from the start of its hash, if the folder has it.
    fn load(folder: &Path, version: &str) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(Self::file_of(folder, version)).ok()?).ok()
    }
}

/// Returns the version (hash) of a source.
pub(crate) fn version(language: &str, source: &str) -> String {
    bytes_hash(format!("{language}\0{source}").as_bytes())
}

/// Returns the part of a version's hash that stack traces contain.
fn short(version: &str) -> Option<&str> {
    version.strip_prefix("sha256:").unwrap_or(version).get(..12).filter(|short| short.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Removes the oldest maps beyond [`MAX_MAPS`].
fn forget(maps: &Path) {
    let Ok(entries) = fs::read_dir(maps) else { return };
    let mut all: Vec<_> = entries.flatten().filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    all.sort();
    let more = all.len().saturating_sub(MAX_MAPS);
    for (_, path) in all.into_iter().take(more) {
        _ = fs::remove_file(path);
    }
}

/// Returns `path` relative to `folder`, with `..` where needed, without looking at the disk.
pub(super) fn relative(folder: &Path, path: &Path) -> String {
    let plain = |path: &Path| {
        let mut parts = vec![];
        for part in path.components() {
            match part {
                Component::ParentDir if matches!(parts.last(), Some(Component::Normal(_))) => _ = parts.pop(),
                Component::CurDir => {}
                other => parts.push(other),
            }
        }
        parts.into_iter().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let (folder, path) = (plain(folder), plain(path));
    let common = folder.iter().zip(&path).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..".to_owned(), folder.len() - common);
    up.chain(path[common..].iter().cloned()).collect::<Vec<_>>().join("/")
}

/// Returns source, line and column for a position in the bundle, all from 0. They are those of the last segment of the
/// line that starts at or before the position, or of its first one.
fn original(mappings: &str, line: u32, column: u32) -> Option<(usize, u32, u32)> {
    let (mut source, mut from_line, mut from_column) = (0_i64, 0_i64, 0_i64);
    for (number, segments) in mappings.split(';').enumerate() {
        let (mut at, mut first, mut found) = (0_i64, None, None);
        let is_it = u32::try_from(number) == Ok(line);
        for segment in segments.split(',').filter(|segment| !segment.is_empty()) {
            let fields = decode(segment)?;
            at += fields.first()?;
            if let [_, of, down, along, ..] = fields[..] {
                (source, from_line, from_column) = (source + of, from_line + down, from_column + along);
                first = first.or(Some((source, from_line, from_column)));
                if is_it && at <= i64::from(column) {
                    found = Some((source, from_line, from_column));
                }
            }
        }
        if is_it {
            let (source, line, column) = found.or(first)?;
            return Some((usize::try_from(source).ok()?, u32::try_from(line).ok()?, u32::try_from(column).ok()?));
        }
    }
    None
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes the numbers of a segment, which are in base64 VLQ.
fn decode(segment: &str) -> Option<Vec<i64>> {
    let (mut numbers, mut value, mut shift) = (vec![], 0_i64, 0_u32);
    for byte in segment.bytes() {
        let digit = i64::try_from(BASE64.iter().position(|known| *known == byte)?).ok()?;
        if shift > 30 {
            return None;
        }
        value |= (digit & 31) << shift;
        shift += 5;
        if digit & 32 == 0 {
            numbers.push(if value & 1 == 1 { -(value >> 1) } else { value >> 1 });
            (value, shift) = (0, 0);
        }
    }
    Some(numbers)
}

/// A place of a handler as the host writes it: `tool:/shout/3f9a1c0b22aa:4:27`.
static FRAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"tool:/[a-z0-9-]+/([0-9a-f]{12}):([0-9]+)(?::([0-9]+))?").expect("it is a pattern"));

/// Replaces the places of handlers in a stack trace, or any text, with places in the builder's own files, if the folder
/// knows the version.
pub(crate) fn rewrite_path(folder: &Path, text: &str) -> String {
    FRAME
        .replace_all(text, |frame: &Captures<'_>| {
            placed(folder, frame).map_or_else(|| frame[0].to_owned(), |position| position.to_string())
        })
        .into_owned()
}

/// Returns the first place in a stack trace that is in the builder's own files, not in a package.
pub(crate) fn first_own(folder: &Path, stack: &str) -> Option<FilePosition> {
    let mut positions = FRAME.captures_iter(stack).filter_map(|frame| placed(folder, &frame));
    positions.find(|position| !position.file.contains("node_modules/"))
}

fn placed(folder: &Path, frame: &Captures<'_>) -> Option<FilePosition> {
    let column = frame.get(3).map_or(Some(1), |column| column.as_str().parse().ok())?;
    let position = SourceMap::load(folder, &frame[1])?.place(frame[2].parse().ok()?, column)?;
    Some(counted(folder, position, char::len_utf16))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generated by `esbuild` from a handler that imports `./lib/x.ts` and throws on its fourth line.
    const MAPPINGS: &str =
        ";AAAO,IAAM,IAAY;;;ACEzB,eAAO,gBAAwB,KAAU;AACvC,QAAM,QAAY,UAAAA,SAAG,IAAI,MAAM,CAAC;AAChC,MAAI,IAAI,MAAM,KAAM,OAAM,IAAI,MAAM,MAAM";

    fn map() -> SourceMap {
        let text = format!("{{\"version\":3,\"sources\":[\"../../lib/x.ts\",\"../../handler.ts\"],\"mappings\":\"{MAPPINGS}\"}}");
        SourceMap::read(&text, Path::new("/f"), Path::new("/f/.tollhouse/b")).unwrap()
    }

    #[test]
    fn position_in_a_bundle_is_mapped() {
        let describe = |line, column| map().place(line, column).map(|position| position.to_string());
        assert_eq!(describe(2, 1).as_deref(), Some("lib/x.ts:1:8"));
        assert_eq!(describe(5, 7).as_deref(), Some("handler.ts:3:1"));
        assert_eq!(describe(5, 16).as_deref(), Some("handler.ts:3:8"));
        assert_eq!(describe(7, 3).as_deref(), Some("handler.ts:5:3"));
        assert_eq!(describe(7, 27).as_deref(), Some("handler.ts:5:23"));
        assert_eq!((describe(1, 1), describe(99, 1), describe(0, 0)), (None, None, None));
        let indented = SourceMap::Bundle { sources: vec!["a.js".to_owned()], mappings: "EAAA".to_owned() };
        assert_eq!(indented.place(1, 1).unwrap().to_string(), "a.js:1:1");
        assert_eq!(SourceMap::Same("handler.js".to_owned()).place(3, 4).unwrap().to_string(), "handler.js:3:4");
    }

    #[test]
    fn malformed_mappings_are_ignored() {
        for mappings in ["A!", "AAAAAAAAAAAAgggggggggggggggg", "gggggggggggggA", "AA,,;A", "DDDD"] {
            let map = SourceMap::Bundle { sources: vec!["a".to_owned()], mappings: mappings.to_owned() };
            for line in 0..3 {
                assert!(map.place(line, 5).is_none(), "{mappings}, line {line}");
            }
        }
    }

    #[test]
    fn stack_traces_are_mapped_by_version() {
        let folder = tempfile::tempdir().unwrap();
        map().keep(folder.path(), "sha256:3f9a1c0b22aa77");
        let stack = "Error: boom\n    at handler_default (tool:/shout/3f9a1c0b22aa:7:27)\n    at tool:/shout/000000000000:1:1";
        let reported = rewrite_path(folder.path(), stack);
        assert_eq!(reported, "Error: boom\n    at handler_default (handler.ts:5:23)\n    at tool:/shout/000000000000:1:1");
        assert_eq!(first_own(folder.path(), stack).unwrap().to_string(), "handler.ts:5:23");
    }

    #[test]
    fn column_of_a_stack_counts_characters() {
        let folder = tempfile::tempdir().unwrap();
        let row = "const é = \"日本語 😀\"; throw new Error(é);";
        fs::write(folder.path().join("handler.js"), format!("\n{row}\n")).unwrap();
        SourceMap::Same("handler.js".to_owned()).keep(folder.path(), "3f9a1c0b22aa");
        let (before, _) = row.split_once("new Error").unwrap();
        let stack = format!("Error: 日本語 😀\n    at tool:/shout/3f9a1c0b22aa:2:{}", before.encode_utf16().count() + 1);
        let requested = format!("handler.js:2:{}", before.chars().count() + 1);
        assert_eq!(rewrite_path(folder.path(), &stack), format!("Error: 日本語 😀\n    at {requested}"));
        assert_eq!(first_own(folder.path(), &stack).unwrap().to_string(), requested);
    }

    #[test]
    fn old_maps_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        for version in 0..MAX_MAPS + 5 {
            SourceMap::Same("handler.js".to_owned()).keep(folder.path(), &format!("{version:012x}"));
        }
        assert_eq!(fs::read_dir(folder.path().join(".tollhouse/maps")).unwrap().count(), MAX_MAPS);
        SourceMap::Same("x".to_owned()).keep(folder.path(), "../../../../etc");
    }

    #[test]
    fn paths_are_relative_to_the_folder() {
        let describe = |path: &str| relative(Path::new("/a/b"), Path::new(path));
        assert_eq!(describe("/a/b/.tollhouse/x/../../handler.ts"), "handler.ts");
        assert_eq!(describe("/a/node_modules/ms/index.js"), "../node_modules/ms/index.js");
    }
}
