//! `format`: the names Kubernetes checks in a CRD, and what each accepts. Any other name is ignored, as there.

mod id;
mod net;
mod time;

use serde_json::Value;

use crate::node::Kind;

/// A format that is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    Text(&'static Text),
    Number(&'static Range),
}

/// A format of strings.
#[derive(Debug)]
pub(crate) struct Text {
    /// As Kubernetes compares names, which is without dashes: `date-time` and `datetime` are one.
    key: &'static str,
    name: &'static str,
    example: &'static str,
    admits: fn(&str) -> bool,
}

/// A format of numbers.
#[derive(Debug)]
pub(crate) struct Range {
    key: &'static str,
    kind: Kind,
    name: &'static str,
    low: &'static str,
    high: &'static str,
    admits: fn(&Value) -> bool,
}

const fn text(key: &'static str, name: &'static str, example: &'static str, admits: fn(&str) -> bool) -> Text {
    Text { key, name, example, admits }
}

static TEXTS: [Text; 27] = [
    text("uri", "a URI", "https://host/path", net::is_uri),
    text("email", "an e-mail address", "name@example.org", net::is_email),
    text("hostname", "a host name", "host.example.org", net::is_hostname),
    text("ipv4", "an IPv4 address", "192.0.2.1", net::is_ipv4),
    text("ipv6", "an IPv6 address", "2001:db8::1", net::is_ipv6),
    text("cidr", "a network in CIDR notation", "192.0.2.0/24", net::is_cidr),
    text("mac", "a MAC address", "52:54:00:12:34:56", net::is_mac),
    text("uuid", "a UUID", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6", |s| id::is_uuid(s, None)),
    text("uuid3", "a version 3 UUID", "6fa459ea-ee8a-3ca4-894e-db77e160355e", |s| id::is_uuid(s, Some('3'))),
    text("uuid4", "a version 4 UUID", "16fd2706-8baf-433b-82eb-8c7fada847da", |s| id::is_uuid(s, Some('4'))),
    text("uuid5", "a version 5 UUID", "886313e1-3b8a-5372-9b90-0c9aee199e5d", |s| id::is_uuid(s, Some('5'))),
    text("bsonobjectid", "a BSON object id", "507f1f77bcf86cd799439011", id::is_bson_object_id),
    text("isbn", "an ISBN", "978-0321751041", |s| id::is_isbn10(s) || id::is_isbn13(s)),
    text("isbn10", "an ISBN of 10 digits", "0321751043", id::is_isbn10),
    text("isbn13", "an ISBN of 13 digits", "978-0321751041", id::is_isbn13),
    text("creditcard", "a credit card number", "4111 1111 1111 1111", id::is_credit_card),
    text("ssn", "a U.S. social security number", "111-22-3333", id::is_ssn),
    text("hexcolor", "a colour code", "#ffffff", id::is_hex_color),
    text("rgbcolor", "an RGB colour", "rgb(255,255,255)", id::is_rgb_color),
    text("byte", "base64", "aGVsbG8=", id::is_base64),
    text("password", "a password", "anything", |_| true),
    text("date", "a date", "2026-01-31", time::is_date),
    text("duration", "a duration", "1h30m", time::is_duration),
    text("datetime", "a time", "2026-01-31T13:30:00Z", time::is_date_time),
    text("quantity", "a quantity", "10Gi", id::is_quantity),
    text("k8sshortname", "a short Kubernetes name", "my-name", id::is_short_name),
    text("k8slongname", "a long Kubernetes name", "my.name", id::is_long_name),
];

static RANGES: [Range; 4] = [
    Range {
        key: "int32",
        kind: Kind::Integer,
        name: "32 bits",
        low: "-2147483648",
        high: "2147483647",
        admits: |value| value.as_f64().is_some_and(|n| n >= f64::from(i32::MIN) && n <= f64::from(i32::MAX)),
    },
    Range {
        key: "int64",
        kind: Kind::Integer,
        name: "64 bits",
        low: "-9223372036854775808",
        high: "9223372036854775807",
        // A float here is a whole number written as 1e3; beyond 2^63 serde_json makes a float of any literal.
        admits: |value| value.is_i64() || (value.is_f64() && value.as_f64().is_some_and(|n| n.abs() < 9.2e18)),
    },
    Range {
        key: "float",
        kind: Kind::Number,
        name: "a 32-bit float",
        low: "-3.4028235e38",
        high: "3.4028235e38",
        admits: |value| value.as_f64().is_some_and(|n| n.abs() <= f64::from(f32::MAX)),
    },
    Range {
        key: "double",
        kind: Kind::Number,
        name: "a 64-bit float",
        low: "-1.7976931348623157e308",
        high: "1.7976931348623157e308",
        admits: |value| value.as_f64().is_some_and(f64::is_finite),
    },
];

impl Format {
    /// The format of that name for a schema of that type, if it is one that is checked.
    pub(crate) fn parse(name: &str, kind: Option<Kind>) -> Option<Self> {
        match kind {
            None | Some(Kind::String) => {
                let key = name.replace('-', "");
                TEXTS.iter().find(|format| format.key == key).map(Self::Text)
            }
            Some(kind @ (Kind::Integer | Kind::Number)) => {
                RANGES.iter().find(|format| format.key == name && format.kind == kind).map(Self::Number)
            }
            Some(_) => None,
        }
    }

    /// Whether a string is of this format.
    pub(crate) fn admits(self, value: &str) -> bool {
        match self {
            Self::Text(format) => (format.admits)(value),
            Self::Number(_) => true,
        }
    }

    /// The bounds of this format if a number is beyond them.
    pub(crate) fn out_of_range(self, value: &Value) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Number(format) if !(format.admits)(value) => Some((format.low, format.high)),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text(format) => format.name,
            Self::Number(format) => format.name,
        }
    }

    pub(crate) fn example(self) -> &'static str {
        match self {
            Self::Text(format) => format.example,
            Self::Number(format) => format.high,
        }
    }

    /// Whether strings of this format are something else in CEL: a timestamp, a duration, bytes.
    pub(crate) fn is(self, key: &str) -> bool {
        matches!(self, Self::Text(format) if format.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_example_is_of_its_own_format() {
        for format in &TEXTS {
            assert!((format.admits)(format.example), "{} {}", format.key, format.example);
        }
    }

    #[test]
    fn each_format_accepts_and_rejects_what_kubernetes_does() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            (
                "uri",
                &["https://a.b/c?d=e", "/just/a/path", "urn:isbn:1", "http://[::1]:80/", "*"],
                &["", "no scheme", "example.org", "http://a b/", "http://a:port/", "/%zz", "http://a\u{7}"],
            ),
            (
                "hostname",
                &["localhost", "a.example.org", "host-1.example.org", "xn--bcher-kva.example"],
                &["", "-a.example.org", "a..b", "a_b.example.org", "a.b.c-"],
            ),
            ("ipv4", &["10.0.0.1", "::ffff:10.0.0.1"], &["10.0.0", "10.0.0.256", "::1", "010.0.0.1"]),
            ("ipv6", &["::1", "2001:db8::1"], &["10.0.0.1", ":::1", "fe80::1%eth0"]),
            ("cidr", &["10.0.0.0/8", "fd00::/64", "10.0.0.1/32"], &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/-1", "x/8"]),
            (
                "mac",
                &["52:54:00:12:34:56", "52-54-00-12-34-56", "0000.5e00.5301", "02:00:5e:10:00:00:00:01"],
                &["52:54:00", "52:54-00:12:34:56", "zz:54:00:12:34:56"],
            ),
            (
                "uuid",
                &["F81D4FAE7DEC41D0A76500A0C91E6BF6", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"],
                &["not-a-uuid", "f81d4fae-7dec-41d0-a765-00a0c91e6bf", "f8-1d4fae7dec41d0a76500a0c91e6bf6"],
            ),
            (
                "uuid4",
                &["16fd2706-8baf-433b-82eb-8c7fada847da"],
                &["16fd2706-8baf-133b-82eb-8c7fada847da", "16fd2706-8baf-433b-02eb-8c7fada847da"],
            ),
            ("byte", &["aGVsbG8=", "YQ=="], &["", "aGVsbG8", "****", "YQ===", "Y=Q="]),
            ("date", &["2024-02-29"], &["2023-02-29", "2024-13-01", "24-01-01", "2024-1-1", "2024-04-31"]),
            (
                "date-time",
                &["2024-01-31T10:00:00Z", "2024-01-31t10:00:00.123+02:00"],
                &["2024-01-31", "2024-01-31T25:00:00Z", "2024-01-31T10:00:00", "2024-01-31 10:00:00Z"],
            ),
            ("duration", &["1h30m", "-1.5s", "0", "22 ns", "3 days", "1 week"], &["", "soon", "1", "1.5", "h"]),
            ("email", &["a@b.org", "A Name <a@b.org>"], &["a", "a@", "@b", "a b@c"]),
            ("isbn", &["0321751043", "978-0-321-75104-1"], &["0321751044", "978-0321751042"]),
            ("creditcard", &["4111-1111-1111-1111"], &["4111111111111112", "1234"]),
            ("ssn", &["111-22-3333", "111 22 3333", "111223333"], &["11-22-3333", "1112233334"]),
            ("hexcolor", &["#fff", "FFFFFF"], &["#ff", "#gggggg"]),
            ("rgbcolor", &["rgb(0, 1, 255)"], &["rgb(0,1)", "rgb(0,1,256)", "rgb(00,1,2)"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901"]),
            ("quantity", &["1", "10Gi", "1.5", "100m", "1e3", "-2k", ".5"], &["", "Gi", "1gb", "1.2.3", "1 Gi", "e3"]),
            ("k8s-short-name", &["a", "a-1"], &["A", "-a", "a.b", ""]),
            ("k8s-long-name", &["a.b-c"], &["a..b", "a.-b", ""]),
            ("password", &["", "x"], &[]),
        ];
        for (name, good, bad) in cases {
            let format = Format::parse(name, Some(Kind::String)).expect(name);
            for value in *good {
                assert!(format.admits(value), "{name} should accept {value:?}");
            }
            for value in *bad {
                assert!(!format.admits(value), "{name} should reject {value:?}");
            }
        }
    }

    #[test]
    fn a_number_must_fit_the_bits_it_is_given() {
        let out = |name, kind, value| {
            let format = Format::parse(name, Some(kind)).expect(name);
            format.out_of_range(&value).is_some()
        };
        assert!(!out("int32", Kind::Integer, json!(2_147_483_647_i64)));
        assert!(out("int32", Kind::Integer, json!(2_147_483_648_i64)));
        assert!(!out("int64", Kind::Integer, json!(i64::MAX)));
        assert!(out("int64", Kind::Integer, json!(u64::MAX)));
        assert!(out("float", Kind::Number, json!(1e39)));
        assert!(!out("double", Kind::Number, json!(1e39)));
    }

    #[test]
    fn a_format_nobody_checks_is_ignored() {
        assert!(Format::parse("semver", Some(Kind::String)).is_none());
        assert!(Format::parse("uri", Some(Kind::Object)).is_none());
        assert!(Format::parse("int32", Some(Kind::String)).is_none());
    }
}
