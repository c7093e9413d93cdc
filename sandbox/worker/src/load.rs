//! Turns a bundle into a handler: compiles it as one module without imports, and evaluates it once.

use deno_core::v8::{self, Global, Local, PinScope, script_compiler};
use tollhouse_protocol::LoadError;
#[cfg(feature = "v8")]
use tollhouse_protocol::limits::COMPILED_BYTES;

use crate::{advice::advised, driver::Driver, nesting, stack::position, typescript};

/// The ways in which a source can define its handler, in the order in which they are tried. Each puts
/// text before the source on its first line and after its last, so that line numbers stay. Columns
/// are corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A module with a default export.
    Module,
    /// A single function expression, which becomes the export.
    Expression,
    /// `module.exports = …`.
    CommonJs,
}

impl Form {
    const fn wrapping(self) -> (&'static str, &'static str) {
        match self {
            Self::Module => ("", ""),
            Self::Expression => ("export default (", "\n);"),
            Self::CommonJs => ("const module = { exports: {} }; let { exports } = module; ", "\nexport default module.exports;"),
        }
    }
}

/// Number of columns by which [`Form::Expression`] shifts the first line.
const EXPRESSION_SHIFT: u32 = 16;

/// Error message for a module that loads but exports no handler.
const NO_HANDLER: &str = "the module has no default export that is a function: write `export default async function (req, ctx) { ... }`";

/// Compiles `source` and starts its evaluation, see [`evaluate`].
pub(crate) fn start(scope: &mut PinScope<'_, '_>, driver: &Driver, specifier: &str, source: &str, now_ms: f64) -> Result<(), LoadError> {
    let module = compile_handler(scope, driver, specifier, source, None)?;
    evaluate(scope, driver, &module, now_ms);
    Ok(())
}

/// Compiles `source`, without running any of it. `code`: what [`code_of`] returned for the same source.
pub(crate) fn compile_handler(
    scope: &mut PinScope<'_, '_>,
    driver: &Driver,
    specifier: &str,
    source: &str,
    code: Option<&[u8]>,
) -> Result<Global<v8::Module>, LoadError> {
    if is_bare_function(source) {
        return compile(scope, driver, specifier, source, Form::Expression, code);
    }
    let module = compile(scope, driver, specifier, source, Form::Module, code)?;
    if exports_default(scope, &module) {
        return Ok(module);
    }
    let form = if source.contains("module.exports") { Form::CommonJs } else { Form::Expression };
    compile(scope, driver, specifier, source, form, code).map_err(|_| load_error(NO_HANDLER))
}

/// Returns the compiled code of a module that has not run. Empty if the engine has none, or too much to keep.
#[cfg(feature = "v8")]
pub(crate) fn code_of(scope: &mut PinScope<'_, '_>, module: &Global<v8::Module>) -> Vec<u8> {
    let module = Local::new(scope, module);
    let code = module.get_unbound_module_script(scope).create_code_cache();
    code.filter(|code| code.len() <= COMPILED_BYTES).map(|code| code.to_vec()).unwrap_or_default()
}

/// QuickJS has none.
#[cfg(not(feature = "v8"))]
pub(crate) fn code_of(_scope: &mut PinScope<'_, '_>, _module: &Global<v8::Module>) -> Vec<u8> {
    Vec::new()
}

/// Starts the evaluation of a module. `op_loaded` or `op_unloadable` reports the result.
pub(crate) fn evaluate(scope: &mut PinScope<'_, '_>, driver: &Driver, module: &Global<v8::Module>, now_ms: f64) {
    let module = Local::new(scope, module);
    v8::tc_scope!(scope, scope);
    // There is no result if the isolate is being terminated. The budget has the reason.
    let Some(evaluated) = module.evaluate(scope) else { return };
    let namespace = module.get_module_namespace();
    let load = Local::new(scope, &driver.load);
    let undefined = v8::undefined(scope).into();
    let now = v8::Number::new(scope, now_ms).into();
    load.call(scope, undefined, &[now, evaluated, namespace]);
}

/// Converts `source` to JavaScript, with lines and columns preserved unless it contains
/// TypeScript-only code.
pub(crate) fn to_javascript(source: &str) -> Result<String, LoadError> {
    if !is_bare_function(source) {
        return typescript::strip(source).map_err(|error| advised(error, source));
    }
    let (before, after) = Form::Expression.wrapping();
    let body = source.trim_end().trim_end_matches(';');
    let stripped = typescript::strip(&format!("{before}{body}{after}")).map_err(|error| LoadError {
        column: match error.line {
            Some(1) => error.column.map(|column| column.saturating_sub(EXPRESSION_SHIFT).max(1)),
            _ => error.column,
        },
        ..error
    })?;
    // If the source was regenerated, it is a module with an export instead of an expression.
    Ok(stripped.strip_prefix(before).and_then(|text| text.strip_suffix(after)).unwrap_or(&stripped).to_owned())
}

/// Improves the error of a source that was sent as JavaScript but is valid TypeScript.
pub(crate) fn suggest_typescript(error: LoadError, source: &str) -> LoadError {
    if !to_javascript(source).is_ok_and(|stripped| stripped != source) {
        return error;
    }
    LoadError { message: format!("{}: this looks like TypeScript, so send `language: \"ts\"` with it", error.message), ..error }
}

fn compile(
    scope: &mut PinScope<'_, '_>,
    driver: &Driver,
    specifier: &str,
    source: &str,
    form: Form,
    code: Option<&[u8]>,
) -> Result<Global<v8::Module>, LoadError> {
    v8::tc_scope!(scope, scope);
    let (before, after) = form.wrapping();
    let body = if form == Form::Expression { source.trim_end().trim_end_matches(';') } else { source };
    let shift = u32::try_from(before.len()).unwrap_or(0);
    let mut text = format!("{before}{body}{after}");
    // The engine compares only the lengths of a text and of the one that compiled code was made of. Without this
    // space, an expression could be as long as the module that is tried first, which would then get its code.
    if form == Form::Expression && text.encode_utf16().count() == source.encode_utf16().count() {
        text.push(' ');
    }
    let text = v8::String::new(scope, &text).ok_or_else(|| load_error("the source is too long"))?;
    let name = v8::String::new(scope, specifier).ok_or_else(|| load_error("the name is too long"))?;
    let origin = v8::ScriptOrigin::new(scope, name.into(), 0, -shift.cast_signed(), false, -1, None, false, false, true, None);
    // The engine parses the text after all if the code is of another text, engine or tier.
    #[cfg(feature = "v8")]
    let compiled = match code {
        Some(code) => {
            let code = script_compiler::CachedData::new(code);
            let mut unit = script_compiler::Source::new_with_cached_data(text, Some(&origin), code);
            let options = script_compiler::CompileOptions::ConsumeCodeCache;
            script_compiler::compile_module2(scope, &mut unit, options, script_compiler::NoCacheReason::NoReason)
        }
        None => script_compiler::compile_module(scope, &mut script_compiler::Source::new(text, Some(&origin))),
    };
    #[cfg(not(feature = "v8"))]
    let compiled = {
        let _ = code;
        script_compiler::compile_module(scope, &mut script_compiler::Source::new(text, Some(&origin)))
    };
    let Some(module) = compiled else {
        return Err(advised(with_line(syntax_error(scope, driver, shift), source), source));
    };
    let requests = module.get_module_requests();
    if requests.length() > 0 {
        let mut error = load_error("imports are not available: a tool is a single module, so bundle its packages into it");
        if let Some(request) = requests.get(scope, 0).and_then(|request| Local::<v8::ModuleRequest>::try_from(request).ok()) {
            let position = module.source_offset_to_location(request.get_source_offset());
            (error.line, error.column) =
                (u32::try_from(position.get_line_number() + 1).ok(), u32::try_from(position.get_column_number() + 1).ok());
        }
        return Err(error);
    }
    if module.instantiate_module(scope, refuse_import) != Some(true) {
        return Err(advised(with_line(syntax_error(scope, driver, shift), source), source));
    }
    Ok(Global::new(scope, module))
}

/// Adds a line to an error that has none, because the engine's stack overflowed: the line at which
/// the source is nested too deep, or at which its longest statement begins.
fn with_line(error: LoadError, source: &str) -> LoadError {
    match (error.line, nesting::check(source)) {
        (Some(_), _) => error,
        (None, Ok(line)) => LoadError { line: Some(line), ..error },
        (None, Err(too_deep)) => too_deep,
    }
}

/// Returns the engine's error for a source that it rejects.
fn syntax_error(scope: &mut v8::PinnedRef<'_, v8::TryCatch<'_, '_, v8::HandleScope<'_>>>, driver: &Driver, shift: u32) -> LoadError {
    let location = scope.message().map(|message| (message.get_line_number(scope), message.get_start_column()));
    let (line, column) = match location {
        Some((Some(line @ 1..), column)) => (u32::try_from(line).ok(), u32::try_from(column + 1).ok()),
        _ => (None, None),
    };
    let error = scope.exception();
    scope.reset();
    let text = error.and_then(|error| {
        let explain = Local::new(scope, &driver.explain);
        let undefined = v8::undefined(scope).into();
        explain.call(scope, undefined, &[error]).filter(|text| text.is_string()).map(|text| text.to_rust_string_lossy(scope))
    });
    let text = text.unwrap_or_else(|| "the source does not compile".into());
    // QuickJS reports the location only in the stack, and does not correct the column.
    let (message, stack) = text.split_once('\n').unwrap_or((&text, ""));
    let (line, column) = match line {
        Some(_) => (line, column),
        None => {
            let (line, column) = position(stack);
            (line, column.map(|column| if line == Some(1) { column.saturating_sub(shift).max(1) } else { column }))
        }
    };
    LoadError { message: message.into(), line, column }
}

fn exports_default(scope: &mut PinScope<'_, '_>, module: &Global<v8::Module>) -> bool {
    let module = Local::new(scope, module);
    let Ok(namespace) = Local::<v8::Object>::try_from(module.get_module_namespace()) else { return false };
    let Some(name) = v8::String::new(scope, "default") else { return false };
    namespace.has(scope, name.into()) == Some(true)
}

/// Returns whether the source is a single anonymous function instead of a module.
fn is_bare_function(source: &str) -> bool {
    let mut rest = source.trim_start_matches('\u{feff}').trim_start();
    loop {
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, rest)| rest).trim_start();
        } else {
            break;
        }
    }
    let rest = rest.strip_prefix("async").map_or(rest, str::trim_start);
    rest.strip_prefix("function").is_some_and(|rest| rest.trim_start().trim_start_matches('*').trim_start().starts_with('('))
}

fn load_error(message: &str) -> LoadError {
    LoadError { message: message.into(), line: None, column: None }
}

fn refuse_import<'s>(
    _context: Local<'s, v8::Context>,
    _specifier: Local<'s, v8::String>,
    _attributes: Local<'s, v8::FixedArray>,
    _referrer: Local<'s, v8::Module>,
) -> Option<Local<'s, v8::Module>> {
    None
}
