//! Validation of the addresses of Services: ranges, and single addresses.

use std::net::IpAddr;

use serde_json::Value;

use super::report::Report;
use crate::read::{is_empty_at, list_at};

pub(super) fn ip_address(object: &Value, old: Option<&Value>, report: &mut Report) {
    let parent = &object["spec"]["parentRef"];
    if parent.is_object() {
        for field in ["resource", "name"].into_iter().filter(|field| is_empty_at(parent, field)) {
            report.required(format!("spec.parentRef.{field}"), "");
        }
    } else {
        report.required("spec.parentRef", "");
    }
    if let Some(old) = old {
        report.immutable("spec.parentRef", parent, &old["spec"]["parentRef"]);
    }
}

/// One range, or one of each address family; a second family may be added later.
pub(super) fn service_cidr(object: &Value, old: Option<&Value>, report: &mut Report) {
    let ranges = list_at(&object["spec"], "cidrs");
    match ranges.len() {
        0 => report.required("spec.cidrs", "at least one CIDR required"),
        1 | 2 => {}
        _ => report.invalid("spec.cidrs", ranges.to_vec(), "may only hold up to 2 values"),
    }
    let mut families = Vec::new();
    for (at, range) in ranges.iter().enumerate() {
        let text = range.as_str().unwrap_or_default();
        match network(text) {
            Some(family) if families.contains(&family) => {
                let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
                report.invalid("spec.cidrs", ranges.to_vec(), why);
            }
            Some(family) => families.push(family),
            None => {
                let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
                report.invalid(format!("spec.cidrs[{at}]"), text, why);
            }
        }
    }
    if let Some(old) = old {
        let before = list_at(&old["spec"], "cidrs");
        let kept = ranges.get(..before.len()).unwrap_or(ranges);
        if kept != before || (before.len() != ranges.len() && before.len() != 1) {
            report.immutable("spec.cidrs", &object["spec"]["cidrs"], &old["spec"]["cidrs"]);
        }
    }
}

/// The family of a range whose address has no bits beyond its prefix.
fn network(text: &str) -> Option<&'static str> {
    let (address, prefix) = text.split_once('/')?;
    let prefix: u32 = prefix.parse().ok()?;
    match address.parse().ok()? {
        IpAddr::V4(address) => {
            let host_bits = u32::MAX.checked_shr(prefix).unwrap_or(0);
            (prefix <= 32 && address.to_bits() & host_bits == 0).then_some("IPv4")
        }
        IpAddr::V6(address) => {
            let host_bits = u128::MAX.checked_shr(prefix).unwrap_or(0);
            (prefix <= 128 && address.to_bits() & host_bits == 0).then_some("IPv6")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::assert_has;
    use super::*;
    use crate::resource::find;
    use crate::validate::validate;

    fn check(plural: &str, name: &str, spec: Value, old: Option<Value>) -> Vec<String> {
        let resource = find("networking.k8s.io", "v1", plural).unwrap();
        let made = |spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        let problems = validate(resource, &made(spec), old.map(made).as_ref());
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_address_is_named_by_itself_and_has_a_parent_that_stays() {
        let parent = |name: &str| json!({"parentRef": {"resource": "services", "namespace": "shop", "name": name}});
        for name in ["10.0.0.1", "fe80::1"] {
            assert_eq!(check("ipaddresses", name, parent("web"), None), Vec::<String>::new());
        }
        let long = check("ipaddresses", "fe80::0:1", parent("web"), None);
        assert_has(&long, r#"metadata.name: Invalid value: "fe80::0:1": must be in canonical form ("fe80::1")"#);
        assert!(check("ipaddresses", "web", parent("web"), None)[0].contains("must be a valid IP address"));
        assert_has(&check("ipaddresses", "10.0.0.1", json!({}), None), "spec.parentRef: Required value");
        let moved = check("ipaddresses", "10.0.0.1", parent("other"), Some(parent("web")));
        assert!(moved[0].starts_with("spec.parentRef: Invalid value") && moved[0].ends_with("field is immutable"));
    }

    #[test]
    fn a_range_has_one_network_of_each_family_and_stays() {
        let cidrs = |list: &[&str]| json!({"cidrs": list});
        let (one, both) = (cidrs(&["10.0.0.0/24"]), cidrs(&["10.0.0.0/24", "fd00::/112"]));
        assert_eq!(check("servicecidrs", "more", one.clone(), None), Vec::<String>::new());
        assert_eq!(check("servicecidrs", "more", both.clone(), Some(one.clone())), Vec::<String>::new());
        assert_has(
            &check("servicecidrs", "more", cidrs(&[]), None),
            "spec.cidrs: Required value: at least one CIDR required",
        );
        for wrong in ["10.0.0.1/24", "10.0.0.0", "10.0.0.0/33", "fd00::1/112", "web/8"] {
            let problems = check("servicecidrs", "more", cidrs(&[wrong]), None);
            assert!(problems[0].starts_with("spec.cidrs[0]: Invalid value"), "{wrong}: {problems:?}");
        }
        assert_eq!(check("servicecidrs", "more", cidrs(&["10.0.0.0/24", "10.0.1.0/24"]), None).len(), 1);
        for changed in [cidrs(&["10.0.1.0/24"]), both.clone()] {
            let old = if changed == both { cidrs(&["10.0.9.0/24"]) } else { one.clone() };
            let problems = check("servicecidrs", "more", changed, Some(old));
            assert!(problems[0].ends_with("field is immutable"), "{problems:?}");
        }
        assert!(check("servicecidrs", "more", one, Some(both))[0].ends_with("field is immutable"));
    }
}
