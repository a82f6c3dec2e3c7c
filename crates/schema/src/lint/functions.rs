//! The functions of Kubernetes' CEL libraries by what matters to a linter: whether they exist and what they go through.

/// Namespaces of functions, written like fields of a variable: `math.greatest(1, 2)`.
const NAMESPACES: [&str; 11] =
    ["base64", "cel", "format", "ip", "jsonpatch", "lists", "math", "optional", "regex", "sets", "strings"];

/// Functions whose cost grows with the strings they are given.
#[rustfmt::skip]
const READ_STRINGS: [&str; 22] = [
    "charAt", "cidr", "contains", "endsWith", "find", "findAll", "indexOf", "ip", "isCIDR", "isIP", "isURL",
    "lastIndexOf", "lowerAscii", "matches", "replace", "reverse", "split", "startsWith", "substring", "trim",
    "upperAscii", "url",
];

/// Functions whose cost grows with the lists they are given.
#[rustfmt::skip]
const READ_LISTS: [&str; 15] = [
    "contains", "distinct", "equivalent", "flatten", "indexOf", "intersects", "isSorted", "join", "lastIndexOf",
    "max", "min", "reverse", "sort", "sortBy", "sum",
];

/// Every other function that Kubernetes has, those included that we cannot run: a CRD that calls them is sound.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "abs", "add", "all", "asApproximateFloat", "asInteger", "bind", "bitAnd", "bitNot", "bitOr", "bitShiftLeft",
    "bitShiftRight", "bitXor", "bool", "byte", "bytes", "ceil", "compareTo", "containsCIDR", "containsIP", "date",
    "datetime", "decode", "dns1035Label", "dns1035LabelPrefix", "dns1123Label", "dns1123LabelPrefix",
    "dns1123Subdomain", "dns1123SubdomainPrefix", "double", "duration", "dyn", "encode", "escapeKey", "exists",
    "existsOne", "exists_one", "family", "first", "floor", "format", "getDate", "getDayOfMonth", "getDayOfWeek",
    "getDayOfYear", "getEscapedPath", "getFullYear", "getHost", "getHostname", "getHours", "getMilliseconds",
    "getMinutes", "getMonth", "getPort", "getQuery", "getScheme", "getSeconds", "greatest", "hasValue", "int",
    "isCanonical", "isFinite", "isGlobalUnicast", "isGreaterThan", "isInf", "isInteger", "isIPv4", "isIPv6",
    "isLessThan", "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isNaN", "isQuantity", "isSemver",
    "isUnspecified", "labelValue", "last", "least", "major", "masked", "minor", "named", "none", "of",
    "ofNonZeroValue", "or", "orValue", "patch", "prefixLength", "qualifiedName", "quantity", "quote", "range", "round",
    "semver", "sign", "size", "slice", "sqrt", "string", "sub", "timestamp", "transformList", "transformMap",
    "transformMapEntry", "trunc", "type", "uint", "uri", "uuid", "validate", "value",
];

/// Macros that the parser does not expand, whatever they are given.
const MACROS: [&str; 4] = ["sortBy", "transformList", "transformMap", "transformMapEntry"];

/// Whether Kubernetes has a function of that name. Operators are functions with odd names: `_&&_`, `@in`.
pub(super) fn is_known(name: &str) -> bool {
    name.starts_with(['_', '@', '!', '-']) || reads_strings(name) || reads_lists(name) || OTHERS.contains(&name)
}

pub(super) fn is_namespace(name: &str) -> bool {
    NAMESPACES.contains(&name)
}

pub(super) fn reads_strings(name: &str) -> bool {
    READ_STRINGS.contains(&name)
}

pub(super) fn reads_lists(name: &str) -> bool {
    READ_LISTS.contains(&name)
}

/// Whether a call is a macro that the parser left alone: its first arguments are names that it binds.
pub(super) fn is_macro(name: &str, args: usize) -> bool {
    let two_variables = matches!(name, "all" | "exists" | "existsOne" | "exists_one") && args > 2;
    MACROS.contains(&name) || two_variables
}
