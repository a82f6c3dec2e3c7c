//! A client with a few rights, which remembers what it was refused: to see that someone needs no more than they say.

use std::sync::{Arc, Mutex, PoisonError};

use c5c3_auth::UserInfo;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::cluster::TestCluster;
use crate::error::Error;

/// A client with a few rights.
#[derive(Clone)]
pub struct Limited {
    /// The client.
    pub client: Client,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Limited {
    /// What was asked for without the right to, as method and path.
    pub fn refused(&self) -> Vec<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl TestCluster {
    /// A client of a user who may do `inside` in the namespace, and `outside` with what is in no namespace. `name` is the
    /// test's own name for it.
    pub async fn limited(
        &self,
        name: &str,
        namespace: &str,
        inside: Vec<PolicyRule>,
        outside: Vec<PolicyRule>,
    ) -> Result<Limited, Error> {
        let name = self.name(name);
        let meta = || ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let role = |kind: &str| RoleRef {
            api_group: "rbac.authorization.k8s.io".into(),
            kind: kind.into(),
            name: name.clone(),
        };
        let user = Subject {
            api_group: Some("rbac.authorization.k8s.io".into()),
            kind: "User".into(),
            name: name.clone(),
            namespace: None,
        };
        let (client, params) = (self.client(), PostParams::default());
        let own = Role { metadata: meta(), rules: Some(inside) };
        Api::namespaced(client.clone(), namespace).create(&params, &own).await?;
        let bound = RoleBinding { metadata: meta(), role_ref: role("Role"), subjects: Some(vec![user.clone()]) };
        Api::namespaced(client.clone(), namespace).create(&params, &bound).await?;
        let all = ClusterRole { metadata: meta(), rules: Some(outside), aggregation_rule: None };
        Api::all(client.clone()).create(&params, &all).await?;
        let bound = ClusterRoleBinding { metadata: meta(), role_ref: role("ClusterRole"), subjects: Some(vec![user]) };
        Api::all(client).create(&params, &bound).await?;
        Ok(self.remembering(self.client_as(UserInfo::new(name, ["system:authenticated"]))))
    }

    fn remembering(&self, client: Client) -> Limited {
        let refused = Arc::<Mutex<Vec<String>>>::default();
        let seen = refused.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (client, seen) = (client.clone(), seen.clone());
            let asked = format!("{} {}", request.method(), request.uri());
            async move {
                let answer = client.send(request).await?;
                if answer.status() == http::StatusCode::FORBIDDEN {
                    seen.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
                }
                Ok::<_, kube::Error>(answer)
            }
        });
        Limited { client: Client::new(service, self.namespace()), refused }
    }
}
