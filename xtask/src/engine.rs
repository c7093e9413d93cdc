//! The choice of the JavaScript engine: V8 if its prebuilt archive is available, otherwise QuickJS,
//! which builds from crates.io alone.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Failure,
    args::{EngineArg, from_env},
    paths, shell,
};

const RELEASES: &str = "https://github.com/denoland/rusty_v8/releases/download";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    V8,
    QuickJs,
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V8 => "v8",
            Self::QuickJs => "quickjs",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V8 => "V8",
            Self::QuickJs => "QuickJS",
        })
    }
}

/// Picks the engine, and prints which one and why.
///
/// # Errors
///
/// Fails for `both` where one engine is required, and if the file of `RUSTY_V8_ARCHIVE` does not
/// exist.
pub(crate) fn pick(request: Option<EngineArg>) -> Result<Engine, Failure> {
    let (engine, reason) = match request {
        Some(EngineArg::Both) => return Err("this command uses one engine; `both` is for `cargo xtask test`".to_owned()),
        Some(EngineArg::V8) => (Engine::V8, "as requested".to_owned()),
        Some(EngineArg::QuickJs) => (Engine::QuickJs, "as requested".to_owned()),
        None => find_v8(&paths::root(), &paths::cargo_home(), &paths::target()),
    };
    if engine == Engine::V8 {
        archive()?;
    }
    eprintln!("engine: {engine} ({reason})");
    Ok(engine)
}

/// Returns `RUSTY_V8_ARCHIVE` in the form that the crate's build script needs: a URL or an absolute
/// path.
pub(crate) fn archive() -> Result<Option<String>, Failure> {
    let Some(given) = from_env("RUSTY_V8_ARCHIVE") else { return Ok(None) };
    if given.starts_with("http:") || given.starts_with("https:") {
        return Ok(Some(given));
    }
    let file = fs::canonicalize(&given).map_err(|reason| format!("RUSTY_V8_ARCHIVE names `{given}`: {reason}"))?;
    Ok(Some(file.to_string_lossy().into_owned()))
}

fn find_v8(root: &Path, cargo_home: &Path, target: &Path) -> (Engine, String) {
    for name in ["RUSTY_V8_ARCHIVE", "RUSTY_V8_MIRROR", "V8_FROM_SOURCE"] {
        if from_env(name).is_some() {
            return (Engine::V8, format!("{name} is set"));
        }
    }
    let Some(url) = prebuilt(root) else { return (Engine::QuickJs, "no `v8` crate in Cargo.lock".to_owned()) };
    if let Some(cached) = cached(&url, cargo_home, target) {
        return (Engine::V8, format!("its archive is at {}", cached.display()));
    }
    let head = shell::succeeds(Command::new("curl").args(["-sfIL", "--connect-timeout", "3", "--max-time", "8", &url]));
    if head {
        return (Engine::V8, "its prebuilt archive can be downloaded".to_owned());
    }
    (Engine::QuickJs, format!("the archive of V8 cannot be reached; for V8, download {url} and set RUSTY_V8_ARCHIVE to the file"))
}

/// Returns the URL from which the build script of the `v8` crate downloads its archive.
fn prebuilt(root: &Path) -> Option<String> {
    let lock = fs::read_to_string(root.join("Cargo.lock")).ok()?;
    let version = version_in(&lock, "v8")?;
    let about = shell::output(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "))?;
    Some(format!("{RELEASES}/v{version}/librusty_v8_simdutf_release_{host}.a.gz"))
}

/// Returns a copy from an earlier build: from Cargo's home folder, or unpacked in our target
/// folder.
fn cached(url: &str, cargo_home: &Path, target: &Path) -> Option<PathBuf> {
    let escaped: String = url.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let download = cargo_home.join(".rusty_v8").join(escaped);
    if download.is_file() {
        return Some(download);
    }
    let unpacked = target.join("release/gn_out/obj/librusty_v8.a");
    let from = fs::read_to_string(unpacked.with_extension("sum")).ok()?;
    (from == url && unpacked.is_file()).then_some(unpacked)
}

fn version_in<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let entry = lock.split("[[package]]").find(|entry| entry.contains(&format!("\nname = \"{name}\"\n")))?;
    entry.lines().find_map(|line| line.strip_prefix("version = \""))?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_lock_file() {
        let lock =
            "\n[[package]]\nname = \"v8x\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"v8\"\nversion = \"150.4.0\"\nsource = \"x\"\n";
        assert_eq!(version_in(lock, "v8"), Some("150.4.0"));
        assert_eq!(version_in(lock, "deno_core"), None);
    }

    #[test]
    fn archive_url_has_the_locked_version_of_v8() {
        let url = prebuilt(&paths::root()).unwrap();
        assert!(url.starts_with(RELEASES) && url.ends_with(".a.gz"), "{url}");
    }

    #[test]
    fn download_in_cargos_home_is_found() {
        let home = std::env::temp_dir().join(format!("xtask-engine-{}", std::process::id()));
        fs::create_dir_all(home.join(".rusty_v8")).unwrap();
        assert_eq!(cached("https://a.b/c-1.gz", &home, &home), None);
        fs::write(home.join(".rusty_v8/https___a_b_c_1_gz"), b"x").unwrap();
        assert!(cached("https://a.b/c-1.gz", &home, &home).is_some());
        fs::remove_dir_all(home).unwrap();
    }
}
