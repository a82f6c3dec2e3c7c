//! The IP families of a Service, on a cluster that has one.

use c5c3_schema::{Problem, ProblemKind, Problems};
use ipnet::IpNet;
use serde_json::{Value, json};

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn of(range: &IpNet) -> Self {
        match range {
            IpNet::V4(_) => Self::V4,
            IpNet::V6(_) => Self::V6,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

/// Fills in the policy and the families of a Service, and refuses what this cluster does not have.
pub(super) fn settle(spec: &mut Value, own: Family) -> Result<(), Problems> {
    if spec["type"] == "ExternalName" {
        return Ok(());
    }
    let headless = spec["clusterIP"] == "None";
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    if spec["clusterIP"].as_str().is_some_and(|address| !address.is_empty()) && spec["clusterIPs"].is_null() {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
    if spec["ipFamilyPolicy"].is_null() {
        // Without a selector it is unknown what addresses a headless Service will have: any.
        spec["ipFamilyPolicy"] = if headless && !selects { "RequireDualStack" } else { "SingleStack" }.into();
    }
    let single = spec["ipFamilyPolicy"] == "SingleStack";
    let mut families = spec["ipFamilies"].as_array().cloned().unwrap_or_default();
    let mut problems = Problems::new();
    let mut invalid = |path: &str, value: &Value, why: &str| {
        problems.push(Problem::new(path, ProblemKind::Invalid, format!("Invalid value: {value}: {why}"), ""));
    };
    if single && families.len() > 1 {
        let why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
        invalid("spec.ipFamilyPolicy", &spec["ipFamilyPolicy"], why);
    } else if headless && !selects {
        if families.is_empty() {
            families.push(own.name().into());
        }
        if !single && families.len() < 2 {
            let other = if families[0] == own.name() { own.other() } else { own };
            families.push(other.name().into());
        }
    } else {
        if spec["ipFamilyPolicy"] == "RequireDualStack" {
            let why = "this cluster is not configured for dual-stack services";
            invalid("spec.ipFamilyPolicy", &spec["ipFamilyPolicy"], why);
        }
        for (index, family) in families.iter().enumerate().filter(|(_, family)| **family != own.name()) {
            invalid(&format!("spec.ipFamilies[{index}]"), family, "not configured on this cluster");
        }
        if families.is_empty() {
            families.push(own.name().into());
        }
    }
    spec["ipFamilies"] = families.into();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(mut spec: Value) -> Result<(Value, Value), String> {
        settle(&mut spec, Family::V4).map_err(|problems| problems.to_string())?;
        Ok((spec["ipFamilyPolicy"].take(), spec["ipFamilies"].take()))
    }

    #[test]
    fn a_service_has_the_family_of_the_cluster() {
        assert_eq!(settled(json!({})), Ok((json!("SingleStack"), json!(["IPv4"]))));
        assert_eq!(
            settled(json!({"ipFamilyPolicy": "PreferDualStack"})),
            Ok((json!("PreferDualStack"), json!(["IPv4"])))
        );
        assert_eq!(
            settled(json!({"clusterIP": "None", "selector": {"a": "b"}})),
            Ok((json!("SingleStack"), json!(["IPv4"])))
        );
        assert_eq!(settled(json!({"type": "ExternalName"})), Ok((Value::Null, Value::Null)));
    }

    #[test]
    fn a_headless_service_without_a_selector_may_have_any() {
        assert_eq!(settled(json!({"clusterIP": "None"})), Ok((json!("RequireDualStack"), json!(["IPv4", "IPv6"]))));
        assert_eq!(
            settled(json!({"clusterIP": "None", "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]})),
            Ok((json!("SingleStack"), json!(["IPv6"])))
        );
    }

    #[test]
    fn what_the_cluster_does_not_have_is_refused() {
        assert_eq!(
            settled(json!({"ipFamilyPolicy": "RequireDualStack"})).unwrap_err(),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
        );
        assert_eq!(
            settled(json!({"ipFamilies": ["IPv6"]})).unwrap_err(),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"
        );
        assert!(settled(json!({"ipFamilies": ["IPv4", "IPv6"]})).is_err());
    }
}
