//! The table of functions that a rule of Kubernetes 1.34 can call. CEL's `math`, `base64` and `cel.bind` are not there.
//!
//! A line is an id and a signature. Ids need not differ; they tell overloads apart whose costs differ. A leading dot
//! marks a function that is called on its first parameter. Single capitals are type parameters; `{C}` stands for each
//! type that can be compared, `{N}` for each that can be summed.

pub(super) const SIGNATURES: &str = "\
# Operators.
conditional _?_:_(bool, A, A) A
logical_and _&&_(bool, bool) bool
logical_or _||_(bool, bool) bool
not !_(bool) bool
not_strictly_false @not_strictly_false(bool) bool
equals _==_(A, A) bool
not_equals _!=_(A, A) bool
compare_{C} _<_({C}, {C}) bool
compare_{C} _<=_({C}, {C}) bool
compare_{C} _>_({C}, {C}) bool
compare_{C} _>=_({C}, {C}) bool
compare _<_(int, double) bool
compare _<_(int, uint) bool
compare _<_(uint, double) bool
compare _<_(uint, int) bool
compare _<_(double, int) bool
compare _<_(double, uint) bool
compare _<=_(int, double) bool
compare _<=_(int, uint) bool
compare _<=_(uint, double) bool
compare _<=_(uint, int) bool
compare _<=_(double, int) bool
compare _<=_(double, uint) bool
compare _>_(int, double) bool
compare _>_(int, uint) bool
compare _>_(uint, double) bool
compare _>_(uint, int) bool
compare _>_(double, int) bool
compare _>_(double, uint) bool
compare _>=_(int, double) bool
compare _>=_(int, uint) bool
compare _>=_(uint, double) bool
compare _>=_(uint, int) bool
compare _>=_(double, int) bool
compare _>=_(double, uint) bool
add_bytes _+_(bytes, bytes) bytes
add_double _+_(double, double) double
add_duration _+_(duration, duration) duration
add_duration _+_(duration, timestamp) timestamp
add_duration _+_(timestamp, duration) timestamp
add_int _+_(int, int) int
add_list _+_(list(A), list(A)) list(A)
add_string _+_(string, string) string
add_uint _+_(uint, uint) uint
subtract _-_(double, double) double
subtract _-_(duration, duration) duration
subtract _-_(int, int) int
subtract _-_(timestamp, duration) timestamp
subtract _-_(timestamp, timestamp) duration
subtract _-_(uint, uint) uint
multiply _*_(double, double) double
multiply _*_(int, int) int
multiply _*_(uint, uint) uint
divide _/_(double, double) double
divide _/_(int, int) int
divide _/_(uint, uint) uint
modulo _%_(int, int) int
modulo _%_(uint, uint) uint
negate -_(double) double
negate -_(int) int
in_list @in(A, list(A)) bool
in_map @in(A, map(A, B)) bool
index_list _[_](list(A), int) A
index_map _[_](map(A, B), A) B
index_optional _[_](optional(list(V)), int) optional(V)
index_optional _[_](optional(map(K, V)), K) optional(V)
optional_index _[?_](list(V), int) optional(V)
optional_index _[?_](optional(list(V)), int) optional(V)
optional_index _[?_](map(K, V), K) optional(V)
optional_index _[?_](optional(map(K, V)), K) optional(V)
# Sizes, types and conversions.
size size(bytes) int
size size(list(A)) int
size size(map(A, B)) int
size size(string) int
size .size(bytes) int
size .size(list(A)) int
size .size(map(A, B)) int
size .size(string) int
type type(A) type(A)
dyn dyn(A) dyn
to_bool bool(bool) bool
to_bool bool(string) bool
to_bytes bytes(bytes) bytes
string_to_bytes bytes(string) bytes
to_double double(double) double
to_double double(int) double
to_double double(string) double
to_double double(uint) double
to_duration duration(duration) duration
to_duration duration(int) duration
to_duration duration(string) duration
to_int int(int) int
to_int int(double) int
to_int int(duration) int
to_int int(string) int
to_int int(timestamp) int
to_int int(uint) int
to_uint uint(uint) uint
to_uint uint(double) uint
to_uint uint(int) uint
to_uint uint(string) uint
to_string string(string) string
to_string string(bool) string
bytes_to_string string(bytes) string
to_string string(double) string
to_string string(duration) string
to_string string(int) string
to_string string(timestamp) string
to_string string(uint) string
to_string string(net.IP) string
to_string string(net.CIDR) string
to_timestamp timestamp(timestamp) timestamp
to_timestamp timestamp(int) timestamp
to_timestamp timestamp(string) timestamp
# Times.
time .getFullYear(timestamp) int
time .getFullYear(timestamp, string) int
time .getMonth(timestamp) int
time .getMonth(timestamp, string) int
time .getDayOfYear(timestamp) int
time .getDayOfYear(timestamp, string) int
time .getDayOfMonth(timestamp) int
time .getDayOfMonth(timestamp, string) int
time .getDate(timestamp) int
time .getDate(timestamp, string) int
time .getDayOfWeek(timestamp) int
time .getDayOfWeek(timestamp, string) int
time .getHours(timestamp) int
time .getHours(timestamp, string) int
time .getHours(duration) int
time .getMinutes(timestamp) int
time .getMinutes(timestamp, string) int
time .getMinutes(duration) int
time .getSeconds(timestamp) int
time .getSeconds(timestamp, string) int
time .getSeconds(duration) int
time .getMilliseconds(timestamp) int
time .getMilliseconds(timestamp, string) int
time .getMilliseconds(duration) int
# Strings.
contains_string .contains(string, string) bool
ends_with_string .endsWith(string, string) bool
starts_with_string .startsWith(string, string) bool
matches matches(string, string) bool
matches_string .matches(string, string) bool
string .charAt(string, int) string
string .indexOf(string, string) int
string .indexOf(string, string, int) int
string .lastIndexOf(string, string) int
string .lastIndexOf(string, string, int) int
string .join(list(string)) string
string .join(list(string), string) string
string .lowerAscii(string) string
string .upperAscii(string) string
string .trim(string) string
string .replace(string, string, string) string
string .replace(string, string, string, int) string
string .split(string, string) list(string)
string .split(string, string, int) list(string)
string .substring(string, int) string
string .substring(string, int, int) string
string_format .format(string, list(dyn)) string
strings_quote strings.quote(string) string
regex .find(string, string) string
regex .findAll(string, string) list(string)
regex .findAll(string, string, int) list(string)
# Lists and sets.
list .isSorted(list({C})) bool
list .sum(list({N})) {N}
list .min(list({C})) {C}
list .max(list({C})) {C}
list .indexOf(list(A), A) int
list .lastIndexOf(list(A), A) int
list_slice .slice(list(T), int, int) list(T)
list_flatten .flatten(list(list(T))) list(T)
list_flatten .flatten(list(dyn), int) list(dyn)
list_reverse .reverse(list(T)) list(T)
list_distinct .distinct(list(T)) list(T)
list_sort .sort(list({C})) list({C})
list_sort_by .@sortByAssociatedKeys(list(T), list({C})) list(T)
lists_range lists.range(int) list(int)
list .first(list(T)) optional(T)
list .last(list(T)) optional(T)
sets_contains sets.contains(list(T), list(T)) bool
sets_equivalent sets.equivalent(list(T), list(T)) bool
sets_intersects sets.intersects(list(T), list(T)) bool
map_insert cel.@mapInsert(map(K, V), K, V) map(K, V)
map_insert cel.@mapInsert(map(K, V), map(K, V)) map(K, V)
# Optionals.
optional optional.of(V) optional(V)
optional optional.ofNonZeroValue(V) optional(V)
optional optional.none() optional(V)
optional optional.unwrap(list(optional(V))) list(V)
optional .unwrapOpt(list(optional(V))) list(V)
optional .value(optional(V)) V
optional .hasValue(optional(V)) bool
optional .or(optional(V), optional(V)) optional(V)
optional .orValue(optional(V), V) V
# Kubernetes' own types.
url url(string) kubernetes.URL
url isURL(string) bool
url .getScheme(kubernetes.URL) string
url .getHost(kubernetes.URL) string
url .getHostname(kubernetes.URL) string
url .getPort(kubernetes.URL) string
url .getEscapedPath(kubernetes.URL) string
url .getQuery(kubernetes.URL) map(string, list(string))
ip ip(string) net.IP
ip isIP(string) bool
ip ip.isCanonical(string) bool
ip .family(net.IP) int
ip .isUnspecified(net.IP) bool
ip .isLoopback(net.IP) bool
ip .isLinkLocalMulticast(net.IP) bool
ip .isLinkLocalUnicast(net.IP) bool
ip .isGlobalUnicast(net.IP) bool
cidr cidr(string) net.CIDR
cidr isCIDR(string) bool
contains_text .containsIP(net.CIDR, string) bool
contains .containsIP(net.CIDR, net.IP) bool
contains_text .containsCIDR(net.CIDR, string) bool
contains .containsCIDR(net.CIDR, net.CIDR) bool
cidr .ip(net.CIDR) net.IP
cidr .masked(net.CIDR) net.CIDR
cidr .prefixLength(net.CIDR) int
quantity quantity(string) kubernetes.Quantity
quantity isQuantity(string) bool
quantity .sign(kubernetes.Quantity) int
quantity .isInteger(kubernetes.Quantity) bool
quantity .asInteger(kubernetes.Quantity) int
quantity .asApproximateFloat(kubernetes.Quantity) double
quantity .isGreaterThan(kubernetes.Quantity, kubernetes.Quantity) bool
quantity .isLessThan(kubernetes.Quantity, kubernetes.Quantity) bool
quantity .compareTo(kubernetes.Quantity, kubernetes.Quantity) int
quantity .add(kubernetes.Quantity, kubernetes.Quantity) kubernetes.Quantity
quantity .add(kubernetes.Quantity, int) kubernetes.Quantity
quantity .sub(kubernetes.Quantity, kubernetes.Quantity) kubernetes.Quantity
quantity .sub(kubernetes.Quantity, int) kubernetes.Quantity
semver semver(string) kubernetes.Semver
semver semver(string, bool) kubernetes.Semver
semver isSemver(string) bool
semver isSemver(string, bool) bool
semver .major(kubernetes.Semver) int
semver .minor(kubernetes.Semver) int
semver .patch(kubernetes.Semver) int
semver .isGreaterThan(kubernetes.Semver, kubernetes.Semver) bool
semver .isLessThan(kubernetes.Semver, kubernetes.Semver) bool
semver .compareTo(kubernetes.Semver, kubernetes.Semver) int
format format.named(string) optional(kubernetes.NamedFormat)
format format.dns1123Label() kubernetes.NamedFormat
format format.dns1123Subdomain() kubernetes.NamedFormat
format format.dns1035Label() kubernetes.NamedFormat
format format.qualifiedName() kubernetes.NamedFormat
format format.dns1123LabelPrefix() kubernetes.NamedFormat
format format.dns1123SubdomainPrefix() kubernetes.NamedFormat
format format.dns1035LabelPrefix() kubernetes.NamedFormat
format format.labelValue() kubernetes.NamedFormat
format format.uri() kubernetes.NamedFormat
format format.uuid() kubernetes.NamedFormat
format format.byte() kubernetes.NamedFormat
format format.date() kubernetes.NamedFormat
format format.datetime() kubernetes.NamedFormat
format .validate(kubernetes.NamedFormat, string) optional(list(string))
";
