//! Frames in batches, and which streams take pieces of data.

use super::*;

/// Both ends of a connection, of ranks 0 and 1.
fn ends() -> [Stream; 2] {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    [(near, 1), (far, 0)].map(|(socket, other)| {
        socket.set_nonblocking(true).unwrap();
        let socket = Socket::new(mio::net::TcpStream::from_std(socket), None);
        Stream::new(socket, other, true, Instant::from_ps(0))
    })
}

/// However much the system takes or gives at once, and whatever the sizes, frames come whole and in order.
#[test]
fn frames_written_at_once_come_one_by_one() {
    let [mut near, mut far] = ends();
    let now = Instant::from_ps(1);
    let mut flows = [Flow::new(0, 2, 1 << 20), Flow::new(1, 2, 1 << 20)];
    // Smaller and larger than a batch and than what is read at once; in all more than a socket takes. Data of a call that is not made
    // yet, because other frames are short.
    let sizes = [20_000, 2, 70_000, 1, 33_000, 8_191, 8_192, 8_193, 300_000, 40, 130_000];
    let payload = |it: usize| vec![it as u8; sizes[it % sizes.len()]];
    let count = 40 * sizes.len();
    for it in 0..count {
        let header = Header { operation: 1, offset: it as u64, ..Header::new(Kind::Data) };
        flows[0].tell_all(header, &payload(it));
    }
    let (mut came, mut most) = (Vec::new(), 0);
    while came.len() < count {
        near.can_write = true;
        near.send(&mut flows[0], Takes::Controls, TURN, now).unwrap();
        most = most.max(near.outbound.len());
        far.can_read = true;
        far.receive(&mut flows[1], now, &mut Mail::new()).unwrap();
        came.extend(flows[1].take_early(0));
    }
    // A socket that was full had several left.
    assert!((2..=AT_ONCE).contains(&most), "{most}");
    assert!(near.outbound.is_empty() && far.inbox.unread().is_empty());
    for (it, (header, came)) in came.iter().enumerate() {
        assert_eq!((header.offset, came.bytes() == payload(it)), (it as u64, true), "{it}");
    }
}

/// A stream that has delivered 10 KB in 10 ms, and has 90 KB more to deliver.
fn slow() -> Stream {
    let at = |ms: u64| Instant::from_ps(ms * 1_000_000_000);
    let [mut it, _] = ends();
    it.pace.wrote(101_000, at(0));
    it.pace.note(100_000, true, at(10));
    it.pace.note(90_000, true, at(20));
    assert_eq!(it.pace.rate(), Some(1e6));
    it
}

#[test]
fn one_on_trial_has_enough_to_send_to_become_faster() {
    let now = Instant::from_ps(20_000_000_000);
    let share = Share { rate: 8e7, best: 1e7, others: 8, ..Share::default() };
    let on_trial = Share { on_trial: true, ..share };
    // The others have 120 ms to do, and it has 90 already: not one more piece, unless it is on trial.
    let piece = 64 << 10;
    assert!(!slow().pays(&share, piece, 9_600_000, now));
    assert!(slow().pays(&on_trial, piece, 9_600_000, now));
    // Near the end the call would wait for it.
    assert!(!slow().pays(&on_trial, piece, 4_800_000, now));
    assert_eq!([9_600_000, 4_800_000].map(|it| slow().is_fed(&on_trial, it)), [true, false]);
    // One that is not slow goes on to the end.
    assert!(slow().is_fed(&Share { best: 5e6, ..on_trial }, 1));
}

#[test]
fn a_slow_one_is_tried_only_while_the_others_have_enough_to_do() {
    let at = |ms: u64| Instant::from_ps(ms * 1_000_000_000);
    let share = Share { rate: 8e7, best: 1e7, others: 8, ..Share::default() };
    let piece = 16 << 10;
    // It delivers what it has at its rate, so that it has nothing left.
    let idle = || {
        let mut it = slow();
        (3..12).for_each(|ten| it.pace.note(10_000 * (11 - ten), true, at(10 * ten)));
        assert_eq!((it.pace.backlog(), it.pace.rate()), (0.0, Some(1e6)));
        it
    };
    // The others have 120 ms to do, then 60, and it has to deliver for 90.
    let mut it = idle();
    assert!(it.pays(&share, piece, 9_600_000, at(110)));
    it.pace.wrote(90_000, at(110));
    assert!(it.pays(&share, piece, 9_600_000, at(110)));
    assert!(!it.pays(&share, piece, 4_800_000, at(110)));
    // If there is always little to send, it is tried once it has taken nothing for long, and to the end.
    let mut it = idle();
    assert!(!it.pays(&share, piece, 800_000, at(110)) && it.pays(&share, piece, 800_000, at(250)));
    it.pace.wrote(16_000, at(250));
    assert!(it.pays(&share, piece, 800_000, at(250)));
}

#[test]
fn none_takes_what_it_would_deliver_long_after_the_others() {
    let now = Instant::from_ps(20_000_000_000);
    let piece = 64 << 10;
    // As fast as the others, it has to deliver for 90 ms.
    let alike = Share { rate: 8e6, best: 1e6, others: 8, ..Share::default() };
    assert!(slow().pays(&alike, piece, 300_000, now));
    assert!(!slow().pays(&alike, piece, 260_000, now));
    // Not so one that has nothing to deliver: all may be as slow, and none would take what is left.
    let mut idle = slow();
    idle.pace.note(0, false, Instant::from_ps(1_000_000_000_000));
    assert!(idle.pays(&alike, piece, 16 << 10, now));
    // Nothing is known of the others, or it is alone.
    assert!(slow().pays(&Share { rate: 0.0, ..alike }, piece, 0, now));
}

#[test]
fn pieces_become_smaller_towards_the_end() {
    let share = Share { rate: 7.0 * 25e6, others: 7, ..Share::default() };
    let piece = |rate, left| piece_of(rate, &share, 256 << 10, left) >> 10;
    // 200 Mbit/s: 4 ms are 98 KiB.
    let sizes = [16 << 20, 6 << 20, 4 << 20, 2 << 20, 0].map(|it| piece(Some(25e6), it));
    assert_eq!(sizes, [256, 192, 128, 96, 96]);
    assert_eq!((piece(Some(1e3), 1 << 20), piece(Some(1e12), 0)), (16, 256));
    // One of a third of the rate takes a third of the bytes.
    assert_eq!(piece(Some(25e6 / 3.0), 16 << 20), 176);
    // Unknown, or much slower than the others.
    assert_eq!(piece(None, 16 << 20), 64);
    // One that goes alone has nobody to wait for.
    assert_eq!(piece_of(Some(1e3), &Share::default(), 250_000, 0), 250_000);
}
