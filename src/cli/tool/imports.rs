//! Finds the imports of a handler: one without imports needs no bundler.

use tollhouse_base::lexer::{Kind, Token, cooked, tokens};

/// An import that exists at run time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The module specifier as it is written.
    pub(crate) from: String,
    /// Byte offset of the specifier in the source.
    pub(crate) at: usize,
}

/// Returns all imports of a source, except those of types, which disappear at run time.
pub(crate) fn imports(source: &str) -> Vec<Import> {
    let tokens: Vec<_> = tokens(source).into_iter().filter(|token| token.kind != Kind::Comment).collect();
    let mut found = vec![];
    for (position, token) in tokens.iter().enumerate() {
        if token.kind != Kind::Word || position > 0 && tokens[position - 1].text(source) == "." {
            continue;
        }
        let behind = &tokens[position + 1..];
        let from = match token.text(source) {
            "import" => imported(source, behind),
            "export" => exported(source, behind),
            _ => None,
        };
        if let Some(from) = from {
            let quoted = from.text(source);
            // An unterminated string is a syntax error, which the host reports.
            let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
            found.push(Import { from: cooked(inner).into_owned(), at: from.start });
        }
    }
    found
}

/// Returns whether a source has syntax that no engine runs, and that cannot be blanked out like types: enums,
/// namespaces, parameter properties or decorators.
pub(crate) fn needs_compiler(source: &str) -> bool {
    let tokens: Vec<_> = tokens(source).into_iter().filter(|token| token.kind != Kind::Comment).collect();
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text(source));
    let is_word = |at: usize| tokens.get(at).is_some_and(|token| token.kind == Kind::Word);
    (0..tokens.len()).any(|at| match (tokens[at].kind, text(at)) {
        (Kind::Word, "enum") => is_word(at + 1) && text(at + 2) == "{",
        (Kind::Word, "namespace" | "module") => is_word(at + 1) && matches!(text(at + 2), "{" | "."),
        (Kind::Word, "public" | "private" | "protected" | "readonly") => {
            at > 0 && matches!(text(at - 1), "(" | ",") && is_word(at + 1) && matches!(text(at + 2), ":" | "," | ")" | "=" | "?")
        }
        // A decorator. No other word begins with this character.
        (Kind::Word, word) => word.starts_with('@'),
        _ => false,
    })
}

/// Returns the module specifier after `import`.
fn imported(source: &str, behind: &[Token]) -> Option<Token> {
    let first = behind.first()?;
    let second = behind.get(1);
    match (first.kind, first.text(source)) {
        (Kind::Str, _) => Some(*first),
        (Kind::Punct, "(") => second.filter(|token| token.kind == Kind::Str).copied(),
        (Kind::Punct, "{" | "*") => from(source, behind),
        (Kind::Word, "type") => match second {
            // A default import with the name `type`.
            Some(token) if token.text(source) == "," => from(source, behind),
            Some(token) if token.text(source) == "from" && behind.get(2).is_some_and(|token| token.kind == Kind::Str) => {
                from(source, behind)
            }
            _ => None,
        },
        (Kind::Word, _) => from(source, behind),
        _ => None,
    }
}

/// Returns the module specifier after `export`.
fn exported(source: &str, behind: &[Token]) -> Option<Token> {
    match behind.first()?.text(source) {
        "*" | "{" => from(source, behind),
        _ => None,
    }
}

/// Returns the string after `from`, if only a list of names comes before it.
fn from(source: &str, behind: &[Token]) -> Option<Token> {
    let mut is_from = false;
    for token in behind {
        match (token.kind, token.text(source)) {
            (Kind::Str, _) if is_from => return Some(*token),
            // Names may be strings: `import { "a b" as c } from "d"`.
            (Kind::Str, _) => is_from = false,
            (Kind::Word, text) => is_from = text == "from",
            (Kind::Punct, "{" | "}" | "," | "*") => is_from = false,
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<String> {
        imports(source).into_iter().map(|import| import.from).collect()
    }

    #[test]
    fn imports_are_found_in_every_form() {
        let source = r#"
            import a from "one"; import { b, type C } from 'two'
            import * as d from "three"; import e, { f as g } from "./four.ts";
            import "five"
            export * from "six"; export { h } from "seven"; export * as i from "eight";
            import type, { j } from "nine"; import type from "ten";
            const k = await import("eleven");
            import { "a b" as l } from "twel\x76e";
            import/* x */m/* y */from/* z */"thirteen";
        "#;
        let all = ["one", "two", "three", "./four.ts", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"];
        assert_eq!(found(source), all);
    }

    #[test]
    fn syntax_that_needs_a_compiler_is_found() {
        for source in [
            "enum A { B }",
            "export const enum A { B = 1 }",
            "namespace A { export const b = 1; }",
            "namespace A.B { export const c = 1; }",
            "class A { constructor(private b: number) {} }",
            "class A { constructor(b: number, readonly c = 1) {} }",
            "@logged class A {}",
            "class A { @logged() b() {} }",
        ] {
            assert!(needs_compiler(source), "{source}");
        }
        for source in [
            "const a = 'enum A { B }'; // @logged class A {}",
            "interface A { readonly b: string; module: string } type E = A;",
            "class A { private b = 1; readonly c: number = 2; }",
            "module.exports = {}; const namespace = 1, o = { enum: 1, module };",
        ] {
            assert!(!needs_compiler(source), "{source}");
        }
    }

    #[test]
    fn text_that_only_looks_like_an_import_is_ignored() {
        let source = r#"
            import type { A } from "./types.ts"; import type B from "b"; import type * as C from "c"; export type { D } from "d";
            // import x from "x"
            const text = 'import y from "y"', at = `import z from "z"`, re = /import w from "w"/;
            export { text }; export const from = "v"; export default function () {}
            object.import("u"); import.meta.url; const o = { import: "t", from: "s" };
            const dynamic = import(at);
        "#;
        assert_eq!(found(source), Vec::<String>::new());
    }
}
