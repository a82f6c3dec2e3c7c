"""What a run needs of the cloud: a token, an administrator of its own, an image, flavors, networks; and how it goes away again.

Tempest signs in with a user and a password and cannot use an application credential. So the credential makes a user with a
random password, which is an administrator in a project of its own for as long as the run takes.
"""

import json
import secrets
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request

# How long one request may take, in seconds.
PATIENCE = 60

# How long the image may take until it is active, in seconds.
IMAGE_PATIENCE = 120

# What the catalog calls the services that Tempest has tests for.
TYPES = {
    "compute": ("compute",),
    "image": ("image",),
    "network": ("network",),
    "volume": ("block-storage", "volumev3"),
    "placement": ("placement",),
}


class Refused(Exception):
    """An answer that is not the one that is needed."""

    def __init__(self, method, url, status, body):
        super().__init__("%s %s answered %s: %s" % (method, url, status, body[:200].strip()))
        self.status = status


class Cloud:
    """The cloud, as the holder of the application credential sees it."""

    def __init__(self, settings):
        self.settings = settings
        self.context = ssl.create_default_context(cafile=settings.get("verify"))
        self.token = None
        self.catalog = []
        self.made = []

    def request(self, method, url, body=None, headers=None, raw=None):
        """The answer's body as JSON, and its headers."""
        data = raw if raw is not None else (None if body is None else json.dumps(body).encode())
        head = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.token:
            head["X-Auth-Token"] = self.token
        head.update(headers or {})
        request = urllib.request.Request(url, data=data, headers=head, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE, context=self.context) as answer:
                text = answer.read()
                return (json.loads(text) if text else {}), answer.headers
        except urllib.error.HTTPError as error:
            raise Refused(method, url, error.code, error.read().decode(errors="replace")) from None
        except OSError as error:
            raise Refused(method, url, "nothing", str(error)) from None

    def sign_in(self):
        credential = {
            "id": self.settings["application_credential_id"],
            "secret": self.settings["application_credential_secret"],
        }
        identity = {"methods": ["application_credential"], "application_credential": credential}
        body, headers = self.request("POST", self.settings["auth_url"] + "/auth/tokens", {"auth": {"identity": identity}})
        self.token = headers["X-Subject-Token"]
        self.catalog = body["token"].get("catalog", [])
        roles = [role["name"] for role in body["token"].get("roles", [])]
        if "admin" not in roles:
            raise Refused("POST", "/auth/tokens", "a token", "the application credential has the roles %s, and dynamic "
                          "credentials need admin" % ", ".join(roles or ["none"]))

    def identity(self, method, path, body=None):
        return self.request(method, self.settings["auth_url"] + path, body)[0]

    def endpoint(self, service):
        """Where a service answers within the cluster, by the catalog; None if the catalog does not have it."""
        region = self.settings.get("region")
        for entry in self.catalog:
            if entry["type"] not in TYPES[service]:
                continue
            for wanted in ("internal", "public"):
                for endpoint in entry["endpoints"]:
                    here = not region or region in (endpoint.get("region_id"), endpoint.get("region"))
                    if endpoint["interface"] == wanted and here:
                        return endpoint["url"].rstrip("/")
        return None

    def catalog_type(self, service):
        kinds = {entry["type"] for entry in self.catalog}
        return next((kind for kind in TYPES[service] if kind in kinds), TYPES[service][0])

    def keep(self, what, method, url):
        """Remembers what was made, and how it goes."""
        self.made.append((what, method, url))

    def administrator(self, prefix):
        """Makes a domain with an administrator in it. Gives the options by which Tempest signs in, and the domain.

        Tempest makes its users and projects in the domain of the administrator, under names that no option changes. In a
        domain of their own they are told from everybody else's, and go with it.
        """
        name, password = domain_name(prefix), secrets.token_urlsafe(32) + "aA1!"
        base = self.settings["auth_url"]
        domain = self.identity("POST", "/domains", {"domain": {"name": name}})["domain"]["id"]
        self.keep("domain " + name, "DISABLE", base + "/domains/" + domain)
        project = {"name": "runner", "domain_id": domain}
        project = self.identity("POST", "/projects", {"project": project})["project"]["id"]
        user = {"name": "runner", "domain_id": domain, "password": password, "default_project_id": project}
        user = self.identity("POST", "/users", {"user": user})["user"]["id"]
        role = self.identity("GET", "/roles?name=admin")["roles"][0]["id"]
        self.identity("PUT", "/projects/%s/users/%s/roles/%s" % (project, user, role))
        return {
            "admin_username": "runner",
            "admin_password": password,
            "admin_project_name": "runner",
            "admin_domain_name": name,
            "default_credentials_domain_name": name,
        }, domain

    def domains(self, prefix):
        """The domain of this object's runs, if there is one."""
        query = urllib.parse.urlencode({"name": domain_name(prefix)})
        return [domain["id"] for domain in self.identity("GET", "/domains?" + query)["domains"]]

    def remove_domain(self, domain):
        """Removes the domain that a killed run left, with its users and projects."""
        self.empty_domain(domain)
        self.drop("DISABLE", self.settings["auth_url"] + "/domains/" + domain)

    def empty_domain(self, domain):
        """Removes what the projects of a domain have in other services. Gives what could not be removed."""
        projects = self.identity("GET", "/projects?domain_id=" + domain)["projects"]
        return [left for project in projects for left in self.empty(project["id"])]

    def empty(self, project):
        """Removes what a project has, what stands on others first. Gives what could not be removed."""
        left = []

        def each(service, path, key, remove=None, wanted=lambda one: True):
            base = self.endpoint(service)
            if base is None:
                return
            base += {"network": "/v2.0", "image": "/v2"}.get(service, "")
            try:
                found = self.request("GET", base + path % project)[0].get(key, [])
            except Refused as error:
                left.append(str(error))
                return
            for one in filter(wanted, found):
                try:
                    if remove is not None:
                        remove(base, one)
                    self.drop("DELETE", "%s%s/%s" % (base, path.split("?")[0].removesuffix("/detail"), one["id"]))
                except Refused as error:
                    left.append(str(error))

        def detach(base, router):
            query = "/ports?device_owner=network:router_interface&device_id=" + router["id"]
            for port in self.request("GET", base + query)[0]["ports"]:
                self.request("PUT", "%s/routers/%s/remove_router_interface" % (base, router["id"]), {"port_id": port["id"]})

        each("compute", "/servers?all_tenants=1&project_id=%s", "servers")
        each("volume", "/snapshots?all_tenants=1&project_id=%s", "snapshots")
        each("volume", "/volumes?all_tenants=1&project_id=%s", "volumes")
        each("image", "/images?owner=%s", "images", wanted=lambda one: one["owner"] == project)
        each("network", "/floatingips?project_id=%s", "floatingips")
        each("network", "/routers?project_id=%s", "routers", remove=detach)
        each("network", "/ports?project_id=%s", "ports", wanted=lambda one: not one["device_owner"].startswith("network:"))
        each("network", "/networks?project_id=%s", "networks")
        each("network", "/security-groups?project_id=%s", "security_groups", wanted=lambda one: one["name"] != "default")
        return left

    def image(self, prefix):
        """The smallest image that everybody may use, or a new one that boots nothing."""
        base = self.endpoint("image")
        query = "?visibility=public&status=active&sort_key=size&sort_dir=asc"
        for image in self.request("GET", base + "/v2/images" + query)[0]["images"]:
            if not image["name"].startswith(prefix):
                return image["id"]
        fields = {"name": prefix + "-image", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        image = self.request("POST", base + "/v2/images", fields)[0]["id"]
        url = base + "/v2/images/" + image
        self.keep("image %s-image" % prefix, "DELETE", url)
        self.request("PUT", url + "/file", raw=bytes(1024 * 1024), headers={"Content-Type": "application/octet-stream"})
        until = time.monotonic() + IMAGE_PATIENCE
        while self.request("GET", url)[0]["status"] != "active":
            if time.monotonic() > until:
                raise Refused("GET", url, "no active image", "after %s s" % IMAGE_PATIENCE)
            time.sleep(1)
        return image

    def flavors(self, prefix):
        """The two smallest flavors with a disk, without which servers have no snapshots; those that are missing are made."""
        base = self.endpoint("compute")
        found = self.request("GET", base + "/flavors/detail?is_public=true")[0]["flavors"]
        found = [one for one in found if one["disk"] > 0 and not one["name"].startswith(prefix)]
        found = [one["id"] for one in sorted(found, key=lambda one: (one["ram"], one["vcpus"], one["disk"]))][:2]
        for number in range(len(found), 2):
            fields = {"name": "%s-flavor-%s" % (prefix, number), "ram": 128 + 64 * number, "vcpus": 1, "disk": 1}
            flavor = self.request("POST", base + "/flavors", {"flavor": fields})[0]["flavor"]["id"]
            self.keep("flavor " + fields["name"], "DELETE", base + "/flavors/" + flavor)
            found.append(flavor)
        return found

    def network(self):
        """The external network, if there is one, and the extensions that Neutron has."""
        base = self.endpoint("network") + "/v2.0"
        external = self.request("GET", base + "/networks?router:external=true")[0]["networks"]
        extensions = self.request("GET", base + "/extensions")[0]["extensions"]
        return (external[0] if external else None), [extension["alias"] for extension in extensions]

    def has_backups(self):
        """Whether Cinder has a service for backups that is up."""
        services = self.request("GET", self.endpoint("volume") + "/os-services")[0].get("services", [])
        return any(one["binary"] == "cinder-backup" and one["state"] == "up" for one in services)

    def volumes(self):
        """What Cinder has, as options of Tempest: those of the section `volume`, and which features there are.

        Without its newest microversion, Tempest skips all tests that need more than the first one. Tests of volume types ask for
        the protocol and the vendor of a backend, and are those of LVM unless they are told.
        """
        base = self.endpoint("volume")
        versions = [one["version"] for one in self.request("GET", base + "/")[0].get("versions", []) if one.get("version")]
        pools = self.request("GET", base + "/scheduler-stats/get_pools?detail=True")[0].get("pools", [])
        pools = [pool.get("capabilities", {}) for pool in pools]
        options = {"max_microversion": versions[0]} if versions else {}
        for option in ("storage_protocol", "vendor_name"):
            values = {pool[option] for pool in pools if isinstance(pool.get(option), str)}
            if len(values) == 1:
                options[option] = values.pop()
        backends = sorted({pool["volume_backend_name"] for pool in pools if pool.get("volume_backend_name")})
        if len(backends) > 1:
            options["backend_names"] = ",".join(backends)
        return options, {"backup": self.has_backups(), "multi_backend": len(backends) > 1}

    def caches_images(self):
        """Whether Glance has a cache of images."""
        try:
            self.request("GET", self.endpoint("image") + "/v2/cache")
        except Refused:
            return False
        return True

    def stores(self):
        """How many stores Glance has, which one alone does not tell."""
        try:
            return len(self.request("GET", self.endpoint("image") + "/v2/info/stores")[0].get("stores", []))
        except Refused:
            return 1

    def drop(self, method, url):
        """Removes one thing. A domain has to be disabled before."""
        try:
            if method == "DISABLE":
                self.request("PATCH", url, {"domain": {"enabled": False}})
            self.request("DELETE", url)
        except Refused as error:
            if error.status != 404:
                raise

    def remove(self):
        """Removes what was made, the last first. Gives what could not be removed."""
        left = []
        for what, method, url in reversed(self.made):
            try:
                self.drop(method, url)
            except Refused as error:
                left.append("%s: %s" % (what, error))
        self.made = []
        return left


def domain_name(prefix):
    """It does not begin with the prefix, by which Tempest's own cleanup would remove it in the middle of a run."""
    return "c5c3-" + prefix
