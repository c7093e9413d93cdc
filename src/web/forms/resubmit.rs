//! Forms whose session ended before they were sent: the sign-in page carries the form on, and the
//! page after that offers to send it. Signing in alone does nothing.

use maud::{Markup, html};
use tollhouse_account::session::OpenSession;

use super::{fields::Fields, form_urls::is_form};
use crate::{facts, first, page_frame::home};

/// Prefix of the names of carried fields, plain and as browsers encode it.
const CARRIED: &str = "sent:";
pub(super) const CARRIED_SENT: &str = "sent%3A";

/// Field with the address of the carried form.
const ACTION: &str = "again";

/// Fields with secrets, which are never filled in again.
const SECRETS: [&str; 5] = ["credential", "credit", "link", "text:/value", "header:x-developer-credit"];

/// Number of characters of a field that are shown before it is sent.
const SHOWN: usize = 200;

/// A form that was sent but not performed.
#[derive(Debug)]
pub(crate) struct SentForm {
    action: String,
    fields: Vec<(String, String)>,
}

impl SentForm {
    /// Takes the form sent to `action`. Returns `None` if it is not a form of the dashboard, or
    /// contains a secret.
    pub(super) fn from_fields(action: &str, fields: &Fields) -> Option<Self> {
        let is_secret = fields.all().any(|(name, _)| SECRETS.contains(&name));
        let stored = fields.all().filter(|(name, _)| *name != "csrf").map(|(name, value)| (name.to_owned(), value.to_owned()));
        (is_form(action) && !is_secret).then(|| Self { action: action.to_owned(), fields: stored.collect() })
    }

    /// Returns the form that a sign-in form carries.
    pub(crate) fn carried(fields: &Fields) -> Option<Self> {
        let action = fields.get(ACTION).filter(|action| is_form(action))?.to_owned();
        let stored = fields.all().filter_map(|(name, value)| Some((name.strip_prefix(CARRIED)?.to_owned(), value.to_owned())));
        Some(Self { action, fields: stored.collect() })
    }

    /// Returns the hidden fields that carry this form in a sign-in form.
    pub(crate) fn carry(&self) -> Markup {
        html! {
            input type="hidden" name=(ACTION) value=(self.action);
            @for (name, value) in &self.fields { input type="hidden" name={ (CARRIED) (name) } value=(value); }
        }
    }

    /// Shows the contents, with a button that sends them in this session.
    pub(crate) fn form(&self, session: &OpenSession) -> Markup {
        let typed = self.fields.iter().filter(|(_, value)| !value.is_empty());
        let typed: Vec<_> = typed.filter_map(|(name, value)| Some((label(name)?, Some(first(value, SHOWN))))).collect();
        html! {
            p { "The form goes to " code { (self.action) } ". Send it only if you filled it in yourself." }
            (facts::list(&typed))
            form.form method="post" action=(self.action) {
                input type="hidden" name="csrf" value=(session.form_token);
                @for (name, value) in &self.fields { input type="hidden" name=(name) value=(value); }
                p.buttons { button.primary { "Send it now" } " " a.button.quiet href=(home(session.kind)) { "Discard it" } }
            }
        }
    }
}

/// Returns a field's name for people, or `None` if nobody typed it.
fn label(name: &str) -> Option<&str> {
    match name.split_once(':') {
        Some(("header", _)) => None,
        Some(("path" | "query", name)) => Some(name),
        Some((_, pointer)) => Some(pointer.trim_start_matches('/')),
        None => (!matches!(name, "back" | "base" | "revision" | "version" | "do")).then_some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::fields;
    use tollhouse_account::session::SessionKind;

    fn sent(fields: &[(&str, &str)]) -> Fields {
        Fields::read(form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish().as_bytes())
    }

    /// Returns the values of hidden fields by name.
    fn hidden(markup: &str) -> Vec<(&str, &str)> {
        let value = |input: &'_ str, name: &str| {
            let begin = input.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
            begin..begin + input[begin..].find('"').unwrap()
        };
        let inputs = markup.split("<input").skip(1).map(|rest| rest.split('>').next().unwrap());
        inputs.map(|input| (&input[value(input, "name")], &input[value(input, "value")])).collect()
    }

    #[test]
    fn form_is_carried_through_sign_in_unchanged() {
        let first =
            [("csrf", "old"), ("back", "/dashboard"), ("text:/title", "a b"), ("each:/x", "1"), ("each:/x", "2"), ("do", "publish")];
        let carry = SentForm::from_fields("/dashboard/new", &sent(&first)).unwrap().carry().into_string();
        let carried = SentForm::carried(&sent(&hidden(&carry))).unwrap();
        let (owner, name, form_token) = ("bld_x".to_owned(), "n".to_owned(), "new".to_owned());
        let session = OpenSession { owner, name, kind: SessionKind::Builder, credential: String::new().into(), form_token };
        let form = carried.form(&session).into_string();
        assert!(form.contains("action=\"/dashboard/new\"") && form.contains("<dt>title</dt><dd><bdi>a b</bdi></dd>"), "{form}");
        let (csrf, rest) = hidden(&form).split_first().map(|(csrf, rest)| (*csrf, rest.to_vec())).unwrap();
        assert_eq!((csrf, rest), (("csrf", "new"), first[1..].to_vec()));
        assert!(fields::body(&sent(&hidden(&form))).is_ok());
    }

    #[test]
    fn forms_with_secrets_or_foreign_targets_are_not_carried() {
        for (action, name) in [
            ("/dashboard/do/setSecret", "text:/value"),
            ("/dashboard/session", "credential"),
            ("/dashboard/session", "link"),
            ("/dashboard/tools/x/try", "credit"),
            ("https://evil.example/dashboard", "a"),
            ("/dashboard/api/do/setSecret", "a"),
        ] {
            assert!(SentForm::from_fields(action, &sent(&[(name, "x")])).is_none(), "{action}");
        }
        assert!(SentForm::carried(&sent(&[("again", "//evil.example")])).is_none());
        assert!(SentForm::carried(&sent(&[("credential", "x")])).is_none());
    }
}
