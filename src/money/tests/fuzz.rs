//! Parses random payments as strangers could send them.

use std::sync::LazyLock;

use super::*;

/// Requirements: a fixed and a maximum price on an EVM network, and a price on Solana.
static ASKED: LazyLock<Vec<(WireVersion, Vec<Value>)>> = LazyLock::new(|| {
    let all = |version| {
        let networks =
            [("eip155:84532", PAY_TO), ("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "EGBQqKn968sVv5cQh5Cr72pSTHfxsuzq7o7asqYB5uEV")];
        let fixed = networks.map(|(network, pay_to)| accepts(&PaymentConfig::for_network(network, pay_to).unwrap(), &terms(), version));
        let metered = CallTerms { metered: true, ..terms() };
        let mut most = accepts(&config(), &metered, version);
        most[0]["extra"]["facilitatorAddress"] = json!("0x209693Bc6afc0C5328bA36FaF03C514EF312287C");
        [fixed.concat(), most].concat()
    };
    [WireVersion::V1, WireVersion::V2].map(|version| (version, all(version))).into()
});

/// Checks that a payment's id is the same before and after matching, whatever the requirements, and that a matched
/// payment meets the requirements and can be parsed again from its intent.
fn holds(version: WireVersion, header: &str, accepts: &[Value]) {
    let Ok(shown) = ShownPayment::decode(version, header) else { return };
    let known = shown.known();
    let Ok(mut payment) = shown.matching(&terms(), accepts.to_vec()) else { return };
    assert!(accepts.contains(&payment.requirements));
    assert_eq!(known.map(|(id, _)| id), Some(payment.id()));
    assert_eq!(payment.requirements["asset"], payment.asset.address);
    let again = OfferedX402::from_parts(version, payment.payload.clone(), payment.requirements.clone()).expect("an intent reads");
    assert_eq!((again.id(), again.payer(), again.amount()), (payment.id(), payment.payer(), payment.amount()));
    assert_eq!((&again.client_id, again.valid_before_secs()), (&payment.client_id, payment.valid_before_secs()));
    assert_eq!(payment.is_signed_by_key(), again.is_signed_by_key());
    if payment.permit().is_some() {
        assert_eq!(payment.amount(), PRICE.0.to_string());
    }
    payment.charge(MicroUsd(1));
    assert!(payment.permit().is_none() || payment.amount() == "1");
}

#[test]
fn payment_is_the_same_one_wherever_it_is_read() {
    tollhouse_fuzz::check("payment", |bytes| {
        let header = String::from_utf8_lossy(bytes);
        for (version, accepts) in &*ASKED {
            holds(*version, &header, accepts);
            if header.starts_with('{') && header.len() < 8_192 {
                let packed = STANDARD.encode(&*header);
                let known = |header: &str| ShownPayment::decode(*version, header).map(|shown| shown.known());
                assert_eq!(known(&header).ok(), known(&packed).ok(), "in base64 it is the same payment");
                holds(*version, &packed, accepts);
            }
        }
    });
}
