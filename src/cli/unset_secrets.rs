//! Warnings about secrets that a handler uses and that its tool does not have on the host.
//!
//! They are advice: a `ctx` under another name, or a name that is computed, is not followed.

use std::collections::{BTreeMap, BTreeSet};

use tollhouse_api::{EndpointCheck, EndpointSourceResponse, SecretList};
use tollhouse_base::lexer::{Kind, tokens};
use tollhouse_capability::secret::SecretName;
use tollhouse_tool::Slug;

use super::{base::Client, envfile::names_in_auth, tool::Upload};

/// Returns a warning for each secret that `upload` uses and the host does not have. `check` is the host's check of the
/// upload. If the host does not list the secrets, there are no warnings.
pub(crate) async fn warnings(client: &Client, upload: &Upload, check: &EndpointCheck) -> Vec<String> {
    let used = upload.bundle.as_ref().map(|bundle| used(&bundle.source)).unwrap_or_default();
    if check.existing {
        return unset(client, &upload.tool.slug, used).await;
    }
    let is_paused = upload.tool.body.get("status").is_some_and(|status| status == "paused");
    let first = if is_paused { "" } else { "publish with `\"status\": \"paused\"`, then " };
    used.into_iter().map(|(name, flag)| warning(&name, flag, first)).collect()
}

/// Returns a warning for each secret that the running handler of a tool uses and the host does not have. If the host
/// does not show the source or the secrets, there are no warnings.
pub(crate) async fn of_running(client: &Client, slug: &Slug) -> Vec<String> {
    let shown = client.get(&["ai", "endpoints", slug.as_str(), "source"]).send::<EndpointSourceResponse>().await;
    let Ok(shown) = shown else { return vec![] };
    let used = shown.body.handler.source.as_deref().map(used).unwrap_or_default();
    unset(client, slug, used).await
}

/// Returns a warning for each of these secrets that an existing tool does not have.
async fn unset(client: &Client, slug: &Slug, used: BTreeMap<String, &'static str>) -> Vec<String> {
    if used.is_empty() {
        return vec![];
    }
    let listed = client.get(&["ai", "endpoints", slug.as_str(), "secrets"]).send::<SecretList>().await;
    let Ok(listed) = listed else { return vec![] };
    let set: BTreeSet<_> = listed.body.secrets.into_iter().map(|secret| secret.name).collect();
    used.into_iter().filter(|(name, _)| !set.contains(name)).map(|(name, flag)| warning(&name, flag, "")).collect()
}

fn warning(name: &str, flag: &str, first: &str) -> String {
    format!("the secret `{name}` is not set on the host: {first}run `tollhouse secrets set {name}{flag}`")
}

/// Returns the names of secrets in a source, each with the flag that sets it.
fn used(source: &str) -> BTreeMap<String, &'static str> {
    let in_code = names_in_code(source).into_iter().map(|name| (name, ""));
    let in_auth = names_in_auth(source).into_iter().map(|name| (name, " --auth"));
    in_auth.chain(in_code).filter(|(name, _)| name.parse::<SecretName>().is_ok()).collect()
}

/// Returns the names after `ctx.env`: `ctx.env.NAME` and `ctx.env["NAME"]`.
fn names_in_code(source: &str) -> BTreeSet<String> {
    let tokens: Vec<_> = tokens(source).into_iter().filter(|token| token.kind != Kind::Comment).collect();
    // `?.` is two tokens, and has the same meaning here as `.`.
    let texts: Vec<_> = tokens.iter().map(|token| token.text(source)).filter(|text| *text != "?").collect();
    let name = |five: &[&str]| match five {
        ["ctx", ".", "env", ".", name] => Some((*name).to_owned()),
        ["ctx", ".", "env", "[", name] => Some(name.trim_matches(['"', '\'']).to_owned()),
        _ => None,
    };
    texts.windows(5).filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_found_with_their_flags() {
        let source = r#"
            const key = ctx.env.PLAIN, other = ctx?.env?.MAYBE ?? "none", third = ctx.env["QUOTED"];
            await ctx.httpGetJson(url, { auth: { header: "x-key", env: "HIDDEN" } });
            // ctx.env.COMMENT
            const none = [process.env.NODE_ENV, "ctx.env.TEXT", ctx.env.lower, ctx.env[name], env.OTHER];
        "#;
        let found: Vec<_> = used(source).into_iter().collect();
        let expected = [("HIDDEN", " --auth"), ("MAYBE", ""), ("PLAIN", ""), ("QUOTED", "")];
        assert_eq!(found, expected.map(|(name, flag)| (name.to_owned(), flag)));
    }
}
