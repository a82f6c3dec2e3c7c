//! Acting as someone else: the `Impersonate-*` headers, and what one must be allowed for each of them.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::rbac::{Attributes, Policy};
use crate::refusal::Refusal;
use crate::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo, service_account_groups, split_service_account};

const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Whom a request wants to act as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Impersonation {
    /// What the headers ask for; `None` when they ask for nothing. Names are taken in any case.
    ///
    /// Groups, an identifier or extras without a user are refused, as is an extra whose name cannot be decoded.
    pub fn from_headers<'h>(headers: impl IntoIterator<Item = (&'h str, &'h str)>) -> Result<Option<Self>, Refusal> {
        let mut asked = Self::default();
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            match name.as_str() {
                "impersonate-user" => value.clone_into(&mut asked.user),
                "impersonate-uid" => value.clone_into(&mut asked.uid),
                "impersonate-group" => asked.groups.push(value.to_owned()),
                _ => {
                    if let Some(key) = name.strip_prefix(EXTRA_PREFIX) {
                        asked.extra.entry(unescape(key)?).or_default().push(value.to_owned());
                    }
                }
            }
        }
        if asked == Self::default() {
            return Ok(None);
        }
        if asked.user.is_empty() {
            return Err(Refusal::Internal("requested impersonation without impersonating a user".to_owned()));
        }
        Ok(Some(asked))
    }

    /// Everything that the real user must be allowed, all with the verb `impersonate`.
    pub fn checks(&self) -> Vec<Attributes<'_>> {
        let of = |group, resource| Attributes::resource("impersonate", group, resource);
        let mut checks = vec![match split_service_account(&self.user) {
            Some((namespace, name)) => of("", "serviceaccounts").in_namespace(namespace).named(name),
            None => of("", "users").named(&self.user),
        }];
        checks.extend(self.groups.iter().map(|group| of("", "groups").named(group)));
        for (key, values) in &self.extra {
            checks
                .extend(values.iter().map(|value| of(AUTHENTICATION, "userextras").with_subresource(key).named(value)));
        }
        if !self.uid.is_empty() {
            checks.push(of(AUTHENTICATION, "uids").named(&self.uid));
        }
        checks
    }

    /// The user to go on as, if `real` may act as that one.
    pub fn authorize(&self, policy: &Policy, real: &UserInfo) -> Result<UserInfo, Refusal> {
        for check in self.checks() {
            let decision = policy.authorize(real, &check);
            if !decision.allowed {
                return Err(check.forbidden(real, &decision.reason));
            }
        }
        Ok(self.target())
    }

    fn target(&self) -> UserInfo {
        let mut groups = self.groups.clone();
        if let Some((namespace, _)) = split_service_account(&self.user).filter(|_| groups.is_empty()) {
            groups = service_account_groups(namespace);
        }
        let has = |group: &str| groups.iter().any(|own| own == group);
        let implied = match self.user.as_str() {
            ANONYMOUS if !has(UNAUTHENTICATED) => Some(UNAUTHENTICATED),
            ANONYMOUS => None,
            _ if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) => Some(AUTHENTICATED),
            _ => None,
        };
        groups.extend(implied.map(str::to_owned));
        UserInfo { name: self.user.clone(), uid: self.uid.clone(), groups, extra: self.extra.clone() }
    }
}

/// Header names carry what they cannot say as `%2f`.
fn unescape(key: &str) -> Result<String, Refusal> {
    let bad = || Refusal::Internal(format!("invalid impersonation extra key {key:?}"));
    let is_escape =
        |after: &str| after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if !key.split('%').skip(1).all(is_escape) {
        return Err(bad());
    }
    Ok(percent_decode_str(key).decode_utf8().map_err(|_| bad())?.into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(headers: &[(&'static str, &'static str)]) -> Result<Option<Impersonation>, Refusal> {
        Impersonation::from_headers(headers.iter().copied())
    }

    #[test]
    fn ordinary_headers_ask_for_nothing() {
        assert_eq!(parse(&[("accept", "*/*"), ("authorization", "Bearer x")]), Ok(None));
    }

    #[test]
    fn each_part_needs_a_permission_of_its_own() {
        let asked = parse(&[
            ("Impersonate-User", "jane"),
            ("Impersonate-Group", "dev"),
            ("impersonate-group", "ops"),
            ("Impersonate-Uid", "17"),
            ("Impersonate-Extra-acme.com%2Fproject", "red"),
        ]);
        let asked = asked.unwrap().unwrap();
        let shown: Vec<_> = asked.checks().iter().map(|c| (c.group, c.resource, c.subresource, c.name)).collect();
        assert_eq!(
            shown,
            [
                ("", "users", "", "jane"),
                ("", "groups", "", "dev"),
                ("", "groups", "", "ops"),
                (AUTHENTICATION, "userextras", "acme.com/project", "red"),
                (AUTHENTICATION, "uids", "", "17"),
            ]
        );
        let user = asked.target();
        assert_eq!(user.groups, ["dev", "ops", AUTHENTICATED]);
        assert_eq!((user.uid.as_str(), &user.extra["acme.com/project"]), ("17", &vec!["red".to_owned()]));
    }

    #[test]
    fn groups_follow_the_kind_of_user() {
        let groups = |user| parse(&[("Impersonate-User", user)]).unwrap().unwrap().target().groups;
        assert_eq!(groups("jane"), [AUTHENTICATED]);
        assert_eq!(groups(ANONYMOUS), [UNAUTHENTICATED]);
        assert_eq!(
            groups("system:serviceaccount:shop:till"),
            ["system:serviceaccounts", "system:serviceaccounts:shop", AUTHENTICATED]
        );
    }

    #[test]
    fn a_group_without_a_user_or_a_broken_name_is_refused() {
        for headers in [
            [("impersonate-group", "system:masters")],
            [("impersonate-uid", "1")],
            [("impersonate-extra-a%2", "x")],
            [("impersonate-extra-a%zz", "x")],
            [("impersonate-extra-%ff", "x")],
        ] {
            assert!(matches!(parse(&headers), Err(Refusal::Internal(_))), "{headers:?}");
        }
    }

    #[test]
    fn who_may_act_as_a_user_may_not_add_a_group() {
        let policy = Policy::from_objects(&[
            json!({"kind": "ClusterRole", "metadata": {"name": "actor"},
                "rules": [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["jane"]}]}),
            json!({"kind": "ClusterRoleBinding", "metadata": {"name": "actor"}, "subjects": [{"kind": "User", "name": "bob"}],
                "roleRef": {"kind": "ClusterRole", "name": "actor"}}),
        ])
        .unwrap();
        let bob = UserInfo::new("bob", [AUTHENTICATED]);
        let alone = parse(&[("impersonate-user", "jane")]).unwrap().unwrap();
        assert_eq!(alone.authorize(&policy, &bob).unwrap().name, "jane");
        let more = parse(&[("impersonate-user", "jane"), ("impersonate-group", "system:masters")]).unwrap().unwrap();
        assert_eq!(
            more.authorize(&policy, &bob).unwrap_err().to_string(),
            "groups \"system:masters\" is forbidden: User \"bob\" cannot impersonate resource \"groups\" in API group \
             \"\" at the cluster scope"
        );
    }
}
