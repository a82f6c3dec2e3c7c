//! A wait as data: what is waited for, what must come true of it, why, and where to look.
//!
//! The same value becomes the condition's message, the event, the metric's label, the status and what `c5c3 why` prints.

use c5c3_api::blocks::WaitStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::object::Ref;

/// What every object is waited for at first, and how it is until then.
const EXISTS: &str = "exists";
const ABSENT: &str = "does not exist";

/// Something that a reconcile waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The object that is waited for.
    pub object: Ref,
    /// What must come true of it: a condition type, such as `Ready`, or a predicate, such as `is deleted`.
    pub condition: String,
    /// How it is now: the detail behind a condition type that is not true, such as `1 of 3 available`, or else a predicate of
    /// the object, such as `has no key password`.
    pub now: Option<String>,
    /// Why it is needed.
    pub because: Option<String>,
    /// The command that tells more, or what to do.
    pub look_at: Option<String>,
    /// What the other side said, word for word, where [`Wait::now`] says more.
    pub error: Option<String>,
    /// Whether it will not come true by itself.
    pub failed: bool,
    reason: Option<&'static str>,
}

impl Wait {
    /// Waits for an object to be there.
    pub fn on(object: &Ref) -> Self {
        Self {
            object: object.clone(),
            condition: EXISTS.into(),
            now: None,
            because: None,
            look_at: None,
            error: None,
            failed: false,
            reason: None,
        }
    }

    /// Waits for a condition of the object.
    pub fn condition(self, condition: impl Into<String>) -> Self {
        Self { condition: condition.into(), ..self }
    }

    /// Says that the object does not exist.
    pub fn absent(self) -> Self {
        self.now(ABSENT)
    }

    /// Says how the object is now.
    pub fn now(self, now: impl Into<String>) -> Self {
        Self { now: Some(now.into()), ..self }
    }

    /// Says what the other side said, word for word.
    pub fn error(self, error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..self }
    }

    /// Says why the object is needed.
    pub fn because(self, because: impl Into<String>) -> Self {
        Self { because: Some(because.into()), ..self }
    }

    /// Says which command tells more.
    pub fn look_at(self, command: impl Into<String>) -> Self {
        Self { look_at: Some(command.into()), ..self }
    }

    /// Names the wait in one word, in the place of `WaitingFor<Kind>`.
    pub fn with_reason(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Says that the wait will not end by itself, and names that in one word.
    pub fn failed(self, reason: &'static str) -> Self {
        Self { failed: true, reason: Some(reason), ..self }
    }

    /// The wait in one word: the reason of its condition and event, the label of its metric.
    pub fn reason(&self) -> String {
        self.reason.map_or_else(|| format!("WaitingFor{}", self.object.resource.kind), ToOwned::to_owned)
    }

    /// The wait in words, as seen from `namespace`.
    pub fn message(&self, namespace: Option<&str>) -> String {
        // First what is, then why it matters, then what to do.
        let rest = [&self.because, &self.look_at].into_iter().flatten();
        rest.fold(self.state(namespace), |text, part| format!("{text}; {part}"))
    }

    /// How the object is now, as a sentence.
    fn state(&self, namespace: Option<&str>) -> String {
        let object = self.object.relative_to(namespace);
        let is_type = self.condition.starts_with(|first: char| first.is_ascii_uppercase());
        match &self.now {
            Some(now) if is_type && !self.failed && !now.starts_with(ABSENT) => {
                format!("{object} is not {}: {now}", self.condition)
            }
            Some(now) => format!("{object} {now}"),
            None if is_type => format!("{object} is not {}", self.condition),
            None if self.condition == EXISTS => format!("{object} {ABSENT}"),
            None => format!("waiting until {object} {}", self.condition),
        }
    }

    /// The wait as the status keeps it.
    pub fn status(&self, namespace: Option<&str>, since: Time) -> WaitStatus {
        let because = match (&self.because, &self.now) {
            (Some(because), Some(now)) => Some(format!("{because} ({now})")),
            (because, now) => because.clone().or_else(|| now.clone()),
        };
        // The bounds are those of the schema: what another operator says may be longer, and must not keep us from saying it.
        WaitStatus {
            object: shortened(self.object.relative_to(namespace), 600),
            condition: shortened(self.condition.clone(), 316),
            because: because.map(|text| shortened(text, 4096)),
            look_at: self.look_at.clone().map(|text| shortened(text, 1024)),
            since: Some(since),
            reason: Some(self.reason()),
            failed: self.failed,
        }
    }
}

/// The text, cut so that it has at most `longest` bytes.
pub(crate) fn shortened(text: String, longest: usize) -> String {
    const MARK: &str = " …";
    if text.len() <= longest {
        return text;
    }
    let end = (0..=longest - MARK.len()).rev().find(|&index| text.is_char_boundary(index)).unwrap_or_default();
    format!("{}{MARK}", &text[..end])
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    #[test]
    fn a_wait_reads_the_same_everywhere() {
        let wait = Wait::on(&Ref::namespaced::<Secret>("orchard", "apple-key"))
            .absent()
            .because("the press signs in with it")
            .look_at("kubectl describe externalsecret apple-key -n orchard");
        assert_eq!(wait.reason(), "WaitingForSecret");
        assert_eq!(
            wait.message(Some("orchard")),
            "secret/apple-key does not exist; the press signs in with it; \
             kubectl describe externalsecret apple-key -n orchard"
        );
        let stuck = wait.clone().now("has no key").failed("KeyMissing").message(Some("orchard"));
        assert_eq!(
            stuck,
            "secret/apple-key has no key; the press signs in with it; \
             kubectl describe externalsecret apple-key -n orchard"
        );
        assert!(wait.message(Some("elsewhere")).starts_with("secret/orchard/apple-key does not exist;"));
    }

    #[test]
    fn a_condition_type_and_a_predicate_are_both_part_of_a_sentence() {
        let wait = Wait::on(&Ref::namespaced::<Secret>("orchard", "apple-key"));
        let says = |wait: Wait| wait.message(Some("orchard"));
        assert_eq!(
            says(wait.clone().condition("Ready").now("1 of 3 rows")),
            "secret/apple-key is not Ready: 1 of 3 rows"
        );
        assert_eq!(says(wait.clone().condition("Ready")), "secret/apple-key is not Ready");
        assert_eq!(says(wait.clone().condition("Ready").absent()), "secret/apple-key does not exist");
        assert_eq!(
            says(wait.clone().condition("Ready").now("has no row").failed("Empty")),
            "secret/apple-key has no row"
        );
        assert_eq!(says(wait.clone().condition("is deleted")), "waiting until secret/apple-key is deleted");
        assert_eq!(says(wait), "secret/apple-key does not exist");
    }
}
