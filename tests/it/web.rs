//! Pages for people, as a browser gets them: with security headers, small, without inline script,
//! and with foreign text as text only.

mod admin_pages;
mod admin_tools;
mod below;
mod browser;
mod empty;
mod guides;
mod hostile;
mod lengths;
mod lists;
mod paid_out;
mod parity;
mod receipts;
mod response_headers;
mod revenue;
mod sessions;
mod shown_terms;
mod tool_forms;
mod tool_settings;
mod try_it;

use std::collections::BTreeSet;

use reqwest::Method;

use crate::harness::{Answer, Host};

/// Requests a page as browsers do.
async fn page(host: &Host, path: &str) -> Answer {
    host.send(host.request(Method::GET, path).header("accept", "text/html,application/xhtml+xml,*/*;q=0.8")).await
}

fn html(answer: &Answer) -> String {
    assert_eq!(answer.has("content-type"), "text/html; charset=utf-8", "{answer:?}");
    String::from_utf8(answer.body.to_vec()).unwrap()
}

/// Returns the unescaped values of an attribute.
fn values(html: &str, attribute: &str) -> Vec<String> {
    let begin = format!(" {attribute}=\"");
    html.split(begin.as_str()).skip(1).map(|rest| intended(rest.split('"').next().unwrap())).collect()
}

/// Returns the texts of all elements with a name, without markup.
fn texts(html: &str, element: &str) -> Vec<String> {
    let (begin, end) = (format!("<{element}"), format!("</{element}>"));
    let whole = html.split(begin.as_str()).skip(1).filter(|rest| rest.starts_with(['>', ' ']));
    whole.map(|rest| text(rest.split_once('>').unwrap().1.split(end.as_str()).next().unwrap())).collect()
}

/// Returns the text of markup, as it is read.
fn text(html: &str) -> String {
    let pieces = html
        .split('<')
        .enumerate()
        .map(|(position, piece)| if position == 0 { piece } else { piece.split_once('>').map_or("", |(_, text)| text) });
    intended(&pieces.collect::<String>())
}

fn intended(escaped: &str) -> String {
    escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Returns every page of a host that can be reached by links from `/dashboard`.
async fn all_pages(host: &Host) -> Vec<(String, Answer)> {
    let (mut seen, mut open, mut pages) = (BTreeSet::new(), vec!["/dashboard".to_owned()], vec![]);
    while let Some(path) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let answer = page(host, &path).await.is(200);
        if answer.has("content-type").starts_with("text/html") {
            for link in values(&html(&answer), "href") {
                let link = link.split('#').next().unwrap();
                let link = link.strip_prefix(&host.url).unwrap_or(link).to_owned();
                if link.starts_with('/') {
                    open.push(link);
                } else {
                    assert!(link.is_empty() || link.starts_with("https://"), "{path} links to {link}");
                }
            }
            pages.push((path, answer));
        }
    }
    pages
}
