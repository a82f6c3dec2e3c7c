//! What Kubernetes would say to the types of a rule.

use c5c3_schema::lint_structure;
use serde_json::{Value, json};

/// What is found in a rule, or nothing, for a schema with a field of each kind.
fn found(rule: &Value) -> String {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "int": {"type": "integer"},
                "double": {"type": "number"},
                "bool": {"type": "boolean"},
                "text": {"type": "string", "nullable": true},
                "bytes": {"type": "string", "format": "byte"},
                "when": {"type": "string", "format": "date-time"},
                "span": {"type": "string", "format": "duration"},
                "port": {"x-kubernetes-int-or-string": true},
                "any": {"x-kubernetes-preserve-unknown-fields": true},
                "anys": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}},
                "loose": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"known": {"type": "integer"}}},
                "texts": {"type": "array", "items": {"type": "string"}},
                "numbers": {"type": "array", "items": {"type": "integer"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "left": {"type": "object", "properties": {"name": {"type": "string"}}},
                "right": {"type": "object", "properties": {"name": {"type": "string"}}},
                "items": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                "embedded": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "x-kubernetes-preserve-unknown-fields": true},
                "namespace": {"type": "string"},
                "a-b": {"type": "string"},
                "c.d/e": {"type": "string"},
            }},
        },
    });
    schema["properties"]["spec"]["x-kubernetes-validations"] = json!([rule]);
    let place = "properties.spec.x-kubernetes-validations[0].";
    lint_structure(&schema).to_string().replace(place, "")
}

fn rule(text: &str) -> Value {
    json!({"rule": text})
}

#[test]
fn rules_that_kubernetes_compiles_are_accepted() {
    let rules = [
        "self.int + 1 > 2 && self.int > 1.5 && self.double < 3 && self.double >= 1u",
        "-self.int < 0 && self.int % 2 == 0 && self.double / 2.0 == 1.0",
        "self.text == 'a' || self.text + 'b' == 'ab' || self.text < 'c'",
        "self.bytes == b'a' && size(self.bytes) == 1",
        "self.when < timestamp('2020-01-01T00:00:00Z') + self.span && self.when.getFullYear() == 2020",
        "self.when - self.when == duration('0s') && self.span > duration('1h30m')",
        "type(self.port) == string ? self.port.matches('^[0-9]+%$') : self.port < 5",
        "self.port == 'a' || self.port == 1 || self.port + 1 == 2",
        "self.loose.known == 1 && has(self.loose)",
        "self.texts.all(t, t != '') && self.texts.exists(t, t.startsWith('a'))",
        "self.texts.map(t, t.size()).filter(n, n > 1).exists_one(n, n == 2)",
        "self.texts.map(t, t != '', t + 'x') == ['x'] && self.texts + ['a'] == ['a']",
        "self.texts == [] || self.texts[0] == 'a' || 'a' in self.texts",
        "self.numbers.sum() == 1 && self.numbers.max() > 0 && self.numbers.isSorted()",
        "self.numbers.indexOf(1) == 0 && self.texts.join(',') == 'a,b'",
        "self.labels.all(k, self.labels[k] != '') && 'a' in self.labels && self.labels.a == 'b'",
        "has(self.labels.a) && self.labels['b'] == 'c' && size(self.labels) == 1",
        "self.left == self.left && self == oldSelf && self.left.name == self.right.name",
        "self.items.all(i, has(i.name) && self.items.exists(j, j.name == i.name && j == i))",
        "self.items[0] == null || self.left != null || self.when != null",
        "self.embedded.metadata.name == 'x' && self.embedded.kind == 'Pod'",
        "self.__namespace__ == '' && self.a__dash__b == '' && self.c__dot__d__slash__e == ''",
        "(self.bool ? self.int : 2) == 2 && (self.bool ? [] : self.texts) == ['a']",
        "self.?text.orValue('') == ''",
        "self.?left.name.orValue('x') == 'x' && self.?left.?name.hasValue()",
        "self.?text.optMap(t, t + 'x').orValue('') != '' && self.labels[?'a'].orValue('b') == 'b'",
        "optional.of(1).value() == 1 && optional.none().orValue('a') == 'a' && [?self.?text].size() == 1",
        "{'a': 1}.a == 1 && {?'b': self.?int}.size() == 1 && {} == {'a': 'b'}",
        "sets.contains(self.texts, ['a']) && [[1], [2]].flatten() == [1, 2] && lists.range(2) == [0, 1]",
        "isURL(self.text) && url(self.text).getHost() == 'x' && url(self.text).getQuery()['a'] == ['b']",
        "isIP(self.text) && ip(self.text).family() == 4 && ip.isCanonical(self.text)",
        "cidr(self.text).containsIP(self.text) && cidr(self.text).containsCIDR(cidr('10.0.0.0/8'))",
        "quantity(self.text).add(quantity('1')).isGreaterThan(quantity('2')) && quantity('1') == quantity('1')",
        "semver(self.text).major() > 1 && !isSemver('v1', true) && semver('1.0.0').isLessThan(semver('2.0.0'))",
        "!format.dns1123Label().validate(self.text).hasValue() && format.named('uuid').hasValue()",
        "self.text.find('[0-9]+') == '' && self.text.findAll('a', 2).size() == 0 && '%s'.format([self.int]) == '1'",
        "self.texts.all(i, t, i < 5 && t != '') && self.labels.exists(k, v, k == v)",
        "self.texts.transformList(i, t, i > 0, t + 'x') == ['x'] && self.labels.transformMap(k, v, v + k) == {}",
        "self.labels.transformMapEntry(k, v, {v: k}) == {'a': 'b'} && self.items.sortBy(i, i.name)[0].name == 'a'",
        "string(self.int) == '1' && int(self.text) == 1 && dyn(self.int) == 'a' && bool('true')",
        "type(self.int) == int && type(self.when) == google.protobuf.Timestamp && type(null) == null_type",
        "self.texts.exists(self, self == 'a')",
        "self.text.matches('^a{$') || self.text.matches('^[a-z]{2,3}$')",
    ];
    for text in rules {
        assert_eq!(found(&rule(text)), "", "{text}");
    }
}

#[test]
fn rules_that_kubernetes_does_not_compile_are_refused() {
    let cases = [
        ("self.int", "rule: must evaluate to bool, not to int"),
        ("self.port", "rule: must evaluate to bool, not to dyn"),
        ("self.text + 1 == 'a1'", "rule: found no matching overload for '_+_' applied to '(string, int)'"),
        ("self.int == 1.0", "rule: found no matching overload for '_==_' applied to '(int, double)'; convert one"),
        ("self.int + 1.0 > 2.0", "rule: found no matching overload for '_+_' applied to '(int, double)'"),
        (
            "self.text == null",
            "rule: found no matching overload for '_==_' applied to '(string, null)'; ask with has()",
        ),
        ("self.text > 1", "rule: found no matching overload for '_>_' applied to '(string, int)'"),
        ("self.texts == 'a'", "rule: found no matching overload for '_==_' applied to '(list(string), string)'"),
        ("1 in self.texts", "rule: found no matching overload for '@in' applied to '(int, list(string))'"),
        (
            "self.labels[0] == 'a'",
            "rule: found no matching overload for '_[_]' applied to '(map(string, string), int)'",
        ),
        ("self.left == self.right", "rule: found no matching overload for '_==_' applied to '(object, object)'"),
        ("size(self.double) == 1", "rule: found no matching overload for 'size' applied to '(double)'"),
        ("self.int.startsWith('a')", "rule: found no matching overload for 'startsWith' applied to 'int.(string)'"),
        ("self.text.matches(1)", "rule: found no matching overload for 'matches' applied to 'string.(int)'"),
        ("self.texts.sum() == 'a'", "rule: found no matching overload for 'sum' applied to 'list(string).()'"),
        ("self.bool && self.int", "rule: expected type 'bool' but found 'int'"),
        ("!self.text", "rule: found no matching overload for '!_' applied to '(string)'"),
        ("self.bool ? 'a' : 1", "rule: found no matching overload for '_?_:_' applied to '(bool, string, int)'"),
        ("self.text ? true : false", "rule: found no matching overload for '_?_:_' applied to '(string, bool, bool)'"),
        ("self.texts.all(t, t > 1)", "rule: found no matching overload for '_>_' applied to '(string, int)'"),
        ("self.texts.all(t, t)", "rule: expected type 'bool' but found 'string'"),
        ("self.items.all(i, i.nmae == '')", "rule: undefined field 'nmae'; did you mean \"name\"?"),
        ("self.text.all(t, true)", "rule: expression of type 'string' cannot be range of a comprehension"),
        ("self.left.all(k, true)", "rule: expression of type 'object' cannot be range of a comprehension"),
        ("self.text.size == 1", "rule: type 'string' does not support field selection"),
        ("has(self.text.x)", "rule: type 'string' does not support field selection"),
        ("has(self.other)", "rule: undefined field 'other'"),
        ("has(self.any) && has(self.anys)", "rule: undefined field 'any'"),
        ("self.loose.unknown == 1", "rule: undefined field 'unknown'; did you mean \"known\"?"),
        ("self.namespace == ''", "rule: undefined field 'namespace'; write it escaped, as __namespace__"),
        ("self.metadata.name == ''", "rule: undefined field 'metadata'"),
        ("self.?nope.hasValue()", "rule: undefined field 'nope'"),
        ("self[?'text'].hasValue()", "rule: found no matching overload for '_[?_]' applied to '(object, string)'"),
        (
            "self.?text == 'a'",
            "rule: found no matching overload for '_==_' applied to '(optional_type(string), string)'; take",
        ),
        (
            "self.?text.orValue(1) == 1",
            "rule: found no matching overload for 'orValue' applied to 'optional_type(string).(int)'",
        ),
        ("[1, 'a'].size() == 2", "rule: expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'c'}.size() == 2", "rule: expected type 'int' but found 'string'"),
        ("[?self.text].size() == 1", "rule: expected type 'optional_type(string)' but found 'string'"),
        ("object.name == ''", "rule: undeclared reference to 'object'; use self or oldSelf"),
        ("nonsense(self.int)", "rule: undeclared reference to 'nonsense'"),
        ("math.greatest(1, 2) == 2", "rule: undeclared reference to 'greatest'"),
        ("cel.bind(x, 1, x == 1)", "rule: undeclared reference to 'bind'"),
        ("self.text.reverse() == ''", "rule: found no matching overload for 'reverse' applied to 'string.()'"),
        (
            "quantity(self.text) > 1",
            "rule: found no matching overload for '_>_' applied to '(kubernetes.Quantity, int)'",
        ),
        ("duration('1d') == self.span", "rule: invalid duration argument: \"1d\""),
        ("timestamp('2020-01-01') == self.when", "rule: invalid timestamp argument: \"2020-01-01\""),
        ("self.text.matches('(')", "rule: invalid matches argument: \"(\""),
    ];
    for (text, expected) in cases {
        let found = found(&rule(text));
        assert!(found.starts_with(expected), "{text}: {found:?} should start with {expected:?}");
    }
}

#[test]
fn a_message_is_a_text_and_an_optional_old_self_is_an_optional() {
    let message = |text: &str| json!({"rule": "self.int > 1", "messageExpression": text});
    assert_eq!(found(&message("'is ' + string(self.int)")), "");
    assert!(found(&message("self.int")).starts_with("messageExpression: must evaluate to string, not to int"));
    assert!(found(&message("'is ' + self.int")).starts_with("messageExpression: found no matching overload for '_+_'"));
    assert!(found(&message("self.nit")).starts_with("messageExpression: undefined field 'nit'"));
    let optional = |text: &str| json!({"rule": text, "optionalOldSelf": true});
    for text in [
        "self.int >= oldSelf.int.value()",
        "self.left == oldSelf.left.value()",
        "self.left.name == oldSelf.left.name.orValue('a')",
        "oldSelf.hasValue() ? self.int >= oldSelf.value().int : true",
        "self == oldSelf.orValue(self)",
    ] {
        assert_eq!(found(&optional(text)), "", "{text}");
    }
    assert!(found(&optional("self.int >= oldSelf.int")).contains("applied to '(int, optional_type(int))'"));
    assert!(found(&optional("self.int >= oldSelf.text.orValue(0)")).contains("'orValue'"));
}

#[test]
fn what_no_rule_can_see_can_have_none() {
    let blind = json!({"type": "object", "properties": {"spec": {
        "type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true},
        "x-kubernetes-validations": [{"rule": "self.size() > 1"}],
    }}});
    let found = lint_structure(&blind).to_string();
    assert!(found.starts_with("properties.spec.x-kubernetes-validations: cannot be checked by rules"), "{found}");
}
