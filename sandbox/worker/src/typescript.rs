//! Converts TypeScript to JavaScript: types become spaces, so that lines and columns stay. If the
//! code has features that are not types (`enum`, `namespace` with values, parameter properties,
//! decorators), all of it is [regenerated](crate::transpile), as bundlers do, and lines move.

use std::{mem, sync::Arc};

use swc_common::{
    FilePathMapping, GLOBALS, Globals, SourceMap,
    errors::{DiagnosticBuilder, Emitter, Handler},
    sync::Lrc,
};
use swc_ts_fast_strip::{ErrorCode, Mode, Options, operate};
use tollhouse_protocol::{LoadError, LoadFault, ToHost};

use crate::{
    crash_handler, nesting,
    transpile::{may_decorate, transpile},
};

/// Removes the types from `source`, a module.
///
/// # Errors
///
/// Syntax errors. A source that is nested too deep for the parser ends the process, with an error
/// about it.
pub(crate) fn strip(source: &str) -> Result<String, LoadError> {
    let map = Lrc::new(SourceMap::new(FilePathMapping::empty()));
    let first = FirstDiagnostic::default();
    let handler = Handler::with_emitter(false, false, Box::new(first.clone()));
    let too_deep = LoadError { message: "the source is nested too deep".into(), line: Some(nesting::check(source)?), column: None };
    let transpiled = |only_decorated: bool| GLOBALS.set(&Globals::new(), || transpile(&map, &handler, source, only_decorated));
    let read = || match operate(&map, &handler, source.to_owned(), options()) {
        // No engine has decorators or `accessor` fields, which are not types.
        Ok(output) if may_decorate(source) => Ok(transpiled(true).unwrap_or(output.code)),
        Ok(output) => Ok(output.code),
        Err(error) if matches!(error.code, ErrorCode::UnsupportedSyntax) => transpiled(false).ok_or(error),
        Err(error) => Err(error),
    };
    crash_handler::guarded(&ToHost::Loaded(Err(LoadFault::Handler(too_deep))), read).map_err(|error| {
        let kind = match error.code {
            ErrorCode::InvalidSyntax => "SyntaxError: ",
            _ => "",
        };
        let Some((message, position)) = first.take() else {
            return LoadError { message: format!("{kind}{}", error.message), line: None, column: None };
        };
        let location = position.map(|position| map.lookup_char_pos(position));
        LoadError {
            message: format!("{kind}{message}"),
            line: location.as_ref().and_then(|location| u32::try_from(location.line).ok()),
            column: location.as_ref().and_then(|location| u32::try_from(location.col.0 + 1).ok()),
        }
    })
}

/// Returns the options for a module, with decorators. `Options` has no public way to set them except
/// JSON.
fn options() -> Options {
    Options { module: Some(true), mode: Mode::StripOnly, ..serde_json::from_str("{}").unwrap_or_default() }
}

/// Keeps the first error of the parser.
#[derive(Clone, Default)]
struct FirstDiagnostic(Arc<std::sync::Mutex<Option<Complaint>>>);

type Complaint = (String, Option<swc_common::BytePos>);

impl FirstDiagnostic {
    fn take(&self) -> Option<Complaint> {
        self.0.lock().ok().and_then(|mut held| mem::take(&mut *held))
    }
}

impl Emitter for FirstDiagnostic {
    fn emit(&mut self, diagnostic: &mut DiagnosticBuilder<'_>) {
        let message = diagnostic.message().clone();
        let position = diagnostic.span.primary_span().map(|span| span.lo);
        if let Ok(mut held) = self.0.lock() {
            held.get_or_insert((message, position));
        }
    }
}
