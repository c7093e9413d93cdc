//! Settings of the log, metrics and traces.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::ValueEnum;
use serde::Deserialize;
use tollhouse_account::token::Token;
use tollhouse_telemetry::{Destination, OtlpSettings, TraceSettings, log::LogFormat};
use url::{Host, Url};

use super::{environment::standard_var, error::SettingsError, layered::flags, secret::HiddenValue};

/// Access to `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MetricsReaders {
    /// Requests with the admin token or the metrics token.
    Admin,
    /// Also requests from this machine, unless a header shows that a proxy passed them on.
    Loopback,
}

flags! {
/// Flags for telemetry.
pub struct TelemetryFlags {
    /// Format of the log [default: text]
    pub log_format: Option<LogFormat> = "TOLLHOUSE_LOG_FORMAT",
    /// Who can read `/metrics`: holders of a token, or this machine too [default: loopback if the host listens there and its public URL is there, else admin]
    pub metrics: Option<MetricsReaders> = "TOLLHOUSE_METRICS",
    /// Token for `/metrics` only, sent as `Authorization: Bearer` [default: none but the admin's]
    pub metrics_token: Option<HiddenValue> = "TOLLHOUSE_METRICS_TOKEN" (hide_env_values = true),
    /// File with the metrics token
    pub metrics_token_file: Option<PathBuf> = "TOLLHOUSE_METRICS_TOKEN_FILE",
    /// Collector for traces and metrics, by OTLP over HTTP, for example `http://127.0.0.1:4318` [default: `OTEL_EXPORTER_OTLP_ENDPOINT`, else none]
    pub otlp_endpoint: Option<HiddenValue> = "TOLLHOUSE_OTLP_ENDPOINT" (hide_env_values = true),
    /// Headers of requests to the collector, as `name=value,name=value` [default: `OTEL_EXPORTER_OTLP_HEADERS`, else none]
    pub otlp_headers: Option<HiddenValue> = "TOLLHOUSE_OTLP_HEADERS" (hide_env_values = true),
    /// Service name in traces and metrics [default: `OTEL_SERVICE_NAME`, else tollhouse]
    pub otlp_service: Option<String> = "TOLLHOUSE_OTLP_SERVICE",
    /// Time between metrics sent to the collector, in ms; 0 sends none [default: 60000]
    pub otlp_metrics_ms: Option<u64> = "TOLLHOUSE_OTLP_METRICS_MS",
    /// Calls per second that are traced without a request from the caller [default: 50]
    pub trace_rate: Option<u32> = "TOLLHOUSE_TRACE_RATE",
    /// Calls per second that are traced because the caller requests it [default: 10]
    pub trace_caller_rate: Option<u32> = "TOLLHOUSE_TRACE_CALLER_RATE",
}
}

/// Settings of telemetry.
#[derive(Debug, Clone)]
pub struct TelemetrySettings {
    /// Whether the log is text or JSON.
    pub log_format: LogFormat,
    /// The clients that may read `/metrics`.
    pub metrics: MetricsReaders,
    /// A further token for `/metrics`, if any.
    pub metrics_token: Option<Token>,
    /// The collector, if any.
    pub otlp: Option<OtlpSettings>,
}

impl TelemetryFlags {
    /// Returns the effective settings. If the public URL is not on this machine, there is a proxy in front of the host,
    /// whose requests all appear to be local. Then `/metrics` is not open to local requests by default.
    pub(super) fn resolve(self, listen: IpAddr, base_url: Option<&str>) -> Result<TelemetrySettings, SettingsError> {
        let here = listen.is_loopback() && base_url.is_none_or(is_here);
        let metrics = self.metrics.unwrap_or(if here { MetricsReaders::Loopback } else { MetricsReaders::Admin });
        let otlp = self.otlp()?;
        let token = HiddenValue::given_or_in(self.metrics_token, self.metrics_token_file.as_deref())?;
        let metrics_token = token.map(|token| Token::of(token.expose())).transpose().map_err(SettingsError::MetricsToken)?;
        Ok(TelemetrySettings { log_format: self.log_format.unwrap_or_default(), metrics, metrics_token, otlp })
    }

    fn otlp(&self) -> Result<Option<OtlpSettings>, SettingsError> {
        let own = |own: &Option<HiddenValue>| own.as_ref().map(|own| own.expose().to_owned());
        let (address, headers) = (own(&self.otlp_endpoint), own(&self.otlp_headers));
        let [traces, metrics] = [&TRACES, &METRICS].map(|signal| signal.destination(address.as_deref(), headers.as_deref(), &standard_var));
        let (traces, metrics) = (traces?, metrics?);
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let every = self.otlp_metrics_ms.unwrap_or(60_000);
        let rates = TraceSettings { of_callers: self.trace_caller_rate.unwrap_or(10), of_own: self.trace_rate.unwrap_or(50) };
        Ok(Some(OtlpSettings {
            every: (every > 0 && metrics.is_some()).then(|| Duration::from_millis(every)),
            sampling: if traces.is_some() { rates } else { TraceSettings { of_callers: 0, of_own: 0 } },
            traces,
            metrics,
            service: self.otlp_service.clone().or_else(|| standard_var("OTEL_SERVICE_NAME")).unwrap_or_else(|| "tollhouse".to_owned()),
        }))
    }
}

/// The OpenTelemetry variables that set where one signal is sent, the most specific first.
struct Signal {
    path: &'static str,
    endpoint: &'static str,
    headers: &'static str,
    protocol: &'static str,
}

const TRACES: Signal = Signal {
    path: "/v1/traces",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
};
const METRICS: Signal = Signal {
    path: "/v1/metrics",
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
};

impl Signal {
    /// Returns the destination from this host's settings, or else from OpenTelemetry's variables. The address for one
    /// signal is used as it is; the signal's path is appended to the common address.
    fn destination(
        &self,
        own: Option<&str>,
        own_headers: Option<&str>,
        others: &dyn Fn(&'static str) -> Option<String>,
    ) -> Result<Option<Destination>, SettingsError> {
        let first = |names: [&'static str; 2]| names.into_iter().find_map(|name| Some((name, others(name)?)));
        let (name, address, is_whole) = match own {
            Some(own) => ("TOLLHOUSE_OTLP_ENDPOINT", own.to_owned(), false),
            None => {
                let Some((name, address)) = first([self.endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT"]) else { return Ok(None) };
                // Variables for another protocol are meant for other programs.
                if first([self.protocol, "OTEL_EXPORTER_OTLP_PROTOCOL"]).is_some_and(|(_, protocol)| protocol == "grpc") {
                    return Ok(None);
                }
                (name, address, name == self.endpoint)
            }
        };
        let url = Url::parse(&address).ok().filter(|url| matches!(url.scheme(), "http" | "https") && (is_whole || url.query().is_none()));
        let mut url = url.ok_or(SettingsError::OtlpEndpoint(name))?;
        if !is_whole {
            let path = format!("{}{}", url.path().trim_end_matches('/'), self.path);
            url.set_path(&path);
        }
        let headers = match own_headers {
            Some(own) => Some(("TOLLHOUSE_OTLP_HEADERS", own.to_owned())),
            None => first([self.headers, "OTEL_EXPORTER_OTLP_HEADERS"]),
        };
        let headers = match headers {
            Some((name, text)) => headers_of(&text).ok_or(SettingsError::OtlpHeaders(name))?,
            None => vec![],
        };
        Ok(Some(Destination { url, headers }))
    }
}

fn is_here(url: &str) -> bool {
    match Url::parse(url).ok().as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Parses headers in the format of OpenTelemetry's variables, with percent-encoded values.
fn headers_of(text: &str) -> Option<Vec<(String, String)>> {
    let header = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().to_owned(), value.into_owned()))
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(header).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn metrics_are_for_this_machine_only_where_the_host_is_reached_by_its_name() {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let readers = |listen, url| TelemetryFlags::default().resolve(listen, url).unwrap().metrics;
        for url in [None, Some("http://localhost:4020"), Some("http://127.0.0.1:4020/below"), Some("http://[::1]:4020")] {
            assert_eq!(readers(here, url), MetricsReaders::Loopback, "{url:?}");
        }
        for url in [Some("https://tools.example"), Some("http://localhost.example"), Some("no url")] {
            assert_eq!(readers(here, url), MetricsReaders::Admin, "{url:?}");
        }
        assert_eq!(readers(IpAddr::V4(Ipv4Addr::UNSPECIFIED), None), MetricsReaders::Admin);
    }

    #[test]
    fn headers_for_the_collector_are_read_as_its_own_programs_read_them() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(headers_of("a=1, b = two%20words,"), Some(vec![pair("a", "1"), pair("b", "two words")]));
        assert_eq!((headers_of(""), headers_of("a")), (Some(vec![]), None));
    }

    #[test]
    fn standard_variables_say_where_each_signal_goes() {
        let at = |own: Option<&str>, set: &[(&str, &str)], signal: &Signal| {
            let others = |name: &'static str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            let found = signal.destination(own, None, &others);
            found.map(|found| found.map(|found| (found.url.to_string(), found.headers.len()))).map_err(|error| error.to_string())
        };
        let base = "OTEL_EXPORTER_OTLP_ENDPOINT";
        for (address, traces) in [
            ("http://x:4318", "http://x:4318/v1/traces"),
            ("http://x:4318/", "http://x:4318/v1/traces"),
            ("https://x/api/public/otel", "https://x/api/public/otel/v1/traces"),
            ("https://x/api/public/otel/", "https://x/api/public/otel/v1/traces"),
        ] {
            assert_eq!(at(None, &[(base, address)], &TRACES), Ok(Some((traces.to_owned(), 0))), "{address}");
            assert_eq!(at(Some(address), &[(base, "nonsense")], &TRACES), Ok(Some((traces.to_owned(), 0))), "{address}");
        }
        let whole = [
            (TRACES.endpoint, "https://t/in?key=1"),
            (base, "http://x:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,b=2"),
            (TRACES.headers, "c=3"),
        ];
        assert_eq!(at(None, &whole, &TRACES), Ok(Some(("https://t/in?key=1".to_owned(), 1))), "as it is");
        assert_eq!(at(None, &whole, &METRICS), Ok(Some(("http://x:4318/v1/metrics".to_owned(), 2))));
        assert_eq!(at(None, &whole[..1], &METRICS), Ok(None), "metrics were given no address");
        assert_eq!(at(None, &[(base, "http://x:4317"), (TRACES.protocol, "grpc")], &TRACES), Ok(None));
        for (set, named) in [
            (vec![(base, "127.0.0.1:4191")], base),
            (vec![(base, "http://x?key=1")], base),
            (vec![(TRACES.endpoint, "x"), (base, "http://x")], TRACES.endpoint),
            (vec![(base, "http://x"), (TRACES.headers, "a")], TRACES.headers),
        ] {
            let reason = at(None, &set, &TRACES).unwrap_err();
            assert!(reason.contains(&format!("`{named}`")), "{reason}");
        }
    }
}
