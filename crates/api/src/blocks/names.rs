//! Names and addresses: of Kubernetes objects, of hosts, of databases, of regions.

use super::text::text;

fn every(text: &str, allowed: impl Fn(char) -> bool) -> bool {
    text.chars().all(allowed)
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(|label| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && every(label, inner)
    })
}

text! {
    /// The name of a Kubernetes object: lower case letters, digits, `-` and `.`.
    ObjectName, max 253,
    ["self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
     "is not a Kubernetes name; use lower case letters, digits, '-' and '.', starting and ending with a letter or digit"],
    |text| if is_dns_subdomain(text) { Ok(()) } else {
        Err(format!("{text:?} is not a Kubernetes name; use lower case letters, digits, '-' and '.'"))
    }
}

text! {
    /// The name of a key in a Secret or ConfigMap.
    DataKey, max 253,
    ["self.matches('^[-._a-zA-Z0-9]+$')", "is not a key of a Secret; use letters, digits, '-', '_' and '.'"],
    |text| if every(text, |c| c.is_ascii_alphanumeric() || "-._".contains(c)) { Ok(()) } else {
        Err(format!("{text:?} is not a key of a Secret; use letters, digits, '-', '_' and '.'"))
    }
}

text! {
    /// A host name or IP address, without a port.
    Host, max 253,
    ["self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?$') || self.matches('^[0-9a-fA-F:]*:[0-9a-fA-F:.]*$')",
     "is not a host; write a host name or an IP address, without scheme, port or path"],
    |text| {
        let ends = ['-', '.'];
        let name = every(text, |c| c.is_ascii_alphanumeric() || "-.".contains(c));
        let name = name && !text.starts_with(ends) && !text.ends_with(ends);
        let v6 = text.contains(':') && every(text, |c| c.is_ascii_hexdigit() || ":.".contains(c));
        if name || v6 { Ok(()) } else { Err(format!("{text:?} is not a host; write a host name or an IP address")) }
    }
}

text! {
    /// Addresses that begin alike, such as `10.0.0.0/8` or `fd00::/64`.
    Cidr, max 64,
    ["self.matches('^[0-9a-fA-F.:]+/[0-9]{1,3}$')",
     "is not a range of addresses; write an address, a slash and how many bits of it count, such as 10.0.0.0/8"],
    |text| {
        let parsed = text.split_once('/').and_then(|(address, bits)| {
            let most = if address.parse::<std::net::IpAddr>().ok()?.is_ipv4() { 32 } else { 128 };
            bits.parse::<u8>().ok().filter(|count| *count <= most && count.to_string() == bits)
        });
        if parsed.is_some() { Ok(()) } else {
            Err(format!("{text:?} is not a range of addresses; write an address, a slash and how many bits of it count, such as 10.0.0.0/8"))
        }
    }
}

text! {
    /// A host name or IP address with a port, such as `memcached-0.memcached:11211`.
    HostPort, max 260,
    ["self.matches('^[^\\\\s,/@]+:[0-9]{1,5}$')", "is not host:port; write a host and a port, such as rabbitmq-0.rabbitmq:5672"],
    |text| match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty()
            && every(host, |c| !c.is_whitespace() && !",/@".contains(c))
            && port.parse::<u16>().is_ok_and(|p| p > 0) => Ok(()),
        _ => Err(format!("{text:?} is not host:port; write a host and a port, such as rabbitmq-0.rabbitmq:5672")),
    }
}

text! {
    /// An `http` or `https` address.
    HttpUrl, max 1024,
    ["self.matches('^https?://[^\\\\s/?#@]+([/?#][^\\\\s]*)?$')",
     "is not a URL; write http:// or https://, a host and optionally a port and a path, without credentials"],
    |text| {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        match rest {
            Some(rest) if !rest.is_empty() && every(rest, |c| !c.is_whitespace()) => {
                let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
                // The colons of an IPv6 address are in brackets.
                let port = host.rsplit(']').next().and_then(|rest| rest.split_once(':')).map(|(_, port)| port);
                match () {
                    () if host.is_empty() || host.contains('@') => Err(format!("{text:?} has no plain host; remove credentials")),
                    () if port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0)) => Ok(()),
                    () => Err(format!("{text:?} has no valid port; write a number from 1 to 65535 after the host, or no port")),
                }
            }
            _ => Err(format!("{text:?} is not a URL; write http:// or https:// and a host")),
        }
    }
}

text! {
    /// An OVSDB connection: `tcp:HOST:PORT` or `ssl:HOST:PORT`, several separated by commas.
    OvsdbConnection, max 1024,
    ["self.matches('^(tcp|ssl):[^\\\\s,]+:[0-9]{1,5}(,(tcp|ssl):[^\\\\s,]+:[0-9]{1,5})*$')",
     "is not an OVSDB connection; write tcp:HOST:PORT or ssl:HOST:PORT, several separated by commas"],
    |text| {
        let one = |part: &str| part.strip_prefix("tcp:").or_else(|| part.strip_prefix("ssl:"))
            .and_then(|rest| rest.rsplit_once(':'))
            .is_some_and(|(host, port)| !host.is_empty() && !host.contains(char::is_whitespace) && port.parse::<u16>().is_ok_and(|p| p > 0));
        if text.split(',').all(one) { Ok(()) } else {
            Err(format!("{text:?} is not an OVSDB connection; write tcp:HOST:PORT or ssl:HOST:PORT"))
        }
    }
}

text! {
    /// The name of a database schema.
    DatabaseName, max 64,
    ["self.matches('^[A-Za-z0-9_]+$')", "is not a database name; use letters, digits and '_'"],
    |text| if every(text, |c| c.is_ascii_alphanumeric() || c == '_') { Ok(()) } else {
        Err(format!("{text:?} is not a database name; use letters, digits and '_'"))
    }
}

text! {
    /// The name of an OpenStack region.
    Region, max 255,
    ["self.matches('^[A-Za-z0-9][-A-Za-z0-9_.]*$')", "is not a region name; use letters, digits, '-', '_' and '.'"],
    |text| if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && every(text, |c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        Ok(())
    } else {
        Err(format!("{text:?} is not a region name; use letters, digits, '-', '_' and '.'"))
    }
}

impl Default for Region {
    fn default() -> Self {
        Self("RegionOne".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructors_take_what_the_seeds_use_and_refuse_what_breaks_a_config_file() {
        assert!(ObjectName::new("keystone-db-credentials").is_ok());
        assert!(ObjectName::new("Keystone").is_err());
        assert!(ObjectName::new("a..b").is_err());
        assert!(HostPort::new("memcached-0.memcached:11211").is_ok());
        assert!(HostPort::new("memcached-0").is_err());
        assert!(HostPort::new("a:70000").is_err());
        assert!(HostPort::new("a:1\n[database]").is_err());
        assert!(HttpUrl::new("https://keystone.openstack.svc.cluster.local:5000/v3").is_ok());
        assert!(HttpUrl::new("https://admin:secret@keystone/v3").is_err());
        assert!(HttpUrl::new("http://[fd00::1]:5000").is_ok() && HttpUrl::new("http://[fd00::1]").is_ok());
        for port in ["99999", "0", "", "five"] {
            let error = HttpUrl::new(format!("http://keystone:{port}/v3")).unwrap_err();
            assert!(error.contains("a number from 1 to 65535"), "{error}");
        }
        assert!(OvsdbConnection::new("tcp:ovn-nb.ovn-system:6641").is_ok());
        assert!(OvsdbConnection::new("ovn-nb:6641").is_err());
        assert!(Host::new("fe80::1").is_ok());
        assert!(Host::new("db.example.net:3306").is_err());
        for good in ["10.0.0.0/8", "192.0.2.7/32", "0.0.0.0/0", "fd00::/64", "::/0"] {
            assert!(Cidr::new(good).is_ok(), "{good}");
        }
        for bad in ["10.0.0.0", "10.0.0/8", "10.0.0.0/33", "10.0.0.0/08", "fd00::/129", "nodes/8", "/8"] {
            assert!(Cidr::new(bad).is_err(), "{bad}");
        }
        assert!(DatabaseName::new("nova_cell0").is_ok());
        assert!(DatabaseName::new("nova;drop").is_err());
    }
}
