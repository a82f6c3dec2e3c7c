//! Credentials of services that are replaced twice while the services are asked: the second time those of before end.

use super::accounts::{broker_says, database_account, database_says, value};
use super::http::{Server, ask};
use super::load::Load;
use super::{Cloud, Token};

/// How many requests each service gets in a second.
const RATE: u32 = 5;

/// A service, and a request that it answers with 200.
#[derive(Clone, Copy)]
pub struct Asked {
    pub service: &'static str,
    pub port: u16,
    pub path: &'static str,
    /// Whether it has an account at the message broker.
    pub has_broker: bool,
}

impl Asked {
    /// The rotations of its credentials.
    fn rotations(&self) -> Vec<String> {
        let servers = ["", "-database", "-broker"].into_iter().take(if self.has_broker { 3 } else { 2 });
        servers.map(|server| format!("{}{server}-rotation", self.service)).collect()
    }
}

/// Placement.
pub const PLACEMENT: Asked = Asked { service: "placement", port: 8778, path: "/resource_providers", has_broker: false };

/// A request.
type Request = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Requests with tokens that no cache knows, so that the service asks Keystone about each.
pub fn requests(cloud: &Cloud, asked: Asked, token: &Token) -> Request {
    let Asked { service, port, path, .. } = asked;
    let address =
        cloud.machine.ok(&format!("kubectl -n cloud get service {service} -o jsonpath='{{.spec.clusterIP}}'"));
    let server = Server::plain(format!("{address}:{port}").parse().unwrap());
    let (identity, token) = (cloud.identity.clone(), token.clone());
    Box::new(move || {
        let fresh = identity.exchange(&token)?;
        let answer = ask(&server, "GET", path, &[("X-Auth-Token", &fresh)], "")?;
        if answer.status == 200 { Ok(()) } else { Err(format!("{service}: {}: {}", answer.status, answer.body)) }
    })
}

/// The application credential that a service signs in with: id and secret.
pub fn application(cloud: &Cloud, service: &str) -> (String, String) {
    let of = |key: &str| value(cloud, &format!("{service}-keystone-credentials"), key);
    (of("application_credential_id"), of("application_credential_secret"))
}

fn broker_account(cloud: &Cloud, service: &str) -> (String, String) {
    let of = |key: &str| value(cloud, &format!("{service}-rabbitmq-credentials"), key);
    (of("username"), of("password"))
}

/// What a service signs in with, to everything that it signs in to.
struct Held {
    service: &'static str,
    application: (String, String),
    database: (String, String),
    broker: Option<(String, String)>,
}

impl Held {
    fn by(cloud: &Cloud, asked: &Asked) -> Self {
        let service = asked.service;
        let broker = asked.has_broker.then(|| broker_account(cloud, service));
        Self { service, application: application(cloud, service), database: database_account(cloud, service), broker }
    }

    fn is_good(&self, cloud: &Cloud) {
        let service = self.service;
        cloud.identity.sign_in_with(&self.application.0, &self.application.1).unwrap();
        assert_eq!(database_says(cloud, &self.database).trim(), "1", "{service}");
        if let Some(account) = &self.broker {
            assert_eq!(broker_says(cloud, account), "accepted", "{service}");
        }
    }

    fn has_ended(&self, cloud: &Cloud) {
        let service = self.service;
        let refused = cloud.identity.sign_in_with(&self.application.0, &self.application.1).unwrap_err();
        assert!(refused.contains("401") || refused.contains("404"), "{service}: {refused}");
        // The account of before the first rotation has its name again, and another password.
        assert!(database_says(cloud, &self.database).contains("Access denied"), "{service}");
        if let Some(account) = &self.broker {
            assert_eq!(broker_says(cloud, account), "refused", "{service}");
        }
    }
}

/// Replaces every credential of these services twice, and nothing that they are asked meanwhile fails.
pub fn loses_no_request_and_ends_what_was_held_by(cloud: &Cloud, services: &[Asked]) {
    let held: Vec<Held> = services.iter().map(|asked| Held::by(cloud, asked)).collect();
    for before in &held {
        before.is_good(cloud);
    }
    let token = cloud.identity.sign_in().unwrap();
    let loads: Vec<Load> =
        services.iter().map(|asked| Load::start(asked.service, RATE, requests(cloud, *asked, &token))).collect();
    let names = services.iter().map(|asked| asked.service).collect::<Vec<_>>().join(" ");
    for _ in 0..2 {
        let said = cloud.machine.ok(&format!("$C5C3 rotate {names} -n cloud --wait --data $PWD/data"));
        for rotation in services.iter().flat_map(Asked::rotations) {
            assert!(said.contains(&format!("/{rotation}: the new credential is in use")), "{rotation}: {said}");
        }
    }
    for load in loads {
        let failures = load.end();
        assert!(failures.is_empty(), "{failures:#?}");
    }
    for (asked, before) in services.iter().zip(&held) {
        before.has_ended(cloud);
        Held::by(cloud, asked).is_good(cloud);
    }
}
