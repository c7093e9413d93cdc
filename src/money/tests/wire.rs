//! Challenges for stock clients, and invalid headers.

use super::*;

fn decoded(challenge: &X402Challenge) -> Value {
    serde_json::from_slice(&STANDARD.decode(&challenge.v2_header).unwrap()).unwrap()
}

fn challenged(terms: &CallTerms, method: EntryMethod, error: &str) -> X402Challenge {
    let accepts = [WireVersion::V1, WireVersion::V2].map(|version| accepts(&config(), terms, version));
    let signer = ReceiptSigner::open(tempfile::tempdir().unwrap().path()).unwrap();
    let offers = signer.offers(&terms.resource(method), &accepts[1], NOW);
    X402Challenge::new(terms, method, &accepts, &offers, error)
}

fn challenge(terms: &CallTerms) -> X402Challenge {
    challenged(terms, EntryMethod::Post, "payment required")
}

fn reason(decoded: Result<OfferedX402, Refusal>) -> String {
    match decoded {
        Err(Refusal::Invalid { reason, message }) => {
            assert!(!message.is_empty());
            reason
        }
        Err(other) => panic!("{other:?}"),
        Ok(payment) => panic!("accepted: {}", payment.payload),
    }
}

fn paid() -> Value {
    Payer::new(1).payload(&Payer::new(1).authorization(1))
}

#[test]
fn a_header_of_the_greatest_size_is_read() {
    let of_size = |bytes: usize| {
        let text = paid().to_string();
        shown(WireVersion::V2, &format!("{text}{}", " ".repeat(bytes - text.len())), &terms(), &config())
    };
    of_size(16 << 10).unwrap();
    assert_eq!(reason(of_size((16 << 10) + 1)), "invalid_payload");
}

#[test]
fn each_wrong_address_and_nonce_is_reported() {
    for (name, wrong) in [
        ("from", format!("0x{}", "g".repeat(40))),
        ("from", format!("0x{}", "1".repeat(39))),
        ("to", format!("0x{}", "1".repeat(41))),
        ("nonce", format!("0x{}", "1".repeat(63))),
        ("nonce", "1".repeat(64)),
    ] {
        let mut payload = paid();
        payload["payload"]["authorization"][name] = json!(wrong);
        let Err(Refusal::Invalid { message, .. }) = decode(&payload) else { panic!("{name} of {wrong} is accepted") };
        assert!(message.contains("`from` and `to` must be addresses, and `nonce` must be 32 bytes in hex"), "{name} {wrong}: {message}");
    }
}

#[test]
fn a_v2_challenge_has_all_that_a_stock_client_checks() {
    let challenge = challenge(&terms());
    let v2 = decoded(&challenge);
    assert_eq!(v2, challenge.v2);
    assert_eq!((&v2["x402Version"], &v2["error"]), (&json!(2), &json!("payment required")));
    let resource = &v2["resource"];
    assert_eq!(resource["url"], "https://tools.example/tools/sum-up");
    assert_eq!((&resource["mimeType"], &resource["tags"]), (&json!("application/json"), &json!(["maths"])));
    assert!((1..=32).contains(&resource["serviceName"].as_str().unwrap().len()));
    assert_eq!(
        v2["accepts"],
        json!([{
            "scheme": "exact",
            "network": "eip155:84532",
            "amount": "10000",
            "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
            "payTo": PAY_TO,
            "maxTimeoutSeconds": 60,
            "extra": { "name": "USDC", "version": "2" },
        }])
    );
    for (name, extension) in v2["extensions"].as_object().unwrap() {
        assert!(extension["info"].is_object() && extension["schema"].is_object(), "{name}");
        let validator = jsonschema::validator_for(&extension["schema"]).unwrap();
        assert!(validator.is_valid(&extension["info"]), "`info` of {name} does not fit its own schema");
    }
    assert_eq!(v2["extensions"]["payment-identifier"]["info"]["required"], false);
    assert_eq!(v2["extensions"]["bazaar"]["info"]["input"]["body"], json!({ "a": 1 }));
}

#[test]
fn a_v1_challenge_has_all_that_the_strictest_client_checks() {
    let v1 = challenge(&terms()).v1;
    assert_eq!((&v1["x402Version"], &v1["error"]), (&json!(1), &json!("payment required")));
    let accepts = &v1["accepts"][0];
    for text in ["scheme", "network", "maxAmountRequired", "resource", "description", "mimeType", "payTo", "asset"] {
        assert!(accepts[text].as_str().is_some_and(|text| !text.is_empty()), "{text}");
    }
    assert_eq!((&accepts["scheme"], &accepts["network"]), (&json!("exact"), &json!("base-sepolia")));
    assert_eq!(accepts["maxAmountRequired"], "10000");
    assert!(accepts["outputSchema"].is_object() && accepts["maxTimeoutSeconds"].is_u64());
    assert_eq!(accepts["extra"], json!({ "name": "USDC", "version": "2" }));
}

#[test]
fn header_fits_a_stock_proxy_for_any_tool() {
    let mut huge = terms();
    let properties: serde_json::Map<_, _> = (0..5_000).map(|n| (format!("field-{n}"), json!({ "type": "string" }))).collect();
    huge.input_schema = Arc::new(json!({ "type": "object", "properties": properties }));
    huge.output_schema = Arc::clone(&huge.input_schema);
    huge.description = "\u{1}漢\"".repeat(5_000);
    huge.tags = ["", "x".repeat(33).as_str(), "kanji 漢", "a\nb", "one", "two", "three", "four", "five", "six"].map(str::to_owned).to_vec();
    let challenge = challenged(&huge, EntryMethod::Post, &"why ".repeat(10_000));
    assert!(challenge.v2_header.len() <= 3_400, "{}", challenge.v2_header.len());
    let v2 = decoded(&challenge);
    assert!(v2["extensions"]["payment-identifier"].is_object());
    assert_eq!(v2["resource"]["tags"], json!(["one", "two", "three", "four", "five"]));
    assert_eq!(v2["resource"]["description"].as_str().unwrap().chars().count(), 100);
    assert_eq!(challenge.v1["paymentRequired"]["resource"]["description"].as_str().unwrap().chars().count(), 500);
    assert!(v2["error"].as_str().unwrap().len() <= 500);
}

#[test]
fn malformed_headers_are_refused_with_a_reason() {
    let encoded = |text: &str| STANDARD.encode(text);
    let mut deep = "[".repeat(3_000);
    deep.push_str(&"]".repeat(3_000));
    let malformed = [
        String::new(),
        " ".to_owned(),
        "not base64!".to_owned(),
        "====".to_owned(),
        "{".to_owned(),
        "{\"x402Version\":2".to_owned(),
        encoded("not JSON"),
        encoded("{\"x402Version\":2} and more"),
        STANDARD.encode([0xff, 0xfe, 0x00]),
        encoded(&deep),
        "A".repeat(20 << 10),
        format!("{{\"x402Version\":2,\"padding\":\"{}\"}}", "A".repeat(20 << 10)),
    ];
    for version in [WireVersion::V1, WireVersion::V2] {
        for header in &malformed {
            let refused = reason(shown(version, header, &terms(), &config()));
            assert_eq!(refused, "invalid_payload", "{}", &header[..header.len().min(80)]);
        }
        for header in
            ["[]", "null", "1", "\"text\"", "true", "{}", "[{\"x402Version\":2}]", "{\"x402Version\":3}", "{\"x402Version\":\"2\"}"]
        {
            let refused = reason(shown(version, &encoded(header), &terms(), &config()));
            assert_eq!(refused, "invalid_x402_version", "{header}");
        }
    }
    // Each version has its own header.
    assert_eq!(reason(shown(WireVersion::V1, &paid().to_string(), &terms(), &config())), "invalid_x402_version");
}

#[test]
fn every_missing_or_mistyped_field_is_refused() {
    let original = paid();
    assert!(decode(&original).is_ok());
    let required = [
        "/x402Version",
        "/accepted",
        "/accepted/scheme",
        "/accepted/network",
        "/accepted/amount",
        "/accepted/asset",
        "/accepted/payTo",
        "/accepted/maxTimeoutSeconds",
        "/accepted/extra",
        "/accepted/extra/name",
        "/accepted/extra/version",
        "/payload",
        "/payload/signature",
        "/payload/authorization",
        "/payload/authorization/from",
        "/payload/authorization/to",
        "/payload/authorization/value",
        "/payload/authorization/validAfter",
        "/payload/authorization/validBefore",
        "/payload/authorization/nonce",
    ];
    for pointer in required {
        for wrong in [json!(null), json!([]), json!({}), json!(7), json!(""), json!("0x"), json!(true), json!([null])] {
            let mut payload = original.clone();
            *payload.pointer_mut(pointer).unwrap() = wrong.clone();
            // The facilitator checks the signature. Every other field is checked here.
            if !(pointer.ends_with("/signature") && wrong.is_string()) {
                reason(decode(&payload));
            }
        }
        let mut payload = original.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        payload.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
        reason(decode(&payload));
    }
    for (pointer, wrong) in [
        ("from", json!(format!("0x{}", "g".repeat(40)))),
        ("from", json!(format!("0x{}", "a".repeat(39)))),
        ("to", json!("a".repeat(42))),
        ("nonce", json!(format!("0x{}", "0".repeat(63)))),
        ("nonce", json!(format!("0x{}", "0".repeat(66)))),
    ] {
        let mut payload = original.clone();
        payload["payload"]["authorization"][pointer] = wrong;
        assert_eq!(reason(decode(&payload)), "invalid_payload");
    }
}

#[test]
fn payment_names_exactly_the_requirements() {
    for (pointer, other) in [
        ("/accepted/scheme", json!("upto")),
        ("/accepted/network", json!("eip155:8453")),
        ("/accepted/amount", json!("9999")),
        ("/accepted/amount", json!("010000")),
        ("/accepted/amount", json!(10000)),
        ("/accepted/asset", json!("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")),
        ("/accepted/payTo", json!(Payer::new(2).address())),
        ("/accepted/maxTimeoutSeconds", json!(61)),
        ("/accepted/extra/name", json!("USD Coin")),
        ("/accepted/extra/version", json!("1")),
        ("/accepted/extra", json!({ "name": "USDC", "version": "2", "paymentFlow": "upfront" })),
        ("/resource/url", json!("https://tools.example/tools/cheaper")),
        ("/resource/url", json!("https://tools.example/tools/SUM-UP")),
        ("/resource/url", json!("https://tools.example/tools/sum-up?a=1")),
        ("/resource/url", json!(["https://tools.example/tools/sum-up"])),
    ] {
        let mut payload = paid();
        *payload.pointer_mut(pointer).unwrap() = other;
        assert_eq!(reason(decode(&payload)), "invalid_payment_requirements", "{pointer}");
    }
}

#[test]
fn optional_members_of_a_client_are_accepted() {
    let mut payload = paid();
    payload["accepted"]["extra"]["assetTransferMethod"] = json!("eip3009");
    payload["accepted"]["extra"]["paymentFlow"] = json!("authorization");
    payload["accepted"]["more"] = json!(1);
    payload["payload"]["authorization"]["more"] = json!(1);
    payload["extensions"] = json!({ "of-another": { "info": {} } });
    payload["more"] = json!({});
    assert!(decode(&payload).is_ok());
    payload.as_object_mut().unwrap().remove("resource");
    assert!(decode(&payload).is_ok(), "`resource` is not required");
    let header = format!(" {payload}");
    assert!(shown(WireVersion::V2, &header, &terms(), &config()).is_ok(), "JSON as it is");
}

#[test]
fn addresses_and_urls_are_compared_by_value() {
    let mut payload = paid();
    for field in ["asset", "payTo"] {
        let lower = payload["accepted"][field].as_str().unwrap().to_lowercase();
        payload["accepted"][field] = json!(lower);
    }
    payload["resource"]["url"] = json!("https://TOOLS.example/tools/sum-up/");
    let payment = decode(&payload).unwrap();
    assert_eq!(payment.payload["accepted"]["asset"], payment.requirements["asset"], "a facilitator gets the spelling that was asked for");
    assert_eq!(payment.payload["accepted"]["payTo"], payment.requirements["payTo"]);
}

#[test]
fn a_header_is_base64_of_either_alphabet_padded_or_not() {
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
    let payer = Payer::new(1);
    let payloads = [(WireVersion::V1, payer.payload_v1(&payer.authorization(1))), (WireVersion::V2, paid())];
    for (version, mut payload) in payloads {
        // Bytes whose base64 has `+` and `/`.
        payload["more"] = json!("???>>>ÿÿÿ~~~");
        for spaces in 0..3 {
            let text = format!("{}{payload}", " ".repeat(spaces));
            for header in [STANDARD.encode(&text), STANDARD_NO_PAD.encode(&text), URL_SAFE.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                assert!(shown(version, &header, &terms(), &config()).is_ok(), "{header}");
            }
        }
        let marked = STANDARD.encode(format!("\u{feff}{payload}"));
        assert!(shown(version, &marked, &terms(), &config()).is_ok());
    }
}

#[test]
fn a_signature_with_v_0_or_1_is_settled_with_27_or_28() {
    let mut payload = paid();
    let usual = payload["payload"]["signature"].as_str().unwrap().to_owned();
    let (rest, v) = usual.split_at(usual.len() - 2);
    let small = format!("{rest}{}", if v == "1b" { "00" } else { "01" });
    payload["payload"]["signature"] = json!(small);
    let payment = decode(&payload).unwrap();
    assert_eq!(payment.payload["payload"]["signature"], json!(usual), "as it is settled");
    let (_, signature) = payment.order().unwrap();
    assert!(signature == usual && payment.is_signed_by_key() == Some(true));
    // A signature that is not by a key may be a contract wallet's, whose last byte has another meaning.
    payload["payload"]["authorization"]["validBefore"] = json!("99999999999");
    assert_eq!(decode(&payload).unwrap().payload["payload"]["signature"], json!(small));
}

#[test]
fn the_form_of_a_signature_that_no_token_takes_is_named() {
    let payment = decode(&paid()).unwrap();
    assert_eq!(payment.signed.format_error(), None);
    let usual = paid()["payload"]["signature"].as_str().unwrap().to_owned();
    for (signature, word) in [
        (usual[..usual.len() - 2].to_owned(), "compact"),
        (format!("{}1d", &usual[..usual.len() - 2]), "`v` is 29"),
        (usual[2..].to_owned(), "0x"),
        (format!("0x{}{}1b", &usual[2..66], "f".repeat(64)), "upper half"),
        ("0x12".to_owned(), "1 bytes"),
        (format!("{usual}{}", "6492".repeat(16)), "ERC-6492"),
    ] {
        let mut payload = paid();
        payload["payload"]["signature"] = json!(signature);
        let flaw = decode(&payload).unwrap().signed.format_error().unwrap();
        assert!(flaw.contains(word), "{flaw}");
    }
}

#[test]
fn an_edit_of_words_and_examples_between_challenge_and_payment_refuses_nothing() {
    let old = crate::CallTerms { input_schema: std::sync::Arc::new(json!({ "type": "object", "examples": [{ "a": 1 }] })), ..terms() };
    let mut payload = paid();
    payload["extensions"] = challenge(&old).v2["extensions"].clone();
    payload["extensions"]["bazaar"]["info"]["description"] = json!("buy elsewhere");
    let payment = decode(&payload).unwrap();
    let reported = &payment.payload["extensions"]["bazaar"];
    assert_eq!(reported["info"]["input"]["body"], json!({ "a": 1 }), "a facilitator gets the current description");
    assert!(!reported.to_string().contains("elsewhere"), "{reported}");
}

#[test]
fn extensions_that_come_back_changed_are_refused() {
    let advertised = challenge(&terms()).v2["extensions"].clone();
    let mut payload = paid();
    payload["extensions"] = advertised.clone();
    assert!(decode(&payload).is_ok(), "echoed as it is");
    payload["extensions"]["bazaar"]["info"]["more"] = json!(1);
    assert!(decode(&payload).is_ok(), "appended to");
    for (pointer, other) in [
        ("/extensions/bazaar/info/input/method", json!("GET")),
        ("/extensions/bazaar/info/input/type", json!("mcp")),
        ("/extensions/bazaar/info/input", json!({ "type": "mcp", "toolName": "another" })),
        ("/extensions/payment-identifier/info/required", json!(true)),
        ("/extensions/payment-identifier/info", json!({})),
        ("/extensions/payment-identifier", json!("yes")),
        ("/extensions/offer-receipt/info/offers", json!(null)),
    ] {
        payload["extensions"] = advertised.clone();
        *payload.pointer_mut(pointer).unwrap() = other;
        assert_eq!(reason(decode(&payload)), "extension_echo_mismatch", "{pointer}");
    }
}

#[test]
fn a_v1_payment_of_another_scheme_or_network_is_refused() {
    let payer = Payer::new(1);
    let decode = |payload: &Value| shown(WireVersion::V1, &STANDARD.encode(payload.to_string()), &terms(), &config());
    let payload = payer.payload_v1(&payer.authorization(1));
    let payment = decode(&payload).unwrap();
    assert_eq!((payment.version, payment.requirements["maxAmountRequired"].as_str()), (WireVersion::V1, Some("10000")));
    let other = |field: &str, value: Value| {
        let mut payload = payload.clone();
        payload[field] = value;
        reason(decode(&payload))
    };
    assert_eq!(other("scheme", json!("upto")), "invalid_scheme");
    assert_eq!(other("scheme", json!(null)), "invalid_scheme");
    assert_eq!(other("network", json!("base")), "invalid_network");
    assert_eq!(other("network", json!("eip155:84532")), "invalid_network");
    assert_eq!(other("x402Version", json!(2)), "invalid_x402_version");
}

#[test]
fn ids_of_clients_have_a_form() {
    let named = |id: Value| {
        let mut payload = paid();
        payload["extensions"] = json!({ "payment-identifier": { "info": { "required": false, "id": id } } });
        decode(&payload)
    };
    for good in ["a".repeat(16), "Z9_-".repeat(32)] {
        assert_eq!(named(json!(good)).unwrap().client_id, Some(good));
    }
    assert_eq!(named(json!(null)).unwrap().client_id, None);
    let bad = ["a".repeat(15), "a".repeat(129), "a/b".repeat(6), "ü".repeat(10), String::new(), format!("{} ", "a".repeat(16))];
    for bad in bad.iter().map(|bad| json!(bad)).chain([json!(1234567890123456u64), json!(["a"]), json!({})]) {
        assert!(matches!(named(bad), Err(Refusal::Misnamed)));
    }
}

#[test]
fn payment_ids_read_back() {
    let id = Payer::new(1).payment(1).id();
    assert_eq!(id.as_str().parse::<PaymentId>().unwrap(), id);
    for wrong in ["", "pmt_", "pmt_xyz", &id.as_str().to_uppercase(), &format!("{id}0"), &id.as_str()[4..]] {
        assert!(wrong.parse::<PaymentId>().is_err(), "{wrong}");
    }
    assert_ne!(Payer::new(1).payment(2).id(), id);
    assert_ne!(Payer::new(2).payment(1).id(), id);
}
