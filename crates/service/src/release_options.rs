//! The options and policies that a release of a service really has, as its own code lists them (`tools/options.py`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use c5c3_api::{Problem, problem};

use crate::nearest;

/// The lists of one release of one service. Each is parsed on first use: an operator
/// needs one or two of them.
struct List {
    service: &'static str,
    release: &'static str,
    options: &'static str,
    policies: &'static str,
    parsed: OnceLock<ReleaseOptions>,
}

macro_rules! list {
    ($release:literal, $service:literal) => {
        List {
            service: $service,
            release: $release,
            options: include_str!(concat!("../options/", $release, "/", $service, ".options")),
            policies: include_str!(concat!("../options/", $release, "/", $service, ".policies")),
            parsed: OnceLock::new(),
        }
    };
}

/// Every list there is.
static LISTS: [List; 12] = [
    list!("2025.2", "keystone"),
    list!("2025.2", "glance"),
    list!("2025.2", "placement"),
    list!("2025.2", "nova"),
    list!("2025.2", "neutron"),
    list!("2025.2", "cinder"),
    list!("2026.1", "keystone"),
    list!("2026.1", "glance"),
    list!("2026.1", "placement"),
    list!("2026.1", "nova"),
    list!("2026.1", "neutron"),
    list!("2026.1", "cinder"),
];

/// What a release of a service can be told.
#[derive(Debug)]
pub struct ReleaseOptions {
    service: &'static str,
    release: &'static str,
    sections: BTreeMap<&'static str, Section>,
    /// How the names of sections begin that users choose (all of them: the empty prefix), and whose options they take.
    patterns: Vec<(&'static str, &'static str)>,
    policies: BTreeSet<&'static str>,
}

/// The options of a section.
type Section = BTreeMap<&'static str, Type>;

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

impl ReleaseOptions {
    /// What is known of a release of a service; none if nothing is.
    pub fn of(service: &str, release: &str) -> Option<&'static Self> {
        let list = LISTS.iter().find(|list| list.service == service && list.release == release)?;
        Some(list.parsed.get_or_init(|| Self::parse(list)))
    }

    fn parse(list: &List) -> Self {
        let mut sections: BTreeMap<_, Section> = BTreeMap::new();
        let mut patterns = Vec::new();
        let mut section = "DEFAULT";
        for line in list.options.lines() {
            if let Some(names) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = names.split(' ').next().unwrap_or(names);
                patterns.extend(names.split(' ').filter_map(|name| Some((name.strip_suffix('*')?, section))));
            } else if let Some((option, rest)) = line.split_once(' ') {
                sections.entry(section).or_default().insert(option, Type::read(rest));
            }
        }
        let policies = list.policies.lines().collect();
        Self { service: list.service, release: list.release, sections, patterns, policies }
    }

    /// Whether an option is known, and takes one value only.
    pub fn is_single(&self, section: &str, option: &str) -> bool {
        self.of_section(section).find_map(|options| options.get(option)).is_some_and(|kind| *kind != Type::Multi)
    }

    /// What is wrong with an option that a user sets: its section, its name, its value.
    pub fn check(&self, path: &str, section: &str, option: &str, value: &str) -> Option<Problem> {
        match self.of_section(section).find_map(|options| options.get(option)) {
            None => Some(self.no_option(path, section, option)),
            Some(Type::Renamed(now)) => {
                let now = now.trim_start_matches("*.");
                let what = format!("{} {} calls this option {now}", self.service, self.release);
                Some(problem(path, what, "write the new name"))
            }
            Some(of) => of.refuse(value).map(|fix| problem(path, format!("is not a value of {section}.{option}"), fix)),
        }
    }

    /// The options of a section: its own if the service has it, and otherwise those of the patterns that its name matches.
    fn of_section(&self, section: &str) -> impl Iterator<Item = &Section> {
        let own = self.sections.get(section);
        let matching = self.patterns.iter().filter(move |(prefix, _)| own.is_none() && section.starts_with(prefix));
        own.into_iter().chain(matching.filter_map(|(_, of)| self.sections.get(of)))
    }

    fn no_option(&self, path: &str, section: &str, option: &str) -> Problem {
        let whose = format!("{} {}", self.service, self.release);
        let options: Vec<_> = self.of_section(section).flat_map(Section::keys).copied().collect();
        let near = nearest::hint(option, options.iter().copied());
        if self.has_section(section) {
            let elsewhere = self.sections_with(option);
            let hint = if elsewhere.is_empty() { near } else { format!("it is in {elsewhere}") };
            return problem(path, format!("{whose} has no option {option} in [{section}]"), hint);
        }
        let meant = nearest::hint(section, self.named_sections().map(|(name, _)| name));
        let backends =
            if options.is_empty() { String::new() } else { format!(", and its backends have no option {option}") };
        let what = format!("{whose} has no section [{section}]{backends}");
        problem(path, what, if meant.is_empty() { near } else { meant })
    }

    /// Whether the service itself has a section of that name; a backend, which users name as they like, is none.
    pub fn has_section(&self, section: &str) -> bool {
        let matches = |(prefix, _): &(&str, &str)| !prefix.is_empty() && section.starts_with(prefix);
        self.sections.contains_key(section) || self.patterns.iter().any(matches)
    }

    /// Whether there is a policy of that name, or one for every attribute of what it is about.
    pub fn has_policy(&self, name: &str) -> bool {
        let attributes = name.split_once(':').map(|(about, _)| format!("{about}:*"));
        self.policies.contains(name) || attributes.is_some_and(|all| self.policies.contains(all.as_str()))
    }

    /// What is wrong with the name of a policy.
    pub(crate) fn no_policy(&self, path: &str, name: &str) -> Problem {
        let hint = nearest::hint(name, self.policies.iter().copied().filter(|policy| !policy.ends_with('*')));
        problem(path, format!("{} {} has no policy {name}", self.service, self.release), hint)
    }

    fn sections_with(&self, option: &str) -> String {
        let having = self.named_sections().filter(|(_, options)| options.contains_key(option));
        having.map(|(section, _)| format!("[{section}]")).collect::<Vec<_>>().join(", ")
    }

    /// Sections whose names are fixed.
    fn named_sections(&self) -> impl Iterator<Item = (&'static str, &Section)> {
        self.sections.iter().map(|(name, options)| (*name, options)).filter(|(name, _)| !name.ends_with('*'))
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
    use crate::release::RELEASES;

    fn said(section: &str, option: &str, value: &str) -> Option<String> {
        told("keystone", section, option, value)
    }

    fn told(service: &str, section: &str, option: &str, value: &str) -> Option<String> {
        let release_options = ReleaseOptions::of(service, "2025.2").unwrap();
        release_options
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
    fn a_release_without_lists_is_unknown() {
        assert!(ReleaseOptions::of("keystone", "2019.1").is_none());
    }

    #[test]
    fn every_service_of_every_release_has_a_list() {
        for release in RELEASES {
            for (service, _) in release.versions.iter().filter(|(service, _)| *service != "tempest") {
                let Some(release_options) = ReleaseOptions::of(service, release.name) else {
                    panic!("run tools/options.py {service} {} and add it to LISTS", release.name)
                };
                assert_eq!((release_options.service, release_options.release), (*service, release.name));
                assert!(
                    release_options.has_section("DEFAULT") && !release_options.policies.is_empty(),
                    "{service} {}",
                    release.name
                );
            }
        }
    }

    #[test]
    fn a_deprecated_option_names_one_that_exists() {
        for list in &LISTS {
            let release_options = ReleaseOptions::of(list.service, list.release).unwrap();
            for (name, of) in release_options.sections.values().flatten() {
                let Type::Renamed(now) = of else { continue };
                let (section, option) = now.rsplit_once('.').unwrap();
                let found = release_options.sections[section].get(option);
                let real = !matches!(found, None | Some(Type::Renamed(_)));
                assert!(real, "{} {}: {name} > {now}", list.service, list.release);
            }
        }
    }

    #[test]
    fn options_of_every_service_are_taken() {
        for (service, section, option, value) in [
            ("glance", "image_format", "disk_formats", "raw,qcow2"),
            ("placement", "placement_database", "max_pool_size", "20"),
            ("placement", "keystone_authtoken", "auth_url", "https://keystone"),
            ("nova", "libvirt", "virt_type", "kvm"),
            ("nova", "oslo_limit", "endpoint_id", "0123"),
            ("nova", "vif_plug_ovs_privileged", "helper_command", "sudo privsep-helper"),
            ("neutron", "ml2", "mechanism_drivers", "ovn"),
            ("neutron", "ovn", "enable_distributed_floating_ip", "true"),
            ("neutron", "network_log", "rate_limit", "100"),
            ("cinder", "service_user", "application_credential_id", "0123"),
        ] {
            assert_eq!(told(service, section, option, value), None, "{service} {section}.{option}");
        }
    }

    #[test]
    fn sections_that_users_name_take_the_options_of_backends() {
        assert_eq!(told("cinder", "cheap", "rbd_pool", "volumes"), None);
        assert_eq!(told("cinder", "cheap", "backend_host", "rbd:cheap"), None);
        assert_eq!(told("cinder", "backend_defaults", "rbd_pool", "volumes"), None);
        assert_eq!(told("glance", "cheap", "rbd_store_pool", "images"), None);
        assert_eq!(told("nova", "mdev_nvidia-35", "max_instances", "4"), None);
        assert!(told("cinder", "cheap", "rbd_flatten_volume_from_snapshot", "so").unwrap().contains("true or false"));
        assert!(told("cinder", "cheap", "rbd_pol", "volumes").unwrap().contains("did you mean rbd_pool?"));
        assert!(told("cinder", "databse", "connection", "x").unwrap().contains("did you mean database?"));
        assert!(told("nova", "mdev_nvidia-35", "max_instance", "4").unwrap().contains("did you mean max_instances?"));
        assert!(told("nova", "cheap", "rbd_pool", "vms").unwrap().contains("no section [cheap]"));
    }

    #[test]
    fn neutron_has_a_policy_for_every_attribute_that_it_shows() {
        let neutron = ReleaseOptions::of("neutron", "2025.2").unwrap();
        assert!(neutron.has_policy("create_port:binding:profile") && neutron.has_policy("get_port:dns_name"));
        assert!(!neutron.has_policy("create_port:dns_name") && !neutron.has_policy("get_prot:dns_name"));
    }
}
