//! Finds the members of `ctx` with a capability that a source uses, with the line of the first use.
//!
//! This is advice for publishers and no access control: each op of a call is checked when it
//! happens. A `ctx` under other names, or passed to a function, is not followed.

use tollhouse_base::lexer::{Kind, Token, tokens};
use tollhouse_tool::Capability;

/// Maximum tokens of a handler's parameters.
const PARAMETER_TOKENS: usize = 256;

/// A use of a member of `ctx`, or of `console`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextMember {
    /// The name in the source.
    pub name: &'static str,
    /// The capability that it needs.
    pub capability: Capability,
    /// Line of its first use, from 1.
    pub line: usize,
}

/// The global that writes to the log.
const CONSOLE: &str = "console";

/// Names of the global object.
const GLOBAL: [&str; 2] = ["globalThis", "self"];

/// Returns the uses in `source`, in order of their first occurrence.
#[must_use]
pub fn reaches(source: &str) -> Vec<ContextMember> {
    let code = Code { source, tokens: tokens(source).into_iter().filter(|token| token.kind != Kind::Comment).collect() };
    let context = code.context();
    let mut found: Vec<ContextMember> = Vec::new();
    for at in 0..code.tokens.len() {
        let Some((name, capability)) = code.reach(at, &context) else { continue };
        if found.iter().all(|reach| reach.name != name) {
            let line = source[..code.tokens[at].start].matches('\n').count() + 1;
            found.push(ContextMember { name, capability, line });
        }
    }
    found
}

/// Returns the first line, from 1, where `source` creates code from a string, which throws in the sandbox.
///
/// A name that is only passed on does not count: some packages reference `eval` and `Function` when they load but do
/// not need them.
#[must_use]
pub fn line_of_code_from_strings(source: &str) -> Option<usize> {
    let code = Code { source, tokens: tokens(source).into_iter().filter(|token| token.kind != Kind::Comment).collect() };
    let at = (0..code.tokens.len()).find(|at| code.makes_code(*at))?;
    Some(source[..code.tokens[at].start].matches('\n').count() + 1)
}

/// The form of a handler's second parameter.
enum Context<'s> {
    Named(&'s str),
    /// `{ kv, log }`: the members are variables.
    Taken(Vec<&'static str>),
}

struct Code<'s> {
    source: &'s str,
    /// All tokens except comments.
    tokens: Vec<Token>,
}

impl<'s> Code<'s> {
    /// Returns the second parameter of `export default (…`. If a named handler is exported, assumes
    /// `ctx`.
    fn context(&self) -> Context<'s> {
        let exported = (0..self.tokens.len()).find(|at| self.is(*at, "export") && self.is(at + 1, "default"));
        let open = exported.and_then(|at| (at + 2..at + 7).find(|at| self.is(*at, "(")));
        let second = open.and_then(|open| self.behind_comma(open));
        match second {
            Some(at) if self.is(at, "{") => {
                let inside = (at + 1..at + PARAMETER_TOKENS).take_while(|at| !self.is(*at, "}"));
                Context::Taken(inside.filter_map(|at| member(self.text(at)).map(|(name, _)| name)).collect())
            }
            Some(at) if self.kind(at) == Some(Kind::Word) => Context::Named(self.text(at)),
            _ => Context::Named("ctx"),
        }
    }

    /// Returns the token after the first comma between `open` and its closing bracket.
    fn behind_comma(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in open..(open + PARAMETER_TOKENS).min(self.tokens.len()) {
            match self.text(at) {
                "(" | "{" | "[" | "<" => depth += 1,
                ")" | "}" | "]" | ">" => depth = depth.checked_sub(1).filter(|depth| *depth > 0)?,
                "," if depth == 1 => return Some(at + 1),
                _ => {}
            }
        }
        None
    }

    /// Returns the use at the word `at`.
    fn reach(&self, at: usize, context: &Context<'_>) -> Option<(&'static str, Capability)> {
        if self.kind(at)? != Kind::Word {
            return None;
        }
        let text = self.text(at);
        let of_something = at >= 1 && self.is(at - 1, ".");
        if text == CONSOLE {
            return self.is_console(at).then_some((CONSOLE, Capability::Logs));
        }
        let (name, capability) = member(text)?;
        let used = match context {
            Context::Named(context) => {
                let dots = if at >= 1 && self.is(at - 1, ".") { 1 + usize::from(at >= 2 && self.is(at - 2, "?")) } else { 0 };
                let member = dots > 0 && at > dots && self.is(at - dots - 1, context) && !(at > dots + 1 && self.is(at - dots - 2, "."));
                member || self.is_taken_from(at, context)
            }
            Context::Taken(names) => !of_something && names.contains(&name) && (self.is(at + 1, ".") || self.is(at + 1, "(")),
        };
        used.then_some((name, capability))
    }

    /// Returns whether the word at `at` is a call of the global `eval` or `Function`.
    fn makes_code(&self, at: usize) -> bool {
        let before = |back: usize| at.checked_sub(back).map_or("", |at| self.text(at));
        if self.kind(at) != Some(Kind::Word) || before(1) == "function" || (before(1) == "." && !GLOBAL.contains(&before(2))) {
            return false;
        }
        match self.text(at) {
            "eval" => self.is(at + 1, "(") && !self.is_method(at + 1),
            // Packages find the global object and test for syntax like this, and go on without it.
            "Function" if self.is(at + 1, "(") && self.text(at + 2).starts_with(['\'', '"']) && self.is(at + 3, ")") => false,
            // `function-bind`, which many packages contain, makes code only where there is no `Function.prototype.bind`.
            "Function" if self.is(at + 1, "(") && matches!(self.text(at + 2), "'binder'" | "\"binder\"") => false,
            "Function" if self.is(at + 1, "(") => before(1) == "new" || !self.is_method(at + 1),
            "Function" => {
                before(1) == "new" || self.is(at + 1, ".") && matches!(self.text(at + 2), "apply" | "call" | "bind") && self.is(at + 3, "(")
            }
            _ => false,
        }
    }

    /// Returns whether the parentheses that open at `open` are a method's parameter list, which a body follows.
    fn is_method(&self, open: usize) -> bool {
        let mut depth = 0_usize;
        for at in open..(open + PARAMETER_TOKENS).min(self.tokens.len()) {
            match self.text(at) {
                "(" => depth += 1,
                ")" if depth == 1 => return self.is(at + 1, "{"),
                ")" => depth -= 1,
                _ => {}
            }
        }
        false
    }

    /// Returns whether the word at `at` uses the global `console`, and is not a member of something
    /// else, a property name, or only tested for existence.
    fn is_console(&self, at: usize) -> bool {
        let before = |back: usize| at.checked_sub(back).map_or("", |at| self.text(at));
        let dots = usize::from(before(1) == ".") + usize::from(before(1) == "." && before(2) == "?");
        if dots > 0 {
            return GLOBAL.contains(&before(dots + 1)) && before(dots + 2) != ".";
        }
        let is_key = self.is(at + 1, ":") && matches!(before(1), "{" | ",");
        !is_key && before(1) != "typeof"
    }

    /// Detects `{ …, name, … } = ctx`.
    fn is_taken_from(&self, at: usize, context: &str) -> bool {
        let begins = at >= 1 && (self.is(at - 1, "{") || self.is(at - 1, ","));
        let close = (at + 1..at + PARAMETER_TOKENS)
            .find(|at| !matches!(self.kind(*at), Some(Kind::Word)) && !self.is(*at, ",") && !self.is(*at, ":"));
        begins && close.is_some_and(|close| self.is(close, "}") && self.is(close + 1, "=") && self.is(close + 2, context))
    }

    fn kind(&self, at: usize) -> Option<Kind> {
        self.tokens.get(at).map(|token| token.kind)
    }

    fn text(&self, at: usize) -> &'s str {
        self.tokens.get(at).map_or("", |token| token.text(self.source))
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.text(at) == text
    }
}

/// Returns the member of `ctx` with this name, if it needs a capability.
fn member(text: &str) -> Option<(&'static str, Capability)> {
    let capability = Capability::ALL.iter().find(|capability| capability.row().member == text)?;
    Some((capability.row().member, *capability))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(&'static str, usize)> {
        reaches(source).into_iter().map(|reach| (reach.name, reach.line)).collect()
    }

    #[test]
    fn members_of_the_second_parameter_are_found_with_their_line() {
        for (source, requested) in [
            ("export default (req, ctx) => ctx.kv.get('a');", vec![("kv", 1)]),
            (
                "export default async function (req, ctx) {\n  ctx.log.info('a');\n  ctx.log('b'); await ctx?.files.list();\n}",
                vec![("log", 2), ("files", 3)],
            ),
            (
                "export default async function handler(request: Req<A, B>, c: Ctx) { return c.httpGetJson('https://a'); }",
                vec![("httpGetJson", 1)],
            ),
            ("export default async ({ input }, { kv, log }) => { log.info(1); };", vec![("log", 1)]),
            ("const main = async (req, ctx) => { const { kv } = ctx; };\nexport default main;", vec![("kv", 1)]),
            ("export default () => { console.log(1); console.error(2); };", vec![("console", 1)]),
            ("export default () => { const c = console; c.log(1); };", vec![("console", 1)]),
            ("export default () => {\n  console['log'](1);\n};", vec![("console", 2)]),
            ("export default () => { globalThis.console.error(1); };", vec![("console", 1)]),
            ("export default () => { self?.console?.error(1); };", vec![("console", 1)]),
            ("const { log } = console; export default () => log(1);", vec![("console", 1)]),
        ] {
            assert_eq!(found(source), requested, "{source}");
        }
    }

    #[test]
    fn what_only_looks_like_it_is_not_found() {
        for source in [
            "export default (req, ctx) => { Math.log(2); my.console.log(1); /* ctx.kv */ return 'ctx.kv.get'; };",
            "export default (req) => ({ kv: req.input.kv, log: Math.log(2), files: [] });",
            "export default (req, c) => { const ctx = { kv: { get() {} } }; return ctx.kv.get(); };",
            "export default (req, { env }) => env.A;",
            "export default (req) => ({ console: req.input.globalThis.console, known: typeof console });",
            "",
        ] {
            assert_eq!(found(source), [], "{source}");
        }
    }

    #[test]
    fn code_from_strings_is_found_where_it_is_made() {
        for (source, line) in [
            ("export default () => eval('1');", 1),
            ("\n\nconst f = new Function('a', 'return a');", 3),
            ("const f = Function('a', body);", 1),
            ("x;\nreturn Function.apply(this, params);", 2),
            ("globalThis.eval(text)", 1),
            ("new Function", 1),
        ] {
            assert_eq!(line_of_code_from_strings(source), Some(line), "{source}");
        }
        for source in [
            "var $Function = Function; const INTRINSICS = { '%eval%': eval, '%Function%': Function };",
            "const root = self || Function('return this')();",
            "x instanceof Function; Function.prototype.call.call(a); typeof eval;",
            "class A { eval(text) { return text; } } new A().eval('1'); // eval('1')",
            "const o = { Function() { return 'eval(1)'; } }; o.Function();",
            "function eval_(a) {} eval_(1);",
            "Function.prototype.apply.call(f, a)",
        ] {
            assert_eq!(line_of_code_from_strings(source), None, "{source}");
        }
    }

    #[test]
    fn time_is_linear_in_the_source() {
        let long = format!("export default (req, ctx) => [{}];", "{kv,".repeat(100_000));
        let started = std::time::Instant::now();
        assert_eq!(reaches(&long), []);
        assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
    }
}
