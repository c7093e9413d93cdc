//! `tollhouse open`: opens the dashboard, signed in by a link that works once within a minute. The link is printed if
//! no browser can be shown.

use std::process::{Command, Stdio};

use reqwest::Url;
use serde_json::json;
use tollhouse_api::SignInLink;

use super::base::{CredentialChoice, Error, Result, Session, environment, private_files};

/// Arguments of `open`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the link instead of opening it
    #[arg(long)]
    print: bool,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let is_someone = session.client.credential(CredentialChoice::Anyone)?.is_some();
    let (answer, url) = if is_someone {
        let link: SignInLink = session.client.post(&["ai", "builders", "sign-in-links"]).send().await?.body;
        (json!(link), link.url)
    } else {
        session.out.note("not signed in; showing the public pages");
        let url = session.client.at(&["dashboard"]).to_string();
        (json!({ "ok": true, "url": url }), url)
    };
    // The host chooses the address, so accept only http and https.
    let url = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or_else(|| Error::refused("the host's answer has no address"))?;
    if session.out.json {
        return session.out.document(&answer);
    }
    if !args.print && on_a_screen(&url) {
        session.out.note(&format!("opened the dashboard of {}", session.host()));
        return Ok(());
    }
    session.out.text(&format!("{url}\n"))
}

/// Opens the address in a browser. Returns false if there is no display or no browser.
pub(crate) fn on_a_screen(url: &Url) -> bool {
    environment::has_screen() && shown(url).is_ok()
}

/// Opens a browser. The address is passed in a private file: everyone on the machine could read an argument, and use
/// the link first.
fn shown(url: &Url) -> Result {
    let file = private_files::state()?.join("open.html");
    let escaped = url.as_str().replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    private_files::write_private(
        &file,
        &format!(
            "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={escaped}\"><meta name=\"referrer\" content=\"no-referrer\">\n"
        ),
    )?;
    let browser = environment::browser().unwrap_or_else(|| "xdg-open".into());
    let quiet = || Stdio::null();
    let ended = Command::new(browser).arg(&file).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn()?;
    // The browser keeps running on its own.
    drop(ended);
    Ok(())
}
