//! SQL for databases, users and grants. Pure; whatever an object says is quoted, or refused.

use c5c3_api::ext::mariadb::{Database, Grant, Require, User};
use kube::ResourceExt;
use secrecy::{ExposeSecret, SecretString};

/// A statement. What it says is never printed: there may be a password in it.
#[derive(Clone)]
pub(crate) struct Statement(SecretString);

impl Statement {
    fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The statement, for the server alone.
    pub(super) fn text(&self) -> &str {
        self.0.expose_secret()
    }
}

impl std::fmt::Debug for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Statement(..)")
    }
}

/// A name of something in the server.
fn name(text: &str) -> String {
    format!("`{}`", text.replace('`', "``"))
}

/// A value. The connection takes a backslash for itself (`NO_BACKSLASH_ESCAPES`).
fn value(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A word that SQL has, such as a character set: nothing else passes.
fn word(text: &str, field: &str) -> Result<String, String> {
    let good = !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if good { Ok(text.to_owned()) } else { Err(format!("{field}: {text:?} is not a word of letters, digits and _")) }
}

fn account(user: &str, host: Option<&str>) -> String {
    format!("{}@{}", value(user), value(host.filter(|host| !host.is_empty()).unwrap_or("%")))
}

/// Makes a database be there, with its character set.
pub(super) fn database(database: &Database) -> Result<Vec<Statement>, String> {
    let spec = &database.spec;
    let set = word(spec.character_set.as_deref().unwrap_or("utf8"), "spec.characterSet")?;
    let collate = word(spec.collate.as_deref().unwrap_or("utf8_general_ci"), "spec.collate")?;
    let name = name(&database_name(database));
    Ok(vec![Statement::new(format!(
        "CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET = '{set}' COLLATE = '{collate}'"
    ))])
}

/// Drops a database.
pub(super) fn drop_database(database: &Database) -> Vec<Statement> {
    vec![Statement::new(format!("DROP DATABASE IF EXISTS {}", name(&database_name(database))))]
}

fn database_name(database: &Database) -> String {
    database.spec.name.clone().unwrap_or_else(|| database.name_any())
}

/// Makes a user be there, with this password; without one, no one can be that user.
pub(super) fn user(user: &User, password: Option<&SecretString>) -> Vec<Statement> {
    let account = user_account(user);
    let identified = password.map(|password| format!(" IDENTIFIED BY {}", value(password.expose_secret())));
    let locked = if password.is_some() { "ACCOUNT UNLOCK" } else { "ACCOUNT LOCK" };
    let rest = format!(
        "{} REQUIRE {} WITH MAX_USER_CONNECTIONS {} {locked}",
        identified.unwrap_or_default(),
        require(user.spec.require.as_ref()),
        user.spec.max_user_connections.max(0),
    );
    vec![
        Statement::new(format!("CREATE USER IF NOT EXISTS {account}{rest}")),
        Statement::new(format!("ALTER USER {account}{rest}")),
    ]
}

/// Gives root another password.
pub(super) fn root(password: &str) -> Vec<Statement> {
    let give =
        |host: &str| format!("ALTER USER IF EXISTS {} IDENTIFIED BY {}", account("root", Some(host)), value(password));
    ["localhost", "%"].map(|host| Statement::new(give(host))).into()
}

/// Drops a user.
pub(super) fn drop_user(user: &User) -> Vec<Statement> {
    vec![Statement::new(format!("DROP USER IF EXISTS {}", user_account(user)))]
}

fn user_account(user: &User) -> String {
    account(&user.spec.name.clone().unwrap_or_else(|| user.name_any()), user.spec.host.as_deref())
}

fn require(require: Option<&Require>) -> &'static str {
    match require {
        Some(Require { x509: Some(true), .. }) => "X509",
        Some(Require { ssl: Some(true), .. }) => "SSL",
        _ => "NONE",
    }
}

/// Grants what is asked for, and takes back what was granted before and is no longer.
pub(super) fn grant(grant: &Grant) -> Result<Vec<Statement>, String> {
    let spec = &grant.spec;
    let privileges = privileges(&spec.privileges)?;
    let before = grant.status.as_ref().map(|status| status.current_privileges.clone()).unwrap_or_default();
    let gone: Vec<String> = before.into_iter().filter(|old| !spec.privileges.contains(old)).collect();
    let mut statements = Vec::new();
    if !gone.is_empty() {
        statements.push(revoke_these(grant, &self::privileges(&gone)?));
    }
    let option = if spec.grant_option == Some(true) { " WITH GRANT OPTION" } else { "" };
    statements.push(Statement::new(format!("GRANT {privileges} ON {} TO {}{option}", target(grant), grantee(grant))));
    Ok(statements)
}

/// Takes back what was granted. There may be nothing any more to take back, or no one to take it from.
pub(super) fn revoke(grant: &Grant) -> Vec<Statement> {
    let all = privileges(&grant.spec.privileges).ok();
    all.into_iter().map(|privileges| revoke_these(grant, &privileges)).collect()
}

fn revoke_these(grant: &Grant, privileges: &str) -> Statement {
    Statement::new(format!("REVOKE {privileges} ON {} FROM {}", target(grant), grantee(grant)))
}

fn grantee(grant: &Grant) -> String {
    account(&grant.spec.username, grant.spec.host.as_deref())
}

/// Words such as `ALL PRIVILEGES` or `SELECT`, and nothing that could be something else.
fn privileges(asked: &[String]) -> Result<String, String> {
    let good = |text: &String| {
        !text.trim().is_empty() && text.chars().all(|letter| letter.is_ascii_alphabetic() || letter == ' ')
    };
    match asked.iter().find(|text| !good(text)) {
        Some(bad) => Err(format!("spec.privileges: {bad:?} is not a privilege; give words such as SELECT")),
        None if asked.is_empty() => Err("spec.privileges: is empty".into()),
        None => Ok(asked.join(", ")),
    }
}

/// What a grant is on. In `db`.* a name is a pattern, in which `_` would match any letter.
fn target(grant: &Grant) -> String {
    let part = |text: Option<&String>| text.map_or("*", String::as_str).to_owned();
    let (database, table) = (part(grant.spec.database.as_ref()), part(grant.spec.table.as_ref()));
    let database = match (database.as_str(), table.as_str()) {
        ("*", _) => "*".into(),
        (database, "*") => name(&database.replace('\\', "\\\\").replace('_', "\\_").replace('%', "\\%")),
        (database, _) => name(database),
    };
    let table = if table == "*" { table } else { name(&table) };
    format!("{database}.{table}")
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn object<K: DeserializeOwned>(kind: &str, spec: Value) -> K {
        let mut object = json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": kind, "metadata": {"name": "clerk"}});
        object["spec"] = spec;
        serde_json::from_value(object).unwrap()
    }

    fn text(statements: &[Statement]) -> Vec<&str> {
        statements.iter().map(Statement::text).collect()
    }

    #[test]
    fn a_database_has_its_own_character_set() {
        let made = database(&object(
            "Database",
            json!({"name": "nova_api", "characterSet": "utf8mb3", "collate": "utf8mb3_general_ci"}),
        ));
        assert_eq!(
            text(&made.unwrap()),
            ["CREATE DATABASE IF NOT EXISTS `nova_api` CHARACTER SET = 'utf8mb3' COLLATE = 'utf8mb3_general_ci'"]
        );
    }

    #[test]
    fn whatever_names_and_passwords_hold_stays_a_name_or_a_password() {
        let evil = "x`; DROP TABLE t; -- '";
        let made = text(&database(&object("Database", json!({"name": evil}))).unwrap()).join("");
        assert!(made.starts_with("CREATE DATABASE IF NOT EXISTS `x``; DROP TABLE t; -- '` CHARACTER"), "{made}");
        let password = SecretString::from(r"a'b\c".to_owned());
        let made = user(&object("User", json!({"name": "o'neil", "maxUserConnections": 7})), Some(&password));
        assert_eq!(
            made[1].text(),
            r"ALTER USER 'o''neil'@'%' IDENTIFIED BY 'a''b\c' REQUIRE NONE WITH MAX_USER_CONNECTIONS 7 ACCOUNT UNLOCK"
        );
        assert!(!format!("{made:?}").contains("a'"));
        let refused = database(&object("Database", json!({"characterSet": "utf8' -- "}))).unwrap_err();
        assert!(refused.starts_with("spec.characterSet:"));
        let grant_refused = grant(&object("Grant", json!({"username": "u", "privileges": ["ALL; DROP USER root"]})));
        assert!(grant_refused.unwrap_err().starts_with("spec.privileges:"));
    }

    #[test]
    fn a_user_without_a_password_is_locked() {
        let made = user(&object("User", json!({"host": "10.0.0.%", "require": {"ssl": true}})), None);
        assert_eq!(
            made[0].text(),
            "CREATE USER IF NOT EXISTS 'clerk'@'10.0.0.%' REQUIRE SSL WITH MAX_USER_CONNECTIONS 10 ACCOUNT LOCK"
        );
    }

    #[test]
    fn a_grant_is_on_one_database_and_no_other_that_looks_like_it() {
        let made = grant(&object(
            "Grant",
            json!({"username": "nova", "database": "nova_api", "table": "*", "privileges": ["ALL PRIVILEGES"]}),
        ));
        assert_eq!(text(&made.unwrap()), [r"GRANT ALL PRIVILEGES ON `nova\_api`.* TO 'nova'@'%'"]);
        let made = grant(&object(
            "Grant",
            json!({"username": "n", "database": "a_b", "table": "t_t", "privileges": ["SELECT"], "grantOption": true}),
        ));
        assert_eq!(text(&made.unwrap()), ["GRANT SELECT ON `a_b`.`t_t` TO 'n'@'%' WITH GRANT OPTION"]);
    }

    #[test]
    fn a_privilege_that_is_no_longer_asked_for_is_taken_back() {
        let mut asked: Grant = object("Grant", json!({"username": "n", "database": "d", "privileges": ["SELECT"]}));
        asked.status = serde_json::from_value(json!({"currentPrivileges": ["SELECT", "INSERT"]})).unwrap();
        assert_eq!(
            text(&grant(&asked).unwrap()),
            ["REVOKE INSERT ON `d`.* FROM 'n'@'%'", "GRANT SELECT ON `d`.* TO 'n'@'%'"]
        );
    }
}
