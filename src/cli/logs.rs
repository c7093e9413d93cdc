//! `tollhouse logs`, `calls` and `events`: log lines, calls and events, in pages or live.

use regex::{Regex, RegexBuilder};
use serde::Serialize;
use serde_json::{Value, json};
use tollhouse_api::{Call, CallOutcome, CallPage, Charged, Event, EventPage, LogLine, LogPage, ReceiptKind};
use tollhouse_base::id::CallId;
use tollhouse_protocol::LogLevel;
use tollhouse_tool::Slug;

use super::{
    base::{
        EntryAction, Error, Output, Page, PageArgs, PendingRequest, Result, Session, Style, block, clock, follow, line, name, optional,
        paging, price, sanitize, short,
    },
    tool::{FilePosition, source_map},
    trial::stack,
};

/// Arguments of `logs`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Tool [default: the folder's]
    pub(crate) slug: Option<Slug>,
    /// Only this level and more severe ones
    #[arg(long, value_parser = ["debug", "info", "warn", "error"])]
    level: Option<String>,
    /// Only entries of this call
    #[arg(long, value_name = "ID")]
    call: Option<String>,
    #[command(flatten)]
    reading: ReadMode,
}

/// Arguments of `calls`.
#[derive(clap::Args)]
pub(crate) struct CallsArgs {
    /// Tool [default: the folder's]
    pub(crate) slug: Option<Slug>,
    /// Only `succeeded` or `failed` calls, or an error code
    #[arg(long)]
    outcome: Option<String>,
    /// Only this call
    #[arg(long, value_name = "ID")]
    call: Option<CallId>,
    #[command(flatten)]
    until: UntilArgs,
    #[command(flatten)]
    reading: ReadMode,
}

/// Arguments of `events`.
#[derive(clap::Args)]
pub(crate) struct EventsArgs {
    /// Tool [default: all]
    slug: Option<Slug>,
    /// Only events of this kind, for example `payment.settled`
    #[arg(long)]
    kind: Option<String>,
    /// Only entries of this call
    #[arg(long, value_name = "ID")]
    call: Option<CallId>,
    /// Builder (admins)
    #[arg(long, value_name = "ID")]
    builder: Option<String>,
    #[command(flatten)]
    until: UntilArgs,
    #[command(flatten)]
    reading: ReadMode,
}

/// The end of a list.
#[derive(clap::Args)]
struct UntilArgs {
    /// End, for example `1h` (ago) or `2026-11-22`
    #[arg(long, value_name = "WHEN", conflicts_with = "follow")]
    until: Option<String>,
}

/// How to read a list.
#[derive(clap::Args)]
struct ReadMode {
    /// Follow new entries until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Start, for example `15m` (ago) or `2026-11-22T09:58:03Z`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only entries that match this pattern, ignoring case
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    grep: Option<Regex>,
    #[command(flatten)]
    paging: PageArgs,
}

/// Maximum size of a pattern's automaton, in bytes.
const MAX_PATTERN: usize = 1 << 20;

fn pattern(text: &str) -> std::result::Result<Regex, String> {
    RegexBuilder::new(text).case_insensitive(true).size_limit(MAX_PATTERN).build().map_err(|error| error.to_string())
}

pub(crate) async fn logs(session: &Session, args: Args) -> Result {
    let slug = session.slug(args.slug)?;
    session.name_dev();
    let ask = || {
        let asking = session.client.get(&["ai", "endpoints", slug.as_str(), "logs"]);
        asking.query_opt("level", args.level.as_ref()).query_opt("callId", args.call.as_ref())
    };
    // Show stack locations in the folder's own files instead of the published ones.
    let folder = session.folder.as_ref().map(|folder| folder.path.as_path());
    let format = EntryFormat {
        call_id: |line: &LogLine| line.call_id.as_ref().map(CallId::as_str),
        line: |entry: &LogLine| {
            let line = log_line(session.out, entry);
            folder.map_or(line.clone(), |folder| source_map::rewrite_path(folder, &line))
        },
        position: |entry: &LogLine| source_map::first_own(folder?, &stack(entry)?),
    };
    args.reading.read::<LogPage>(session.out, None, ask, format).await
}

pub(crate) async fn calls(session: &Session, args: CallsArgs) -> Result {
    let slug = session.slug(args.slug)?;
    session.name_dev();
    let ask = || {
        let asking = session.client.get(&["ai", "endpoints", slug.as_str(), "calls"]);
        asking.query_opt("outcome", args.outcome.as_ref()).query_opt("until", args.until.until.as_ref())
    };
    let folder = session.folder.as_ref().map(|folder| folder.path.as_path());
    let position = |call: &Call| source_map::first_own(folder?, &thrown_at(call)?);
    let format = EntryFormat {
        call_id: |call: &Call| Some(call.call_id.as_str()),
        line: |call: &Call| call_line(session.out, call, position(call)),
        position,
    };
    args.reading.read::<CallPage>(session.out, args.call, ask, format).await
}

pub(crate) async fn events(session: &Session, args: EventsArgs) -> Result {
    let ask = || {
        let asking = session.client.get(&["ai", "builders", "events"]).query_opt("endpointSlug", args.slug.as_ref().map(Slug::as_str));
        let asking = asking.query_opt("kind", args.kind.as_ref()).query_opt("builderId", args.builder.as_ref());
        asking.query_opt("until", args.until.until.as_ref())
    };
    let format = EntryFormat { call_id: |event: &Event| event.data["callId"].as_str(), line: event_line, position: |_: &Event| None };
    args.reading.read::<EventPage>(session.out, args.call, ask, format).await
}

/// Returns the locations where the handler of a call threw an error, one per line.
pub(crate) fn thrown_at(call: &Call) -> Option<String> {
    if call.thrown_at.is_empty() { None } else { Some(call.thrown_at.join("\n")) }
}

/// How to print an entry.
struct EntryFormat<E, L, P> {
    /// Returns the id of the call that the entry belongs to.
    call_id: fn(&E) -> Option<&str>,
    /// Formats it for people.
    line: L,
    /// Returns its location in the folder's own files, which is added for programs.
    position: P,
}

impl ReadMode {
    /// Prints a page, oldest first, or follows new entries from now or from `since` on. With `call`, only entries of
    /// that call, a filter that the host does not have.
    async fn read<'c, P: Page>(
        &self,
        out: Output,
        call: Option<CallId>,
        ask: impl Fn() -> PendingRequest<'c>,
        format: EntryFormat<P::Entry, impl Fn(&P::Entry) -> String, impl Fn(&P::Entry) -> Option<FilePosition>>,
    ) -> Result {
        let is_of_call = |entry: &P::Entry| call.as_ref().is_none_or(|id| (format.call_id)(entry) == Some(id.as_str()));
        let document = |entry: &P::Entry| {
            let mut document = json!(entry);
            if let (Some(position), Some(fields)) = ((format.position)(entry), document.as_object_mut()) {
                fields.insert("place".to_owned(), json!(position));
            }
            document
        };
        if self.follow {
            if self.paging.cursor.is_some() {
                return Err(Error::usage("`--cursor` cannot be combined with `--follow`; use `--since`"));
            }
            let asking = |since: Option<String>| ask().query_opt("since", self.since.clone().or(since));
            return follow(out, asking, |entry: P::Entry| {
                if is_of_call(&entry) && self.fits(&entry) {
                    if out.json { out.object(&document(&entry)) } else { out.text(&(format.line)(&entry)) }?;
                }
                Ok(true)
            })
            .await;
        }
        // Entries of a call are newer than its start, which its id contains.
        let started = call.as_ref().map(|id| id.made_at().to_string());
        let asking = || ask().query_opt("since", self.since.as_ref().or(started.as_ref()));
        let requested = |entry: &P::Entry| if is_of_call(entry) { EntryAction::Yes } else { EntryAction::No };
        let mut page: P = paging::filter(&self.paging, asking, requested).await?;
        let (entries, next) = page.parts();
        let all = entries.len();
        entries.retain(|entry| self.fits(entry));
        if out.json {
            let entries: Vec<_> = entries.iter().map(document).collect();
            let mut page = json!(page);
            page[P::LIST] = entries.into();
            return out.document(&page);
        }
        entries.iter().rev().try_for_each(|entry| out.text(&(format.line)(entry)))?;
        if all == 0 {
            out.note("no entries yet");
        } else if self.grep.is_some() {
            out.note(&format!("{} of {all} match the pattern", entries.len()));
        }
        paging::print_cursor(out, next.as_ref());
        Ok(())
    }

    fn fits(&self, entry: &impl Serialize) -> bool {
        self.grep.as_ref().is_none_or(|pattern| holds(pattern, &json!(entry)))
    }
}

/// Returns whether the pattern occurs in any text or number of a value.
fn holds(pattern: &Regex, value: &Value) -> bool {
    match value {
        Value::String(text) => pattern.is_match(text),
        Value::Array(items) => items.iter().any(|item| holds(pattern, item)),
        Value::Object(members) => members.iter().any(|(name, value)| pattern.is_match(name) || holds(pattern, value)),
        Value::Number(number) => pattern.is_match(&number.to_string()),
        Value::Null | Value::Bool(_) => false,
    }
}

/// Prefix of the second and later lines of a message, so that foreign text cannot be mistaken for our lines.
const MARGIN: &str = "          | ";

/// Returns the color of a log level.
pub(crate) fn level_style(level: LogLevel) -> Style {
    match level {
        LogLevel::Error => Style::Failure,
        LogLevel::Warn => Style::Warning,
        LogLevel::Info | LogLevel::Debug => Style::Dim,
    }
}

fn log_line(out: Output, entry: &LogLine) -> String {
    let level = out.paint(level_style(entry.level), &format!("{:>5}", name(entry.level)));
    let (call, message) = (line(&optional(entry.call_id.as_ref())), block(&entry.message, MARGIN));
    format!("{}  {level}  {call}  {message}  {}\n", clock(entry.at), sanitize::json(&entry.fields))
}

/// Formats a call, with the location where its handler threw an error: in the folder's own files if known, else in the
/// published source.
fn call_line(out: Output, call: &Call, position: Option<FilePosition>) -> String {
    let is_success = call.outcome == CallOutcome::Succeeded;
    let ended = call.code.clone().unwrap_or_else(|| name(call.outcome));
    let published = || call.thrown_at.first().map(|position| line(position));
    let mut parts = vec![
        clock(call.at),
        out.paint(if is_success { Style::Good } else { Style::Failure }, &format!("{:<9}", line(&ended))),
        line(call.call_id.as_str()),
        format!("{} ms", call.duration_ms),
        call.cpu_ms.map(|ms| format!("{ms} ms cpu")).unwrap_or_default(),
        charge(call.charged, call.payment, price(call.price_usd)),
        call.schedule.as_ref().map_or_else(|| name(call.payment), |run| format!("schedule {}", line(&run.cron))),
        line(&optional(call.receipt_id.as_ref())),
        line(&short(&call.version)),
        block(&optional(call.error.as_ref()), MARGIN),
        position.map(|position| position.to_string()).or_else(published).unwrap_or_default(),
    ];
    parts.retain(|part| !part.is_empty());
    parts.join("  ") + "\n"
}

/// Formats what was charged for a call. A failed call costs nothing, whatever the tool's price. A metered tool can have
/// the price 0, although its calls are paid.
fn charge(charged: Charged, payment: ReceiptKind, price: String) -> String {
    match charged {
        _ if price == "free" && payment == ReceiptKind::Free => price,
        Charged::Yes => price,
        Charged::No => "not charged".to_owned(),
        Charged::Unknown => format!("{price} (not confirmed)"),
    }
}

fn event_line(event: &Event) -> String {
    let data = if event.data.is_null() { String::new() } else { sanitize::json(&event.data) };
    let parts = [clock(event.at), line(&event.kind), line(&optional(event.endpoint_slug.as_ref())), data];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ") + "\n"
}

#[cfg(test)]
mod tests {
    use tollhouse_base::clock::Timestamp;

    use super::*;

    #[test]
    fn log_line_cannot_forge_another_or_control_a_terminal() {
        let call_id = CallId::generate();
        let entry = LogLine {
            at: Timestamp(0),
            level: LogLevel::Error,
            message: "a\n10:00:00  error  forged\u{1b}[2J".to_owned(),
            fields: serde_json::Map::from_iter([("k".to_owned(), json!("\u{9b}"))]),
            call_id: Some(call_id.clone()),
            owner: false,
        };
        let line = log_line(Output::new(false), &entry);
        let expected = format!("  error  {call_id}  a\n          | 10:00:00  error  forgedU+001B[2J  {{\"k\":\"\\u009b\"}}\n");
        assert!(line.ends_with(&expected), "{line}");
    }

    #[test]
    fn call_that_was_not_charged_shows_no_amount() {
        for (charged, payment, price, shown) in [
            (Charged::Yes, ReceiptKind::X402, "$0.01", "$0.01"),
            (Charged::No, ReceiptKind::X402, "$0.01", "not charged"),
            (Charged::Unknown, ReceiptKind::Credit, "$0.01", "$0.01 (not confirmed)"),
            (Charged::No, ReceiptKind::Free, "free", "free"),
            (Charged::Yes, ReceiptKind::Free, "free", "free"),
            // A failed call of a metered tool without a minimum.
            (Charged::No, ReceiptKind::X402, "free", "not charged"),
        ] {
            assert_eq!(charge(charged, payment, price.to_owned()), shown);
        }
    }

    #[test]
    fn pattern_matches_any_text_of_an_entry() {
        let entry = json!({ "message": "Upstream", "fields": { "status": 503, "deep": ["x"] } });
        for (text, is) in [("upstream", true), ("^503$", true), ("deep", true), ("^x$", true), ("y", false)] {
            assert_eq!(holds(&pattern(text).unwrap(), &entry), is, "{text}");
        }
        assert!(pattern("(").is_err() && pattern("(a{1000}){1000}").is_err());
    }
}
