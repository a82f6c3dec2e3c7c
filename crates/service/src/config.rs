//! A service's configuration from what the operator sets, what plugins add and what users write beside it.

use c5c3_api::blocks::{ExtraConfig, Plugin};
use c5c3_api::{Problem, problem};
use c5c3_kit::ini::{Ini, IniError, OsloValue};

use crate::release_options::ReleaseOptions;

/// An option that is the operator's own, and the field to use in its place.
pub type Owned = (&'static str, &'static str, &'static str);

/// Options that the layer writes for every service.
pub const OWNED: &[Owned] = &[
    ("DEFAULT", "log_file", "logs are written to standard error"),
    ("DEFAULT", "log_dir", "logs are written to standard error"),
    ("DEFAULT", "transport_url", "use spec.messaging"),
    ("oslo_policy", "policy_file", "use spec.policyOverrides"),
    ("keystone_authtoken", "auth_url", "use spec.keystone.authUrl"),
    ("keystone_authtoken", "auth_type", "services authenticate with an application credential"),
    ("keystone_authtoken", "application_credential_id", "use spec.keystone.appCredentialRef"),
    ("keystone_authtoken", "application_credential_secret", "use spec.keystone.appCredentialRef"),
    ("keystone_authtoken", "memcached_servers", "use spec.cache"),
];

/// What users add to a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Additions<'a> {
    /// Sections of plugins.
    pub plugins: &'a [Plugin],
    /// Raw options.
    pub extra: &'a ExtraConfig,
}

impl Additions<'_> {
    /// Everything that is wrong with them. A plugin's own section is not among the options of the release; one that is, is checked.
    pub fn problems(&self, release_options: Option<&ReleaseOptions>, owned: &[Owned]) -> Vec<Problem> {
        let mut found = Vec::new();
        for (path, section, option, value, of_plugin) in self.options() {
            let known = release_options.filter(|release_options| !of_plugin || release_options.has_section(section));
            if let Some((.., instead)) = owned.iter().find(|(own, name, _)| *own == section && *name == option) {
                found.push(problem(path, "is set by the operator", *instead));
            } else if let Err(error) = Ini::new().set(section, option, OsloValue::interpolated(value)) {
                found.push(unwritable(path, &error));
            } else {
                found.extend(known.and_then(|release_options| release_options.check(&path, section, option, value)));
            }
        }
        found
    }

    /// Writes them over what the operator set; what users write themselves wins over plugins.
    pub fn apply(&self, ini: &mut Ini) -> Result<(), IniError> {
        for (_, section, option, value, _) in self.options() {
            ini.set(section, option, OsloValue::interpolated(value))?;
        }
        Ok(())
    }

    /// The value of an option that users set.
    pub fn get(&self, section: &str, option: &str) -> Option<&str> {
        let set = self.options().filter(|(_, of, name, ..)| *of == section && *name == option);
        set.map(|(.., value, _)| value).last()
    }

    fn options(&self) -> impl Iterator<Item = (String, &str, &str, &str, bool)> {
        let plugins = self.plugins.iter().enumerate().flat_map(|(index, plugin)| {
            plugin.config.iter().map(move |(option, value)| {
                let path = format!("spec.plugins[{index}].config.{option}");
                (path, plugin.config_section.as_str(), option.as_str(), value.as_str(), true)
            })
        });
        let extra = self.extra.iter().flat_map(|(section, options)| {
            options.iter().map(move |(option, value)| {
                let path = format!("spec.extraConfig.{section}.{option}");
                (path, section.as_str(), option.as_str(), value.as_str(), false)
            })
        });
        plugins.chain(extra)
    }
}

pub(crate) fn unwritable(path: String, error: &IniError) -> Problem {
    let said = error.to_string();
    let (what, fix) = said.split_once("; ").unwrap_or((&said, ""));
    problem(path, what, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(section: &str, option: &str, value: &str) -> ExtraConfig {
        [(section.to_owned(), [(option.to_owned(), value.to_owned())].into())].into()
    }

    fn refused(extra: &ExtraConfig, plugins: &[Plugin]) -> Vec<String> {
        let additions = Additions { plugins, extra };
        let owned = [("database", "connection", "use spec.database")];
        let problems = additions.problems(ReleaseOptions::of("keystone", "2025.2"), &owned);
        problems.into_iter().map(|problem| format!("{}: {} ({})", problem.path, problem.what, problem.fix)).collect()
    }

    #[test]
    fn what_the_operator_sets_itself_is_refused_with_the_field_to_use() {
        let found = refused(&extra("database", "connection", "mysql://elsewhere"), &[]);
        assert_eq!(found, ["spec.extraConfig.database.connection: is set by the operator (use spec.database)"]);
    }

    #[test]
    fn a_plugin_has_a_section_of_its_own_and_no_freedom_in_those_of_the_service() {
        let plugin = |section: &str| Plugin {
            name: "directory".into(),
            config_section: section.into(),
            config: [("server_url".to_owned(), "https://directory".to_owned())].into(),
        };
        assert!(refused(&ExtraConfig::new(), &[plugin("keycloak")]).is_empty());
        assert!(refused(&ExtraConfig::new(), &[plugin("ldap")])[0].contains("no option server_url"));
    }

    #[test]
    fn nothing_opens_a_section_of_its_own() {
        assert!(refused(&extra("token", "provider", "fernet\n[database]"), &[])[0].contains("cannot be written"));
    }
}
