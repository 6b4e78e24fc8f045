//! The tables of §10.1 and §10.2 (synchronization and compression by tier) and Fig. 13 (where knobs matter),
//! cell by cell in the text's words.
//!
//! The agent changes neither synchronization nor compression; the tables say which states are plausible, so
//! that scenarios for training draw no others. Tier 0 lies inside one GPU and has no column.

use motet_net::Tier;
use motet_workload::Compression;

use crate::state::{Packing, Synchrony, Workload};
use crate::words::category;

category! {
    /// How something suits a tier: the words of the tables.
    Suit {
        Infeasible = "infeasible",
        Bad = "bad",
        Wasted = "wasted",
        Unused = "unused",
        /// The text leaves the cell empty.
        NotSaid = "--",
        Rare = "rare",
        Barely = "barely",
        Ok = "ok",
        Useful = "useful",
        Good = "good",
        Important = "important",
        Optimal = "optimal",
        Mandatory = "mandatory",
    }
}

impl Suit {
    /// Whether it occurs in practice: not if it is infeasible, bad, wasted, unused or not said.
    #[must_use]
    pub const fn is_plausible(self) -> bool {
        !matches!(self, Self::Infeasible | Self::Bad | Self::Wasted | Self::Unused | Self::NotSaid)
    }

    /// How often scenarios draw it, as a weight from 0 to 1. The words are the text's, the numbers ours.
    #[must_use]
    pub const fn weight(self) -> f64 {
        match self {
            Self::Infeasible | Self::Bad | Self::Wasted | Self::Unused | Self::NotSaid => 0.0,
            Self::Rare | Self::Barely => 0.1,
            Self::Ok => 0.4,
            Self::Useful => 0.6,
            Self::Good | Self::Important => 0.8,
            Self::Optimal | Self::Mandatory => 1.0,
        }
    }
}

/// Tiers 1 to 4.
type PerTier<T> = [T; 4];

fn cell<T: Copy>(row: &PerTier<T>, tier: Tier) -> Option<T> {
    row.get(tier.index().checked_sub(1)?).copied()
}

/// §10.1: how a way to synchronize suits a tier; `None` at tier 0.
#[must_use]
pub fn sync(synchrony: Synchrony, tier: Tier) -> Option<Suit> {
    use Suit::{Barely, Good, Important, Infeasible, Mandatory, NotSaid, Ok, Optimal, Rare};
    use Suit::{Unused, Useful};
    let row = match synchrony {
        Synchrony::Bsp => [Optimal, Good, Ok, Infeasible],
        Synchrony::Stale => [Barely, Good, Good, Ok],
        Synchrony::Async => [Unused, Unused, Ok, Rare],
        Synchrony::Local => [Barely, Useful, Important, Mandatory],
        Synchrony::Decentralized => [Unused, Rare, Rare, Useful],
        Synchrony::Hybrid => [NotSaid, Useful, Important, Important],
    };
    cell(&row, tier)
}

category! {
    /// The rows of §10.2.
    Packed {
        None = "none (fp32)",
        Bits16 = "16-bit",
        Bits8 = "8-bit",
        OneBit = "1-bit + EF",
        TopK = "top-k",
        Cocktail = "CocktailSGD",
    }
}

impl Packed {
    /// The table row for a workload; `None` if the table has none.
    #[must_use]
    pub const fn of(workload: &Workload) -> Option<Self> {
        match (workload.packing, workload.bits) {
            (Packing::None, _) => Some(Self::None),
            (Packing::Quantized, 9..=16) => Some(Self::Bits16),
            (Packing::Quantized, 2..=8) => Some(Self::Bits8),
            (Packing::Quantized, 1) | (Packing::Sign, _) => Some(Self::OneBit),
            (Packing::TopK, _) => Some(Self::TopK),
            (Packing::Combined, _) => Some(Self::Cocktail),
            _ => None,
        }
    }
}

impl From<Compression> for Packed {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::None,
            Compression::Fp16 => Self::Bits16,
            Compression::Int8 { .. } => Self::Bits8,
            Compression::TopK { .. } => Self::TopK,
        }
    }
}

/// §10.2: how a way to compress suits a tier; `None` at tier 0.
#[must_use]
pub fn compression(packed: Packed, tier: Tier) -> Option<Suit> {
    use Suit::{Bad, Good, Infeasible, Mandatory, Ok, Optimal, Rare, Useful, Wasted};
    let row = match packed {
        Packed::None => [Optimal, Good, Bad, Infeasible],
        Packed::Bits16 => [Wasted, Good, Good, Bad],
        Packed::Bits8 => [Wasted, Ok, Good, Ok],
        Packed::OneBit => [Wasted, Ok, Good, Useful],
        Packed::TopK => [Wasted, Rare, Good, Mandatory],
        Packed::Cocktail => [Wasted, Rare, Useful, Mandatory],
    };
    cell(&row, tier)
}

category! {
    /// How much the agent's decisions matter.
    Heat {
        /// The text leaves the cell empty.
        NotSaid = "--",
        /// NCCL is hardly used there, or there is nothing to choose.
        Cold = "cold",
        /// They matter within limits.
        Warm = "warm",
        Hot = "hot",
    }
}

category! {
    /// The columns of Fig. 13.
    Mode {
        AllReduceBsp = "AR sync BSP",
        LocalSgd = "AR Local SGD",
        ParameterServer = "PS async",
        Gossip = "Gossip D-PSGD",
        ThreeD = "3D-parallel",
    }
}

/// Fig. 13: how much knobs matter at a tier; `None` at tier 0.
#[must_use]
pub fn heat(mode: Mode, tier: Tier) -> Option<Heat> {
    use Heat::{Cold, Hot, NotSaid, Warm};
    let row = match mode {
        Mode::AllReduceBsp => [Hot, Hot, Warm, Cold],
        Mode::LocalSgd => [Hot, Hot, Hot, Hot],
        Mode::ParameterServer => [NotSaid, Cold, Cold, Cold],
        Mode::Gossip => [NotSaid, Cold, Warm, Cold],
        Mode::ThreeD => [Hot, Hot, Hot, Warm],
    };
    cell(&row, tier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(it: u8) -> Tier {
        Tier::new(it).unwrap()
    }

    /// The tables' last column says at which tiers each way wins; the cells must agree with it.
    #[test]
    fn winners_are_plausible_where_they_win() {
        let synchronies = [
            (Synchrony::Bsp, 1..=2),
            (Synchrony::Stale, 2..=3),
            (Synchrony::Async, 3..=4),
            (Synchrony::Local, 2..=4),
            (Synchrony::Decentralized, 4..=4),
            (Synchrony::Hybrid, 2..=4),
        ];
        assert_eq!(synchronies.len(), Synchrony::ALL.len());
        for (it, wins) in synchronies {
            assert!(wins.clone().all(|at| sync(it, tier(at)).unwrap().is_plausible()), "{it}");
            assert_eq!(sync(it, tier(0)), None);
        }
        let packings = [
            (Packed::None, 1..=2),
            (Packed::Bits8, 2..=3),
            (Packed::OneBit, 3..=4),
            (Packed::TopK, 3..=4),
            (Packed::Cocktail, 4..=4),
        ];
        for (it, wins) in packings {
            assert!(wins.clone().all(|at| compression(it, tier(at)).unwrap().is_plausible()));
        }
        // "comp=fp16@tier<=3", though the cell of tier 1 says wasted: the cell counts.
        assert_eq!(compression(Packed::Bits16, tier(1)), Some(Suit::Wasted));
    }

    /// What the text insists on.
    #[test]
    fn bsp_without_compression_ends_at_the_datacenter() {
        assert_eq!(sync(Synchrony::Bsp, tier(4)), Some(Suit::Infeasible));
        assert_eq!(compression(Packed::None, tier(4)), Some(Suit::Infeasible));
        assert_eq!(sync(Synchrony::Local, tier(4)), Some(Suit::Mandatory));
        assert_eq!(heat(Mode::AllReduceBsp, tier(4)), Some(Heat::Cold));
        assert_eq!(heat(Mode::LocalSgd, tier(4)), Some(Heat::Hot));
        assert_eq!(heat(Mode::AllReduceBsp, tier(1)), Some(Heat::Hot));
        assert_eq!(heat(Mode::Gossip, tier(0)), None);
    }

    #[test]
    fn weights_follow_the_words() {
        for suit in Suit::ALL {
            assert_eq!(suit.is_plausible(), suit.weight() > 0.0, "{suit}");
        }
        assert!(Suit::ALL.windows(2).all(|it| it[0].weight() <= it[1].weight()));
    }

    #[test]
    fn workloads_fall_into_rows() {
        let of = |packing, bits| {
            Packed::of(&Workload { packing, bits, ..crate::state::State::BLANK.workload })
        };
        assert_eq!(of(Packing::None, 32), Some(Packed::None));
        assert_eq!(of(Packing::Quantized, 16), Some(Packed::Bits16));
        assert_eq!(of(Packing::Quantized, 4), Some(Packed::Bits8));
        assert_eq!(of(Packing::Sign, 1), Some(Packed::OneBit));
        assert_eq!(of(Packing::Combined, 8), Some(Packed::Cocktail));
        assert_eq!(of(Packing::Atomo, 32), None);
        assert_eq!(Packed::from(Compression::TopK { per_million: 1000 }), Packed::TopK);
    }
}
