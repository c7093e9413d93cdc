//! Amounts: exact to the micro-dollar, and marked if they are simulated.

use maud::{Markup, html};
use serde_json::Value;

/// Formats an amount in dollars. A `f64` represents six decimals exactly as written.
pub(crate) fn usd(amount: &Value) -> String {
    amount.as_f64().map_or_else(|| "?".to_owned(), |amount| format!("${amount}"))
}

/// Converts an amount to micro-dollars, exactly.
pub(crate) fn in_micros(amount: &Value) -> u64 {
    amount.as_f64().map_or(0, |amount| (amount * 1e6).round() as u64)
}

/// Formats micro-dollars as dollars.
pub(crate) fn micros(amount: u64) -> String {
    let digits = format!("${}.{:06}", amount / 1_000_000, amount % 1_000_000);
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
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

/// Returns the names of a network and a token from the manifest, or their ids if unknown.
pub(crate) fn called<'v>(payment: &'v Value, network: &'v Value, asset: &'v Value) -> [&'v str; 2] {
    let on = |entry: &&Value| entry["network"] == *network;
    let is_same = |entry: &&Value| match (entry["asset"]["address"].as_str(), asset.as_str()) {
        (Some(known), Some(asset)) => known.eq_ignore_ascii_case(asset),
        _ => false,
    };
    let known = || payment["accepts"].as_array().into_iter().flatten().filter(on);
    let name = known().find_map(|entry| entry["networkV1"].as_str()).or(network.as_str());
    let symbol = known().find(is_same).and_then(|entry| entry["asset"]["symbol"].as_str());
    [name.unwrap_or_default(), symbol.unwrap_or("token")]
}

/// Splits a price into the builder's share and the host's fee, in basis points, rounded down to the
/// micro-dollar.
pub(crate) fn shares(price: u64, fee_bps: u64) -> [u64; 2] {
    let fee = u64::try_from(u128::from(price) * u128::from(fee_bps) / 10_000).unwrap_or(price).min(price);
    [price - fee, fee]
}

/// Shows the price of a tool.
pub(crate) fn price(tool: &Value, simulated: bool) -> Markup {
    let (max, fixed) = (&tool["maxPriceUsd"], &tool["priceUsd"]);
    let is_free = max.is_null() && fixed.as_f64() == Some(0.0);
    html! {
        span.money {
            @if is_free { "free" } @else {
                @if max.is_null() { (usd(fixed)) } @else { "up to " (usd(max)) }
                (mark(simulated))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_reported_to_the_last_digit() {
        for (amount, rendered) in
            [(json!(0.000_001), "$0.000001"), (json!(0.003), "$0.003"), (json!(12), "$12"), (json!(1234.5), "$1234.5")]
        {
            assert_eq!((usd(&amount), micros(in_micros(&amount))), (rendered.to_owned(), rendered.to_owned()));
        }
    }

    #[test]
    fn networks_and_tokens_are_called_by_their_names_where_they_are_known() {
        let known = json!({ "network": "eip155:1", "networkV1": "one", "asset": { "address": "0xAb", "symbol": "USDC" } });
        let payment = json!({ "accepts": [known] });
        for (network, asset, names) in
            [("eip155:1", "0xab", ["one", "USDC"]), ("eip155:1", "0xcd", ["one", "token"]), ("eip155:2", "0xab", ["eip155:2", "token"])]
        {
            assert_eq!(called(&payment, &json!(network), &json!(asset)), names);
        }
    }

    #[test]
    fn the_hosts_share_is_rounded_down() {
        for (price, bps, shares_of) in
            [(10_000, 500, [9_500, 500]), (19, 500, [19, 0]), (20, 500, [19, 1]), (7, 10_000, [0, 7]), (7, 0, [7, 0])]
        {
            assert_eq!(shares(price, bps), shares_of, "{bps} of {price}");
        }
        assert_eq!(shares(u64::MAX, 20_000), [0, u64::MAX]);
    }

    #[test]
    fn a_price_says_whether_it_is_real_and_whether_it_is_the_most() {
        let describe = |tool: Value, simulated| price(&tool, simulated).into_string();
        assert_eq!(describe(json!({ "priceUsd": 0 }), true), "<span class=\"money\">free</span>");
        assert_eq!(describe(json!({ "priceUsd": 0.5 }), false), "<span class=\"money\">$0.5</span>");
        assert!(describe(json!({ "priceUsd": 0, "maxPriceUsd": 0.05 }), true).contains("up to $0.05 <span class=\"play\">simulated"));
    }
}
