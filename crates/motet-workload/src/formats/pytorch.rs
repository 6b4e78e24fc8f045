//! PyTorch's words for collectives and for types of numbers, which Kineto traces and execution traces both
//! use.

use motet_collective::CollectiveKind;

/// What PyTorch calls a communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Collective(CollectiveKind),
    Send,
    Receive,
}

/// The communication with a name such as `_allgather_base`, `all_to_allv`,
/// `ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL` or `c10d::allreduce_`. Longer words are looked for first,
/// because they contain the shorter ones.
pub(super) fn told(name: &str) -> Option<Told> {
    use CollectiveKind::{
        AllGather, AllReduce, AllToAll, AllToAllV, Broadcast, Gather, Reduce, ReduceScatter,
        Scatter, SendRecv,
    };
    let letters = name.chars().filter(char::is_ascii_alphabetic);
    let plain: String = letters.map(|it| it.to_ascii_lowercase()).collect();
    let words = [
        ("alltoallv", AllToAllV),
        ("alltoall", AllToAll),
        ("allgather", AllGather),
        ("reducescatter", ReduceScatter),
        ("allreduce", AllReduce),
        // PyTorch's barrier is an AllReduce of one number.
        ("barrier", AllReduce),
        ("broadcast", Broadcast),
        ("sendrecv", SendRecv),
        ("gather", Gather),
        ("scatter", Scatter),
        ("reduce", Reduce),
    ];
    let found = words.into_iter().find(|(word, _)| plain.contains(word));
    match found {
        Some((_, kind)) => Some(Told::Collective(kind)),
        None if plain.contains("send") => Some(Told::Send),
        None if plain.contains("recv") => Some(Told::Receive),
        None => None,
    }
}

/// Bytes per number of a type, which is named as in PyTorch (`BFloat16`) or in C (`c10::BFloat16`, `long
/// int`).
pub(super) fn element_bytes(name: &str) -> Option<u64> {
    let short = name.rsplit("::").next().unwrap_or(name).to_ascii_lowercase();
    Some(match short.as_str() {
        "byte" | "char" | "bool" | "uint8" | "int8" | "unsigned char" | "signed char" => 1,
        "half" | "bfloat16" | "float16" | "short" | "int16" | "uint16" => 2,
        "float" | "int" | "float32" | "int32" | "uint32" | "unsigned int" => 4,
        "double" | "long" | "float64" | "int64" | "uint64" | "long int" | "complexfloat"
        | "complex64" => 8,
        "complexdouble" | "complex128" => 16,
        it if it.starts_with("float8") => 1,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use CollectiveKind::{AllGather, AllReduce, AllToAllV, ReduceScatter, SendRecv};

    #[test]
    fn names_are_told() {
        let of = |kind| Some(Told::Collective(kind));
        assert_eq!(told("_allgather_base"), of(AllGather));
        assert_eq!(told("all_to_allv"), of(AllToAllV));
        assert_eq!(told("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(args)"), of(ReduceScatter));
        assert_eq!(told("c10d::allreduce_"), of(AllReduce));
        assert_eq!(told("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"), of(SendRecv));
        assert_eq!((told("send"), told("recv")), (Some(Told::Send), Some(Told::Receive)));
        assert_eq!(told("wait"), None);
        assert_eq!(element_bytes("c10::BFloat16"), Some(2));
        assert_eq!(element_bytes("Float8_e4m3fn"), Some(1));
        assert_eq!(element_bytes("quint4x2"), None);
    }
}
