//! States, each shown as a word, a sign and a color.

use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Good,
    Waits,
    Bad,
    Plain,
}

/// Returns the word for a value in the API.
pub(crate) fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Shows a state by its word in the API.
pub(crate) fn state(word: &str) -> Markup {
    badge(word, &word.replace('_', " "))
}

/// Shows a state in other words, with its sign and color.
pub(crate) fn badge(word: &str, words: &str) -> Markup {
    let (tone, sign) = match word {
        "active" | "running" => (Tone::Good, "●"),
        "settled" | "passed" | "succeeded" | "paid" | "done" | "in force" => (Tone::Good, "✓"),
        "paused" => (Tone::Plain, "‖"),
        "in review" | "held" | "review" | "reserved" | "settling" | "unresolved" | "owed" | "created" | "approved" | "rejecting" => {
            (Tone::Waits, "◐")
        }
        "simulated" => (Tone::Waits, "◇"),
        "failed" | "refused" | "taken down" | "taken_down" | "rejected" | "blocked" | "block" | "suspended" | "revoked" | "frozen"
        | "missing" | "error" => (Tone::Bad, "✕"),
        "warn" => (Tone::Waits, "!"),
        "info" | "debug" => (Tone::Plain, "·"),
        "note" | "released" | "free" | "credit" | "x402" => (Tone::Plain, "○"),
        _ => (Tone::Waits, "?"),
    };
    let class = match tone {
        Tone::Good => "state ok",
        Tone::Waits => "state warn",
        Tone::Bad => "state bad",
        Tone::Plain => "state",
    };
    html! { span class=(class) { span aria-hidden="true" { (sign) } " " (words) } }
}
