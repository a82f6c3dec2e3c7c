//! The pcap file format, of which we write what every reader takes: microseconds, Ethernet, one byte order.

use jiff::Timestamp;

use super::packets::Packet;

/// The length of what is before each packet.
pub const RECORD_HEAD: usize = 16;

/// The beginning of a file.
pub fn head(snap_length: u32) -> Vec<u8> {
    const MAGIC: u32 = 0xa1b2_c3d4;
    const ETHERNET: u32 = 1;
    let version = [2u16.to_le_bytes(), 4u16.to_le_bytes()].concat();
    [&MAGIC.to_le_bytes()[..], &version, &[0; 8], &snap_length.to_le_bytes(), &ETHERNET.to_le_bytes()].concat()
}

/// A packet as a record: what is kept of it, and how long it was.
pub fn record(seen: Timestamp, packet: &Packet<'_>, snap_length: u32) -> Vec<u8> {
    let kept = packet.data.get(..snap_length as usize).unwrap_or(packet.data);
    // The format has 32 bits for both, which is enough until 2106.
    let seconds = u32::try_from(seen.as_second()).unwrap_or_default();
    let micros = u32::try_from(seen.subsec_microsecond()).unwrap_or_default();
    let length = u32::try_from(kept.len()).unwrap_or(u32::MAX);
    let head = [seconds, micros, length, packet.length.max(length)].map(u32::to_le_bytes).concat();
    [&head, kept].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_begins_as_the_format_says() {
        let wanted = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 96, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(head(96), wanted);
    }

    #[test]
    fn a_packet_is_cut_at_the_snap_length_and_says_how_long_it_was() {
        let seen: Timestamp = "2026-01-01T00:00:01.000002999Z".parse().unwrap();
        let record = record(seen, &Packet { data: b"abcdef", length: 1500 }, 4);
        let numbers: Vec<u32> =
            record[..RECORD_HEAD].chunks(4).map(|four| u32::from_le_bytes(four.try_into().unwrap())).collect();
        assert_eq!(numbers, [1_767_225_601, 2, 4, 1500]);
        assert_eq!(&record[RECORD_HEAD..], b"abcd");
        assert_eq!(super::record(seen, &Packet { data: b"abc", length: 3 }, 65535)[RECORD_HEAD..], *b"abc");
    }
}
