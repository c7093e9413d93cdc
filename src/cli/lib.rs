//! The command line for builders, agents and admins. It has no power of its own: each command consists of operations of
//! a host's public API. Commands that work only on this machine are included too.

#![warn(missing_docs)]

mod audit;
pub(crate) mod base;
mod builders;
mod call;
mod change;
mod check;
mod completions;
mod credential_lock;
mod credits;
mod deploy;
mod dev;
mod diff;
mod entry;
mod envfile;
mod host;
mod init;
mod key;
mod list;
mod local;
mod login;
mod logs;
mod man_page;
mod open;
mod operator;
mod pay;
mod payouts;
mod plan;
mod policy;
mod pull;
mod reconcile;
mod revenue;
mod reviews;
mod secret_hosts;
mod secrets;
mod settlements;
mod show;
pub(crate) mod tool;
mod trial;
mod unset_secrets;
mod usage_error;
mod whoami;

use std::{path::PathBuf, pin::Pin, process::ExitCode};

use tollhouse_tool::Status;

pub use self::entry::main;
use self::{
    base::{Config, Error, HistoryArgs, Output, PageArgs, Result, Session, credentials, profile},
    pay::key_file,
};
pub(crate) use self::{
    base::{
        environment::NAMES,
        global::{GlobalArgs, given_to},
    },
    secrets::Secrets,
    usage_error::usage_error,
    whoami::{answers, known},
};

/// The commands that ask a host.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create the folder of a new tool
    Init(init::Args),
    /// Write the types for handlers
    Types,
    /// Check this folder's tool without publishing it
    Check(check::TrialArgs),
    /// Serve a tool locally with play money, and publish each save
    Dev(dev::Args),
    /// Show what would change on a host, and publish it
    Deploy(deploy::Args),
    /// Show how this folder differs from the host
    Diff,
    /// Copy a tool from the host into this folder
    Pull(pull::Args),
    /// Verify a credential with a host, and store it
    Login(login::Args),
    /// Remove the stored credentials of a profile
    Logout(login::OutArgs),
    /// Show the host and the identity in use
    Whoami,
    /// List your tools, or the public ones if you have none
    List(list::Args),
    /// Show the record of a tool, or its source
    Show(show::Args),
    /// List the stored versions of a handler
    Versions(show::VersionsArgs),
    /// Return to an earlier version
    Rollback(change::RollbackArgs),
    /// Pause a tool
    Pause(change::Args),
    /// Resume a paused tool
    Resume(change::Args),
    /// Delete a tool after confirmation
    Delete(change::DeleteArgs),
    /// Call a tool or any x402 resource, and pay within limits
    Call(Box<call::Args>),
    /// Manage the key that pays
    Key(key::Args),
    /// Show the log of a handler
    Logs(logs::Args),
    /// Show the calls of a tool
    Calls(logs::CallsArgs),
    /// Show events of your tools and payments
    Events(logs::EventsArgs),
    /// Manage the secrets of a tool, and the master key
    #[command(subcommand)]
    Secrets(Secrets),
    /// Show the revenue of your tools
    Revenue(revenue::Args),
    /// Compare the ledger with the chain (admins)
    Reconcile(reconcile::Args),
    /// Resolve settlements with an unknown outcome (admins)
    #[command(args_conflicts_with_subcommands = true)]
    Settlements {
        #[command(flatten)]
        paging: PageArgs,
        #[command(subcommand)]
        command: Option<settlements::Settlements>,
    },
    /// Show payouts, and set where they go
    #[command(args_conflicts_with_subcommands = true)]
    Payouts {
        #[command(flatten)]
        back: HistoryArgs,
        #[command(subcommand)]
        command: Option<payouts::Payouts>,
    },
    /// Manage developer credits
    #[command(args_conflicts_with_subcommands = true)]
    Credits {
        #[command(flatten)]
        back: HistoryArgs,
        #[command(subcommand)]
        command: Option<credits::Credits>,
    },
    /// Review tools (admins)
    #[command(args_conflicts_with_subcommands = true)]
    Reviews {
        #[command(flatten)]
        back: HistoryArgs,
        #[command(subcommand)]
        command: Option<reviews::Reviews>,
    },
    /// Show and change what builders can do (admins)
    Policy {
        #[command(subcommand)]
        command: Option<policy::Policy>,
    },
    /// Show who changed what (admins)
    Audit(audit::Args),
    /// Manage builders (admins), and renew your own key
    Builders {
        #[command(subcommand)]
        command: Option<builders::Builders>,
    },
    /// Register as a builder, paid by developer credit
    Register(builders::RegisterArgs),
    /// Show the state of a host
    Host {
        #[command(subcommand)]
        command: Option<host::Host>,
    },
    /// Show metrics of the calls of a tool
    Metrics(host::MetricsArgs),
    /// Show a receipt; `--json` adds its signature
    Receipt(host::IdArgs),
    /// Show the state of a payment
    Payment(host::IdArgs),
    /// Refund a credit payment, or record an x402 refund (admins)
    Refund(host::RefundArgs),
    /// Open the dashboard, signed in
    Open(open::Args),
    /// Write shell completions
    Completions(completions::Args),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man(man_page::Args),
}

/// Commands that use no host and print no document.
pub(crate) const ALONE: &[&str] = &["completions", "man"];

/// Returns the commands that take the common flags: which host, as whom, and the output format.
pub(crate) fn asking() -> Vec<String> {
    let command = <Command as clap::Subcommand>::augment_subcommands(clap::Command::new("tollhouse"));
    command.get_subcommands().map(|sub| sub.get_name().to_owned()).filter(|name| !ALONE.contains(&name.as_str())).collect()
}

impl Command {
    /// Runs the command. `whole` builds the whole command line, for completions and manuals.
    pub(crate) fn run(self, global: &GlobalArgs, whole: fn() -> clap::Command) -> ExitCode {
        let ended = match self {
            Self::Init(args) => global.here().and_then(|()| init::run(Output::new(global.json), args)),
            Self::Types => global.here().and_then(|()| init::types(Output::new(global.json))),
            Self::Check(args) => working(check::run(global, args)).flatten(),
            Self::Dev(args) => global.here().and_then(|()| working(dev::run(global, args)).flatten()),
            Self::Completions(args) => global.none().and_then(|()| completions::run(&args, whole())),
            Self::Man(args) => global.none().and_then(|()| man_page::run(&args, whole())),
            Self::Secrets(Secrets::Rotate(args)) if !global.names_a_host() => {
                working(crate::operator::rotate::run(args, Output::new(global.json))).and_then(|ended| ended.map_err(Error::from))
            }
            other => waiting(other.ask(global)).flatten(),
        };
        end(ended, global)
    }

    async fn ask(self, global: &GlobalArgs) -> Result {
        let session = match &self {
            Self::Call(_) => dev::session(global).transpose().unwrap_or_else(|| Session::open(global))?,
            // If a tool is named, another host may have it too.
            Self::Logs(logs::Args { slug: None, .. }) | Self::Calls(logs::CallsArgs { slug: None, .. }) => {
                dev::owners_session(global).transpose().unwrap_or_else(|| Session::open(global))?
            }
            _ => Session::open(global)?,
        };
        match self {
            Self::Deploy(args) => deploy::run(&session, args).await,
            Self::Diff => diff::run(&session).await,
            Self::Pull(args) => pull::run(&session, args).await,
            Self::Login(args) => login::login(session, global, args).await,
            Self::Logout(args) => login::logout(&session, global, &args),
            Self::Whoami => whoami::run(&session).await,
            Self::List(args) => list::run(&session, args).await,
            Self::Show(args) => show::run(&session, args).await,
            Self::Versions(args) => show::versions(&session, args).await,
            Self::Rollback(args) => change::rollback(&session, args).await,
            Self::Pause(args) => change::set_status(&session, args, Status::Paused).await,
            Self::Resume(args) => change::set_status(&session, args, Status::Active).await,
            Self::Delete(args) => change::delete(&session, args).await,
            Self::Call(args) => call::run(&session, *args).await,
            Self::Key(args) => key::run(&session, args).await,
            Self::Logs(args) => logs::logs(&session, args).await,
            Self::Calls(args) => logs::calls(&session, args).await,
            Self::Events(args) => logs::events(&session, args).await,
            Self::Secrets(command) => secrets::run(&session, command).await,
            Self::Revenue(args) => revenue::run(&session, args).await,
            Self::Reconcile(args) => reconcile::run(&session, args).await,
            Self::Settlements { paging, command } => settlements::run(&session, paging, command).await,
            Self::Payouts { back, command } => payouts::run(&session, back, command).await,
            Self::Credits { back, command } => credits::run(&session, back, command).await,
            Self::Reviews { back, command } => reviews::run(&session, back, command).await,
            Self::Policy { command } => policy::run(&session, command).await,
            Self::Audit(args) => audit::run(&session, args).await,
            Self::Builders { command } => builders::run(&session, command).await,
            Self::Register(args) => builders::register(&session, args).await,
            Self::Host { command } => host::run(&session, command).await,
            Self::Metrics(args) => host::metrics(&session, args).await,
            Self::Receipt(args) => host::receipt(&session, args).await,
            Self::Payment(args) => host::payment(&session, args).await,
            Self::Refund(args) => host::refund(&session, args).await,
            Self::Open(args) => open::run(&session, args).await,
            Self::Init(_) | Self::Types | Self::Check(_) | Self::Dev(_) | Self::Completions(_) | Self::Man(_) => {
                Err(Error::refused("this command does not use a host"))
            }
        }
    }
}

/// Runs a command that uses a host. It mostly waits, so one thread is enough.
fn waiting<T>(request: impl Future<Output = T>) -> Result<T> {
    Ok(block_on(&tokio::runtime::Builder::new_current_thread().enable_all().build()?, request))
}

/// Runs work of a host itself, on all threads.
fn working<T>(done: impl Future<Output = T>) -> Result<T> {
    Ok(block_on(&tokio::runtime::Builder::new_multi_thread().enable_all().build()?, done))
}

/// Runs `work` to its end. It is boxed, because each loop of the runtime would otherwise have a copy of its code.
pub(crate) fn block_on<T>(runtime: &tokio::runtime::Runtime, work: impl Future<Output = T>) -> T {
    let work: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(work);
    runtime.block_on(work)
}

/// Returns the user's files with keys and credentials, each with a profile that it belongs to. Some may not exist. If
/// `named`, only those of that profile.
///
/// # Errors
///
/// The named profile does not exist.
pub(crate) fn private_files_of_profiles(named: Option<&str>) -> Result<Vec<(Option<String>, PathBuf)>> {
    let read = profile::file().and_then(|file| Config::read(&file));
    let config = if named.is_some() { read? } else { read.unwrap_or_default() };
    named.map(|name| config.named(name)).transpose()?;
    let usual = named.or(config.usual().map(|(name, _)| name)).map(str::to_owned);
    let of_all = config.all().filter(|(name, _)| named.is_none_or(|named| named == *name));
    let keys = of_all.map(|(name, profile)| (Some(name.to_owned()), key_file::path(None, profile.key_file.as_deref())));
    let shared = named.is_none().then(|| (usual.clone(), key_file::path(None, None)));
    let all = [(usual, credentials::file())].into_iter().chain(shared).chain(keys);
    let mut files: Vec<_> = all.filter_map(|(profile, file)| Some((profile, file.ok()?))).collect();
    // If several profiles share a file, report the first.
    files.sort_by(|(_, one), (_, other)| one.cmp(other));
    files.dedup_by(|(_, later), (_, first)| later == first);
    Ok(files)
}

/// Prints a command's error, if any, and returns its exit code.
pub(crate) fn end(ended: Result, global: &GlobalArgs) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.report(global.json);
            ExitCode::from(error.status())
        }
    }
}
