//! `motet nccl-rank`, which no user types: one rank of `--backend nccl`.

use std::net::TcpStream;

use motet_live::rank::{Identified, serve};

use super::failure;
use crate::args::live::RankArgs;
use crate::failure::{Failure, Status};

pub(crate) fn run(args: &RankArgs) -> Result<Status, Failure> {
    let text = |name| std::env::var(name).ok();
    let number = |name| text(name)?.parse::<u32>().ok();
    let (Some(rank), Some(ranks), Some(local_rank), Some(driver), Some(token), Some(control)) = (
        number("MOTET_RANK"),
        number("MOTET_RANKS"),
        number("MOTET_LOCAL_RANK"),
        text("MOTET_DRIVER"),
        text("MOTET_TOKEN"),
        text("MOTET_CONTROL"),
    ) else {
        return Err(Failure::unreadable("a rank is started by `--backend nccl`, not by hand")
            .with_remedy("use `motet bench --backend nccl` or `motet plan --backend nccl`"));
    };
    let connection = TcpStream::connect(&driver)
        .map_err(|it| Failure::unreadable(format!("the driver at {driver} is not there: {it}")))?;
    let who = Identified {
        rank,
        ranks,
        local_rank,
        library: args.nccl_lib.clone(),
        control: control.into(),
    };
    serve(who, &token, connection).map_err(|it| failure(&it))?;
    Ok(Status::Done)
}
