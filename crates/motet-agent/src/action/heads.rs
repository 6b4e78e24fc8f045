//! [`Head`]: the decisions that an action is made of, in the order in which a policy makes them, and
//! [`Coordinates`]: an action as the number of the value chosen at each.
//!
//! The path is the outermost head; then come NCCL's knobs, then the reserved slots. Value 0 of every head is
//! the one that changes nothing, so that the row of zeros is [`Action::DEFAULT`].

use motet_nccl::{Algorithm, Protocol};
use motet_units::Bytes;

use super::{Action, Extensions};
use crate::words::category;

category! {
    /// What carries the collective out.
    Path {
        Nccl = "nccl",
        /// Switches that reduce in the network by themselves.
        Passthrough = "in-network",
        /// A synthesized program.
        Program = "program",
    }
}

category! {
    /// The order in which rings and trees visit ranks.
    Order { AsGiven = "as-given", ByTier = "by-tier", AroundFaults = "around-faults" }
}

category! {
    /// Whether knobs are the same at all levels of a network.
    Levels { Whole = "whole", Each = "each" }
}

category! {
    /// One of the decisions that an action consists of.
    Head {
        Path = "path",
        Algorithm = "algorithm",
        Protocol = "protocol",
        Channels = "channels",
        Threads = "threads",
        Chunk = "chunk",
        NicStripe = "nic_stripe",
        PipelineDepth = "pipeline_depth",
        Order = "order",
        Levels = "levels",
    }
}

/// The most channels that an action can ask for: the limit of the design-space analysis, and the most that
/// NCCL's searches find.
pub const MOST_CHANNELS: u32 = 32;
/// The thread counts that the design-space analysis lists.
pub const THREADS: [u32; 4] = [64, 128, 256, 512];
/// Chunk sizes: powers of two from 4 KiB, the least that our plugin asks for, to 2 MiB, what a slot of NCCL's
/// default buffers holds.
pub const CHUNKS: [Bytes; 10] = {
    let mut chunks = [Bytes::ZERO; 10];
    let mut at = 0;
    while at < chunks.len() {
        chunks[at] = Bytes::kib(4 << at);
        at += 1;
    }
    chunks
};
/// The values of NIC striping and of pipeline depth.
pub const FACTORS: [u32; 4] = [1, 2, 4, 8];

impl Head {
    pub const COUNT: usize = 10;

    /// How many values it has.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Path => Path::ALL.len(),
            Self::Algorithm => 1 + Algorithm::COUNT,
            Self::Protocol => 1 + Protocol::COUNT,
            Self::Channels => 1 + MOST_CHANNELS as usize,
            Self::Threads => 1 + THREADS.len(),
            Self::Chunk => 1 + CHUNKS.len(),
            Self::NicStripe | Self::PipelineDepth => FACTORS.len(),
            Self::Order => Order::ALL.len(),
            Self::Levels => Levels::ALL.len(),
        }
    }

    /// The name of one of its values.
    #[must_use]
    pub fn value(self, at: usize) -> Option<String> {
        let after_own = at.checked_sub(1);
        let own = |name: Option<String>| if at == 0 { Some("own".to_owned()) } else { name };
        let of = |it: Option<&u32>| it.map(ToString::to_string);
        match self {
            Self::Path => Path::ALL.get(at).map(ToString::to_string),
            Self::Algorithm => {
                own(after_own.and_then(|it| Algorithm::ALL.get(it)).map(ToString::to_string))
            }
            Self::Protocol => {
                own(after_own.and_then(|it| Protocol::ALL.get(it)).map(ToString::to_string))
            }
            Self::Channels => own((at <= MOST_CHANNELS as usize).then(|| at.to_string())),
            Self::Threads => own(of(after_own.and_then(|it| THREADS.get(it)))),
            Self::Chunk => own(after_own.and_then(|it| CHUNKS.get(it)).map(ToString::to_string)),
            Self::NicStripe | Self::PipelineDepth => of(FACTORS.get(at)),
            Self::Order => Order::ALL.get(at).map(ToString::to_string),
            Self::Levels => Levels::ALL.get(at).map(ToString::to_string),
        }
    }
}

/// The number of the value chosen at each head.
pub type Coordinates = [u8; Head::COUNT];

fn place<T: PartialEq>(all: &[T], value: &T) -> Option<u8> {
    u8::try_from(all.iter().position(|it| it == value)?).ok()
}

/// Encodes an optional value: 0 for `None`, otherwise its index plus one.
fn optional<T: PartialEq>(all: &[T], value: Option<&T>) -> Option<u8> {
    match value {
        None => Some(0),
        Some(value) => Some(place(all, value)? + 1),
    }
}

impl Action {
    /// The index of its value at each head; `None` if a head does not have the value.
    #[must_use]
    pub fn coordinates(&self) -> Option<Coordinates> {
        let channels = match self.channels {
            None => 0,
            Some(it) if (1..=MOST_CHANNELS).contains(&it) => u8::try_from(it).ok()?,
            Some(_) => return None,
        };
        let Extensions { nic_stripe, pipeline_depth, order, levels } = self.extensions;
        Some([
            place(Path::ALL, &self.path)?,
            optional(&Algorithm::ALL, self.algorithm.as_ref())?,
            optional(&Protocol::ALL, self.protocol.as_ref())?,
            channels,
            optional(&THREADS, self.threads.as_ref())?,
            optional(&CHUNKS, self.chunk.as_ref())?,
            place(&FACTORS, &nic_stripe)?,
            place(&FACTORS, &pipeline_depth)?,
            place(Order::ALL, &order)?,
            place(Levels::ALL, &levels)?,
        ])
    }

    /// The action with these indices; `None` if one is out of range.
    #[must_use]
    pub fn from_coordinates(coordinates: &Coordinates) -> Option<Self> {
        fn one<T: Copy>(all: &[T], at: u8) -> Option<T> {
            all.get(usize::from(at)).copied()
        }
        /// Decodes an index made by `optional`; `Some(None)` leaves the value to NCCL.
        fn chosen<T: Copy>(all: &[T], at: u8) -> Option<Option<T>> {
            match at.checked_sub(1) {
                None => Some(None),
                Some(at) => one(all, at).map(Some),
            }
        }
        let [path, algorithm, protocol, channels, threads, chunk, stripe, depth, order, levels] =
            *coordinates;
        let channels = u32::from(channels);
        Some(Self {
            path: one(Path::ALL, path)?,
            algorithm: chosen(&Algorithm::ALL, algorithm)?,
            protocol: chosen(&Protocol::ALL, protocol)?,
            channels: match channels {
                0 => None,
                1..=MOST_CHANNELS => Some(channels),
                _ => return None,
            },
            threads: chosen(&THREADS, threads)?,
            chunk: chosen(&CHUNKS, chunk)?,
            extensions: Extensions {
                nic_stripe: one(&FACTORS, stripe)?,
                pipeline_depth: one(&FACTORS, depth)?,
                order: one(Order::ALL, order)?,
                levels: one(Levels::ALL, levels)?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value of every head comes back, has a name of its own, and there is none beyond.
    #[test]
    fn values_round_trip() {
        assert_eq!(Head::ALL.len(), Head::COUNT);
        assert_eq!(Action::DEFAULT.coordinates(), Some([0; Head::COUNT]));
        for head in Head::ALL {
            let mut names: Vec<String> = Vec::new();
            for at in 0..head.size() {
                let mut coordinates = [0; Head::COUNT];
                coordinates[head.index()] = u8::try_from(at).unwrap();
                let action = Action::from_coordinates(&coordinates).unwrap();
                assert_eq!(action.coordinates(), Some(coordinates), "{head} {at}");
                names.push(head.value(at).unwrap());
            }
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), head.size(), "{head}");
            let mut beyond = [0; Head::COUNT];
            beyond[head.index()] = u8::try_from(head.size()).unwrap();
            assert_eq!(Action::from_coordinates(&beyond), None, "{head}");
            assert_eq!(head.value(head.size()), None, "{head}");
        }
    }

    /// 6 × 3 × 32 × 4 in the text; PAT makes it 7, and NCCL's own choice is a value more at each head.
    #[test]
    fn the_raw_space_is_the_texts_and_pat() {
        let size = |it: Head| it.size() - 1;
        let raw = size(Head::Algorithm) * size(Head::Protocol) * size(Head::Channels);
        assert_eq!(raw * size(Head::Threads), 2304 / 6 * 7);
        assert_eq!((CHUNKS[0], CHUNKS[9]), (Bytes::kib(4), Bytes::mib(2)));
    }
}
