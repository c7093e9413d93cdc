//! Formats stack traces, and parses positions in them.

use deno_core::v8::{self, Local, PinScope};

/// Returns the text of an error's stack: its head, and the frames of the handler.
///
/// Replaces deno_core's, which maps sources, calls `Error.prepareStackTrace`, and exposes call
/// sites.
pub(crate) fn text<'s>(scope: &mut PinScope<'s, '_>, error: Local<'s, v8::Value>, sites: Local<'s, v8::Array>) -> Local<'s, v8::Value> {
    let mut text = head(scope, error);
    for index in 0..sites.length() {
        v8::tc_scope!(scope, scope);
        let Some(line) = sites.get_index(scope, index).and_then(|site| frame(scope, site)) else { continue };
        if !line.contains("ext:") {
            text.push_str("\n    at ");
            text.push_str(&line);
        }
    }
    match v8::String::new(scope, &text) {
        Some(text) => text.into(),
        None => v8::undefined(scope).into(),
    }
}

/// Returns the text of a call site, made by the engine's own `toString` for call sites. An ordinary
/// conversion would first look up methods that the handler may have replaced, and pass the call
/// site to them.
fn frame(scope: &mut PinScope<'_, '_>, site: Local<'_, v8::Value>) -> Option<String> {
    let site = Local::<v8::Object>::try_from(Local::new(scope, site)).ok()?;
    let name = v8::String::new(scope, "toString")?;
    // QuickJS has the method in the site, V8 in its prototype. Only the engine can reach either, so
    // both are unmodified.
    let methods = if cfg!(feature = "v8") { Local::<v8::Object>::try_from(site.get_prototype(scope)?).ok()? } else { site };
    if methods.has_own_property(scope, name.into()) != Some(true) {
        return None;
    }
    let to_string = Local::<v8::Function>::try_from(methods.get(scope, name.into())?).ok()?;
    let line = to_string.call(scope, site.into(), &[])?;
    line.is_string().then(|| line.to_rust_string_lossy(scope))
}

/// Returns name and message, if both are plain strings.
fn head(scope: &mut PinScope<'_, '_>, error: Local<'_, v8::Value>) -> String {
    let mut parts = [String::new(), String::new()];
    for (part, name) in parts.iter_mut().zip(["name", "message"]) {
        v8::tc_scope!(scope, scope);
        let error = Local::new(scope, error);
        let Ok(object) = Local::<v8::Object>::try_from(error) else { continue };
        let Some(key) = v8::String::new(scope, name) else { continue };
        if let Some(held) = object.get(scope, key.into())
            && held.is_string()
        {
            *part = held.to_rust_string_lossy(scope);
        }
    }
    let [name, message] = parts;
    match (name.is_empty(), message.is_empty()) {
        (false, false) => format!("{name}: {message}"),
        (false, true) => name,
        (true, _) => message,
    }
}

/// Returns line and column, from 1, of the first frame of a handler's module in a stack's text.
pub(crate) fn position(stack: &str) -> (Option<u32>, Option<u32>) {
    let Some(line) = stack.lines().find(|line| line.contains("tool:/")) else { return (None, None) };
    let mut numbers = line.trim_end_matches(')').rsplit(':').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(column)), Some(Ok(line))) => (Some(line), Some(column)),
        _ => (None, None),
    }
}
