//! Builds `tollhouse-worker` for an engine and the host that starts it.

use std::{path::PathBuf, process::Command};

use crate::{
    Failure,
    engine::{self, Engine},
    packages, place, shell, strip,
};

/// Features of the worker package that choose an engine.
const QUICKJS: &[&str] = &["--no-default-features", "--features", "quickjs"];

/// Builds the worker, always in release: a debug engine is too slow to tell anything. It lies where
/// [`path`] says, [stripped](strip), so that both engines' workers can be there at once.
///
/// # Errors
///
/// Cargo's words.
pub(crate) fn build(engine: Engine) -> Result<PathBuf, Failure> {
    let mut cargo = cargo(engine, &["build", "--release", "--package", "tollhouse-worker"])?;
    shell::run_behind(&format!("building the worker ({engine})"), &mut cargo)?;
    let (built, copy) = (place::target().join("release/tollhouse-worker"), path(engine));
    strip::strip(&built, &copy)?;
    Ok(copy)
}

/// Builds the host in release, and [strips](strip) it. Cargo puts its own back when it builds again.
///
/// # Errors
///
/// Cargo's words.
pub(crate) fn build_host() -> Result<PathBuf, Failure> {
    shell::run_behind("building the host", &mut shell::cargo(&["build", "--release", "--package", "tollhouse", "--bin", "tollhouse"]))?;
    let host = place::target().join("release/tollhouse");
    strip::strip(&host, &host)?;
    Ok(host)
}

/// Cargo with what the worker package needs for this engine.
///
/// # Errors
///
/// A missing archive or system package.
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

/// Where the worker of an engine lies once it is built.
pub(crate) fn path(engine: Engine) -> PathBuf {
    place::target().join("workers").join(engine.name()).join("tollhouse-worker")
}
