//! `tollhouse logs`, `calls` and `events`: what was written, how calls ended and what happened, in pages or as it happens.

use regex::{Regex, RegexBuilder};
use serde_json::Value;
use tollhouse::tool::Slug;

use super::{
    base::{
        changed::short,
        clean::{block, json, line},
        client::Asking,
        error::{Error, Result},
        follow::follow,
        out::{Out, Paint},
        pages::{self, Paging},
        session::Session,
        words::{any, clock, list, text},
    },
    tool::map,
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
    reading: Reading,
}

/// Arguments of `calls`.
#[derive(clap::Args)]
pub(crate) struct CallsArgs {
    /// Endpoint [default: that of the folder]
    slug: Option<Slug>,
    /// Those that ended so: `succeeded`, `failed`, or the code of a failure
    #[arg(long)]
    outcome: Option<String>,
    #[command(flatten)]
    until: Until,
    #[command(flatten)]
    reading: Reading,
}

/// Arguments of `events`.
#[derive(clap::Args)]
pub(crate) struct EventsArgs {
    /// Endpoint [default: all of them]
    slug: Option<Slug>,
    /// Of this kind alone, such as `payment.settled`
    #[arg(long)]
    kind: Option<String>,
    /// Builder (admins)
    #[arg(long, value_name = "ID")]
    builder: Option<String>,
    #[command(flatten)]
    until: Until,
    #[command(flatten)]
    reading: Reading,
}

/// Up to when.
#[derive(clap::Args)]
struct Until {
    /// Up to when, such as `1h` ago or `2026-11-22`
    #[arg(long, value_name = "WHEN", conflicts_with = "follow")]
    until: Option<String>,
}

/// How it is read.
#[derive(clap::Args)]
struct Reading {
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
    paging: Paging,
}

/// Largest automaton of a pattern, in bytes.
const MOST_PATTERN: usize = 1 << 20;

fn pattern(text: &str) -> std::result::Result<Regex, String> {
    RegexBuilder::new(text).case_insensitive(true).size_limit(MOST_PATTERN).build().map_err(|error| error.to_string())
}

pub(crate) async fn logs(session: &Session, args: Args) -> Result {
    let slug = session.slug(args.slug)?;
    let ask = || {
        let asking = session.client.get(&["ai", "endpoints", slug.as_str(), "logs"]);
        asking.query_opt("level", args.level.as_ref()).query_opt("callId", args.call.as_ref())
    };
    // Places of what the folder has published are told as those of its own files.
    let folder = session.folder.as_ref().map(|folder| folder.path.as_path());
    let told = |out: Out, entry: &Value| {
        let line = log_line(out, entry);
        folder.map_or(line.clone(), |folder| map::told(folder, &line))
    };
    args.reading.read(session.out, "logs", ask, told).await
}

pub(crate) async fn calls(session: &Session, args: CallsArgs) -> Result {
    let slug = session.slug(args.slug)?;
    let ask = || {
        let asking = session.client.get(&["ai", "endpoints", slug.as_str(), "calls"]);
        asking.query_opt("outcome", args.outcome.as_ref()).query_opt("until", args.until.until.as_ref())
    };
    args.reading.read(session.out, "calls", ask, call_line).await
}

pub(crate) async fn events(session: &Session, args: EventsArgs) -> Result {
    let ask = || {
        let asking = session.client.get(&["ai", "builders", "events"]).query_opt("endpointSlug", args.slug.as_ref().map(Slug::as_str));
        let asking = asking.query_opt("kind", args.kind.as_ref()).query_opt("builderId", args.builder.as_ref());
        asking.query_opt("until", args.until.until.as_ref())
    };
    args.reading.read(session.out, "events", ask, event_line).await
}

impl Reading {
    /// A page, the oldest first as they are read; or what happens, from now or `since` on.
    async fn read<'c>(&self, out: Out, name: &str, ask: impl Fn() -> Asking<'c>, told: impl Fn(Out, &Value) -> String) -> Result {
        if !self.follow {
            let page = pages::read(&self.paging, name, || ask().query_opt("since", self.since.as_ref())).await?;
            return self.page(out, name, page, told);
        }
        if self.paging.cursor.is_some() {
            return Err(Error::usage("`--cursor` is of pages; what is followed begins at `--since`"));
        }
        let asking = |since: Option<String>| ask().query_opt("since", self.since.clone().or(since));
        follow(out, asking, |entry| {
            if self.fits(&entry) {
                if out.json { out.object(&entry)? } else { out.text(&told(out, &entry))? }
            }
            Ok(true)
        })
        .await
    }

    fn page(&self, out: Out, name: &str, mut page: Value, told: impl Fn(Out, &Value) -> String) -> Result {
        let all = page[name].as_array().map_or(0, Vec::len);
        if let Some(entries) = page[name].as_array_mut() {
            entries.retain(|entry| self.fits(entry));
        }
        if out.json {
            return out.document(&page);
        }
        let fitting: Vec<_> = list(&page, name).collect();
        for entry in fitting.iter().rev() {
            out.text(&told(out, entry))?;
        }
        if fitting.is_empty() && all == 0 {
            out.note("nothing yet, or nothing since then");
        } else if self.grep.is_some() {
            out.note(&format!("{} of {all} fit the pattern", fitting.len()));
        }
        pages::rest(out, &page);
        Ok(())
    }

    fn fits(&self, entry: &Value) -> bool {
        self.grep.as_ref().is_none_or(|pattern| holds(pattern, entry))
    }
}

/// Whether the pattern is found in any text or number of it.
fn holds(pattern: &Regex, value: &Value) -> bool {
    match value {
        Value::String(text) => pattern.is_match(text),
        Value::Array(items) => items.iter().any(|item| holds(pattern, item)),
        Value::Object(members) => members.iter().any(|(name, value)| pattern.is_match(name) || holds(pattern, value)),
        Value::Number(number) => pattern.is_match(&number.to_string()),
        Value::Null | Value::Bool(_) => false,
    }
}

/// What stands in front of the second and later lines of a message: no line of others can be taken for one of ours.
const MARGIN: &str = "          | ";

fn log_line(out: Out, entry: &Value) -> String {
    let level = text(entry, "level");
    let paint = match level {
        "error" => Paint::Bad,
        "warn" => Paint::Odd,
        _ => Paint::Quiet,
    };
    let level = out.paint(paint, &format!("{:>5}", line(level)));
    let fields = match &entry["fields"] {
        Value::Null => String::new(),
        fields => format!("  {}", json(fields)),
    };
    format!("{}  {level}  {}  {}{fields}\n", clock(entry, "at"), line(text(entry, "callId")), block(text(entry, "message"), MARGIN))
}

fn call_line(out: Out, call: &Value) -> String {
    let ended = Some(text(call, "code")).filter(|code| !code.is_empty()).unwrap_or(text(call, "outcome"));
    let paint = if text(call, "outcome") == "succeeded" { Paint::Good } else { Paint::Bad };
    let mut told = vec![clock(call, "at"), out.paint(paint, &format!("{:<9}", line(ended)))];
    told.push(line(text(call, "callId")));
    for (member, unit) in [("durationMs", " ms"), ("cpuMs", " ms cpu")] {
        let amount = any(call, member);
        told.extend((!amount.is_empty()).then(|| line(&amount) + unit));
    }
    told.push(super::base::words::price(call, "priceUsd"));
    told.extend(["payment", "receiptId"].map(|member| line(text(call, member))));
    told.push(line(&short(text(call, "version"))));
    told.push(block(text(call, "error"), MARGIN));
    told.retain(|piece| !piece.is_empty());
    told.join("  ") + "\n"
}

fn event_line(_: Out, event: &Value) -> String {
    let data = match &event["data"] {
        Value::Null => String::new(),
        data => json(data),
    };
    let pieces = [clock(event, "at"), line(text(event, "kind")), line(text(event, "endpointSlug")), data];
    pieces.into_iter().filter(|piece| !piece.is_empty()).collect::<Vec<_>>().join("  ") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_of_a_log_forges_no_other_and_drives_no_terminal() {
        let entry = json!({ "at": "x", "level": "error", "callId": "call_1", "message": "a\n10:00:00  error  forged\u{1b}[2J", "fields": { "k": "\u{9b}" } });
        let told = log_line(Out::new(false), &entry);
        assert_eq!(told, "x  error  call_1  a\n          | 10:00:00  error  forgedU+001B[2J  {\"k\":\"\\u009b\"}\n");
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
