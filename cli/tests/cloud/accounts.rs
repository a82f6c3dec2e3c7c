//! Accounts as services read them, and what the servers say to them.

use super::Cloud;

/// Asks `account.sh NAME POD`, with the password on standard input, whether the database accepts an account.
const DATABASE: &str = r#"
kubectl -n cloud exec -i "$2" -- sh -c '
    MYSQL_PWD=$(cat) exec timeout 20 mariadb --no-defaults --skip-ssl --connect-timeout=5 -u "$0" -h 127.0.0.1 -Nse "SELECT 1"' "$1" 2>&1
"#;

/// The value of a key of a Secret.
pub fn value(cloud: &Cloud, secret: &str, key: &str) -> String {
    cloud.machine.ok(&format!("kubectl -n cloud get secret {secret} -o jsonpath='{{.data.{key}}}' | base64 -d"))
}

/// The database account of a service.
pub fn database_account(cloud: &Cloud, service: &str) -> (String, String) {
    let secret = format!("{service}-db-credentials");
    (value(cloud, &secret, "username"), value(cloud, &secret, "password"))
}

/// What the database says to an account: `1`, or why it refuses.
pub fn database_says(cloud: &Cloud, (username, password): &(String, String)) -> String {
    cloud.machine.write("account.sh", DATABASE);
    cloud.machine.write("password", password);
    let pod = cloud.machine.ok("kubectl -n cloud get mariadb mariadb -o jsonpath='{.status.currentPrimary}'");
    cloud.machine.ok(&format!("sh account.sh {username} {pod} < password || true"))
}

/// Whether the message broker accepts an account: `accepted` or `refused`.
pub fn broker_says(cloud: &Cloud, (username, password): &(String, String)) -> String {
    cloud.machine.write("password", password);
    let ask =
        format!("kubectl -n cloud exec -i rabbitmq-server-0 -c rabbitmq -- rabbitmqctl authenticate_user {username}");
    cloud.machine.ok(&format!("if {ask} < password > asked.txt 2>&1; then echo accepted; else echo refused; fi"))
}
