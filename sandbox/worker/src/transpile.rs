//! Regenerates TypeScript as JavaScript: enums, namespaces, parameter properties, decorators (the
//! proposal of 2023-11) and `accessor` fields. Lines move.

use swc_common::{Mark, SourceMap, comments::SingleThreadedComments, errors::Handler, sync::Lrc};
use swc_ecma_ast::{AutoAccessor, Decorator, EsVersion, Program};
use swc_ecma_codegen::{Config, Emitter, text_writer::JsWriter};
use swc_ecma_parser::{Parser, StringInput, Syntax, TsSyntax, lexer::Lexer};
use swc_ecma_transforms_base::{
    fixer::fixer,
    helpers::{HELPERS, Helpers, inject_helpers},
    hygiene::hygiene,
    resolver,
};
use swc_ecma_transforms_proposal::decorator_2023_11::decorator_2023_11;
use swc_ecma_transforms_typescript::typescript::{self, typescript as strip_types};
use swc_ecma_visit::{Visit, VisitWith as _};

/// Returns whether a source can have a decorator or an `accessor` field. Parsing decides.
pub(crate) fn may_decorate(source: &str) -> bool {
    source.contains('@') || source.contains("accessor")
}

/// Returns the source, a module, as JavaScript. `None` if it does not parse, or if `only_decorated`
/// is set and it has neither a decorator nor an `accessor` field.
///
/// Must run with `GLOBALS` set.
pub(crate) fn transpile(map: &Lrc<SourceMap>, handler: &Handler, source: &str, only_decorated: bool) -> Option<String> {
    let file = map.new_source_file(swc_common::FileName::Anon.into(), source.to_owned());
    let comments = SingleThreadedComments::default();
    let syntax = Syntax::Typescript(TsSyntax { decorators: true, ..TsSyntax::default() });
    let lexer = Lexer::new(syntax, EsVersion::latest(), StringInput::from(&*file), Some(&comments));
    let mut parser = Parser::new_from(lexer);
    let mut program = match parser.parse_module() {
        Ok(module) => Program::Module(module),
        Err(error) => {
            error.into_diagnostic(handler).emit();
            return None;
        }
    };
    let mut decorated = Decorated(false);
    program.visit_with(&mut decorated);
    if only_decorated && !decorated.0 {
        return None;
    }
    let (unresolved, top_level) = (Mark::new(), Mark::new());
    HELPERS.set(&Helpers::new(false), || {
        program.mutate(&mut resolver(unresolved, top_level, true));
        // Decorators come before types, which they can refer to.
        if decorated.0 {
            program.mutate(&mut decorator_2023_11());
        }
        program.mutate(&mut strip_types(typescript::Config::default(), unresolved, top_level));
        program.mutate(&mut inject_helpers(unresolved));
        program.mutate(&mut hygiene());
        program.mutate(&mut fixer(Some(&comments)));
    });
    let mut text = Vec::with_capacity(source.len());
    let writer = JsWriter::new(map.clone(), "\n", &mut text, None);
    let mut emitter = Emitter { cfg: Config::default(), comments: None, cm: map.clone(), wr: writer };
    emitter.emit_program(&program).ok()?;
    String::from_utf8(text).ok()
}

/// Finds decorators and `accessor` fields.
struct Decorated(bool);

impl Visit for Decorated {
    fn visit_decorator(&mut self, _: &Decorator) {
        self.0 = true;
    }

    fn visit_auto_accessor(&mut self, _: &AutoAccessor) {
        self.0 = true;
    }
}
