//! The numbers that Kubernetes' own tests pin.
#![expect(clippy::needless_pass_by_value, reason = "the helpers take JSON literals")]

use serde_json::{Value, json};

use super::estimate;
use crate::cel;
use crate::lint::typing::{Decls, Type, check};
use crate::path::Path;

fn cost(schema: &Value, rule: &str) -> u64 {
    let (decls, root) = Decls::of(schema, false, &Path::ROOT).unwrap_or_else(|| panic!("{schema} has no type"));
    let parsed = cel::parse_plainly(rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
    let checked = check(parsed, &decls, root, false);
    assert_eq!(checked.faults, [], "{rule}");
    assert_eq!(*checked.result(), Type::Bool, "{rule}");
    estimate(&checked, &decls, root).cost
}

fn costs(schema: Value, cases: &[(&str, u64)]) {
    for (rule, expected) in cases {
        assert_eq!(cost(&schema, rule), *expected, "{rule}");
    }
}

/// An object whose fields `val1`, `val2` and so on are of these schemas.
fn vals(schemas: &[Value]) -> Value {
    object(schemas.iter().enumerate().map(|(i, schema)| (format!("val{}", i + 1), schema.clone())).collect())
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn of(kind: &str) -> Value {
    match kind {
        "int-or-string" => json!({"x-kubernetes-int-or-string": true}),
        "byte" | "duration" | "date" | "date-time" => json!({"type": "string", "format": kind}),
        _ => json!({"type": kind}),
    }
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn map(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

fn with(mut schema: Value, keyword: &str, value: u64) -> Value {
    schema[keyword] = json!(value);
    schema
}

#[test]
fn scalars_are_cheap_and_text_costs_by_its_length() {
    let numbers = ["integer", "integer", "integer", "number"].map(of);
    costs(
        vals(&numbers),
        &[
            ("self.val1 == self.val2", 4),
            ("type(self.val1) == int", 4),
            ("self.val3 + 1 == 2147483647 + 1", 5),
            ("double(self.val1) < self.val4", 6),
            ("double(5) < 10.0", 2),
            ("self.val4 == 1.0", 2),
            ("self.val1 > -1", 3),
        ],
    );
    costs(
        vals(&[of("string"), of("string")]),
        &[
            ("self.val1 == self.val2 && self.val1 == 'Rook takes x' && self.val2 == 'Rook takes x'", 314_585),
            ("self.val1.startsWith('Rook')", 3),
            ("!self.val1.startsWith('knight')", 4),
            ("self.val1.matches('^[^0-9]*$')", 943_721),
            ("!self.val1.matches('^[0-9]*$')", 629_149),
            ("type(self.val1) == string", 4),
            ("size(self.val1) == 12", 4),
            ("self.val1.charAt(3) == 'k'", 4),
            ("self.val1.indexOf('o') == 1", 314_576),
            ("self.val1.indexOf('o', 2) == 2", 314_576),
            ("self.val1.replace(' ', 'x') == 'Rookxtakesxx'", 629_150),
            ("self.val1.split(' ') == ['Rook', 'takes', 'x']", 629_159),
            ("self.val1.split(' ', 2) == ['Rook', 'takes x']", 629_159),
            ("self.val1.substring(5) == 'takes x'", 314_576),
            ("self.val1.substring(4, 10).trim() == 'takes'", 629_149),
            ("self.val1.upperAscii() == 'ROOK TAKES X'", 314_577),
            ("self.val1.lowerAscii() == self.val1.lowerAscii()", 943_723),
            ("isQuantity(self.val1)", 314_575),
            ("isQuantity('200M')", 1),
            ("quantity(self.val1).isLessThan(quantity(self.val2))", 629_151),
            ("quantity('200M').compareTo(quantity('0.2G')) == 0", 4),
            ("quantity(self.val1).isInteger()", 314_576),
        ],
    );
    costs(vals(&[of("byte"), of("byte")]), &[("self.val1 == self.val2", 314_577), ("self.val1 == b'AB'", 3)]);
    costs(
        vals(&[of("duration"), of("date-time")]),
        &[
            ("self.val1 == duration('1h2m') + duration('3s4ms')", 6),
            ("self.val1.getHours() == 1", 4),
            ("type(self.val1) == google.protobuf.Duration", 4),
            ("self.val2 == timestamp('2011-08-18T00:00:00.000+01:00') + duration('19h3m37s10ms')", 6),
            ("self.val2.getDate('01:00') == 18", 4),
        ],
    );
    let phase = json!({"type": "string", "enum": ["Pending", "Available", "Bound"]});
    let cases = [("self.phase == 'Pending'", 3), ("self.phase in ['Pending', 'Available']", 14)];
    costs(object(json!({"phase": phase})), &cases);
}

#[test]
fn conversions_keep_or_lose_the_size() {
    let kinds = ["integer", "number", "string", "byte", "string", "duration", "date-time"].map(of);
    costs(
        vals(&kinds),
        &[
            ("int(self.val2) == self.val1", 5),
            ("bytes(self.val3) == self.val4", 629_150),
            ("string(self.val1) == self.val3", 314_578),
            ("string(self.val2) == '10.5'", 4),
            ("string(self.val4) == self.val3", 629_150),
            ("duration(self.val5) == self.val6", 6),
            ("string(self.val7) == self.val3", 314_578),
        ],
    );
}

#[test]
fn lists_cost_by_the_item() {
    costs(
        vals(&[list(of("integer")), list(of("integer"))]),
        &[
            ("self.val1 == self.val2 && self.val1 == [1, 2, 3] && self.val2 == [1, 2, 3]", 157_317),
            ("1 in self.val1", 1_572_865),
            ("self.val2[0] in self.val1", 1_572_868),
            ("!(0 in self.val1)", 1_572_866),
            ("self.val1 + self.val2 == [1, 2, 3, 1, 2, 3]", 16),
            ("self.val1 + [4, 5] == [1, 2, 3, 4, 5]", 24),
            ("has(self.val1) && has(self.val2)", 2),
            ("self.val1.all(k, size(self.val1) > 0)", 11_010_044),
            ("self.val1.exists_one(k, self.val1 == [2])", 23_592_949),
            ("size(self.val1.filter(k, size(self.val1) > 1)) == 1", 26_738_686),
            ("self.val1.all(e, e > 0)", 7_864_318),
            ("self.val1.exists(e, e > 2)", 9_437_181),
            ("self.val1.exists_one(e, e > 4)", 6_291_456),
            ("size(self.val1.filter(e, e%2 == 0)) == 3", 25_165_823),
            ("self.val1.map(e, e * 20).filter(e, e > 50).exists(e, e == 60)", 53_477_367),
            ("self.val1.map(e, e * 20).filter(e, e > 50).exists_one(e, e == 60)", 50_331_642),
        ],
    );
    let item = object(json!({"k": of("string"), "v": of("string"), "v2": of("string")}));
    costs(
        object(json!({"listMap": list(item)})),
        &[
            ("has(self.listMap[0].v)", 3),
            ("self.listMap.all(m, m.k.startsWith('a'))", 6_291_453),
            ("self.listMap.all(m, !has(m.v2) || m.v2 == 'z')", 8_388_603),
            ("self.listMap.exists(m, m.k.endsWith('1'))", 7_340_028),
            ("self.listMap.exists_one(m, m.k == 'a3')", 5_242_879),
            ("size(self.listMap.filter(m, m.k == 'a1')) == 1", 16_777_215),
            ("self.listMap.exists(m, m.k == 'a1' && m.v == 'b1')", 10_485_753),
            ("self.listMap.map(m, m.v).exists(v, v == 'b1')", 19_922_939),
            ("self.listMap.map(m, has(m.v2) && m.v2 == 'z', m.v2).size() == 1", 18_874_365),
            ("self.listMap.filter(m, has(m.v2) && m.v2 == 'z').map(m, m.v2).size() == 1", 32_505_851),
            ("self.listMap[0] == self.listMap[1]", 6),
        ],
    );
}

#[test]
fn maps_cost_by_the_entry_and_objects_by_the_field() {
    costs(
        object(
            json!({"val": map(of("integer")), "texts": map(of("string")), "a": object(json!({"b": of("integer")}))}),
        ),
        &[
            ("!('a' in self.val)", 4),
            ("has(self.val.b)", 2),
            ("self.val.all(k, self.val[k] > 0)", 3_595_115),
            ("self.val.exists_one(k, self.val[k] == 2)", 2_696_338),
            ("size(self.val.filter(k, self.val[k] > 1)) == 1", 8_089_017),
            ("self.texts == self.texts", 39_326),
            ("self.texts == {'k1': 'a', 'k2': 'b'}", 33),
            ("self.texts.all(k, size(self.texts) > 0)", 2_752_508),
            ("has(self.a.b)", 2),
            ("!(has(self.a) && has(self.a.b))", 4),
        ],
    );
    let small = |schema: Value, keyword: &str| with(schema, keyword, 10);
    let inner = small(map(of("string")), "maxProperties");
    costs(
        object(json!({
            "mapOfMap": small(map(inner.clone()), "maxProperties"),
            "listOfMap": small(list(inner), "maxItems"),
        })),
        &[
            ("self.mapOfMap['x']['y'] == 'b'", 5),
            ("self.listOfMap[0]['z'] == 'g'", 5),
            ("self.mapOfMap.map(k, k).map(k, k).size() == 1", 286),
            ("self.mapOfMap.map(k, self.mapOfMap[k].map(m, m)).size() == 1", 1585),
            ("self.listOfMap.map(e, e.map(m, m)).size() == 1", 1555),
        ],
    );
}

#[test]
fn dynamic_values_and_optionals_are_of_any_size() {
    costs(
        object(json!({"min": of("int-or-string"), "current": of("integer"), "available": of("integer")})),
        &[
            ("type(self.min) == int ? self.min == 1 : self.min == '25%'", 7),
            ("self.min != ['anything']", 13),
            ("type(self.min) == string && self.min.matches(r'(\\d+(\\.\\d+)?%)')", 1_258_298),
            (
                "type(self.min) == int ? self.current <= self.min : double(self.current) / double(self.available) >= \
                 double(self.min.replace('%', '')) / 100.0",
                629_162,
            ),
        ],
    );
    let inner = object(json!({"field": of("string"), "absent": of("string")}));
    costs(
        object(json!({"obj": inner, "m": map(of("string")), "l": list(of("string"))})),
        &[
            ("optional.of('a') != optional.of('b')", 1_844_674_407_370_955_266),
            ("optional.of('a').hasValue()", 2),
            ("optional.of('a').or(optional.of('a')).hasValue()", 4),
            ("self.obj.?field == optional.of('a')", 1_844_674_407_370_955_268),
            ("self.obj.?field.orValue('v') == 'a'", 5),
            ("self.m[?'k'] == optional.of('v')", 1_844_674_407_370_955_268),
            ("self.l[?0] == optional.of('a')", 1_844_674_407_370_955_268),
        ],
    );
}

/// A rule, where it stands, what it costs there, and what with bounds of some size.
#[test]
fn a_schema_without_bounds_is_as_large_as_a_request() {
    let elements = |kind: &str| list(of(kind));
    let entries = |kind: &str| map(of(kind));
    let bounded = |schema: &Value, size: u64| {
        let keyword = match schema["type"].as_str() {
            Some("array") => "maxItems",
            Some("object") => "maxProperties",
            _ => "maxLength",
        };
        with(schema.clone(), keyword, size)
    };
    let nested = list(map(json!({
        "type": "object", "required": ["required"], "properties": {"required": of("string")},
    })));
    let all = "self.all(x, true)";
    let cases = [
        (elements("number"), all, 4_718_591, 10, 32),
        (elements("string"), all, 3_145_727, 20, 62),
        (elements("boolean"), all, 1_887_437, 5, 17),
        (elements("int-or-string"), all, 4_718_591, 10, 32),
        (elements("duration"), all, 2_359_295, 5, 17),
        (elements("date"), all, 725_936, 15, 47),
        (elements("date-time"), all, 428_963, 25, 77),
        (list(elements("number")), all, 3_145_727, 100, 302),
        (entries("number"), all, 1_348_169, 10, 32),
        (entries("string"), all, 1_179_647, 3, 11),
        (entries("boolean"), all, 943_718, 100, 302),
        (entries("date-time"), all, 349_526, 25, 77),
        (entries("number"), "has(self.x)", 1, 100, 1),
        (entries("integer"), "oldSelf.size() == self.size()", 5, 10, 5),
        (entries("date-time"), "self['a'] == self['b']", 8, 7, 8),
        (of("string"), "self.contains('test')", 314_574, 10, 5),
        (of("string"), "self.startsWith('test')", 2, 15, 2),
        (of("string"), "size(self + 'hello') > size('hello')", 314_578, 4, 7),
        (of("string"), "self.matches('x')", 314_574, 50, 22),
        (of("string"), "''.matches('(((((((((())))))))))[0-9]')", 7, 10, 7),
        (of("string"), "self.matches('')", 1, 100, 1),
        (of("string"), "self.find('[0-9]+') == ''", 629_147, 10, 11),
        (of("string"), "self.lowerAscii() == 'lower!'", 314_575, 10, 6),
        (of("string"), "self == 'x'", 2, 0, 1),
        (elements("number"), "self[1] == 0.0", 2, 5000, 2),
        (elements("string"), "self[1] == self[1]", 314_577, 8, 314_577),
        (elements("number"), "self.all(x, x == 0.0)", 6_291_454, 6_291_456, 25_165_826),
        (elements("int-or-string"), "self[0] == 5", 3, 10, 3),
        (elements("number"), "self.all(x, self.all(y, true))", 12_369_500_864_512, 10, 352),
        (nested, "self.all(x, x['y'].required == 'z')", 7_340_027, 10, 72),
        (json!({"type": "string", "enum": ["A", "LongValue"]}), "self.contains('A')", 2, 1000, 401),
    ];
    for (schema, rule, open, size, closed) in cases {
        if open < 1_000_000_000 {
            assert_eq!(cost(&schema, rule), open, "{schema} {rule}");
        } else {
            assert!(cost(&schema, rule) > 100_000_000, "{schema} {rule}");
        }
        assert_eq!(cost(&bounded(&schema, size), rule), closed, "{schema} with {size}: {rule}");
    }
    let texts = |size: u64| with(list(with(of("string"), "maxLength", size)), "maxItems", size);
    assert_eq!(cost(&texts(10), "self.join(' ') == 'aa bb'"), 43);
    assert_eq!(cost(&elements("string"), "self.join(' ') == 'aa bb'"), 329_853_068_905);
    assert_eq!(cost(&texts(10), "self.isSorted() == true"), 52);
    assert_eq!(cost(&elements("string"), "self.isSorted() == true"), 329_854_432_052);
    let part = |size: u64| with(of("string"), "maxLength", size);
    let replaced = object(json!({"str": part(4), "before": part(2), "after": part(4)}));
    assert_eq!(cost(&replaced, "self.str.replace(self.before, self.after) == 'does not matter'"), 12);
    let split = object(json!({"str": part(10), "separator": part(10)}));
    assert_eq!(cost(&split, "self.str.split(self.separator) == []"), 22);
}

#[test]
fn loops_of_two_variables_and_sorting_have_costs_too() {
    let small = with(list(of("integer")), "maxItems", 10);
    // 2 for the condition, 1 for the gathered value and 3 for the test, ten times; 2 around it.
    assert_eq!(cost(&small, "self.all(i, v, i < v)"), 10 * 6 + 2);
    assert_eq!(cost(&small, "self.exists(i, v, i < v)"), 10 * 7 + 2);
    // Sorting compares every item with every other: 2 x 10 x 10, and the new list.
    assert_eq!(cost(&small, "self.sort() == self"), 1 + 200 + 11 + 1 + 1);
    assert_eq!(cost(&small, "sets.contains(self, [1, 2])"), 1 + 10 + 20 + 1);
}
