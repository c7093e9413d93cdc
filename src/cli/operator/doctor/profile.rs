//! Checks the user's profiles: who else can read their keys, and for a named one, whether its host answers and accepts
//! the stored credential.

use std::path::PathBuf;

use tollhouse_operate::{
    finding::{Finding, Level},
    modes,
};

use super::findings::Findings;
use crate::base::{Error, Exit, GivenValue, GlobalArgs, Result, Session, host_name as shown};

/// Checks files of profiles, and the profile that is `named`.
pub(super) async fn examine(named: Option<&str>, files: Vec<(Option<String>, PathBuf)>, reported: &mut Findings) -> Result {
    let mut are_private = true;
    for (profile, path) in files {
        let found = modes::of_profile(profile.as_deref(), &path);
        are_private &= found.as_ref().is_none_or(|found| found.level == Level::Ok);
        reported.add(found)?;
    }
    let Some(name) = named else { return Ok(()) };
    // A credential that others can read is not sent to any host.
    if are_private {
        reported.add([host(name).await.of(name)])?;
    }
    Ok(())
}

async fn host(name: &str) -> Finding {
    let profile = Some(GivenValue { value: name.to_owned(), by_flag: true });
    let failed = |error: Error| {
        let remedy = error.hint.clone().unwrap_or_else(|| "check that `url` in the profile is the address of the host".to_owned());
        Finding::fail("profile", error.message, remedy)
    };
    let session = match Session::open(&GlobalArgs { profile, ..GlobalArgs::default() }) {
        Ok(session) => session,
        Err(error) => return failed(error),
    };
    let position = shown(session.client.base()).to_owned();
    match crate::known(&session).await {
        Ok((role, _)) => Finding::ok("profile", format!("{position} accepts the {}", role.label())),
        // A user who only pays has no stored credential.
        Err(error) if error.exit == Exit::Credential && error.code().is_empty() => match crate::answers(&session).await {
            Ok(()) => Finding::ok("profile", format!("{position} answers; no credential is stored for it")),
            Err(error) => failed(error),
        },
        Err(error) => failed(error),
    }
}
