//! A worker that compiles nothing gives the same answers as any other, and only its program is
//! executable.

use std::fs;

use serde_json::{Value, json};
use tollhouse_protocol::{JailLayer, Language, Limits, Tier};

use crate::harness::Worker;

/// A handler that loops until a compiler would optimize it, uses regular expressions, and creates
/// closures.
const BUSY: &str = "
    const add = (by) => (to) => (to + by) | 0;
    let sum = 0;
    for (let i = 0; i < 200_000; i++) sum = add(i)(sum);
    const words = 'a1 b22 c333 '.repeat(2_000).replace(/([a-z])(\\d+)/g, (_, letter, digits) => letter + digits.length);
    return { sum, words: words.slice(0, 9), length: words.length, json: JSON.parse(JSON.stringify({ n: [1.5, 'é'] })) };
";

/// Returns the executable mappings of a process that belong to no file. `None` if the system does
/// not show them.
fn code_of_no_file(pid: u32) -> Option<Vec<String>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let is_code = |line: &&str| line.split(' ').nth(1).is_some_and(|rights| rights.contains('x'));
    let is_own = |line: &&str| !line.contains(" /") && !line.ends_with("[vdso]") && !line.ends_with("[vsyscall]");
    assert!(maps.lines().any(|line| is_code(&line)), "{maps}");
    Some(maps.lines().filter(is_code).filter(is_own).map(str::to_owned).collect())
}

fn busy(tier: Tier) -> Worker {
    let mut worker = Worker::of_tier(tier);
    worker.limits = Limits { cpu_ms: 20_000, wall_ms: 60_000, ..Limits::default() };
    worker.load(&format!("export default async function () {{ {BUSY} }}"), Language::Js).unwrap();
    for _ in 0..20 {
        let answer = worker.json(&Value::Null);
        assert_eq!(answer["words"], "a1 b2 c3 ");
        assert_eq!((answer["sum"].as_i64(), answer["length"].as_u64()), (Some(-1_474_936_480), Some(18_000)));
        assert_eq!(answer["json"], json!({ "n": [1.5, "é"] }));
    }
    worker
}

#[test]
fn jitless_worker_has_only_its_program_as_code() {
    let worker = busy(Tier::Jitless);
    assert!(worker.jail.in_force.contains(&JailLayer::NoExec), "{:?}", worker.jail);
    let Some(code) = code_of_no_file(worker.pid()) else {
        return eprintln!("where code is mapped was not seen: this user may not look at a worker");
    };
    assert_eq!(code, [""; 0]);
}

#[test]
fn jit_worker_has_executable_memory_on_v8_only_and_reports_it() {
    let worker = busy(Tier::Jit);
    let compiles = cfg!(feature = "v8");
    assert_eq!(worker.jail.in_force.contains(&JailLayer::NoExec), !compiles, "{:?}", worker.jail);
    if let Some(code) = code_of_no_file(worker.pid()) {
        assert_eq!(!code.is_empty(), compiles, "{code:?}");
    }
}

#[test]
fn only_the_tier_of_the_grant_has_webassembly() {
    for tier in Tier::ALL {
        let mut worker = Worker::of_tier(tier);
        worker.load("export default () => typeof WebAssembly;", Language::Js).unwrap();
        let has_it = cfg!(feature = "v8") && tier == Tier::Wasm;
        assert_eq!(worker.json(&Value::Null), json!(if has_it { "object" } else { "undefined" }), "{tier}");
    }
}

#[test]
fn a_tool_without_webassembly_learns_what_it_needs() {
    let tier = if cfg!(feature = "v8") { Tier::Jit } else { Tier::Wasm };
    let mut worker = Worker::of_tier(tier);
    let error = worker.load("const m = new WebAssembly.Module(new Uint8Array(8)); export default () => m;", Language::Js).unwrap_err();
    assert!(error.message.contains("WebAssembly is not defined") && error.message.contains("the capability `wasm`"), "{error:?}");
    let mut worker = Worker::of_tier(tier);
    worker.load("export default () => WebAssembly.validate(new Uint8Array(8));", Language::Js).unwrap();
    assert!(worker.thrown(&Value::Null).contains("the capability `wasm`"));
}
