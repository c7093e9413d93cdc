use super::*;

const EVM: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const SOL: &str = "7v54NWdBtkjuAFJrLGsS2SXnuk8nKam81mZJeeYxVFi9";

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

/// Returns complete settings for a host on several networks.
fn several() -> MoneyFlags {
    MoneyFlags {
        facilitator: Some(FacilitatorKind::Evm),
        facilitator_url: Some("https://x402.example".to_owned()),
        network_facilitator: list("solana=http,polygon=https://other.example"),
        pay_to: Some(EVM.to_owned()),
        pay_to_solana: Some(SOL.to_owned()),
        network: list("base, solana,eip155:137,celo"),
        asset: list("celo=USDT,celo=usdc"),
        rpc_url: Some("https://base.example".to_owned()),
        network_rpc_url: vec![HiddenValue::from("celo=https://celo.example/key=1".to_owned())],
        gas_key: Some(HiddenValue::from("11".repeat(32))),
        ..MoneyFlags::default()
    }
}

fn resolved(flags: MoneyFlags) -> Result<MoneySettings, SettingsError> {
    flags.resolve("127.0.0.1:4020".parse().unwrap(), true)
}

fn refused(change: impl FnOnce(&mut MoneyFlags)) -> String {
    let mut flags = several();
    change(&mut flags);
    resolved(flags).unwrap_err().to_string()
}

#[test]
fn a_host_without_settings_plays_on_base_sepolia() {
    let networks = resolved(MoneyFlags::default()).unwrap().networks;
    let [only] = &networks[..] else { panic!("{networks:?}") };
    assert_eq!((only.network.caip2, only.facilitator), (DEFAULT_NETWORK, FacilitatorKind::Simulated));
    assert_eq!(only.accepted.iter().map(|accepted| accepted.asset.symbol).collect::<Vec<_>>(), ["USDC"]);
    assert_eq!(only.accepted[0].pay_to.to_lowercase(), SIMULATED_PAY_TO);
}

#[test]
fn each_network_has_its_own_facilitator_node_address_and_tokens() {
    let networks = resolved(several()).unwrap().networks;
    let listed: Vec<_> = networks
        .iter()
        .map(|on| {
            let tokens: Vec<_> = on.accepted.iter().map(|accepted| (accepted.asset.symbol, accepted.pay_to.as_str())).collect();
            let node = on.rpc_url.as_ref().map(HiddenValue::expose);
            (on.network.name, on.facilitator, on.url.as_deref(), on.known, node, tokens)
        })
        .collect();
    let (evm, http) = (FacilitatorKind::Evm, FacilitatorKind::Http);
    assert_eq!(
        listed,
        [
            ("base", evm, None, true, Some("https://base.example"), vec![("USDC", EVM)]),
            ("solana", http, Some("https://x402.example"), true, None, vec![("USDC", SOL)]),
            // The credentials are not sent to another facilitator.
            ("polygon", http, Some("https://other.example"), false, None, vec![("USDC", EVM)]),
            ("celo", evm, None, true, Some("https://celo.example/key=1"), vec![("USDT", EVM), ("USDC", EVM)]),
        ]
    );
}

#[test]
fn network_has_own_or_common_confirmations() {
    let depths = |flags: MoneyFlags| resolved(flags).unwrap().networks.iter().map(|on| on.confirmations).collect::<Vec<_>>();
    assert_eq!(depths(several()), [1, 1, 1, 1]);
    let own = MoneyFlags { confirmations: Some(2), network_confirmations: list("base=5,celo=64"), ..several() };
    assert_eq!(depths(own), [5, 2, 2, 64]);
}

#[test]
fn impossible_settings_are_reported_in_a_sentence() {
    let reported = [
        (refused(|flags| flags.network_confirmations = list("base=0")), "from 1 to 64"),
        (refused(|flags| flags.network_confirmations = list("base=65")), "from 1 to 64"),
        (refused(|flags| flags.network_confirmations = list("base=many")), "`many` confirmations"),
        (refused(|flags| flags.confirmations = Some(1_000)), "from 1 to 64"),
        (refused(|flags| flags.network_confirmations = list("polygon=5")), "names `eip155:137`, but no node is set there to count blocks"),
        (refused(|flags| flags.network.push("bas".to_owned())), "network `bas` is unknown"),
        (refused(|flags| flags.pay_to_solana = None), "TOLLHOUSE_PAY_TO_SOLANA"),
        (refused(|flags| flags.pay_to_solana = Some(EVM.to_owned())), "32 bytes in base58"),
        (refused(|flags| flags.network_facilitator = list("polygon=http,solana=evm")), "does not settle on `solana:"),
        (refused(|flags| flags.network_facilitator = list("polygon=http,solana=http,celo=simulated")), "play money and real money"),
        (refused(|flags| flags.network_facilitator = list("avalanche=evm,polygon=http,solana=http")), "not among the networks"),
        (refused(|flags| flags.network_facilitator = list("solana")), "`NETWORK=VALUE`"),
        (refused(|flags| flags.network_rpc_url.clear()), "needs a node of `eip155:42220`"),
        (refused(|flags| flags.asset = list("celo=DAI")), "use one of USDC, USDT"),
        (refused(|flags| flags.facilitator_url = None), "X402_FACILITATOR_URL"),
        (refused(|flags| flags.gas_key = None), "TOLLHOUSE_GAS_KEY"),
    ];
    for (message, requested) in reported {
        assert!(message.contains(requested), "{message}");
    }
    let secret = refused(|flags| flags.network_rpc_url.push(HiddenValue::from("https://key.example".to_owned())));
    assert!(!secret.contains("key.example"), "{secret}");
}

/// Regression test: a tool of $5 was sold for $5 of a test network, and its builder was owed $4.75 on Base.
#[test]
fn network_of_tests_beside_a_main_one_is_refused() {
    let on = |networks: &str, facilitator| {
        resolved(MoneyFlags {
            facilitator: Some(facilitator),
            facilitator_url: Some("https://x402.example".to_owned()),
            network: list(networks),
            pay_to: Some(EVM.to_owned()),
            pay_to_solana: Some(SOL.to_owned()),
            ..MoneyFlags::default()
        })
    };
    for networks in ["eip155:8453,eip155:84532", "solana-devnet,solana", "base-sepolia,solana"] {
        let message = on(networks, FacilitatorKind::Http).unwrap_err().to_string();
        assert!(message.contains("is a test network") && message.contains("`TOLLHOUSE_NETWORK`"), "{message}");
    }
    for (networks, facilitator, kind) in [
        ("base,polygon,solana", FacilitatorKind::Http, MoneyKind::Real),
        ("base-sepolia,solana-devnet", FacilitatorKind::Http, MoneyKind::Test),
        ("base,base-sepolia", FacilitatorKind::Simulated, MoneyKind::Simulated),
    ] {
        assert_eq!(on(networks, facilitator).unwrap().kind(), kind, "{networks}");
    }
}

#[test]
fn confirmations_that_no_node_counts_are_refused() {
    let flags = |confirmations| MoneyFlags { confirmations: Some(confirmations), ..MoneyFlags::default() };
    assert!(resolved(flags(1)).is_ok());
    let text = resolved(flags(2)).unwrap_err().to_string();
    assert!(text.contains("`TOLLHOUSE_CONFIRMATIONS` is 2") && text.contains("TOLLHOUSE_RPC_URL"), "{text}");
}

#[test]
fn the_file_names_one_network_or_a_list() {
    for (text, networks) in [("network = \"base\"", 1), ("network = \"base,polygon\"", 2), ("network = [\"base\", \"polygon\"]", 2)] {
        assert_eq!(toml::from_str::<MoneyFlags>(text).unwrap().network.len(), networks);
    }
}

#[test]
fn settlements_are_looked_up_for_a_day_by_default() {
    for (unresolved_after_ms, ms) in [(None, 24 * 60 * 60 * 1_000), (Some(1), 1), (Some(5_000), 5_000)] {
        let settings = resolved(MoneyFlags { unresolved_after_ms, ..MoneyFlags::default() }).unwrap();
        assert_eq!(settings.unresolved_after, Duration::from_millis(ms));
    }
}

#[test]
fn gas_is_weighed_on_real_networks_where_the_host_pays_it() {
    let least = |flags: MoneyFlags| {
        let settings = resolved(flags).unwrap();
        let reported = settings.payments(FailedRuns::default()).least_settlements;
        reported.into_iter().map(|(network, least)| (network.name, least.0)).collect::<Vec<_>>()
    };
    assert_eq!(least(several()), [("base", 1_000), ("celo", 1_000)]);
    let own = list("celo=0.02,polygon=1");
    let set = MoneyFlags { least_settlement_usd: Some(MicroUsd(5)), network_least_settlement_usd: own, ..several() };
    assert_eq!(least(set), [("base", 5), ("celo", 20_000)], "somebody else pays the gas on polygon");
    assert!(least(MoneyFlags { least_settlement_usd: Some(MicroUsd::ZERO), ..several() }).is_empty());
    let on_test = |least_settlement_usd| MoneyFlags {
        facilitator: Some(FacilitatorKind::Evm),
        pay_to: Some(EVM.to_owned()),
        rpc_url: Some("https://sepolia.example".to_owned()),
        gas_key: Some(HiddenValue::from("11".repeat(32))),
        least_settlement_usd,
        ..MoneyFlags::default()
    };
    assert!(least(on_test(None)).is_empty());
    assert_eq!(least(on_test(Some(MicroUsd(7)))), [("base-sepolia", 7)]);
    assert!(least(MoneyFlags { least_settlement_usd: Some(MicroUsd(7)), ..MoneyFlags::default() }).is_empty(), "play money");
    let message = refused(|flags| flags.network_least_settlement_usd = list("base=much"));
    assert!(message.contains("`much`") && message.contains("a number of US dollars"), "{message}");
}
