//! Checks that x402's contract for permits exists on the network. Payers are asked to sign permits only then.

use std::{
    sync::{
        Arc, Once, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use alloy_primitives::Address;
use alloy_sol_types::{SolCall as _, sol};
use backon::{BackoffBuilder as _, ExponentialBuilder};

use crate::{
    facilitator::chain::node::{BlockTag, Node, RpcError},
    x402::permit2::{PERMIT2, UPTO_PROXY},
};

sol! {
    /// The proxy: the contract that moves the money.
    function PERMIT2() returns (address);
}

/// Pause before the next check.
const PAUSES: ExponentialBuilder =
    ExponentialBuilder::new().with_min_delay(Duration::from_secs(1)).with_max_delay(MAX_PAUSE).without_max_times();
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// Whether the contract was found.
#[derive(Debug, Default)]
pub(super) struct ProxyCheck(AtomicBool);

impl ProxyCheck {
    /// Checks for the contract until it is found or the returned value is dropped.
    pub(super) fn watch(node: Arc<Node>) -> Arc<Self> {
        let proxy = Arc::new(Self::default());
        tokio::spawn(watch(Arc::downgrade(&proxy), node));
        proxy
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

async fn watch(proxy: Weak<ProxyCheck>, node: Arc<Node>) {
    let (mut pauses, message) = (PAUSES.build(), Once::new());
    while let Some(proxy) = proxy.upgrade() {
        match is_there(&node).await {
            Ok(true) => return proxy.0.store(true, Ordering::Relaxed),
            Ok(false) => message.call_once(|| {
                tracing::info!(
                    network = node.network().caip2,
                    "the network does not have x402's contract for permits, so metered tools can only be paid with developer credit"
                );
            }),
            Err(error) => tracing::debug!(%error, "x402's contract for permits could not be checked"),
        }
        drop(proxy);
        tokio::time::sleep(pauses.next().unwrap_or(MAX_PAUSE)).await;
    }
}

async fn is_there(node: &Node) -> Result<bool, RpcError> {
    let answer = node.call(&UPTO_PROXY.to_string(), &PERMIT2Call {}.abi_encode(), BlockTag::Latest).await?;
    Ok(PERMIT2Call::abi_decode_returns_validate(&answer).is_ok_and(|address: Address| address == PERMIT2))
}
