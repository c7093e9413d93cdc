//! Test binaries: which of their tests reach a mutant, and whether one of these catches it.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Failure;

/// Time without output, and multiple of the usual duration, after which a test counts as hanging.
const TIMEOUT: (Duration, u32) = (Duration::from_secs(20), 5);

/// A test binary.
pub(crate) struct Suite {
    pub(crate) program: PathBuf,
    /// The folder in which cargo would run it.
    pub(crate) home: PathBuf,
    /// Number of concurrent processes.
    pub(crate) jobs: usize,
    /// Number of concurrent tests in each.
    pub(crate) threads: usize,
}

/// A test, and the mutants that it reaches.
pub(crate) struct Test {
    name: String,
    elapsed: Duration,
    reached: HashSet<usize>,
}

/// The result of the tests that reach a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This test fails.
    Fails(String),
    /// They do not end.
    Hangs,
    /// All pass.
    Passes,
    /// No test reaches it.
    Unreached,
}

impl Suite {
    /// Runs each test alone without an active mutant, to find out what it reaches. A test that
    /// fails is left out and reported.
    pub(crate) fn survey(&self, filters: &[&str], folder: &Path) -> Result<Vec<Test>, Failure> {
        _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(|reason| format!("cannot make {}: {reason}", folder.display()))?;
        let listed = Command::new(&self.program).arg("--list").args(filters).current_dir(&self.home).output();
        let listed = listed.map_err(|reason| format!("cannot start {}: {reason}", self.program.display()))?.stdout;
        let names: Vec<_> =
            String::from_utf8_lossy(&listed).lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect();
        let surveyed = at_once(self.jobs, &names, |number, name| self.test(name, &folder.join(number.to_string())));
        surveyed.into_iter().filter_map(Result::transpose).collect()
    }

    fn test(&self, name: &str, reached: &Path) -> Result<Option<Test>, Failure> {
        for _ in 0..2 {
            let started = Instant::now();
            if self.run(&[name], reached.as_os_str(), TIMEOUT.0 * TIMEOUT.1)? == Verdict::Passes {
                let numbers = fs::read_to_string(reached).unwrap_or_default();
                let reached = numbers.lines().filter_map(|number| number.parse().ok()).collect();
                return Ok(Some(Test { name: name.to_owned(), elapsed: started.elapsed(), reached }));
            }
        }
        eprintln!("left out, for it does not pass without a mutant: {name}");
        Ok(None)
    }

    /// Runs the tests that reach each mutant, and calls `say` for each that none catches. A failing
    /// test is repeated, so that a flaky test does not count.
    pub(crate) fn ask(&self, tests: &[Test], mutants: &[usize], say: impl Fn(usize) + Sync) -> Result<Vec<(usize, Verdict)>, Failure> {
        let request = at_once(self.jobs, mutants, |_, &mutant| {
            let reaching: Vec<_> = tests.iter().filter(|test| test.reached.contains(&mutant)).collect();
            let verdict = self.verdict(&reaching, mutant)?;
            if matches!(verdict, Verdict::Passes | Verdict::Unreached) {
                say(mutant);
            }
            Ok((mutant, verdict))
        });
        request.into_iter().collect()
    }

    fn verdict(&self, reaching: &[&Test], mutant: usize) -> Result<Verdict, Failure> {
        let Some(max_len) = reaching.iter().map(|test| test.elapsed).max() else { return Ok(Verdict::Unreached) };
        let timeout = TIMEOUT.0 + max_len * TIMEOUT.1;
        let on = mutant.to_string();
        let mut names: Vec<_> = reaching.iter().map(|test| test.name.as_str()).collect();
        while !names.is_empty() {
            let name = match self.run(&names, on.as_ref(), timeout)? {
                Verdict::Fails(name) => name,
                other => return Ok(other),
            };
            if name.is_empty() || self.run(&[&name], on.as_ref(), timeout)? != Verdict::Passes {
                return Ok(Verdict::Fails(name));
            }
            names.retain(|other| *other != name);
        }
        Ok(Verdict::Passes)
    }

    /// Runs these tests up to the first failure.
    fn run(&self, names: &[&str], switch: &OsStr, timeout: Duration) -> Result<Verdict, Failure> {
        let mut command = Command::new(&self.program);
        command.args(["--exact", "--test-threads", &self.threads.to_string()]).args(names);
        command.current_dir(&self.home).env("CARGO_MANIFEST_DIR", &self.home).env("TOLLHOUSE_MUTANT", switch);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(|reason| format!("cannot start {}: {reason}", self.program.display()))?;
        let received = run_output(&mut child, timeout);
        // Processes that a test started must end with it.
        _ = i32::try_from(child.id()).ok().and_then(Pid::from_raw).map(|group| kill_process_group(group, Signal::KILL));
        let status = child.wait().map_err(|reason| reason.to_string())?;
        Ok(match received {
            Verdict::Passes if !status.success() => Verdict::Fails(String::new()),
            received => received,
        })
    }
}

/// Reads the output up to the first failure.
fn run_output(child: &mut Child, timeout: Duration) -> Verdict {
    let Some(stdout) = child.stdout.take() else { return Verdict::Passes };
    let (say, message) = mpsc::channel();
    thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
    loop {
        match message.recv_timeout(timeout) {
            Ok(line) => {
                if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
                    return Verdict::Fails(name.to_owned());
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => return Verdict::Hangs,
            Err(mpsc::RecvTimeoutError::Disconnected) => return Verdict::Passes,
        }
    }
}

/// Calls `work` for all items with limited concurrency, and returns the results in order.
fn at_once<T: Sync, R: Send>(jobs: usize, items: &[T], work: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { return };
                    let result = work(number, item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
