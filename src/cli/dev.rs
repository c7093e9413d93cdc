//! `tollhouse dev`: runs a private host with play money that publishes the tool in a folder on each save. It contacts
//! no other host. Unlike on other hosts, the tool can also ask servers on this machine that `--allow` names.
//!
//! A save is published first. Type checks and cases run afterwards, so that they do not delay calls. If a save does not
//! load, the previous version keeps serving.

mod folder_lock;
mod keys;
mod publisher;
mod reporter;
mod save_cycle;
mod stream;
mod watch;
mod workspace;

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Mutex, mpsc},
};
use tollhouse_api::{FaucetRequest, SimulatedBalance};
use tollhouse_capability::{guard::DevelopmentUpstreams, secret};
use tollhouse_tool::MicroUsd;

use self::{
    folder_lock::FolderLock,
    keys::{KeyCommand, RawKeys},
    publisher::Publisher,
    reporter::Reporter,
    watch::FolderWatcher,
    workspace::Workspace,
};
use super::{
    base::{
        Client, CredentialChoice, Credentials, Error, Folder, GlobalArgs, Output, Profile, Result, Role, Session, State, dollars,
        is_reader_gone, private_files, tool_state::slug_in,
    },
    check::TrialArgs,
    local::{LocalHost, Port},
    pay::key_file,
};

/// The default port, if it is free.
const PORT: u16 = 4021;

/// Arguments of `dev`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of the tool [default: this one]
    dir: Option<PathBuf>,
    /// Port on 127.0.0.1 [default: 4021, or any free one]
    #[arg(long)]
    port: Option<u16>,
    /// Price in US dollars, instead of `tool.json`'s; 0 is free
    #[arg(long, value_name = "USD", value_parser = dollars)]
    price: Option<MicroUsd>,
    /// Server that the tool can reach beside `allowedHosts`
    #[arg(long, value_name = "HOST:PORT")]
    allow: Vec<String>,
    #[command(flatten)]
    trial: TrialArgs,
}

pub(crate) async fn run(global: &GlobalArgs, args: Args) -> Result {
    let given = args.dir.as_ref().map_or_else(env::current_dir, |dir| dir.canonicalize());
    let folder = given.map_err(|error| Error::usage(format!("cannot open the folder: {error}")))?;
    if !folder.join("tool.json").is_file() {
        return Err(Error::usage(format!("`{}` is not the folder of a tool: it has no tool.json", folder.display()))
            .hint("create one: tollhouse init NAME"));
    }
    let upstreams = DevelopmentUpstreams::parse(&args.allow)
        .map_err(|_| Error::usage("`--allow` takes a host and a port").hint("for example: --allow localhost:8080"))?;
    secret::keep_private().map_err(|error| Error::refused(error.to_string()))?;
    // Handle signals from here on, so that nothing is left behind.
    let (mut terminate, mut interrupt, mut hangup) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?);
    let held = FolderLock::take(&folder)?;
    let port = args.port.map_or(Port::Preferred(PORT), Port::Exact);
    let data = folder.join(".tollhouse/dev");
    let started = LocalHost::start(&data, args.trial.worker.clone(), port, upstreams).await;
    let again = |error: Error| error.hint(format!("if its data are damaged or from another release: rm -r {}", data.display()));
    let has_other_cause = |error: &Error| error.hint.is_some() || !data.join("store").exists();
    let host = Arc::new(started.map_err(|error| if has_other_cause(&error) { error } else { again(error) })?);
    fund(&host, &folder).await?;
    held.announce(&host.url)?;
    let reporter = Reporter::new(Output::new(global.json));
    let workspace = Workspace {
        folder: folder.clone(),
        price: args.price,
        env: args.trial.env.clone(),
        types: !args.trial.no_types,
        host: Arc::clone(&host),
        reporter,
        known: Mutex::default(),
    };
    let ended = tokio::select! {
        ended = serve(workspace) => ended,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        _ = hangup.recv() => Ok(()),
        () = is_reader_gone() => Ok(()),
    };
    drop(held);
    if let Some(host) = Arc::into_inner(host) {
        host.end().await;
    }
    ended
}

/// Opens a session with the host that serves the current folder, for calls paid with its play money key. It has no
/// credential, because the user has not named the host.
pub(super) fn session(global: &GlobalArgs) -> Result<Option<Session>> {
    served(global, |_| Ok(Credentials::default()))
}

/// Opens a session with the host that serves the current folder, for reading its logs. It has the admin token that this
/// host has generated for itself and that works on no other.
pub(super) fn owners_session(global: &GlobalArgs) -> Result<Option<Session>> {
    served(global, |folder| {
        let token = private_files::read_private(&folder.join(".tollhouse/dev/admin-token"))?;
        Ok(token.map(|token| Credentials::only(Role::Admin, token.trim().to_owned().into())).unwrap_or_default())
    })
}

fn served(global: &GlobalArgs, credentials: impl FnOnce(&Path) -> Result<Credentials>) -> Result<Option<Session>> {
    // An explicit choice takes precedence.
    if global.url.is_some() || global.profile.is_some() {
        return Ok(None);
    }
    let Some((path, url)) = folder_lock::here() else { return Ok(None) };
    let client = Client::new(url.clone(), credentials(&path)?, global.role, global.plain_http)?;
    let profile = Profile { key_file: Some(key_file(&path)), ..Profile::of(url.clone()) };
    // The tool is the one in `tool.json`, wherever the folder was published before.
    let folder = match slug_in(&path) {
        Some(slug) => Some(Folder { path, state: State { slug, host: url, revision: 0 } }),
        None => Folder::here()?,
    };
    Ok(Some(Session { out: Output::new(global.json), client, name: None, is_stored: false, profile, folder, is_dev: true }))
}

fn key_file(folder: &Path) -> PathBuf {
    folder.join(".tollhouse/dev/pay.key")
}

/// Minimum initial balance of the key: 10 USD.
const PURSE: MicroUsd = MicroUsd(10_000_000);

/// Ensures that there is a key with play money.
async fn fund(host: &LocalHost, folder: &Path) -> Result {
    let path = key_file(folder);
    let key = if path.exists() { key_file::read(&path)? } else { key_file::create(&path)? };
    let address = key.address().to_string();
    let faucet = host.client.get(&["dev", "faucet"]).by(CredentialChoice::Everyone).query("address", &address);
    if faucet.send::<SimulatedBalance>().await?.body.balance_usd < PURSE {
        let request = FaucetRequest { address, amount_usd: PURSE, network: None, asset: None };
        host.client.post(&["dev", "faucet"]).by(CredentialChoice::Everyone).json(&request).send::<SimulatedBalance>().await?;
    }
    Ok(())
}

/// Publishes saves and reports events until the user ends it.
async fn serve(workspace: Workspace) -> Result {
    let workspace = Arc::new(workspace);
    let (mut watch, mut keys) = (FolderWatcher::of(&workspace.folder, workspace.env.as_deref()), RawKeys::read());
    let (report, mut reported) = mpsc::unbounded_channel();
    let mut publishes = Publisher::new(Arc::clone(&workspace), report);
    publishes.begin();
    loop {
        tokio::select! {
            () = watch.changed() => publishes.begin(),
            Some(ended) = reported.recv() => publishes.ended(ended, &watch, &keys)?,
            Some(key) = keys.next() => match key {
                KeyCommand::Call => publishes.call(),
                KeyCommand::Schedule => publishes.run_schedule(),
                KeyCommand::Cases => publishes.start_cases(),
                KeyCommand::Open => publishes.open().await?,
                KeyCommand::Quit => return Ok(()),
            },
            ended = publishes.followed() => ended?,
        }
    }
}
