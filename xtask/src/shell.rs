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

use crate::{Failure, args::from_env, place};

/// Returns a `cargo` command with these arguments. It runs in the root of the repository, and
/// builds into our target folder for this machine.
pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut cargo = Command::new(from_env("CARGO").unwrap_or_else(|| "cargo".to_owned()));
    cargo.args(words).current_dir(place::root()).env("CARGO_TARGET_DIR", place::target()).env_remove("CARGO_BUILD_TARGET");
    cargo
}

/// Returns the path of a program on `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Runs a program that writes to the terminal itself.
///
/// # Errors
///
/// Says which program failed and how.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|why| cannot_start(command.get_program(), &why))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed: {status}", shown(command))) }
}

/// Kills the processes that a process has started.
///
/// # Errors
///
/// The processes of this machine cannot be listed, or `kill` cannot be run.
pub(crate) fn kill_children(parent: u32) -> Result<(), Failure> {
    let processes = std::fs::read_dir("/proc").map_err(|why| format!("cannot list processes: {why}"))?;
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

/// Runs a program whose output appears only if it fails. Meanwhile one line has the description,
/// the number of crates that Cargo has compiled, and the time.
///
/// # Errors
///
/// Returns the whole output and the exit status.
pub(crate) fn run_behind(what: &str, command: &mut Command) -> Result<(), Failure> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|why| cannot_start(command.get_program(), &why))?;
    let line = Line::begin(what);
    let (kept, ended) = listen(&mut child, &line.crates);
    ended.map_err(|why| why.to_string())?;
    let status = child.wait().map_err(|why| why.to_string())?;
    line.end(if status.success() { "done" } else { "failed" });
    if status.success() { Ok(()) } else { Err(format!("{kept}\n`{}` failed: {status}", shown(command))) }
}

/// Runs a program silently, with its output in `log`.
///
/// # Errors
///
/// Returns the output and the exit status.
pub(crate) fn run_silently(log: &Path, command: &mut Command) -> Result<(), Failure> {
    let file = std::fs::File::create(log).map_err(|why| format!("cannot write {}: {why}", log.display()))?;
    let twin = file.try_clone().map_err(|why| why.to_string())?;
    let status =
        command.stdin(Stdio::null()).stdout(file).stderr(twin).status().map_err(|why| cannot_start(command.get_program(), &why))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{}\n`{}` failed: {status}", std::fs::read_to_string(log).unwrap_or_default(), shown(command)))
}

/// Reads both streams of a child to the end, and counts Cargo's `Compiling` lines.
fn listen(child: &mut Child, crates: &Arc<AtomicUsize>) -> (String, std::io::Result<()>) {
    let out = child.stdout.take().map(|stream| thread::spawn(move || BufReader::new(stream).lines().collect::<Result<Vec<_>, _>>()));
    let mut kept = Vec::new();
    if let Some(stream) = child.stderr.take() {
        for line in BufReader::new(stream.take(u64::MAX)).lines() {
            match line {
                Ok(line) if line.trim_start().starts_with("Compiling ") => {
                    crates.fetch_add(1, Ordering::Relaxed);
                }
                Ok(line) => kept.push(line),
                Err(why) => return (kept.join("\n"), Err(why)),
            }
        }
    }
    if let Some(Ok(Ok(lines))) = out.map(thread::JoinHandle::join) {
        kept.extend(lines);
    }
    (kept.join("\n"), Ok(()))
}

/// The progress line. On a terminal it is redrawn every second; elsewhere a new line is written
/// every half minute.
struct Line {
    what: String,
    began: Instant,
    crates: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    pen: Arc<Mutex<()>>,
}

impl Line {
    fn begin(what: &str) -> Self {
        let line = Self { what: what.to_owned(), began: Instant::now(), crates: Arc::default(), over: Arc::default(), pen: Arc::default() };
        let (what, began, crates, over, pen) =
            (line.what.clone(), line.began, Arc::clone(&line.crates), Arc::clone(&line.over), Arc::clone(&line.pen));
        thread::spawn(move || {
            let every = if stderr().is_terminal() { 1 } else { 30 };
            for tick in 1_u64.. {
                thread::sleep(Duration::from_secs(1));
                let _held = pen.lock().unwrap_or_else(PoisonError::into_inner);
                if over.load(Ordering::Relaxed) {
                    return;
                }
                if tick % every == 0 {
                    draw(&what, &count(&crates), began);
                }
            }
        });
        if stderr().is_terminal() {
            draw(&line.what, "", line.began);
        }
        line
    }

    fn end(self, how: &str) {
        let _held = self.pen.lock().unwrap_or_else(PoisonError::into_inner);
        self.over.store(true, Ordering::Relaxed);
        draw(&self.what, how, self.began);
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

fn draw(what: &str, how: &str, began: Instant) {
    let seconds = began.elapsed().as_secs();
    let text = format!("{what} … {how}{}{} min {:02} s", if how.is_empty() { "" } else { ", " }, seconds / 60, seconds % 60);
    if stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
        stderr().flush().ok();
    } else {
        eprintln!("{text}");
    }
}

fn cannot_start(program: &OsStr, why: &std::io::Error) -> Failure {
    format!("cannot start `{}`: {why}", program.to_string_lossy())
}

fn shown(command: &Command) -> String {
    std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
