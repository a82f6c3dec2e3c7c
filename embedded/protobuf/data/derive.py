"""Prints messages.txt, from the types that a kubectl binary (Linux, x86-64, built by Go 1.23 or 1.24) keeps for reflection."""

import re
import struct
import sys
from pathlib import Path

DATA = Path(sys.argv[1]).read_bytes()
POINTER, SLICE, MAP, STRUCT = 22, 23, 21, 25
INTEGERS = range(2, 12)
SCALARS = {24: "string", 1: "bool", **dict.fromkeys(INTEGERS, "int")}
# Where a named type's package is, behind the description of its kind.
PACKAGE_AT = {STRUCT: 80, MAP: 112, SLICE: 56, POINTER: 56}

GROUPS = {"core": "", **{group: group for group in ("apps", "autoscaling", "batch", "policy")},
          "flowcontrol": "flowcontrol.apiserver.k8s.io", "rbac": "rbac.authorization.k8s.io",
          **{group: group + ".k8s.io" for group in (
              "admissionregistration", "authentication", "authorization", "certificates", "coordination", "discovery",
              "events", "networking", "node", "scheduling", "storage")}}
ANY_VERSION = ["CreateOptions", "DeleteOptions", "PatchOptions", "Status", "UpdateOptions"]
# Kinds that became v1 as they were, after 1.33.
BECAME_V1 = {"admissionregistration/v1alpha1": "MutatingAdmissionPolicy(Binding)?",
             "storage/v1beta1": "VolumeAttributesClass"}
# Query parameters and relics: registered as kinds, never a request's body.
NO_BODY = r"Options$|^(PodStatusResult|RangeAllocation|SerializedReference|ComponentStatus)$"
SPECIAL = {"meta/v1.Time": "time", "meta/v1.MicroTime": "microtime", "resource.Quantity": "quantity",
           "intstr.IntOrString": "intorstring", "runtime.RawExtension": "json", "meta/v1.FieldsV1": "json"}


def sections():
    start, = struct.unpack_from("<Q", DATA, 0x28)
    count, names = struct.unpack_from("<HH", DATA, 0x3C)
    rows = [struct.unpack_from("<IIQQQQ", DATA, start + 64 * i) for i in range(count)]
    name = lambda at: DATA[rows[names][4] + at:DATA.index(b"\0", rows[names][4] + at)].decode()
    return {name(row[0]): row[3:] for row in rows}


SECTIONS = sections()
TYPES, TYPES_AT, _ = SECTIONS[".rodata"]


def get(format, address):
    return struct.unpack_from("<" + format, DATA, address - TYPES + TYPES_AT)[0]


def text(address):
    length = shift = 0
    while True:
        byte = get("B", address)
        address, length, shift = address + 1, length | (byte & 127) << shift, shift + 7
        if byte < 128:
            at = address - TYPES + TYPES_AT
            return DATA[at:at + length].decode(), address + length


kind = lambda type: get("B", type + 23) & 31
flag = lambda type, bit: bool(get("B", type + 20) & bit)
element = lambda type: get("Q", type + 48)


def full_name(type):
    package = text(TYPES + get("i", type + PACKAGE_AT.get(kind(type), 48)) + 1)[0]
    package = re.sub(r"^k8s\.io/(apimachinery/pkg/(apis/|api/|util/)?|api/)", "", package)
    return package + "." + text(TYPES + get("i", type + 40) + 1)[0].split(".")[-1]


def fields(type):
    """Name, tags, type of each field of a struct."""
    start, count = get("Q", type + 56), get("Q", type + 64)
    for field in range(start, start + 24 * count, 24):
        at = get("Q", field)
        name, after = text(at + 1)
        tags = text(after)[0] if get("B", at) & 2 else ""
        yield name, {key: value.split(",") for key, value in re.findall(r'(\w+):"([^"]*)"', tags)}, get("Q", field + 8)


def type_name(type, found):
    this = kind(type)
    if this in SCALARS:
        return SCALARS[this]
    if this == POINTER:
        return type_name(element(type), found)
    if this == MAP:
        return "{}" + type_name(get("Q", type + 56), found)
    if this == SLICE and kind(element(type)) == 8:
        return "bytes"
    if this == SLICE:
        # A slice with a name of its own is a message around its items.
        return "strings" if flag(type, 4) else "[]" + type_name(element(type), found)
    name = full_name(type)
    if name not in SPECIAL:
        found[name] = type
    return SPECIAL.get(name, name)


def kinds():
    """Version and type of each kind: a struct that embeds TypeMeta, and is no list."""
    _, links, size = SECTIONS[".typelink"]
    for offset, in struct.iter_unpack("<i", DATA[links:links + size]):
        pointer = TYPES + offset
        type = element(pointer) if kind(pointer) == POINTER else pointer
        if kind(type) != STRUCT or not flag(type, 4):
            continue
        package, name = full_name(type).rsplit(".", 1)
        group, _, version = package.partition("/")
        names = [field for field, tags, _ in fields(type)]
        if package == "meta/v1" and name in ANY_VERSION:
            yield "*", type
        elif re.fullmatch(BECAME_V1.get(package, ""), name):
            yield f"{GROUPS[group]}/v1", type
        elif (group in GROUPS and version in ("v1", "v2") and "TypeMeta" in names and "ListMeta" not in names
              and not re.search(NO_BODY, name)):
            yield f"{GROUPS[group]}/{version}".lstrip("/"), type


def rows(type, found):
    for _, tags, field in fields(type):
        if "protobuf" not in tags:
            continue
        (_, number, *_), (name, *options) = tags["protobuf"], tags["json"]
        this = type_name(field, found)
        plain = kind(field) != POINTER and this in (*SCALARS.values(), "bytes")
        name = "-" if "inline" in options else name + "?" * (plain and "omitempty" in options)
        yield int(number), name, this


roots = sorted((version, full_name(type), type) for version, type in kinds())
waiting, messages = {name: type for _, name, type in roots}, {}
while waiting:
    name, type = waiting.popitem()
    if name not in messages:
        messages[name] = sorted(rows(type, waiting))
print(*(line for line in Path(__file__).with_name("messages.txt").read_text().splitlines() if line[0] == "#"), sep="\n")
for version, name, _ in roots:
    print("kind", version, name)
for name in sorted(messages):
    print("message", name)
    for row in messages[name]:
        print(*row)
