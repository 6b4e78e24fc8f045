//! [`Place`]: which rank of how many this process is, if a job launcher has started it.
//!
//! | launcher | rank | ranks | on this host |
//! | --- | --- | --- | --- |
//! | torchrun | `RANK` | `WORLD_SIZE` | `LOCAL_RANK` |
//! | mpirun (Open MPI) | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_SIZE` | `OMPI_COMM_WORLD_LOCAL_RANK` |
//! | mpirun (MPICH, Intel MPI) | `PMI_RANK` | `PMI_SIZE` | `MPI_LOCALRANKID` |
//! | srun | `SLURM_PROCID` | `SLURM_NTASKS` | `SLURM_LOCALID` |
//!
//! A batch script of Slurm has the last ones too, and is no rank: srun alone sets `SLURM_STEP_ID`.

use crate::LiveError;

/// A process's place in a job, as its launcher says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub launcher: &'static str,
    pub rank: u32,
    pub ranks: u32,
    pub local_rank: u32,
}

/// A launcher's variables: its name, one that must be there, rank, ranks, and the rank on this host.
type Variables = (&'static str, &'static str, [&'static str; 3]);

const LAUNCHERS: [Variables; 4] = [
    ("torchrun", "LOCAL_RANK", ["RANK", "WORLD_SIZE", "LOCAL_RANK"]),
    (
        "mpirun",
        "OMPI_COMM_WORLD_RANK",
        ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    ),
    ("mpirun", "MPI_LOCALRANKID", ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"]),
    ("srun", "SLURM_STEP_ID", ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"]),
];

/// The place of this process; none if no launcher has started it, or only it. `get` reads the environment.
///
/// # Errors
/// When a launcher's variables make no sense together.
pub fn place(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Place>, LiveError> {
    let Some((launcher, _, names)) = LAUNCHERS.into_iter().find(|it| get(it.1).is_some()) else {
        return Ok(None);
    };
    let number = |name: &str| -> Result<u32, LiveError> {
        let text = get(name).unwrap_or_default();
        text.parse().map_err(|_| {
            LiveError::Environment(format!(
                "{launcher} should set {name} to a number, and it is `{text}`; give `--ranks` to start \
                 ranks on this machine instead"
            ))
        })
    };
    let [rank, ranks, local_rank] = names;
    let (rank, ranks, local_rank) = (number(rank)?, number(ranks)?, number(local_rank)?);
    if rank >= ranks {
        let problem = format!("{launcher} says that this is rank {rank} of {ranks}");
        return Err(LiveError::Environment(problem));
    }
    Ok((ranks > 1).then_some(Place { launcher, rank, ranks, local_rank }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<Place>, LiveError> {
        place(&|name| variables.iter().find(|it| it.0 == name).map(|it| it.1.to_owned()))
    }

    #[test]
    fn every_launcher_is_known_by_its_variables() {
        for (launcher, sign, [rank, ranks, local]) in LAUNCHERS {
            let mut variables = vec![(rank, "5"), (ranks, "16"), (local, "1")];
            if ![rank, ranks, local].contains(&sign) {
                variables.push((sign, "0"));
            }
            let place = of(&variables).unwrap();
            assert_eq!(place, Some(Place { launcher, rank: 5, ranks: 16, local_rank: 1 }));
        }
        let script = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "16"), ("SLURM_LOCALID", "0")];
        assert_eq!(of(&script).unwrap(), None, "a batch script is no rank");
        assert_eq!(of(&[]).unwrap(), None);
        let alone = [("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")];
        assert_eq!(of(&alone).unwrap(), None);
        let wrong = [("RANK", "4"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "0")];
        assert!(of(&wrong).is_err());
        let error = of(&[("RANK", "x"), ("LOCAL_RANK", "0")]).unwrap_err().to_string();
        assert!(error.contains("torchrun should set RANK") && error.contains("--ranks"), "{error}");
    }
}
