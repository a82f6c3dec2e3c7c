"""The Python client of the Kubernetes project against the server of $KUBECONFIG; ends with "ok" or a traceback.

Called by python.rs, with the file of a CRD of ours (Keystone) as its argument.
"""

import sys
import threading
import time

import yaml
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException

NAMESPACE = "default"


def refused(status, reason, call, *args, **kwargs):
    """Asserts that a call is refused with this HTTP status and this reason in its Status."""
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert error.status == status, (status, error.status, error.body)
        body = yaml.safe_load(error.body)
        assert body["kind"] == "Status" and body["reason"] == reason and body["code"] == status, body
        return body
    raise AssertionError(f"not refused with {status}")


def patching_with(content_type):
    """The core API of a client whose patches are of this type; by itself it takes JSON patches and strategic ones."""
    api = client.ApiClient()
    api.set_default_header("Content-Type", content_type)
    return client.CoreV1Api(api)


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"suite": "python"}), data=data)


def objects_are_created_read_and_listed(core):
    created = core.create_namespaced_config_map(NAMESPACE, config_map("one", colour="blue"))
    assert created.metadata.uid and created.metadata.resource_version and created.metadata.creation_timestamp
    for number in range(5):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{number}", n=str(number)))
    listed = core.list_namespaced_config_map(NAMESPACE, label_selector="suite=python")
    assert [item.metadata.name for item in listed.items] == ["one"] + [f"page-{number}" for number in range(5)]
    names, token = [], None
    while token != "":
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="suite=python", limit=2, _continue=token)
        assert len(page.items) <= 2
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue or ""
    assert len(names) == 6, names
    selected = core.list_namespaced_config_map(NAMESPACE, field_selector="metadata.name=one")
    assert [item.data for item in selected.items] == [{"colour": "blue"}]
    assert any(item.metadata.name == "kube-system" for item in core.list_namespace().items)


def errors_are_statuses(core, custom):
    body = refused(404, "NotFound", core.read_namespaced_config_map, "nothing", NAMESPACE)
    assert body["message"] == 'configmaps "nothing" not found', body
    assert body["details"] == {"name": "nothing", "kind": "configmaps"}, body
    refused(409, "AlreadyExists", core.create_namespaced_config_map, NAMESPACE, config_map("one"))
    stale = core.read_namespaced_config_map("one", NAMESPACE)
    core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"n": "1"}})
    stale.data = {"n": "2"}
    refused(409, "Conflict", core.replace_namespaced_config_map, "one", NAMESPACE, stale)
    body = refused(422, "Invalid", core.create_namespaced_config_map, NAMESPACE, config_map("Not_A_Name"))
    assert body["details"]["causes"][0]["field"] == "metadata.name", body
    bad = {
        "apiVersion": "keystone.openstack.c5c3.io/v1alpha1",
        "kind": "Keystone",
        "metadata": {"name": "bad"},
        "spec": {"replicas": -1},
    }
    group = ("keystone.openstack.c5c3.io", "v1alpha1", NAMESPACE, "keystones")
    body = refused(422, "Invalid", custom.create_namespaced_custom_object, *group, bad)
    assert body["details"]["causes"][0]["field"] == "spec.replicas", body


def patches_of_every_type_are_taken(core, apps):
    # A list is a JSON patch, and an object a strategic one: so the client chooses the content type.
    core.patch_namespaced_config_map("one", NAMESPACE, [{"op": "add", "path": "/data/shape", "value": "round"}])
    merging = patching_with("application/merge-patch+json")
    merged = merging.patch_namespaced_config_map("one", NAMESPACE, {"data": {"shape": None, "size": "xl"}})
    assert merged.data["size"] == "xl" and "shape" not in merged.data, merged.data
    container = client.V1Container(name="nginx", image="nginx:1")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(selector={"matchLabels": {"app": "web"}}, template=template)
    made = apps.create_namespaced_deployment(
        NAMESPACE, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    )
    assert made.spec.replicas == 1 and made.spec.strategy.type == "RollingUpdate", made.spec
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "busybox"}]}}}}
    patched = apps.patch_namespaced_deployment("web", NAMESPACE, side)
    assert sorted(item.name for item in patched.spec.template.spec.containers) == ["nginx", "side"]
    scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 4}})
    assert scale.spec.replicas == 4
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"a": "1"}}
    apply = patching_with("application/apply-patch+yaml").patch_namespaced_config_map
    apply("mine", NAMESPACE, applied, field_manager="one")
    applied["data"]["a"] = "2"
    body = refused(409, "Conflict", apply, "mine", NAMESPACE, applied, field_manager="two")
    assert body["details"]["causes"][0]["reason"] == "FieldManagerConflict", body
    forced = apply("mine", NAMESPACE, applied, field_manager="two", force=True)
    assert {entry.manager: entry.operation for entry in forced.metadata.managed_fields}["two"] == "Apply"


def a_watch_resumes_where_it_stopped(core):
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

    def change():
        time.sleep(0.3)
        for number in range(3):
            core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"turn": str(number)}})

    thread = threading.Thread(target=change)
    thread.start()
    stream, seen = watch.Watch(), []
    for event in stream.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=10):
        seen.append((event["type"], event["object"].data["turn"]))
        if len(seen) == 2:
            stopped_at = event["object"].metadata.resource_version
            stream.stop()
    thread.join()
    core.delete_namespaced_config_map("one", NAMESPACE)
    resumed = watch.Watch()
    for event in resumed.stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=stopped_at, timeout_seconds=10
    ):
        seen.append((event["type"], event["object"].data["turn"]))
        if event["type"] == "DELETED":
            resumed.stop()
    assert seen == [("MODIFIED", "0"), ("MODIFIED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], seen


def deleted_objects_are_gone(core):
    gone = core.delete_namespaced_config_map("mine", NAMESPACE)
    assert gone.status == "Success", gone
    refused(404, "NotFound", core.delete_namespaced_config_map, "mine", NAMESPACE)
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="suite=python")
    assert core.list_namespaced_config_map(NAMESPACE, label_selector="suite=python").items == []


def the_dynamic_client_finds_our_kinds(api):
    finder = dynamic.DynamicClient(api)
    keystones = finder.resources.get(api_version="keystone.openstack.c5c3.io/v1alpha1", kind="Keystone")
    assert keystones.namespaced and keystones.name == "keystones" and "ks" in keystones.short_names
    body = {"apiVersion": keystones.group_version, "kind": "Keystone", "metadata": {"name": "identity"}, "spec": {}}
    made = keystones.create(body=body, namespace=NAMESPACE)
    assert made.spec.fernet.maxActiveKeys == 3, "defaults of the definition"
    body["spec"] = {"replicas": 5}
    applied = keystones.server_side_apply(body=body, namespace=NAMESPACE, field_manager="python", force_conflicts=True)
    assert applied.spec.replicas == 5 and applied.metadata.generation == 2
    patch = {"status": {"replicas": 2}}
    told = keystones.status.patch(
        name="identity", namespace=NAMESPACE, body=patch, content_type="application/merge-patch+json"
    )
    assert told.status.replicas == 2 and told.metadata.generation == 2
    assert [item.metadata.name for item in keystones.get(namespace=NAMESPACE).items] == ["identity"]
    events = keystones.watch(namespace=NAMESPACE, name="identity", timeout=1)
    assert [event["type"] for event in events] == ["ADDED"]
    keystones.delete(name="identity", namespace=NAMESPACE)
    refused(404, "NotFound", keystones.get, name="identity", namespace=NAMESPACE)


def define(api, path):
    """Installs a CRD, and waits until its kind is served."""
    with open(path, encoding="utf-8") as file:
        definition = yaml.safe_load(file)
    utils.create_from_dict(api, definition)
    extensions = client.ApiextensionsV1Api(api)
    for _ in range(100):
        status = extensions.read_custom_resource_definition(definition["metadata"]["name"]).status
        if any(item.type == "Established" and item.status == "True" for item in status.conditions or []):
            return
        time.sleep(0.1)
    raise AssertionError("the definition is not established")


def main():
    config.load_kube_config()
    api = client.ApiClient()
    core, apps, custom = client.CoreV1Api(api), client.AppsV1Api(api), client.CustomObjectsApi(api)
    assert client.VersionApi(api).get_code().major == "1"
    define(api, sys.argv[1])
    objects_are_created_read_and_listed(core)
    errors_are_statuses(core, custom)
    patches_of_every_type_are_taken(core, apps)
    a_watch_resumes_where_it_stopped(core)
    deleted_objects_are_gone(core)
    the_dynamic_client_finds_our_kinds(api)
    print("ok")


main()
