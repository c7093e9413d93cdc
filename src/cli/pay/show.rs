//! Prints the result of a call: the response on standard output, as the tool sent it, and one line about the payment on
//! standard error.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use tollhouse_call::is_json_type;
use tollhouse_money::Network;

use super::{Arrival, Progress, Reply, SentPayment, Settlement, proof::ReceiptProof, usd};
use crate::base::{Result, block, first, json_text_for_people, line, write};

/// Writes a response: its bytes unchanged. To a terminal, which bytes could control, it writes readable text. Writes nothing
/// again that a [`Printer`] has written.
pub(crate) fn answer(reply: &Reply, with_head: bool) -> Result {
    let is_terminal = io::stdout().is_terminal();
    if reply.is_reported {
        let is_open = is_terminal && !reply.body.is_empty() && !reply.body.ends_with(b"\n");
        return if is_open { write(b"\n") } else { Ok(()) };
    }
    if with_head {
        write(head(reply).as_bytes())?;
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

fn head(reply: &Reply) -> String {
    let mut head = format!("HTTP {}\n", reply.status);
    for (name, value) in &reply.headers {
        _ = writeln!(head, "{name}: {}", line(&String::from_utf8_lossy(value.as_bytes())));
    }
    head + "\n"
}

/// Prints what arrives before a response is complete: progress, and the pieces of a streamed body.
pub(crate) struct Printer {
    with_head: bool,
    is_terminal: bool,
    /// The first bytes of a character whose others have not arrived.
    cut: Vec<u8>,
}

impl Printer {
    pub(crate) fn new(with_head: bool) -> Self {
        Self { with_head, is_terminal: io::stdout().is_terminal(), cut: Vec::new() }
    }

    /// Prints an arrival. If standard output cannot be written, the rest of the response is read anyway.
    pub(crate) fn print(&mut self, arrival: Arrival<'_>) {
        match arrival {
            Arrival::Progress(reported) => progress(&reported),
            Arrival::Piece { head: reply, bytes } => {
                if std::mem::take(&mut self.with_head) {
                    _ = write(head(reply).as_bytes());
                }
                _ = if self.is_terminal { write(self.readable(bytes).as_bytes()) } else { write(bytes) };
            }
        }
    }

    /// Returns readable text for the next bytes. Keeps the beginning of a character that is not complete.
    fn readable(&mut self, bytes: &[u8]) -> String {
        self.cut.extend_from_slice(bytes);
        // A line feed may follow a carriage return.
        let of_line = usize::from(self.cut.ends_with(b"\r"));
        let cut = self.cut.utf8_chunks().last().filter(|last| is_beginning(last.invalid())).map_or(of_line, |last| last.invalid().len());
        let rest = self.cut.split_off(self.cut.len() - cut);
        block(&String::from_utf8_lossy(&std::mem::replace(&mut self.cut, rest)), "")
    }
}

/// Returns whether bytes are the beginning of a character in UTF-8.
fn is_beginning(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Prints a progress report of a tool.
fn progress(reported: &Progress) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_between_characters_and_cannot_control_a_terminal() {
        let mut printer = Printer { with_head: false, is_terminal: true, cut: Vec::new() };
        let text = "näh \u{1f600}\r\n\u{1b}[2J\n".as_bytes();
        let pieces: String = text.iter().map(|byte| printer.readable(&[*byte])).collect();
        assert_eq!(pieces, block(str::from_utf8(text).unwrap(), ""));
        assert_eq!(printer.readable(&[0xff, b'a']), "\u{fffd}a");
        assert!(printer.cut.is_empty());
    }
}
