//! The isolate: booted from the snapshot, hardened, and driven through six functions of
//! 90_entry.js.

use std::sync::Arc;

use deno_core::{
    JsRuntime, RuntimeOptions, scope,
    v8::{self, CreateParams, Local, PinScope},
};
use tollhouse_protocol::Tier;

use crate::{
    call_state::CallState,
    driver::{self, Driver},
    memory,
    memory::Memory,
    ops, rejections, stack,
};

/// The start-up snapshot, which `build.rs` makes from `runtime-js`.
#[cfg(feature = "v8")]
const SNAPSHOT: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/snapshot.bin")));
/// None for QuickJS, which runs the scripts at boot.
#[cfg(not(feature = "v8"))]
const SNAPSHOT: Option<&[u8]> = None;

/// Flags of V8. QuickJS ignores them.
///
/// Single-threaded, so that the work of the compiler and the garbage collector counts as processor
/// time of the handler, and an idle worker has only one sleeping thread and its watchdog. The young
/// generation is small, because a worker never releases it. Source positions are recorded during
/// compilation. Otherwise V8 would parse the code again on the rest of the stack when it needs a
/// position, and report line 1 if the stack is too small for that.
const FLAGS: &str = "--single-threaded --stack-size=512 --max-semi-space-size=1 --min-semi-space-size=1 \
                     --no-enable-lazy-source-positions";

/// Additional flags for V8 in the tier `wasm`. [`FLAGS`] has it compile modules on the thread of the handler.
///
/// A memory has at most 128 MiB (pages of 64 KiB), a table a million entries, and a module the size of a bundle. Without
/// V8's handler of signals, which nothing here turns on, code checks its bounds and no memory reserves gigabytes.
const WASM_FLAGS: &str = "--wasm-max-mem-pages=2048 --wasm-max-table-size=1000000 --wasm-max-module-size=4194304";

/// Maximum heap at which an idle worker [collects its garbage](collect_garbage), in bytes. Up to this size, a collection
/// takes a few milliseconds, which nobody is billed for.
const IDLE_GC_MAX_BYTES: usize = 16 << 20;

/// Additional flag for V8 if it must not compile code. It then also interprets regular expressions.
const JITLESS: &str = "--jitless";

/// Returns whether the engine compiles code in this tier and needs executable memory.
pub(crate) fn compiles(tier: Tier) -> bool {
    cfg!(feature = "v8") && tier != Tier::Jitless
}

/// Returns whether handlers have `WebAssembly` in this tier.
pub(crate) fn has_wasm(tier: Tier) -> bool {
    cfg!(feature = "v8") && tier == Tier::Wasm
}

/// Boots and hardens the isolate. Afterwards nothing in it can reach `Deno` or any op by name.
///
/// # Panics
///
/// If the scripts in the snapshot are not those that this binary was built with.
pub(crate) fn boot(tier: Tier, memory: &Arc<Memory>, call: CallState) -> (JsRuntime, Driver) {
    let jitless = (!compiles(tier)).then_some(JITLESS);
    let wasm = has_wasm(tier).then(|| WASM_FLAGS.split(' ')).into_iter().flatten();
    deno_core::v8_set_flags(std::iter::once("").chain(FLAGS.split_whitespace()).chain(jitless).chain(wasm).map(String::from).collect());
    let mut runtime = JsRuntime::new(RuntimeOptions {
        startup_snapshot: SNAPSHOT,
        extensions: vec![ops::extension(call)],
        create_params: Some(CreateParams::default().heap_limits(0, memory.heap_bytes()).array_buffer_allocator(memory::allocator(memory))),
        v8_platform: Some(v8::new_single_threaded_default_platform(false).make_shared()),
        ..Default::default()
    });
    let isolate = runtime.v8_isolate();
    isolate.set_promise_reject_callback(rejections::note);
    isolate.set_prepare_stack_trace_callback(stack::text);
    isolate.set_host_initialize_import_meta_object_callback(import_meta);
    isolate.set_host_import_module_dynamically_callback(refuse_import);
    isolate.set_host_import_module_with_phase_dynamically_callback(refuse_import_phase);
    // 90_entry.js removes the global. This holds even if something else leads to it.
    #[cfg(feature = "v8")]
    if !has_wasm(tier) {
        isolate.set_allow_wasm_code_generation_callback(refuse_wasm);
    }
    // Nothing could wake the only thread.
    #[cfg(feature = "v8")]
    isolate.set_allow_atomics_wait(false);
    isolate.set_oom_error_handler(memory::out_of_memory);
    isolate.add_near_heap_limit_callback(memory::near_heap_limit, Arc::as_ptr(memory).cast_mut().cast());
    let driver = {
        scope!(scope, runtime);
        scope.get_current_context().set_allow_generation_from_strings(false);
        driver::take_driver(scope, has_wasm(tier))
    };
    (runtime, driver)
}

/// Sets the heap limit of a bundle, which can be lower than the isolate's initial one. A higher
/// limit is [granted](memory::near_heap_limit) when the heap gets close to it.
pub(crate) fn limit_heap(isolate: &mut v8::Isolate, memory: &Arc<Memory>) {
    isolate.remove_near_heap_limit_callback(memory::near_heap_limit, memory.heap_bytes());
    isolate.add_near_heap_limit_callback(memory::near_heap_limit, Arc::as_ptr(memory).cast_mut().cast());
}

/// Collects the garbage of an idle isolate, unless its heap is large.
pub(crate) fn collect_garbage(isolate: &mut v8::Isolate) {
    if isolate.get_heap_statistics().used_heap_size() <= IDLE_GC_MAX_BYTES {
        isolate.low_memory_notification();
    }
}

/// Refuses to compile WebAssembly.
#[cfg(feature = "v8")]
#[expect(unsafe_code, reason = "the engine's callback type is unsafe")]
unsafe extern "C" fn refuse_wasm(_context: Local<'_, v8::Context>, _source: Local<'_, v8::String>) -> bool {
    false
}

/// Leaves `import.meta` empty, so that it reveals nothing about this process.
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
    let message = v8::String::new(scope, "import() is not available: a tool is a single module, so bundle its packages into it")?;
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
