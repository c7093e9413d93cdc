//! Advice for syntax errors about features that no engine supports yet, but that compilers can translate.

use tollhouse_protocol::LoadError;

/// How to get such syntax compiled.
const ADVICE: &str = "in TypeScript they are compiled, and in JavaScript if esbuild is installed";

/// Adds advice to a syntax error whose line has a decorator or an `accessor`.
pub(crate) fn advised(error: LoadError, source: &str) -> LoadError {
    let Some(line) = error.line.and_then(|line| source.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)) else { return error };
    let what = if has_decorator(line, error.column) {
        "decorators are not part of JavaScript yet"
    } else if has_accessor(line) {
        "`accessor` fields are not part of JavaScript yet"
    } else {
        return error;
    };
    LoadError { message: format!("{}: {what}; {ADVICE}", error.message), ..error }
}

fn begins_a_name(char: char) -> bool {
    char.is_alphabetic() || matches!(char, '_' | '$' | '(')
}

/// Returns whether there is a decorator at the error or at the start of the line. One engine reports the decorator, the
/// other the token after it.
fn has_decorator(line: &str, column: Option<u32>) -> bool {
    let is_one = |text: &str| text.strip_prefix('@').is_some_and(|name| name.starts_with(begins_a_name));
    let at = column.and_then(|column| usize::try_from(column).ok()?.checked_sub(1));
    let from = at.and_then(|at| line.char_indices().nth(at)).map_or("", |(at, _)| &line[at..]);
    is_one(line.trim_start()) || is_one(from)
}

/// Returns whether `accessor` occurs before the name of a field.
fn has_accessor(line: &str) -> bool {
    line.match_indices("accessor").any(|(at, word)| {
        let (before, behind) = (&line[..at], &line[at + word.len()..]);
        let is_word = !before.ends_with(|char: char| char.is_alphanumeric() || matches!(char, '_' | '$' | '.' | '#'));
        let name = behind.trim_start();
        is_word && name.len() < behind.len() && name.starts_with(|char: char| begins_a_name(char) || matches!(char, '#' | '[' | '"' | '\''))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advised_message(source: &str, line: u32, column: Option<u32>) -> String {
        advised(LoadError { message: "SyntaxError: no".to_owned(), line: Some(line), column }, source).message
    }

    #[test]
    fn decorators_and_accessors_get_advice() {
        for (source, line, column, what) in [
            ("@logged class A {}", 1, Some(1), "decorators"),
            ("class A {\n  @logged m() {}\n}", 2, None, "decorators"),
            ("class A { @(logged()) m() {} }", 1, Some(11), "decorators"),
            ("class A { accessor x = 1; }", 1, Some(20), "`accessor`"),
            ("class A {\n  static accessor #x\n}", 2, None, "`accessor`"),
        ] {
            let reported = advised_message(source, line, column);
            assert!(reported.starts_with(&format!("SyntaxError: no: {what}")) && reported.contains("esbuild"), "{source}: {reported}");
        }
    }

    #[test]
    fn other_errors_are_reported_as_they_are() {
        for (source, line, column) in [
            ("const a = 'me@example.com' +;", 1, Some(29)),
            ("const accessor = 1 2", 1, Some(20)),
            ("a.accessor b", 1, Some(12)),
            ("@", 1, Some(1)),
            ("", 7, None),
        ] {
            assert_eq!(advised_message(source, line, column), "SyntaxError: no", "{source}");
        }
        let error = LoadError { message: "no".to_owned(), line: None, column: None };
        assert_eq!(advised(error, "@logged class A {}").message, "no");
    }
}
