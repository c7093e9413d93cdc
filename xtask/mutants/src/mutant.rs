//! Mutants as cargo-mutants describes them.

use std::{ops::Range, process::Command};

use serde::Deserialize;

use crate::{Failure, areas::MutationArea};

/// A small change of the code.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Mutant {
    /// Location and change, on one line.
    pub(crate) name: String,
    /// Its source file, relative to the root of the tree.
    pub(crate) file: String,
    pub(crate) genre: Genre,
    /// Replacement for `span`. Empty if that is deleted.
    pub(crate) replacement: String,
    span: Span,
    function: Option<Function>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Genre {
    /// The body of a function.
    FnValue,
    /// The operator between two operands.
    BinaryOperator,
    /// The operator before an operand.
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    /// A field of a struct whose other fields come from a base.
    StructField,
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Span {
    start: Place,
    end: Place,
}

/// Line and column, both from 1. Columns count characters.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

#[derive(Debug, Clone, Deserialize)]
struct Function {
    return_type: String,
}

impl Mutant {
    /// Returns the range of `source` that it replaces.
    pub(crate) fn range(&self, source: &str) -> Range<usize> {
        self.span.start.byte(source)..self.span.end.byte(source)
    }

    /// Returns whether its function returns an `impl` type, on which both branches of a switch
    /// would have to agree.
    pub(crate) fn is_of_hidden_type(&self) -> bool {
        self.function.as_ref().is_some_and(|function| function.return_type.contains("impl "))
    }
}

impl Place {
    fn byte(self, source: &str) -> usize {
        let line: usize = source.split_inclusive('\n').take(self.line - 1).map(str::len).sum();
        line + source[line..].chars().take(self.column - 1).map(char::len_utf8).sum::<usize>()
    }
}

/// Lists all mutants of an area except those in `.cargo/mutants.toml`. `asked` contains further
/// options of cargo-mutants to narrow them.
pub(crate) fn list(cargo_mutants: &mut Command, area: &MutationArea, request: &[String]) -> Result<Vec<Mutant>, Failure> {
    cargo_mutants.args(["--list", "--json"]).args(area.sources()).args(request);
    let done = cargo_mutants.output().map_err(|reason| format!("cannot start cargo-mutants: {reason}"))?;
    if !done.status.success() {
        return Err(format!("cargo-mutants failed: {}\n{}", done.status, String::from_utf8_lossy(&done.stderr)));
    }
    serde_json::from_slice(&done.stdout).map_err(|reason| format!("cargo-mutants lists what is not understood: {reason}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the mutant that replaces the first occurrence of `what` with `replacement`.
    pub(crate) fn mutant(source: &str, genre: Genre, what: &str, replacement: &str) -> Mutant {
        let start = source.find(what).expect("the text is there");
        let position = |byte: usize| {
            let before = &source[..byte];
            let line = before.rfind('\n').map_or(0, |newline| newline + 1);
            Place { line: before.matches('\n').count() + 1, column: before[line..].chars().count() + 1 }
        };
        Mutant {
            name: format!("replace {what} with {replacement}"),
            file: "src/lib.rs".to_owned(),
            genre,
            replacement: replacement.to_owned(),
            span: Span { start: position(start), end: position(start + what.len()) },
            function: None,
        }
    }

    #[test]
    fn columns_count_characters() {
        let source = "// ä\nlet ö = a + b;\n";
        assert_eq!(&source[mutant(source, Genre::BinaryOperator, "+", "-").range(source)], "+");
    }
}
