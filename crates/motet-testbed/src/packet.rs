//! How many bytes a packet takes on a line. A TUN device gives packets behind a virtio-net header, and often many TCP segments
//! as one packet.

/// The length of the virtio-net header before each packet.
pub const HEADER: usize = 10;
/// What Ethernet adds to each segment: preamble, header, checksum and the gap behind it.
const ETHERNET: u64 = 38;
const TCP: u8 = 6;

/// The bytes of a packet on the line: those of all its segments, each with the IP and TCP headers that the packet has only
/// once, and with Ethernet's.
#[must_use]
pub fn line_bytes(packet: &[u8]) -> u64 {
    let ip = packet.get(HEADER..).unwrap_or_default();
    let segment = match packet {
        [_, kind, _, _, low, high, ..] if *kind != 0 => {
            u64::from(u16::from_le_bytes([*low, *high]))
        }
        _ => 0,
    };
    let (all, headers) = (ip.len() as u64, headers(ip) as u64);
    if segment == 0 {
        return all + ETHERNET;
    }
    let count = all.saturating_sub(headers).div_ceil(segment).max(1);
    all + (count - 1) * headers + count * ETHERNET
}

/// The length of the headers of an IPv4 packet, and of TCP if it is that.
fn headers(ip: &[u8]) -> usize {
    let Some(first) = ip.first() else { return 0 };
    let own = usize::from(first & 15) * 4;
    let tcp = ip.get(9) == Some(&TCP);
    let offset = ip.get(own + 12).filter(|_| tcp).map_or(0, |it| usize::from(it >> 4) * 4);
    (own + offset).min(ip.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(segment: u16, payload: usize) -> Vec<u8> {
        let mut packet = vec![0; HEADER + 40 + payload];
        packet[1] = u8::from(segment > 0);
        packet[4..6].copy_from_slice(&segment.to_le_bytes());
        packet[HEADER] = 0x45;
        packet[HEADER + 9] = TCP;
        packet[HEADER + 32] = 0x50;
        packet
    }

    #[test]
    fn segments_are_counted_with_their_headers() {
        assert_eq!(line_bytes(&packet(0, 1460)), 1500 + 38);
        assert_eq!(line_bytes(&packet(1460, 1460)), 1500 + 38);
        assert_eq!(line_bytes(&packet(1460, 3 * 1460)), 3 * (1500 + 38));
        assert_eq!(line_bytes(&packet(1460, 1461)), 1500 + 41 + 2 * 38);
        // Whatever comes, it is not less than there is and never ends the process.
        for len in 0..60 {
            assert!(line_bytes(&vec![0xff; len]) >= len.saturating_sub(HEADER) as u64);
        }
    }
}
