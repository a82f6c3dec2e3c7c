//! The parameters that requests take.

use serde_json::Value;

use super::Dialect;

type Row = (&'static str, &'static str, &'static str);

const PRETTY: Row =
    ("pretty", "string", "Defaults to false unless the user-agent is a browser or a command line tool.");
const DRY_RUN: Row = ("dryRun", "string", "With All, nothing is persisted, and everything else happens.");
const MANAGER: Row = ("fieldManager", "string", "Who is making the change, for field ownership.");
const VALIDATION: Row =
    ("fieldValidation", "string", "What to do about unknown and duplicate fields: Ignore, Warn or Strict.");

const LIST: &[Row] = &[
    ("allowWatchBookmarks", "boolean", "Asks for events that only tell the resource version."),
    ("continue", "string", "Where an earlier list that was cut by its limit goes on."),
    ("fieldSelector", "string", "Only objects whose fields match."),
    ("labelSelector", "string", "Only objects whose labels match."),
    ("limit", "integer", "How many objects at most."),
    ("resourceVersion", "string", "Which state, or since when."),
    ("resourceVersionMatch", "string", "How the resource version is meant."),
    ("sendInitialEvents", "boolean", "Begins a watch with the objects that there are."),
    ("timeoutSeconds", "integer", "How long a watch or a list may take."),
    ("watch", "boolean", "Follows changes instead of listing."),
];
const DELETE: &[Row] = &[
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "How long the object may take to go."),
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    ("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
];
const WRITE: &[Row] = &[DRY_RUN, MANAGER, VALIDATION];
const PATCH: &[Row] =
    &[DRY_RUN, MANAGER, VALIDATION, ("force", "boolean", "Takes over fields that others own; only for apply.")];

/// The query parameters of an action.
pub(super) fn of_action(dialect: Dialect, action: &str) -> Vec<Value> {
    let rows = match action {
        "list" => vec![LIST],
        "delete" => vec![DELETE],
        "deletecollection" => vec![LIST, DELETE],
        "post" | "put" => vec![WRITE],
        "patch" => vec![PATCH],
        _ => Vec::new(),
    };
    let named = |(name, kind, description): &Row| dialect.parameter("query", name, kind, description);
    rows.into_iter().flatten().chain([&PRETTY]).map(named).collect()
}

/// The parameters within a path.
pub(super) fn of_path(dialect: Dialect, path: &str) -> Vec<Value> {
    let known = [
        ("{name}", "name", "name of the object"),
        ("{namespace}", "namespace", "object name and auth scope, such as for teams and projects"),
        ("{path}", "path", "path to the resource"),
    ];
    known
        .iter()
        .filter(|(placeholder, _, _)| path.contains(placeholder))
        .map(|(_, name, description)| dialect.parameter("path", name, "string", description))
        .collect()
}
