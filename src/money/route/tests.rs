use super::*;

const BASE: &str = "eip155:8453";

fn due(network: &str, micros: u128) -> AmountDue {
    AmountDue::of(network, "USDC", micros).unwrap()
}

fn start(network: &str, asset: &str) -> RouteStart {
    RouteStart { network: Some(network.to_owned()), asset: Some(asset.to_owned()), address: None }
}

async fn found(network: &str, asset: &str, due: &AmountDue) -> Result<Route, RouteError> {
    TableRoutes.route(&start(network, asset), due).await
}

#[tokio::test]
async fn amounts_are_computed_backwards_and_rounded_up() {
    let route = found("ethereum", "eth", &due(BASE, 2_000)).await.unwrap();
    assert!(route.indicative);
    assert_eq!((route.estimated_cost.cost_usd, route.estimated_cost.all_in_usd), (MicroUsd(2_006_578), MicroUsd(2_008_578)));
    assert_eq!((&*route.start.amount, &*route.start.asset), ("0.000669526", "ETH"));
    let steps: Vec<_> = route.route.steps.iter().map(|step| (step.kind, step.cost_usd.0, step.seconds)).collect();
    assert_eq!(steps, [("swap", 906_026, 24), ("bridge", 1_100_552, 84)]);
    let positions: Vec<_> = route.route.steps.iter().map(|step| step.step).collect();
    assert_eq!((positions, route.route.seconds), (vec![1, 2], 24 + 84 + 2));
    assert_eq!((&*route.settlement.amount, &*route.settlement.amount_atomic, route.handoff.kind), ("0.002", "2000", "wallet"));
    for (network, asset, kind, cost) in
        [("bank", "EUR", "bank", 253_838), ("exchange", "USDC", "exchange", 100_000), ("base", "USDC", "none", 0)]
    {
        let route = found(network, asset, &due(BASE, 2_000)).await.unwrap();
        assert_eq!((route.handoff.kind, route.estimated_cost.cost_usd), (kind, MicroUsd(cost)), "{network}");
    }
}

#[tokio::test]
async fn asset_that_payments_use_is_not_swapped() {
    let route = found("ethereum", "USDC", &due(BASE, 2_000)).await.unwrap();
    let kinds: Vec<_> = route.route.steps.iter().map(|step| step.kind).collect();
    assert_eq!(kinds, ["bridge"]);
    assert_eq!(route.estimated_cost.cost_usd, MicroUsd(1_100_552), "its fee, and its share of the amount");
    let euros = found("exchange", "EUR", &due(BASE, 2_000)).await.unwrap();
    assert_eq!(euros.estimated_cost.cost_usd, MicroUsd(100_616), "a sale there costs its share too");
}

/// From an exchange it costs 100,000 micro-dollars, whatever the amount.
#[tokio::test]
async fn route_that_costs_more_than_the_call_states_for_how_many_calls_it_pays_off() {
    for (micros, calls) in [(2_000, Some("1000 calls")), (99_999, Some("21 calls")), (100_000, None), (100_001, None)] {
        let notes = found("exchange", "USDC", &due(BASE, micros)).await.unwrap().notes;
        let reported = notes.iter().find(|note| note.contains("enough for many calls"));
        assert_eq!(reported.is_some(), calls.is_some(), "{micros}: {notes:?}");
        assert!(reported.is_none_or(|note| note.contains(calls.unwrap_or_default())), "{micros}: {notes:?}");
    }
}

#[tokio::test]
async fn every_way_of_the_table_adds_up() {
    for target in table::PLACES.iter().filter_map(|position| Network::named(position.ids.last()?)) {
        for position in table::PLACES {
            for asset in position.assets {
                for micros in [1, 2_000, 999_999, MicroUsd::MAX.0] {
                    let due = due(target.caip2, u128::from(micros));
                    let Ok(route) = found(position.ids[0], asset, &due).await else {
                        assert!(matches!(position.exit.by, table::Mover::Nothing(_)), "{} {asset}", position.name);
                        continue;
                    };
                    let costs: u64 = route.route.steps.iter().map(|step| step.cost_usd.0).sum();
                    assert_eq!(costs, route.estimated_cost.cost_usd.0);
                    assert_eq!(costs + micros, route.estimated_cost.all_in_usd.0);
                    assert!(route.route.steps.windows(2).all(|pair| pair[0].receive == pair[1].spend), "{:?}", route.route.steps);
                    assert!(route.route.steps.last().is_none_or(|last| last.receive.usd.0 == micros));
                }
            }
        }
    }
}

#[tokio::test]
async fn unknown_asset_is_refused_with_the_list_of_known_ones() {
    let refused = async |network: &str, asset: &str| found(network, asset, &due(BASE, 1)).await.unwrap_err();
    let RouteError::Start { pointer, known, message } = refused("moon", "USDC").await else { panic!("refused") };
    assert!(pointer == "/startNetwork" && known.contains(&"solana".to_owned()) && message.contains("base, base-sepolia"), "{message}");
    let RouteError::Start { pointer, known, .. } = refused("solana", "ETH").await else { panic!("refused") };
    assert_eq!((pointer, known), ("/startAsset", ["USDC", "SOL", "USDT"].map(str::to_owned).to_vec()));
    assert!(matches!(refused("base-sepolia", "USDC").await, RouteError::NoRoute(_)), "play money is worth nothing elsewhere");
}

#[tokio::test]
async fn a_test_network_has_its_own_money_and_reports_it() {
    let due = due("eip155:84532", 2_000);
    let own = found("base-sepolia", "USDC", &due).await.unwrap();
    assert!(own.route.steps.is_empty() && own.notes.iter().any(|note| note.contains("worth nothing")));
    let other = found("polygon", "USDC", &due).await.unwrap();
    assert!(other.notes.iter().any(|note| note.contains("faucet")), "{:?}", other.notes);
    assert_eq!(other.settlement.network, "eip155:84532");
    let unsaid = TableRoutes.route(&RouteStart::default(), &due).await.unwrap();
    assert_eq!((unsaid.handoff.kind, unsaid.estimated_cost.cost_usd), ("none", MicroUsd::ZERO));
}

#[tokio::test]
async fn free_call_needs_no_signature() {
    for (micros, action) in [(0, "nothing is to be paid"), (1, "Sign the x402 payment")] {
        let handoff = found("base", "USDC", &due(BASE, micros)).await.unwrap().handoff;
        assert!(handoff.kind == "none" && handoff.actions.len() == 1 && handoff.actions[0].contains(action), "{:?}", handoff.actions);
    }
}

#[test]
fn nearest_offer_is_on_the_payers_network() {
    let dues = [due("eip155:84532", 1), due("eip155:137", 1)];
    for (called, network) in [("matic", "eip155:137"), ("eip155:137", "eip155:137"), ("ethereum", "eip155:84532")] {
        assert_eq!(nearest(&dues, &start(called, "USDC")).unwrap().asset.network.caip2, network);
    }
    assert_eq!(nearest(&[], &RouteStart::default()), None);
    assert_eq!(AmountDue::of("eip155:84532", "0x0", 1), None);
}
