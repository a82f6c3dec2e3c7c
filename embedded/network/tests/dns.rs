//! The DNS server over real sockets, its zone made from objects of a real API.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use c5c3_harness::TestCluster;
use c5c3_network::dns::{self, Listener, Upstream};
use hickory_proto::op::{Edns, Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio_util::sync::{CancellationToken, DropGuard};

const DEADLINE: Duration = Duration::from_mins(1);

struct Bed {
    cluster: TestCluster,
    address: SocketAddr,
    _stop: DropGuard,
}

impl Bed {
    async fn new(upstream: Upstream) -> Self {
        let cluster = TestCluster::in_process().await.unwrap();
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let (address, client, stop) = (listener.address(), cluster.client(), CancellationToken::new());
        let stopped = stop.clone();
        tokio::spawn(async move { dns::run(client, listener, "cluster.local", upstream, stopped).await.unwrap() });
        Self { cluster, address, _stop: stop.drop_guard() }
    }

    async fn service(&self, name: &str, spec: Value) {
        let api: Api<Service> = Api::namespaced(self.cluster.client(), "default");
        let object = json!({"metadata": {"name": name}, "spec": spec});
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// Endpoints of a Service, numbered.
    async fn endpoints(&self, service: &str, count: u8) {
        let endpoints: Vec<_> = (1..=count)
            .map(|i| json!({"addresses": [format!("10.8.0.{i}")], "hostname": format!("{service}-{i}")}))
            .collect();
        let object = json!({
            "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "endpoints": endpoints, "ports": [],
        });
        let api: Api<EndpointSlice> = Api::namespaced(self.cluster.client(), "default");
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    async fn udp(&self, message: &Message) -> Message {
        let bytes = exchange(self.address, &message.to_vec().unwrap()).await;
        let limit = usize::from(message.max_payload());
        assert!(bytes.len() <= limit, "{} bytes are more than the {limit} that were asked for", bytes.len());
        Message::from_vec(&bytes).unwrap()
    }

    async fn tcp(&self, messages: &[Message]) -> Vec<Message> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut answers = Vec::new();
        for message in messages {
            let bytes = message.to_vec().unwrap();
            stream.write_u16(bytes.len().try_into().unwrap()).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            let mut answer = vec![0; usize::from(stream.read_u16().await.unwrap())];
            stream.read_exact(&mut answer).await.unwrap();
            answers.push(Message::from_vec(&answer).unwrap());
        }
        answers
    }

    /// Asks until the answer has as many records, and gives it.
    async fn until(&self, name: &str, records: usize) -> Message {
        let start = Instant::now();
        loop {
            let answer = self.udp(&question(name, RecordType::A)).await;
            if answer.answers.len() == records {
                return answer;
            }
            assert!(start.elapsed() < DEADLINE, "{name} does not get {records} records: {answer}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn exchange(server: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    socket.connect(server).await.unwrap();
    socket.send(bytes).await.unwrap();
    let mut buffer = vec![0; 65_535];
    let length = tokio::time::timeout(DEADLINE, socket.recv(&mut buffer)).await.expect("an answer").unwrap();
    buffer.truncate(length);
    buffer
}

fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.id = 4711;
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

fn addresses(message: &Message) -> Vec<String> {
    let mut addresses: Vec<_> = message.answers.iter().map(|record| record.data.to_string()).collect();
    addresses.sort();
    addresses
}

#[tokio::test]
async fn names_come_and_go_with_their_objects() {
    let bed = Bed::new(Upstream::default()).await;
    bed.service("web", json!({"clusterIP": "10.125.0.80", "clusterIPs": ["10.125.0.80"], "ports": [{"port": 80}]}))
        .await;
    let answer = bed.until("Web.default.svc.cluster.local.", 1).await;
    assert_eq!(addresses(&answer), ["10.125.0.80"]);
    assert_eq!(answer.metadata.id, 4711);
    assert!(answer.metadata.authoritative && answer.metadata.recursion_available && answer.metadata.recursion_desired);
    assert_eq!(answer.answers[0].name.to_ascii(), "Web.default.svc.cluster.local.", "in the client's own spelling");

    let api: Api<Service> = Api::namespaced(bed.cluster.client(), "default");
    api.delete("web", &DeleteParams::default()).await.unwrap();
    let gone = bed.until("web.default.svc.cluster.local.", 0).await;
    assert_eq!(gone.metadata.response_code, ResponseCode::NXDomain);

    let namespaces: Api<Namespace> = Api::all(bed.cluster.client());
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    namespaces.create(&PostParams::default(), &shop).await.unwrap();
    let pod = bed.until("10-8-0-1.shop.pod.cluster.local.", 1).await;
    assert_eq!(addresses(&pod), ["10.8.0.1"]);
}

#[tokio::test]
async fn what_does_not_fit_a_datagram_is_cut_and_complete_by_tcp() {
    let bed = Bed::new(Upstream::default()).await;
    bed.service("db", json!({"clusterIP": "None", "clusterIPs": ["None"]})).await;
    bed.endpoints("db", 100).await;
    let name = "db.default.svc.cluster.local.";
    let start = Instant::now();
    let cut = loop {
        let answer = bed.udp(&question(name, RecordType::A)).await;
        if answer.metadata.truncation {
            break answer;
        }
        assert!(start.elapsed() < DEADLINE, "{answer}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(cut.answers.len() > 20, "a client that knows no TCP gets what there is room for: {cut}");
    let mut roomy = question(name, RecordType::A);
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    roomy.set_edns(edns);
    let more = bed.udp(&roomy).await;
    assert!(more.answers.len() > cut.answers.len() && more.edns.is_some(), "{more}");
    let complete =
        bed.tcp(&[question(name, RecordType::A), question("db-7.db.default.svc.cluster.local.", RecordType::A)]).await;
    assert_eq!(complete[0].answers.len(), 100);
    assert!(!complete[0].metadata.truncation);
    assert_eq!(addresses(&complete[1]), ["10.8.0.7"], "one connection takes several questions");
}

/// A resolver that has one address for every name.
async fn resolver() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 4096];
        loop {
            let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
            let mut message = Message::from_vec(&buffer[..length]).unwrap().into_response();
            let name = message.queries[0].name().clone();
            message.add_answer(Record::from_rdata(name, 60, RData::A(A(Ipv4Addr::new(192, 0, 2, 7)))));
            socket.send_to(&message.to_vec().unwrap(), client).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn other_names_are_asked_of_resolvers_and_aliases_are_followed_there() {
    let bed = Bed::new(Upstream::new(vec![resolver().await])).await;
    let answer = bed.udp(&question("example.org.", RecordType::A)).await;
    assert_eq!(addresses(&answer), ["192.0.2.7"]);
    assert!(!answer.metadata.authoritative);
    bed.service("out", json!({"type": "ExternalName", "externalName": "example.org"})).await;
    let alias = bed.until("out.default.svc.cluster.local.", 2).await;
    assert_eq!(addresses(&alias), ["192.0.2.7", "example.org."]);
}

#[tokio::test]
async fn without_resolvers_other_names_do_not_exist_and_nonsense_is_named_so() {
    let bed = Bed::new(Upstream::default()).await;
    let elsewhere = bed.udp(&question("example.org.", RecordType::A)).await;
    assert_eq!(elsewhere.metadata.response_code, ResponseCode::NXDomain);
    let mut update = question("cluster.local.", RecordType::SOA);
    update.metadata.op_code = OpCode::Status;
    assert_eq!(bed.udp(&update).await.metadata.response_code, ResponseCode::NotImp);
    let mut broken = question("cluster.local.", RecordType::SOA).to_vec().unwrap();
    broken.truncate(15);
    let answer = Message::from_vec(&exchange(bed.address, &broken).await).unwrap();
    assert_eq!((answer.metadata.id, answer.metadata.response_code), (4711, ResponseCode::FormErr));
}

#[tokio::test]
async fn a_client_that_holds_connections_open_keeps_nobody_from_asking() {
    let bed = Bed::new(Upstream::new(Vec::new())).await;
    bed.service("web", json!({"clusterIP": "10.125.7.7", "ports": [{"port": 80}]})).await;
    let name = "web.default.svc.cluster.local.";
    bed.until(name, 1).await;
    // Each is asked over once, so that it is known to be served.
    let mut held = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(bed.address).await.unwrap();
        let bytes = question(name, RecordType::A).to_vec().unwrap();
        stream.write_u16(bytes.len().try_into().unwrap()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        if stream.read_u16().await.is_ok() {
            held.push(stream);
        }
    }
    assert_eq!(held.len(), 16, "connections of one client");
    // By UDP the same client is answered, and by TCP another one.
    assert_eq!(bed.udp(&question(name, RecordType::A)).await.answers.len(), 1);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).unwrap();
    let mut other = socket.connect(bed.address).await.unwrap();
    let bytes = question(name, RecordType::A).to_vec().unwrap();
    other.write_u16(bytes.len().try_into().unwrap()).await.unwrap();
    other.write_all(&bytes).await.unwrap();
    assert!(tokio::time::timeout(DEADLINE, other.read_u16()).await.unwrap().unwrap() > 0);
}

/// A resolver that tells whom it was asked about and answers nobody.
async fn silent_resolver() -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    let (tell, asked) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut buffer = vec![0; 4096];
        loop {
            let (length, _) = socket.recv_from(&mut buffer).await.unwrap();
            let message = Message::from_vec(&buffer[..length]).unwrap();
            let _ = tell.send(message.queries[0].name().to_string());
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_client_whose_questions_nobody_answers_keeps_nobody_from_asking() {
    let (resolver, mut asked) = silent_resolver().await;
    let bed = Bed::new(Upstream::new(vec![resolver])).await;
    let ask = async |client: Ipv4Addr, name: &str| {
        let socket = UdpSocket::bind((client, 0)).await.unwrap();
        socket.send_to(&question(name, RecordType::A).to_vec().unwrap(), bed.address).await.unwrap();
        socket
    };
    for part in 0..8 {
        for number in 0..25 {
            ask(Ipv4Addr::LOCALHOST, &format!("x{part}-{number}.example.org.")).await;
        }
        tokio::task::yield_now().await;
    }
    // Each that is asked holds a socket until the resolver has had its time; the others are passed over.
    let mut next = async || tokio::time::timeout(DEADLINE, asked.recv()).await.expect("a question").unwrap();
    for _ in 0..128 {
        next().await;
    }
    let other = Ipv4Addr::new(127, 0, 0, 2);
    ask(other, "last.example.org.").await;
    let mut of_one = 128;
    while next().await != "last.example.org." {
        of_one += 1;
    }
    assert!(of_one < 200, "{of_one} of 200 questions of one client are asked at once");
    let socket = ask(other, "nothing.default.svc.cluster.local.").await;
    let mut buffer = vec![0; 4096];
    let length = tokio::time::timeout(DEADLINE, socket.recv(&mut buffer)).await.expect("an answer").unwrap();
    assert_eq!(Message::from_vec(&buffer[..length]).unwrap().metadata.response_code, ResponseCode::NXDomain);
}
