//! What kubectl's commands do not send: bodies made field by field, as client-go's typed clients and hostile ones do.

mod pb;

use c5c3_protobuf::{CONTENT_TYPE, DecodeError, decode, is_protobuf};
use pb::{Pb, pb};
use serde_json::json;

#[test]
fn the_media_type_and_the_magic_bytes_are_kubernetes() {
    assert_eq!(CONTENT_TYPE, "application/vnd.kubernetes.protobuf");
    assert!(is_protobuf(&pb().body("v1", "Pod")));
    assert!(!is_protobuf(b"{}"));
    assert_eq!(decode(b"{}"), Err(DecodeError::NotKubernetes));
}

#[test]
fn a_pods_inlined_structs_are_inlined_and_its_pointers_kept() {
    let http = pb().bytes(1, "/healthz").pb(2, &pb().int(1, 1).int(2, 0).bytes(3, "web")).bytes(3, "").bytes(4, "HTTP");
    let probe = pb().pb(1, &pb().pb(2, &http)).int(2, 0).int(3, 5).int(7, 0);
    let key = pb().pb(1, &pb().bytes(1, "lair")).bytes(2, "word").int(3, 0);
    let env = pb().bytes(1, "WORD").bytes(2, "").pb(3, &pb().pb(4, &key));
    let context = pb().int(4, 0).int(7, 0);
    let container = pb().bytes(1, "main").pb(7, &env).pb(10, &probe).pb(15, &context).int(16, 0);
    let volumes = [
        pb().bytes(1, "scratch").pb(2, &pb().pb(2, &pb().bytes(1, ""))),
        pb().bytes(1, "files").pb(2, &pb().pb(19, &pb().pb(1, &pb().bytes(1, "burrow")).int(3, 420))),
    ];
    let spec = pb().pb(1, &volumes[0]).pb(1, &volumes[1]).pb(2, &container).int(4, 0).int(11, 0);
    let pod = pb().pb(1, &pb().bytes(1, "heron").int(7, 0).pb(8, &pb())).pb(2, &spec);
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "heron"},
        "spec": {
            "volumes": [{"name": "scratch", "emptyDir": {}},
                {"name": "files", "configMap": {"name": "burrow", "defaultMode": 420}}],
            "containers": [{
                "name": "main",
                "env": [{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "lair", "key": "word", "optional": false}}}],
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": "web", "scheme": "HTTP"},
                    "timeoutSeconds": 5, "terminationGracePeriodSeconds": 0},
                "securityContext": {"runAsUser": 0, "allowPrivilegeEscalation": false},
            }],
            "terminationGracePeriodSeconds": 0,
        },
    });
    assert_eq!(pod.read("v1", "Pod"), expected);
}

#[test]
fn bytes_are_base64_and_an_empty_entry_of_a_map_stays() {
    let secret = pb().map(2, "raw", [0xff, 0x00]).pb(2, &pb().bytes(1, "none")).bytes(3, "Opaque").int(5, 0);
    let expected = json!({"apiVersion": "v1", "kind": "Secret", "data": {"raw": "/wA=", "none": ""}, "type": "Opaque",
        "immutable": false});
    assert_eq!(secret.read("v1", "Secret"), expected);
}

#[test]
fn a_lease_has_microseconds_and_other_times_have_seconds() {
    let moment = pb().int(1, 1_700_000_000).int(2, 120_456_789);
    let lease = pb().pb(1, &pb().pb(9, &moment)).pb(2, &pb().bytes(1, "me").int(2, 15).pb(4, &moment));
    let expected = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2023-11-14T22:13:20.120456Z"},
    });
    assert_eq!(lease.read("coordination.k8s.io/v1", "Lease"), expected);
    let late = pb().pb(1, &pb().pb(9, &pb().int(1, i64::MAX))).body("coordination.k8s.io/v1", "Lease");
    assert_eq!(decode(&late), Err(DecodeError::Time(i64::MAX)));
}

#[test]
fn an_event_has_no_times_that_nobody_set() {
    let event = pb()
        .pb(1, &pb().bytes(1, "heron.1").bytes(3, "otter"))
        .pb(2, &pb().bytes(1, "Pod").bytes(3, "heron"))
        .bytes(3, "Started")
        .pb(6, &pb().int(1, 0).int(2, 0))
        .pb(7, &pb())
        .int(8, 1)
        .pb(10, &pb())
        .bytes(14, "");
    let expected = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "heron.1", "namespace": "otter"},
        "involvedObject": {"kind": "Pod", "name": "heron"}, "reason": "Started",
        "firstTimestamp": "1970-01-01T00:00:00Z", "count": 1, "reportingComponent": "",
    });
    assert_eq!(event.read("v1", "Event"), expected);
}

#[test]
fn delete_options_come_in_the_version_of_what_they_delete() {
    let options = pb().int(1, 0).pb(2, &pb().bytes(1, "u-1")).bytes(4, "Background").bytes(5, "All");
    let expected = json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u-1"}, "propagationPolicy": "Background", "dryRun": ["All"]});
    assert_eq!(options.read("apps/v1", "DeleteOptions"), expected);
}

#[test]
fn numbers_are_read_packed_or_one_by_one_and_may_be_negative() {
    let one_by_one = pb().int(4, 7).int(4, 9);
    let packed = pb().bytes(4, [7, 9]);
    for groups in [one_by_one, packed] {
        let pod = pb().pb(2, &pb().pb(14, &groups)).read("v1", "Pod");
        assert_eq!(pod["spec"]["securityContext"]["supplementalGroups"], json!([7, 9]));
    }
    let class = pb().int(2, -5).read("scheduling.k8s.io/v1", "PriorityClass");
    assert_eq!(class["value"], -5);
}

#[test]
fn lists_of_texts_within_maps_and_embedded_json_are_read() {
    let user = pb().map(5, "team", pb().bytes(1, "a").bytes(1, "b").0);
    let review = pb().pb(2, &user).read("authorization.k8s.io/v1", "SubjectAccessReview");
    assert_eq!(review["spec"]["extra"], json!({"team": ["a", "b"]}));

    let revision = |raw: &[u8]| pb().pb(2, &pb().bytes(1, raw)).body("apps/v1", "ControllerRevision");
    assert_eq!(decode(&revision(br#"{"spec":{"x":1}}"#)).unwrap()["data"], json!({"spec": {"x": 1}}));
    assert_eq!(decode(&revision(&pb().body("v1", "Pod"))).unwrap()["data"]["kind"], "Pod");
    assert!(matches!(decode(&revision(b"{")), Err(DecodeError::Json(_))));
}

#[test]
fn what_a_newer_kubernetes_adds_is_skipped_and_what_comes_twice_is_merged() {
    let fixed64 = pb().bytes(1, "otter").int(900, 1).varint(901 << 3 | 1);
    let newer = Pb([fixed64.0, vec![0; 8]].concat());
    let namespace = pb().pb(1, &newer).pb(1, &pb().map(11, "a", "b")).bytes(77, "new");
    assert_eq!(namespace.read("v1", "Namespace")["metadata"], json!({"name": "otter", "labels": {"a": "b"}}));
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let refused = |pb: &Pb, version: &str, kind: &str| decode(&pb.body(version, kind)).unwrap_err();
    assert_eq!(
        refused(&pb(), "example.org/v1", "Heron").to_string(),
        r#"no protobuf message is known for kind "Heron" in version "example.org/v1""#
    );
    assert_eq!(refused(&pb().int(1, 5), "v1", "Pod"), DecodeError::WireType { field: 1, wire_type: 0 });
    assert_eq!(refused(&pb().pb(1, &pb().bytes(1, [0xff])), "v1", "Pod"), DecodeError::NotUtf8);
    let compressed = [b"k8s\0", pb().bytes(2, "x").bytes(3, "gzip").0.as_slice()].concat();
    assert!(matches!(decode(&compressed), Err(DecodeError::Encoding(_))));
}

#[test]
fn envelopes_within_envelopes_end() {
    let mut body = pb().body("apps/v1", "ControllerRevision");
    for _ in 0..200 {
        body = pb().pb(2, &pb().bytes(1, &body)).body("apps/v1", "ControllerRevision");
    }
    assert_eq!(decode(&body), Err(DecodeError::TooDeep));
}
