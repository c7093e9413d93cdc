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
mod secrets;
mod settlements;
mod show;
pub(crate) mod tool;
mod trial;
mod usage_error;
mod whoami;

use std::{path::PathBuf, process::ExitCode};

pub use self::entry::main;
use self::{
    base::{
        credentials,
        error::{Error, Result},
        output::Output,
        paging::{HistoryArgs, PageArgs},
        profile::{self, Config},
        session::Session,
    },
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
    /// Begins a tool: its folder, with a handler, its cases and its types.
    Init(init::Args),
    /// Writes the types of what handlers get anew.
    Types(init::TypesArgs),
    /// Says all that is wrong with the tool of this folder; nothing is stored.
    Check(check::Args),
    /// Serves the tool of a folder on a host of its own, with play money, and publishes each save.
    Dev(dev::Args),
    /// Shows what would change on a host, and publishes it.
    Deploy(deploy::Args),
    /// What this folder says that the host has otherwise.
    Diff(diff::Args),
    /// Takes what the host has into this folder.
    Pull(pull::Args),
    /// Keeps a builder key, an admin token or a developer credit for a host, once that has taken it.
    Login(login::Args),
    /// Forgets what was kept of a profile.
    Logout(login::OutArgs),
    /// Which host, and as whom.
    Whoami(whoami::Args),
    /// Own endpoints; what is offered, for who has none; `--all` for admins.
    List(list::Args),
    /// An endpoint's record, or the source of its handler.
    Show(show::Args),
    /// The versions that are kept of an endpoint's handler.
    Versions(show::VersionsArgs),
    /// Runs a version again that was published before.
    Rollback(change::RollbackArgs),
    /// Has an endpoint take no calls.
    Pause(change::Args),
    /// Has it take calls again.
    Resume(change::Args),
    /// Removes an endpoint; it asks before.
    Delete(change::DeleteArgs),
    /// Calls an endpoint, or whatever is sold by x402, and pays for it within limits.
    Call(Box<call::Args>),
    /// The key that pays.
    Key(key::Args),
    /// What an endpoint's handler wrote.
    Logs(logs::Args),
    /// How an endpoint's calls ended.
    Calls(logs::CallsArgs),
    /// What happened to own endpoints and money.
    Events(logs::EventsArgs),
    /// The secrets of an endpoint, and of a host.
    #[command(subcommand)]
    Secrets(Secrets),
    /// What own endpoints earned; `--host` for admins.
    Revenue(revenue::Args),
    /// Compare the ledger with the transfers on the chain (admins); exit code 1 where they differ.
    Reconcile(reconcile::Args),
    /// Settlements of which nobody says how they ended (admins).
    #[command(args_conflicts_with_subcommands = true)]
    Settlements {
        #[command(flatten)]
        paging: PageArgs,
        #[command(subcommand)]
        command: Option<settlements::Settlements>,
    },
    /// Where revenue goes, and what was made into packets.
    #[command(args_conflicts_with_subcommands = true)]
    Payouts {
        #[command(flatten)]
        back: HistoryArgs,
        #[command(subcommand)]
        command: Option<payouts::Payouts>,
    },
    /// Developer credit: the own one, and for admins all of them.
    #[command(args_conflicts_with_subcommands = true)]
    Credits {
        #[command(flatten)]
        back: HistoryArgs,
        #[command(subcommand)]
        command: Option<credits::Credits>,
    },
    /// What waits for an admin, and decisions on endpoints (admins).
    #[command(args_conflicts_with_subcommands = true)]
    Reviews {
        #[command(flatten)]
        back: HistoryArgs,
        #[command(subcommand)]
        command: Option<reviews::Reviews>,
    },
    /// What builders may do on a host (admins).
    Policy {
        #[command(subcommand)]
        command: Option<policy::Policy>,
    },
    /// Who asked for which change, and how that ended (admins).
    Audit(audit::Args),
    /// Who publishes on a host (admins), and a new key for oneself.
    Builders {
        #[command(subcommand)]
        command: Option<builders::Builders>,
    },
    /// Makes one a builder of a host; where that has a price, a developer credit pays.
    Register(builders::RegisterArgs),
    /// How a host is, and what it says of itself.
    Host {
        #[command(subcommand)]
        command: Option<host::Host>,
    },
    /// Calls of an endpoint added up, by the hour or the day.
    Metrics(host::MetricsArgs),
    /// A signed receipt, in short; `--json` is what can be checked.
    Receipt(host::IdArgs),
    /// What became of a payment.
    Payment(host::IdArgs),
    /// Gives back what a receipt paid, or a part of it (admins).
    Refund(host::RefundArgs),
    /// Opens the dashboard, signed in.
    Open(open::Args),
    /// Writes what a shell completes commands by.
    Completions(completions::Args),
    /// Writes the manual pages of all commands into a folder.
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
            Self::Types(args) => global.here().and_then(|()| init::types(Output::new(global.json), &args)),
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
            Self::Logs(args) if args.is_of_folder() => dev::owners_session(global).transpose().unwrap_or_else(|| Session::open(global))?,
            Self::Calls(args) if args.is_of_folder() => dev::owners_session(global).transpose().unwrap_or_else(|| Session::open(global))?,
            _ => Session::open(global)?,
        };
        match self {
            Self::Deploy(args) => deploy::run(&session, args).await,
            Self::Diff(args) => diff::run(&session, args).await,
            Self::Pull(args) => pull::run(&session, args).await,
            Self::Login(args) => login::login(session, global, args).await,
            Self::Logout(args) => login::logout(&session, global, &args),
            Self::Whoami(args) => whoami::run(&session, args).await,
            Self::List(args) => list::run(&session, args).await,
            Self::Show(args) => show::run(&session, args).await,
            Self::Versions(args) => show::versions(&session, args).await,
            Self::Rollback(args) => change::rollback(&session, args).await,
            Self::Pause(args) => change::set_status(&session, args, "paused").await,
            Self::Resume(args) => change::set_status(&session, args, "active").await,
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
            Self::Init(_) | Self::Types(_) | Self::Check(_) | Self::Dev(_) | Self::Completions(_) | Self::Man(_) => {
                Err(Error::refused("it asks no host"))
            }
        }
    }
}

/// Runs a command that uses a host. It mostly waits, so one thread is enough.
fn waiting<T>(request: impl Future<Output = T>) -> Result<T> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(request))
}

/// Runs work of a host itself, on all threads.
fn working<T>(done: impl Future<Output = T>) -> Result<T> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(done))
}

/// Returns the user's files with keys and credentials, each with a profile that it belongs to. Some may not exist. If
/// `named`, only those of that profile.
///
/// # Errors
///
/// The named profile does not exist.
pub(crate) fn files_of_secrets(named: Option<&str>) -> Result<Vec<(Option<String>, PathBuf)>> {
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
