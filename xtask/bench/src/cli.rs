//! Measures waiting times of a builder at the command line: help, a deployment to a local host, and
//! from a save until it is served. Each is compared with its target.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    Failure, Options,
    client::{Client, Request},
    host::{ADMIN_TOKEN, Host, without_settings},
};

/// Number of repetitions.
const ROUNDS: usize = 31;

const HELP: Duration = Duration::from_millis(20);
const DEPLOY: Duration = Duration::from_millis(500);
const SAVE: Duration = Duration::from_millis(150);

/// Maximum time of a step before the run is aborted.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs all three measurements.
pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    println!("the command line, {ROUNDS} times each; p50 beside its bar");
    let home = tempfile::tempdir()?;
    help(options)?;
    run(tollhouse(options, home.path()).args(["init", "shout"]))?;
    let folder = home.path().join("shout");
    // Test cases run after the measured part, and would slow the machine down.
    fs::remove_file(folder.join("cases.jsonc"))?;
    deploy(options, home.path(), &folder)?;
    saves(options, home.path(), &folder)
}

/// Compared with a program that does nothing.
fn help(options: &Options) -> Result<(), Failure> {
    let timed = |mut command: Command| -> Result<Duration, Failure> {
        let started = Instant::now();
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        if status.success() { Ok(started.elapsed()) } else { Err(format!("`--help` ended with {status}").into()) }
    };
    let (mut helps, mut baselines) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let mut help = Command::new(&options.host);
        help.arg("--help");
        helps.push(timed(help)?);
        baselines.push(timed(Command::new("true"))?);
    }
    let baseline = median(&mut baselines);
    let ratio = median(&mut helps).as_secs_f64() / baseline.as_secs_f64();
    print_row("--help", &mut helps, HELP, &format!("{ratio:.1} times `true`"));
    Ok(())
}

/// Times the whole command, and the host's part of it.
fn deploy(options: &Options, home: &Path, folder: &Path) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let host = Host::start(options, data.path(), &[])?;
    let url = format!("http://{}", host.address());
    let (mut elapsed, mut there) = (vec![], vec![]);
    for round in 0..ROUNDS {
        write(folder, round)?;
        let mut command = tollhouse(options, home);
        command.args(["deploy", "--yes", "--attest"]).current_dir(folder);
        command.env("TOLLHOUSE_URL", &url).env("TOLLHOUSE_ADMIN_TOKEN", ADMIN_TOKEN);
        let started = Instant::now();
        let message = run(&mut command)?;
        elapsed.push(started.elapsed());
        there.push(millis(&message)?);
    }
    let share = median(&mut there).as_secs_f64() / median(&mut elapsed).as_secs_f64() * 100.0;
    print_row("deploy on loopback", &mut elapsed, DEPLOY, &format!("{share:.0} % of it at the host"));
    host.stop()
}

/// Times from writing a handler until it answers a call, and the part for publishing.
fn saves(options: &Options, home: &Path, folder: &Path) -> Result<(), Failure> {
    let mut dev = Dev::start(options, home, folder)?;
    dev.published()?;
    let here: Value = serde_json::from_slice(&fs::read(folder.join(".tollhouse/dev.json"))?)?;
    let address: SocketAddr = here["url"].as_str().and_then(|url| url.strip_prefix("http://")).ok_or("`dev` says no address")?.parse()?;
    let token = fs::read_to_string(folder.join(".tollhouse/dev/admin-token"))?;
    let mut client = Client::connect(address)?;
    let call = Request::post("/tools/shout", "{\"text\":\"hi\"}").with("x-admin-token", token.trim());
    let (mut elapsed, mut published) = (vec![], vec![]);
    for round in ROUNDS..2 * ROUNDS {
        let started = Instant::now();
        write(folder, round)?;
        let requested = format!("hi {round}");
        loop {
            client.expect_ok(&call)?;
            let answer: Value = serde_json::from_slice(client.body())?;
            if answer["text"] == *requested {
                break;
            }
            if started.elapsed() > TIMEOUT {
                return Err(format!("what was saved is not served: {answer}").into());
            }
        }
        elapsed.push(started.elapsed());
        published.push(millis(&dev.published()?)?);
    }
    let share = median(&mut published).as_secs_f64() / median(&mut elapsed).as_secs_f64() * 100.0;
    print_row("save to served", &mut elapsed, SAVE, &format!("{share:.0} % of it publishing"));
    Ok(())
}

/// Returns the command line program in an empty environment.
fn tollhouse(options: &Options, home: &Path) -> Command {
    let mut command = without_settings(&options.host);
    command.current_dir(home).env("HOME", home).env("XDG_CONFIG_HOME", home.join("config")).env("TOLLHOUSE_WORKER", &options.worker);
    command.stdin(Stdio::null());
    command
}

/// Runs a command that must succeed, and returns its output.
fn run(command: &mut Command) -> Result<String, Failure> {
    let ended = command.output()?;
    if !ended.status.success() {
        return Err(format!("{command:?} ended with {}: {}", ended.status, String::from_utf8_lossy(&ended.stderr)).into());
    }
    Ok(String::from_utf8(ended.stdout)?)
}

/// Writes another version of the handler.
fn write(folder: &Path, round: usize) -> Result<(), Failure> {
    let source = format!("export default async (req: {{ input: {{ text: string }} }}) => ({{ text: `${{req.input.text}} {round}` }});\n");
    Ok(fs::write(folder.join("handler.ts"), source)?)
}

/// Returns the milliseconds in `published …, in 41 ms`.
fn millis(message: &str) -> Result<Duration, Failure> {
    let line = message.lines().find(|line| line.contains("published ")).ok_or("nothing was published")?;
    let number = line.rsplit_once(" in ").and_then(|(_, rest)| rest.split(' ').next()).ok_or("it does not say how long it took")?;
    Ok(Duration::from_millis(number.parse()?))
}

fn median(elapsed: &mut [Duration]) -> Duration {
    elapsed.sort();
    elapsed[elapsed.len() / 2]
}

fn print_row(what: &str, elapsed: &mut [Duration], bar: Duration, alongside: &str) {
    let p50 = median(elapsed);
    let slowest = elapsed.last().copied().unwrap_or_default();
    let part = p50.as_secs_f64() / bar.as_secs_f64();
    println!(
        "  {what:20} p50 {:7.1} ms   slowest {:7.1} ms   {part:4.2} of its bar of {} ms   {alongside}",
        p50.as_secs_f64() * 1e3,
        slowest.as_secs_f64() * 1e3,
        bar.as_millis()
    );
}

/// A running `dev` command. Dropping it ends it.
struct Dev {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Dev {
    fn start(options: &Options, home: &Path, folder: &Path) -> Result<Self, Failure> {
        let mut command = tollhouse(options, home);
        command.args(["dev", "--port", "0", "--no-types"]).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no pipe from `dev`")?).lines();
        Ok(Self { child, lines })
    }

    /// Returns the next line that reports a publish.
    fn published(&mut self) -> Result<String, Failure> {
        loop {
            let line = self.lines.next().ok_or("`dev` ended")??;
            if line.contains("  published ") {
                return Ok(line);
            }
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // With a signal that it handles, so that its workers end too.
        _ = Command::new("kill").arg(self.child.id().to_string()).status();
        _ = self.child.wait();
    }
}
