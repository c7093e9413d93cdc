//! Checks the release. The tarball is unpacked and started, and a call is paid. On a clean system,
//! an older package is installed and started as its unit specifies. It is upgraded to this one (data
//! and settings must stay), a call is paid, the package is removed (data must stay), and it is purged.
//! The short form unpacks the package too, and checks everything except the work of dpkg.
//!
//! The upgrade starts from the package of an older release, if one is given. Otherwise it starts
//! from this release under an older version, on the data of the previous release in
//! `fixtures/data`.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{deb, npm, release::Release, root::Root};
use crate::{Failure, args::Args, clients, paths, shell};

/// The line that a host prints when it is ready starts with this.
const READY: &str = "listening on ";
/// Maximum time for a host to start, and to end.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The data folder.
const DATA: &str = "/var/lib/tollhouse";
/// A paid tool among the built-in tools.
const PAID: &str = "/tools/receipt-echo-paid";
/// A paid tool in the data of the previous release, which does not have the built-in tools.
const PAID_BEFORE: &str = "/tools/kept";

/// Checks the package.
///
/// # Errors
///
/// Returns the first check that fails.
pub(crate) fn run(release: &Release, tree: &Path, npm: &[PathBuf], args: &Args) -> Result<(), Failure> {
    let clients = clients::prepare();
    reproducible(release, tree)?;
    unit(tree)?;
    let payers = clients.join().map_err(|_| "the payers could not be prepared".to_owned())??;
    tarball(release, &payers)?;
    installed_by_npm(release, npm, &payers)?;
    if args.short { unpacked(release, &payers) } else { installed(release, tree, args.from.as_deref(), &payers) }
}

/// Checks that a second run of the packer gives the same bytes.
fn reproducible(release: &Release, tree: &Path) -> Result<(), Failure> {
    let sum =
        |file: &Path| shell::output(Command::new("sha256sum").arg(file)).and_then(|reported| Some(reported.split(' ').next()?.to_owned()));
    let before = sum(&package(release, &release.version));
    let again = deb::pack(release, tree, &release.version)?;
    holds(before.is_some() && before == sum(&again), "packing again gives other bytes")?;
    print_step("packing again gives the same bytes");
    Ok(())
}

/// Verifies the unit with systemd.
fn unit(tree: &Path) -> Result<(), Failure> {
    if shell::find("systemd-analyze").is_none() {
        print_step("no systemd-analyze: the unit is not verified");
        return Ok(());
    }
    // systemd checks that the program of the unit exists. Point it to the one in the tree, not to
    // that of this machine.
    let text = paths::read(&tree.join("usr/lib/systemd/system/tollhouse.service"))?;
    let staged = text.replace("ExecStart=/usr/bin/", &format!("ExecStart={}/usr/bin/", tree.display()));
    let unit = tree.with_file_name("tollhouse.service");
    fs::write(&unit, staged).map_err(|reason| reason.to_string())?;
    let done = Command::new("systemd-analyze").args(["verify", "--man=no", "--recursive-errors=no"]).arg(&unit).output();
    let done = done.map_err(|reason| reason.to_string())?;
    let complaints = String::from_utf8_lossy(&done.stderr).lines().filter(|line| line.contains("tollhouse")).collect::<Vec<_>>().join("\n");
    holds(done.status.success() && complaints.is_empty(), &format!("systemd-analyze rejects the unit: {complaints}"))?;
    print_step("systemd-analyze accepts the unit");
    Ok(())
}

/// Checks that the files match their checksums, and that the host in the tarball runs wherever it
/// is unpacked.
fn tarball(release: &Release, payers: &Path) -> Result<(), Failure> {
    shell::run(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&release.folder))?;
    let folder = TempFolder::new(release, "untarred")?;
    shell::run(Command::new("tar").arg("-xf").arg(release.tarball()).arg("-C").arg(&folder.0))?;
    runs_and_is_paid(&folder.0.join(release.name()), payers)?;
    print_step("the tarball matches its checksum; unpacked, started and paid");
    Ok(())
}

/// Checks the files of the package without root, after unpacking them.
fn unpacked(release: &Release, payers: &Path) -> Result<(), Failure> {
    let folder = TempFolder::new(release, "unpacked")?;
    shell::run(Command::new("dpkg-deb").arg("-x").arg(package(release, &release.version)).arg(&folder.0))?;
    runs_and_is_paid(&folder.0, payers)?;
    print_step("unpacked, started and paid");
    Ok(())
}

/// Checks that the command that npm installs finds its worker, and passes signals and the exit status on.
fn installed_by_npm(release: &Release, packages: &[PathBuf], payers: &Path) -> Result<(), Failure> {
    let folder = TempFolder::new(release, "npm-installed")?;
    let command = npm::install(packages, &folder.0)?;
    let mut serve = Command::new(&command);
    serve.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(&folder.0).env_remove("TOLLHOUSE_WORKER").env_remove("TOLLHOUSE_DATA");
    let host = Host::start(serve)?;
    let receipt = host.pay(payers, PAID)?;
    host.receipt(&receipt)?;
    host.end()?;
    let refused = Command::new(&command).args(["serve", "--no-such-flag"]).output().map_err(|reason| reason.to_string())?;
    holds(refused.status.code() == Some(2), &format!("a wrong flag gave {}", refused.status))?;
    print_step("installed by npm, started and paid");
    Ok(())
}

/// Starts the host of an unpacked tree and pays for a call.
fn runs_and_is_paid(tree: &Path, payers: &Path) -> Result<(), Failure> {
    let data = tree.join("data");
    let mut serve = Command::new(tree.join("usr/bin/tollhouse"));
    serve.env_clear().args(["serve", "--config"]).arg(tree.join("etc/tollhouse/tollhouse.toml"));
    serve.arg("--data").arg(&data).args(["--listen", "127.0.0.1:0"]);
    let host = Host::start(serve)?;
    let receipt = host.pay(payers, PAID)?;
    host.receipt(&receipt)?;
    host.end()?;
    mode(&data.join("admin-token"), 0o600)
}

/// Checks installation, upgrade, removal and purge as root, on a clean Debian.
fn installed(release: &Release, tree: &Path, from: Option<&Path>, payers: &Path) -> Result<(), Failure> {
    let root = Root::unpack(&release.folder)?;
    let (older, newer) = (older(release, tree, from)?, package(release, &release.version));
    for file in [&older, &newer] {
        fs::copy(file, root.at("/tmp").join(file.file_name().unwrap_or_default())).map_err(|reason| reason.to_string())?;
    }
    if from.is_none() {
        fs::remove_file(&older).map_err(|reason| reason.to_string())?;
    }
    let in_root = |file: &Path| format!("/tmp/{}", file.file_name().unwrap_or_default().display());
    // Otherwise dpkg would ask about changed settings.
    let install = |file: &Path| root.run(&["dpkg", "--force-confold", "--install", &in_root(file)]);
    let version = || root.run(&["dpkg-query", "--show", "--showformat=${Version}", "tollhouse"]);

    install(&older)?;
    let (owner, data) = (user(&root)?, root.at(DATA));
    mode(&data, 0o700)?;
    holds(fs::metadata(&data).is_ok_and(|about| about.uid() == owner), "the data folder does not belong to the user of the unit")?;
    root.run(&["dpkg", "--verify", "tollhouse"])?;
    let before = version()?;
    let (receipt, tool) = match from {
        Some(_) => {
            let host = Host::start(service(&root)?)?;
            let receipt = host.pay(payers, PAID)?;
            host.end()?;
            (receipt, PAID)
        }
        None => (load_previous_data(&root)?, PAID_BEFORE),
    };
    print_step(&format!("installed {before}, on {} with a sale", if from.is_some() { "new data" } else { "data of the previous release" }));

    let settings = root.at("/etc/tollhouse/tollhouse.toml");
    let changed = format!("{}\ncontact = \"operator@example.com\"\n", paths::read(&settings)?);
    fs::write(&settings, &changed).map_err(|reason| reason.to_string())?;
    install(&newer)?;
    let after = version()?;
    holds(after == release.version, &format!("the version after the upgrade is {after}"))?;
    holds(paths::read(&settings)? == changed, "the upgrade has changed settings of the operator")?;
    let check = as_service(&root, &["serve", "--check", "--config", "/etc/tollhouse/tollhouse.toml"])
        .output()
        .map_err(|reason| reason.to_string())?;
    holds(check.status.success(), &format!("its settings are invalid: {}", String::from_utf8_lossy(&check.stderr)))?;
    let host = Host::start(service(&root)?)?;
    let reported = host.receipt(&receipt)?;
    holds(reported.contains(&receipt), "the receipt from before the upgrade is gone")?;
    host.pay(payers, tool)?;
    holds(fs::metadata(data.join("admin-token")).is_ok_and(|about| about.uid() == owner), "the host does not run as its user")?;
    mode(&data.join("admin-token"), 0o600)?;
    host.end()?;
    let check = as_service(&root, &["store", "check", "--data", DATA]).output().map_err(|reason| reason.to_string())?;
    holds(check.status.success(), &format!("the store is damaged after the upgrade: {}", String::from_utf8_lossy(&check.stdout)))?;
    print_step(&format!("upgraded from {before} to {after}, with its data and settings; started as its unit specifies, and paid"));

    root.run(&["dpkg", "--remove", "tollhouse"])?;
    holds(!root.at("/usr/bin/tollhouse").exists(), "the host still exists after removal")?;
    holds(data.join("store").is_dir() && data.join("master-key").is_file(), "removal deleted the data")?;
    holds(settings.is_file(), "removal deleted the settings")?;
    print_step("removed; data and settings stay");

    install(&newer)?;
    let host = Host::start(service(&root)?)?;
    holds(host.receipt(&receipt)? == reported, "the receipt differs after reinstallation")?;
    host.end()?;
    fs::write(root.at("/etc/tollhouse/environment"), "").map_err(|reason| reason.to_string())?;
    // Purging must not follow a link that an operator put in the place of the folder.
    root.run(&["sh", "-c", "mv /var/lib/tollhouse /srv/tollhouse && ln -s /srv/tollhouse /var/lib/tollhouse"])?;
    root.run(&["dpkg", "--purge", "tollhouse"])?;
    holds(root.at("/srv/tollhouse/store").is_dir(), "purging followed a link")?;
    root.run(&["sh", "-c", "rm /var/lib/tollhouse && mv /srv/tollhouse /var/lib/tollhouse"])?;
    install(&newer)?;
    root.run(&["dpkg", "--purge", "tollhouse"])?;
    holds(!data.exists() && !root.at("/etc/tollhouse").exists(), "files remain after purging")?;
    print_step("purged; the target of a link stays");
    Ok(())
}

/// Returns the package from which to upgrade.
fn older(release: &Release, tree: &Path, from: Option<&Path>) -> Result<PathBuf, Failure> {
    match from {
        Some(file) if file.is_file() => Ok(file.to_owned()),
        Some(file) => Err(format!("the package {} does not exist", file.display())),
        // A version with `~` and a suffix sorts before the version without it.
        None => deb::pack(release, tree, &format!("{}~before", release.version)),
    }
}

/// Replaces the data of the installed host with data of the previous release. Returns the id of a
/// receipt in them.
fn load_previous_data(root: &Root) -> Result<String, Failure> {
    let fixtures = paths::root().join("fixtures/data");
    let mut releases: Vec<_> = fs::read_dir(&fixtures).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    releases.sort();
    let newest = releases.pop().ok_or_else(|| format!("{} contains no data of a release", fixtures.display()))?;
    let unpacked = root.at("/tmp/before");
    fs::create_dir(&unpacked).map_err(|reason| reason.to_string())?;
    shell::run(Command::new("tar").arg("-xf").arg(&newest).arg("-C").arg(&unpacked))?;
    let reported = paths::read(&unpacked.join("kept.json"))?;
    let receipt = reported.split("\"receipts\":[\"").nth(1).and_then(|rest| rest.split('"').next()).filter(|id| id.starts_with("rcpt_"));
    let receipt = receipt.ok_or_else(|| format!("{} names no receipt", newest.display()))?;
    root.run(&[
        "sh",
        "-ec",
        "cp -a /tmp/before/data/. /var/lib/tollhouse/ && chown -R tollhouse:tollhouse /var/lib/tollhouse && chmod 700 /var/lib/tollhouse",
    ])?;
    Ok(receipt.to_owned())
}

fn package(release: &Release, version: &str) -> PathBuf {
    release.folder.join(format!("tollhouse_{version}_{}.deb", release.arch))
}

/// Returns the user id of the package's user.
fn user(root: &Root) -> Result<u32, Failure> {
    let reported = root.run(&["id", "-u", "tollhouse"])?;
    reported.trim().parse().map_err(|_| format!("`{}` is not a user id", reported.trim()))
}

/// Returns the command that starts the host as the installed unit does, but on a free port.
fn service(root: &Root) -> Result<Command, Failure> {
    let unit = paths::read(&root.at("/usr/lib/systemd/system/tollhouse.service"))?;
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).ok_or_else(|| format!("no `{key}` in the unit"));
    let (start, user) = (value("ExecStart=")?, value("User=")?);
    holds(user == "tollhouse" && start.starts_with("/usr/bin/tollhouse "), "the unit starts another program")?;
    let words: Vec<_> = start.split_ascii_whitespace().skip(1).chain(["--listen", "127.0.0.1:0"]).collect();
    Ok(as_service(root, &words))
}

/// Returns a command that runs the host's program as the unit's user, with the privileges that the
/// unit leaves it.
fn as_service(root: &Root, words: &[&str]) -> Command {
    const AS: [&str; 8] = [
        "env",
        "--chdir=/var/lib/tollhouse",
        "setpriv",
        "--reuid=tollhouse",
        "--regid=tollhouse",
        "--clear-groups",
        "--no-new-privs",
        "--bounding-set=-all",
    ];
    let mut all = AS.to_vec();
    all.push("/usr/bin/tollhouse");
    all.extend(words);
    root.within(&all)
}

fn mode(path: &Path, expected: u32) -> Result<(), Failure> {
    let mode = fs::metadata(path).map_err(|reason| format!("{}: {reason}", path.display()))?.permissions().mode() & 0o7777;
    holds(mode == expected, &format!("{} has mode {mode:o}, not {expected:o}", path.display()))
}

fn holds(condition: bool, otherwise: &str) -> Result<(), Failure> {
    if condition { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn print_step(step: &str) {
    println!("  {step}");
}

/// A running host.
struct Host {
    child: Child,
    url: String,
}

impl Host {
    fn start(mut command: Command) -> Result<Self, Failure> {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().map_err(|reason| reason.to_string())?;
        let stdout = child.stdout.take();
        let mut host = Self { child, url: String::new() };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line).map_err(|reason| reason.to_string())?;
        }
        let url = line.trim().strip_prefix(READY).ok_or_else(|| format!("the host did not start: {line}"))?;
        host.url = url.to_owned();
        Ok(host)
    }

    /// Pays for a call with the standard client. Returns the receipt id.
    fn pay(&self, payers: &Path, tool: &str) -> Result<String, Failure> {
        let mut pay = Command::new("node");
        pay.arg(payers.join("pay.mjs")).arg(format!("{}{tool}", self.url)).arg("{\"hello\":\"world\"}").env("NO_PROXY", "127.0.0.1");
        let done = pay.output().map_err(|reason| format!("cannot start `node`: {reason}"))?;
        let text = String::from_utf8_lossy(&done.stdout);
        let receipt = text.split_once("\"receiptId\":\"rcpt_").and_then(|(_, rest)| rest.split('"').next());
        let paid = text.contains("\"status\":200") && text.contains("\"success\":true");
        match receipt.filter(|_| paid) {
            Some(receipt) => Ok(format!("rcpt_{receipt}")),
            None => Err(format!("the call was not paid: {text}{}", String::from_utf8_lossy(&done.stderr))),
        }
    }

    fn receipt(&self, id: &str) -> Result<String, Failure> {
        let url = format!("{}/ai/receipts/{id}", self.url);
        shell::output(Command::new("curl").args(["-sf", "--noproxy", "*", &url])).ok_or_else(|| format!("no receipt at {url}"))
    }

    /// Ends the host as systemd does, and waits for it.
    fn end(mut self) -> Result<(), Failure> {
        shell::run(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        let started = Instant::now();
        while started.elapsed() < TIMEOUT {
            if let Some(status) = self.child.try_wait().map_err(|reason| reason.to_string())? {
                return holds(status.success(), &format!("the host ended with {status}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the host did not end in time".to_owned())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

/// A folder that is removed when this is dropped.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(release: &Release, name: &str) -> Result<Self, Failure> {
        let folder = release.folder.join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|reason| format!("cannot create {}: {reason}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
