//! Prints the result of a call: the response on standard output, as the tool sent it, and one line about the payment on
//! standard error.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use tollhouse_call::is_json_type;
use tollhouse_money::Network;

use super::{Progress, Reply, SentPayment, Settlement, proof::ReceiptProof, usd};
use crate::base::{Result, block, first, json_text_for_people, line, write};

/// Writes a response: its bytes unchanged. To a terminal, which bytes could control, it writes readable text.
pub(crate) fn answer(reply: &Reply, with_head: bool) -> Result {
    let is_terminal = io::stdout().is_terminal();
    if with_head {
        let mut head = format!("HTTP {}\n", reply.status);
        for (name, value) in &reply.headers {
            _ = writeln!(head, "{name}: {}", line(&String::from_utf8_lossy(value.as_bytes())));
        }
        write((head + "\n").as_bytes())?;
    }
    if is_terminal {
        let is_json = reply.header("content-type").is_none_or(is_json_type);
        let json = if is_json { str::from_utf8(&reply.body).ok().and_then(json_text_for_people) } else { None };
        let text = json.unwrap_or_else(|| block(&String::from_utf8_lossy(&reply.body), ""));
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        write((text + end).as_bytes())
    } else {
        write(&reply.body)
    }
}

/// Prints a progress report of a tool.
pub(crate) fn progress(reported: &Progress) {
    let share = reported.fraction.map(|share| format!("{:>3.0} %  ", (share * 100.0).clamp(0.0, 100.0))).unwrap_or_default();
    let message = reported.message.as_deref().map(|message| first(message, 500)).unwrap_or_default();
    if reported.message.is_some() || reported.fraction.is_some() {
        _ = writeln!(io::stderr(), "{:>5.1} s  {share}{message}", Duration::from_millis(reported.elapsed_ms).as_secs_f64());
    }
}

/// Prints the amount that was paid in one line, and in a second line any problem with the receipt.
pub(crate) fn paid(sent: &SentPayment, settlement: Option<&Settlement>, proof: &ReceiptProof, elapsed: Duration) {
    let price = proof.record.as_ref().map(|record| record.draft.price_usd);
    let taken = price.or(settlement.and_then(|settled| settled.taken)).unwrap_or(sent.usd);
    let mut reported = match settlement {
        _ if sent.by_credit => format!("paid {} by credit", usd(taken)),
        Some(_) if sent.max => format!("paid {} of up to {}", usd(taken), usd(sent.usd)),
        Some(_) => format!("paid {}", usd(taken)),
        None => format!("answered; it is not known whether {} was charged, so it counts as charged", usd(sent.usd)),
    };
    reported += marked(sent, proof);
    match (&proof.id, settlement.map(|settled| settled.transaction.as_str()).filter(|transaction| !transaction.is_empty())) {
        (Some(id), _) => _ = write!(reported, "  {id}"),
        (None, Some(transaction)) => _ = write!(reported, "  {}", first(transaction, 100)),
        (None, None) => {}
    }
    _ = writeln!(io::stderr(), "{reported}  {}  {:.1} s", sent.payment_id, elapsed.as_secs_f64());
    warn(proof);
}

/// Prints the line for a call that cost nothing.
pub(crate) fn free(proof: &ReceiptProof, elapsed: Duration) {
    let id = proof.id.as_ref().map(|id| format!("  {id}")).unwrap_or_default();
    _ = writeln!(io::stderr(), "free{id}  {:.1} s", elapsed.as_secs_f64());
    warn(proof);
}

fn warn(proof: &ReceiptProof) {
    if let (Some(id), Some(wrong)) = (&proof.id, &proof.wrong) {
        _ = writeln!(io::stderr(), "warning: the receipt {id} is not valid: {}", first(wrong, 300));
    }
}

/// Returns the suffix of an amount that is not real money.
fn marked(sent: &SentPayment, proof: &ReceiptProof) -> &'static str {
    let network = sent.token.as_ref().and_then(|token| Network::named(&token.network));
    match &proof.record {
        Some(record) if record.simulated => " (simulated)",
        _ if network.is_some_and(|network| network.is_test) => " (test money)",
        _ => "",
    }
}

/// Shortens an address so that people can tell addresses apart: `0x209…cB2`.
pub(crate) fn short(address: &str) -> String {
    let length = address.chars().count();
    if length <= 12 {
        return line(address);
    }
    let chars = address.chars();
    line(&chars.clone().take(5).chain(['…']).chain(chars.skip(length - 3)).collect::<String>())
}
