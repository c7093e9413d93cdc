//! Builds `tollhouse-worker` for an engine, and the host that starts it.

use std::{path::PathBuf, process::Command};

use crate::{
    Failure,
    engine::{self, Engine},
    packages, paths, shell, strip,
};

/// Package features that select QuickJS.
const QUICKJS: &[&str] = &["--no-default-features", "--features", "quickjs"];

/// A profile of Cargo with which host and worker run as fast as their users need. With a debug build of the engine,
/// measurements are meaningless.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    Release,
    /// Builds sooner, and serves up to a tenth fewer calls per second.
    Quick,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Quick => "quick",
        }
    }
}

/// Builds the worker with the profile `release`. See [`build_as`].
pub(crate) fn build(engine: Engine) -> Result<PathBuf, Failure> {
    build_as(Profile::Release, engine)
}

/// Builds the worker. The result is at [`path`], [stripped](strip), so that the workers of both engines can exist at
/// the same time.
pub(crate) fn build_as(profile: Profile, engine: Engine) -> Result<PathBuf, Failure> {
    let mut cargo = cargo(engine, &["build", "--profile", profile.name(), "--package", "tollhouse-worker"])?;
    shell::run_with_progress(&format!("building the worker ({engine})"), &mut cargo)?;
    let (built, copy) = (paths::target().join(profile.name()).join("tollhouse-worker"), path(engine));
    strip::strip(&built, &copy)?;
    Ok(copy)
}

/// Builds the host with the profile `release`. See [`build_host_as`].
pub(crate) fn build_host() -> Result<PathBuf, Failure> {
    build_host_as(Profile::Release)
}

/// Builds the host, and [strips](strip) it. Cargo restores its own file at the next build.
pub(crate) fn build_host_as(profile: Profile) -> Result<PathBuf, Failure> {
    shell::run_with_progress(
        "building the host",
        &mut shell::cargo(&["build", "--profile", profile.name(), "--package", "tollhouse", "--bin", "tollhouse"]),
    )?;
    let host = paths::target().join(profile.name()).join("tollhouse");
    strip::strip(&host, &host)?;
    Ok(host)
}

/// Returns a Cargo command with the settings that the worker package needs for this engine.
pub(crate) fn cargo(engine: Engine, words: &[&str]) -> Result<Command, Failure> {
    let mut cargo = shell::cargo(words);
    match engine {
        Engine::V8 => {
            if let Some(archive) = engine::archive()? {
                cargo.env("RUSTY_V8_ARCHIVE", archive);
            }
        }
        Engine::QuickJs => {
            cargo.args(QUICKJS).envs(packages::for_quickjs()?);
        }
    }
    Ok(cargo)
}

/// Returns the path of an engine's worker after the build.
pub(crate) fn path(engine: Engine) -> PathBuf {
    paths::target().join("workers").join(engine.name()).join("tollhouse-worker")
}
