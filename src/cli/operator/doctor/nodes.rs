//! Findings about the nodes of networks, and about the account that pays for gas.

use tollhouse_base::plural::plural;
use tollhouse_money::{GasAccount, GasFunds, ReachReport};
use tollhouse_operate::finding::Finding;

/// Describes the node of a network, and the account that pays for gas there.
pub(super) fn examine(network: &str, reached: &ReachReport) -> impl Iterator<Item = Finding> {
    let node = reached.node.as_ref().map(|node| match node {
        Ok(text) => Finding::ok("node", text),
        Err(text) => Finding::fail(
            "node",
            text,
            "set TOLLHOUSE_RPC_URL or TOLLHOUSE_NETWORK_RPC_URLS to a node of that network that this machine can reach",
        ),
    });
    node.into_iter().chain(reached.gas.as_ref().map(gas)).map(move |finding| finding.of(network))
}

fn gas(GasAccount { address, funds }: &GasAccount) -> Finding {
    match funds {
        Ok(GasFunds { settlements: 0, .. }) => Finding::fail(
            "gas",
            format!("`{address}` cannot pay for the gas of a settlement, so payments are refused"),
            "send the network's native currency to that address",
        ),
        Ok(funds) if funds.is_low() => Finding::warn(
            "gas",
            format!("`{address}` pays for the gas of {} more", plural(funds.settlements, "settlement")),
            "send the network's native currency to that address",
        ),
        Ok(funds) => Finding::ok("gas", format!("`{address}` pays for the gas of {}", plural(funds.settlements, "settlement"))),
        Err(cause) => Finding::warn("gas", format!("the balance of `{address}` cannot be read: {cause}"), "check the node"),
    }
}
