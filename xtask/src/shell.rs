//! Running other programs: directly, or with a progress line.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, IsTerminal, Read, Write, stderr},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{Failure, args::from_env, paths};

/// Returns a `cargo` command with these arguments. It runs in the root of the repository, and
/// builds into our target folder for this machine.
pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut cargo = Command::new(from_env("CARGO").unwrap_or_else(|| "cargo".to_owned()));
    cargo.args(words).current_dir(paths::root()).env("CARGO_TARGET_DIR", paths::target()).env_remove("CARGO_BUILD_TARGET");
    cargo
}

/// Returns the path of a program on `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns the command, to be run with `nice -n 19`.
pub(crate) fn at_lowest_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    nice
}

/// Runs a program that writes to the terminal itself.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|reason| cannot_start(command.get_program(), &reason))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed: {status}", command_line(command))) }
}

/// Kills the processes that a process has started.
///
/// # Errors
///
/// The processes of this machine cannot be listed, or `kill` cannot be run.
pub(crate) fn kill_children(parent: u32) -> Result<(), Failure> {
    let processes = std::fs::read_dir("/proc").map_err(|reason| format!("cannot list processes: {reason}"))?;
    for process in processes.flatten() {
        // After the name, in parentheses, come the state and the parent.
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        if after_name.split(' ').nth(1) == Some(&parent.to_string()) {
            run(Command::new("kill").arg("-KILL").arg(process.file_name()))?;
        }
    }
    Ok(())
}

/// Runs a program, drops its output, and returns whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns the standard output of a program; `None` if it fails.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let done = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Runs a program whose output appears only if it fails. While it runs, one line shows the
/// description, the number of crates that Cargo has compiled, and the time.
pub(crate) fn run_with_progress(what: &str, command: &mut Command) -> Result<(), Failure> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|reason| cannot_start(command.get_program(), &reason))?;
    let line = ProgressLine::begin(what);
    let (stored, ended) = listen(&mut child, &line.crates);
    ended.map_err(|reason| reason.to_string())?;
    let status = child.wait().map_err(|reason| reason.to_string())?;
    line.end(if status.success() { "done" } else { "failed" });
    if status.success() { Ok(()) } else { Err(format!("{stored}\n`{}` failed: {status}", command_line(command))) }
}

/// Runs a program silently, with its output in `log`.
pub(crate) fn run_silently(log: &Path, command: &mut Command) -> Result<(), Failure> {
    let file = std::fs::File::create(log).map_err(|reason| format!("cannot write {}: {reason}", log.display()))?;
    let stderr_file = file.try_clone().map_err(|reason| reason.to_string())?;
    let status = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(stderr_file)
        .status()
        .map_err(|reason| cannot_start(command.get_program(), &reason))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{}\n`{}` failed: {status}", std::fs::read_to_string(log).unwrap_or_default(), command_line(command)))
}

/// Reads both streams of a child to the end, and counts Cargo's `Compiling` lines.
fn listen(child: &mut Child, crates: &Arc<AtomicUsize>) -> (String, std::io::Result<()>) {
    let out = child.stdout.take().map(|stream| thread::spawn(move || BufReader::new(stream).lines().collect::<Result<Vec<_>, _>>()));
    let mut stored = Vec::new();
    if let Some(stream) = child.stderr.take() {
        for line in BufReader::new(stream.take(u64::MAX)).lines() {
            match line {
                Ok(line) if line.trim_start().starts_with("Compiling ") => {
                    crates.fetch_add(1, Ordering::Relaxed);
                }
                Ok(line) => stored.push(line),
                Err(reason) => return (stored.join("\n"), Err(reason)),
            }
        }
    }
    if let Some(Ok(Ok(lines))) = out.map(thread::JoinHandle::join) {
        stored.extend(lines);
    }
    (stored.join("\n"), Ok(()))
}

/// The progress line. On a terminal it is redrawn every second; elsewhere a new line is written
/// every half minute.
struct ProgressLine {
    what: String,
    started_at: Instant,
    crates: Arc<AtomicUsize>,
    has_ended: Arc<AtomicBool>,
    drawing: Arc<Mutex<()>>,
}

impl ProgressLine {
    fn begin(what: &str) -> Self {
        let line = Self {
            what: what.to_owned(),
            started_at: Instant::now(),
            crates: Arc::default(),
            has_ended: Arc::default(),
            drawing: Arc::default(),
        };
        let (what, started, crates, has_ended, drawing) =
            (line.what.clone(), line.started_at, Arc::clone(&line.crates), Arc::clone(&line.has_ended), Arc::clone(&line.drawing));
        thread::spawn(move || {
            let every = if stderr().is_terminal() { 1 } else { 30 };
            for tick in 1_u64.. {
                thread::sleep(Duration::from_secs(1));
                let _held = drawing.lock().unwrap_or_else(PoisonError::into_inner);
                if has_ended.load(Ordering::Relaxed) {
                    return;
                }
                if tick % every == 0 {
                    draw(&what, &count(&crates), started);
                }
            }
        });
        if stderr().is_terminal() {
            draw(&line.what, "", line.started_at);
        }
        line
    }

    fn end(self, result: &str) {
        let _held = self.drawing.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_ended.store(true, Ordering::Relaxed);
        draw(&self.what, result, self.started_at);
        if stderr().is_terminal() {
            eprintln!();
        }
    }
}

fn count(crates: &AtomicUsize) -> String {
    match crates.load(Ordering::Relaxed) {
        0 => String::new(),
        n => format!("{n} crates so far"),
    }
}

fn draw(what: &str, result: &str, started: Instant) {
    let seconds = started.elapsed().as_secs();
    let text = format!("{what} … {result}{}{} min {:02} s", if result.is_empty() { "" } else { ", " }, seconds / 60, seconds % 60);
    if stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
        stderr().flush().ok();
    } else {
        eprintln!("{text}");
    }
}

fn cannot_start(program: &OsStr, reason: &std::io::Error) -> Failure {
    format!("cannot start `{}`: {reason}", program.to_string_lossy())
}

fn command_line(command: &Command) -> String {
    std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
