//! Whether x402's contract that takes permits is on the network: only then is anybody asked to sign one.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use alloy_primitives::Address;
use alloy_sol_types::{SolCall as _, sol};

use crate::money::{
    facilitator::chain::node::{At, Node, RpcError},
    x402::permit2::{PERMIT2, UPTO_PROXY},
};

sol! {
    /// Of the proxy: who moves what it takes.
    function PERMIT2() returns (address);
}

/// The first and the longest pause before it is looked for again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Whether it was seen.
#[derive(Debug, Default)]
pub(super) struct Proxy(AtomicBool);

impl Proxy {
    /// Looks for it until it is there, for as long as somebody wants to know.
    pub(super) fn watch(node: Arc<Node>) -> Arc<Self> {
        let proxy = Arc::new(Self::default());
        tokio::spawn(watch(Arc::downgrade(&proxy), node));
        proxy
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

async fn watch(proxy: Weak<Proxy>, node: Arc<Node>) {
    let (mut pause, mut told) = (FIRST_PAUSE, false);
    while let Some(proxy) = proxy.upgrade() {
        match is_there(&node).await {
            Ok(true) => return proxy.0.store(true, Ordering::Relaxed),
            Ok(false) if told => {}
            Ok(false) => {
                tracing::info!(network = node.network().caip2, "nobody takes permits there: metered tools are paid on credit");
                told = true;
            }
            Err(error) => tracing::debug!(%error, "whether permits are taken is not known"),
        }
        drop(proxy);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn is_there(node: &Node) -> Result<bool, RpcError> {
    let answer = node.call(&UPTO_PROXY.to_string(), &PERMIT2Call {}.abi_encode(), At::Latest).await?;
    Ok(PERMIT2Call::abi_decode_returns_validate(&answer).is_ok_and(|address: Address| address == PERMIT2))
}
