//! The file with a tool's secrets for `dev` and `check`.
//!
//! A folder does not say how the secrets are set on the host. Those that the handler names in `auth` of
//! `ctx.httpGetJson` are hidden from it here too, as `secrets set --auth` does it. A comment above a line names the
//! hosts of its secret, as `secrets set --host` does it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use tollhouse_api::SecretVisibility;
use tollhouse_base::lexer::{Kind, Token, cooked, tokens};
use zeroize::Zeroizing;

use super::{
    base::{Error, private_files},
    secrets::{self, FileSecret},
    tool::{FilePosition, Problem, Upload},
    trial::Secret,
};

/// The default file.
const FILE: &str = ".env.dev";

/// Returns the secrets of a folder, each with its line: from `named`, or from the default file if it exists.
pub(crate) fn read(upload: &Upload, named: Option<&Path>) -> Result<Vec<Secret>, Problem> {
    let hidden = upload.bundle.as_ref().map(|bundle| names_in_auth(&bundle.source)).unwrap_or_default();
    parse(&upload.tool.folder, named, &hidden)
}

fn parse(folder: &Path, named: Option<&Path>, hidden: &BTreeSet<String>) -> Result<Vec<Secret>, Problem> {
    let usual = folder.join(FILE);
    let (path, file) = named.map_or((usual.as_path(), FILE.to_owned()), |named| (named, named.display().to_string()));
    let wrong = |error: Error| Problem::new("tool", FilePosition::file(&file), error.message);
    let text = private_files::read(path).map_err(wrong)?.map(Zeroizing::new);
    if text.is_none() && named.is_some() {
        return Err(wrong(Error::usage("does not exist")));
    }
    let values = text.map_or(Ok(vec![]), |text| secrets::in_lines(&text, path)).map_err(wrong)?;
    let secret = |FileSecret { line, name, value, hosts }| {
        let visibility = hosts.visibility(if hidden.contains(&name) { SecretVisibility::Auth } else { SecretVisibility::Env });
        Secret { name, value, visibility, hosts, position: FilePosition { line: Some(line), ..FilePosition::file(&file) } }
    };
    Ok(values.into_iter().map(secret).collect())
}

/// An object literal, or another block in braces.
#[derive(Default)]
struct Braces {
    has_header: bool,
    env: Option<String>,
}

/// Returns the names of secrets in `{ header, env }`: a text, or a variable that is declared with one.
pub(crate) fn names_in_auth(source: &str) -> BTreeSet<String> {
    let tokens: Vec<_> = tokens(source).into_iter().filter(|token| token.kind != Kind::Comment).collect();
    let is_open = |token: &Token| token.kind == Kind::Template && source[token.end..].starts_with("${");
    let text = |token: &Token| match token.kind {
        Kind::Str => token.text(source).get(1..token.end - token.start - 1).map(|inner| cooked(inner).into_owned()),
        Kind::Template if !is_open(token) => Some(cooked(token.text(source)).into_owned()),
        _ => None,
    };
    let declared: BTreeMap<_, _> = tokens
        .windows(4)
        .filter(|four| matches!(four[0].text(source), "const" | "let" | "var") && four[2].text(source) == "=")
        .filter_map(|four| Some((four[1].text(source), text(&four[3])?)))
        .collect();
    let (mut found, mut open) = (BTreeSet::new(), Vec::<Braces>::new());
    for (position, token) in tokens.iter().enumerate() {
        let next = tokens.get(position + 1).map_or("", |next| next.text(source));
        match (token.kind, token.text(source).trim_matches(['"', '\''])) {
            (Kind::Punct, "{") => open.push(Braces::default()),
            (Kind::Template, _) if is_open(token) => open.push(Braces::default()),
            (Kind::Punct, "}") => found.extend(open.pop().filter(|braces| braces.has_header).and_then(|braces| braces.env)),
            (Kind::Word | Kind::Str, "header") if matches!(next, ":" | "," | "}") => {
                if let Some(braces) = open.last_mut() {
                    braces.has_header = true;
                }
            }
            (Kind::Word | Kind::Str, "env") if next == ":" => {
                let value = tokens.get(position + 2);
                let name = value.and_then(|value| text(value).or_else(|| declared.get(value.text(source)).cloned()));
                if let Some(braces) = open.last_mut() {
                    braces.env = name;
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_secret_has_its_line_and_an_empty_file_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("other.env");
        let read = |named| parse(folder.path(), named, &BTreeSet::from(["B".to_owned()]));
        assert!(read(None).unwrap().is_empty());
        std::fs::write(folder.path().join(FILE), "# mine\n\n").unwrap();
        assert!(read(None).unwrap().is_empty());
        std::fs::write(folder.path().join(FILE), "# mine\nA=1\n\nexport B=\n").unwrap();
        let listed: Vec<_> = read(None).unwrap().into_iter().map(|secret| format!("{}  {}", secret.position, secret.name)).collect();
        assert_eq!(listed, [".env.dev:2  A", ".env.dev:4  B"]);
        let visible: Vec<_> = read(None).unwrap().into_iter().map(|secret| secret.visibility).collect();
        assert_eq!(visible, [SecretVisibility::Env, SecretVisibility::Auth]);
        std::fs::write(folder.path().join(FILE), "# --host a.example.com\nB=1\n").unwrap();
        let [secret] = <[Secret; 1]>::try_from(read(None).unwrap()).unwrap();
        assert_eq!((secret.visibility, secret.hosts.hosts), (SecretVisibility::Hosts, vec!["a.example.com".to_owned()]));
        std::fs::write(folder.path().join(FILE), "# --host a.example.com --in head\nB=1\n").unwrap();
        assert!(read(None).unwrap_err().to_string().contains("expected `# --host HOST"));
        std::fs::write(folder.path().join(FILE), "A=1\nNEW\n").unwrap();
        assert!(read(None).unwrap_err().to_string().starts_with(".env.dev  line 2 of "));
        assert_eq!(read(Some(&file)).unwrap_err().to_string(), format!("{}  does not exist", file.display()));
    }

    #[test]
    fn secrets_in_auth_are_found_in_every_form() {
        let source = r#"
            var KEY = "FOUR";
            const one = { auth: { header: "authorization", env: "ONE" } }, two = { "env": 'TWO', "header": "x-key" };
            ctx.httpGetJson(`https://a.example/${req.input.id}`, { auth: { header, env: `THREE` } });
            ctx.httpGetJson(url, { headers: { a: `${b}` }, auth: { env: KEY, header: NAME } });
        "#;
        let names: Vec<_> = names_in_auth(source).into_iter().collect();
        assert_eq!(names, ["FOUR", "ONE", "THREE", "TWO"]);
        let others = r#"
            // auth: { header: "a", env: "A" }
            const text = 'auth: { header: "b", env: "B" }', c = ctx.env.C, d = { env: "D" }, e = { header: "e", env: { E: e } };
        "#;
        assert!(names_in_auth(others).is_empty(), "{:?}", names_in_auth(others));
    }
}
