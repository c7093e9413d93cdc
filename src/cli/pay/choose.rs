//! Chooses the payment option to sign: the cheapest that the limits allow. Nothing else is signed.

use tollhouse_money::{
    Asset, Network,
    payer::{PayableTerms, Scheme},
};
use tollhouse_tool::MicroUsd;

use super::{Challenge, PaymentLimits, usd};
use crate::base::{Error, Exit, Result, first};

/// Maximum number of reasons that are listed in an error.
const MAX_REASONS: usize = 8;

/// The option that will be signed.
#[derive(Debug)]
pub(crate) struct ChosenTerms {
    pub(crate) ask: PayableTerms,
    pub(crate) token: &'static Asset,
    /// The price in dollars, or the maximum of it.
    pub(crate) usd: MicroUsd,
}

/// Chooses an option. `name` is the name of the tool shown to people.
///
/// # Errors
///
/// No option is allowed: an error with the exit code of payments, which gives the reason for each option.
pub(crate) fn choose(challenge: &Challenge, limits: &PaymentLimits, name: &str) -> Result<ChosenTerms> {
    let (mut fitting, mut reasons) = (Vec::new(), Vec::new());
    for accepted in &challenge.accepts {
        let judged =
            PayableTerms::read(challenge.version, accepted).map_err(|reason| reason.to_string()).and_then(|ask| check_terms(ask, limits));
        match judged {
            Ok(chosen) => fitting.push(chosen),
            Err(reason) => reasons.push(format!(
                "{} on {}: {reason}",
                first(accepted["scheme"].as_str().unwrap_or("nothing"), 32),
                first(accepted["network"].as_str().unwrap_or("no network"), 64)
            )),
        }
    }
    let cheapest = fitting.into_iter().min_by_key(|chosen| (chosen.usd, chosen.ask.scheme, chosen.ask.is_upfront()));
    match cheapest {
        Some(chosen) if chosen.usd <= limits.max => Ok(chosen),
        Some(chosen) => Err(over_limit(name, chosen.ask.scheme, chosen.usd, limits)),
        None => {
            let more = reasons.len().saturating_sub(MAX_REASONS);
            reasons.truncate(MAX_REASONS);
            reasons.extend((more > 0).then(|| format!("and {more} more")));
            let error = Error::new(Exit::Payment, format!("`{name}` accepts no payment that your settings allow.  Nothing was signed"));
            Err(error.more(reasons))
        }
    }
}

/// Returns the error for a call that costs more than the limit of one call.
pub(crate) fn over_limit(name: &str, scheme: Scheme, price: MicroUsd, limits: &PaymentLimits) -> Error {
    let maximum = match scheme {
        Scheme::Exact => "",
        Scheme::Upto => "up to ",
    };
    let (price, max) = (usd(price), usd(limits.max));
    Error::new(Exit::Payment, format!("`{name}` costs {maximum}{price}, above your limit of {max} (--max-usd).  Nothing was signed"))
}

fn check_terms(ask: PayableTerms, limits: &PaymentLimits) -> std::result::Result<ChosenTerms, String> {
    let on_network = || Network::named(&format!("eip155:{}", ask.chain_id));
    let allowed = on_network().is_some_and(|network| match limits.network {
        Some(only) => network == only,
        None => network.is_test,
    });
    if !allowed {
        return Err(limits.source_of_limit());
    }
    let Some(token) = ask.token().filter(|token| limits.takes(token)) else {
        let known: Vec<_> =
            on_network().into_iter().flat_map(Asset::of).map(|asset| format!("{} ({})", asset.symbol, asset.address)).collect();
        return Err(format!("the token {} is unknown on that network; known tokens: {}", ask.asset, known.join(", ")));
    };
    let (name, version) = &ask.domain;
    if (&**name, &**version) != (token.name, token.version) {
        return Err(format!(
            "the challenge names {} `{}`, version `{}`, but the token has another name or version",
            token.symbol,
            first(name, 32),
            first(version, 8)
        ));
    }
    let usd = ask.usd(token).ok_or_else(|| "the amount is too large".to_owned())?;
    Ok(ChosenTerms { ask, token, usd })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollhouse_money::WireVersion;

    use super::*;

    const USDC: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";

    fn term(amount: &str) -> Value {
        json!({
            "scheme": "exact", "network": "eip155:84532", "amount": amount, "asset": USDC,
            "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "maxTimeoutSeconds": 40, "extra": { "name": "USDC", "version": "2" },
        })
    }

    fn real(amount: &str) -> Value {
        let mut real = term(amount);
        real["network"] = json!("eip155:8453");
        real["asset"] = json!("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913");
        real["extra"]["name"] = json!("USD Coin");
        real
    }

    fn upto(amount: &str) -> Value {
        let mut upto = term(amount);
        upto["scheme"] = json!("upto");
        upto["extra"]["assetTransferMethod"] = json!("permit2");
        upto["extra"]["facilitatorAddress"] = json!(USDC);
        upto
    }

    fn limits(network: Option<&str>, max: u64) -> PaymentLimits {
        let network = network.map(|name| Network::named(name).unwrap());
        PaymentLimits { profile: "p".to_owned(), network, asset: None, max: MicroUsd(max), daily: MicroUsd(5_000_000) }
    }

    fn chosen(accepts: Vec<Value>, limits: &PaymentLimits) -> Result<ChosenTerms> {
        let challenge =
            Challenge { version: WireVersion::V2, accepts, resource: Value::Null, error: String::new(), naming: None, replay_token: None };
        choose(&challenge, limits, "tool")
    }

    #[test]
    fn cheapest_allowed_option_is_chosen() {
        let play = limits(None, 100_000);
        let taken = chosen(vec![term("5000"), real("1"), term("3000"), term("4000")], &play).unwrap();
        assert_eq!((taken.usd, taken.token.network.caip2), (MicroUsd(3_000), "eip155:84532"));
        let taken = chosen(vec![upto("3000"), term("3000")], &play).unwrap();
        assert_eq!(taken.ask.scheme, Scheme::Exact);
        assert_eq!(chosen(vec![upto("3000")], &play).unwrap().usd, MicroUsd(3_000));
        let real_alone = chosen(vec![term("1"), real("3000")], &limits(Some("base"), 100_000)).unwrap();
        assert_eq!(real_alone.token.network.caip2, "eip155:8453");
    }

    #[test]
    fn options_above_the_limit_are_rejected() {
        let play = limits(None, 100_000);
        assert!(chosen(vec![term("100000")], &play).is_ok());
        let refused = chosen(vec![term("250000")], &play).unwrap_err();
        assert_eq!(
            (refused.exit, &*refused.message),
            (Exit::Payment, "`tool` costs $0.25, above your limit of $0.10 (--max-usd).  Nothing was signed")
        );
        assert!(chosen(vec![upto("100001")], &play).unwrap_err().message.starts_with("`tool` costs up to $0.100001, above"));
        assert!(chosen(vec![term("0")], &limits(None, 0)).is_ok());
    }

    #[test]
    fn token_that_only_looks_known_is_not_paid() {
        let play = limits(None, 100_000);
        let altered = |pointer: &str, value: Value| {
            let mut method = term("3000");
            match method.pointer_mut(pointer) {
                Some(member) => *member = value,
                None => method["extra"]["decimals"] = value,
            }
            chosen(vec![method], &play)
        };
        let fake = altered("/asset", json!("0x036CbD53842c5426634e7929541eC2318f3dCF7f")).unwrap_err();
        assert!(fake.exit == Exit::Payment && fake.more[0].contains("is unknown on that network"), "{fake:?}");
        assert!(altered("/extra/name", json!("USD Coin")).is_err());
        assert!(altered("/extra/version", json!("1")).is_err());
        assert!(altered("/network", json!("eip155:1")).unwrap_err().more[0].contains("play money"));
        // The decimals come from the table of tokens, not from the seller.
        assert_eq!(altered("/extra/decimals", json!(18)).unwrap().usd, MicroUsd(3_000));
        assert!(altered("/amount", json!("115792089237316195423570985008687907853269984665640564039457584007913129639935")).is_err());
    }

    #[test]
    fn many_ways_that_do_not_fit_are_reported_in_few_lines() {
        let refused = chosen(vec![real("1\u{1b}[2J"); 50], &limits(None, 1)).unwrap_err();
        assert_eq!(refused.more.len(), MAX_REASONS + 1);
        assert!(chosen(vec![], &limits(None, 1)).unwrap_err().more.is_empty());
    }
}
