//! Runs the shell blocks of the documents, each page in one shell on a host of its own with the
//! built-in tools, and compares their output.
//!
//! `fixtures/docs/PAGE.sh` creates what a page assumes. It runs before the first block.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{fs::symlink, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tempfile::TempDir;

use super::{
    blocks::{Block, blocks},
    documents, read, root,
    samples::typescript,
    transcript::{learn, matches},
};

/// Maximum time of a command.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pages that run at the same time.
const AT_ONCE: usize = 2;
/// The host's address in documents, without its scheme.
const ADDRESSES: [&str; 2] = ["127.0.0.1:4020", "localhost:4020"];

/// Installers find everything installed.
const PROGRAMS: &str = r#"
npm() {
  if test "$*" = "install --save-dev typescript"; then
    ln -sfn "$(dirname "$TYPESCRIPT")/../.." node_modules && echo "added 2 packages in 3s"
  else
    test "$1" = ci || test "$1" = install
  fi
}
npx() {
  if test "$1 $2 $3 $4" = "--yes --package typescript tsc"; then shift 4; node "$TYPESCRIPT" "$@"; else command npx "$@"; fi
}
python3() { if test "$1 $2" = "-m venv"; then true; else command python3 "$@"; fi; }
cargo() { echo "a test cannot run cargo: mark the block with norun" >&2; return 1; }
mark() { echo "$1 $2" >> "$HOME/known"; }
"#;

/// A process that ends with its group when it is dropped.
struct Group(Child);

impl Group {
    fn start(mut command: Command) -> Self {
        Self(command.process_group(0).spawn().expect("the program is there"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        _ = self.0.wait();
    }
}

/// A shell in a folder that looks like the repository after `cargo xtask serve`.
struct Session {
    folder: TempDir,
    /// `127.0.0.1:PORT` of the host.
    address: String,
    /// Values of the documents, and what they are in this run.
    known: BTreeMap<String, String>,
    shell: Group,
    lines: mpsc::Receiver<String>,
    _host: Group,
}

/// The result of a command.
struct Outcome {
    is_success: bool,
    output: String,
}

impl Session {
    fn start(worker: &Path) -> Self {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let at = |path: &str| folder.path().join(path);
        for made in ["target/quick", "fixtures/clients", "home/.config/tollhouse", "bin"] {
            fs::create_dir_all(at(made)).expect("a folder can be made");
        }
        let binary = env!("CARGO_BIN_EXE_tollhouse");
        for link in ["target/quick/tollhouse", "bin/tollhouse"] {
            symlink(binary, at(link)).expect("a link can be made");
        }
        symlink(root().join("runtime-js"), at("runtime-js")).expect("a link can be made");
        if let Some(clients) = env::var_os("TOLLHOUSE_CLIENTS").map(PathBuf::from) {
            for entry in fs::read_dir(&clients).into_iter().flatten().flatten() {
                symlink(entry.path(), at("fixtures/clients").join(entry.file_name())).expect("a link can be made");
            }
            symlink(clients.join("venv"), at("fixtures/clients/.venv")).expect("a link can be made");
        }
        let mut host = Command::new(binary);
        host.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(at("data")).current_dir(folder.path());
        host.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default()).env("TOLLHOUSE_WORKER", worker);
        host.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(at("host.log")).expect("a file can be made"));
        let mut host = Group::start(host);
        let mut first = String::new();
        let stdout = host.0.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut first).expect("the host writes");
        let address =
            first.trim().strip_prefix("listening on http://").unwrap_or_else(|| panic!("the host did not start: {first}")).to_owned();
        let config = format!("default = \"default\"\n\n[profiles.default]\nurl = \"http://{address}\"\n");
        fs::write(at("home/.config/tollhouse/config.toml"), config).expect("a file can be written");
        let (shell, lines) = shell(&folder, worker);
        Self { folder, address, known: BTreeMap::new(), shell, lines, _host: host }
    }

    /// Runs a text in the shell. It succeeds if each of its commands does.
    fn run(&mut self, text: &str) -> Outcome {
        let (source, output) = (self.folder.path().join("home/command"), self.folder.path().join("home/output"));
        fs::write(&source, self.here(text)).expect("a file can be written");
        let (source, output) = (source.display(), output.display());
        let line = format!(
            "failed=; trap 'failed=1' ERR; source {source} < /dev/null > {output} 2>&1; status=$?; trap - ERR; echo \"ended $status $failed\"\n"
        );
        let stdin = self.shell.0.stdin.as_mut().expect("it is piped");
        stdin.write_all(line.as_bytes()).expect("the shell reads");
        let ended = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| "it did not end".to_owned());
        let mut bytes = vec![];
        _ = fs::File::open(self.folder.path().join("home/output")).and_then(|mut file| file.read_to_end(&mut bytes));
        let home = self.folder.path().join("home").display().to_string();
        let output = String::from_utf8_lossy(&bytes).replace(&home, "~").replace(&self.address, ADDRESSES[0]);
        Outcome { is_success: ended == "ended 0 ", output }
    }

    /// Replaces addresses and values of the documents with those of this run.
    fn here(&self, text: &str) -> String {
        let text = ADDRESSES.iter().fold(text.to_owned(), |text, address| text.replace(address, &self.address));
        self.known.iter().fold(text, |text, (old, new)| text.replace(old, new))
    }

    /// Copies what pages assume, with the address of this host. Returns its folder.
    fn copy_preparations(&self) -> PathBuf {
        let folder = self.folder.path().join("bin/docs");
        fs::create_dir_all(&folder).expect("a folder can be made");
        for file in fs::read_dir(root().join("fixtures/docs")).expect("the folder is there").flatten() {
            fs::write(folder.join(file.file_name()), self.here(&read(&file.path()))).expect("a file can be written");
        }
        folder
    }

    /// Reads the values that the preparation knows: a line for each, the documented one first.
    fn read_known(&mut self) {
        let text = fs::read_to_string(self.folder.path().join("home/known")).unwrap_or_default();
        self.known.extend(text.lines().filter_map(|line| line.split_once(' ')).map(|(old, new)| (old.to_owned(), new.to_owned())));
    }

    /// Runs a block. Returns a report if its output is different.
    fn check(&mut self, block: &Block) -> Option<String> {
        let mut report = None;
        for (command, documented) in block.commands() {
            let Outcome { is_success, output } = self.run(&command);
            let Some(documented) = documented else {
                let is_right = is_success != block.has("fails");
                return (!is_right)
                    .then(|| format!("{}: it {}:\n{command}{output}", block.place(), if is_success { "succeeds" } else { "fails" }));
            };
            let documented = documented.replace(ADDRESSES[1], ADDRESSES[0]).replace("/home/you/", "~/");
            // Also after a difference, because later blocks need the values of this one.
            learn(&documented, &output, &mut self.known);
            if !matches(&documented, &output) {
                report.get_or_insert_with(|| {
                    format!("{}: the output is different.\n$ {command}--- document\n{documented}--- run\n{output}", block.place())
                });
            }
        }
        report
    }
}

/// Starts a shell that reads commands, and reports their ends.
fn shell(folder: &TempDir, worker: &Path) -> (Group, mpsc::Receiver<String>) {
    let home = folder.path().join("home");
    let path = env::var_os("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc"]).current_dir(folder.path()).env_clear();
    bash.env("PATH", format!("{}:{}", folder.path().join("bin").display(), path.display()))
        .env("HOME", &home)
        .env("NO_PROXY", "127.0.0.1,localhost");
    bash.env("XDG_CONFIG_HOME", home.join(".config")).env("XDG_STATE_HOME", home.join(".local/state")).env("TZ", "UTC");
    bash.env("TYPESCRIPT", typescript()).env("NO_COLOR", "1").env("TOLLHOUSE_WORKER", worker);
    bash.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut bash = Group::start(bash);
    bash.0.stdin.as_mut().expect("it is piped").write_all(PROGRAMS.as_bytes()).expect("the shell reads");
    let stdout = bash.0.stdout.take().expect("it is piped");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    (bash, lines)
}

/// Runs the blocks of a page in order, those marked with `later` last. Returns reports.
fn run_page(worker: &Path, page: &[Block]) -> Vec<String> {
    let mut session = Session::start(worker);
    let name = page[0].file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let assumed = session.copy_preparations();
    if assumed.join(format!("{name}.sh")).exists() {
        let assumed = assumed.display();
        let Outcome { is_success, output } = session.run(&format!("source {assumed}/common.sh\nsource {assumed}/{name}.sh\n"));
        if !is_success {
            return vec![format!("fixtures/docs/{name}.sh: it fails:\n{output}")];
        }
        session.read_known();
    }
    let (later, first): (Vec<_>, Vec<_>) = page.iter().partition(|block| block.has("later"));
    first.into_iter().chain(later).filter_map(|block| session.check(block)).collect()
}

/// Only pages whose path contains the value of `TOLLHOUSE_DOCS_PAGE` run, if it is set.
#[test]
#[expect(clippy::print_stdout, reason = "the figures show what no test runs")]
fn every_shell_block_runs_with_the_documented_output() {
    let Some(worker) = env::var_os("TOLLHOUSE_WORKER").map(PathBuf::from) else {
        println!("skipped: without `TOLLHOUSE_WORKER` there is no host");
        return;
    };
    let only = env::var_os("TOLLHOUSE_DOCS_PAGE").unwrap_or_default().to_string_lossy().into_owned();
    let paths = documents().into_iter().filter(|path| path.to_string_lossy().contains(&only) && !path.ends_with("CHANGELOG.md"));
    let mut not_run = 0;
    let mut pages: Vec<Vec<Block>> = Vec::new();
    for path in paths {
        let shell: Vec<_> = blocks(root(), &path).into_iter().filter(Block::is_shell).collect();
        let (skipped, run): (Vec<_>, Vec<_>) = shell.into_iter().partition(|block| block.has("norun"));
        not_run += skipped.len();
        pages.extend((!run.is_empty()).then_some(run));
    }
    let (next, reports) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = run_page(&worker, page);
                    reports.lock().expect("no thread panics").extend(found);
                }
            });
        }
    });
    let run: usize = pages.iter().map(Vec::len).sum();
    println!("{run} shell blocks on {} pages run, {not_run} are only checked for syntax", pages.len());
    let reports = reports.into_inner().expect("no thread panics");
    assert!(reports.is_empty(), "{} blocks:\n\n{}", reports.len(), reports.join("\n\n"));
}
