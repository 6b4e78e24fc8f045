//! Link speeds and latencies where a file gives only the technology.
//!
//! - NVLink and Infinity Fabric (xGMI): the vendors' data-sheet rates, per link and direction. They
//!   are the ones that the templates have ([`builders`](crate::builders)), so that an H100 has
//!   18 × 25 = 450 GB/s whichever reader or template described it. NCCL itself counts less (20.6
//!   GB/s a link on an H100); that figure belongs to the model of NCCL, in `motet-nccl`.
//! - PCIe and CPU sockets: what NCCL assumes, which are usable rates rather than signalling rates.
//! - Latencies: our own, because no such file has any.

use motet_units::{Bandwidth, Duration};

/// GPU to GPU over one NVLink or xGMI connection.
pub(crate) const NVLINK_LATENCY: Duration = Duration::from_ns(700);
/// GPU to NVSwitch: two of them make a GPU-to-GPU path.
pub(crate) const NVSWITCH_LATENCY: Duration = Duration::from_ns(350);
/// One PCIe hop: four of them (up to the CPU and down again) make about a microsecond.
pub(crate) const PCIE_LATENCY: Duration = Duration::from_ns(250);
pub(crate) const SMP_LATENCY: Duration = Duration::from_ns(300);
pub(crate) const C2C_LATENCY: Duration = Duration::from_ns(300);

const MBIT: u64 = 1_000_000;

const fn mb_per_s(mb: u64) -> Bandwidth {
    Bandwidth::from_bits_per_s(mb * 8 * MBIT)
}

/// One NVLink of a GPU of compute capability `sm` (80 for 8.0), in one direction: 20 GB/s in
/// generation 1 (P100), 25 in generations 2 to 4 (V100, A100, H100), 50 in generation 5 (B200).
#[must_use]
pub fn nvlink(sm: Option<u32>) -> Bandwidth {
    match sm {
        Some(100..) => mb_per_s(50_000),
        // Ampere's workstation parts have four slower links, 56.25 GB/s together.
        Some(86..=89) => Bandwidth::from_bits_per_s(112_500_000_000),
        Some(60..=69) => mb_per_s(20_000),
        _ => mb_per_s(25_000),
    }
}

/// One xGMI link of an AMD GPU in one direction, by its `gcn` attribute (`906`, `gfx90a`, `910`,
/// `gfx942`…): 46 GB/s on the MI50 to MI100, 50 on the MI250, 64 on the MI300.
pub(crate) fn xgmi(gcn: Option<&str>) -> Bandwidth {
    let gcn = gcn.unwrap_or_default().trim_start_matches("gfx");
    match gcn.get(..2) {
        Some("94" | "95") => mb_per_s(64_000),
        // RCCL's older files call gfx90a "910".
        _ if gcn.starts_with("90a") || gcn == "910" => mb_per_s(50_000),
        _ => mb_per_s(46_000),
    }
}

/// A PCIe link from NCCL's `link_speed` ("16 GT/s", "32.0 GT/s PCIe", "") and `link_width`.
/// As NCCL does, an unknown speed counts as generation 3 and an unknown width as 16 lanes.
pub(crate) fn pcie(link_speed: Option<&str>, link_width: Option<&str>) -> Bandwidth {
    let number = link_speed.unwrap_or_default().split_whitespace().next().unwrap_or_default();
    // Usable Mbit/s per lane.
    let lane = match number.strip_suffix(".0").unwrap_or(number) {
        "2.5" => 1_500,
        "5" => 3_000,
        "16" => 12_000,
        "32" => 24_000,
        "64" => 48_000,
        _ => 6_000,
    };
    let width = link_width.and_then(|it| it.trim().parse::<u64>().ok());
    let width = width.filter(|it| (1..=64).contains(it)).unwrap_or(16);
    Bandwidth::from_bits_per_s(lane * width * MBIT)
}

/// What NCCL reads of a CPU to guess how fast its sockets talk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuModel<'a> {
    pub(crate) arch: Option<&'a str>,
    pub(crate) vendor: Option<&'a str>,
    pub(crate) family: Option<u32>,
    pub(crate) model: Option<u32>,
}

/// Between two sockets or NUMA nodes. An unknown CPU counts as a Skylake.
pub(crate) fn sockets(cpu: CpuModel<'_>) -> Bandwidth {
    let gb = match (cpu.arch, cpu.vendor) {
        (Some("ppc64" | "ppc64le"), _) => 32,
        (Some("arm64" | "aarch64"), _) => 6,
        (_, Some("AuthenticAMD")) => 16,
        (_, Some("GenuineIntel")) if cpu.family == Some(6) => match cpu.model {
            Some(0xcf..) => 40,
            Some(0x8f..) => 22,
            Some(0x55..) => 10,
            _ => 6,
        },
        (_, Some("GenuineIntel" | "CentaurHauls" | "  Shanghai  ")) => 6,
        _ => 10,
    };
    Bandwidth::gb_per_s(gb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pcie_generations() {
        for (speed, width, gb) in [
            ("8 GT/s", "16", 12),
            ("16 GT/s", "16", 24),
            ("16.0 GT/s PCIe", "8", 12),
            ("32.0 GT/s PCIe", "16", 48),
            ("64.0 GT/s PCIe", "16", 96),
            ("5 GT/s", "4", 1),
            ("", "0", 12),
            ("Unknown", "16", 12),
            ("Unknown speed", "255", 12),
        ] {
            let got = pcie(Some(speed), Some(width)).bits_per_s() / 8_000_000_000;
            assert_eq!(got, gb, "{speed} x{width}");
        }
        assert_eq!(pcie(Some("2.5 GT/s"), Some("1")), Bandwidth::from_bits_per_s(1_500_000_000));
        assert_eq!(pcie(None, None), Bandwidth::gb_per_s(12));
    }

    #[test]
    fn gpu_links() {
        assert_eq!(nvlink(Some(90)).saturating_mul(18).to_string(), "450 GB/s");
        assert_eq!(nvlink(Some(70)), Bandwidth::gb_per_s(25));
        assert_eq!(nvlink(Some(103)).saturating_mul(18).to_string(), "900 GB/s");
        assert_eq!(nvlink(Some(86)).saturating_mul(4).to_string(), "56.25 GB/s");
        assert_eq!(xgmi(Some("gfx942")), Bandwidth::gb_per_s(64));
        assert_eq!(xgmi(Some("940")), Bandwidth::gb_per_s(64));
        assert_eq!(xgmi(Some("910")), Bandwidth::gb_per_s(50));
        assert_eq!(xgmi(Some("906")), Bandwidth::gb_per_s(46));
        assert_eq!(xgmi(Some("é")), Bandwidth::gb_per_s(46));
    }

    #[test]
    fn cpu_sockets() {
        let intel = |model| {
            sockets(CpuModel {
                arch: Some("x86_64"),
                vendor: Some("GenuineIntel"),
                family: Some(6),
                model: Some(model),
            })
        };
        let gb = [79, 85, 143, 207].map(|it| intel(it).bits_per_s() / 8_000_000_000);
        assert_eq!(gb, [6, 10, 22, 40]);
        let amd = CpuModel { vendor: Some("AuthenticAMD"), ..CpuModel::default() };
        assert_eq!(sockets(amd), Bandwidth::gb_per_s(16));
    }
}
