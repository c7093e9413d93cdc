//! `/dashboard/tools/{slug}/secrets`: names of a tool's secrets. Values are never shown.

use maud::{Markup, html};
use tollhouse_api::{Secret, SecretList, SecretPlace, SecretVisibility};
use tollhouse_front::PathParams;

use super::owner_pages;
use crate::{
    Page, PageResult, SignedIn, Tab, Visitor, Words, code, curl_command, empty, form, lazy_html, moment, segment, table, text, word,
};

pub(crate) async fn page(SignedIn(visitor): SignedIn, PathParams(slug): PathParams) -> PageResult {
    owner_pages::record(&visitor, &slug).await?;
    let source = format!("{}/secrets", owner_pages::api_path(&slug));
    let answer = visitor.get::<SecretList>(&source).await?;
    let main = lazy_html! {
        p.lead {
            "Secret values for the handler, for example an API key. "
            "A value is stored encrypted and is never shown again."
        }
        (list(&visitor, &slug, &answer.secrets))
        (set(&visitor, &slug))
        section {
            h2 { "From the command line" }
            p.words { "Use this for a value with several lines, for example a private key." }
            (code::block("Command line, with the value in a file", "sh", &command(&visitor, &source)))
        }
    };
    let main = visitor.render(main).await?;
    let page = owner_pages::page(&visitor, &slug, Tab::Secrets, format!("Secrets of {slug}"), &main);
    Ok(visitor.show(Page { script: Some("secrets.js"), ..page }).await)
}

fn command(visitor: &Visitor, source: &str) -> String {
    let send = curl_command(visitor, source);
    format!(
        "jq -n --rawfile value secret.txt '{{ name: \"API_TOKEN\", value: $value }}' |\n  {send} \\\n  -H 'content-type: application/json' -d @-"
    )
}

fn back(slug: &str) -> String {
    owner_pages::page_path(slug, "secrets")
}

/// The places of a request where the value can be, with their labels.
const PLACES: [(SecretPlace, &str); 3] =
    [(SecretPlace::Header, "in a header"), (SecretPlace::Url, "in the URL"), (SecretPlace::Body, "in the body")];

/// Describes who gets the value.
fn receiver(secret: &Secret) -> String {
    match secret.visibility {
        SecretVisibility::Auth => "only requests with `auth`".to_owned(),
        SecretVisibility::Env => "the handler, as `ctx.env`".to_owned(),
        SecretVisibility::Hosts => {
            let hosts: Vec<_> = secret.hosts.iter().map(|host| format!("`{host}`")).collect();
            let places = PLACES.iter().filter(|(place, _)| secret.places.contains(place)).map(|(_, label)| *label);
            format!("{}, {}", hosts.join(", "), places.collect::<Vec<_>>().join(" or "))
        }
    }
}

fn list(visitor: &Visitor, slug: &str, secrets: &[Secret]) -> Markup {
    if secrets.is_empty() {
        let set = format!(
            "{} \\\n  -H 'content-type: application/json' -d \"{{\\\"name\\\":\\\"API_KEY\\\",\\\"value\\\":\\\"$VALUE\\\"}}\"",
            curl_command(visitor, &format!("/ai/endpoints/{}/secrets", segment(slug)))
        );
        return empty("No secrets yet.", None, &set);
    }
    let columns = ["Name", "Available to", "First set", "Last set", "Change"].map(Words);
    table("Secrets", columns, secrets.iter().enumerate().map(|(position, secret)| row(visitor, slug, position, secret)))
}

fn row(visitor: &Visitor, slug: &str, position: usize, secret: &Secret) -> [Markup; 5] {
    let (name, id) = (&secret.name, format!("value-{position}"));
    let replace = html! {
        input type="hidden" name="text:/name" value=(name);
        input type="hidden" name="text:/visibility" value=(word(secret.visibility));
        @for host in &secret.hosts { input type="hidden" name="each:/hosts" value=(text::plain(host)); }
        @for place in &secret.places { input type="hidden" name="each:/places" value=(word(place)); }
        div.field.wide { label for=(id) { "New value of " (text::words(name)) } (value(&id)) }
        button.primary { "Replace" }
    };
    let remove = html! {
        input type="hidden" name="query:name" value=(name);
        button.danger { "Remove " (text::words(name)) }
    };
    [
        html! { code { (text::words(name)) } },
        text::line(&receiver(secret)),
        moment(secret.created_at),
        moment(secret.updated_at),
        html! {
            details {
                summary { "Replace" span.aside { " " (text::words(name)) } }
                (form::operation(visitor, "setSecret", &[("slug", slug)], &back(slug), replace))
            }
            details {
                summary { "Remove" span.aside { " " (text::words(name)) } }
                p { "Calls that start later do not get it. Workers that can know the value are stopped." }
                (form::operation(visitor, "removeSecret", &[("slug", slug)], &back(slug), remove))
            }
        },
    ]
}

/// Shows the field for a value, which is never filled in.
fn value(id: &str) -> Markup {
    html! {
        input #(id) name="text:/value" type="password" autocomplete="off" required spellcheck="false" aria-describedby="short" data-hidden-from="8";
    }
}

const VISIBILITIES: [(&str, &str); 3] =
    [("env", "the handler"), ("auth", "only requests with auth"), ("hosts", "only requests to its hosts")];

fn set(visitor: &Visitor, slug: &str) -> Markup {
    let fields = html! {
        div.field {
            label for="name" { "Name" }
            input #name name="text:/name" required autocomplete="off" spellcheck="false" placeholder="API_TOKEN";
        }
        div.field.wide { label for="value" { "Value" } (value("value")) }
        (form::choice("visibility", "text:/visibility", "Available to", &VISIBILITIES, "env"))
        div.field.wide {
            label for="hosts" { "Hosts that get the value, one per line" }
            textarea.mono #hosts name="lines:/hosts" rows="2" autocomplete="off" spellcheck="false" placeholder="api.example.com" {}
            p.note { "With hosts, the handler gets a placeholder, and never the value." }
        }
        fieldset {
            legend { "Parts of a request that get the value; by default, a header" }
            @for (place, label) in PLACES {
                @let (id, value) = (format!("place-{}", word(place)), word(place));
                div.box { input #(id) type="checkbox" name="each:/places" value=(value); label for=(id) { (label) } }
            }
        }
        button.primary { "Set secret" }
    };
    html! {
        section {
            h2 { "Set a secret" }
            (form::operation(visitor, "setSecret", &[("slug", slug)], &back(slug), fields))
            p.note #short role="status" {
                "A value shorter than 8 bytes is not hidden in results, errors and logs, because it can occur there by chance. "
                "If you set a name again, its value is replaced. Warm workers are stopped, so the next call gets the new value."
            }
        }
    }
}
