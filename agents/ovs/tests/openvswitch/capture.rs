//! Captures: what is in the file, that bounds hold, and that nothing is left behind, not even by one that was killed.

use std::time::{Duration, Instant};

use c5c3_agent_ovs::{CaptureError, CaptureOptions, Captured, Ended, Options, OvsMetrics, capture, run};
use c5c3_api::ovs::OVSNode;
use c5c3_harness::TestCluster;
use kube::api::Api;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::switch::{Switch, until};

/// From 02:00:00:00:00:01 to 02:00:00:00:00:02, an IPv4 packet and letters behind it.
const FRAME: &str = "020000000002020000000001080045000014000000004011000000000000000000004142434445464748494a4b4c4d4e4f505152535455565758";

type Capture = JoinHandle<(Result<Captured, CaptureError>, Vec<u8>)>;

/// A switch with the ports tap0 and tap1.
fn bridged(name: &str) -> Option<Switch> {
    let switch = Switch::start(name)?;
    // Or the links would announce themselves, and be captured.
    switch
        .shell("$IN sh -c 'for of in all default; do echo 1 > /proc/sys/net/ipv6/conf/$of/disable_ipv6; done' || true");
    switch.shell("for tap in tap0 tap1; do $IN ip link add $tap type veth peer name ${tap}p; $IN ip link set ${tap}p up; $IN ip link set $tap up; done");
    switch.vsctl("add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=secure");
    switch.vsctl("add-port br-int tap0 -- add-port br-int tap1");
    Some(switch)
}

fn bounds(switch: &Switch, target: &str) -> CaptureOptions {
    CaptureOptions {
        run: switch.path().into(),
        target: target.into(),
        packets: 3,
        bytes: 1 << 20,
        time: Duration::from_mins(1),
        snap_length: 65535,
    }
}

fn start(bounds: CaptureOptions, stop: &CancellationToken) -> Capture {
    let stop = stop.clone();
    tokio::spawn(async move {
        let mut file = Vec::new();
        (capture(&bounds, &mut file, stop.cancelled()).await, file)
    })
}

/// Sends packets out of tap1 until the capture has enough of them.
async fn send_until_ended(switch: &Switch, running: Capture) -> (Result<Captured, CaptureError>, Vec<u8>) {
    let began = Instant::now();
    while !running.is_finished() {
        assert!(began.elapsed() < Duration::from_secs(50), "no packet is captured");
        send(switch);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.await.unwrap()
}

fn send(switch: &Switch) {
    switch.shell(&format!(
        "ovs-ofctl -O OpenFlow13 packet-out $D/br-int.mgmt 'in_port=LOCAL, packet={FRAME} actions=output:tap1'"
    ));
}

async fn until_mirrored(switch: &Switch) {
    let began = Instant::now();
    while switch.vsctl("--columns=name --bare list mirror").is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30), "there is no mirror");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Bridges, ports and mirrors. Nothing of a capture is among them.
fn is_clean(switch: &Switch) -> bool {
    let listed =
        ["list-br", "list-ports br-int", "--bare --columns=name list mirror", "--bare --columns=name list interface"];
    let said = listed.map(|words| switch.vsctl(words)).join(" ");
    let mut names: Vec<&str> = said.split_whitespace().collect();
    names.sort_unstable();
    names == ["br-int", "br-int", "tap0", "tap0", "tap1", "tap1"]
}

/// The packets of a pcap file: how long they were, and what is kept of them.
fn packets(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert_eq!(number(file), 0xa1b2_c3d4);
    let (mut rest, mut found) = (&file[24..], Vec::new());
    while !rest.is_empty() {
        let (kept, length) = (number(&rest[8..]) as usize, number(&rest[12..]));
        found.push((length, rest[16..16 + kept].to_vec()));
        rest = &rest[16 + kept..];
    }
    found
}

fn frame() -> Vec<u8> {
    (0..FRAME.len()).step_by(2).map(|at| u8::from_str_radix(&FRAME[at..at + 2], 16).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_is_a_file_of_the_packets_of_a_port_or_a_bridge_and_leaves_nothing() {
    let Some(switch) = bridged("file") else { return };
    let stop = CancellationToken::new();
    let wanted = frame();
    for target in ["tap1", "br-int"] {
        let (captured, file) = send_until_ended(&switch, start(bounds(&switch, target), &stop)).await;
        let captured = captured.unwrap();
        assert_eq!((captured.packets, captured.ended), (3, Ended::Packets), "{target}");
        // A switch pads short frames, if it does.
        let found = packets(&file);
        assert_eq!(found.len(), 3);
        assert!(
            found.iter().all(|(length, data)| *length as usize == data.len() && data.starts_with(&wanted)),
            "{found:?}"
        );
        assert!(is_clean(&switch), "{target}");
    }
    // Nothing goes out of tap0.
    let idle = CaptureOptions { time: Duration::from_secs(1), ..bounds(&switch, "tap0") };
    let (captured, file) = send_until_ended(&switch, start(idle, &stop)).await;
    assert_eq!((captured.unwrap().ended, packets(&file)), (Ended::Time, Vec::new()));

    let cut = CaptureOptions { snap_length: 20, bytes: 50, ..bounds(&switch, "tap1") };
    let (captured, file) = send_until_ended(&switch, start(cut, &stop)).await;
    let captured = captured.unwrap();
    assert_eq!((captured.packets, captured.bytes, captured.ended), (2, 40, Ended::Bytes), "three would be 60 bytes");
    assert!(packets(&file).iter().all(|(length, data)| *length as usize >= wanted.len() && *data == wanted[..20]));
    assert!(captured.passed.is_some(), "the switch says how many there were: {captured:?}");
    assert!(is_clean(&switch));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_ends_in_time_though_no_one_reads_and_when_it_is_stopped() {
    let Some(switch) = bridged("ends") else { return };
    // Not even the head of the file fits.
    let (mut file, _reader) = tokio::io::duplex(8);
    let short = CaptureOptions { time: Duration::from_secs(1), ..bounds(&switch, "tap1") };
    let captured = capture(&short, &mut file, std::future::pending()).await.unwrap();
    assert_eq!((captured.packets, captured.ended), (0, Ended::Time));
    assert!(is_clean(&switch));

    let (mut file, reader) = tokio::io::duplex(8);
    drop(reader);
    let captured = capture(&short, &mut file, std::future::pending()).await.unwrap();
    assert_eq!(captured.ended, Ended::ReaderGone);
    assert!(is_clean(&switch));

    let stop = CancellationToken::new();
    let running = start(bounds(&switch, "tap1"), &stop);
    until_mirrored(&switch).await;
    // One at a time; the first goes on.
    let second = start(bounds(&switch, "tap0"), &stop).await.unwrap().0;
    assert!(matches!(second, Err(CaptureError::Busy)), "{second:?}");
    assert!(!running.is_finished());
    stop.cancel();
    assert_eq!(running.await.unwrap().0.unwrap().ended, Ended::Stopped);
    assert!(is_clean(&switch));

    let unknown = start(bounds(&switch, "tap9"), &CancellationToken::new()).await.unwrap().0.unwrap_err();
    assert!(unknown.to_string().starts_with("there is no bridge and no port tap9 on this node"), "{unknown}");
    assert!(is_clean(&switch));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_leaves_a_running_capture_alone_and_removes_what_a_killed_one_left() {
    let Some(switch) = bridged("left") else { return };
    let cluster = TestCluster::start().await.unwrap();
    cluster.install(&c5c3_api::find("ovs.c5c3.io/v1alpha1", "OVSNode").unwrap().crd()).await.unwrap();
    let (metrics, stop) = (OvsMetrics::default(), CancellationToken::new());
    let options = || Options {
        node: "orchard".into(),
        namespace: cluster.namespace().into(),
        run: switch.path().into(),
        controller: switch.path().join("controller.ctl"),
    };
    let agent = tokio::spawn(run(cluster.client(), options(), metrics.clone(), stop.clone()));
    let nodes: Api<OVSNode> = Api::default_namespaced(cluster.client());
    let lists = |node: &OVSNode| node.status.as_ref().map(|status| status.bridges.len());
    until(&nodes, "the switch is seen", |node| lists(node) == Some(1)).await;

    let running = start(bounds(&switch, "tap1"), &stop);
    until_mirrored(&switch).await;
    let (looks, writes) = (metrics.looks(), metrics.writes());
    until(&nodes, "the agent looks twice", |_| metrics.looks() >= looks + 2).await;
    assert_eq!(metrics.writes(), writes, "a capture is no part of the node");
    let (captured, file) = send_until_ended(&switch, running).await;
    assert_eq!((captured.unwrap().ended, packets(&file).len()), (Ended::Packets, 3));

    // The agent removes what is left while it runs.
    let killed = start(bounds(&switch, "tap1"), &stop);
    until_mirrored(&switch).await;
    killed.abort();
    assert!(killed.await.unwrap_err().is_cancelled());
    assert!(!is_clean(&switch), "a killed one removes nothing");
    until(&nodes, "the agent removes it", |_| is_clean(&switch)).await;
    agent.abort();
    assert!(agent.await.unwrap_err().is_cancelled());

    // And so does the next capture, without an agent, and an agent that starts.
    for by_agent in [false, true] {
        let killed = start(bounds(&switch, "br-int"), &stop);
        until_mirrored(&switch).await;
        killed.abort();
        assert!(killed.await.unwrap_err().is_cancelled() && !is_clean(&switch));
        if by_agent {
            let agent = tokio::spawn(run(cluster.client(), options(), metrics.clone(), stop.clone()));
            until(&nodes, "the agent removes it", |_| is_clean(&switch)).await;
            agent.abort();
        } else {
            let (captured, _) = send_until_ended(&switch, start(bounds(&switch, "tap1"), &stop)).await;
            assert_eq!((captured.unwrap().ended, is_clean(&switch)), (Ended::Packets, true));
        }
    }
}
