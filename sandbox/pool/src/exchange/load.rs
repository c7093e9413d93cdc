//! Loads a bundle into a worker.

use tollhouse_protocol::{Load, LoadFault, Loaded, ToHost, ToWorker};

use super::end::{CleanEnd, Interruption, end_of_load};
use crate::{budget::Budget, call_account::Breach, process::Link, wire::Buffers};

/// Loads a bundle into a blank worker, within the limits of loading.
pub(crate) async fn load(link: &Link, buffers: &mut Buffers, load: Load) -> Result<(Loaded, CleanEnd), LoadFault> {
    link.meter.begin(Budget::of_load(&load.limits));
    let answer = exchange(link, buffers, load).await;
    end_of_load(answer, link.meter.finish())
}

async fn exchange(link: &Link, buffers: &mut Buffers, load: Load) -> Result<Result<Loaded, LoadFault>, Interruption> {
    // Plus one line that reports how many were dropped.
    let mut lines = load.limits.log_lines + 1;
    buffers.put(&ToWorker::Load(load))?;
    loop {
        buffers.flush(&link.stream)?;
        buffers.changed(&link.stream).await?;
        buffers.fill(&link.stream)?;
        while let Some(message) = buffers.next()? {
            match message {
                ToHost::Loaded(answer) if buffers.are_empty() => return Ok(answer),
                // Log lines of a module's top level belong to no call.
                ToHost::Log(_) if lines > 0 => lines -= 1,
                _ => return Err(Breach::Protocol("a message other than the answer to a bundle").into()),
            }
        }
    }
}
