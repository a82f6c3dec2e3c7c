//! Reading many objects: selectors, pages, and lists as of an older revision.

use axum::body::Body;
use c5c3_kinds::Resource;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::reading::Reading;
use crate::call::Call;
use crate::path::Query;
use crate::reply::{Form, Item, bytes_reply};
use crate::selector::{Fields, Labels};
use crate::status::ApiError;

/// Which objects are meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: Labels,
    fields: Fields,
}

impl Selection {
    /// Reads the selectors of a query.
    pub(crate) fn parse(resource: &Resource, query: &Query, name: Option<&str>) -> Result<Self, ApiError> {
        let labels = Labels::parse(query.raw("labelSelector").unwrap_or_default()).map_err(ApiError::bad_request)?;
        let mut text = query.raw("fieldSelector").unwrap_or_default().to_owned();
        if let Some(name) = name {
            text =
                if text.is_empty() { format!("metadata.name={name}") } else { format!("{text},metadata.name={name}") };
        }
        let fields = Fields::parse(&text).map_err(ApiError::bad_request)?;
        let known = c5c3_kinds::fields(resource, &json!({"metadata": {}}));
        for field in fields.names() {
            if !known.iter().any(|(known, _)| known == field) {
                return Err(ApiError::bad_request(format!("field label not supported: {field}")));
            }
        }
        Ok(Self { labels, fields })
    }

    /// The prefix of the keys of all that can be meant: one object's, if it is named, or those of the namespace.
    pub(crate) fn prefix(&self, call: &Call<'_>) -> String {
        let is_placed = call.namespace().is_some() || !call.served.resource.namespaced;
        match self.fields.required("metadata.name").filter(|name| is_placed && !name.is_empty()) {
            Some(name) => call.key(name),
            None => call.served.prefix(call.namespace()),
        }
    }

    /// Whether all objects are meant.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is meant.
    pub(crate) fn takes(&self, resource: &Resource, object: &Value) -> bool {
        self.labels.matches(&object["metadata"]["labels"])
            && (self.fields.is_empty() || self.fields.matches(&c5c3_kinds::fields(resource, object)))
    }
}

/// How long the pages of a list can be asked for, as with a real server, which forgets older revisions.
const PAGES_LAST: i64 = 5 * 60;

/// Where a list goes on: at a revision, or at whatever is the newest, after a key.
struct Continue {
    revision: Option<u64>,
    since: i64,
    after: String,
}

impl Continue {
    fn parse(token: &str) -> Result<Self, ApiError> {
        let bad = || ApiError::bad_request("continue key is not valid: encoded string has been tampered with");
        let text: String = hex(token).ok_or_else(bad)?;
        let mut parts = text.splitn(3, ' ');
        let mut part = || parts.next().ok_or_else(bad);
        let (revision, since, after) = (part()?, part()?.parse().map_err(|_| bad())?, part()?.to_owned());
        let revision = if revision == "-" { None } else { Some(revision.parse().map_err(|_| bad())?) };
        Ok(Self { revision, since, after })
    }

    fn token(&self) -> String {
        let revision = self.revision.map_or_else(|| "-".into(), |revision| revision.to_string());
        format!("{revision} {} {}", self.since, self.after)
            .bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .concat()
    }
}

fn hex(text: &str) -> Option<String> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| u8::try_from(pair.first()? * 16 + pair.get(1)?).ok()).collect::<Option<_>>()?;
    String::from_utf8(bytes).ok()
}

/// The objects that the request means.
pub(crate) async fn list(call: &Call<'_>, form: Form) -> Result<Response<Body>, ApiError> {
    let resource = &call.served.resource;
    let selection = Selection::parse(resource, &call.query, call.target.name.as_deref())?;
    let limit = call.query.number("limit").map_err(ApiError::bad_request)?.filter(|limit| *limit > 0);
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let go_on = call.query.get("continue").map(Continue::parse).transpose()?;
    let prefix = selection.prefix(call);
    let now = Timestamp::now().as_second();
    let store = call.server.store();
    let snapshot = match (&go_on, exact_revision(call)?) {
        (Some(Continue { revision: Some(revision), since, after }), _) => {
            let kept = store.list_at(&prefix, *revision).ok().filter(|_| now - since < PAGES_LAST);
            kept.ok_or_else(|| pages_expired(after))?
        }
        (None, Some(revision)) => store.list_at(&prefix, revision).map_err(|_| expired(revision))?,
        _ => store.list(&prefix),
    };
    let after = go_on.as_ref().map_or("", |go_on| go_on.after.as_str());
    let mut reading = Reading::new(snapshot, after);
    let as_stored = form == Form::Object && selection.is_everything();
    let mut items = Vec::new();
    while items.len() < limit {
        let Some(entry) = reading.next(call.server, resource, limit - items.len()).await? else { break };
        if as_stored && call.served.is_shown_as_stored(&entry.value) {
            items.push(Item::Stored(entry.value.clone()));
            continue;
        }
        let object = call.served.readable(reading.object(resource, &entry)?);
        if selection.takes(resource, &object) {
            items.push(Item::Object(object));
        }
    }
    let mut metadata = json!({"resourceVersion": reading.revision().to_string()});
    let remaining = reading.left();
    if remaining > 0 {
        let next = Continue { revision: Some(reading.revision()), since: now, after: reading.last().to_owned() };
        metadata["continue"] = next.token().into();
        if selection.is_everything() {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    Ok(bytes_reply(StatusCode::OK, "application/json", form.list(resource, items, metadata)))
}

/// The revision that the list must be of, if it must be of one.
fn exact_revision(call: &Call<'_>) -> Result<Option<u64>, ApiError> {
    let rule = call.query.get("resourceVersionMatch");
    let version = call.query.get("resourceVersion");
    if call.query.get("continue").is_some() && (rule.is_some() || version.is_some_and(|version| version != "0")) {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    let Some(version) = version else {
        return match rule {
            Some(_) => {
                Err(ApiError::bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided"))
            }
            None => Ok(None),
        };
    };
    let revision: u64 =
        version.parse().map_err(|_| ApiError::bad_request(format!("invalid resource version {version:?}")))?;
    call.server.not_in_the_future(revision)?;
    match rule {
        Some("Exact") if revision == 0 => {
            Err(ApiError::bad_request("resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\""))
        }
        Some("Exact") => Ok(Some(revision)),
        // What is newest is not older than any.
        Some("NotOlderThan") | None => Ok(None),
        Some(other) => {
            Err(ApiError::bad_request(format!("resourceVersionMatch is Exact or NotOlderThan, not {other:?}")))
        }
    }
}

fn expired(revision: u64) -> ApiError {
    ApiError::expired(format!("The resourceVersion for the provided list is too old: {revision}"))
}

/// The revision of the first page is no longer known. The rest can be had as it is now.
fn pages_expired(after: &str) -> ApiError {
    let message = "The provided continue parameter is too old to display a consistent list result. Start a new list \
                   without it, or go on with the one in this answer, which shows the rest as it is now.";
    let rest = Continue { revision: None, since: 0, after: after.to_owned() };
    ApiError { go_on: Some(rest.token()), ..ApiError::expired(message) }
}
