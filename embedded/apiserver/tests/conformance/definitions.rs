//! CustomResourceDefinitions as Go's generated client sends them.

use http::Method;

use super::Api;

/// A field that holds bytes. Nothing in this definition is longer than one byte can say.
fn field(number: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let length = u16::try_from(value.len()).unwrap();
    let mut bytes =
        vec![number << 3 | 2, u8::try_from(length & 0x7f).unwrap() | 0x80, u8::try_from(length >> 7).unwrap()];
    bytes.extend_from_slice(value);
    bytes
}

/// A number or boolean below 128.
fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

fn definition() -> Vec<u8> {
    // The fields 29 (`properties`) and 20 (`enum`) take two bytes for their numbers.
    let wide = |number: u16, value: Vec<u8>| {
        let key = number << 3 | 2;
        let mut bytes = vec![u8::try_from(key & 0x7f).unwrap() | 0x80, u8::try_from(key >> 7).unwrap()];
        bytes.extend_from_slice(&field(1, value)[1..]);
        bytes
    };
    let size = [field(5, "string"), wide(20, field(1, "\"small\"")), wide(20, field(1, "\"large\""))].concat();
    let size = [size, field(8, field(1, "\"small\""))].concat();
    let spec = [field(5, "object"), wide(29, [field(1, "size"), field(2, size)].concat())].concat();
    let schema = [field(5, "object"), wide(29, [field(1, "spec"), field(2, spec)].concat())].concat();
    let version = [field(1, "v1"), number(2, 1), number(3, 1), field(4, field(1, schema))].concat();
    let names = [field(1, "otters"), field(4, "Otter")].concat();
    let spec = [field(1, "river.example"), field(3, names), field(4, "Namespaced"), field(7, version)].concat();
    let message = [field(1, field(1, "otters.river.example")), field(2, spec)].concat();
    let kind = [field(1, "apiextensions.k8s.io/v1"), field(2, "CustomResourceDefinition")].concat();
    [b"k8s\0".to_vec(), field(1, kind), field(2, message)].concat()
}

#[tokio::test]
async fn a_definition_in_protobuf_is_served() {
    let api = Api::start().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, made) = api.raw(Method::POST, path, "application/vnd.kubernetes.protobuf", definition()).await;
    assert_eq!((code, &made["spec"]["names"]["plural"]), (201, &"otters".into()), "{made}");
    let otters = "/apis/river.example/v1/namespaces/default/otters";
    api.until(otters, |(code, _)| *code == 200).await;
    let otter = |spec| serde_json::json!({"apiVersion": "river.example/v1", "kind": "Otter", "metadata": {"name": "a"}, "spec": spec});
    let (code, refused) = api.post(otters, &otter(serde_json::json!({"size": "huge"}))).await;
    assert_eq!(code, 422, "{refused}");
    let (code, made) = api.post(otters, &otter(serde_json::json!({}))).await;
    assert_eq!((code, &made["spec"]["size"]), (201, &"small".into()));
    api.0.stop().await;
}
