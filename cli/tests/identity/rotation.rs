//! Rotations under load: every credential of Keystone and Placement is replaced while both are asked ten times a second, and the
//! old ones end.

use std::time::{Duration, Instant};

use crate::cloud::accounts::{database_account, database_says};
use crate::cloud::load::Load;
use crate::cloud::rotation::{PLACEMENT, application, requests};
use crate::cloud::{Cloud, Identity};

/// The rotations of the services.
const ROTATIONS: [&str; 3] = ["placement-rotation", "placement-database-rotation", "keystone-database-rotation"];

/// A new token, which Keystone makes for an older one and then judges.
fn keystone(identity: Identity, token: &str) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let token = token.to_owned();
    move || identity.validate(&identity.exchange(&token)?)
}

/// Rotates twice: the second rotation revokes the credentials of before the first.
pub fn loses_no_request_and_ends_the_old_credentials(cloud: &Cloud) {
    let credential = || application(cloud, "placement");
    let old = credential();
    cloud.identity.sign_in_with(&old.0, &old.1).unwrap();
    let old_accounts = ["placement", "keystone"].map(|service| database_account(cloud, service));
    for account in &old_accounts {
        assert_eq!(database_says(cloud, account).trim(), "1");
    }
    let token = cloud.identity.sign_in().unwrap();
    let loads = [
        Load::start("keystone", 10, keystone(cloud.identity.clone(), &token)),
        Load::start("placement", 10, requests(cloud, PLACEMENT, &token)),
    ];
    for rotation in ROTATIONS {
        for _ in 0..2 {
            let said = cloud.machine.ok(&format!("$C5C3 rotate {rotation} -n cloud --wait --data $PWD/data"));
            assert!(said.contains("the new credential is in use"), "{said}");
        }
    }
    for load in loads {
        let failures = load.end();
        assert!(failures.is_empty(), "{failures:#?}");
    }
    let refused = cloud.identity.sign_in_with(&old.0, &old.1).unwrap_err();
    assert!(refused.contains("401") || refused.contains("404"), "{refused}");
    let new = credential();
    cloud.identity.sign_in_with(&new.0, &new.1).unwrap();
    for (service, old) in ["placement", "keystone"].into_iter().zip(&old_accounts) {
        // The account of before the first rotation has its name again, and another password.
        assert!(database_says(cloud, old).contains("Access denied"), "{}", database_says(cloud, old));
        assert_eq!(database_says(cloud, &database_account(cloud, service)).trim(), "1");
    }
    let listed = cloud.machine.ok("$C5C3 credentials -n cloud --data $PWD/data");
    eprintln!("{listed}");
    for line in ["placement-b", "keystone-b", "database account", "application credential"] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
    for secret in [&new.1, &database_account(cloud, "placement").1, &database_account(cloud, "keystone").1] {
        assert!(!listed.contains(secret.as_str()), "a value is printed");
    }
}

/// A password that is changed in its Secret is changed in Keystone, and reaches those who sign in with it.
pub fn the_administrators_password_follows_its_secret(cloud: &Cloud) {
    let new = cloud.identity.with_password("another-sesame-for-the-lab");
    let patch = r#"{"stringData": {"password": "another-sesame-for-the-lab"}}"#;
    let begun = Instant::now();
    cloud.machine.ok(&format!("kubectl -n cloud patch secret keystone-admin-credentials --type=merge -p '{patch}'"));
    while let Err(refused) = new.sign_in() {
        assert!(begun.elapsed() < Duration::from_mins(3), "{refused}");
        std::thread::sleep(Duration::from_millis(200));
    }
    eprintln!("Keystone took the administrator's new password after {:.1?}", begun.elapsed());
    let refused = cloud.identity.sign_in().unwrap_err();
    assert!(refused.contains("401"), "{refused}");
    let clouds = "kubectl -n cloud get secret k-orc-admin-clouds-yaml -o jsonpath='{.data.clouds\\.yaml}' | base64 -d";
    cloud.machine.eventually(&format!("{clouds} | grep -c another-sesame-for-the-lab || true"), "1");
    cloud.openstack("token issue -f value -c user_id");
}
