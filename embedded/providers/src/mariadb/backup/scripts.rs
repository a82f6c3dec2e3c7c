//! The scripts of the pods, with programs that stand in for those of MariaDB.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Answers questions, and keeps what it is told to load. Whoever calls it has to know the password.
const CLIENT: &str = r#"#!/bin/sh
[ "$MYSQL_PWD" = "it's a \\ secret" ] || { echo "Access denied" >&2; exit 1; }
case "$*" in *"$MYSQL_PWD"*) echo "the password is in the arguments" >&2; exit 1 ;; esac
case "$*" in
  *schema_name*) printf 'keystone\nthe books\n' ;;
  *"is_role = 'Y'"*) echo "'reader'" ;;
  *"is_role = 'N'"*) echo "'clerk'@'%'" ;;
  *'SHOW CREATE USER'*) echo "CREATE USER \`clerk\`@\`%\` IDENTIFIED BY PASSWORD '*00'" ;;
  *"SHOW GRANTS FOR 'clerk'"*) printf 'GRANT USAGE ON *.* TO `clerk`@`%%`\nGRANT `reader` TO `clerk`@`%%`\n' ;;
  *'SHOW GRANTS'*) echo 'GRANT SELECT ON `keystone`.* TO `reader`' ;;
  *'FLUSH PRIVILEGES'*) ;;
  *) echo "$*" > "$FOLDER/../arguments"; cat > "$FOLDER/../loaded" ;;
esac
"#;

/// Writes the names of the databases that it is to write.
const DUMP: &str = r#"#!/bin/sh
case "$*" in *nosuch*) echo "Unknown database 'nosuch'" >&2; exit 2 ;; esac
while [ "$1" != --databases ]; do shift; done
shift
for name; do echo "USE $name;"; done
"#;

struct Pod(tempfile::TempDir);

impl Pod {
    fn new() -> Self {
        let it = Self(tempfile::tempdir().unwrap());
        fs::create_dir(it.folder()).unwrap();
        fs::write(it.path("password"), "it's a \\ secret").unwrap();
        for (name, program) in [("mariadb", CLIENT), ("mariadb-dump", DUMP)] {
            fs::write(it.path(name), program).unwrap();
            fs::set_permissions(it.path(name), Permissions::from_mode(0o755)).unwrap();
        }
        it
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn folder(&self) -> PathBuf {
        self.path("backup")
    }

    fn run(&self, script: &str, variables: &[(&str, &str)]) -> Output {
        let path = format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mariadb/scripts").join(script);
        let mut run = Command::new("sh");
        run.arg(script).env("PATH", path).env("FOLDER", self.folder()).env("PASSWORD", self.path("password"));
        run.env("DONE", self.path("done")).env("HOST", "ledger.vault.svc").env("PORT", "3306").env("TLS", "");
        for name in ["DATABASES", "VERBOSE", "DATABASE", "TARGET"] {
            run.env(name, "");
        }
        run.env("ACCOUNTS", "1").env("COMPRESSION", "none").env("MINUTES", "60");
        run.envs(variables.iter().copied()).output().unwrap()
    }

    fn ok(&self, script: &str, variables: &[(&str, &str)]) {
        let done = self.run(script, variables);
        assert!(done.status.success(), "{done:?}");
    }

    /// What a script says that fails.
    fn fails(&self, script: &str, variables: &[(&str, &str)]) -> String {
        let done = self.run(script, variables);
        assert!(!done.status.success(), "{done:?}");
        String::from_utf8(done.stderr).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder().join(name), text).unwrap();
    }

    fn loaded(&self) -> String {
        fs::read_to_string(self.path("loaded")).unwrap()
    }
}

#[test]
fn a_backup_has_databases_and_accounts_and_comes_back_whole_or_one_database_of_it() {
    for compression in ["none", "gzip"] {
        let pod = Pod::new();
        pod.ok("backup.sh", &[("COMPRESSION", compression)]);
        let [name]: [String; 1] = pod.files().try_into().unwrap();
        let ending = if compression == "gzip" { "Z.gzip.sql" } else { "Z.sql" };
        assert!(name.starts_with("backup.20") && name.ends_with(ending), "{name}");
        pod.ok("restore.sh", &[]);
        let all = "USE keystone;\nUSE the books;\n\n-- c5c3: accounts\nUSE mysql;\nCREATE ROLE IF NOT EXISTS 'reader';\n\
             CREATE OR REPLACE USER `clerk`@`%` IDENTIFIED BY PASSWORD '*00';\nGRANT SELECT ON `keystone`.* TO `reader`;\n\
             GRANT USAGE ON *.* TO `clerk`@`%`;\nGRANT `reader` TO `clerk`@`%`;\n";
        assert_eq!(pod.loaded(), all);
        pod.ok("restore.sh", &[("DATABASE", "the books")]);
        assert_eq!(pod.loaded(), "USE keystone;\nUSE the books;\n\n");
        assert!(fs::read_to_string(pod.path("arguments")).unwrap().ends_with("--one-database the books\n"));
    }
}

#[test]
fn a_backup_of_some_databases_is_of_those_and_one_that_fails_leaves_nothing() {
    let pod = Pod::new();
    pod.ok("backup.sh", &[("DATABASES", "the books"), ("ACCOUNTS", "0")]);
    pod.ok("restore.sh", &[]);
    assert_eq!(pod.loaded(), "USE the books;\n");
    let before = pod.files();
    for compression in ["none", "gzip"] {
        let said = pod.fails("backup.sh", &[("DATABASES", "keystone\nnosuch"), ("COMPRESSION", compression)]);
        assert!(said.contains("Unknown database 'nosuch'") && said.contains("could not be read"), "{said}");
    }
    fs::write(pod.path("password"), "wrong").unwrap();
    assert!(pod.fails("backup.sh", &[]).contains("Access denied"));
    assert_eq!(pod.files(), before);
}

#[test]
fn files_go_when_they_are_too_old_and_no_others_do() {
    let pod = Pod::new();
    for name in ["backup.2020-01-01T00:00:00Z.sql", "notes.txt", "backup.2020-01-02T00:00:00Z.gzip.sql"] {
        pod.write(name, "");
        let touched = Command::new("touch").args(["-d", "2 hours ago"]).arg(pod.folder().join(name)).status();
        assert!(touched.unwrap().success());
    }
    pod.write("backup.2020-01-03T00:00:00Z.sql", "young");
    pod.ok("backup.sh", &[]);
    let mut names = pod.files();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!((names[0].as_str(), names[2].as_str()), ("backup.2020-01-03T00:00:00Z.sql", "notes.txt"));
}

#[test]
fn the_file_that_is_loaded_is_the_latest_or_the_closest_to_a_time() {
    let pod = Pod::new();
    assert!(pod.fails("restore.sh", &[]).contains("there is no file backup.TIME.sql"));
    for day in ["01", "03", "09"] {
        pod.write(&format!("backup.1970-01-{day}T00:00:00Z.sql"), day);
    }
    pod.write("backup.soon.sql", "no time");
    let day = |target: &str| {
        pod.ok("restore.sh", &[("TARGET", target)]);
        pod.loaded()
    };
    assert_eq!((day(""), day("0"), day("172801")), ("09".into(), "01".into(), "03".into()));
    assert_eq!((day("90000"), day("604800")), ("03".into(), "09".into()));
}

#[test]
fn a_damaged_file_is_not_loaded() {
    let pod = Pod::new();
    pod.write("backup.1970-01-01T00:00:00Z.gzip.sql", "no gzip");
    assert!(pod.fails("restore.sh", &[]).contains("is damaged"));
    pod.write("backup.1970-01-02T00:00:00Z.bzip2.sql", "bzip2");
    assert!(pod.fails("restore.sh", &[]).contains("compressed by bzip2"));
    assert!(!pod.path("loaded").exists());
}
