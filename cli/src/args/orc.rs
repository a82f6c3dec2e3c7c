//! Flags of the operator of K-ORC's kinds: two that upstream's controller has by the same names, the takeover from upstream, and
//! those of upstream that are called differently here.

use std::path::{Path, PathBuf};
use std::time::Duration;

use c5c3_kit::leader::Election;
use c5c3_operator_orc::{Settings, UPSTREAM, UPSTREAM_LEASE};
use clap::Args as ClapArgs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::upstream::UpstreamArgs;

/// Upstream warns below this as well: each object asks Keystone as often.
const SHORT: Duration = Duration::from_mins(2);

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Of the operator orc")]
pub(crate) struct OrcOperatorArgs {
    /// How often objects without resyncPeriod are compared with Keystone, such as 10m or 1h30m; 0 for never. Ten minutes when absent
    #[arg(long, value_name = "DURATION", value_parser = period)]
    default_resync_period: Option<Duration>,
    /// The certificates (PEM) that are trusted where the Secret of a credential has no cacert; the system's when absent
    #[arg(long, value_name = "FILE")]
    default_ca_certs: Option<PathBuf>,
    /// Run in upstream's Deployment orc-system/orc-controller-manager, with its Lease: for one whose image was replaced by ours
    // Nothing but the Lease keeps a pod of upstream's from working at the same time.
    #[arg(long, conflicts_with = "no_leader_election")]
    take_over_upstream: bool,
    #[command(flatten)]
    pub(crate) upstream: UpstreamArgs,
}

/// A duration as Go writes it.
fn period(text: &str) -> Result<Duration, String> {
    let parsed: Result<kube::core::Duration, _> = text.parse();
    match parsed {
        Ok(period) if !text.is_empty() && !period.is_negative() => Ok(period.into()),
        _ => Err("is no duration; write one such as 10m or 1h30m, or 0 for never".into()),
    }
}

/// The certificates of a file. Without any, every Keystone would be refused, and a missing file would be noticed only there.
fn certificates(file: &Path) -> Result<String, String> {
    let wrong = |problem: &str| format!("--default-ca-certs {}: {problem}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    let found: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(text),
        _ => Err(wrong("has no certificate; it must be PEM")),
    }
}

impl OrcOperatorArgs {
    pub(crate) fn settings(&self) -> Result<Settings, String> {
        if self.take_over_upstream && self.upstream.goes_without_lease() {
            return Err("--take-over-upstream works with upstream's Lease; remove --leader-elect=false".into());
        }
        Ok(Settings {
            resync: self.default_resync_period,
            authority: self.default_ca_certs.as_deref().map(certificates).transpose()?,
            takes_over: self.take_over_upstream,
            ..Settings::default()
        })
    }

    /// What is allowed and unwise, and what has no effect.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let short = self.default_resync_period.filter(|period| !period.is_zero() && *period < SHORT);
        let short = short.map(|period| {
            format!("--default-resync-period is {period:?}: below two minutes, many objects keep Keystone busy; use 2m or more")
        });
        short.into_iter().chain(self.upstream.warnings()).collect()
    }

    /// The election for upstream's Lease, if the operator takes over: a pod of upstream's and one of ours never work at the same time.
    pub(crate) fn election(&self, identity: &str) -> Option<Election> {
        self.take_over_upstream.then(|| Election::new(UPSTREAM.0, UPSTREAM_LEASE, identity))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{Args, Command};

    use super::*;

    fn parsed(flags: &[&str]) -> Result<OrcOperatorArgs, String> {
        let all = ["c5c3", "operator", "orc"].iter().chain(flags);
        match Args::try_parse_from(all).map_err(|error| error.to_string())?.command {
            Command::Operator(args) => Ok(args.orc),
            other => panic!("{other:?} is another command"),
        }
    }

    #[test]
    fn a_period_is_a_duration_of_go_and_zero_is_never() {
        let period = |text: &str| parsed(&[&format!("--default-resync-period={text}")]);
        let resync = |text: &str| period(text).unwrap().settings().unwrap().resync;
        assert_eq!(parsed(&[]).unwrap().settings().unwrap().resync, None);
        assert_eq!([resync("1h30m"), resync("0")], [Some(Duration::from_mins(90)), Some(Duration::ZERO)]);
        for wrong in ["", "often", "10", "-1m"] {
            let error = period(wrong).unwrap_err();
            assert!(error.contains("is no duration"), "{wrong}: {error}");
        }
        let warns = |text: &str| !period(text).unwrap().warnings().is_empty();
        assert_eq!([warns("119s"), warns("2m"), warns("0s")], [true, false, false]);
    }

    #[test]
    fn certificates_are_read_at_the_start_and_a_file_without_any_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        let read = || parsed(&["--default-ca-certs", file.to_str().unwrap()]).unwrap().settings();
        assert!(read().unwrap_err().contains("cannot be read"));
        for (text, problem) in
            [("nothing", "has no certificate"), ("-----BEGIN CERTIFICATE-----\n?", "has no certificate")]
        {
            std::fs::write(&file, text).unwrap();
            assert!(read().unwrap_err().contains(problem), "{text}");
        }
        let pki = c5c3_auth::Pki::in_memory(&[], jiff::Timestamp::now()).unwrap();
        std::fs::write(&file, pki.ca_pem()).unwrap();
        assert_eq!(read().unwrap().authority.as_deref(), Some(pki.ca_pem()));
    }

    #[test]
    fn one_that_takes_over_holds_upstreams_lease() {
        let lease = |flags: &[&str]| {
            let election = parsed(flags).unwrap().election("pod-1");
            election.map(|election| format!("{}/{}", election.namespace, election.lease))
        };
        assert_eq!(lease(&[]), None);
        assert_eq!(lease(&["--take-over-upstream"]).as_deref(), Some("orc-system/f35396c5.k-orc.cloud"));
        assert!(parsed(&["--take-over-upstream"]).unwrap().settings().unwrap().takes_over);
        let error = parsed(&["--take-over-upstream", "--no-leader-election"]).unwrap_err();
        assert!(error.contains("cannot be used with"), "{error}");
    }
}
