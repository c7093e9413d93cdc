//! The limits of one call and of its process, each with unit, default and ceiling.
//!
//! The admin's policy changes defaults and ceilings, and an endpoint's `limits` changes its own
//! values. The worker enforces limits, and the host enforces them again. The table in
//! `docs/reference/limits.md` is generated from [`TABLE`].

use serde::{Deserialize, Serialize};

/// Maximum entries of one `list` of `ctx.kv` or `ctx.files`. The worker reduces a higher `limit` of
/// a handler to this, and the host refuses more.
pub const LIST_LIMIT: u32 = 1_000;

/// Entries of one `list` without a `limit`.
pub const LIST_DEFAULT: u32 = 100;

/// Maximum bytes of keys and values on one page of `list`, far below the size of a frame.
pub const LIST_BYTES: usize = 1 << 20;

/// Maximum bytes in transit for one call: its requests and their answers. Further requests wait.
pub const CALL_BYTES: usize = 8 << 20;

/// Maximum bytes of the body of a request that `fetch` sends.
pub const REQUEST_BODY_BYTES: usize = 1 << 20;

/// Maximum bytes of a call's body that one [`BodyRead`](crate::OpRequest::BodyRead) returns. 256 KiB.
pub const BODY_CHUNK_BYTES: usize = 256 << 10;

/// Maximum bytes of one chunk of a streamed answer. The worker cuts larger ones. 64 KiB.
pub const STREAM_CHUNK_BYTES: usize = 64 << 10;

/// Maximum chunks of one streamed answer. They do not count as ops, because a stream of tokens has
/// thousands.
pub const STREAM_CHUNKS: u64 = 100_000;

/// Maximum bytes of a response's body that one answer to `fetch` or [`FetchRead`](crate::OpRequest::FetchRead) takes from
/// a server. 64 KiB.
pub const FETCH_CHUNK_BYTES: usize = 64 << 10;

/// How many [`FetchRead`](crate::OpRequest::FetchRead)s a call can make for each op of its limit `ops`. They do not count
/// as ops, because the server decides how many pieces a body has.
pub const READS_PER_OP: u64 = 100;

/// Maximum number of concurrent streaming text decoders of one call.
pub const DECODERS: usize = 256;

/// Maximum number of concurrent streams that one call compresses or decompresses.
pub const COMPRESSORS: usize = 32;

/// Maximum parts of a multipart form that `formData` reads.
pub const FORM_PARTS: usize = 1_000;

/// Maximum bytes of the headers of one part of a multipart form.
pub const FORM_HEAD_BYTES: usize = 16 << 10;

/// Maximum bytes of a `URLPattern`, and of a URL that it is compared with.
pub const URL_PATTERN_BYTES: usize = 16 << 10;

/// Size from which compiled code of a source is kept, in bytes. 256 KiB. Smaller sources compile in a few milliseconds.
pub const COMPILED_SOURCE_BYTES: usize = 256 << 10;

/// Maximum size of compiled code that is kept, in bytes. 4 MiB.
pub const COMPILED_BYTES: usize = 4 << 20;

/// Maximum length of the stack of a thrown error, in bytes. The rest is cut off.
pub const STACK_BYTES: u64 = 8 << 10;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct LimitRow {
    /// Name in the `limits` of an endpoint and in the policy (camelCase).
    pub name: &'static str,
    /// The value that applies by default.
    pub default: u64,
    /// Highest value that an endpoint can have unless the admin raises the ceiling.
    pub ceiling: u64,
    /// Unit of the values.
    pub unit: &'static str,
    /// Description of the limit, as a sentence.
    pub what: &'static str,
}

macro_rules! limits {
    ($($field:ident $name:literal = $default:expr, $ceiling:expr, $unit:literal, $what:literal;)*) => {
        /// The limits in force for one call. Each value is in the unit of its row.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Limits { $(#[doc = concat!($what, " Unit: ", $unit, ". Default: ", stringify!($default), ".")] #[serde(rename = $name)] pub $field: u64,)* }

        /// All limits, in the order of the table in `docs/reference/limits.md`.
        pub const TABLE: &[LimitRow] = &[$(LimitRow { name: $name, default: $default, ceiling: $ceiling, unit: $unit, what: $what },)*];

        impl Default for Limits {
            fn default() -> Self { Self { $($field: $default,)* } }
        }

        impl Limits {
            /// The highest values that an endpoint can have under the default policy.
            #[must_use]
            pub const fn ceilings() -> Self { Self { $($field: $ceiling,)* } }

            /// Returns `self` with each field reduced to at most that of `ceiling`.
            #[must_use]
            pub fn narrowed_to(self, ceiling: &Self) -> Self { Self { $($field: self.$field.min(ceiling.$field),)* } }

            /// Returns the value of the row with this name.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<u64> { match name { $($name => Some(self.$field),)* _ => None } }

            /// Sets the value of the row with this name. Returns false if there is no such row.
            pub fn set(&mut self, name: &str, value: u64) -> bool { match name { $($name => { self.$field = value; true })* _ => false } }
        }
    };
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

limits! {
    cpu_ms "cpuMs" = 1_000, 10_000, "ms", "Processor time of one call. Waiting in an op does not count.";
    wall_ms "wallMs" = 10_000, 300_000, "ms", "Time from start to answer of one call. Above 10,000, the tool is long-running.";
    load_cpu_ms "loadCpuMs" = 500, 2_000, "ms", "Processor time of a module's top level.";
    load_wall_ms "loadWallMs" = 2_000, 10_000, "ms", "Time of a module's top level.";
    heap_bytes "heapBytes" = 64 * MIB, 128 * MIB, "bytes", "JavaScript heap of a worker.";
    buffer_bytes "bufferBytes" = 32 * MIB, 64 * MIB, "bytes", "Array buffers of a worker, outside the heap.";
    rss_bytes "rssBytes" = 224 * MIB, 320 * MIB, "bytes", "Resident memory of a worker process, seen by the host.";
    source_bytes "sourceBytes" = 4 * MIB, 4 * MIB, "bytes", "Source of a handler.";
    input_bytes "inputBytes" = 256 * KIB, MIB, "bytes", "Body of a call.";
    body_bytes "bodyBytes" = 10 * MIB, 100 * MIB, "bytes", "Body of a call whose type is one of the tool's requestTypes.";
    input_depth "inputDepth" = 64, 64, "levels", "Nesting of a call's body.";
    output_bytes "outputBytes" = 256 * KIB, MIB, "bytes", "Result of a call.";
    output_depth "outputDepth" = 64, 64, "levels", "Nesting of a result.";
    stream_bytes "streamBytes" = 10 * MIB, 100 * MIB, "bytes", "Body of a streamed answer.";
    error_bytes "errorBytes" = KIB, 4 * KIB, "bytes", "Text of an error that a handler threw.";
    log_lines "logLines" = 256, 1_024, "lines", "Log lines of one call; further ones are dropped and counted.";
    log_line_bytes "logLineBytes" = 4 * KIB, 16 * KIB, "bytes", "One log line; the rest is cut off.";
    log_bytes "logBytes" = 64 * KIB, 256 * KIB, "bytes", "All log lines of one call.";
    progress_messages "progressMessages" = 256, 1_024, "messages", "Messages of ctx.progress in one call; further ones are dropped.";
    progress_per_second "progressPerSecond" = 20, 100, "messages", "Messages of ctx.progress in one second of a call; further ones are dropped.";
    progress_bytes "progressBytes" = 512, 4 * KIB, "bytes", "One message of ctx.progress; the rest is cut off.";
    ops "ops" = 1_000, 10_000, "ops", "Requests of one call to kv, files, other servers and timers together.";
    ops_in_flight "opsInFlight" = 8, 32, "ops", "Concurrent requests of one call; further ones wait their turn.";
    timers "timers" = 100, 100, "timers", "Timers of one call that are set at the same time.";
    http_requests "httpRequests" = 10, 50, "requests", "Uses of fetch and httpGetJson in one call together.";
    http_wall_ms "httpWallMs" = 5_000, 30_000, "ms", "Time to a response's head, then to each piece of its body; all of httpGetJson.";
    http_body_bytes "httpBodyBytes" = MIB, 4 * MIB, "bytes", "Body of a response to fetch or httpGetJson.";
    kv_key_bytes "kvKeyBytes" = 512, 512, "bytes", "A key of ctx.kv.";
    kv_value_bytes "kvValueBytes" = 64 * KIB, 256 * KIB, "bytes", "A value of ctx.kv, as JSON.";
    kv_keys "kvKeys" = 10_000, 100_000, "keys", "Keys of one tool.";
    kv_bytes "kvBytes" = 16 * MIB, 256 * MIB, "bytes", "Keys and values of one tool.";
    file_bytes "fileBytes" = MIB, 4 * MIB, "bytes", "One file of ctx.files.";
    files "files" = 100, 1_000, "files", "Files of one tool.";
    files_bytes "filesBytes" = 16 * MIB, 256 * MIB, "bytes", "All files of one tool.";
    env_names "envNames" = 32, 64, "names", "Secrets of one tool.";
    env_value_bytes "envValueBytes" = 4 * KIB, 4 * KIB, "bytes", "Value of one secret.";
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTRACT: &str = include_str!("../../../runtime-js/tool.d.ts");

    #[test]
    fn contract_of_handlers_names_the_limits_in_force() {
        let limits = Limits::default();
        assert_eq!(STREAM_CHUNKS, 100_000);
        for sentence in [
            format!("Default: {LIST_DEFAULT}. Higher values than {LIST_LIMIT} count as {LIST_LIMIT}."),
            format!("A key is at most {} bytes, a value at most {} KiB", limits.kv_key_bytes, limits.kv_value_bytes / KIB),
            format!("A message is cut at {} bytes", limits.progress_bytes),
            format!("beyond {} in a second or {} in a call", limits.progress_per_second, limits.progress_messages),
            format!("At most {DECODERS} texts are decoded in pieces at once"),
            format!("At most {COMPRESSORS} streams of a call are compressed or decompressed at once"),
            format!("A multipart form has at most {FORM_PARTS} parts"),
            format!("It and a URL have at most {} KiB", URL_PATTERN_BYTES >> 10),
            format!("A streamed answer has at most {} MiB (`streamBytes`) and 100,000 chunks", limits.stream_bytes / MIB),
            format!("The body of a request has at most {} MiB", REQUEST_BODY_BYTES as u64 / MIB),
        ] {
            assert!(CONTRACT.contains(&sentence), "tool.d.ts does not say: {sentence}");
        }
    }
}
