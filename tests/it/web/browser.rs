//! A browser without script. It has one session, and submits the forms of pages.

use reqwest::{Method, RequestBuilder};

use super::{html, values};
use crate::harness::{Answer, Host};

/// A browser, signed in or not.
pub struct Browser<'h> {
    pub host: &'h Host,
    /// The session cookie, `name=value`.
    pub cookie: Option<String>,
}

/// A form on a page.
#[derive(Debug, Clone)]
pub struct Form {
    pub action: String,
    /// The hidden fields.
    pub fields: Vec<(String, String)>,
}

impl<'h> Browser<'h> {
    pub fn new(host: &'h Host) -> Self {
        Self { host, cookie: None }
    }

    /// Signs in with a credential.
    pub async fn signed_in(host: &'h Host, credential: &str) -> Self {
        let mut browser = Self::new(host);
        let answer = browser.post("/dashboard/session", &[("credential", credential)]).await.is(303);
        browser.cookie = answer.has("set-cookie").split(';').next().map(str::to_owned);
        browser
    }

    /// Returns a request as this browser makes it.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.host.request(method, path).header("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
        match &self.cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.host.send(self.request(Method::GET, path)).await
    }

    /// Fetches a page that must exist. Returns its markup.
    pub async fn page(&self, path: &str) -> String {
        html(&self.get(path).await.is(200))
    }

    /// Submits these fields, as a form on the host's own pages does.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.request(Method::POST, path).header("sec-fetch-site", "same-origin");
        self.host.send(request.header("content-type", "application/x-www-form-urlencoded").body(body)).await
    }

    /// Fills a form in and submits it.
    pub async fn submit(&self, form: &Form, filled: &[(&str, &str)]) -> Answer {
        let hidden = form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<_> = hidden.chain(filled.iter().copied()).collect();
        self.post(&form.action, &fields).await
    }

    /// Opens a page, fills its form with this action in, and submits it.
    pub async fn fill(&self, path: &str, action: &str, filled: &[(&str, &str)]) -> Answer {
        let page = self.page(path).await;
        self.submit(&form(&page, action), filled).await
    }
}

/// Returns the first form on a page with this action.
pub fn form(page: &str, action: &str) -> Form {
    forms(page).into_iter().find(|form| form.action == action).unwrap_or_else(|| panic!("no form asks for {action}: {page}"))
}

/// Returns all forms on a page, with their hidden fields.
pub fn forms(page: &str) -> Vec<Form> {
    let whole = page.split("<form").skip(1).map(|rest| rest.split("</form>").next().unwrap());
    whole
        .map(|form| {
            let inputs = form.split("<input").skip(1).map(|rest| rest.split('>').next().unwrap());
            let hidden = inputs.filter(|input| input.contains("type=\"hidden\""));
            let one = |input: &str, name: &str| values(input, name).into_iter().next().unwrap_or_default();
            Form {
                action: values(&format!(" {form}"), "action").into_iter().next().unwrap_or_default(),
                fields: hidden.map(|input| (one(input, "name"), one(input, "value"))).collect(),
            }
        })
        .collect()
}
