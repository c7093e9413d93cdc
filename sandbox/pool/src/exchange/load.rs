//! Loads a bundle into a worker.

use bytes::Bytes;
use tollhouse_protocol::{Load, LoadFault, Loaded, ToHost, ToWorker, limits::COMPILED_SOURCE_BYTES};

use super::end::{CleanEnd, Interruption, end_of_load};
use crate::{budget::Budget, call_account::Breach, process::Link, wire::Buffers};

/// Loads a bundle into a blank worker, within the limits of loading. `code` is compiled code of its source. If there is
/// none and the source is large, `compiled` gets it.
pub(crate) async fn load(
    link: &Link,
    buffers: &mut Buffers,
    load: Load,
    code: Option<Bytes>,
    compiled: &mut Bytes,
) -> Result<(Loaded, CleanEnd), LoadFault> {
    link.meter.begin(Budget::of_load(&load.limits));
    let answer = exchange(link, buffers, load, code, compiled).await;
    end_of_load(answer, link.meter.finish())
}

async fn exchange(
    link: &Link,
    buffers: &mut Buffers,
    load: Load,
    code: Option<Bytes>,
    compiled: &mut Bytes,
) -> Result<Result<Loaded, LoadFault>, Interruption> {
    // Plus one line that reports how many were dropped.
    let mut lines = load.limits.log_lines + 1;
    // A worker sends code before it runs any of the handler's, so a later message could be the handler's.
    let is_large = load.bundle.source.as_ref().is_some_and(|source| source.text.len() >= COMPILED_SOURCE_BYTES);
    let mut may_send_code = is_large && code.is_none();
    if let Some(code) = code {
        buffers.put(&ToWorker::Code(code))?;
    }
    buffers.put(&ToWorker::Load(load))?;
    loop {
        buffers.flush(&link.stream)?;
        buffers.changed(&link.stream).await?;
        buffers.fill(&link.stream)?;
        while let Some(message) = buffers.next()? {
            let is_first = std::mem::take(&mut may_send_code);
            match message {
                ToHost::Compiled(code) if is_first => *compiled = code,
                ToHost::Loaded(answer) if buffers.are_empty() => return Ok(answer),
                // Log lines of a module's top level belong to no call.
                ToHost::Log(_) if lines > 0 => lines -= 1,
                _ => return Err(Breach::Protocol("a message other than the answer to a bundle").into()),
            }
        }
    }
}
