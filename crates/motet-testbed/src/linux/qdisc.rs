//! [`Qdisc`]: what the kernel is told so that it shapes one direction of a WAN link by itself.
//!
//! Two disciplines, at two devices one after the other: `tbf` holds packets back to the rate, in a queue of so many bytes, and `netem` behind it
//! delays and loses them. netem alone has a rate too, but its queue is bounded by packets, of which one may be a single
//! acknowledgement or 64 KiB that TCP sends at once. tbf bounds its queue by bytes, cuts packets larger than its burst into
//! segments, and when the rate changes sends what waits at the new rate.

use motet_units::{Bandwidth, Duration};

use crate::line::Shape;

/// The bytes of the longest Ethernet frame without its checksum, as devices count it.
const FRAME: u64 = 1514;
/// The bytes that a line adds to each frame: preamble, checksum and the gap behind it.
pub(super) const OVERHEAD: u16 = 24;
/// How much may be sent at once after a pause, as a time at the rate. The kernel's timers are late by less; a delay beyond this would
/// not be made up for, and the link would be slower than its rate.
const BURST: Duration = Duration::from_us(250);
/// `PSCHED_TICKS2NS`: the unit of netem's times.
const TICK_PS: u64 = 64_000;
/// netem's limit of packets, more than are ever under way at once: it must not drop any, since tbf has dropped what is too much.
const FLYING: u32 = 1 << 20;
/// `TC_LINKLAYER_ETHERNET` of `linux/pkt_sched.h`.
const ETHERNET: u8 = 1;
/// `TCA_TBF_PARMS`, `TCA_TBF_RATE64` and `TCA_TBF_BURST` of the same.
const PARMS: u16 = 1;
const RATE64: u16 = 4;
const BURST_BYTES: u16 = 6;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    pub kind: &'static str,
    /// The bytes of `TCA_OPTIONS`.
    pub options: Vec<u8>,
}

impl Qdisc {
    /// The discipline for the rate and the queue before it. A link that is down gets a `blackhole` instead, and its queue is dropped.
    pub(super) fn rate(shape: Shape) -> Self {
        if shape.rate.is_zero() {
            return Self { kind: "blackhole", options: Vec::new() };
        }
        let burst = small(shape.rate.bytes_in(BURST).get().max(2 * FRAME));
        // The queue must have room for a whole burst.
        let limit = small(shape.rate.bytes_in(shape.queue).get()).max(burst);
        Self { kind: "tbf", options: tbf(shape.rate, burst, limit) }
    }

    /// The discipline for the delay and the loss.
    pub(super) fn delay(shape: Shape) -> Self {
        let ticks = small((shape.delay.as_ps() + TICK_PS / 2) / TICK_PS);
        let loss = (shape.loss * f64::from(u32::MAX)).round() as u32;
        // `struct tc_netem_qopt`: latency, limit, loss, gap, duplicate, jitter.
        let options = [ticks, FLYING, loss, 0, 0, 0];
        Self { kind: "netem", options: options.into_iter().flat_map(u32::to_ne_bytes).collect() }
    }
}

fn small(it: u64) -> u32 {
    u32::try_from(it).unwrap_or(u32::MAX)
}

/// tbf's options: `struct tc_tbf_qopt`, and attributes for values that do not fit in it.
fn tbf(rate: Bandwidth, burst: u32, limit: u32) -> Vec<u8> {
    let bytes_per_s = (rate.bits_per_s() / 8).max(1);
    // `struct tc_ratespec`: cells of a table that is no longer used, and what each packet takes beside its bytes.
    let mut parms = vec![0, ETHERNET];
    parms.extend(OVERHEAD.to_ne_bytes());
    parms.extend([0; 4]);
    parms.extend(small(bytes_per_s).to_ne_bytes());
    // No other rate for peaks.
    parms.extend([0; 12]);
    parms.extend(limit.to_ne_bytes());
    // The bursts of the rate and of peaks as times. The first is given in bytes below instead.
    parms.extend([0; 8]);
    let mut options = attribute(PARMS, &parms);
    options.extend(attribute(BURST_BYTES, &burst.to_ne_bytes()));
    if bytes_per_s > u64::from(u32::MAX) {
        options.extend(attribute(RATE64, &bytes_per_s.to_ne_bytes()));
    }
    options
}

/// A netlink attribute. All values here are whole words, so none needs padding.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = value.len() as u16 + 4;
    [&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat()
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    fn shape(mbit: u64, queue_ms: u64, loss: f64) -> Shape {
        Shape {
            rate: Bandwidth::from_bits_per_s(mbit * 1_000_000),
            delay: Duration::from_ms(5),
            queue: Duration::from_ms(queue_ms),
            loss,
        }
    }

    #[test]
    fn netem_is_told_what_tc_tells_it() {
        // What iproute2 6.1 sends for `netem limit 1048576 delay 5ms loss 1%`.
        let tc = b"\x2d\x31\x01\x00\x00\x00\x10\x00\x29\x5c\x8f\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
        assert_eq!(Qdisc::delay(shape(100, 20, 0.01)).options, tc);
    }

    /// What iproute2 sends, without what it sends for old kernels: the table, its cells, and the burst as a time.
    fn told(tc: &[u8]) -> Vec<u8> {
        let mut tc = tc.to_vec();
        tc[4] = 0;
        tc[8..10].fill(0);
        tc[32..36].fill(0);
        tc
    }

    #[test]
    fn tbf_is_told_what_tc_tells_it() {
        // `tbf rate 100mbit burst 3125 limit 250000 overhead 24`
        let tc = b"\x28\x00\x01\x00\x03\x01\x18\x00\xff\xff\x00\x00\x20\xbc\xbe\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x90\xd0\x03\x00\x42\x0f\x00\x00\x00\x00\x00\x00\x08\x00\x06\x00\x35\x0c\x00\x00";
        assert_eq!(Qdisc::rate(shape(100, 20, 0.0)).options, told(tc));
        // `tbf rate 40gbit burst 1250000 limit 100000000 overhead 24`
        let tc = b"\x28\x00\x01\x00\x03\x01\x18\x00\xff\xff\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xe1\xf5\x05\xc2\x11\x00\x00\x00\x00\x00\x00\x08\x00\x06\x00\xd0\x12\x13\x00\x0c\x00\x04\x00\x00\xf2\x05\x2a\x01\x00\x00\x00";
        assert_eq!(Qdisc::rate(shape(40_000, 20, 0.0)).options, told(tc));
    }

    #[test]
    fn a_link_that_is_down_is_a_hole_and_a_slow_one_has_room_for_packets() {
        assert_eq!(Qdisc::rate(shape(0, 20, 0.0)).kind, "blackhole");
        let slow = Qdisc::rate(shape(1, 0, 0.0)).options;
        assert_eq!(slow[28..32], 3028u32.to_le_bytes());
        assert_eq!(slow[44..48], 3028u32.to_le_bytes());
    }
}
