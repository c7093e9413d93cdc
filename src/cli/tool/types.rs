//! The type check, by the builder's own compiler.

use std::{ffi::OsString, path::Path};

use super::{Code, FilePosition, Problem, Tool, counted, program};

/// The flag that the compiler's message suggests if it finds a `tsconfig.json` outside the folder.
const IGNORE_CONFIG: &str = "--ignoreConfig";

/// The result of the type check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TypesOutcome {
    /// Types were not checked, for this reason.
    Unchecked(&'static str),
    Checked(Vec<Problem>),
}

/// Checks the types of a folder.
///
/// # Errors
///
/// The compiler cannot be run, or its output cannot be parsed.
pub(crate) async fn check(tool: &Tool) -> Result<TypesOutcome, String> {
    let Code::Source { file, .. } = &tool.code else { return Ok(TypesOutcome::Unchecked("no handler")) };
    let has = |name: &str| tool.folder.join(name).is_file();
    let args: Vec<OsString> = if has("tsconfig.json") {
        "--noEmit --pretty false -p tsconfig.json".split_whitespace().map(Into::into).collect()
    } else if has("tool.d.ts") {
        let declared = ["tool.d.ts", "globals.d.ts"].into_iter().filter(|name| has(name));
        let flags = "--noEmit --pretty false --strict --target es2023 --lib es2023 --skipLibCheck --allowJs --types".split_whitespace();
        // The list of types is empty.
        flags.chain([""]).chain(declared).chain([*file]).map(Into::into).collect()
    } else {
        return Ok(TypesOutcome::Unchecked("no tool.d.ts; write it: tollhouse types"));
    };
    let mut ran = program::run(&tool.folder, "tsc", &args, &[]).await?;
    let is_refused = matches!(&ran, Some(output) if String::from_utf8_lossy(&output.stdout).contains(IGNORE_CONFIG));
    if is_refused {
        // TypeScript 6 and later refuse files if a folder above has a `tsconfig.json`, and earlier versions do not know
        // the flag.
        ran = program::run(&tool.folder, "tsc", &[vec![IGNORE_CONFIG.into()], args].concat(), &[]).await?;
    }
    match ran {
        None => Ok(TypesOutcome::Unchecked("tsc is not installed: npm i -D typescript")),
        Some(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let problems = problems(&text, &tool.folder);
            if problems.is_empty() && !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr);
                let reason = text.lines().chain(errors.lines()).find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
                return Err(format!("tsc failed: {}", reason.trim()));
            }
            Ok(TypesOutcome::Checked(problems))
        }
    }
}

/// Parses lines such as `handler.ts(4,27): error TS2339: …`, whose column counts UTF-16 units, and their continuation
/// lines, which begin with a space.
fn problems(reported: &str, folder: &Path) -> Vec<Problem> {
    let mut found: Vec<Problem> = vec![];
    for line in reported.lines() {
        if let (Some(last), true) = (found.last_mut(), line.starts_with(' ')) {
            last.message = format!("{} {}", last.message, line.trim());
            continue;
        }
        let Some((position, message)) = line.split_once(": error TS") else {
            // An error without a file: `error TS5023: Unknown compiler option`.
            if let Some(message) = line.strip_prefix("error TS") {
                found.push(Problem::new("types", FilePosition::file("tsconfig.json"), behind_number(message)));
            }
            continue;
        };
        found.push(Problem::new("types", place_of(position, folder), behind_number(message)));
    }
    found
}

fn behind_number(message: &str) -> String {
    message.split_once(": ").map_or(message, |(_, message)| message).to_owned()
}

fn place_of(text: &str, folder: &Path) -> FilePosition {
    let parts = || {
        let (file, position) = text.strip_suffix(')')?.rsplit_once('(')?;
        let (line, column) = position.split_once(',')?;
        let file = Path::new(file).strip_prefix(folder).unwrap_or(Path::new(file));
        Some(counted(folder, FilePosition::at(file.to_string_lossy(), line.parse().ok()?, column.parse().ok()?), char::len_utf16))
    };
    parts().unwrap_or_else(|| FilePosition::file(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_errors_have_places() {
        let expected = "handler.ts(4,27): error TS2339: Property 'txt' does not exist.\n  Did you mean 'text'?\nerror TS5023: Unknown compiler option 'x'.\n/f/lib/a b(1).ts(2,1): error TS1: x: y\n\nFound 3 errors.\n";
        let expected: Vec<_> = problems(expected, Path::new("/f")).iter().map(ToString::to_string).collect();
        assert_eq!(
            expected,
            [
                "handler.ts:4:27  Property 'txt' does not exist. Did you mean 'text'?",
                "tsconfig.json  Unknown compiler option 'x'.",
                "lib/a b(1).ts:2:1  x: y"
            ]
        );
    }

    #[test]
    fn column_of_the_compiler_counts_characters() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("handler.ts"), "const é = \"日本 😀\"; txt;\n").unwrap();
        let reported = problems("handler.ts(1,20): error TS2304: Cannot find name 'txt'.\n", folder.path());
        assert_eq!(reported[0].to_string(), "handler.ts:1:19  Cannot find name 'txt'.");
    }
}
