//! Whether the machine's own packet filter lets pods reach what is outside of the cluster. Many that run Docker drop
//! whatever is forwarded and not Docker's.

use std::process::{Command, Stdio};

/// The links of all clusters of ours.
const LINKS: &str = "c5c3br-";

/// A chain of the machine's that drops what it does not know.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Barrier {
    /// One that `nft` shows, as `ip filter FORWARD`.
    Nftables(String),
    /// The one of the older iptables, which `nft` does not show.
    Legacy,
}

impl Barrier {
    /// What is seen of it.
    pub(super) fn seen(&self) -> String {
        let chain = match self {
            Self::Nftables(chain) => format!("the chain {chain:?}"),
            Self::Legacy => "iptables-legacy's FORWARD chain".to_owned(),
        };
        format!("{chain} drops what is forwarded: pods cannot reach what is outside of the cluster")
    }

    /// How to let a cluster's packets through.
    pub(super) fn fix(&self) -> String {
        match self {
            Self::Nftables(chain) => ["iifname", "oifname"]
                .map(|side| format!("nft insert rule {chain} {side} '\"{LINKS}*\"' accept"))
                .join(" && "),
            Self::Legacy => {
                ["-i", "-o"].map(|side| format!("iptables-legacy -I FORWARD {side} {LINKS}+ -j ACCEPT")).join(" && ")
            }
        }
    }
}

/// Looks for a chain that is in the way.
pub(super) fn look() -> Option<Barrier> {
    let chains = said("nft", &["list", "chains"]);
    let shown = dropping(&chains).find(|chain| {
        let words = ["list", "chain"].into_iter().chain(chain.split(' ')).collect::<Vec<_>>();
        !said("nft", &words).contains(LINKS)
    });
    shown.map(Barrier::Nftables).or_else(|| {
        let legacy = said("iptables-legacy", &["-S", "FORWARD"]);
        (legacy.contains("-P FORWARD DROP") && !legacy.contains(LINKS)).then_some(Barrier::Legacy)
    })
}

/// What a program prints; nothing if it is not there or fails.
fn said(program: &str, arguments: &[&str]) -> String {
    let asked = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    asked.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned()).unwrap_or_default()
}

/// The chains that see forwarded packets of version 4 and drop them by default, in what `nft list chains` prints.
fn dropping(chains: &str) -> impl Iterator<Item = String> {
    let (mut table, mut chain) = (String::new(), String::new());
    chains.lines().map(str::trim).filter_map(move |line| {
        let named =
            |kind: &str| line.strip_prefix(kind).and_then(|rest| rest.strip_suffix(" {")).map(ToOwned::to_owned);
        if let Some(name) = named("table ") {
            table = name;
        } else if let Some(name) = named("chain ") {
            chain = name;
        }
        let drops = line.contains("hook forward") && line.contains("policy drop");
        let sees = table.starts_with("ip ") || table.starts_with("inet ");
        (drops && sees).then(|| format!("{table} {chain}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKER: &str = "table ip nat {
\tchain POSTROUTING {
\t\ttype nat hook postrouting priority srcnat; policy accept;
\t}
}
table ip filter {
\tchain FORWARD {
\t\ttype filter hook forward priority filter; policy drop;
\t}
\tchain DOCKER {
\t}
}
table ip6 filter {
\tchain FORWARD {
\t\ttype filter hook forward priority filter; policy drop;
\t}
}
";

    #[test]
    fn a_chain_that_drops_what_is_forwarded_is_found_with_its_name() {
        assert_eq!(dropping(DOCKER).collect::<Vec<_>>(), ["ip filter FORWARD"]);
        assert_eq!(dropping(&DOCKER.replace("drop", "accept")).count(), 0);
    }

    #[test]
    fn the_fix_names_the_chain_and_the_links() {
        assert_eq!(
            Barrier::Nftables("ip filter FORWARD".to_owned()).fix(),
            "nft insert rule ip filter FORWARD iifname '\"c5c3br-*\"' accept && \
             nft insert rule ip filter FORWARD oifname '\"c5c3br-*\"' accept"
        );
        assert!(Barrier::Legacy.fix().starts_with("iptables-legacy -I FORWARD -i c5c3br-+ -j ACCEPT"));
    }
}
