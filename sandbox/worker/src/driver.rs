//! The functions of 90_entry.js that drive the isolate.

use deno_core::v8::{self, Global, Local, PinScope};
use tollhouse_protocol::limits::{COMPRESSORS, DECODERS, REQUEST_BODY_BYTES};

/// The driver functions that 90_entry.js provides.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) load: Global<v8::Function>,
    pub(crate) call: Global<v8::Function>,
    pub(crate) deliver: Global<v8::Function>,
    pub(crate) explain: Global<v8::Function>,
    pub(crate) reject_unanswered: Global<v8::Function>,
    pub(crate) rejections_noted: Global<v8::Function>,
}

/// Takes the driver functions and hardens the isolate. Afterwards nothing in it can reach `Deno` or
/// any op by name. `wasm`: whether handlers have `WebAssembly`.
///
/// # Panics
///
/// If the scripts are not those that this binary was built with.
pub(crate) fn take_driver(scope: &mut PinScope<'_, '_>, wasm: bool) -> Driver {
    let global = scope.get_current_context().global(scope);
    let deno = object(scope, global, "Deno");
    let core = object(scope, deno, "core");
    let ops = object(scope, core, "ops");
    let parts = object(scope, global, "__tollhouse");
    let driver = object(scope, parts, "driver");
    let boot = function(scope, driver, "boot");
    let driver = Driver {
        load: take(scope, driver, "load"),
        call: take(scope, driver, "call"),
        deliver: take(scope, driver, "deliver"),
        explain: take(scope, driver, "explain"),
        reject_unanswered: take(scope, driver, "rejectUnanswered"),
        rejections_noted: take(scope, driver, "rejectionsNoted"),
    };
    let undefined = v8::undefined(scope).into();
    // The `Intl` of the QuickJS backend is a stub that depends on parts which hardening removes.
    let intl = v8::Boolean::new(scope, cfg!(feature = "v8"));
    let [decoders, compressors, body] =
        [DECODERS, COMPRESSORS, REQUEST_BODY_BYTES].map(|limit| v8::Integer::new(scope, i32::try_from(limit).expect("a limit is small")));
    let wasm = v8::Boolean::new(scope, wasm);
    let arguments: [Local<'_, v8::Value>; 6] = [ops.into(), decoders.into(), intl.into(), compressors.into(), body.into(), wasm.into()];
    boot.call(scope, undefined, &arguments).expect("90_entry.js boots");
    driver
}

fn object<'s>(scope: &mut PinScope<'s, '_>, holder: Local<'s, v8::Object>, name: &str) -> Local<'s, v8::Object> {
    let key = v8::String::new(scope, name).expect("a short name");
    holder.get(scope, key.into()).and_then(|held| held.try_into().ok()).expect("the snapshot contains the scripts' objects")
}

fn function<'s>(scope: &mut PinScope<'s, '_>, holder: Local<'s, v8::Object>, name: &str) -> Local<'s, v8::Function> {
    object(scope, holder, name).try_into().expect("the members of the driver are functions")
}

fn take(scope: &mut PinScope<'_, '_>, holder: Local<'_, v8::Object>, name: &str) -> Global<v8::Function> {
    let holder = Local::new(scope, holder);
    let function = function(scope, holder, name);
    Global::new(scope, function)
}
