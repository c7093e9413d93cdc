//! Parses the whole command line, and serves a host or runs another command.

use std::{
    io::{IsTerminal as _, Write as _},
    path::PathBuf,
    pin::pin,
    process::ExitCode,
};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tollhouse_app::App;
use tollhouse_base::error_chain::full_message;
use tollhouse_capability::secret;
use tollhouse_config::{self as config, Flags};
use tollhouse_telemetry::log::{JsonLines, LogFormat, TextFields};

use crate::{
    base::Output,
    operator::{backup_cmd, check, doctor, ledger, store_admin, verify},
};

/// A host for paid JavaScript tools.
#[derive(Parser)]
#[command(name = "tollhouse", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a host
    Serve {
        #[command(flatten)]
        flags: Box<Flags>,
        /// Settings file
        #[arg(long, default_value = config::FILE)]
        config: PathBuf,
        /// Print every effective setting with its source, and exit
        #[arg(long)]
        check: bool,
        /// Print the settings as JSON
        #[arg(long, requires = "check")]
        json: bool,
    },
    /// Check the ledger of a stopped host
    #[command(subcommand)]
    Ledger(Ledger),
    /// Check, repair and move the store of a host
    #[command(subcommand)]
    Store(Store),
    /// Back up a host, which can be running, into a folder
    Backup(Box<backup_cmd::BackupArgs>),
    /// Restore a backup into the empty store of a stopped host
    Restore(Box<backup_cmd::RestoreArgs>),
    /// Check this machine and the settings, with remedies
    Doctor(Box<doctor::Args>),
    /// Verify the signature of a receipt
    VerifyReceipt(verify::Args),
    #[command(flatten)]
    Asks(crate::Command),
}

#[derive(Subcommand)]
enum Ledger {
    /// Check that all records of money agree
    Check(ledger::Args),
}

#[derive(Subcommand)]
enum Store {
    /// Check the store for damage and contradictions
    Check(Box<store_admin::CheckArgs>),
    /// Rewrite the store of a stopped host, to free disk space
    Compact(Box<store_admin::CheckArgs>),
    /// Drop damaged rows after confirmation, and keep the old files
    Repair(store_admin::RepairArgs),
    /// Move the store to a database while the host serves
    Migrate(backup_cmd::MigrateArgs),
    /// Return to the data folder as it was before `migrate`
    Stay(backup_cmd::StayArgs),
}

/// Builds the whole command line.
fn whole() -> clap::Command {
    let asking: Vec<_> = crate::asking().into_iter().chain(["verify-receipt".to_owned()]).collect();
    crate::given_to(Cli::command(), &asking, crate::ALONE)
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let command = whole();
    if let Some(ended) = check::run_if_requested(&command) {
        return ended;
    }
    let misread =
        |error| crate::end(Err(crate::usage_error(&command, error)), &crate::GlobalArgs { json: true, ..crate::GlobalArgs::default() });
    let given = match config::without_empty(command.clone()).try_get_matches() {
        Ok(given) => given,
        Err(error) => return misread(error),
    };
    let global = crate::GlobalArgs::of(&given);
    if let Some(message) = config::secret_on_command_line(&command, &given) {
        return crate::end(Err(crate::base::error::Error::usage(message)), &global);
    }
    let read = match Cli::from_arg_matches(&given) {
        Ok(read) => read,
        Err(error) => return misread(error),
    };
    match read.command {
        Command::Asks(command) => command.run(&global, whole),
        Command::VerifyReceipt(args) => crate::end(verify_receipt(args, &global), &global),
        Command::Serve { flags, config, .. } => match crate::GlobalArgs::in_front(&given).none() {
            Ok(()) => begin(*flags, &config),
            Err(error) => crate::end(Err(error), &global),
        },
        command => {
            let front = crate::GlobalArgs { json: global.json, ..crate::GlobalArgs::in_front(&given) };
            let names_folder = names_folder(&given);
            crate::end(front.here().and_then(|()| run(command, names_folder, Output::new(front.json))), &front)
        }
    }
}

/// Serves a host until it receives a signal to end.
fn begin(flags: Flags, config: &std::path::Path) -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    match crate::block_on(&runtime, serve(flags, config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error.as_ref()),
    }
}

/// Returns whether a command on stored data names a data folder on the command line, and no database. `serve` and `doctor` are not
/// such commands: their data folder contains the keys of a host whose rows can be in a database.
fn names_folder(given: &clap::ArgMatches) -> bool {
    let command = match given.subcommand() {
        Some(("store", store)) => store.subcommand().filter(|(name, _)| matches!(*name, "check" | "compact")),
        command => command.filter(|(name, _)| matches!(*name, "backup" | "restore")),
    };
    let is_typed = |command: &clap::ArgMatches, flag: &str| command.value_source(flag) == Some(clap::parser::ValueSource::CommandLine);
    command.is_some_and(|(_, command)| is_typed(command, "data") && !is_typed(command, "store"))
}

/// Runs a command on a host's stored data.
fn run(command: Command, names_folder: bool, out: Output) -> crate::base::error::Result {
    let runtime = runtime()?;
    let ended = match command {
        Command::Ledger(Ledger::Check(args)) => crate::block_on(&runtime, ledger::check(&args, out)),
        Command::Store(Store::Check(args)) => crate::block_on(&runtime, store_admin::check(*args, names_folder, out)),
        Command::Store(Store::Compact(args)) => crate::block_on(&runtime, store_admin::compact(*args, names_folder, out)),
        Command::Store(Store::Repair(args)) => store_admin::repair(&args, out),
        Command::Store(Store::Migrate(args)) => crate::block_on(&runtime, backup_cmd::migrate(args, out)),
        Command::Store(Store::Stay(args)) => crate::block_on(&runtime, backup_cmd::stay(args, out)),
        Command::Backup(args) => crate::block_on(&runtime, backup_cmd::backup(*args, names_folder, out)),
        Command::Restore(args) => crate::block_on(&runtime, backup_cmd::restore(*args, names_folder, out)),
        Command::Doctor(args) => crate::block_on(&runtime, doctor::run(*args, out)),
        Command::Serve { .. } | Command::VerifyReceipt(_) | Command::Asks(_) => Ok(()),
    };
    Ok(ended?)
}

/// Verifies a receipt, which can be at the user's host.
fn verify_receipt(args: verify::Args, global: &crate::GlobalArgs) -> crate::base::error::Result {
    Ok(crate::block_on(&runtime()?, verify::run(args, global))?)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// Logs to standard error, with colors on a terminal unless `NO_COLOR` forbids them.
fn log_to_stderr(filter: &str, format: LogFormat) -> Result<(), tracing_subscriber::filter::ParseError> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter)?;
    if format == LogFormat::Json {
        tracing_subscriber::fmt().event_format(JsonLines).with_env_filter(filter).with_writer(std::io::stderr).init();
        return Ok(());
    }
    let mut log = tracing_subscriber::fmt().fmt_fields(TextFields).with_env_filter(filter).with_writer(std::io::stderr);
    if !std::io::stderr().is_terminal() {
        log = log.with_ansi(false);
    }
    log.init();
    Ok(())
}

async fn serve(flags: Flags, file: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    secret::keep_private()?;
    raise_descriptors()?;
    let settings = flags.over_file(file)?.resolve()?;
    log_to_stderr(&settings.log, settings.telemetry.log_format)
        .map_err(|error| format!("the log filter `{}` is not valid: {error}", settings.log))?;
    for name in config::misspelled(&whole()).into_iter().filter(|name| !crate::NAMES.contains(&name.as_str())) {
        tracing::warn!("the environment variable `{name}` is not a setting: see `tollhouse serve --help`");
    }
    // Handle signals from here on: a host that is stopped while it starts must complete its current step.
    let mut signals = Signals::new()?;
    let listener = tokio::net::TcpListener::bind(settings.listen).await;
    let listener =
        listener.map_err(|error| format!("cannot listen on `{}`: {error}; set another address in `TOLLHOUSE_LISTEN`", settings.listen))?;
    let address = listener.local_addr()?;
    let base_url = settings.base_url.clone().unwrap_or_else(|| format!("http://{address}"));
    let public_url = base_url.trim_end_matches('/').to_owned();
    let mut starting = pin!(App::start(&settings, base_url));
    let (app, told_to_end) = tokio::select! {
        app = &mut starting => (app?, false),
        () = signals.end() => {
            // The start may wait forever, for another host or a database.
            let app = tokio::time::timeout(settings.drain, starting).await.map_err(|_| "stopped before the start completed")?;
            (app?, true)
        }
    };
    let mut stdout = std::io::stdout();
    let token = match settings.account.admin_token {
        Some(_) => "as configured".to_owned(),
        None => format!("in {}", settings.home.data.join("admin-token").display()),
    };
    writeln!(stdout, "listening on http://{address}")?;
    stdout.flush()?;
    // A process that starts hosts may read only the first line and then close the pipe.
    _ = writeln!(stdout, "dashboard at {public_url}/dashboard\nadmin token: {token}").and_then(|()| stdout.flush());
    let drained = async {
        if !told_to_end {
            signals.end().await;
        }
        app.announce_shutdown();
        tokio::select! {
            () = tokio::time::sleep(settings.shutdown_delay) => {}
            () = signals.end() => {}
        }
        // This lets connections end normally. Live streams would otherwise be waited for.
        app.begin_shutdown();
        tokio::time::sleep(settings.drain).await;
    };
    tokio::select! {
        () = app.serve(listener) => {}
        () = drained => {}
    }
    app.shutdown(settings.drain).await;
    Ok(())
}

/// Minimum number of file descriptors for connections and workers.
const LEAST_DESCRIPTORS: u64 = 64;

/// Raises the limit of file descriptors to what the system allows. Each connection needs one, and the shell's default
/// is for programs that open only a few.
fn raise_descriptors() -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    // If that is not allowed, the limits derived from it are lower.
    _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    match getrlimit(Resource::Nofile).current {
        Some(few) if few < LEAST_DESCRIPTORS => Err(format!(
            "this process can open {few} files, but a host needs at least {LEAST_DESCRIPTORS}: raise the limit (`ulimit -n`, `LimitNOFILE=`)"
        )),
        _ => Ok(()),
    }
}

/// SIGTERM, and Ctrl-C in a terminal. From now on they start a shutdown instead of killing the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Prints an error with its causes in one sentence.
fn fail(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    _ = writeln!(std::io::stderr(), "tollhouse: {}", full_message(error));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_data_names_the_store_unless_a_database_is_typed_too() {
        let cases: &[(&[&str], bool)] = &[
            (&["backup", "--to", "kept", "--data", "here"], true),
            (&["restore", "kept", "--data", "here"], true),
            (&["store", "check", "--data", "here"], true),
            (&["store", "compact", "--data", "here"], true),
            (&["backup", "--to", "kept"], false),
            (&["restore", "kept", "--data", "here", "--store", "postgres://db/tolls"], false),
            (&["store", "check", "--store", "postgres://db/tolls"], false),
            (&["store", "stay", "--data", "here"], false),
            (&["serve", "--data", "here"], false),
            (&["doctor", "--data", "here"], false),
        ];
        for (words, names) in cases {
            let given = whole().try_get_matches_from(["tollhouse"].iter().chain(*words)).unwrap();
            assert_eq!(names_folder(&given), *names, "{words:?}");
        }
    }
}
