//! A browser without script. It keeps cookies, and submits the forms on a page unchanged.

use std::{collections::BTreeMap, sync::Mutex};

use reqwest::{Method, RequestBuilder};

use super::super::{html, intended, text};
use crate::harness::{Answer, Host};

/// A browser for one host.
pub(super) struct Browser<'a> {
    pub(super) host: &'a Host,
    cookies: Mutex<BTreeMap<String, String>>,
}

/// A form on a page.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) action: String,
    pub(super) fields: Vec<(String, String)>,
    /// The label of a button, and the field that it adds.
    buttons: Vec<(String, Option<(String, String)>)>,
}

impl<'a> Browser<'a> {
    pub(super) fn new(host: &'a Host) -> Self {
        Self { host, cookies: Mutex::default() }
    }

    pub(super) fn cookie(&self, part: &str) -> Option<String> {
        self.cookies.lock().unwrap().iter().find(|(name, _)| name.ends_with(part)).map(|(_, value)| value.clone())
    }

    fn with_cookies(&self, request: RequestBuilder) -> RequestBuilder {
        let cookies: Vec<_> = self.cookies.lock().unwrap().iter().map(|(name, value)| format!("{name}={value}")).collect();
        if cookies.is_empty() { request } else { request.header("cookie", cookies.join("; ")) }
    }

    async fn send(&self, request: RequestBuilder) -> Answer {
        let answer = self.host.send(self.with_cookies(request).header("accept", "text/html,*/*;q=0.8")).await;
        for stored in answer.headers.get_all("set-cookie") {
            let stored = stored.to_str().unwrap();
            assert!(stored.contains("; Path=/dashboard; HttpOnly; SameSite=Lax"), "{stored}");
            let (name, value) = stored.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.lock().unwrap().insert(name.to_owned(), value.to_owned());
        }
        answer
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(self.host.request(Method::GET, path)).await
    }

    /// Returns the request that a button of a form causes.
    pub(super) fn request(&self, form: &Form, label: &str) -> RequestBuilder {
        let (_, adds) = form.buttons.iter().find(|(known, _)| known.contains(label)).unwrap_or_else(|| panic!("no `{label}`: {form:?}"));
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(form.fields.iter().chain(adds).map(|(name, value)| (name, value.replace('\n', "\r\n"))));
        let request = self.host.request(Method::POST, &form.action).header("sec-fetch-site", "same-origin");
        request.header("content-type", "application/x-www-form-urlencoded").body(body.finish())
    }

    pub(super) async fn press(&self, form: &Form, label: &str) -> Answer {
        self.send(self.request(form, label)).await
    }

    /// Presses a button on a page.
    pub(super) async fn press_on(&self, page: &Answer, label: &str) -> Answer {
        self.press(&form(page, label), label).await
    }

    /// Fetches the terms of a tool for this input, given as JSON.
    pub(super) async fn terms(&self, slug: &str, input: &str) -> Answer {
        let page = self.get(&format!("/dashboard/tools/{slug}/try?as=json")).await.is(200);
        let form = form(&page, "See the terms").with("json", input);
        self.press(&form, "See the terms").await.is(200)
    }

    pub(super) async fn sign_in(&self, credential: &str) {
        let page = self.get("/dashboard/sign-in").await.is(200);
        let form = form(&page, "Sign in").with("credential", credential);
        self.press(&form, "Sign in").await.is(303);
    }
}

impl Form {
    /// Fills a field in.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        let field = self.fields.iter_mut().find(|(known, _)| known == name);
        value.clone_into(&mut field.unwrap_or_else(|| panic!("no field `{name}`")).1);
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(known, _)| known != name);
        self
    }

    /// Adds a button that only scripts press.
    pub(super) fn pressed_by_script(mut self, label: &str) -> Self {
        self.buttons.push((label.to_owned(), None));
        self
    }

    pub(super) fn get(&self, name: &str) -> &str {
        self.fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }
}

/// Returns all forms in the main part of a page.
pub(super) fn forms(page: &Answer) -> Vec<Form> {
    let html = html(page);
    let main = html.split("<main").nth(1).unwrap();
    main.split("<form").skip(1).map(|rest| read(rest.split("</form>").next().unwrap())).collect()
}

/// Returns the form with this button.
pub(super) fn form(page: &Answer, label: &str) -> Form {
    let all = forms(page);
    let has = |form: &&Form| form.buttons.iter().any(|(known, _)| known.contains(label));
    all.iter().find(has).unwrap_or_else(|| panic!("no `{label}`: {all:#?}")).clone()
}

pub(super) fn labels(page: &Answer) -> Vec<String> {
    forms(page).into_iter().flat_map(|form| form.buttons).map(|(label, _)| label).collect()
}

fn read(markup: &str) -> Form {
    let (tag, rest) = markup.split_once('>').unwrap();
    let attribute = |tag: &str, name: &str| {
        let begin = format!(" {name}=\"");
        tag.split_once(begin.as_str()).map(|(_, rest)| intended(rest.split('"').next().unwrap()))
    };
    let (mut fields, mut buttons) = (vec![], vec![]);
    for piece in rest.split('<').skip(1) {
        let (tag, inner) = piece.split_once('>').unwrap();
        let name = attribute(tag, "name");
        match (tag.split([' ', '/']).next().unwrap(), name) {
            ("input", Some(name)) => fields.push((name, attribute(tag, "value").unwrap_or_default())),
            ("textarea", Some(name)) => fields.push((name, intended(inner.strip_prefix('\n').unwrap_or(inner)))),
            ("select", Some(name)) => fields.push((name, String::new())),
            ("option", _) if tag.contains(" selected") => fields.last_mut().unwrap().1 = attribute(tag, "value").unwrap(),
            ("button", name) if !tag.contains("type=\"button\"") => {
                let whole = rest[rest.find(piece).unwrap()..].split("</button>").next().unwrap();
                let adds = name.map(|name| (name, attribute(tag, "value").unwrap_or_default()));
                buttons.push((text(&format!("<{whole}")), adds));
            }
            _ => {}
        }
    }
    Form { action: attribute(tag, "action").unwrap_or_default(), fields, buttons }
}
