//! Parses a clouds.yaml into a `Cloud` and a `Credential`. Errors name the field and never quote a value, which may be
//! a secret.

use http::Uri;
use secrecy::SecretString;
use serde_json::Value;

use crate::cloud::{Cloud, Credential, Interface, Named, Scope};

/// Why a clouds.yaml, or the CA bundle beside it, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// The text is not YAML.
    #[error("clouds.yaml is not valid YAML{0}")]
    Syntax(String),
    /// A field is missing or has a value that is not understood.
    #[error("{field} {problem}")]
    Field {
        /// The path of the field, as in `clouds.orchard.auth.auth_url`.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl CloudError {
    pub(crate) fn field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Field { field: field.into(), problem: problem.into() }
    }
}

/// Reads the cloud of this name. A `cacert` in the file is a path, which means nothing here: `ca` is the PEM text itself.
pub fn parse(text: &str, name: &str, ca: Option<&str>) -> Result<(Cloud, Credential), CloudError> {
    let file: Value = serde_saphyr::from_str(text).map_err(|error| {
        // The parser's own message quotes lines of the file.
        let at = |place: serde_saphyr::Location| format!(" at line {} column {}", place.line(), place.column());
        CloudError::Syntax(error.location().map(at).unwrap_or_default())
    })?;
    let root = Table { path: "clouds".into(), value: file.get("clouds").unwrap_or(&Value::Null) };
    if !root.value.is_object() {
        return Err(CloudError::field("clouds", "is missing or is not a mapping"));
    }
    let cloud = root.table(name)?;
    let auth = cloud.table("auth")?;
    if cloud.value.get("verify") == Some(&Value::Bool(false)) {
        return Err(
            cloud.problem("verify", "is false; the certificate is always verified, so provide the CA in cacert")
        );
    }
    let parsed = Cloud {
        auth_url: auth_url(&auth)?,
        region: cloud.text("region_name")?.map(Into::into),
        interface: interface(&cloud)?,
        ca: ca.map(Into::into),
    };
    Ok((parsed, credential(&cloud, &auth)?))
}

/// A mapping of the file with its path.
struct Table<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Table<'a> {
    fn problem(&self, key: &str, problem: &str) -> CloudError {
        CloudError::field(format!("{}.{key}", self.path), problem)
    }

    fn table(&self, key: &str) -> Result<Self, CloudError> {
        match self.value.get(key) {
            Some(value) if value.is_object() => Ok(Self { path: format!("{}.{key}", self.path), value }),
            Some(_) => Err(self.problem(key, "is not a mapping")),
            None => Err(self.problem(key, "is missing")),
        }
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, CloudError> {
        match self.value.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Err(self.problem(key, "is empty")),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.problem(key, "is not a string; put it in quotes")),
        }
    }

    fn required(&self, key: &str) -> Result<&'a str, CloudError> {
        self.text(key)?.ok_or_else(|| self.problem(key, "is missing"))
    }

    /// The first of these keys with a value. Keys that end in `_id` are ids.
    fn named(&self, keys: &[&str]) -> Result<Option<Named>, CloudError> {
        for key in keys {
            if let Some(value) = self.text(key)? {
                let id = key.ends_with("_id") || *key == "default_domain";
                return Ok(Some(if id { Named::Id(value.into()) } else { Named::Name(value.into()) }));
            }
        }
        Ok(None)
    }
}

fn auth_url(auth: &Table<'_>) -> Result<String, CloudError> {
    let url = auth.required("auth_url")?;
    check_url(url).map_err(|problem| auth.problem("auth_url", problem))?;
    Ok(url.into())
}

/// Whether requests can be sent below a URL.
pub(crate) fn check_url(url: &str) -> Result<Uri, &'static str> {
    let uri: Uri = url.parse().map_err(|_| "is not a URL")?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            Err("contains a user name; put it into its own field")
        }
        (Some("http" | "https"), Some(_)) if uri.query().is_some() => Err("contains a query"),
        (Some("http" | "https"), Some(_)) => Ok(uri),
        _ => Err("is not a URL that begins with http:// or https://"),
    }
}

fn interface(cloud: &Table<'_>) -> Result<Interface, CloudError> {
    let key = if cloud.value.get("interface").is_some() { "interface" } else { "endpoint_type" };
    match cloud.text(key)? {
        None => Ok(Interface::default()),
        Some("public" | "publicURL") => Ok(Interface::Public),
        Some("internal" | "internalURL") => Ok(Interface::Internal),
        Some("admin" | "adminURL") => Ok(Interface::Admin),
        Some(_) => Err(cloud.problem(key, "is not public, internal or admin")),
    }
}

fn credential(cloud: &Table<'_>, auth: &Table<'_>) -> Result<Credential, CloudError> {
    let application = match cloud.text("auth_type")? {
        Some("v3applicationcredential") => true,
        Some("password" | "v3password") => false,
        Some(_) => return Err(cloud.problem("auth_type", "is not v3applicationcredential or password")),
        None => auth.value.get("application_credential_id").is_some(),
    };
    if application {
        return Ok(Credential::Application {
            id: auth.required("application_credential_id")?.into(),
            secret: SecretString::from(auth.required("application_credential_secret")?),
        });
    }
    Ok(Credential::Password {
        user: auth.named(&["user_id", "username"])?.ok_or_else(|| auth.problem("username", "is missing"))?,
        user_domain: domain(auth, "user")?,
        password: SecretString::from(auth.required("password")?),
        scope: scope(auth)?,
    })
}

/// The domain of the user's or the project's name: `default` without one, as for the openstack client.
fn domain(auth: &Table<'_>, of: &str) -> Result<Named, CloudError> {
    let (id, name) = (format!("{of}_domain_id"), format!("{of}_domain_name"));
    let found = auth.named(&[&id, &name, "domain_id", "domain_name", "default_domain"])?;
    Ok(found.unwrap_or_else(|| Named::Id("default".into())))
}

fn scope(auth: &Table<'_>) -> Result<Scope, CloudError> {
    if let Some(project) = auth.named(&["project_id", "tenant_id", "project_name", "tenant_name"])? {
        return Ok(Scope::Project { project, domain: domain(auth, "project")? });
    }
    match auth.text("system_scope")? {
        Some("all") => return Ok(Scope::System),
        Some(_) => return Err(auth.problem("system_scope", "is not all")),
        None => {}
    }
    let domain = auth.named(&["domain_id", "domain_name"])?;
    domain
        .map(Scope::Domain)
        .ok_or_else(|| auth.problem("project_name", "is missing, and there is no domain_name or system_scope"))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    const ORCHARD: &str = "
clouds:
  orchard:
    auth_type: v3applicationcredential
    region_name: south
    interface: public
    cacert: /etc/ssl/orchard.pem
    auth:
      auth_url: https://keystone.orchard:5000/v3
      application_credential_id: a1b2
      application_credential_secret: cherry
  garden:
    endpoint_type: adminURL
    auth:
      auth_url: http://keystone.garden:5000
      username: gardener
      password: plum
      project_name: trees
      user_domain_name: Orchard
";

    fn problem(text: &str) -> String {
        parse(text, "orchard", None).unwrap_err().to_string()
    }

    #[test]
    fn an_application_credential_is_read() {
        let (cloud, credential) = parse(ORCHARD, "orchard", Some("PEM")).unwrap();
        let expected = Cloud {
            auth_url: "https://keystone.orchard:5000/v3".into(),
            region: Some("south".into()),
            interface: Interface::Public,
            ca: Some("PEM".into()),
        };
        assert_eq!(cloud, expected);
        let Credential::Application { id, secret } = credential else { panic!("{credential:?}") };
        assert_eq!((id.as_str(), secret.expose_secret()), ("a1b2", "cherry"));
    }

    #[test]
    fn a_password_is_read_with_its_domains() {
        let (cloud, credential) = parse(ORCHARD, "garden", None).unwrap();
        assert_eq!((cloud.interface, cloud.region), (Interface::Admin, None));
        let Credential::Password { user, user_domain, scope, .. } = credential else { panic!("{credential:?}") };
        assert_eq!((user, user_domain), (Named::Name("gardener".into()), Named::Name("Orchard".into())));
        let domain = Named::Id("default".into());
        assert_eq!(scope, Scope::Project { project: Named::Name("trees".into()), domain });
    }

    #[test]
    fn the_interface_is_internal_unless_the_file_says_otherwise() {
        let (cloud, _) = parse(&ORCHARD.replace("    interface: public\n", ""), "orchard", None).unwrap();
        assert_eq!(cloud.interface, Interface::Internal);
    }

    #[test]
    fn a_problem_names_its_field() {
        let without = |line: &str| problem(&ORCHARD.replace(line, ""));
        assert_eq!(problem("{}"), "clouds is missing or is not a mapping");
        assert_eq!(problem("clouds: {}"), "clouds.orchard is missing");
        assert_eq!(
            without("application_credential_secret: cherry"),
            "clouds.orchard.auth.application_credential_secret is missing"
        );
        assert_eq!(without("auth_url: https://keystone.orchard:5000/v3"), "clouds.orchard.auth.auth_url is missing");
        assert_eq!(
            problem(&ORCHARD.replace("v3app", "v2app")),
            "clouds.orchard.auth_type is not v3applicationcredential or password"
        );
        assert_eq!(
            problem(&ORCHARD.replace(": public", ": private")),
            "clouds.orchard.interface is not public, internal or admin"
        );
        assert!(
            problem(&ORCHARD.replace(": public", ": public\n    verify: false"))
                .starts_with("clouds.orchard.verify is false")
        );
    }

    #[test]
    fn no_problem_quotes_a_value() {
        let number = problem(&ORCHARD.replace("cherry", "31415926"));
        assert_eq!(number, "clouds.orchard.auth.application_credential_secret is not a string; put it in quotes");
        let syntax = problem(&ORCHARD.replace("cherry", "'cherry"));
        assert!(syntax.starts_with("clouds.yaml is not valid YAML at line"), "{syntax}");
        assert!(!syntax.contains("cherry"), "{syntax}");
        let url = problem(&ORCHARD.replace("https://keystone", "https://gardener:plum@keystone"));
        assert_eq!(url, "clouds.orchard.auth.auth_url contains a user name; put it into its own field");
    }
}
