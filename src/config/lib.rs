//! Settings. Flags override the environment, which overrides `tollhouse.toml`, which overrides defaults. Only this
//! crate reads the environment. Each group of settings has two types: one for flags, one for the effective settings.

#![warn(missing_docs)]

mod account;
mod catalog;
mod effective;
mod environment;
mod error;
mod host;
mod http;
mod layered;
mod mcp;
mod money;
mod retention;
mod sandbox;
mod secret;
mod telemetry;

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use tollhouse_objects::BucketLocation;
use tollhouse_store::{postgres::PostgresConfig, sled::SledConfig};

use self::layered::LayeredSettings as _;
pub use self::{
    account::{AccountFlags, AccountSettings},
    catalog::{CatalogFlags, CatalogSettings},
    effective::{EffectiveSetting, InvalidSetting, SettingSource, SettingsReport, look, raw_settings},
    environment::{misspelled, secret_on_command_line, selects_database, without_empty},
    error::{ParseError, SettingsError},
    host::HostFlags,
    http::{BodySettings, ConnectionSettings, ForwardedHeader, HttpFlags, HttpSettings, IntakeSettings, ProxySettings, QuotaSettings},
    mcp::{McpFlags, McpSettings, TaskSettings},
    money::{MoneyFlags, MoneySettings, NetworkSettings},
    retention::{RetentionFlags, RetentionSettings},
    sandbox::{SandboxFlags, SandboxSettings},
    secret::{HiddenValue, SecretFlags, SecretSettings},
    telemetry::{MetricsReaders, TelemetryFlags, TelemetrySettings},
};

/// The part of all worker processes that can stream their answers.
const STREAM_PART: usize = 4;

/// The settings file, read if it exists.
pub const FILE: &str = "tollhouse.toml";

layered::concerns! {
/// The settings of `tollhouse serve`. Each is a flag, an environment variable and a key of `tollhouse.toml` (in
/// kebab-case).
pub struct Flags {
    pub host: HostFlags,
    pub account: AccountFlags,
    pub secret: SecretFlags,
    pub money: MoneyFlags,
    pub sandbox: SandboxFlags,
    pub http: HttpFlags,
    pub mcp: McpFlags,
    pub catalog: CatalogFlags,
    pub retention: RetentionFlags,
    pub telemetry: TelemetryFlags,
}
}

/// The locations of a host's rows, files and keys.
#[derive(Debug, Clone)]
pub struct Home {
    /// Folder of the store, the files and the keys.
    pub data: PathBuf,
    /// Settings of the store in the data folder.
    pub store: SledConfig,
    /// The database to use instead, if any.
    pub database: Option<PostgresConfig>,
    /// Location of objects. Default: the folder `files` in the data folder.
    pub objects: BucketLocation,
    /// Keys that are not in the data folder.
    pub secrets: SecretSettings,
}

/// The effective settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Listening address. Port 0 picks a free port.
    pub listen: SocketAddr,
    /// Rows, files and keys.
    pub home: Home,
    /// Public URL. Default: the listening address.
    pub base_url: Option<String>,
    /// Time after SIGTERM for load balancers to notice. Default: none, or 5 s for a store that other hosts can share.
    pub shutdown_delay: Duration,
    /// Time for running calls to complete after that.
    pub drain: Duration,
    /// Log filter in the syntax of `tracing`.
    pub log: String,
    /// Accounts and registration.
    pub account: AccountSettings,
    /// Facilitators, recipients, and the host's fee.
    pub money: MoneySettings,
    /// Worker processes, and what handlers can reach.
    pub sandbox: SandboxSettings,
    /// The HTTP front end.
    pub http: HttpSettings,
    /// The MCP front end.
    pub mcp: McpSettings,
    /// The catalog and its rules.
    pub catalog: CatalogSettings,
    /// Retention of history.
    pub retention: RetentionSettings,
    /// Log, metrics and traces.
    pub telemetry: TelemetrySettings,
}

impl Flags {
    /// Returns these flags, with `file` filling in absent ones. A missing file sets nothing.
    ///
    /// # Errors
    ///
    /// The file cannot be read or has an unknown key.
    pub fn over_file(self, file: &Path) -> Result<Self, SettingsError> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self),
            Err(source) => return Err(SettingsError::Read { path: file.to_owned(), source }),
        };
        let unread = |error: toml::de::Error| SettingsError::Parse { path: file.to_owned(), source: ParseError::of(&text, &error) };
        let table: toml::Table = toml::from_str(&text).map_err(unread)?;
        if let Some(key) = table.keys().find(|key| !Self::has(key)) {
            return Err(SettingsError::Key { path: file.to_owned(), key: key.clone() });
        }
        Ok(self.over(Self::read(&text).map_err(unread)?))
    }

    /// Returns where the rows, files and keys of this host are, whatever its other settings.
    ///
    /// # Errors
    ///
    /// Those of these settings that are invalid.
    pub fn home(self) -> Result<Home, SettingsError> {
        home_of(&self.host, self.secret)
    }

    /// Returns the effective settings, validated.
    ///
    /// # Errors
    ///
    /// Settings that cannot work together, each with what to do about it.
    pub fn resolve(self) -> Result<Settings, SettingsError> {
        let host = self.host;
        let listen = host.listen.unwrap_or(host::LISTEN);
        let base_url = host.base_url()?;
        let one_address = self.http.sees_one_address(listen.ip());
        let telemetry = self.telemetry.resolve(listen.ip(), base_url.as_deref())?;
        let home = home_of(&host, self.secret)?;
        home.secrets.check()?;
        let (sandbox, mut http) = (self.sandbox.resolve()?, self.http.resolve(listen.ip())?);
        // Each stream keeps a worker.
        http.streams.places = (sandbox.pool.max_processes / STREAM_PART).max(1);
        Ok(Settings {
            listen,
            home,
            base_url,
            shutdown_delay: host.shutdown_delay(),
            drain: Duration::from_millis(host.drain_ms.unwrap_or(30_000)),
            log: host.log.unwrap_or_else(|| "info,rmcp=error,h2=error".to_owned()),
            account: self.account.resolve()?,
            money: self.money.resolve(listen, one_address)?,
            mcp: self.mcp.resolve(listen, one_address)?,
            sandbox,
            http,
            catalog: self.catalog.resolve()?,
            retention: self.retention.resolve(),
            telemetry,
        })
    }
}

fn home_of(host: &HostFlags, secret: SecretFlags) -> Result<Home, SettingsError> {
    let data = host.data.clone().unwrap_or_else(|| PathBuf::from("data"));
    let objects = host.bucket()?.unwrap_or_else(|| BucketLocation::Folder(data.join("files")));
    Ok(Home { store: host.folder(), database: host.database()?, objects, secrets: secret.resolve()?, data })
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    #[test]
    fn documented_defaults_are_in_force() {
        let command = Flags::augment_args(Command::new("serve"));
        let with = |words: &[&str]| {
            let given = command.clone().get_matches_from(["serve"].iter().chain(words));
            format!("{:?}", Flags::from_arg_matches(&given).unwrap().resolve().unwrap())
        };
        let mut compared = 0;
        for flag in command.get_arguments() {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            let Some((_, reported)) = help.strip_suffix(']').and_then(|help| help.split_once("[default: ")) else { continue };
            let (value, condition) = reported.split_once(", ").unwrap_or((reported, ""));
            let flag = format!("--{}", flag.get_long().unwrap());
            // A default in words, one of the pool, or one that follows another setting.
            if value.contains([' ', '`']) || flag.starts_with("--sandbox-") {
                continue;
            }
            let elsewhere: &[&str] = match condition.contains("loopback") {
                true => &["--listen", "192.0.2.1:4020", "--base-url", "https://a.test", "--allow-simulated-public"],
                false if flag.starts_with("--otlp-") => &["--otlp-endpoint", "http://127.0.0.1:4318"],
                false => &[],
            };
            assert_eq!(with(elsewhere), with(&[elsewhere, &[&flag, value]].concat()), "{flag} says {reported}");
            compared += 1;
        }
        assert!(compared > 30, "{compared} of them are compared");
    }

    #[test]
    fn file_fills_in_absent_flags() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        fs::write(&file, "drain-ms = 1\nlog-days = 2\nmcp-hosts = [\"a\"]\nfee-bps = 3\n").unwrap();
        let mut given = Flags::default();
        given.money.fee_bps = Some(4);
        let flags = given.over_file(&file).unwrap();
        assert_eq!((flags.host.drain_ms, flags.retention.log_days, flags.money.fee_bps), (Some(1), Some(2), Some(4)));
        assert_eq!(flags.mcp.mcp_hosts, ["a"]);
    }

    #[test]
    fn unknown_key_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        for key in ["drain", "drain_ms", "config"] {
            fs::write(&file, format!("{key} = 1")).unwrap();
            assert!(matches!(Flags::default().over_file(&file), Err(SettingsError::Key { key: reported, .. }) if reported == key));
        }
    }
}
