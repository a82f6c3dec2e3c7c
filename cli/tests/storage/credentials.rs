//! Every credential of the cloud is replaced twice at once while its services authenticate. The second time those of before end.

use crate::ceph::users;
use crate::cloud::accounts::{broker_says, database_account, database_says, value};
use crate::cloud::http::{Server, ask};
use crate::cloud::load::Load;
use crate::cloud::{Cloud, Token};
use crate::images::upload;

/// The services that authenticate to Keystone and to the database.
const SERVICES: [&str; 2] = ["glance", "cinder"];

/// Starts all rotations, waits for each, and says which of them did not end with a credential that is in use.
const ROTATE: &str = r#"
rm -f rotated-*.txt
for rotation in $(kubectl -n cloud get credentialrotations -o name | cut -d/ -f2); do
    $C5C3 rotate "$rotation" -n cloud --wait --data "$PWD/data" > "rotated-$rotation.txt" 2>&1 &
done
wait
grep -L "the new credential is in use" rotated-*.txt || true
"#;

type Request = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

fn server(cloud: &Cloud, service: &str, port: u16) -> Server {
    let address =
        cloud.machine.ok(&format!("kubectl -n cloud get service {service} -o jsonpath='{{.spec.clusterIP}}'"));
    Server::plain(format!("{address}:{port}").parse().unwrap())
}

/// Requests with tokens that no cache knows, or with one token all the time.
fn requests(cloud: &Cloud, (service, port): (&str, u16), path: &str, token: &Token, is_fresh: bool) -> Request {
    let (server, identity, path) = (server(cloud, service, port), cloud.identity.clone(), path.to_owned());
    let (service, token) = (service.to_owned(), token.clone());
    Box::new(move || {
        let token = if is_fresh { identity.exchange(&token)? } else { token.clone() };
        let answer = ask(&server, "GET", &path, &[("X-Auth-Token", &token)], "")?;
        if answer.status == 200 { Ok(()) } else { Err(format!("{service}: {}: {}", answer.status, answer.body)) }
    })
}

/// The key of a Ceph user, if there is one.
fn key(cloud: &Cloud, user: &str) -> Option<String> {
    users(cloud).get(user).map(|found| found["key"].as_str().unwrap().to_owned())
}

/// An application credential as a service reads it.
fn application(cloud: &Cloud, service: &str) -> (String, String) {
    let of = |key: &str| value(cloud, &format!("{service}-keystone-credentials"), key);
    (of("application_credential_id"), of("application_credential_secret"))
}

fn broker_account(cloud: &Cloud) -> (String, String) {
    let of = |key: &str| value(cloud, "cinder-rabbitmq-credentials", key);
    (of("username"), of("password"))
}

pub fn are_all_replaced_while_services_are_asked(cloud: &Cloud) {
    let it = &cloud.machine;
    let (id, _) = upload(cloud, "read 1 0");
    let everyone = ["glance", "cinder", "k-orc"];
    let old_applications = everyone.map(|service| application(cloud, service));
    let old_accounts = SERVICES.map(|service| database_account(cloud, service));
    let (old_key, old_broker) = (key(cloud, "client.glance").unwrap(), broker_account(cloud));
    assert_eq!(broker_says(cloud, &old_broker), "accepted");
    let token = cloud.identity.sign_in().unwrap();
    let read = requests(cloud, ("glance", 9292), &format!("/v2/images/{id}/file"), &token, false);
    let loads = [
        Load::start("images read", 20, read),
        Load::start("glance", 10, requests(cloud, ("glance", 9292), "/v2/images?limit=1", &token, true)),
        Load::start("cinder", 10, requests(cloud, ("cinder", 8776), "/v3/volumes?limit=1", &token, true)),
    ];
    it.write("rotate.sh", ROTATE);
    for _ in 0..2 {
        it.says("sh rotate.sh", "");
    }
    for load in loads {
        let failures = load.end();
        assert!(failures.is_empty(), "{failures:#?}");
    }
    for (service, (id, secret)) in everyone.into_iter().zip(&old_applications) {
        let refused = cloud.identity.sign_in_with(id, secret).unwrap_err();
        assert!(refused.contains("401") || refused.contains("404"), "{service}: {refused}");
        let (id, secret) = application(cloud, service);
        cloud.identity.sign_in_with(&id, &secret).unwrap();
    }
    for (service, old) in SERVICES.into_iter().zip(&old_accounts) {
        // The account of before the first rotation has its name again, and another password.
        assert!(database_says(cloud, old).contains("Access denied"), "{service}");
        assert_eq!(database_says(cloud, &database_account(cloud, service)).trim(), "1");
    }
    assert_eq!(broker_says(cloud, &old_broker), "refused");
    assert_eq!(broker_says(cloud, &broker_account(cloud)), "accepted");
    let new = key(cloud, "client.glance").unwrap();
    assert!(new != old_key && key(cloud, "client.glance-b").is_some(), "the second user has its grace");
    let listed = it.ok("$C5C3 credentials -n cloud --data $PWD/data");
    assert!(listed.contains("Ceph user") && listed.contains("broker account") && !listed.contains(&new), "{listed}");
    cloud.openstack("image delete read");
}
