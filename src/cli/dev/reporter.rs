//! Prints all events, one line each: publishes, types, cases, calls and logs.

use jiff::{Zoned, tz::TimeZone};
use serde_json::{Value, json};
use tollhouse_base::clock::Clock;
use tollhouse_call::ERROR_STATUS;

use crate::{
    base::{
        error::Result,
        output::{Output, Style},
        sanitize::{block, json as on_one_line, line},
        text::{clock, text, usd},
    },
    tool::{position::Problem, source_map},
    trial::stack,
};

/// Prefix of the second and later lines of a message.
const MARGIN: &str = "            | ";

/// Prints events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reporter {
    out: Output,
}

impl Reporter {
    pub(super) fn new(out: Output) -> Self {
        Self { out }
    }

    pub(super) fn out(self) -> Output {
        self.out
    }

    /// Prints an event that happens now: an object with `members` for programs, a line for people.
    pub(super) fn event(self, name: &str, members: Value, words: &str) -> Result {
        if !self.out.json {
            return self.out.text(&format!("{}  {words}\n", now()));
        }
        let mut event = json!({ "event": name, "at": Clock::default().now() });
        if let (Some(event), Value::Object(members)) = (event.as_object_mut(), members) {
            event.extend(members);
        }
        self.out.object(&event)
    }

    /// Prints a line that continues the previous one. Prints nothing for programs.
    pub(super) fn aside(self, words: &str) -> Result {
        if self.out.json { Ok(()) } else { self.out.text(&format!("{words}\n")) }
    }

    pub(super) fn problem(self, problem: &Problem) -> Result {
        let word = match problem.by {
            "types" => "types ",
            "cases" => "cases ",
            _ => "error ",
        };
        self.event("problem", json!({ "problem": problem }), &format!("{}  {problem}", self.out.paint(Style::Bad, word)))
    }

    /// Prints a call and the log lines of its handler.
    pub(super) fn call(self, call: &Value) -> Result {
        if self.out.json {
            return self.out.object(&json!({ "event": "call", "call": call }));
        }
        let paint = if text(call, "outcome") == "succeeded" { Style::Good } else { Style::Bad };
        let ended = self.out.paint(paint, &ended(call));
        let millis = |name: &str| call[name].as_f64().map(|millis| format!("{millis:.1} ms"));
        let mut parts = vec![ended];
        parts.extend(millis("durationMs"));
        parts.extend(millis("cpuMs").map(|cpu| format!("cpu {cpu}")));
        parts.push(match (call["owner"] == true, &call["charged"]) {
            (true, _) => "yours, free".to_owned(),
            (false, Value::Bool(true)) => format!("{} settled (simulated)", usd(call, "priceUsd")),
            (false, Value::Bool(false)) => "nothing was charged".to_owned(),
            (false, _) => "charged: not known yet".to_owned(),
        });
        parts.push(line(text(call, "receiptId")));
        parts.push(block(text(call, "error"), MARGIN));
        parts.retain(|part| !part.is_empty());
        self.out.text(&format!("{}  {}\n", clock(call, "at"), parts.join("  ")))
    }

    /// Prints a log line of a handler, with stack locations mapped to the folder's files.
    pub(super) fn log(self, folder: &std::path::Path, entry: &Value) -> Result {
        let own = stack(entry).and_then(|stack| source_map::first_own(folder, &stack));
        if self.out.json {
            return self.out.object(&json!({ "event": "log", "log": entry, "place": own }));
        }
        let level = text(entry, "level");
        let paint = match level {
            "error" => Style::Bad,
            "warn" => Style::Odd,
            _ => Style::Quiet,
        };
        let mut fields = entry["fields"].clone();
        let reported = stack(entry).map(|stack| source_map::rewrite_path(folder, &stack));
        if reported.is_some() {
            fields.as_object_mut().map(|fields| fields.remove("stack"));
        }
        let has_fields = fields.as_object().is_some_and(|fields| !fields.is_empty());
        let fields = if has_fields { format!("  {}", on_one_line(&fields)) } else { String::new() };
        let message = block(text(entry, "message"), MARGIN);
        let level = self.out.paint(paint, &format!("{:>6}", line(level)));
        let mut told_lines = format!("{}  {level}  {message}{fields}\n", clock(entry, "at"));
        // Log texts are on one line.
        for frame in reported.iter().flat_map(|reported| reported.split("    at ").skip(1)) {
            told_lines += &format!("{MARGIN}at {}\n", line(frame.trim()));
        }
        self.out.text(&told_lines)
    }
}

/// Formats the method and outcome of a call: `POST 200` if its handler answered, else the reason:
/// `POST handler_failed`.
fn ended(call: &Value) -> String {
    let code = text(call, "code");
    let answered = call["status"].as_u64().filter(|_| code.is_empty() || code == ERROR_STATUS);
    let how = answered.map_or_else(|| line(code), |status| status.to_string());
    format!("{} {how}", line(text(call, "method")))
}

fn now() -> String {
    let now = i64::try_from(Clock::default().now().0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    now.map(|now| Zoned::new(now, TimeZone::system()).strftime("%H:%M:%S").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_reported_by_its_method_and_what_it_was_answered() {
        for (call, reported) in [
            (json!({ "method": "POST", "status": 200, "outcome": "succeeded" }), "POST 200"),
            (json!({ "method": "GET", "status": 201, "outcome": "succeeded" }), "GET 201"),
            (json!({ "method": "POST", "status": 422, "outcome": "failed", "code": ERROR_STATUS }), "POST 422"),
            (json!({ "method": "POST", "outcome": "failed", "code": "handler_failed" }), "POST handler_failed"),
            // The handler answered, but then the payment was refused.
            (json!({ "method": "POST", "status": 200, "outcome": "failed", "code": "payment_required" }), "POST payment_required"),
            (json!({ "method": "POST", "outcome": "failed", "code": "forged\n\u{1b}[2J" }), "POST forgedU+000AU+001B[2J"),
        ] {
            assert_eq!(ended(&call), reported, "{call}");
        }
    }
}
