//! Which headers are passed on: all but those that are about one connection, or about who the client is.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// They are about one connection; on the next one they would be wrong.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Whether a client asks for another protocol on its connection.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let asked = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    asked.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
        && headers.contains_key(header::UPGRADE)
}

/// Whether a client asks for that protocol.
pub fn upgrades_to(headers: &HeaderMap, protocol: &str) -> bool {
    let asked = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok());
    is_upgrade(headers) && asked.is_some_and(|asked| asked.eq_ignore_ascii_case(protocol))
}

/// The headers of a request as the next server gets them. The client's credentials were for the server before.
pub fn forwarded(headers: &HeaderMap, host: &HeaderValue) -> HeaderMap {
    let mut passed = headers.clone();
    let protocol = headers.get(header::UPGRADE).filter(|_| is_upgrade(headers)).cloned();
    strip(&mut passed);
    for name in [header::AUTHORIZATION, header::CONTENT_LENGTH] {
        passed.remove(name);
    }
    let impersonated: Vec<HeaderName> =
        passed.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
    for name in impersonated {
        passed.remove(name);
    }
    passed.insert(header::HOST, host.clone());
    if let Some(protocol) = protocol {
        passed.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        passed.insert(header::UPGRADE, protocol);
    }
    passed
}

/// Removes what is about one connection.
pub(crate) fn strip(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    fn passed(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        forwarded(&headers(pairs), &HeaderValue::from_static("next:1"))
    }

    #[test]
    fn credentials_stay_and_the_rest_goes_on() {
        let given =
            [("host", "first:1"), ("authorization", "Bearer x"), ("impersonate-user", "eve"), ("accept", "a/b")];
        assert_eq!(passed(&given), headers(&[("host", "next:1"), ("accept", "a/b")]));
    }

    #[test]
    fn an_upgrade_is_passed_on_and_other_words_about_the_connection_are_not() {
        let given = [("connection", "keep-alive, Upgrade"), ("upgrade", "SPDY/3.1"), ("te", "trailers")];
        let wanted = [("host", "next:1"), ("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
        assert_eq!(passed(&given), headers(&wanted));
        assert_eq!(passed(&[("connection", "close"), ("upgrade", "h2c")]), headers(&[("host", "next:1")]));
        assert!(upgrades_to(&headers(&given), "spdy/3.1") && !upgrades_to(&headers(&given), "websocket"));
    }
}
