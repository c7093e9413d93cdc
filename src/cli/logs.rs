//! `tollhouse logs`, `calls` and `events`: log lines, calls and events, in pages or live.

use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};
use tollhouse_base::id::CallId;
use tollhouse_tool::Slug;

use super::{
    base::{
        changed::short,
        client::PendingRequest,
        error::{Error, Result},
        follow::follow,
        output::{Output, Style},
        paging::{self, EntryAction, PageArgs},
        sanitize::{self, block, line},
        session::Session,
        text::{any, clock, list, price, text},
    },
    tool::{position::FilePosition, source_map},
    trial::stack,
};

/// Arguments of `logs`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Endpoint [default: that of the folder]
    slug: Option<Slug>,
    /// This level and those above it
    #[arg(long, value_parser = ["debug", "info", "warn", "error"])]
    level: Option<String>,
    /// Of this call alone
    #[arg(long, value_name = "ID")]
    call: Option<String>,
    #[command(flatten)]
    reading: ReadMode,
}

/// Arguments of `calls`.
#[derive(clap::Args)]
pub(crate) struct CallsArgs {
    /// Endpoint [default: that of the folder]
    slug: Option<Slug>,
    /// Those that ended so: `succeeded`, `failed`, or the code of a failure
    #[arg(long)]
    outcome: Option<String>,
    /// This call alone
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
    /// Endpoint [default: all of them]
    slug: Option<Slug>,
    /// Of this kind alone, such as `payment.settled`
    #[arg(long)]
    kind: Option<String>,
    /// Of this call alone
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

impl Args {
    /// Returns whether no tool is named.
    pub(crate) fn is_of_folder(&self) -> bool {
        self.slug.is_none()
    }
}

impl CallsArgs {
    /// Returns whether no tool is named.
    pub(crate) fn is_of_folder(&self) -> bool {
        self.slug.is_none()
    }
}

/// Up to when.
#[derive(clap::Args)]
struct UntilArgs {
    /// Up to when, such as `1h` ago or `2026-11-22`
    #[arg(long, value_name = "WHEN", conflicts_with = "follow")]
    until: Option<String>,
}

/// How it is read.
#[derive(clap::Args)]
struct ReadMode {
    /// Go on with what happens, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// From when on, such as `15m` ago or `2026-11-22T09:58:03Z`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only entries in which this regular expression is found, whatever the case
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
    let ask = || {
        let asking = session.client.get(&["ai", "endpoints", slug.as_str(), "logs"]);
        asking.query_opt("level", args.level.as_ref()).query_opt("callId", args.call.as_ref())
    };
    // Show stack locations in the folder's own files instead of the published ones.
    let folder = session.folder.as_ref().map(|folder| folder.path.as_path());
    let describe = |out: Output, entry: &Value| {
        let line = log_line(out, entry);
        folder.map_or(line.clone(), |folder| source_map::rewrite_path(folder, &line))
    };
    let position = |entry: &Value| source_map::first_own(folder?, &stack(entry)?);
    args.reading.read(session.out, List { name: "logs", call: None }, ask, EntryFormat { format: describe, position }).await
}

pub(crate) async fn calls(session: &Session, args: CallsArgs) -> Result {
    let slug = session.slug(args.slug)?;
    let ask = || {
        let asking = session.client.get(&["ai", "endpoints", slug.as_str(), "calls"]);
        asking.query_opt("outcome", args.outcome.as_ref()).query_opt("until", args.until.until.as_ref())
    };
    let folder = session.folder.as_ref().map(|folder| folder.path.as_path());
    let position = |call: &Value| source_map::first_own(folder?, &thrown_at(call)?);
    let describe = |out: Output, call: &Value| call_line(out, call, position(call));
    args.reading
        .read(
            session.out,
            List { name: "calls", call: args.call.map(|id| (id, "callId")) },
            ask,
            EntryFormat { format: describe, position },
        )
        .await
}

pub(crate) async fn events(session: &Session, args: EventsArgs) -> Result {
    let ask = || {
        let asking = session.client.get(&["ai", "builders", "events"]).query_opt("endpointSlug", args.slug.as_ref().map(Slug::as_str));
        let asking = asking.query_opt("kind", args.kind.as_ref()).query_opt("builderId", args.builder.as_ref());
        asking.query_opt("until", args.until.until.as_ref())
    };
    let list = List { name: "events", call: args.call.map(|id| (id, "data.callId")) };
    args.reading.read(session.out, list, ask, EntryFormat { format: event_line, position: |_: &Value| None }).await
}

/// Returns the locations where the handler of a call threw an error, one per line.
pub(crate) fn thrown_at(call: &Value) -> Option<String> {
    let positions: Vec<_> = list(call, "thrownAt").filter_map(Value::as_str).collect();
    (!positions.is_empty()).then(|| positions.join("\n"))
}

/// The list to read.
struct List {
    name: &'static str,
    /// A filter by call, which the host does not support, with the name of the field that contains the call's id.
    call: Option<(CallId, &'static str)>,
}

/// How to print an entry.
struct EntryFormat<T, P> {
    /// Formats it for people.
    format: T,
    /// Returns its location in the folder's own files, which is added for programs.
    position: P,
}

impl List {
    fn holds(&self, entry: &Value) -> bool {
        self.call.as_ref().is_none_or(|(id, member)| text(entry, member) == id.as_str())
    }
}

/// Adds the location to an entry.
fn placed(mut entry: Value, position: Option<FilePosition>) -> Value {
    if let (Some(position), Some(members)) = (position, entry.as_object_mut()) {
        members.insert("place".to_owned(), json!(position));
    }
    entry
}

impl ReadMode {
    /// Prints a page, oldest first, or follows new entries from now or from `since` on.
    async fn read<'c, T, P>(&self, out: Output, list: List, ask: impl Fn() -> PendingRequest<'c>, telling: EntryFormat<T, P>) -> Result
    where
        T: Fn(Output, &Value) -> String,
        P: Fn(&Value) -> Option<FilePosition>,
    {
        if !self.follow {
            let page = self.pages(&list, ask).await?;
            return self.page(out, list.name, page, &telling);
        }
        if self.paging.cursor.is_some() {
            return Err(Error::usage("`--cursor` is of pages; what is followed begins at `--since`"));
        }
        let asking = |since: Option<String>| ask().query_opt("since", self.since.clone().or(since));
        follow(out, asking, |entry| {
            if list.holds(&entry) && self.fits(&entry) {
                if out.json {
                    let position = (telling.position)(&entry);
                    out.object(&placed(entry, position))?;
                } else {
                    out.text(&(telling.format)(out, &entry))?;
                }
            }
            Ok(true)
        })
        .await
    }

    async fn pages<'c>(&self, list: &List, ask: impl Fn() -> PendingRequest<'c>) -> Result<Value> {
        // Entries of a call are newer than its start, which its id contains.
        let started = || list.call.as_ref().map(|(id, _)| id.made_at().to_string());
        let asking = || ask().query_opt("since", self.since.clone().or_else(started));
        match &list.call {
            None => paging::read(&self.paging, list.name, asking).await,
            Some(_) => {
                let requested = |entry: &Value| if list.holds(entry) { EntryAction::Yes } else { EntryAction::No };
                paging::sift(&self.paging, list.name, asking, requested).await
            }
        }
    }

    fn page<T, P>(&self, out: Output, name: &str, mut page: Value, telling: &EntryFormat<T, P>) -> Result
    where
        T: Fn(Output, &Value) -> String,
        P: Fn(&Value) -> Option<FilePosition>,
    {
        let all = page[name].as_array().map_or(0, Vec::len);
        if let Some(entries) = page[name].as_array_mut() {
            entries.retain(|entry| self.fits(entry));
        }
        if out.json {
            for entry in page[name].as_array_mut().into_iter().flatten() {
                let position = (telling.position)(entry);
                *entry = placed(entry.take(), position);
            }
            return out.document(&page);
        }
        let fitting: Vec<_> = list(&page, name).collect();
        for entry in fitting.iter().rev() {
            out.text(&(telling.format)(out, entry))?;
        }
        if fitting.is_empty() && all == 0 {
            out.note("nothing yet, or nothing since then");
        } else if self.grep.is_some() {
            out.note(&format!("{} of {all} fit the pattern", fitting.len()));
        }
        paging::rest(out, &page);
        Ok(())
    }

    fn fits(&self, entry: &Value) -> bool {
        self.grep.as_ref().is_none_or(|pattern| holds(pattern, entry))
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

fn log_line(out: Output, entry: &Value) -> String {
    let level = text(entry, "level");
    let paint = match level {
        "error" => Style::Bad,
        "warn" => Style::Odd,
        _ => Style::Quiet,
    };
    let level = out.paint(paint, &format!("{:>5}", line(level)));
    let fields = match &entry["fields"] {
        Value::Null => String::new(),
        fields => format!("  {}", sanitize::json(fields)),
    };
    format!("{}  {level}  {}  {}{fields}\n", clock(entry, "at"), line(text(entry, "callId")), block(text(entry, "message"), MARGIN))
}

/// Formats a call, with the location where its handler threw an error: in the folder's own files if known, else in the
/// published source.
fn call_line(out: Output, call: &Value, position: Option<FilePosition>) -> String {
    let ended = Some(text(call, "code")).filter(|code| !code.is_empty()).unwrap_or(text(call, "outcome"));
    let paint = if text(call, "outcome") == "succeeded" { Style::Good } else { Style::Bad };
    let mut listed = vec![clock(call, "at"), out.paint(paint, &format!("{:<9}", line(ended)))];
    listed.push(line(text(call, "callId")));
    for (member, unit) in [("durationMs", " ms"), ("cpuMs", " ms cpu")] {
        let amount = any(call, member);
        listed.extend((!amount.is_empty()).then(|| line(&amount) + unit));
    }
    listed.push(charge(call));
    listed.extend(["payment", "receiptId"].map(|member| line(text(call, member))));
    listed.push(line(&short(text(call, "version"))));
    listed.push(block(text(call, "error"), MARGIN));
    let published = || list(call, "thrownAt").next().and_then(Value::as_str).map(line);
    listed.extend(position.map(|position| position.to_string()).or_else(published));
    listed.retain(|piece| !piece.is_empty());
    listed.join("  ") + "\n"
}

/// Formats what was charged for a call. A failed call costs nothing, whatever the tool's price.
fn charge(call: &Value) -> String {
    let price = price(call, "priceUsd");
    match &call["charged"] {
        Value::Bool(true) => price,
        Value::Bool(false) if price == "free" => price,
        Value::Bool(false) => "not charged".to_owned(),
        _ if price == "free" || price.is_empty() => price,
        _ => format!("perhaps {price}"),
    }
}

fn event_line(_: Output, event: &Value) -> String {
    let data = match &event["data"] {
        Value::Null => String::new(),
        data => sanitize::json(data),
    };
    let pieces = [clock(event, "at"), line(text(event, "kind")), line(text(event, "endpointSlug")), data];
    pieces.into_iter().filter(|piece| !piece.is_empty()).collect::<Vec<_>>().join("  ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_log_forges_no_other_and_drives_no_terminal() {
        let entry = json!({ "at": "x", "level": "error", "callId": "call_1", "message": "a\n10:00:00  error  forged\u{1b}[2J", "fields": { "k": "\u{9b}" } });
        let reported = log_line(Output::new(false), &entry);
        assert_eq!(reported, "x  error  call_1  a\n          | 10:00:00  error  forgedU+001B[2J  {\"k\":\"\\u009b\"}\n");
    }

    #[test]
    fn call_that_was_not_charged_shows_no_amount() {
        let call = |charged: Value, price: f64| charge(&json!({ "charged": charged, "priceUsd": price }));
        assert_eq!(call(json!(true), 0.01), "$0.01");
        assert_eq!(call(json!(false), 0.01), "not charged");
        assert_eq!(call(json!("unknown"), 0.01), "perhaps $0.01");
        assert_eq!((call(json!(false), 0.0), call(json!(true), 0.0)), ("free".to_owned(), "free".to_owned()));
    }

    #[test]
    fn a_pattern_is_found_in_any_text_of_an_entry() {
        let entry = json!({ "message": "Upstream", "fields": { "status": 503, "deep": ["x"] } });
        for (text, is) in [("upstream", true), ("^503$", true), ("deep", true), ("^x$", true), ("y", false)] {
            assert_eq!(holds(&pattern(text).unwrap(), &entry), is, "{text}");
        }
        assert!(pattern("(").is_err() && pattern("(a{1000}){1000}").is_err());
    }
}
