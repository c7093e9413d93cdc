//! Runs libFuzzer within a test.

use std::{
    ffi::{CString, c_char, c_int},
    panic,
    path::Path,
    process, ptr,
    sync::OnceLock,
};

use libfuzzer_sys as _;

/// The variable with the name of the selected target.
const TARGET: &str = "TOLLHOUSE_FUZZ";

/// The variable with the folder for found inputs and with libFuzzer's options, one per line.
const ARGUMENTS: &str = "TOLLHOUSE_FUZZ_ARGUMENTS";

/// The property to check.
static HOLDS: OnceLock<fn(&[u8])> = OnceLock::new();

#[expect(unsafe_code, reason = "libFuzzer is C++")]
// SAFETY: matches the declaration in `FuzzerInterface.h` of libFuzzer.
unsafe extern "C" {
    fn LLVMFuzzerRunDriver(argc: *mut c_int, argv: *mut *mut *mut c_char, ask: extern "C" fn(*const u8, usize) -> c_int) -> c_int;
}

/// Returns whether this process fuzzes a target, whichever it is.
pub(crate) fn is_wanted() -> bool {
    !variable(TARGET).is_empty()
}

/// Runs libFuzzer on `holds` if `target` is the selected one. It starts from inputs that it found
/// before and from the seeds in `folder`.
pub(crate) fn run(target: &str, folder: &Path, holds: fn(&[u8])) {
    if variable(TARGET) != target {
        return;
    }
    _ = HOLDS.set(holds);
    let say = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        say(panic);
        // Abort even if the panic would be caught, so that libFuzzer saves the input.
        process::abort();
    }));
    let arguments = variable(ARGUMENTS);
    let words = std::iter::once("tollhouse-fuzz").chain(arguments.lines()).map(str::to_owned);
    let words = words.chain([folder.display().to_string()]);
    let words: Vec<CString> = words.map(|word| CString::new(word).expect("an argument has no zero in it")).collect();
    let mut pointers: Vec<*mut c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect();
    let (mut count, mut argv) = (c_int::try_from(words.len()).expect("there are few arguments"), pointers.as_mut_ptr());
    #[expect(unsafe_code, reason = "libFuzzer is C++")]
    // SAFETY: `argv` has `count` zero-terminated strings that outlive the call, followed by a null
    // pointer.
    let status = unsafe { LLVMFuzzerRunDriver(&mut count, &mut argv, ask) };
    process::exit(status);
}

extern "C" fn ask(bytes: *const u8, length: usize) -> c_int {
    #[expect(unsafe_code, reason = "libFuzzer is C++")]
    // SAFETY: libFuzzer lends this many bytes for the duration of the call. For zero bytes the
    // pointer may be null.
    let bytes = if length == 0 { &[] } else { unsafe { std::slice::from_raw_parts(bytes, length) } };
    if let Some(holds) = HOLDS.get() {
        holds(bytes);
    }
    0
}

/// The bindings expect this symbol from a target that they define. We define none that way.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the name is the bindings'")]
extern "C" fn rust_fuzzer_test_input() -> c_int {
    0
}

#[expect(clippy::disallowed_methods, reason = "the test harness passes no other arguments")]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
