//! Logs: text for people, JSON for machines, on standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One line of text.
    #[default]
    Text,
    /// One JSON object, with the spans' fields: controller, object and reconcile id.
    Json,
}

/// Starts logging. `filter` is a list such as `info,kube=warn`.
pub fn start(format: Format, filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        format!("the log filter {filter:?} is wrong: {error}; write for example info or info,c5c3_kit=debug")
    })?;
    // kube prints the whole body of an answer that it cannot parse, and that may be a Secret.
    let filter = match "kube_client::client=error".parse() {
        Ok(quiet) => filter.add_directive(quiet),
        Err(_) => filter,
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // What cannot be logged would be told on standard error, too, and that ends the thread when it is a file on a full disk.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal() && !refuses_colours())
        .with_target(false)
        .with_span_events(FmtSpan::NONE);
    let started = match format {
        Format::Text => builder.try_init(),
        Format::Json => builder.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init(),
    };
    started.map_err(|error| error.to_string())
}

/// Whether the user wants no colours anywhere: <https://no-color.org>.
fn refuses_colours() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
