//! Inserts all mutants of a source at once, each behind its own switch: `crate::mutant::is(17)`.
//!
//! Without an active switch, the source behaves as before. Code that cannot use a switch is left
//! out: constants are computed before switches exist.

use std::{cmp::Reverse, collections::HashMap, ops::Range};

use syn::{
    BinOp, Block, Expr, ExprBinary, ExprConst, ExprMatch, ExprRepeat, ExprStruct, ExprUnary, ImplItemConst, ImplItemFn, ItemConst, ItemFn,
    ItemStatic, Signature, TraitItemConst, TraitItemFn, TypeArray, Variant,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::mutant::{Genre, Mutant};

/// The module with the switches, appended to the crate's root. `TOLLHOUSE_MUTANT` is the number of
/// the active one, or a file that collects the numbers of all that are evaluated.
pub(crate) const MODULE: &str = r#"
pub(crate) mod mutant {
    use std::{env, fs::{File, OpenOptions}, io::Write, sync::{LazyLock, atomic::{AtomicBool, Ordering}}};
    enum Switch { Off, On(usize), Recording(File, Vec<AtomicBool>) }
    static SWITCH: LazyLock<Switch> = LazyLock::new(|| {
        let Ok(text) = env::var("TOLLHOUSE_MUTANT") else { return Switch::Off };
        if let Ok(number) = text.parse() { return Switch::On(number) }
        let file = OpenOptions::new().create(true).append(true).open(text).expect("a file for the numbers");
        Switch::Recording(file, (0..10_000).map(|_| AtomicBool::new(false)).collect())
    });
    pub(crate) fn is(number: usize) -> bool {
        match &*SWITCH {
            Switch::Off => false,
            Switch::On(on) => *on == number,
            Switch::Recording(file, recorded) => {
                if !recorded[number].swap(true, Ordering::Relaxed) {
                    (&*file).write_all(format!("{number}\n").as_bytes()).expect("room for a number");
                }
                false
            }
        }
    }
}
"#;

/// A source with its mutants.
#[derive(Debug)]
pub(crate) struct Switched {
    pub(crate) text: String,
    /// The location of each mutant in `text`: its own part, and everything that must match it.
    pub(crate) parts: Vec<Part>,
    /// Mutants that cannot use a switch.
    pub(crate) alone: Vec<usize>,
    /// Mutants that are not valid Rust: `||` beside a `let`, and `<` after a cast.
    pub(crate) unviable: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) mutant: usize,
    pub(crate) own: Range<usize>,
    pub(crate) whole: Range<usize>,
}

/// Inserts the numbered mutants into `source`.
pub(crate) fn switched(source: &str, mutants: &[(usize, &Mutant)]) -> Result<Switched, syn::Error> {
    let mut found = Found::default();
    found.visit_file(&syn::parse_file(source)?);
    let mut sites: HashMap<(usize, usize, Shape), Vec<(usize, String)>> = HashMap::new();
    let (mut alone, mut unviable) = (Vec::new(), Vec::new());
    for &(number, mutant) in mutants {
        match found.site(source, mutant) {
            Some((range, shape, text)) => sites.entry((range.start, range.end, shape)).or_default().push((number, text)),
            None if found
                .operations
                .get(&mutant.range(source).start)
                .is_some_and(|operation| operation.is_no_rust_with(&mutant.replacement)) =>
            {
                unviable.push(number);
            }
            None => alone.push(number),
        }
        if let Some((_, _, whole)) = found.arms.get(&mutant.range(source).start) {
            sites.entry((whole.start, whole.end, Shape::Match)).or_default().push((number, String::new()));
        }
    }
    let mut sites: Vec<_> = sites.into_iter().map(|((start, end, shape), mutants)| Site { range: start..end, shape, mutants }).collect();
    sites.sort_by_key(|site| (site.range.start, Reverse(site.range.end), site.shape));
    let mut writer = Writer { source, text: String::new(), parts: Vec::new() };
    writer.write(0..source.len(), &sites);
    Ok(Switched { text: writer.text, parts: writer.parts, alone, unviable })
}

/// A part of the source that mutants change. If two have the same range, the one with the lesser
/// shape is outside.
#[derive(Debug)]
struct Site {
    range: Range<usize>,
    shape: Shape,
    /// With the replacement text.
    mutants: Vec<(usize, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Shape {
    /// Statements that are left early.
    Body,
    /// A `match`, which may lack some of its arms.
    Match,
    /// The end of a pattern, which gets a guard.
    Pattern,
    /// The guard of an arm, which is replaced.
    Guard,
    /// The guard of an arm with a `let`, which cannot be in parentheses.
    LetGuard,
    /// An expression, one of several.
    Expression,
}

/// Locations in a source, by the first byte of what a mutant replaces.
#[derive(Default)]
struct Found {
    /// Operators: the operation around them.
    operations: HashMap<usize, Operation>,
    /// Arms: the location for a guard, or the guard itself, and the `match` around them.
    arms: HashMap<usize, (Range<usize>, Shape, Range<usize>)>,
    guards: HashMap<usize, (Range<usize>, Shape)>,
    /// Fields: the struct around them, and the field up to the next one.
    fields: HashMap<usize, (Range<usize>, Range<usize>)>,
    /// Code that is evaluated at compile time.
    constants: Vec<Range<usize>>,
}

struct Operation {
    whole: Range<usize>,
    operator: Range<usize>,
    has_let: bool,
    /// Whether its left side ends with a type, so that `<` would begin type arguments.
    is_of_cast: bool,
}

impl Operation {
    fn is_no_rust_with(&self, operator: &str) -> bool {
        self.has_let || self.is_of_cast && matches!(operator, "<" | "<<")
    }
}

impl Found {
    /// Returns the part to switch, and its text while the mutant is active.
    fn site(&self, source: &str, mutant: &Mutant) -> Option<(Range<usize>, Shape, String)> {
        let range = mutant.range(source);
        if self.constants.iter().any(|constant| constant.start <= range.start && range.end <= constant.end) {
            return None;
        }
        let without = |whole: &Range<usize>, part: &Range<usize>, instead: &str| {
            format!("{}{instead}{}", &source[whole.start..part.start], &source[part.end..whole.end])
        };
        match mutant.genre {
            Genre::FnValue => Some((range, Shape::Body, mutant.replacement.clone())),
            Genre::BinaryOperator | Genre::UnaryOperator => {
                let operation = self.operations.get(&range.start)?;
                if operation.is_no_rust_with(&mutant.replacement) {
                    return None;
                }
                let Operation { whole, operator, .. } = operation;
                Some((whole.clone(), Shape::Expression, without(whole, operator, &mutant.replacement)))
            }
            Genre::MatchArm => {
                let (position, shape, _) = self.arms.get(&range.start)?;
                Some((position.clone(), *shape, String::new()))
            }
            Genre::MatchArmGuard => match self.guards.get(&range.start)? {
                (_, Shape::LetGuard) => None,
                (guard, _) => Some((guard.clone(), Shape::Expression, mutant.replacement.clone())),
            },
            Genre::StructField => {
                let (whole, field) = self.fields.get(&range.start)?;
                Some((whole.clone(), Shape::Expression, without(whole, field, "")))
            }
            Genre::Other => None,
        }
    }

    fn constant(&mut self, what: impl Spanned) {
        self.constants.push(what.span().byte_range());
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        if signature.constness.is_some() {
            self.constant(block);
        }
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        let operator = binary.op.span().byte_range();
        let has_let = matches!(binary.op, BinOp::And(_)) && (has_let(&binary.left) || has_let(&binary.right));
        let is_of_cast = matches!(*binary.left, Expr::Cast(_));
        self.operations.insert(operator.start, Operation { whole: binary.span().byte_range(), operator, has_let, is_of_cast });
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        let operator = unary.op.span().byte_range();
        let whole = unary.span().byte_range();
        self.operations.insert(operator.start, Operation { whole, operator, has_let: false, is_of_cast: false });
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, whole: &'ast ExprMatch) {
        for arm in &whole.arms {
            let pattern = arm.pat.span().byte_range();
            let (position, shape) = match &arm.guard {
                Some((_, guard)) => (guard.span().byte_range(), if has_let(guard) { Shape::LetGuard } else { Shape::Guard }),
                None => (pattern.end..pattern.end, Shape::Pattern),
            };
            if arm.guard.is_some() {
                self.guards.insert(position.start, (position.clone(), shape));
            }
            self.arms.insert(arm.span().byte_range().start, (position, shape, whole.span().byte_range()));
        }
        visit::visit_expr_match(self, whole);
    }

    fn visit_expr_struct(&mut self, whole: &'ast ExprStruct) {
        let range = whole.span().byte_range();
        for pair in whole.fields.pairs() {
            let field = pair.value().span().byte_range();
            let end = pair.punct().map_or(field.end, |comma| comma.span().byte_range().end);
            self.fields.insert(field.start, (range.clone(), field.start..end));
        }
        visit::visit_expr_struct(self, whole);
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        self.constant(item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast ImplItemConst) {
        self.constant(item);
    }

    fn visit_trait_item_const(&mut self, item: &'ast TraitItemConst) {
        self.constant(item);
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        self.constant(item);
    }

    fn visit_expr_const(&mut self, block: &'ast ExprConst) {
        self.constant(block);
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast ExprRepeat) {
        self.constant(&repeat.len);
        visit::visit_expr_repeat(self, repeat);
    }

    fn visit_type_array(&mut self, array: &'ast TypeArray) {
        self.constant(&array.len);
    }

    fn visit_variant(&mut self, variant: &'ast Variant) {
        self.constant(variant);
    }
}

/// Returns whether a condition contains `let`. Such a condition cannot be in parentheses or in an
/// `if` of its own.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary { left, op: BinOp::And(_), right, .. }) => has_let(left) || has_let(right),
        _ => false,
    }
}

struct Writer<'a> {
    source: &'a str,
    text: String,
    parts: Vec<Part>,
}

impl Writer<'_> {
    /// Writes a range of the source with its sites, which are in order, outer before inner.
    fn write(&mut self, range: Range<usize>, mut sites: &[Site]) {
        let mut at = range.start;
        while let [site, after @ ..] = sites {
            let inside = after.iter().take_while(|other| other.range.start < site.range.end && other.range.end <= site.range.end).count();
            self.text += &self.source[at..site.range.start];
            self.switch(site, &after[..inside]);
            (at, sites) = (site.range.end, &after[inside..]);
        }
        self.text += &self.source[at..range.end];
    }

    fn switch(&mut self, site: &Site, inner: &[Site]) {
        let (start, first) = (self.text.len(), self.parts.len());
        let inside = |writer: &mut Self| writer.write(site.range.clone(), inner);
        match site.shape {
            Shape::Body => {
                for (number, text) in &site.mutants {
                    self.part(*number, &format!("if crate::mutant::is({number}) {{ return {text}; }} "));
                }
                inside(self);
            }
            Shape::Match => inside(self),
            Shape::Pattern => self.conditions(" if ", site, " && ", ""),
            Shape::Guard => {
                self.conditions("", site, " && ", " && (");
                inside(self);
                self.text += ")";
            }
            Shape::LetGuard => {
                self.conditions("", site, " && ", " && ");
                inside(self);
            }
            Shape::Expression => {
                self.text += "(";
                for (number, text) in &site.mutants {
                    self.part(*number, &format!("if crate::mutant::is({number}) {{ {text} }}"));
                    self.text += " else ";
                }
                self.text += "{ ";
                inside(self);
                self.text += " })";
            }
        }
        let end = self.text.len();
        for part in &mut self.parts[first..] {
            if site.mutants.iter().any(|(number, _)| *number == part.mutant) {
                part.whole = start..end;
            }
        }
    }

    fn conditions(&mut self, before: &str, site: &Site, between: &str, after: &str) {
        for (at, (number, _)) in site.mutants.iter().enumerate() {
            self.text += if at == 0 { before } else { between };
            self.part(*number, &format!("!crate::mutant::is({number})"));
        }
        self.text += after;
    }

    fn part(&mut self, mutant: usize, text: &str) {
        let start = self.text.len();
        self.text += text;
        self.parts.push(Part { mutant, own: start..self.text.len(), whole: start..self.text.len() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutant::tests::mutant;

    /// Returns `function` with a mutant for each change, in the given order.
    fn written(function: &str, changes: &[(Genre, &str, &str)]) -> String {
        let mutants: Vec<_> = changes.iter().map(|(genre, what, instead)| mutant(function, *genre, what, instead)).collect();
        let numbered: Vec<_> = mutants.iter().enumerate().collect();
        let switched = switched(function, &numbered).expect("a source");
        assert!(switched.alone.is_empty(), "{:?}", switched.alone);
        for Part { mutant, own, whole } in &switched.parts {
            assert!(switched.text[own.clone()].contains(&format!("is({mutant})")) && whole.start <= own.start && own.end <= whole.end);
        }
        syn::parse_file(&switched.text).expect("still a source");
        switched.text.replace("crate::mutant::", "")
    }

    /// Returns whether the only mutant cannot use a switch.
    fn is_alone(source: &str, genre: Genre, what: &str, instead: &str) -> bool {
        switched(source, &[(0, &mutant(source, genre, what, instead))]).expect("a source").alone == [0]
    }

    #[test]
    fn function_is_left_early() {
        assert_eq!(
            written("fn f() -> u8 { g(); 7 }", &[(Genre::FnValue, "g(); 7", "0"), (Genre::FnValue, "g(); 7", "1")]),
            "fn f() -> u8 { if is(0) { return 0; } if is(1) { return 1; } g(); 7 }"
        );
    }

    #[test]
    fn operators_of_one_expression_form_one_chain() {
        assert_eq!(
            written("fn f() { a - b }", &[(Genre::BinaryOperator, "-", "+"), (Genre::BinaryOperator, "-", "/")]),
            "fn f() { (if is(0) { a + b } else if is(1) { a / b } else { a - b }) }"
        );
        assert_eq!(
            written("fn f() { a += b; }", &[(Genre::BinaryOperator, "+=", "-=")]),
            "fn f() { (if is(0) { a -= b } else { a += b }); }"
        );
        assert_eq!(written("fn f() { !a }", &[(Genre::UnaryOperator, "!", "")]), "fn f() { (if is(0) { a } else { !a }) }");
    }

    #[test]
    fn inner_mutants_apply_only_without_their_outer_ones() {
        assert_eq!(
            written(
                "fn f() { a == b && !c }",
                &[(Genre::FnValue, "a == b && !c", "true"), (Genre::BinaryOperator, "&&", "||"), (Genre::BinaryOperator, "==", "!=")]
            ),
            "fn f() { if is(0) { return true; } (if is(1) { a == b || !c } else { (if is(2) { a != b } else { a == b }) && !c }) }"
        );
    }

    #[test]
    fn deleted_arm_gets_a_condition() {
        assert_eq!(
            written("fn f() { match a { 1 => 2, _ => 3 } }", &[(Genre::MatchArm, "1 => 2", "")]),
            "fn f() { match a { 1 if !is(0) => 2, _ => 3 } }"
        );
        assert_eq!(
            written(
                "fn f() { match a { 1 if b => 2, _ => 3 } }",
                &[(Genre::MatchArm, "1 if b => 2", ""), (Genre::MatchArmGuard, "b", "true")]
            ),
            "fn f() { match a { 1 if !is(0) && ((if is(1) { true } else { b })) => 2, _ => 3 } }"
        );
    }

    #[test]
    fn deleted_fields_come_from_the_base() {
        assert_eq!(
            written("fn f() { S { a: 1, b, ..c } }", &[(Genre::StructField, "a: 1", ""), (Genre::StructField, "b", "")]),
            "fn f() { (if is(0) { S {  b, ..c } } else if is(1) { S { a: 1,  ..c } } else { S { a: 1, b, ..c } }) }"
        );
    }

    #[test]
    fn mutants_in_constants_are_built_alone() {
        assert!(is_alone("const A: u8 = 1 + 2;", Genre::BinaryOperator, "+", "-"));
        assert!(is_alone("impl S { const fn f() -> u8 { 1 + 2 } }", Genre::BinaryOperator, "+", "-"));
        assert!(is_alone("fn f() -> [u8; 1 + 2] { g() }", Genre::BinaryOperator, "+", "-"));
        assert!(is_alone("fn f() { m!(a + b) }", Genre::BinaryOperator, "+", "-"));
    }

    #[test]
    fn less_than_after_a_cast_is_unviable() {
        let source = "fn f() { a as u64 > b }";
        let unviable =
            |operator| switched(source, &[(0, &mutant(source, Genre::BinaryOperator, ">", operator))]).expect("a source").unviable;
        assert_eq!((unviable("<"), unviable("<<"), unviable("<=")), (vec![0], vec![0], vec![]));
    }

    #[test]
    fn or_with_a_let_condition_is_unviable() {
        let source = "fn f() { if let A = b && c { d() } }";
        assert_eq!(switched(source, &[(0, &mutant(source, Genre::BinaryOperator, "&&", "||"))]).expect("a source").unviable, [0]);
    }
}
