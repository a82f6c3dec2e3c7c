//! The flags of upstream's controller for K-ORC's kinds that are called differently here, so that the arguments of upstream's
//! Deployment start ours. They are in no help text: the operator has flags of its own for all that they change.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use clap::Args as ClapArgs;
use clap::builder::BoolishValueParser;

#[derive(Debug, ClapArgs)]
pub(crate) struct UpstreamArgs {
    #[arg(long, hide = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new(), conflicts_with = "no_leader_election")]
    leader_elect: Option<bool>,
    #[arg(long, hide = true, value_name = "ADDR", value_parser = address, conflicts_with = "metrics_address")]
    metrics_bind_address: Option<Place>,
    #[arg(long, hide = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    metrics_secure: Option<bool>,
    #[arg(long, hide = true, value_name = "ADDR", value_parser = address, conflicts_with = "metrics_address")]
    health_probe_bind_address: Option<Place>,
    #[command(flatten)]
    ignored: IgnoredArgs,
}

// The flags without effect. A doc comment here would be taken for one of the command.
#[derive(Debug, ClapArgs)]
struct IgnoredArgs {
    #[arg(long, hide = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    enable_http2: Option<bool>,
    #[arg(long, hide = true, value_name = "COUNT")]
    scope_cache_max_size: Option<u32>,
    #[arg(long, hide = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    zap_devel: Option<bool>,
    #[arg(long, hide = true, value_name = "FORMAT")]
    zap_encoder: Option<String>,
    #[arg(long, hide = true, value_name = "LEVEL")]
    zap_log_level: Option<String>,
    #[arg(long, hide = true, value_name = "LEVEL")]
    zap_stacktrace_level: Option<String>,
    #[arg(long, hide = true, value_name = "FORMAT")]
    zap_time_encoding: Option<String>,
}

/// Where something is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nowhere.
    Off,
    /// At this port of all addresses.
    Port(u16),
    At(SocketAddr),
}

/// An address as Go's programs take it: `:8081` is all addresses, and `0` switches off.
fn address(text: &str) -> Result<Place, String> {
    if text == "0" {
        return Ok(Place::Off);
    }
    let port = text.strip_prefix(':').and_then(|port| port.parse().ok()).map(Place::Port);
    let whole = || text.parse().ok().map(Place::At);
    port.or_else(whole).ok_or_else(|| "is no address; write one such as :8081 or 127.0.0.1:8081, or 0 for none".into())
}

impl Place {
    fn socket(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::Port(port) => Some(everywhere(port)),
            Self::At(address) => Some(address),
        }
    }
}

/// All addresses of both families, or of IPv4 alone where there is no IPv6.
fn everywhere(port: u16) -> SocketAddr {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => (Ipv6Addr::UNSPECIFIED, port).into(),
        Err(_) => (Ipv4Addr::UNSPECIFIED, port).into(),
    }
}

impl UpstreamArgs {
    /// Whether the operator is to work without a lease.
    pub(super) fn goes_without_lease(&self) -> bool {
        self.leader_elect == Some(false)
    }

    /// Where metrics and probes are served, each once; nothing where the operator's own flag says it.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let metrics = self.metrics_bind_address.filter(|_| !self.is_secure());
        let mut addresses: Vec<SocketAddr> =
            [self.health_probe_bind_address, metrics].into_iter().flatten().filter_map(Place::socket).collect();
        addresses.dedup();
        addresses
    }

    /// Upstream serves metrics over TLS, and authorizes clients by the API server, unless `--metrics-secure=false` is set.
    fn is_secure(&self) -> bool {
        self.metrics_secure.unwrap_or(true)
    }

    /// What flags that were given do not do, and what does it.
    pub(super) fn warnings(&self) -> Vec<String> {
        let ignored = &self.ignored;
        let is_served = self.metrics_bind_address.is_some_and(|place| place != Place::Off);
        let log = "use --log and --log-format";
        [
            (
                is_served && self.is_secure(),
                "metrics-bind-address",
                "metrics are served over HTTP only; add --metrics-secure=false, or read /metrics at --health-probe-bind-address",
            ),
            (ignored.enable_http2.is_some(), "enable-http2", "nothing is served over HTTP/2; remove it"),
            (ignored.scope_cache_max_size.is_some(), "scope-cache-max-size", "a token is kept for each credential; remove it"),
            (ignored.zap_devel.is_some(), "zap-devel", log),
            (ignored.zap_encoder.is_some(), "zap-encoder", log),
            (ignored.zap_log_level.is_some(), "zap-log-level", log),
            (ignored.zap_stacktrace_level.is_some(), "zap-stacktrace-level", "no stack traces are logged; remove it"),
            (ignored.zap_time_encoding.is_some(), "zap-time-encoding", log),
        ]
        .into_iter()
        .filter(|(is_given, ..)| *is_given)
        .map(|(_, flag, instead)| format!("--{flag} has no effect: {instead}"))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{Args, Command, OperatorArgs};

    fn parsed(flags: &[&str]) -> Result<OperatorArgs, String> {
        let all = ["c5c3", "operator", "orc"].iter().chain(flags);
        match Args::try_parse_from(all).map_err(|error| error.to_string())?.command {
            Command::Operator(args) => Ok(args),
            other => panic!("{other:?} is another command"),
        }
    }

    fn served(flags: &[&str]) -> Vec<String> {
        let addresses = parsed(flags).unwrap().serving();
        // A machine has IPv6 or not.
        addresses.into_iter().map(|address| address.to_string().replace("[::]", "0.0.0.0")).collect()
    }

    /// Those of `config/manager` and of the patch for metrics, as upstream's manifests have them.
    #[test]
    fn the_arguments_of_upstreams_deployment_start_ours() {
        let flags = ["--leader-elect", "--health-probe-bind-address=:8081", "--metrics-bind-address=:8443"];
        let args = parsed(&[&["--take-over-upstream"][..], &flags[..]].concat()).unwrap();
        assert!(args.orc.settings().unwrap().takes_over && args.is_elected());
        assert_eq!(served(&flags), ["0.0.0.0:8081"]);
        let warnings = args.orc.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("--metrics-bind-address has no effect: "), "{warnings:?}");
        assert!(warnings[0].contains("--metrics-secure=false"), "{warnings:?}");
    }

    #[test]
    fn metrics_and_probes_are_served_where_upstreams_flags_say() {
        assert_eq!(served(&[]), ["127.0.0.1:8080"]);
        assert_eq!(served(&["--metrics-address=127.0.0.1:99"]), ["127.0.0.1:99"]);
        let metrics = |address: &str| format!("--metrics-bind-address={address}");
        let both =
            |address: &str| served(&["--health-probe-bind-address=:8081", "--metrics-secure=false", &metrics(address)]);
        assert_eq!(both(":8080"), ["0.0.0.0:8081", "0.0.0.0:8080"]);
        assert_eq!(both("127.0.0.1:7"), ["0.0.0.0:8081", "127.0.0.1:7"]);
        assert_eq!([both("0"), both(":8081")], [["0.0.0.0:8081"], ["0.0.0.0:8081"]], "off, and the same once");
        assert_eq!(served(&["--health-probe-bind-address=0"]), ["127.0.0.1:8080"], "not outside the pod");
        assert_eq!(parsed(&["--metrics-bind-address=0"]).unwrap().orc.warnings(), Vec::<String>::new());
        for wrong in ["8081", "localhost:8081", ":99999", ""] {
            let error = parsed(&[&format!("--health-probe-bind-address={wrong}")]).unwrap_err();
            assert!(error.contains("is no address; write one such as :8081"), "{wrong}: {error}");
        }
        let error = parsed(&["--metrics-address=127.0.0.1:99", "--health-probe-bind-address=:8081"]).unwrap_err();
        assert!(error.contains("cannot be used with"), "{error}");
    }

    #[test]
    fn leader_election_is_on_unless_one_of_its_flags_says_otherwise() {
        let elected = |flags: &[&str]| parsed(flags).unwrap().is_elected();
        assert!(elected(&[]) && elected(&["--leader-elect"]) && elected(&["--leader-elect=true"]));
        assert!(!elected(&["--leader-elect=false"]) && !elected(&["--no-leader-election"]));
        let error = parsed(&["--leader-elect", "--no-leader-election"]).unwrap_err();
        assert!(error.contains("cannot be used with"), "{error}");
        let error = parsed(&["--leader-elect=false", "--take-over-upstream"]).unwrap().orc.settings().unwrap_err();
        assert!(error.contains("--take-over-upstream") && error.contains("remove --leader-elect=false"), "{error}");
    }

    #[test]
    fn what_has_no_effect_is_accepted_and_said_once_for_each_flag() {
        let flags = [
            "--enable-http2",
            "--scope-cache-max-size=10",
            "--zap-devel=false",
            "--zap-encoder=json",
            "--zap-log-level=5",
            "--zap-stacktrace-level=error",
            "--zap-time-encoding=rfc3339",
        ];
        let warnings = parsed(&flags).unwrap().orc.warnings();
        assert_eq!(warnings.len(), flags.len(), "{warnings:?}");
        for (flag, warning) in flags.iter().zip(&warnings) {
            let name = flag.split('=').next().unwrap();
            assert!(warning.starts_with(&format!("{name} has no effect: ")), "{warning}");
        }
        assert_eq!(parsed(&["--leader-elect", "--metrics-secure"]).unwrap().orc.warnings(), Vec::<String>::new());
    }

    #[test]
    fn several_namespaces_are_refused_with_the_remedy() {
        let only = |flags: &[&str]| parsed(flags).unwrap().only_namespace();
        assert_eq!(only(&[]), Ok(None));
        assert_eq!(only(&["--namespace=east"]), Ok(Some("east".into())));
        let error = only(&["--namespace=east", "--namespace", "west"]).unwrap_err();
        assert!(error.contains("east, west") && error.contains("one operator for each of them"), "{error}");
    }
}
