//! The profiles of whoever types: who else may read their keys; and of one that is named, whether its host answers, and takes what is kept
//! for it.

use std::path::PathBuf;

use tollhouse_operate::{
    finding::{Finding, Level},
    modes,
};

use super::told::Told;
use crate::base::{
    address::told as shown,
    error::{Error, Exit, Result},
    global::{Given, Global},
    session::Session,
};

/// Looks at files of profiles, and at the one that is `named`.
pub(super) async fn examine(named: Option<&str>, files: Vec<(Option<String>, PathBuf)>, told: &mut Told) -> Result {
    let mut are_kept = true;
    for (profile, path) in files {
        let found = modes::of_profile(profile.as_deref(), &path);
        are_kept &= found.as_ref().is_none_or(|found| found.level == Level::Ok);
        told.add(found)?;
    }
    let Some(name) = named else { return Ok(()) };
    // What others can read is shown to no host.
    if are_kept {
        told.add([host(name).await.of(name)])?;
    }
    Ok(())
}

async fn host(name: &str) -> Finding {
    let profile = Some(Given { value: name.to_owned(), by_flag: true });
    let failed = |error: Error| {
        let remedy = error.hint.clone().unwrap_or_else(|| "look whether `url` of the profile is where the host is".to_owned());
        Finding::fail("profile", error.message, remedy)
    };
    let session = match Session::open(&Global { profile, ..Global::default() }) {
        Ok(session) => session,
        Err(error) => return failed(error),
    };
    let place = shown(session.client.base()).to_owned();
    match crate::known(&session).await {
        Ok((role, _)) => Finding::ok("profile", format!("{place} takes its {}", role.what())),
        // Who only pays keeps nothing to show.
        Err(error) if error.exit == Exit::Credential && error.code().is_empty() => match crate::answers(&session).await {
            Ok(()) => Finding::ok("profile", format!("{place} answers; nothing is kept to show it")),
            Err(error) => failed(error),
        },
        Err(error) => failed(error),
    }
}
