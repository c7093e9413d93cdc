//! Prints all events, one line each: publishes, types, cases, calls and logs.

use serde_json::{Value, json};
use tollhouse_api::{Call, CallOutcome, Charged, LogLine};
use tollhouse_call::ERROR_STATUS;

use crate::{
    base::{Output, Result, Style, block, clock, json as on_one_line, line, name, now, optional, usd},
    logs::level_style,
    tool::{Problem, source_map},
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
            return self.line(words);
        }
        let mut event = json!({ "event": name, "at": now() });
        if let (Some(event), Value::Object(members)) = (event.as_object_mut(), members) {
            event.extend(members);
        }
        self.out.object(&event)
    }

    /// Prints a line about something that happens now, for people.
    pub(super) fn line(self, words: &str) -> Result {
        self.out.text(&format!("{}  {words}\n", clock(now())))
    }

    /// Prints a line that continues the previous one. Prints nothing for programs.
    pub(super) fn aside(self, words: &str) -> Result {
        self.out.for_people(&format!("{words}\n"))
    }

    pub(super) fn problems<'p>(self, problems: impl IntoIterator<Item = &'p Problem>) -> Result {
        problems.into_iter().try_for_each(|problem| {
            let word = match problem.by {
                "types" => "types ",
                "cases" => "cases ",
                _ => "error ",
            };
            self.event("problem", json!({ "problem": problem }), &format!("{}  {problem}", self.out.paint(Style::Failure, word)))
        })
    }

    /// Prints a call.
    pub(super) fn call(self, call: &Call) -> Result {
        if self.out.json {
            return self.out.object(&json!({ "event": "call", "call": call }));
        }
        let style = if call.outcome == CallOutcome::Succeeded { Style::Good } else { Style::Failure };
        let charged = match (call.owner, call.charged) {
            _ if call.schedule.is_some() => format!("schedule {}", line(call.schedule.as_ref().map_or("", |run| &run.cron))),
            (true, _) => "free for the owner".to_owned(),
            (_, Charged::Yes) => format!("{} settled (simulated)", usd(call.price_usd)),
            (_, Charged::No) => "nothing was charged".to_owned(),
            (_, Charged::Unknown) => "not known yet whether it was charged".to_owned(),
        };
        let mut parts = vec![
            self.out.paint(style, &ended(call)),
            format!("{:.1} ms", call.duration_ms),
            call.cpu_ms.map(|ms| format!("cpu {ms:.1} ms")).unwrap_or_default(),
            charged,
            line(&optional(call.receipt_id.as_ref())),
            block(&optional(call.error.as_ref()), MARGIN),
        ];
        parts.retain(|part| !part.is_empty());
        self.out.text(&format!("{}  {}\n", clock(call.at), parts.join("  ")))
    }

    /// Prints a log line of a handler, with stack locations mapped to the folder's files.
    pub(super) fn log(self, folder: &std::path::Path, entry: &LogLine) -> Result {
        let own = stack(entry).and_then(|stack| source_map::first_own(folder, &stack));
        if self.out.json {
            return self.out.object(&json!({ "event": "log", "log": entry, "place": own }));
        }
        let mut fields = entry.fields.clone();
        let trace = stack(entry).map(|stack| source_map::rewrite_path(folder, &stack));
        if trace.is_some() {
            fields.remove("stack");
        }
        let fields = if fields.is_empty() { String::new() } else { format!("  {}", on_one_line(&fields)) };
        let message = block(&entry.message, MARGIN);
        let level = self.out.paint(level_style(entry.level), &format!("{:>6}", name(entry.level)));
        let mut text = format!("{}  {level}  {message}{fields}\n", clock(entry.at));
        // Log texts are on one line.
        for frame in trace.iter().flat_map(|trace| trace.split("    at ").skip(1)) {
            text += &format!("{MARGIN}at {}\n", line(frame.trim()));
        }
        self.out.text(&text)
    }
}

/// Formats the method and outcome of a call: `POST 200` if its handler answered, else the reason:
/// `POST handler_failed`.
fn ended(call: &Call) -> String {
    let code = optional(call.code.as_ref());
    let answered = call.status.filter(|_| code.is_empty() || code == ERROR_STATUS);
    let how = answered.map_or_else(|| line(&code), |status| status.to_string());
    format!("{} {how}", name(call.method.as_ref()))
}

#[cfg(test)]
mod tests {
    use tollhouse_base::id::CallId;

    use super::*;

    #[test]
    fn call_shows_its_method_and_how_it_ended() {
        let call = |method: &str, status: Option<u16>, code: Option<&str>| -> Call {
            let mut call = json!({
                "callId": CallId::generate(), "at": "2026-11-23T12:09:46.213Z", "outcome": if code.is_some() { "failed" } else { "succeeded" },
                "charged": false, "priceUsd": 0, "payment": "free", "durationMs": 1.5, "inputBytes": 2, "version": "v", "method": method,
            });
            if let Some(status) = status {
                call["status"] = json!(status);
            }
            if let Some(code) = code {
                call["code"] = json!(code);
            }
            serde_json::from_value(call).unwrap()
        };
        for (call, shown) in [
            (call("POST", Some(200), None), "POST 200"),
            (call("GET", Some(201), None), "GET 201"),
            (call("POST", Some(422), Some(ERROR_STATUS)), "POST 422"),
            (call("POST", None, Some("handler_failed")), "POST handler_failed"),
            // The handler answered, but then the payment was refused.
            (call("POST", Some(200), Some("payment_required")), "POST payment_required"),
            (call("POST", None, Some("forged\n\u{1b}[2J")), "POST forgedU+000AU+001B[2J"),
        ] {
            assert_eq!(ended(&call), shown, "{call:?}");
        }
    }
}
