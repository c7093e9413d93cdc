//! A host as a separate process.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader},
    panic::resume_unwind,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::{Client, Method, RequestBuilder, header::HeaderMap, redirect::Policy};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::{Answer, Payment, documented::AskedOperation, earlier, eventually, process};

/// Maximum time by which workers may outlive their host.
const EXIT_WITHIN: Duration = Duration::from_secs(5);

/// The receiver of real payments.
pub const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

/// Returns the command for the tested binary, which may be an existing one. It inherits no settings
/// from the environment, except for the path of the worker and the active mutant.
pub fn tollhouse() -> Command {
    bare(std::env::var_os("TOLLHOUSE_HOST").unwrap_or_else(|| env!("CARGO_BIN_EXE_tollhouse").into()))
}

/// Returns a command for any version's binary, without other settings. It runs in an empty folder, because the default
/// data folder and the settings file are in the current one.
fn bare(binary: OsString) -> Command {
    let stored =
        ["PATH", "TMPDIR", "TOLLHOUSE_WORKER", "TOLLHOUSE_MUTANT"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let empty = concat!(env!("CARGO_TARGET_TMPDIR"), "/empty");
    fs::create_dir_all(empty).unwrap();
    let mut command = Command::new(binary);
    command.env_clear().envs(stored).current_dir(empty);
    command
}

/// Wraps `command` in another program, which gets it as its last arguments.
pub fn within(program: &str, args: &[&str], command: &Command) -> Command {
    let mut outer = Command::new(program);
    outer.args(args).arg(command.get_program()).args(command.get_args()).env_clear();
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        outer.current_dir(folder);
    }
    outer
}

/// The configuration of a host.
#[derive(Debug, Clone, Default)]
pub struct HostBuilder {
    flags: Vec<String>,
    env: Vec<(String, String)>,
    catalogue: bool,
    descriptors: Option<u32>,
    binary: Option<OsString>,
}

/// A running host. Dropping it kills the process. If a worker outlives it, the test fails.
pub struct Host {
    how: HostBuilder,
    data: Arc<TempDir>,
    process: Option<Child>,
    pub url: String,
    pub admin: String,
    client: Client,
    /// Workers that were killed, alone or with their host. They stay in `/proc` until the host has
    /// waited for them.
    doomed: Mutex<Vec<i32>>,
}

impl HostBuilder {
    /// Adds a flag of `tollhouse serve` with its value.
    pub fn flag(mut self, name: &str, value: impl ToString) -> Self {
        self.flags.extend([name.to_owned(), value.to_string()]);
        self
    }

    pub fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.env.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds the built-in tools. Default: no tools.
    pub fn with_catalogue(mut self) -> Self {
        self.catalogue = true;
        self
    }

    /// Limits the number of descriptors. Default: the limit of the system.
    pub fn descriptors(mut self, max: u32) -> Self {
        self.descriptors = Some(max);
        self
    }

    /// Uses the earlier version, if one is named, until the [upgrade](Host::upgrade). Default: the
    /// tested version.
    pub fn earlier(self) -> Self {
        let how = earlier::worker().into_iter().fold(self, |how, worker| how.env("TOLLHOUSE_WORKER", worker.display()));
        Self { binary: earlier::host(), ..how }
    }

    /// Settles to [`PAY_TO`] through the facilitator at `url`. Default: the simulated ledger.
    pub fn settled_by(self, url: &str) -> Self {
        self.env("TOLLHOUSE_FACILITATOR", "http").env("X402_FACILITATOR_URL", url).env("TOLLHOUSE_PAY_TO", PAY_TO)
    }

    /// Simulates a disk that takes up to 20 ms for each durable commit.
    pub fn on_a_slow_disk(self, folder: &std::path::Path) -> Self {
        let (source, library) = (folder.join("slow_disk.c"), folder.join("slow_disk.so"));
        fs::write(&source, include_str!("slow_disk.c")).unwrap();
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
        assert!(built.expect("no C compiler, which Rust links with").success());
        self.env("LD_PRELOAD", library.display())
    }

    pub async fn start(self) -> Host {
        let mut host = self.on(Arc::new(tempfile::tempdir().unwrap()));
        host.run().await;
        host
    }

    /// Starts the host in a folder that already has `data`.
    pub async fn start_in(self, folder: TempDir) -> Host {
        let mut host = self.on(Arc::new(folder));
        host.run().await;
        host
    }

    fn on(self, data: Arc<TempDir>) -> Host {
        let client = Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
        Host { how: self, data, process: None, url: String::new(), admin: String::new(), client, doomed: Mutex::default() }
    }

    /// Returns the output of a host that fails to start.
    pub async fn fails(self) -> String {
        self.fails_in(tempfile::tempdir().unwrap()).await
    }

    /// Does the same in a folder that already has `data`.
    pub async fn fails_in(self, folder: TempDir) -> String {
        let mut host = self.on(Arc::new(folder));
        host.process = Some(host.spawn());
        let ended = eventually("the host ends", Duration::from_secs(60), || {
            let ended = host.process.as_mut().and_then(|process| process.try_wait().unwrap());
            async move { ended }
        });
        assert!(!ended.await.success());
        host.process = None;
        host.log()
    }
}

impl Host {
    /// Starts another process on the same data folder, as with hosts that share a database and
    /// mount the folder.
    pub async fn second(&self) -> Self {
        let mut host = self.how.clone().on(Arc::clone(&self.data));
        host.run().await;
        host
    }

    pub async fn start() -> Self {
        Self::builder().start().await
    }

    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    async fn run(&mut self) {
        let mut child = self.spawn();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        self.process = Some(child);
        let ready = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line
        });
        let ready = tokio::time::timeout(Duration::from_secs(60), ready).await.expect("the host is not ready within a minute").unwrap();
        let url = ready.trim().strip_prefix("listening on ");
        self.url = url.unwrap_or_else(|| panic!("the host did not start: {ready}\n{}", self.log())).to_owned();
        let given = self.how.env.iter().find(|(name, _)| name == "TOLLHOUSE_ADMIN_TOKEN_FILE").map(|(_, path)| path.into());
        let token = given.unwrap_or_else(|| self.data.path().join("data/admin-token"));
        self.admin = fs::read_to_string(token).unwrap().trim().to_owned();
    }

    /// Starts a process on the host's data.
    fn spawn(&self) -> Child {
        let data = self.data.path();
        fs::create_dir_all(data.join("no-tools")).unwrap();
        let log = fs::File::options().create(true).append(true).open(data.join("host.log")).unwrap();
        let mut command = self.how.binary.clone().map_or_else(tollhouse, bare);
        if let Some(max) = self.how.descriptors {
            let limited = format!("ulimit -n {max} && exec \"$0\" \"$@\"");
            command = within("sh", &["-c", &limited], &command);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.join("data")).current_dir(data);
        if !self.how.catalogue {
            command.arg("--tools").arg(data.join("no-tools"));
        }
        command.args(&self.how.flags).envs(self.how.env.iter().cloned()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        command.spawn().unwrap()
    }

    /// Kills the host, as in a power failure. All of its workers must end too.
    pub fn kill9(&mut self) {
        let remaining = self.end();
        assert!(remaining.is_empty(), "workers {remaining:?} outlived their host");
    }

    /// Kills the process while others still talk to it. [`Host::kill9`] then waits for its end.
    pub fn cut_power(&self) {
        let pid = i32::try_from(self.pid()).unwrap();
        // Stop it first, so that it starts no more workers while they are counted.
        process::signal(pid, Signal::STOP);
        self.doomed.lock().unwrap().extend(process::descendants(pid));
        process::signal(pid, Signal::KILL);
    }

    /// Asks the host to end, as a service manager does.
    pub fn terminate(&self) {
        process::signal(i32::try_from(self.pid()).unwrap(), Signal::TERM);
    }

    /// Freezes the process, like a suspended machine, until [`wake`](Host::wake).
    pub fn freeze(&self) {
        process::signal(i32::try_from(self.pid()).unwrap(), Signal::STOP);
    }

    /// Lets a frozen process continue.
    pub fn wake(&self) {
        process::signal(i32::try_from(self.pid()).unwrap(), Signal::CONT);
    }

    /// Kills the process. Returns the workers that outlived it.
    fn end(&mut self) -> Vec<i32> {
        if self.process.is_some() {
            self.cut_power();
        }
        if let Some(mut child) = self.process.take() {
            _ = child.wait();
        }
        process::left_over(std::mem::take(&mut *self.doomed.lock().unwrap()), EXIT_WITHIN)
    }

    /// Starts again on the same data, killing the host first if it runs. The port changes.
    pub async fn restart(&mut self) {
        self.kill9();
        self.run().await;
    }

    /// Sets an environment variable for the next start.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.how.env.retain(|(known, _)| known != name);
        self.how.env.push((name.to_owned(), value.to_string()));
    }

    /// Uses the tested version and its worker from the next start on.
    pub fn upgrade(&mut self) {
        self.how.binary = None;
        self.how.env.retain(|(name, _)| name != "TOLLHOUSE_WORKER");
    }

    /// Starts again on the same data, and expects a failure. Returns the output.
    pub async fn fails_to_restart(&mut self) -> String {
        self.kill9();
        let before = self.log().len();
        let mut process = self.spawn();
        let ended = spawn_blocking(move || process.wait().unwrap()).await.unwrap();
        assert!(!ended.success());
        self.log().split_off(before)
    }

    /// Starts again on the same data, and kills the host after `wait`, ready or not.
    pub async fn restart_and_kill(&mut self, wait: Duration) {
        self.kill9();
        self.process = Some(self.spawn());
        tokio::time::sleep(wait).await;
        self.kill9();
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// Returns the processor time of the process.
    pub fn cpu(&self) -> Duration {
        process::cpu(i32::try_from(self.pid()).unwrap()).unwrap()
    }

    /// Returns the resident memory of the process, in bytes.
    pub fn resident(&self) -> u64 {
        process::resident(i32::try_from(self.pid()).unwrap())
    }

    /// Returns the number of open descriptors of the process.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Returns the ids of the descendant processes, including zombies.
    pub fn descendants(&self) -> Vec<i32> {
        process::descendants(i32::try_from(self.pid()).unwrap())
    }

    /// Returns whether the process is still running.
    pub fn lives(&self) -> bool {
        process::lives(i32::try_from(self.pid()).unwrap())
    }

    /// Kills the busy worker: one that has used at least `cpu`. Returns false if there is none.
    pub fn kill_busy_worker(&self, cpu: Duration) -> bool {
        let mut doomed = self.doomed.lock().unwrap();
        let workers = self.descendants();
        let mut living = workers.into_iter().filter(|pid| !doomed.contains(pid));
        let Some(busy) = living.find(|pid| process::cpu(*pid).is_some_and(|used| used >= cpu)) else { return false };
        process::signal(busy, Signal::KILL);
        doomed.push(busy);
        true
    }

    /// Returns the log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.data.path().join("host.log")).unwrap_or_default()
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    /// Sends a request whose connection may break.
    pub async fn try_send(request: RequestBuilder) -> reqwest::Result<Answer> {
        let (client, request) = request.build_split();
        let request = request?;
        let query = AskedOperation::of(&request);
        let answer = Answer::read(client.execute(request).await?).await?;
        // Check in the background, so that concurrent requests of a test do not wait for it.
        let checked = spawn_blocking(move || {
            query.check(&answer);
            answer
        });
        Ok(checked.await.unwrap_or_else(|broke| resume_unwind(broke.into_panic())))
    }

    /// Sends a request. Every answer must have a request id.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let answer = Self::try_send(request).await.unwrap_or_else(|error| panic!("{error:?}\n{}", self.log()));
        assert!(answer.has("x-request-id").starts_with("req_"), "{answer:?}");
        answer
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// Sends a request with the admin token.
    pub async fn manage(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.send(self.request(method, path).header("x-admin-token", &self.admin).json(body)).await
    }

    /// Publishes a tool. Returns its record.
    pub async fn publish(&self, tool: &Value) -> Value {
        self.manage(Method::POST, "/ai/endpoints/create", tool).await.is(200).json()["endpoint"].clone()
    }

    /// Changes a tool. Returns its record.
    pub async fn change(&self, slug: &str, patch: &Value) -> Value {
        self.manage(Method::PATCH, &format!("/ai/endpoints/{slug}"), patch).await.is(200).json()["endpoint"].clone()
    }

    /// Calls `POST /tools/{slug}` without a payment.
    pub async fn call(&self, slug: &str, input: &Value) -> Answer {
        self.post(&format!("/tools/{slug}"), input).await
    }

    pub fn paid_request(&self, slug: &str, input: &Value, payment: &Payment) -> RequestBuilder {
        self.request(Method::POST, &format!("/tools/{slug}")).header(payment.header, payment.encoded()).json(input)
    }

    pub async fn call_paid(&self, slug: &str, input: &Value, payment: &Payment) -> Answer {
        self.send(self.paid_request(slug, input, payment)).await
    }

    /// Calls `POST /tools/{slug}`, paid with developer credit.
    pub async fn call_credit(&self, slug: &str, input: &Value, credit: &str) -> Answer {
        self.send(self.request(Method::POST, &format!("/tools/{slug}")).header("x-developer-credit", credit).json(input)).await
    }

    /// Returns the v2 challenge of a paid tool.
    pub async fn challenge(&self, slug: &str) -> Value {
        self.call(slug, &json!({})).await.is(402).decoded("payment-required")
    }

    /// Returns the v1 challenge of a paid tool.
    pub async fn challenge_v1(&self, slug: &str) -> Value {
        self.call(slug, &json!({})).await.is(402).json()
    }

    /// Mints developer credit. Returns its token.
    pub async fn mint(&self, amount_usd: f64) -> String {
        let minted = self.manage(Method::POST, "/ai/credits", &json!({ "amountUsd": amount_usd, "label": "test" })).await.is(200).json();
        minted["credit"].as_str().unwrap().to_owned()
    }

    /// Registers a builder, paid with credit. Returns id and key.
    pub async fn register(&self, name: &str) -> (String, String) {
        let credit = self.mint(100.0).await;
        let request =
            self.request(Method::POST, "/ai/builders/register").header("x-developer-credit", credit).json(&json!({ "name": name }));
        let registered = self.send(request).await.is(200).json();
        let text = |name: &str| registered[name].as_str().unwrap().to_owned();
        (text("builderId"), text("builderKey"))
    }

    /// Sends a request with a builder's key, and with a body unless it is null.
    pub async fn as_builder(&self, key: &str, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.request(method, path).header("x-builder-key", key);
        self.send(if body.is_null() { request } else { request.json(body) }).await
    }

    /// Returns the balance of a credit, in micro-dollars.
    pub async fn credit_balance(&self, credit: &str) -> u64 {
        let request = self.request(Method::GET, "/ai/credits").header("x-developer-credit", credit);
        micros(&self.send(request).await.is(200).json()["balanceUsd"])
    }

    /// Returns the balance of an address in the simulated ledger, in micro-dollars.
    pub async fn balance(&self, address: &str) -> u64 {
        micros(&self.get(&format!("/dev/faucet?address={address}")).await.is(200).json()["balanceUsd"])
    }

    /// Returns the state of a payment for an admin, or `None` if the host has no record of it.
    pub async fn payment(&self, id: &str) -> Option<Value> {
        let answer = self.send(self.request(Method::GET, &format!("/ai/payments/{id}")).header("x-admin-token", &self.admin)).await;
        if answer.status == 404 {
            answer.fails_unsure(404, "unknown_payment", "caller");
            return None;
        }
        Some(answer.is(200).json()["payment"].clone())
    }

    /// Returns the receipt with this id.
    pub async fn receipt(&self, id: &str) -> Value {
        self.get(&format!("/ai/receipts/{id}")).await.is(200).json()["receipt"].clone()
    }

    /// Verifies a receipt's signature with the command for it. Returns the output as `Ok` or `Err`.
    pub fn verify_receipt(&self, receipt: &Value) -> Result<String, String> {
        let file = self.folder().join("receipt.json");
        fs::write(&file, receipt.to_string()).unwrap();
        let mut command = tollhouse();
        command.arg("verify-receipt").arg(&file).arg("--keys").arg(format!("{}/.well-known/jwks.json", self.url));
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Returns a folder that exists as long as the host.
    pub fn folder(&self) -> &std::path::Path {
        self.data.path()
    }

    /// Sends a preflight request with these headers, as browsers do for another origin.
    pub async fn preflight(&self, path: &str, headers: HeaderMap) -> Answer {
        self.send(self.request(Method::OPTIONS, path).headers(headers)).await
    }
}

/// Converts dollars to micro-dollars.
pub fn micros(usd: &Value) -> u64 {
    (usd.as_f64().unwrap() * 1e6).round() as u64
}

impl Drop for Host {
    fn drop(&mut self) {
        let remaining = self.end();
        if std::thread::panicking() {
            let log = self.log();
            let from = log.char_indices().rev().nth(4_000).map_or(0, |(at, _)| at);
            println!("the end of the host's log:\n{}", &log[from..]);
        } else {
            assert!(remaining.is_empty(), "workers {remaining:?} outlived their host");
        }
    }
}
