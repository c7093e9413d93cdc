//! A file in place of the input, for tools with `requestTypes`. It goes into the field `body` of JSON, so that terms
//! and payment are the same as for any other input.

use maud::{Markup, html};
use serde_json::{Map, Value, json};
use tollhouse_tool::{BODY_FIELD, FORM, only_type};

use crate::{Fields, form, text};

/// Returns the input that a form with a file sent.
pub(super) fn input(fields: &Fields) -> Option<String> {
    let data: String = fields.get("file")?.split_whitespace().collect();
    let given = |name: &str| fields.get(name).map(str::trim).filter(|value| !value.is_empty());
    let mut file = Map::from_iter([("data".to_owned(), Value::String(data))]);
    let media = given("file-type").filter(|media| *media != FORM);
    file.extend(media.map(|media| ("mimeType".to_owned(), json!(media))));
    let body = match given("file-part") {
        Some(part) => {
            file.extend(given("file-name").map(|name| ("filename".to_owned(), json!(name))));
            file.insert("name".to_owned(), json!(part));
            json!({ "form": [file] })
        }
        None => Value::Object(file),
    };
    Some(Value::Object(Map::from_iter([(BODY_FIELD.to_owned(), body)])).to_string())
}

/// Shows the fields of a file. A script fills them in from a chosen file.
pub(super) fn view(types: &[String]) -> Markup {
    let takes_forms = types.iter().any(|taken| taken == FORM || taken == "*/*");
    let accepted = types.iter().filter(|taken| *taken != FORM).map(String::as_str).collect::<Vec<_>>().join(",");
    html! {
        input type="hidden" name="as" value="json";
        div.field hidden {
            label for="file-chosen" { "File" }
            input #file-chosen type="file" accept=[(!accepted.is_empty()).then_some(text::plain(&accepted))] data-file;
        }
        (form::field("file", "Its bytes, as base64", None, html! {
            textarea.mono #file name="file" rows="3" spellcheck="false" autocomplete="off" {}
        }))
        (form::field("file-type", "Its media type", None, html! {
            input #file-type name="file-type" value=[only_type(types).map(text::plain)] autocomplete="off" spellcheck="false" list="file-types";
            datalist #file-types { @for taken in types.iter().filter(|taken| !taken.contains('*') && *taken != FORM) { option value=(text::plain(taken)) {} } }
        }))
        @if takes_forms {
            input type="hidden" name="file-name" value="";
            (form::field("file-part", "Field of the form that has the file", Some("Without one, the file itself is the body."), html! {
                input #file-part name="file-part" autocomplete="off" spellcheck="false";
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(body: &str) -> Option<Value> {
        input(&Fields::read(body.as_bytes())).map(|json| serde_json::from_str(&json).unwrap())
    }

    #[test]
    fn file_is_the_body_or_a_field_of_a_form() {
        assert_eq!(sent("as=json&json={}"), None);
        let csv = json!({ "body": { "data": "YSxi", "mimeType": "text/csv" } });
        assert_eq!(sent("file=YS%0D%0Axi&file-type=+text/csv&file-part=&file-name=a.csv"), Some(csv));
        assert_eq!(sent("file=&file-type="), Some(json!({ "body": { "data": "" } })));
        let part = json!({ "body": { "form": [{ "data": "YSxi", "filename": "a.csv", "name": "upload" }] } });
        assert_eq!(sent("file=YSxi&file-type=multipart/form-data&file-part=upload&file-name=a.csv"), Some(part));
    }

    #[test]
    fn only_tools_with_forms_ask_for_a_field() {
        let shown = |types: &[&str]| view(&types.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).into_string();
        let csv = shown(&["text/csv"]);
        assert!(csv.contains("accept=\"text/csv\"") && csv.contains("value=\"text/csv\"") && !csv.contains("file-part"), "{csv}");
        let any = shown(&["image/*", "multipart/form-data"]);
        assert!(any.contains("accept=\"image/*\"") && any.contains("name=\"file-part\"") && !any.contains("option"), "{any}");
        assert!(!shown(&["multipart/form-data"]).contains("accept"));
    }
}
