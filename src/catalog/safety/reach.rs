//! Finds the members of `ctx` and the globals with a capability that a source uses, with the line of the first use.
//!
//! This is advice for publishers and no access control: each op of a call is checked when it
//! happens. A `ctx` under other names, or passed to a function, is not followed.
//!
//! Also finds what works in a Worker of Cloudflare, but not here: bindings, and a third parameter.

use tollhouse_base::lexer::Kind;
use tollhouse_tool::Capability;

use super::code::Code;

/// Maximum tokens of a handler's parameters.
const PARAMETER_TOKENS: usize = 256;

/// A use of a member of `ctx`, of `console`, of `fetch`, or of `WebAssembly`.
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

/// The global that sends requests.
const FETCH: &str = "fetch";

/// The global that compiles WebAssembly.
const WASM: &str = "WebAssembly";

/// Names of the global object.
const GLOBAL: [&str; 2] = ["globalThis", "self"];

/// Returns the uses in `source`, in order of their first occurrence.
pub fn reaches(source: &str) -> Vec<ContextMember> {
    let code = Code::new(source);
    let context = code.context();
    let has_own_fetch = (0..code.tokens.len()).any(|at| code.declares_fetch(at));
    let mut found: Vec<ContextMember> = Vec::new();
    for at in 0..code.tokens.len() {
        let Some((name, capability)) = code.reach(at, &context).filter(|(name, _)| *name != FETCH || !has_own_fetch) else { continue };
        if found.iter().all(|reach| reach.name != name) {
            let line = code.line(at);
            found.push(ContextMember { name, capability, line });
        }
    }
    found
}

/// Returns the first line, from 1, where `source` creates code from a string, which throws in the sandbox.
///
/// A name that is only passed on does not count: some packages reference `eval` and `Function` when they load but do
/// not need them.
pub fn line_of_code_from_strings(source: &str) -> Option<usize> {
    let code = Code::new(source);
    let at = (0..code.tokens.len()).find(|at| code.makes_code(*at))?;
    Some(code.line(at))
}

/// A habit from Cloudflare Workers that fails here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkersHabit {
    /// `(req, env, ctx)`: no call sets the third parameter.
    ThirdParameter,
    /// `env.COUNTS`, where `env` is the second parameter. No member of `ctx` has such a name.
    Binding,
}

/// Returns the habits in `source`, each with the line of its first occurrence, from 1.
pub fn workers_habits(source: &str) -> Vec<(WorkersHabit, usize)> {
    let code = Code::new(source);
    let found = [(WorkersHabit::ThirdParameter, code.third_parameter()), (WorkersHabit::Binding, code.binding())];
    found.into_iter().filter_map(|(habit, at)| Some((habit, code.line(at?)))).collect()
}

/// The form of a handler's second parameter.
enum Context<'s> {
    Named(&'s str),
    /// `{ kv, log }`: the members are variables.
    Taken(Vec<&'static str>),
}

impl<'s> Code<'s> {
    /// Returns the second parameter of `export default (…`. If a named handler is exported, assumes
    /// `ctx`.
    fn context(&self) -> Context<'s> {
        let second = self.export().and_then(|(_, open)| self.behind_comma(open));
        match second {
            Some(at) if self.is(at, "{") => {
                let inside = (at + 1..at + PARAMETER_TOKENS).take_while(|at| !self.is(*at, "}"));
                Context::Taken(inside.filter_map(|at| member(self.text(at)).map(|(name, _)| name)).collect())
            }
            Some(at) if self.kind(at) == Some(Kind::Word) => Context::Named(self.text(at)),
            _ => Context::Named("ctx"),
        }
    }

    /// Returns the token after `export default`, and the first bracket near it.
    fn export(&self) -> Option<(usize, usize)> {
        let exported = (0..self.tokens.len()).find(|at| self.is(*at, "export") && self.is(at + 1, "default"))?;
        let begins = exported + 2;
        Some((begins, (begins..begins + 5).find(|at| self.is(*at, "("))?))
    }

    /// Returns the third parameter of an exported function. Arguments of a call, as in `export default wrap(a, b, c)`,
    /// are not parameters.
    fn third_parameter(&self) -> Option<usize> {
        let third = self.behind_commas(self.parameters()?, 2)?;
        (!self.is(third, ")")).then_some(third)
    }

    /// Returns the bracket before the parameters of an exported function.
    fn parameters(&self) -> Option<usize> {
        let (begins, open) = self.export()?;
        let begins = if self.is(begins, "async") { begins + 1 } else { begins };
        (open == begins || self.is(begins, "function")).then_some(open)
    }

    /// Returns the first use of a member of `env` in capitals, if the second parameter has this name.
    fn binding(&self) -> Option<usize> {
        self.behind_comma(self.parameters()?).filter(|second| self.is(*second, "env"))?;
        (0..self.tokens.len()).find(|at| {
            let (dots, name) = (self.dots_before(*at), self.text(*at));
            let in_capitals = name.len() > 1 && name.chars().all(|char| matches!(char, 'A'..='Z' | '0'..='9' | '_'));
            in_capitals && dots > 0 && self.before(*at, dots + 1) == "env" && self.before(*at, dots + 2) != "."
        })
    }

    /// Returns the token after the first comma between `open` and its closing bracket.
    fn behind_comma(&self, open: usize) -> Option<usize> {
        self.behind_commas(open, 1)
    }

    /// Returns the token after this many commas between `open` and its closing bracket.
    fn behind_commas(&self, open: usize, mut count: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in open..(open + PARAMETER_TOKENS).min(self.tokens.len()) {
            match self.text(at) {
                "(" | "{" | "[" | "<" => depth += 1,
                ")" | "}" | "]" | ">" => depth = depth.checked_sub(1).filter(|depth| *depth > 0)?,
                "," if depth == 1 => {
                    count -= 1;
                    if count == 0 {
                        return Some(at + 1);
                    }
                }
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
        let of_something = self.before(at, 1) == ".";
        if text == CONSOLE {
            return self.is_console(at).then_some((CONSOLE, Capability::Logs));
        }
        if text == FETCH {
            return self.calls_fetch(at).then_some((FETCH, Capability::Fetch));
        }
        if text == WASM {
            let is_global = self.dots_before(at) == 0 || GLOBAL.contains(&self.before(at, self.dots_before(at) + 1));
            return (is_global && self.is(at + 1, ".")).then_some((WASM, Capability::Wasm));
        }
        let (name, capability) = member(text)?;
        let used = match context {
            Context::Named(context) => {
                let dots = self.dots_before(at);
                let member = dots > 0 && self.before(at, dots + 1) == *context && self.before(at, dots + 2) != ".";
                member || self.is_taken_from(at, context)
            }
            Context::Taken(names) => !of_something && names.contains(&name) && (self.is(at + 1, ".") || self.is(at + 1, "(")),
        };
        used.then_some((name, capability))
    }

    /// Returns whether the word at `at` is a call of the global `eval` or `Function`.
    fn makes_code(&self, at: usize) -> bool {
        let before = |back| self.before(at, back);
        if self.kind(at) != Some(Kind::Word) || before(1) == "function" || (before(1) == "." && !GLOBAL.contains(&before(2))) {
            return false;
        }
        match self.text(at) {
            "eval" => self.is(at + 1, "(") && !self.is_body_after(at + 1),
            // Packages find the global object and test for syntax like this, and go on without it.
            "Function" if self.is(at + 1, "(") && self.text(at + 2).starts_with(['\'', '"']) && self.is(at + 3, ")") => false,
            // `function-bind`, which many packages contain, makes code only where there is no `Function.prototype.bind`.
            "Function" if self.is(at + 1, "(") && matches!(self.text(at + 2), "'binder'" | "\"binder\"") => false,
            "Function" if self.is(at + 1, "(") => before(1) == "new" || !self.is_body_after(at + 1),
            "Function" => {
                before(1) == "new" || self.is(at + 1, ".") && matches!(self.text(at + 2), "apply" | "call" | "bind") && self.is(at + 3, "(")
            }
            _ => false,
        }
    }

    /// Returns whether the word at `at` uses the global `console`, and is not a member of something
    /// else, a property name, or only tested for existence.
    fn is_console(&self, at: usize) -> bool {
        let before = |back| self.before(at, back);
        let dots = self.dots_before(at);
        if dots > 0 {
            return GLOBAL.contains(&before(dots + 1)) && before(dots + 2) != ".";
        }
        let is_key = self.is(at + 1, ":") && matches!(before(1), "{" | ",");
        !is_key && before(1) != "typeof"
    }

    /// Returns whether the word at `at` calls the global `fetch`, and does not define a method of that name.
    fn calls_fetch(&self, at: usize) -> bool {
        let dots = self.dots_before(at);
        if dots > 0 && !(GLOBAL.contains(&self.before(at, dots + 1)) && self.before(at, dots + 2) != ".") {
            return false;
        }
        self.is(at + 1, "(") && !matches!(self.before(at, 1), "{" | "," | "async" | "function" | "*" | "new" | "get" | "set")
    }

    /// Returns whether the source gives the name `fetch` to something of its own at `at`.
    fn declares_fetch(&self, at: usize) -> bool {
        self.is(at, FETCH) && matches!(self.before(at, 1), "function" | "const" | "let" | "var" | "class" | "import")
    }

    /// Returns the number of tokens of the `.` or `?.` before the word at `at`.
    fn dots_before(&self, at: usize) -> usize {
        match (self.before(at, 1), self.before(at, 2)) {
            (".", "?") => 2,
            (".", _) => 1,
            _ => 0,
        }
    }

    /// Detects `{ …, name, … } = ctx`.
    fn is_taken_from(&self, at: usize, context: &str) -> bool {
        let begins = matches!(self.before(at, 1), "{" | ",");
        let close = (at + 1..at + PARAMETER_TOKENS)
            .find(|at| !matches!(self.kind(*at), Some(Kind::Word)) && !self.is(*at, ",") && !self.is(*at, ":"));
        begins && close.is_some_and(|close| self.is(close, "}") && self.is(close + 1, "=") && self.is(close + 2, context))
    }
}

/// Returns the member of `ctx` with this name, if it needs a capability.
fn member(text: &str) -> Option<(&'static str, Capability)> {
    Capability::ALL.iter().find_map(|capability| {
        let name = capability.row().member.strip_prefix("ctx.").filter(|name| *name == text)?;
        Some((name, *capability))
    })
}

#[cfg(test)]
mod tests;
