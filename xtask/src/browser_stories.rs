//! `cargo xtask faces`: tests the pages of a host in a real browser.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::{
    Failure,
    args::{Args, from_env},
    browser,
    chain::Chain,
    clients, engine,
    host::Host,
    paths, shell, vendor, workers,
};

/// A test script of `fixtures/browser` and the settings of its host. Each test gets a new host.
struct Story {
    name: &'static str,
    script: &'static str,
    words: &'static [&'static str],
    /// The tools of the host at the start.
    catalogue: Catalogue,
    /// Whether the host settles payments on a chain.
    on_chain: bool,
}

#[derive(PartialEq, Eq)]
enum Catalogue {
    Shipped,
    Empty,
}

impl Story {
    const fn new(name: &'static str) -> Self {
        Self { name, script: name, words: &[], catalogue: Catalogue::Shipped, on_chain: false }
    }
}

const STORIES: &[Story] = &[
    Story::new("pages"),
    Story { script: "pages", words: &["--empty"], catalogue: Catalogue::Empty, ..Story::new("empty") },
    Story::new("snapshots"),
    Story::new("editor"),
    Story::new("newcomer"),
    Story::new("without-script"),
    Story::new("forged"),
    Story::new("hostile"),
    Story::new("keyboard"),
    Story::new("lost"),
    Story { on_chain: true, ..Story::new("wallet") },
    Story::new("drafts"),
    Story::new("live-log"),
    Story::new("live-rows"),
    Story::new("speed"),
];

/// The payment address of a host that settles on a chain. Nobody has its key.
const PAY_TO: &str = "0x000000000000000000000000000000000000dEaD";

/// A script that takes screenshots and compares nothing. It runs only if it is named.
const PICTURES: Story = Story::new("pictures");

/// Builds in release mode (with `--debug` as tests do), and runs the named scripts, or all.
///
/// # Errors
///
/// Fails if something cannot be built. Returns how many scripts failed.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let packages = prepare();
    let all = || STORIES.iter().chain([&PICTURES]);
    if let Some(unknown) = args.words.iter().find(|word| all().all(|story| story.name != **word)) {
        let names: Vec<_> = all().map(|story| story.name).collect();
        return Err(format!("unknown story `{unknown}`; the stories are {}", names.join(", ")));
    }
    let worker = match from_env("TOLLHOUSE_WORKER") {
        Some(built) => PathBuf::from(built),
        None => workers::build(engine::pick(args.engine)?)?,
    };
    let host = if args.debug { debug_host()? } else { workers::build_host()? };
    let packages = packages.join().map_err(|_| "the installation of the browser tests failed")??;
    let payers = clients::prepare().join().map_err(|_| "the installation of the chain failed")??;
    let stories: Vec<_> = match args.words.as_slice() {
        [] => {
            vendor::check()?;
            STORIES.iter().collect()
        }
        words => all().filter(|story| words.iter().any(|word| *word == story.name)).collect(),
    };
    let context = StoryContext { host: &host, worker: &worker, packages: &packages, payers: &payers, browser: &browser::find()? };
    let flags = [(args.full, "--full"), (args.short, "--short"), (args.debug, "--debug"), (args.accept, "--accept")];
    let tools = args.tools.map(|tools| format!("--tools={tools}"));
    let words: Vec<_> = flags.into_iter().filter_map(|(is_set, word)| is_set.then_some(word)).chain(tools.as_deref()).collect();
    context.run(&stories, &words)
}

/// Starts the installation of the packages that [`check`] needs.
pub(crate) fn prepare() -> std::thread::JoinHandle<Result<PathBuf, Failure>> {
    clients::prepare_npm("browser")
}

/// Runs the short form with a host that is already built. Also checks that the vendored editor
/// matches its sources.
pub(crate) fn check(host: &Path, worker: &Path, packages: &Path, payers: &Path) -> Result<(), Failure> {
    vendor::check()?;
    StoryContext { host, worker, packages, payers, browser: &browser::find()? }.run(&STORIES.iter().collect::<Vec<_>>(), &["--short"])
}

/// Builds the host as the tests do.
pub(crate) fn debug_host() -> Result<PathBuf, Failure> {
    shell::run_with_progress("building the host", &mut shell::cargo(&["build", "--package", "tollhouse", "--bin", "tollhouse"]))?;
    Ok(paths::target().join("debug/tollhouse"))
}

/// The programs and folders that the scripts need.
struct StoryContext<'a> {
    host: &'a Path,
    worker: &'a Path,
    packages: &'a Path,
    /// The folder with the script of the chain.
    payers: &'a Path,
    browser: &'a Path,
}

impl StoryContext<'_> {
    fn run(&self, stories: &[&Story], words: &[&str]) -> Result<(), Failure> {
        let started = Instant::now();
        let mut failed = 0;
        for story in stories {
            if let Err(reason) = self.run_story(story, words) {
                eprintln!("{}: {reason}", story.name);
                failed += 1;
            }
        }
        println!("{} of {} stories pass, {} s", stories.len() - failed, stories.len(), started.elapsed().as_secs());
        if failed == 0 { Ok(()) } else { Err(format!("{failed} stories failed")) }
    }

    /// Runs one script against a new host. The script prints a line for each check.
    fn run_story(&self, story: &Story, words: &[&str]) -> Result<(), Failure> {
        let no_tools = self.packages.join("nothing");
        fs::create_dir_all(&no_tools).map_err(|reason| format!("cannot create {}: {reason}", no_tools.display()))?;
        // Registration is free.
        let mut settings = vec![("TOLLHOUSE_REGISTRATION_PRICE_USD", OsStr::new("0"))];
        if story.catalogue == Catalogue::Empty {
            settings.push(("TOLLHOUSE_TOOLS", no_tools.as_os_str()));
        }
        let chain = story.on_chain.then(|| Chain::start(self.payers)).transpose()?;
        let mut node = Command::new("node");
        if let Some(chain) = &chain {
            let (url, gas) = (chain.info("url")?, chain.info("gasKey")?);
            let paid =
                [("TOLLHOUSE_FACILITATOR", "evm"), ("TOLLHOUSE_RPC_URL", url), ("TOLLHOUSE_GAS_KEY", gas), ("TOLLHOUSE_PAY_TO", PAY_TO)];
            settings.extend(paid.map(|(name, value)| (name, OsStr::new(value))));
            node.env("RPC_URL", url).env("PRIVATE_KEY", chain.info("payerKey")?).env("CLIENTS", self.payers);
        }
        let host = Host::start(self.host, self.worker, &settings)?;
        println!("{}", story.name);
        node.arg(format!("{}.mjs", story.script)).arg(&host.url).args(story.words).args(words).current_dir(self.packages);
        node.env("TOLLHOUSE_ADMIN_TOKEN_FILE", host.admin_token()).env("CHROMIUM", self.browser);
        node.env("PICTURES", paths::target().join("pictures"));
        node.env("SNAPSHOTS", paths::root().join("fixtures/browser/snapshots"));
        shell::run(&mut node)
    }
}
