//! The query of a page. Its address contains the whole state, so that it can be shared.

use crate::with_query;

/// Query field for the start of a page in its list.
const CURSOR: &str = "cursor";

/// The known fields of a query.
#[derive(Debug)]
pub(super) struct PageQuery(Vec<(&'static str, String)>);

impl PageQuery {
    /// Reads the last value of each of these names from a query. Other fields are ignored, for
    /// example those that track where a visitor came from.
    pub(super) fn read(query: Option<&str>, names: &[&'static str]) -> Self {
        let mut fields: Vec<_> = names.iter().map(|name| (*name, String::new())).collect();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if let Some((_, field)) = fields.iter_mut().find(|(known, _)| *known == name) {
                value.trim().clone_into(field);
            }
        }
        Self(fields)
    }

    /// Returns the value of a field, or an empty string.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// Returns `path` with this query, and with the `changed` fields replaced.
    pub(super) fn with(&self, path: &str, changed: &[(&str, &str)]) -> String {
        let stored = self.0.iter().map(|(name, value)| (*name, value.as_str()));
        let stored = stored.filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
        with_query(path, stored.chain(changed.iter().copied()))
    }

    /// Returns the address of the first page of the list at `path`, if this is a later page.
    pub(super) fn first(&self, path: &str) -> Option<String> {
        (!self.get(CURSOR).is_empty()).then(|| self.with(path, &[(CURSOR, "")]))
    }

    /// Returns the address of the next page of the list, if the API's answer has a cursor.
    pub(super) fn next(&self, path: &str, cursor: Option<&str>) -> Option<String> {
        cursor.map(|cursor| self.with(path, &[(CURSOR, cursor)]))
    }

    /// Returns whether any of these fields has a value.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| !self.get(name).is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_keeps_the_fields_that_do_not_change() {
        let request = PageQuery::read(Some("since=7d&code=a%26b&cursor=x&utm_source=elsewhere"), &["code", "since", "cursor"]);
        assert_eq!((request.get("since"), request.get("code"), request.get("utm_source")), ("7d", "a&b", ""));
        assert_eq!(request.with("/calls", &[("cursor", "")]), "/calls?code=a%26b&since=7d");
        assert_eq!(request.with("/calls", &[("cursor", "y"), ("code", "")]), "/calls?since=7d&cursor=y");
        assert_eq!(PageQuery::read(None, &["since"]).with("/calls", &[]), "/calls");
    }

    #[test]
    fn list_links_to_its_first_and_next_page() {
        let (first, later) = (PageQuery::read(Some("a=1"), &["a", "cursor"]), PageQuery::read(Some("a=1&cursor=x"), &["a", "cursor"]));
        assert_eq!((first.first("/l"), later.first("/l")), (None, Some("/l?a=1".to_owned())));
        assert_eq!(later.next("/l", Some("y")), Some("/l?a=1&cursor=y".to_owned()));
        assert_eq!(later.next("/l", None), None);
    }
}
