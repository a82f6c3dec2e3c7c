//! The options and policies that a release of a service really has, as its own code lists them (`tools/options.py`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use c5c3_api::{Problem, problem};

use crate::nearest;

/// Service, release, options, policies.
type Entry = (&'static str, &'static str, &'static str, &'static str);

/// Every list there is.
const LISTS: &[Entry] = &[(
    "keystone",
    "2025.2",
    include_str!("../options/2025.2/keystone.options"),
    include_str!("../options/2025.2/keystone.policies"),
)];

/// What a release of a service can be told.
#[derive(Debug)]
pub struct Catalogue {
    service: &'static str,
    release: &'static str,
    sections: BTreeMap<&'static str, BTreeMap<&'static str, Type>>,
    policies: BTreeSet<&'static str>,
}

/// What an option takes.
#[derive(Debug, PartialEq, Eq)]
enum Type {
    Text,
    Multi,
    Bool,
    Float,
    Int {
        least: Option<i64>,
        most: Option<i64>,
    },
    Choice {
        words: Vec<&'static str>,
        any_case: bool,
    },
    /// Nothing: it has another name now.
    Renamed(&'static str),
}

impl Catalogue {
    /// What is known of a release of a service; none if nothing is.
    pub fn of(service: &str, release: &str) -> Option<&'static Self> {
        static ALL: LazyLock<Vec<Catalogue>> = LazyLock::new(|| LISTS.iter().map(Catalogue::read).collect());
        ALL.iter().find(|one| one.service == service && one.release == release)
    }

    fn read((service, release, options, policies): &Entry) -> Self {
        let mut sections: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        let mut section = "DEFAULT";
        for line in options.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name;
            } else if let Some((option, rest)) = line.split_once(' ') {
                sections.entry(section).or_default().insert(option, Type::read(rest));
            }
        }
        Self { service, release, sections, policies: policies.lines().collect() }
    }

    /// What is wrong with an option that somebody sets: its section, its name, its value.
    pub fn check(&self, path: &str, section: &str, option: &str, value: &str) -> Option<Problem> {
        let whose = format!("{} {}", self.service, self.release);
        let Some(options) = self.sections.get(section) else {
            let hint = nearest::hint(section, self.sections.keys().copied());
            return Some(problem(path, format!("{whose} has no section [{section}]"), hint));
        };
        match options.get(option) {
            None => {
                let near = nearest::hint(option, options.keys().copied());
                let elsewhere = self.sections_with(option);
                let hint = if elsewhere.is_empty() { near } else { format!("it is in {elsewhere}") };
                Some(problem(path, format!("{whose} has no option {option} in [{section}]"), hint))
            }
            Some(Type::Renamed(now)) => {
                Some(problem(path, format!("{whose} calls this option {now}"), "write the new name"))
            }
            Some(of) => of.refuse(value).map(|fix| problem(path, format!("is not a value of {section}.{option}"), fix)),
        }
    }

    /// Whether there is a section of that name.
    pub fn has_section(&self, section: &str) -> bool {
        self.sections.contains_key(section)
    }

    /// Whether there is a policy of that name.
    pub fn has_policy(&self, name: &str) -> bool {
        self.policies.contains(name)
    }

    /// What is wrong with the name of a policy.
    pub(crate) fn no_policy(&self, path: &str, name: &str) -> Problem {
        let hint = nearest::hint(name, self.policies.iter().copied());
        problem(path, format!("{} {} has no policy {name}", self.service, self.release), hint)
    }

    fn sections_with(&self, option: &str) -> String {
        let having = self.sections.iter().filter(|(_, options)| options.contains_key(option));
        having.map(|(section, _)| format!("[{section}]")).collect::<Vec<_>>().join(", ")
    }
}

impl Type {
    fn read(text: &'static str) -> Self {
        let mut words = text.split(' ');
        match words.next() {
            Some(">") => Self::Renamed(words.next().unwrap_or_default()),
            Some("multi") => Self::Multi,
            Some("bool") => Self::Bool,
            Some("float") => Self::Float,
            Some("int") => {
                let mut bound = || words.next().and_then(|bound| bound.parse().ok());
                Self::Int { least: bound(), most: bound() }
            }
            Some(choice @ ("choice" | "ichoice")) => {
                Self::Choice { words: words.collect(), any_case: choice == "ichoice" }
            }
            _ => Self::Text,
        }
    }

    /// How to mend a value that the option does not take. One with a `$` is another option's, which is not looked up.
    fn refuse(&self, value: &str) -> Option<String> {
        const WORDS: &[&str] = &["true", "false", "1", "0", "on", "off", "yes", "no"];
        if value.contains('$') {
            return None;
        }
        match self {
            Self::Bool if !WORDS.contains(&value.to_lowercase().as_str()) => Some("write true or false".into()),
            Self::Float if value.parse::<f64>().is_err() => Some("write a number".into()),
            Self::Int { least, most } => match value.parse::<i64>() {
                Err(_) => Some("write a whole number".into()),
                Ok(number) if least.is_some_and(|least| number < least) => {
                    Some(format!("write at least {}", least.unwrap_or_default()))
                }
                Ok(number) if most.is_some_and(|most| number > most) => {
                    Some(format!("write at most {}", most.unwrap_or_default()))
                }
                Ok(_) => None,
            },
            Self::Choice { words, any_case } => {
                let same = |word: &&str| *word == value || *any_case && word.eq_ignore_ascii_case(value);
                (!words.iter().any(same)).then(|| format!("write one of {}", words.join(", ")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(section: &str, option: &str, value: &str) -> Option<String> {
        let catalogue = Catalogue::of("keystone", "2025.2").unwrap();
        catalogue
            .check("spec.extraConfig", section, option, value)
            .map(|problem| format!("{} {}", problem.what, problem.fix))
    }

    #[test]
    fn an_option_of_the_release_is_taken() {
        for (section, option, value) in [
            ("token", "expiration", "3600"),
            ("DEFAULT", "debug", "True"),
            ("ldap", "url", "ldap://directory"),
            ("identity", "password_hash_algorithm", "scrypt"),
            ("federation", "trusted_dashboard", "https://dashboard"),
            ("token", "expiration", "$DEFAULT.max_token_size"),
        ] {
            assert_eq!(said(section, option, value), None);
        }
    }

    #[test]
    fn a_mistyped_name_is_refused_with_what_was_meant() {
        assert!(said("token", "expirations", "1").unwrap().contains("did you mean expiration?"));
        assert!(said("tokens", "expiration", "1").unwrap().contains("did you mean token?"));
        assert!(said("token", "max_active_keys", "4").unwrap().contains("[fernet_tokens]"));
        assert!(said("DEFAULT", "logfile", "x").unwrap().contains("DEFAULT.log_file"));
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        assert!(said("token", "expiration", "an hour").unwrap().contains("whole number"));
        assert!(said("token", "expiration", "-1").unwrap().contains("at least"));
        assert!(said("DEFAULT", "debug", "maybe").unwrap().contains("true or false"));
        assert!(said("identity", "password_hash_algorithm", "md5").unwrap().contains("one of"));
    }

    #[test]
    fn a_release_that_nobody_listed_is_unknown() {
        assert!(Catalogue::of("keystone", "2019.1").is_none());
    }
}
