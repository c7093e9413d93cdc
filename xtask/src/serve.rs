//! `cargo xtask serve`: builds, replaces this process with the host, and prints how to reach it.

use std::{
    io::{BufRead, Write, stdin, stdout},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use crate::{
    Failure,
    args::{Args, from_env},
    engine, paths,
    workers::{self, Profile},
};

/// The hidden command that reads the host's standard output in a separate process.
pub(crate) const ANNOUNCE: &str = "__announce";

const READY: &str = "listening on http://";

/// Builds the worker and the host, and becomes the host: signals reach it, and its exit status is
/// returned.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let engine = engine::pick(args.engine)?;
    let worker = workers::build_as(Profile::Quick, engine)?;
    let host = workers::build_host_as(Profile::Quick)?;

    let data = option(&args.rest, "--data").or_else(|| from_env("TOLLHOUSE_DATA")).unwrap_or_else(|| "./data".to_owned());
    let mut host = Command::new(host);
    host.arg("serve").args(&args.rest).current_dir(paths::root()).env("TOLLHOUSE_WORKER", worker);

    // The reader is in its own process group, so that an interrupt from the terminal reaches only the
    // host, which still writes output.
    let mut reader = Command::new(std::env::current_exe().map_err(|reason| reason.to_string())?)
        .args([ANNOUNCE, &data])
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|reason| format!("cannot start the reader of the host's output: {reason}"))?;
    let pipe = reader.stdin.take().ok_or("no pipe to the reader of the host's output")?;
    Err(format!("cannot start the host: {}", host.stdout(pipe).exec()))
}

/// Copies standard input to standard output. After the ready line, prints the addresses and paths.
pub(crate) fn announce(mut words: impl Iterator<Item = String>) -> Result<(), Failure> {
    let data = words.next().unwrap_or_default();
    for line in stdin().lock().lines() {
        let line = line.map_err(|reason| reason.to_string())?;
        println!("{line}");
        if let Some(address) = line.split_once(READY).map(|(_, rest)| rest.trim()) {
            println!("{}", welcome(&format!("http://{address}"), &data));
        }
        stdout().flush().map_err(|reason| reason.to_string())?;
    }
    Ok(())
}

fn welcome(url: &str, data: &str) -> String {
    let file = paths::root().join(data).join("admin-token");
    let token = match from_env("TOLLHOUSE_ADMIN_TOKEN") {
        Some(_) => "as set in TOLLHOUSE_ADMIN_TOKEN".to_owned(),
        None if file.is_file() => format!("in {}", file.display()),
        None => "in the file admin-token of the data folder".to_owned(),
    };
    format!(
        "\n  catalog      {url}/ai/endpoints\n  admin token  {token}\n  try          curl -s {url}/tools/receipt-echo-free -H 'content-type: application/json' -d '{{\"hello\":\"world\"}}'\n"
    )
}

/// Returns the value of an option among the host's arguments.
fn option(words: &[String], name: &str) -> Option<String> {
    let at = words.iter().position(|word| word == name || word.starts_with(&format!("{name}=")))?;
    match words[at].split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => words.get(at + 1).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_folder_is_found_in_both_spellings() {
        let words = |given: &[&str]| given.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(option(&words(&["--listen", "x", "--data", "/d"]), "--data").as_deref(), Some("/d"));
        assert_eq!(option(&words(&["--data=/e"]), "--data").as_deref(), Some("/e"));
        assert_eq!(option(&words(&["--listen", "x"]), "--data"), None);
    }
}
