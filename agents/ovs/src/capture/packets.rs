//! What the bridge of a capture is told in OpenFlow 1.3, and the packets that it hands over.

use std::time::Duration;

use tokio::time::timeout;

use super::CaptureError;
use crate::openflow::{Message, OpenFlowError, Session, number};
use crate::stale;

/// How many packets a second are handed over at most. Each of them is work for ovs-vswitchd, which also sets up all new flows.
const RATE: u32 = 5000;
/// How many may come at once beyond that.
const BURST: u32 = 500;
const PATIENCE: Duration = Duration::from_secs(5);

/// Types of messages.
const SET_CONFIG: u8 = 9;
const PACKET_IN: u8 = 10;
const FLOW_MOD: u8 = 14;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;
const METER_MOD: u8 = 29;
/// The multipart message that sums up flows.
const AGGREGATE: u16 = 2;

/// The numbers of requests, by which a refusal is recognised.
const CONFIG: u32 = 2;
const METER: u32 = 3;
const FLOW: u32 = 4;
const BARRIER: u32 = 5;

/// A packet as it was handed over.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    pub data: &'a [u8],
    /// How long it was on the wire.
    pub length: u32,
}

/// Has all packets of the bridge handed over to this session, for so long.
pub async fn subscribe(session: &mut Session, time: Duration) -> Result<(), CaptureError> {
    let told = async {
        // Without a length of its own such a session gets no packets.
        session.send(SET_CONFIG, CONFIG, &[0, 0, 0xff, 0xff]).await?;
        session.send(METER_MOD, METER, &meter()).await?;
        session.send(FLOW_MOD, FLOW, &flow(u16::try_from(time.as_secs()).unwrap_or(u16::MAX))).await?;
        session.send(BARRIER_REQUEST, BARRIER, &[]).await?;
        // Packets that come before the reply are not part of the capture.
        while session.next().await?.kind != BARRIER_REPLY {}
        Ok(())
    };
    let told = timeout(PATIENCE, told).await.unwrap_or(Err(OpenFlowError::TimedOut));
    told.map_err(|error| match error {
        OpenFlowError::Refused { id: METER, .. } => CaptureError::NoMeters,
        error => CaptureError::Bridge(error),
    })
}

/// How many packets have come to the bridge, as far as the switch has counted them.
pub async fn passed(session: &mut Session) -> Result<u64, OpenFlowError> {
    let mut passed = 0;
    session.ask(AGGREGATE, &stale::all_flows(), |sums| passed = number(sums, 0).unwrap_or_default()).await?;
    Ok(passed)
}

/// The packet that a message hands over, if it does.
pub fn packet(message: &Message) -> Option<Packet<'_>> {
    /// What is before the match: a buffer, the length, the reason, the table and the cookie.
    const MATCH: usize = 16;
    if message.kind != PACKET_IN {
        return None;
    }
    let matched = usize::from(number::<u16>(&message.body, MATCH + 2)?).next_multiple_of(8);
    let data = message.body.get(MATCH + matched + 2..)?;
    Some(Packet { data, length: number::<u16>(&message.body, 4)?.into() })
}

/// Adds meter 1, which drops what is beyond the rate.
fn meter() -> Vec<u8> {
    const PACKETS_PER_SECOND_WITH_BURST: u16 = 0b110;
    let head = [&[0, 0][..], &PACKETS_PER_SECOND_WITH_BURST.to_be_bytes(), &1u32.to_be_bytes()].concat();
    let band = [&[0, 1, 0, 16][..], &RATE.to_be_bytes(), &BURST.to_be_bytes(), &[0; 4]].concat();
    [head, band].concat()
}

/// Adds a flow for all packets, which ends after so many seconds: through meter 1, to the controller as they are.
fn flow(seconds: u16) -> Vec<u8> {
    const ANY: [u8; 4] = [0xff; 4];
    const CONTROLLER: u32 = 0xffff_fffd;
    let timeouts = [[0; 2], seconds.to_be_bytes()].concat();
    let head = [&[0; 16][..], &[0, 0], &timeouts, &[0, 0], &ANY, &ANY, &ANY, &[0; 4]].concat();
    let no_match = [0, 1, 0, 4, 0, 0, 0, 0];
    let meter = [0, 6, 0, 8, 0, 0, 0, 1];
    let output = [&[0, 0, 0, 16][..], &CONTROLLER.to_be_bytes(), &[0xff, 0xff], &[0; 6]].concat();
    [&head[..], &no_match, &meter, &[0, 4, 0, 24, 0, 0, 0, 0], &output].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_what_follows_the_padded_match() {
        let matched = [&[0, 1, 0, 12][..], &[0x80, 0, 0, 4, 0, 0, 0, 1], &[0; 4]].concat();
        let body = [&[0xff, 0xff, 0xff, 0xff, 5, 220, 1, 0][..], &[0; 8], &matched, &[0, 0], b"frame"].concat();
        let message = Message { kind: PACKET_IN, id: 0, body: body.clone() };
        assert_eq!(packet(&message), Some(Packet { data: b"frame", length: 1500 }));
        assert_eq!(packet(&Message { kind: BARRIER_REPLY, id: 0, body: body.clone() }), None);
        for cut in 0..body.len() - b"frame".len() {
            assert_eq!(packet(&Message { kind: PACKET_IN, id: 0, body: body[..cut].to_vec() }), None, "cut at {cut}");
        }
    }

    #[test]
    fn requests_are_as_long_as_the_protocol_says() {
        assert_eq!(meter().len(), 8 + 16);
        let flow = flow(35);
        assert_eq!((flow.len(), &flow[18..22]), (40 + 8 + 8 + 24, &[0, 0, 0, 35][..]));
    }
}
