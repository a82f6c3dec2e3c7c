//! Configuration that users keep in Secrets: fragments in the format of the service's own file, merged over everything else.

use c5c3_api::blocks::SecretKeyRef;
use c5c3_api::{Problem, problem};
use c5c3_kit::ini::{Ini, IniError, OsloValue};
use c5c3_kit::{Inputs, Ref, Wait};
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use secrecy::{ExposeSecret, SecretString};

use crate::config::{Owned, unwritable};
use crate::release_options::ReleaseOptions;

/// An option of a fragment. Its value may be a secret, and is in no message.
#[derive(Clone, Debug)]
pub struct Setting {
    path: String,
    section: String,
    option: String,
    value: SecretString,
}

/// The Secrets that are named.
pub fn needs(references: &[SecretKeyRef], namespace: &str) -> Vec<Ref> {
    references.iter().map(|one| Ref::namespaced::<Secret>(namespace, one.name.to_string())).collect()
}

/// The settings of all fragments, the waits for Secrets that are missing, and what is wrong with the others.
pub fn read<K: Resource>(
    references: &[SecretKeyRef],
    inputs: &Inputs<K>,
    namespace: &str,
) -> (Vec<Setting>, Vec<Wait>, Vec<Problem>) {
    let (mut settings, mut waits, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for (index, one) in references.iter().enumerate() {
        let secret = Ref::namespaced::<Secret>(namespace, one.name.to_string());
        let path = format!("spec.extraConfigFrom[{index}]({}/{})", one.name, one.key);
        match inputs.secret(&secret, &one.key.to_string()) {
            Ok(text) => match parse(&path, text.expose_secret()) {
                Ok(found) => settings.extend(found),
                Err(found) => problems.push(found),
            },
            Err(wait) => {
                let because = format!("it holds configuration that spec.extraConfigFrom[{index}] names");
                waits.push(wait.because(because).with_reason("WaitingForExtraConfig"));
            }
        }
    }
    (settings, waits, problems)
}

/// Reads a fragment. Lines are not quoted in messages.
fn parse(path: &str, text: &str) -> Result<Vec<Setting>, Problem> {
    let mut section = "DEFAULT".to_owned();
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong =
            |what: &str| problem(path, format!("line {} {what}", number + 1), "write [section] and option = value");
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            return Err(wrong("continues the one before, which is not supported"));
        }
        if let Some(name) = trimmed.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or_else(|| wrong("opens a section and does not close it"))?;
            name.clone_into(&mut section);
            continue;
        }
        let (option, value) = trimmed.split_once('=').ok_or_else(|| wrong("is no option"))?;
        let option = option.trim().to_owned();
        found.push(Setting {
            path: format!("{path}.{section}.{option}"),
            section: section.clone(),
            option,
            value: value.trim().to_owned().into(),
        });
    }
    Ok(found)
}

/// Everything that is wrong with settings: names that the release does not have, options that are the operator's own.
pub fn problems(settings: &[Setting], release_options: Option<&ReleaseOptions>, owned: &[Owned]) -> Vec<Problem> {
    let mut found = Vec::new();
    for Setting { path, section, option, value } in settings {
        if let Some((.., instead)) = owned.iter().find(|(own, name, _)| own == section && name == option) {
            found.push(problem(path, "is set by the operator", *instead));
        } else if let Err(error) = Ini::new().set(section, option, OsloValue::raw_secret(value.clone())) {
            found.push(unwritable(path.clone(), &error));
        } else {
            found.extend(
                release_options
                    .and_then(|release_options| release_options.check(path, section, option, value.expose_secret())),
            );
        }
    }
    found
}

/// Writes settings over what is there. An option that is repeated keeps all of its lines, unless the release is known to take
/// one value only: then the last line counts, as it does for the service.
pub fn apply(settings: &[Setting], release_options: Option<&ReleaseOptions>, conf: &mut Ini) -> Result<(), IniError> {
    for Setting { section, option, .. } in settings {
        let same = settings.iter().filter(|other| other.section == *section && other.option == *option);
        let mut values: Vec<SecretString> = same.map(|one| one.value.clone()).collect();
        if release_options.is_some_and(|options| options.is_single(section, option)) {
            values.drain(..values.len() - 1);
        }
        conf.set(section, option, OsloValue::raw_secrets(values))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_is_read_as_the_service_would_and_what_is_wrong_is_named_by_line() {
        let read = parse("p", "# bind\n[ldap]\nurl = ldaps://d.example.net\npassword=a=b\n\n[DEFAULT]\ndebug = true\n")
            .unwrap();
        let names: Vec<String> = read.iter().map(|one| one.path.clone()).collect();
        assert_eq!(names, ["p.ldap.url", "p.ldap.password", "p.DEFAULT.debug"]);
        assert_eq!(read[1].value.expose_secret(), "a=b");
        for (text, what) in [
            ("[ldap\n", "line 1 opens"),
            ("a = b\nhunter2\n", "line 2 is no option"),
            ("a = b\n  c\n", "line 2 continues"),
        ] {
            let wrong = parse("p", text).unwrap_err();
            assert!(wrong.what.starts_with(what) && !wrong.what.contains("hunter2"), "{}", wrong.what);
        }
    }

    #[test]
    fn a_repeated_option_keeps_all_lines_if_it_takes_several_values_and_the_last_one_otherwise() {
        let text = "[DEFAULT]\nreplication_device = a:$1\nreplication_device = b:2\ndebug = true\ndebug = false\n[mine]\nx = 1\nx = 2\n";
        let settings = parse("p", text).unwrap();
        let mut conf = Ini::new();
        apply(&settings, ReleaseOptions::of("cinder", "2025.2"), &mut conf).unwrap();
        assert_eq!(
            conf.render().expose_secret(),
            "[DEFAULT]\ndebug = false\nreplication_device = a:$1\nreplication_device = b:2\n\n[mine]\nx = 1\nx = 2\n"
        );
    }

    #[test]
    fn options_of_the_operator_and_names_that_the_release_does_not_have_are_refused_without_their_values() {
        let settings =
            parse("p", "[database]\nconnection = hunter2\n[ldap]\nurls = hunter2\n[token]\nexpiration = hunter2\n")
                .unwrap();
        let owned = [("database", "connection", "use spec.database")];
        let found = problems(&settings, ReleaseOptions::of("keystone", "2025.2"), &owned);
        let text: Vec<String> = found.iter().map(|one| format!("{}: {} {}", one.path, one.what, one.fix)).collect();
        assert_eq!(found.len(), 3, "{text:?}");
        assert!(text.iter().all(|text| !text.contains("hunter2")), "{text:?}");
    }
}
