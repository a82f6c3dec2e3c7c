//! Where the next page of a list is, in the shapes that OpenStack's services use.

use serde_json::Value;

/// The query of the next page. Only the query of a link is used: behind a proxy its host is often wrong, and a token must
/// not be sent to another host.
pub(crate) fn next(page: &Value, key: &str) -> Result<Option<String>, &'static str> {
    let links = page.get(format!("{key}_links")).and_then(Value::as_array);
    let rel_next = links.into_iter().flatten().find(|link| link["rel"] == "next").map(|link| &link["href"]);
    // Keystone's `links.next` is null on the last page; Glance's link is `next` itself.
    let link = rel_next.or_else(|| page.pointer("/links/next")).or_else(|| page.get("next")).and_then(Value::as_str);
    match link {
        Some(link) => match link.split_once('?') {
            Some((_, query)) if !query.is_empty() => Ok(Some(query.into())),
            _ => Err("the link to the next page has no query"),
        },
        None if page.get("truncated") == Some(&Value::Bool(true)) => {
            Err("the list is truncated by the service's list_limit; raise it or use a filter")
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_next_page_is_found_in_every_shape() {
        let link = "http://internal:8774/v2.1/servers?limit=2&marker=b";
        let pages = [
            json!({ "servers": [], "servers_links": [{ "rel": "previous", "href": "x?y" }, { "rel": "next", "href": link }] }),
            json!({ "servers": [], "links": { "next": link, "self": "x", "previous": null } }),
            json!({ "servers": [], "next": "/v2/images?limit=2&marker=b" }),
        ];
        for page in pages {
            assert_eq!(next(&page, "servers"), Ok(Some("limit=2&marker=b".into())), "{page}");
        }
    }

    #[test]
    fn the_last_page_has_no_next() {
        assert_eq!(next(&json!({ "users": [], "links": { "next": null } }), "users"), Ok(None));
        assert_eq!(next(&json!({ "ports": [] }), "ports"), Ok(None));
    }

    #[test]
    fn a_truncated_list_is_an_error() {
        assert!(next(&json!({ "users": [], "links": { "next": null }, "truncated": true }), "users").is_err());
    }
}
