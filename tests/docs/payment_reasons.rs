//! Checks that the page of error codes has advice for each x402 code with which a host rejects a payment.

use std::collections::BTreeSet;

use super::{read, root};

const DOCUMENT: &str = "docs/error-codes.md";
const SECTION: &str = "### Reasons of a 402\n";

/// The table of the reasons of facilitators. It has no other texts with underscores.
const TABLE: &str = "src/money/facilitator/reason.rs";

/// Files with reasons of the host itself, and how these begin.
const FILES: [&str; 5] = [
    "src/money/x402/offer.rs",
    "src/money/x402/signed.rs",
    "src/money/x402/extensions.rs",
    "src/money/payments/admit.rs",
    "src/money/payments/prior.rs",
];
const BEGINNINGS: [&str; 4] = ["invalid_", "permit2_", "upto_", "extension_"];

/// Returns the texts of a source that have the form of a reason. Tests do not count.
fn reasons(file: &str) -> BTreeSet<String> {
    let text = read(&root().join(file));
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let quoted = code.lines().flat_map(|line| line.split('"').skip(1).step_by(2));
    let is_reason = |text: &&str| text.contains('_') && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    quoted.filter(is_reason).map(str::to_owned).collect()
}

#[test]
fn every_reason_of_a_rejected_payment_has_advice() {
    let mut returned = reasons(TABLE);
    assert!(returned.len() > 40, "{returned:?}");
    let own = FILES.iter().flat_map(|file| reasons(file));
    returned.extend(own.filter(|reason| BEGINNINGS.iter().any(|beginning| reason.starts_with(beginning))));

    let text = read(&root().join(DOCUMENT));
    let (_, section) = text.split_once(SECTION).expect("the document has the section");
    let rows = section.lines().take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let listed: BTreeSet<_> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    assert_eq!(returned, listed, "{DOCUMENT}: on the left the reasons in the code, on the right those with advice");
}
