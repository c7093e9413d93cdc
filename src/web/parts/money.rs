//! Amounts: exact to the micro-dollar, and marked if they are simulated.

use std::fmt::Display;

use maud::{Markup, html};
use tollhouse_api::PaymentInfo;
use tollhouse_tool::MicroUsd;

/// Formats an amount in dollars.
pub(crate) fn usd(amount: impl Display) -> String {
    format!("${amount}")
}

/// Shows an amount, marked if it is simulated.
pub(crate) fn amount(amount: impl Display, simulated: bool) -> Markup {
    html! { (usd(amount)) (mark(simulated)) }
}

/// Returns the mark after a simulated amount.
pub(crate) fn mark(simulated: bool) -> Markup {
    html! { @if simulated { " " span.play { "simulated" } } }
}

/// Returns the mark as plain text.
pub(crate) fn marked(simulated: bool) -> &'static str {
    if simulated { " simulated" } else { "" }
}

/// Returns the heading of a column of amounts.
pub(crate) fn heading(name: &str, simulated: bool) -> String {
    if simulated { format!("{name}, simulated") } else { name.to_owned() }
}

/// Returns the names of a network and a token. Unknown networks keep their id.
pub(crate) fn token_names<'v>(payment: &'v PaymentInfo, network: &'v str, asset: &str) -> [&'v str; 2] {
    let known = || payment.accepts.iter().filter(|accepted| accepted.network == network);
    let name = known().next().map_or(network, |accepted| &accepted.network_v1);
    let token = known().find(|accepted| accepted.asset.address.eq_ignore_ascii_case(asset));
    [name, token.map_or("token", |accepted| &accepted.asset.symbol)]
}

/// Splits a price into the builder's share and the host's fee, in basis points, rounded down to the
/// micro-dollar.
pub(crate) fn shares(MicroUsd(price): MicroUsd, fee_bps: u64) -> [MicroUsd; 2] {
    let fee = u64::try_from(u128::from(price) * u128::from(fee_bps) / 10_000).unwrap_or(price).min(price);
    [MicroUsd(price - fee), MicroUsd(fee)]
}

/// Shows the price of a call, or its maximum if the handler sets the price.
pub(crate) fn price(fixed: MicroUsd, max: Option<MicroUsd>, simulated: bool) -> Markup {
    html! {
        span.money {
            @match max {
                Some(max) => { "up to " (amount(max, simulated)) }
                None if fixed.is_zero() => "free",
                None => (amount(fixed, simulated)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_networks_and_tokens_have_no_name() {
        let asset = json!({ "address": "0xAb", "symbol": "USDC" });
        let accepts = json!([{ "network": "eip155:1", "networkV1": "one", "asset": asset }]);
        let payment = json!({ "simulated": true, "network": "eip155:1", "networkV1": "one", "asset": asset, "accepts": accepts });
        let payment: PaymentInfo = serde_json::from_value(payment).unwrap();
        for (network, asset, names) in
            [("eip155:1", "0xab", ["one", "USDC"]), ("eip155:1", "0xcd", ["one", "token"]), ("eip155:2", "0xab", ["eip155:2", "token"])]
        {
            assert_eq!(token_names(&payment, network, asset), names);
        }
    }

    #[test]
    fn fee_is_rounded_down() {
        for (price, bps, [builder, host]) in
            [(10_000, 500, [9_500, 500]), (19, 500, [19, 0]), (20, 500, [19, 1]), (7, 10_000, [0, 7]), (7, 0, [7, 0])]
        {
            assert_eq!(shares(MicroUsd(price), bps), [MicroUsd(builder), MicroUsd(host)], "{bps} of {price}");
        }
        assert_eq!(shares(MicroUsd(u64::MAX), 20_000), [MicroUsd(0), MicroUsd(u64::MAX)]);
    }

    #[test]
    fn price_shows_the_maximum_and_simulated_money() {
        let shown = |fixed, max: Option<u64>, simulated| price(MicroUsd(fixed), max.map(MicroUsd), simulated).into_string();
        assert_eq!(shown(0, None, true), "<span class=\"money\">free</span>");
        assert_eq!(shown(500_000, None, false), "<span class=\"money\">$0.5</span>");
        assert!(shown(0, Some(50_000), true).contains("up to $0.05 <span class=\"play\">simulated"));
    }
}
