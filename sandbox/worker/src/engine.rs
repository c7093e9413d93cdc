//! The isolate: booted from the snapshot, hardened, and driven through five functions of 90_entry.js.

use std::sync::Arc;

use deno_core::{
    JsRuntime, RuntimeOptions, scope,
    v8::{self, CreateParams, Global, Local, PinScope},
};

use crate::{call::Call, memory, memory::Memory, ops};

/// Made by `build.rs` from `runtime-js`.
#[cfg(feature = "v8")]
const SNAPSHOT: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/snapshot.bin")));
/// QuickJS runs the scripts as it boots.
#[cfg(not(feature = "v8"))]
const SNAPSHOT: Option<&[u8]> = None;

/// Flags of V8; QuickJS knows none of them.
///
/// One thread: what the compiler and the collector do for a handler is then in its processor time,
/// and an idle worker is one sleeping thread and its watchdog. A small young generation, because a
/// worker keeps all of it for life.
const FLAGS: &str = "--single-threaded --stack-size=512 --max-semi-space-size=2 --min-semi-space-size=1 --no-expose-wasm";

/// The driver's functions, as 90_entry.js gives them.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) load: Global<v8::Function>,
    pub(crate) call: Global<v8::Function>,
    pub(crate) deliver: Global<v8::Function>,
    pub(crate) explain: Global<v8::Function>,
}

/// Boots the isolate and hardens it. After this nothing in it knows `Deno` or any op by name.
///
/// # Panics
///
/// When the scripts in the snapshot are not those this binary was built with.
pub(crate) fn boot(memory: &Arc<Memory>, call: Call) -> (JsRuntime, Driver) {
    deno_core::v8_set_flags(std::iter::once(String::new()).chain(FLAGS.split(' ').map(String::from)).collect());
    let mut runtime = JsRuntime::new(RuntimeOptions {
        startup_snapshot: SNAPSHOT,
        extensions: vec![ops::extension(call)],
        create_params: Some(CreateParams::default().heap_limits(0, memory.heap_bytes()).array_buffer_allocator(memory::allocator(memory))),
        v8_platform: Some(v8::new_single_threaded_default_platform(false).make_shared()),
        ..Default::default()
    });
    let isolate = runtime.v8_isolate();
    isolate.set_promise_reject_callback(ignore_rejection);
    isolate.set_prepare_stack_trace_callback(stack_text);
    isolate.set_host_initialize_import_meta_object_callback(import_meta);
    isolate.set_host_import_module_dynamically_callback(refuse_import);
    isolate.set_host_import_module_with_phase_dynamically_callback(refuse_import_phase);
    isolate.set_oom_error_handler(memory::out_of_memory);
    isolate.add_near_heap_limit_callback(memory::near_heap_limit, Arc::as_ptr(memory).cast_mut().cast());
    let driver = {
        scope!(scope, runtime);
        scope.get_current_context().set_allow_generation_from_strings(false);
        take_driver(scope)
    };
    (runtime, driver)
}

fn take_driver(scope: &mut PinScope<'_, '_>) -> Driver {
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
    };
    let undefined = v8::undefined(scope).into();
    // What the QuickJS backend calls `Intl` is a stub that leans on what hardening takes away.
    let intl = v8::Boolean::new(scope, cfg!(feature = "v8"));
    boot.call(scope, undefined, &[ops.into(), intl.into()]).expect("90_entry.js boots");
    driver
}

fn object<'s>(scope: &mut PinScope<'s, '_>, holder: Local<'s, v8::Object>, name: &str) -> Local<'s, v8::Object> {
    let key = v8::String::new(scope, name).expect("a short name");
    holder.get(scope, key.into()).and_then(|held| held.try_into().ok()).expect("the snapshot holds what it was made with")
}

fn function<'s>(scope: &mut PinScope<'s, '_>, holder: Local<'s, v8::Object>, name: &str) -> Local<'s, v8::Function> {
    object(scope, holder, name).try_into().expect("the driver is made of functions")
}

fn take(scope: &mut PinScope<'_, '_>, holder: Local<'_, v8::Object>, name: &str) -> Global<v8::Function> {
    let holder = Local::new(scope, holder);
    let function = function(scope, holder, name);
    Global::new(scope, function)
}

/// A rejection that nobody handles ends nothing: the call ends when its own promise does.
#[expect(unsafe_code, reason = "the engine's callback type is unsafe")]
unsafe extern "C" fn ignore_rejection(_message: v8::PromiseRejectMessage<'_>) {}

/// `import.meta` says nothing of this process.
#[expect(unsafe_code, reason = "the engine's callback type is unsafe")]
unsafe extern "C" fn import_meta(_context: Local<'_, v8::Context>, _module: Local<'_, v8::Module>, _meta: Local<'_, v8::Object>) {}

fn refuse_import<'s>(
    scope: &mut PinScope<'s, '_>,
    _options: Local<'s, v8::Data>,
    _referrer: Local<'s, v8::Value>,
    _specifier: Local<'s, v8::String>,
    _attributes: Local<'s, v8::FixedArray>,
) -> Option<Local<'s, v8::Promise>> {
    let resolver = v8::PromiseResolver::new(scope)?;
    let message = v8::String::new(scope, "import() is not available: a tool is one module, bundle what it needs into it")?;
    let error = v8::Exception::type_error(scope, message);
    resolver.reject(scope, error)?;
    Some(resolver.get_promise(scope))
}

fn refuse_import_phase<'s>(
    scope: &mut PinScope<'s, '_>,
    options: Local<'s, v8::Data>,
    referrer: Local<'s, v8::Value>,
    specifier: Local<'s, v8::String>,
    _phase: v8::ModuleImportPhase,
    attributes: Local<'s, v8::FixedArray>,
) -> Option<Local<'s, v8::Promise>> {
    refuse_import(scope, options, referrer, specifier, attributes)
}

/// Text of an error's stack: its head, and the frames that are the handler's own.
///
/// Replaces deno_core's, which maps sources, calls `Error.prepareStackTrace`, and hands out call sites.
fn stack_text<'s>(scope: &mut PinScope<'s, '_>, error: Local<'s, v8::Value>, sites: Local<'s, v8::Array>) -> Local<'s, v8::Value> {
    let mut text = head(scope, error);
    for index in 0..sites.length() {
        v8::tc_scope!(scope, scope);
        let Some(line) = sites.get_index(scope, index).and_then(|site| site.to_string(scope)) else { continue };
        let line = line.to_rust_string_lossy(scope);
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

/// Name and message, when both are plain strings.
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
