//! `/dashboard/events`: events of a builder's tools and money, by kind and tool.

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::EventPage;

use crate::{
    Area, FollowedList, Page, PageQuery, PageResult, RawQuery, SignedIn, Visitor, api_section, curl_command, empty, follow, followed, form,
    lazy_html, onward,
    parts::event_lines::{self, KINDS},
    text, with_query,
};

const PATH: &str = "/dashboard/events";
/// The address from which the script learns of new events.
const LIVE: &str = "/dashboard/api/ai/builders/events";
const ROWS: usize = 30;
/// Selectable time spans: query value and label.
const SPANS: [(&str, &str); 4] = [("", "7 days"), ("1h", "1 hour"), ("30d", "30 days"), ("90d", "90 days")];

pub(crate) async fn page(SignedIn(visitor): SignedIn, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["builderId", "kind", "tool", "since", "until", "cursor"]);
    let rows = follow::requested(raw.as_deref(), ROWS);
    let limit = rows.unwrap_or(ROWS).to_string();
    let fields = [
        ("builderId", query.get("builderId")),
        ("kind", query.get("kind")),
        ("endpointSlug", query.get("tool")),
        ("since", query.get("since")),
        ("until", query.get("until")),
        ("limit", &*limit),
        ("cursor", query.get("cursor")),
    ];
    let path = with_query("/ai/builders/events", fields);
    let found = visitor.get::<EventPage>(&path).await?;
    let simulated = visitor.is_simulated().await?;
    if rows.is_some() {
        let list = || follow::rows(event_lines::table_of(&found.events, query.get("builderId"), simulated));
        return Ok(visitor.fragment(visitor.render(list).await?));
    }
    let by = followed_by(&query);
    let main = lazy_html! {
        p.lead { @if visitor.kind() == Some(SessionKind::Admin) { "Events of a builder's tools and money, newest first." } @else { "Events of your tools and money, newest first." } }
        (filters(&query))
        (followed(by.as_ref(), events(&visitor, &query, &found, simulated)))
        (api_section(&visitor, &path))
    };
    let main = visitor.render(main).await?;
    Ok(visitor.show(Page { script: Some("rows.js"), style: Some("make.css"), ..Page::new(Area::Events, "Events", main) }).await)
}

/// Returns how the script follows the list, or `None` for a page of past events.
fn followed_by(query: &PageQuery) -> Option<FollowedList> {
    let fields = [("builderId", query.get("builderId")), ("kind", query.get("kind")), ("endpointSlug", query.get("tool"))];
    let is_over = query.has_any(&["until", "cursor"]);
    let live = || with_query(LIVE, fields);
    (!is_over).then(|| FollowedList { live: live(), page: query.with(PATH, &[]), max: None })
}

/// Returns how the script follows a builder's latest events on another page.
pub(super) fn last(builder: &str, max: usize) -> FollowedList {
    let of = [("builderId", builder)];
    FollowedList { live: with_query(LIVE, of), page: with_query(PATH, of), max: Some(max) }
}

fn filters(query: &PageQuery) -> Markup {
    let kinds: Vec<_> = [("", "all events")].into_iter().chain(KINDS.iter().map(|(name, words, _)| (*name, *words))).collect();
    html! {
        form.filters action=(PATH) {
            @if !query.get("builderId").is_empty() { input type="hidden" name="builderId" value=(text::plain(query.get("builderId"))); }
            (form::select("kind", "Event", &kinds, query.get("kind"), str::to_owned))
            div.field {
                label for="tool" { "Tool" }
                input #tool name="tool" value=(text::plain(query.get("tool"))) autocomplete="off" spellcheck="false" placeholder="slug";
            }
            (form::select("since", "Period", &SPANS, query.get("since"), |since| format!("from {since}")))
            div.field { label for="until" { "Before" } input #until name="until" type="date" value=(text::plain(query.get("until"))); }
            button { "Show" }
        }
    }
}

fn events(visitor: &Visitor, query: &PageQuery, EventPage { events, next_cursor, .. }: &EventPage, simulated: bool) -> Markup {
    if events.is_empty() && next_cursor.is_none() {
        let is_narrow = query.has_any(&["kind", "tool", "since", "until", "cursor"]);
        let all = query.with(PATH, &[("kind", ""), ("tool", ""), ("since", ""), ("until", ""), ("cursor", "")]);
        let stream = with_query("/ai/builders/events", [("builderId", query.get("builderId"))]);
        let follow = format!("{} \\\n  -N -H 'accept: text/event-stream'", curl_command(visitor, &stream));
        return match is_narrow {
            true => {
                let week =
                    curl_command(visitor, &with_query("/ai/builders/events", [("since", "7d"), ("builderId", query.get("builderId"))]));
                empty("No matching events.", Some((&all, "Clear the filter")), &week)
            }
            false => {
                let tools = with_query("/dashboard/home", [("builderId", query.get("builderId"))]);
                empty("No events in the last 7 days.", Some((&tools, "Tools")), &follow)
            }
        };
    }
    html! {
        h2.aside { "Events" }
        (event_lines::table_of(events, query.get("builderId"), simulated))
        (onward(events.len(), query, PATH, next_cursor.as_deref()))
    }
}
