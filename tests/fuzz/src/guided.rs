//! libFuzzer, started from within a test.

use std::{
    ffi::{CString, c_char, c_int},
    panic,
    path::Path,
    process, ptr,
    sync::OnceLock,
};

use libfuzzer_sys as _;

/// The target that is wanted.
const TARGET: &str = "TOLLHOUSE_FUZZ";

/// Where what is found is kept, and libFuzzer's options, one on a line.
const ARGUMENTS: &str = "TOLLHOUSE_FUZZ_ARGUMENTS";

/// What is asked about bytes.
static HOLDS: OnceLock<fn(&[u8])> = OnceLock::new();

#[expect(unsafe_code, reason = "libFuzzer is C++")]
// SAFETY: as `FuzzerInterface.h` of libFuzzer declares it.
unsafe extern "C" {
    fn LLVMFuzzerRunDriver(argc: *mut c_int, argv: *mut *mut *mut c_char, ask: extern "C" fn(*const u8, usize) -> c_int) -> c_int;
}

/// Whether this process is to look into a target, whichever.
pub(crate) fn is_wanted() -> bool {
    !variable(TARGET).is_empty()
}

/// Has libFuzzer ask `holds`, from what it has found before and the seeds in `folder` on, if `target` is the one that is wanted.
pub(crate) fn run(target: &str, folder: &Path, holds: fn(&[u8])) {
    if variable(TARGET) != target {
        return;
    }
    _ = HOLDS.set(holds);
    let say = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        say(panic);
        // Also where somebody would catch it: libFuzzer writes down the bytes.
        process::abort();
    }));
    let arguments = variable(ARGUMENTS);
    let words = std::iter::once("tollhouse-fuzz").chain(arguments.lines()).map(str::to_owned);
    let words = words.chain([folder.display().to_string()]);
    let words: Vec<CString> = words.map(|word| CString::new(word).expect("an argument has no zero in it")).collect();
    let mut pointers: Vec<*mut c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect();
    let (mut count, mut argv) = (c_int::try_from(words.len()).expect("there are few arguments"), pointers.as_mut_ptr());
    #[expect(unsafe_code, reason = "libFuzzer is C++")]
    // SAFETY: `argv` has `count` strings that end in zero and outlive the call, and a null behind them.
    let status = unsafe { LLVMFuzzerRunDriver(&mut count, &mut argv, ask) };
    process::exit(status);
}

extern "C" fn ask(bytes: *const u8, length: usize) -> c_int {
    #[expect(unsafe_code, reason = "libFuzzer is C++")]
    // SAFETY: libFuzzer lends that many bytes for the time of the call; where there are none it may lend no address.
    let bytes = if length == 0 { &[] } else { unsafe { std::slice::from_raw_parts(bytes, length) } };
    if let Some(holds) = HOLDS.get() {
        holds(bytes);
    }
    0
}

/// What the bindings ask of who defines a target for them, which is nobody here.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the name is the bindings'")]
extern "C" fn rust_fuzzer_test_input() -> c_int {
    0
}

#[expect(clippy::disallowed_methods, reason = "what is wanted of a test can be told in no other way")]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
