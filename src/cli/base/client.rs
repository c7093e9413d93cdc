//! The HTTP client for hosts: with timeouts, without redirects, and with the credential for that host only.

use std::time::Duration;

use reqwest::{
    Method, Url,
    header::{self, HeaderMap, HeaderValue},
    redirect::Policy,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tollhouse_config::HiddenValue;
use tollhouse_tool::WithResponse;

use super::{Answer, Credentials, Error, Exit, Result, Role, below, host_name, is_loopback, is_unavailable};

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(10);
/// Timeout for a complete answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(120);
/// Maximum silence of a stream. A quiet stream sends a comment every 15 s.
pub(crate) const SILENCE: Duration = Duration::from_secs(45);

/// The hint if there is no connection to the host.
pub(crate) const NO_CONNECTION: &str = "nothing was sent; start the host, or choose another with --url";

/// The user agent. The host records it as the origin of a version.
const AGENT: &str = concat!("tollhouse/", env!("CARGO_PKG_VERSION"));

/// The kinds of credentials that a request can use, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CredentialChoice {
    /// No credential is needed.
    Everyone,
    /// No credential is needed, but with one the answer contains more.
    Anyone,
    /// A builder for their own data, or an admin.
    Manager,
    Admin,
    /// The holder of a credit, or an admin.
    Holder,
    /// Only the holder of a credit, because the request is about that credit.
    Credit,
    /// No credential is needed, but a credit is used for payment if there is one.
    Payer,
}

impl CredentialChoice {
    fn roles(self) -> &'static [Role] {
        match self {
            Self::Everyone => &[],
            Self::Anyone | Self::Manager => &[Role::Builder, Role::Admin],
            Self::Admin => &[Role::Admin],
            Self::Holder => &[Role::Credit, Role::Admin],
            Self::Credit | Self::Payer => &[Role::Credit],
        }
    }
}

/// A client for one host, with its credentials.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    credentials: Credentials,
    /// The kind of credential that the user chose, if any.
    role: Option<Role>,
    plain_http: bool,
}

impl Client {
    /// Creates a client.
    pub(crate) fn new(base: Url, credentials: Credentials, role: Option<Role>, plain_http: bool) -> Result<Self> {
        let http = connecting(&base, Some(ANSWER))?;
        Ok(Self { http, base, credentials, role, plain_http })
    }

    /// Returns the kind of credential chosen with `--as`.
    pub(crate) fn chosen(&self) -> Option<Role> {
        self.role
    }

    /// Returns whether there is a credential for the host.
    pub(crate) fn has_credential(&self) -> bool {
        !self.credentials.is_empty()
    }

    /// Returns the host's address.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// Returns the URL of an operation. Path segments are used literally.
    pub(crate) fn at(&self, path: &[&str]) -> Url {
        below(&self.base, path)
    }

    pub(crate) fn get(&self, path: &[&str]) -> PendingRequest<'_> {
        self.ask(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &[&str]) -> PendingRequest<'_> {
        self.ask(Method::POST, path)
    }

    pub(crate) fn ask(&self, method: Method, path: &[&str]) -> PendingRequest<'_> {
        // `.` and `..` would lead to another operation.
        let strange = path.iter().find(|piece| matches!(**piece, "." | ".." | ""));
        let wrong = strange.map(|piece| Error::usage(format!("`{piece}` is not a valid name")));
        PendingRequest {
            client: self,
            method,
            url: self.at(path),
            headers: HeaderMap::new(),
            body: None,
            max: None,
            who: CredentialChoice::Manager,
            wrong,
        }
    }

    /// Returns the credential for a request that `who` may make, or `None` if none is needed.
    ///
    /// # Errors
    ///
    /// The credential is missing, or it would be sent in a way that others can read.
    pub(crate) fn credential(&self, who: CredentialChoice) -> Result<Option<(Role, &HiddenValue)>> {
        let fitting = who.roles();
        let found = match self.role {
            Some(role) if fitting.contains(&role) => self.credentials.get(role).map(|credential| (role, credential)),
            // If the chosen kind is not allowed here, use one that is.
            Some(_) | None => fitting.iter().find_map(|role| Some((*role, self.credentials.get(*role)?))),
        };
        match found {
            Some(_) if self.base.scheme() == "http" && !is_loopback(&self.base) && !self.plain_http => {
                let error =
                    Error::credential(format!("{} is plain http: others on the network could read the credential", host_name(&self.base)));
                Err(error.hint("use the https address, or --allow-plain-http if you trust the network"))
            }
            None if !matches!(who, CredentialChoice::Everyone | CredentialChoice::Anyone | CredentialChoice::Payer) => {
                Err(self.lacks(fitting))
            }
            found => Ok(found),
        }
    }

    fn lacks(&self, fitting: &[Role]) -> Error {
        let requested: Vec<_> = fitting.iter().map(|role| role.label()).collect();
        let variables: Vec<_> = fitting.iter().map(|role| role.variable()).collect();
        let error = Error::credential(format!("no {} for {}", requested.join(" or "), host_name(&self.base)));
        error.hint(format!("sign in: tollhouse login --url {}, or set {}", host_name(&self.base), variables.join(" or ")))
    }
}

/// Creates an HTTP client for an address, without redirects. `silence` is the maximum time between two parts of an
/// answer.
pub(crate) fn connecting(to: &Url, silence: Option<Duration>) -> Result<reqwest::Client> {
    let builder = reqwest::Client::builder().user_agent(AGENT).redirect(Policy::none()).connect_timeout(CONNECT);
    let builder = match silence {
        Some(silence) => builder.read_timeout(silence),
        None => builder,
    };
    // A proxy could read unencrypted requests, and none is needed to reach this machine.
    let builder = if to.scheme() == "http" { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| Error::refused(format!("cannot prepare a connection: {error}")))
}

/// A request that is being built.
#[derive(Debug)]
#[must_use]
pub(crate) struct PendingRequest<'c> {
    client: &'c Client,
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    /// Timeout for the whole answer. Default: none.
    max: Option<Duration>,
    who: CredentialChoice,
    /// Why the request is invalid, if it is.
    wrong: Option<Error>,
}

impl PendingRequest<'_> {
    /// Sets who may make the request. Default: [`CredentialChoice::Manager`].
    pub(crate) fn by(mut self, who: CredentialChoice) -> Self {
        self.who = who;
        self
    }

    pub(crate) fn query(mut self, name: &str, value: impl ToString) -> Self {
        self.url.query_pairs_mut().append_pair(name, &value.to_string());
        self
    }

    /// Adds a query parameter if there is a value.
    pub(crate) fn query_opt(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(text) => self.body = Some(text),
            Err(error) => self.wrong = Some(Error::refused(error.to_string())),
        }
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self
    }

    /// Sets the body of an upload, with a static response as its [text](WithResponse).
    pub(crate) fn upload(self, body: &Map<String, Value>) -> Self {
        self.text(WithResponse(body).text())
    }

    /// Sets a JSON body that is already encoded.
    pub(crate) fn text(mut self, body: String) -> Self {
        self.body = Some(body.into());
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        match HeaderValue::from_str(value) {
            Ok(value) => _ = self.headers.insert(name, value),
            Err(_) => self.wrong = Some(Error::usage(format!("the value of `{name}` has invalid characters"))),
        }
        self
    }

    /// Adds headers.
    pub(crate) fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Makes repeated requests with the same key take effect once.
    pub(crate) fn idempotent(self, key: Option<&str>) -> Self {
        match key {
            Some(key) => self.header("idempotency-key", key),
            None => self,
        }
    }

    /// Makes the request succeed only if the record still has this revision.
    pub(crate) fn if_match(self, revision: Option<u64>) -> Self {
        match revision {
            Some(revision) => self.header("if-match", &format!("\"{revision}\"")),
            None => self,
        }
    }

    /// Sends the request and reads the response.
    pub(crate) async fn send<T: DeserializeOwned>(self) -> Result<Answer<T>> {
        let is_change = self.method != Method::GET;
        let request = async {
            let response = Self { max: Some(ANSWER), ..self }.open().await?;
            Answer::of(response).await
        };
        request.await.map_err(|error| match error.exit {
            Exit::Unavailable if is_change && !error.is_unsent && error.reported.is_empty() => {
                error.more(["it is unknown whether the change was made".to_owned()])
            }
            _ => error,
        })
    }

    /// Sends the request and reads the response. Returns `None` if the host refuses it with the code `missing`.
    pub(crate) async fn find<T: DeserializeOwned>(self, missing: &str) -> Result<Option<Answer<T>>> {
        match self.send().await {
            Err(error) if error.code() == missing => Ok(None),
            ended => ended.map(Some),
        }
    }

    /// Sends the request without reading the body.
    ///
    /// # Errors
    ///
    /// The reason for a missing answer, or a missing credential.
    pub(crate) async fn open(mut self) -> Result<reqwest::Response> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if let Some((role, credential)) = self.client.credential(self.who)? {
            let wrong = |_| Error::credential(format!("the {} has invalid characters", role.label()));
            let mut value = HeaderValue::from_str(credential.expose()).map_err(wrong)?;
            value.set_sensitive(true);
            self.headers.insert(role.header(), value);
        }
        let mut request = self.client.http.request(self.method, self.url).headers(self.headers);
        if let Some(max) = self.max {
            request = request.timeout(max);
        }
        if let Some(body) = self.body {
            request = request.body(body);
        }
        request.send().await.map_err(|error| {
            let missing = is_unavailable(&error);
            if error.is_connect() { Error { is_unsent: true, ..missing }.hint(NO_CONNECTION) } else { missing }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(base: &str, plain_http: bool) -> Client {
        let mut credentials = super::super::credentials::CredentialFile::default();
        let url = Url::parse(base).unwrap();
        credentials.keep("a", &url, Role::Builder, "bk_1".to_owned().into());
        credentials.keep("a", &url, Role::Admin, "t".to_owned().into());
        Client::new(url.clone(), credentials.of("a", &url), None, plain_http).unwrap()
    }

    #[test]
    fn credential_is_sent_over_plain_http_only_to_this_machine() {
        for (base, goes) in [("https://a.example", true), ("http://127.0.0.1:1", true), ("http://a.example", false)] {
            assert_eq!(client(base, false).credential(CredentialChoice::Manager).is_ok(), goes, "{base}");
            assert!(client(base, false).credential(CredentialChoice::Everyone).unwrap().is_none());
        }
        assert!(client("http://a.example", true).credential(CredentialChoice::Manager).is_ok());
    }

    #[test]
    fn request_uses_a_credential_of_an_allowed_role() {
        let mut client = client("http://127.0.0.1", false);
        let role = |client: &Client, who| client.credential(who).unwrap().map(|(role, _)| role);
        assert_eq!(role(&client, CredentialChoice::Manager), Some(Role::Builder));
        assert_eq!(role(&client, CredentialChoice::Admin), Some(Role::Admin));
        assert_eq!(role(&client, CredentialChoice::Holder), Some(Role::Admin));
        client.role = Some(Role::Admin);
        assert_eq!(role(&client, CredentialChoice::Manager), Some(Role::Admin));
    }

    #[test]
    fn name_cannot_lead_to_another_operation() {
        let client = client("http://127.0.0.1/base/", false);
        assert_eq!(client.at(&["ai", "endpoints", "a/../b?c#d"]).as_str(), "http://127.0.0.1/base/ai/endpoints/a%2F..%2Fb%3Fc%23d");
        for strange in [".", "..", ""] {
            assert!(client.get(&["ai", "endpoints", strange]).wrong.is_some());
        }
    }
}
